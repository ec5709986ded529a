"""Derivatives of sampled functions by central differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import dtypes
from tensor.core.arguments import dimension
from tensor.core.base import TensorBase
from tensor.core.dtypes.scalars import is_number
from tensor.operations.definition import operation
from tensor.operations.shapes.joining import cat
from tensor.operations.shapes.slices import step_through

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor


@operation(method=False)
def gradient(
    input: Tensor, *, spacing: Any = 1, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Estimates of the derivatives along dimensions of a function sampled on a grid, exact to second order inside.

    Parameters
    ----------
    spacing : float, sequence of float, or sequence of Tensor
        Distances of neighbours, one or one for each dimension; or the coordinates ``(size of the dimension,)``
        for each.
    dim
        Dimensions; by default all.
    edge_order : {1, 2}
        Order of the estimates at the ends.

    Raises
    ------
    RuntimeError
        For bools and unsigned integers, another order, a dimension that is too short for it, or if there is not one
        spacing for each dimension, or coordinates have not its size.

    Examples
    --------
    >>> tensor.gradient(tensor.tensor([1.0, 4.0, 9.0, 16.0]))
    (tensor([3., 4., 6., 7.]),)
    """
    shape = input._layout.shape
    if input._layout.dtype in (dtypes.uint8, dtypes.bool_):
        raise RuntimeError(f"torch.gradient does not support {input._layout.dtype!r} input: convert it first")
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    one_dim = isinstance(dim, int)
    axes = list(range(len(shape))) if dim is None else [dim] if one_dim else list(dim)  # type: ignore[arg-type]
    axes = [dimension(axis, len(shape)) for axis in axes]
    if len(set(axes)) != len(axes):
        raise RuntimeError(f"torch.gradient: dim {dim} names a dimension twice")
    if spacing is None:
        spacing = 1
    if is_number(spacing):
        steps = [spacing] * len(axes)
    else:
        steps = [spacing] if isinstance(spacing, TensorBase) else list(spacing)
        if len(steps) != len(axes):
            raise RuntimeError(
                "torch.gradient expected spacing to be unspecified, a scalar, or a list of as many as there are "
                f"dimensions, {len(axes)}, got {len(steps)}"
            )
    for axis, step in zip(axes, steps, strict=True):
        if shape[axis] < edge_order + 1:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1, got "
                f"{shape[axis]} in dimension {axis}"
            )
        if isinstance(step, TensorBase) and step._layout.shape != (shape[axis],):
            raise RuntimeError(
                f"torch.gradient expected coordinates of shape ({shape[axis]},) for dimension {axis}, got "
                f"{tuple(step._layout.shape)}"
            )
    return tuple(
        _uneven(input, axis, step, edge_order)
        if isinstance(step, TensorBase)
        else _even(input, axis, step, edge_order)
        for axis, step in zip(axes, steps, strict=True)
    )


def _even(x: Any, axis: int, step: Any, order: int) -> Tensor:
    size = x._layout.shape[axis]

    def at(start: int, length: int) -> Any:
        return step_through(x, axis, start % size, length, 1)

    if order == 1:
        first, last = (at(1, 1) - at(0, 1)) / step, (at(-1, 1) - at(-2, 1)) / step
    else:
        first = (-1.5 * at(0, 1) + 2 * at(1, 1) - 0.5 * at(2, 1)) / step
        last = (0.5 * at(-3, 1) - 2 * at(-2, 1) + 1.5 * at(-1, 1)) / step
    inner = (at(2, size - 2) - at(0, size - 2)) / (2 * step) if size > 2 else at(0, 0)
    return cat((first, inner, last), axis)


def _uneven(x: Any, axis: int, positions: Any, order: int) -> Tensor:
    size, rank = x._layout.shape[axis], len(x._layout.shape)
    shape = [1] * rank
    shape[axis] = -1
    widths = (positions[1:] - positions[:-1]).view(shape)

    def at(start: int, length: int) -> Any:
        return step_through(x, axis, start % size, length, 1)

    def width(start: int, length: int) -> Any:
        return step_through(widths, axis, start % (size - 1), length, 1)

    if order == 1:
        first = (at(1, 1) - at(0, 1)) / width(0, 1)
        last = (at(-1, 1) - at(-2, 1)) / width(-1, 1)
    else:
        first = _through_three(at(0, 1), at(1, 1), at(2, 1), width(0, 1), width(1, 1))
        last = -_through_three(at(-1, 1), at(-2, 1), at(-3, 1), width(-1, 1), width(-2, 1))
    if size == 2:
        return cat((first, last), axis)
    left, right = width(0, size - 2), width(1, size - 2)
    inner = (
        -right / (left * (left + right)) * at(0, size - 2)
        + (right - left) / (left * right) * at(1, size - 2)
        + left / (right * (left + right)) * at(2, size - 2)
    )
    return cat((first, inner, last), axis)


def _through_three(a: Any, b: Any, c: Any, near: Any, far: Any) -> Any:
    """Slope at the first of three points of the parabola through them."""
    both = near + far
    return -(2 * near + far) / (near * both) * a + both / (near * far) * b - near / (far * both) * c
