"""Modules that make one dimension of several, and several of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .module import Module

if TYPE_CHECKING:
    from tensor import Size, Tensor


class Flatten(Module):
    """The dimensions from ``start_dim`` to ``end_dim``, both included, as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the same elements."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Dimension ``dim`` as several of sizes ``unflattened_size``, of which one may be -1.

    Raises
    ------
    TypeError
        If these are no integers.
    """

    def __init__(self, dim: int, unflattened_size: Size | list[int] | tuple[int, ...]) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(f"dim must be an int (names of dimensions are not supported), got {dim!r}")
        sizes: Any = unflattened_size
        if not isinstance(sizes, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(sizes).__name__}"
            )
        for place, each in enumerate(sizes):
            if not isinstance(each, int):
                raise TypeError(
                    f"unflattened_size must be tuple of ints, but found element of type {type(each).__name__} at pos "
                    f"{place}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the same elements."""
        return input.unflatten(self.dim, tuple(self.unflattened_size))

    def extra_repr(self) -> str:
        """Dimension and sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
