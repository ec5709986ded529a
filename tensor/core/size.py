"""``Size``: the shape of a tensor."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from nvrtc_kernels import printed_names

if TYPE_CHECKING:
    from collections.abc import Iterable


class Size(tuple[int, ...]):
    """A tuple of sizes, printed as ``tensor.Size([2, 3])``.

    Slices, sums and products of sizes are sizes too, as in PyTorch.

    >>> tensor.Size([2, 3]) + (4,)
    tensor.Size([2, 3, 4])

    Parameters
    ----------
    sizes : iterable of int
        The sizes.

    Raises
    ------
    TypeError
        If an element is not an integer.
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[SupportsIndex] = ()) -> Size:  # noqa: PYI034 - Self would lose the type
        argument = list(sizes)
        try:
            return tuple.__new__(cls, [size.__index__() for size in argument])
        except AttributeError:
            bad = next(size for size in argument if not hasattr(size, "__index__"))
            raise TypeError(
                f"Size() takes an iterable of int, found element of type {type(bad).__name__}"
            ) from None

    @classmethod
    def trusted(cls, sizes: Iterable[int]) -> Size:
        """A size of ``sizes``, numbers that are known to be ints: nothing is checked.

        For shapes that are computed from other shapes. ``Size(sizes)`` checks, and takes what has ``__index__``.
        """
        return tuple.__new__(cls, sizes)

    def numel(self) -> int:
        """Number of elements of a tensor of this shape: the product; 1 for no dimensions.

        >>> tensor.Size([2, 3]).numel()
        6
        """
        return prod(self)

    def __repr__(self) -> str:
        return f"{printed_names.library}.Size({list(self)})"

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Size: ...
    def __getitem__(self, index: Any) -> Any:
        result = tuple.__getitem__(self, index)
        return result if type(result) is int else Size.trusted(result)

    def __add__(self, other: tuple[int, ...]) -> Size:  # type: ignore[override]
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: tuple[int, ...]) -> Size:
        return Size(tuple(other) + tuple(self))

    def __mul__(self, count: SupportsIndex) -> Size:
        return Size(tuple.__mul__(self, count))

    __rmul__ = __mul__
