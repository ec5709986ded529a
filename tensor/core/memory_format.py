"""Memory formats: orders of dimensions in memory that have a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import layouts, printed_names

from .layout import Memo

if TYPE_CHECKING:
    from .layout import Layout


class memory_format:  # noqa: N801 - PyTorch's name
    """An order of dimensions in memory.

    There are ``tensor.contiguous_format``, ``tensor.preserve_format``, ``tensor.channels_last`` and
    ``tensor.channels_last_3d``.

    >>> tensor.zeros(1, 3, 4, 4).contiguous(memory_format=tensor.channels_last).stride()
    (48, 1, 12, 3)

    Attributes
    ----------
    name : str
        Printed as ``tensor.channels_last``.
    order : tuple of int or None
        Dimensions from the innermost outwards; ``None`` for row-major, or to keep what there is.
    """

    __slots__ = ("name", "order")

    def __init__(self, name: str, order: tuple[int, ...] | None = None) -> None:
        self.name = name
        self.order = order

    def __repr__(self) -> str:
        return f"{printed_names.library}.{self.name}"

    def layout(self, like: Layout) -> Layout:
        """The layout in this format with the shape, dtype and device of ``like``.

        Raises
        ------
        RuntimeError
            If the format is for another number of dimensions.
        """
        if self is preserve_format:
            return like.as_dense()
        if self.order is None:
            # Even an empty tensor, which is contiguous whatever its strides, gets those of its shape.
            return like.with_strides(like.shape, layouts.contiguous_strides(like.shape))
        if len(like.shape) != len(self.order):
            raise RuntimeError(
                f"required rank {len(self.order)} tensor to use {self.name} format, got rank {len(like.shape)}"
            )
        # Unlike those of row-major order, these strides of an empty tensor are products with its sizes of 0.
        strides, step = [0] * len(self.order), 1
        for dim in self.order:
            strides[dim] = step
            step *= like.shape[dim]
        return like.with_strides(like.shape, tuple(strides))

    def describes(self, layout: Layout) -> bool:
        """Whether elements that lie as ``layout`` says are in this format, without gaps.

        Dimensions of size 1 may have any stride. A format of 4 or 5 dimensions describes no layout with another number of them.
        """
        if self.order is None:
            return layout.contiguous
        if len(layout.shape) != len(self.order):
            return False
        strides, expected = layout.strides, self.layout(layout).strides
        return all(size == 1 or strides[dim] == expected[dim] for dim, size in enumerate(layout.shape))


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last", (1, 3, 2, 0))
channels_last_3d = memory_format("channels_last_3d", (1, 4, 3, 2, 0))


def format_of(argument: Any, function: str) -> memory_format:
    """``argument``, which must be a memory format.

    Raises
    ------
    TypeError
        If it is none.
    """
    if type(argument) is not memory_format:
        raise TypeError(
            f"{function}(): argument 'memory_format' must be tensor.memory_format, not {type(argument).__name__}"
        )
    return argument


def suggested(layout: Layout) -> memory_format:
    """The format that a tensor is taken to have: what its strides look like, gaps or not."""
    return _suggested[layout,]


def _format(layout: Layout) -> memory_format:
    for candidate in (channels_last, channels_last_3d):
        if candidate.order is not None and len(candidate.order) == len(layout.shape):
            return candidate if _resembles(layout, candidate.order) else contiguous_format
    return contiguous_format


def _resembles(layout: Layout, order: tuple[int, ...]) -> bool:
    """Whether strides grow in ``order``. Where sizes of 1 leave it open, elements count as row-major."""
    shape, strides = layout.shape, layout.strides
    if 0 in shape or strides[order[0]] == 0:
        return False
    least = 0
    for dim in order:
        if strides[dim] < least or (dim == order[-1] and least == strides[order[0]]):
            return False
        least = strides[dim] * shape[dim]
    return True


_suggested: Memo[memory_format] = Memo(_format)


class layout:  # noqa: N801 - PyTorch's name
    """How a tensor keeps its elements: ``tensor.strided``, or ``tensor.sparse_coo``, ``sparse_csr`` and ``sparse_csc``.

    It is printed with its ``name``.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{printed_names.library}.{self.name}"

    def __reduce__(self) -> str:
        return self.name


strided = layout("strided")
