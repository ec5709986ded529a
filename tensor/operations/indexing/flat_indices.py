"""Positions in flattened tensors as indices of each dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import int64
from tensor.core.arguments import integers
from tensor.core.base import check_tensor
from tensor.operations.definition import operation
from tensor.operations.shapes import joining, slices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor


@operation(method=False)
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Indices of each dimension of ``shape`` for positions in row-major order.

    Parameters
    ----------
    indices : Tensor
        Positions, integers of any shape.

    Returns
    -------
    tuple of Tensor
        For each dimension an int64 tensor of the shape of ``indices``.

    Raises
    ------
    TypeError
        If ``indices`` is not an integer tensor.
    ValueError
        If a size is negative.

    Examples
    --------
    >>> rows, columns = tensor.unravel_index(tensor.tensor([1, 5]), (2, 3))
    >>> rows
    tensor([0, 1])
    >>> columns
    tensor([1, 2])
    """
    check_tensor(indices, "unravel_index", "indices")
    dtype = indices._layout.dtype
    if dtype.is_floating_point or dtype.is_complex or dtype.name == "bool":
        raise TypeError(f"expected 'indices' to be an integer tensor, got {dtype!r}")
    sizes = integers((shape,), "unravel_index", "shape")
    if any(size < 0 for size in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {list(sizes)}")
    indices = indices.to(int64)
    result: list[Any] = []
    for size in reversed(sizes):
        result.append(indices.remainder(size))
        indices = indices.floor_divide(size)
    return slices.unbind(joining.stack(result[::-1], -1), -1) if result else ()
