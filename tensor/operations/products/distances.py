"""Distances between vectors: ``cdist``, ``pdist`` and ``dist``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import layouts
from tensor.core.base import check_tensor
from tensor.core.constants import device_constant
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise.arithmetic import MUL, REAL
from tensor.operations.pointwise.comparisons import GT
from tensor.operations.pointwise.selection import KEEP
from tensor.operations.pointwise_operation import Pointwise
from tensor.operations.reductions.variance import vector_norm
from tensor.operations.shapes import views
from tensor.operations.shapes.joining import cat

from .contractions import matmul

if TYPE_CHECKING:
    from tensor.core.devices.state import DeviceState
    from tensor.methods.tensor import Tensor

#: More rows than this go through a matrix product.
_FEW = 25
_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")

#: Square root of a square that rounding may have made negative; equal points have no direction, so 0 as derivative.
DISTANCE = Pointwise(
    "cdist",
    "sqrt(a > Compute(0) ? a : a == a ? Compute(0) : a)",
    lambda a: np.sqrt(np.maximum(a, 0)),
    categories=REAL,
    derivatives=(lambda grad, out: KEEP.binary(MUL.binary(grad, 0.5) / out, GT.binary(out, 0)),),
)


@operation(method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def cdist(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:
    """Distance of every row of ``x1`` to every row of ``x2``, for each batch.

    Parameters
    ----------
    x1, x2
        Floating point, of shapes ``(..., n, k)`` and ``(..., m, k)``; leading dimensions are broadcast.
    p
        Of the norm, from 0 (differences that are not zero are counted) to infinity.
    compute_mode
        Whether Euclidean distances may go through a matrix product, which is faster and rounds more: by
        default for more than 25 rows. Matrix products follow ``backends.cuda.matmul.allow_tf32``.

    Returns
    -------
    Tensor
        ``(..., n, m)``.

    Raises
    ------
    RuntimeError
        If the inputs differ in their last dimension, the dimensions before the last two cannot be broadcast together,
        devices differ, ``p`` is negative, or the mode is not known.

    Examples
    --------
    >>> tensor.cdist(tensor.tensor([[0.0, 0.0]]), tensor.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    for name, x in (("X1", x1), ("X2", x2)):
        check_tensor(x, "cdist", name.lower())
        if not x._layout.dtype.is_floating_point:
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {x._layout.dtype!r}")
        if len(x._layout.shape) < 2:
            raise RuntimeError(
                f"cdist only supports at least 2D tensors, {name} got: {len(x._layout.shape)}D"
            )
    if x1._layout.shape[-1] != x2._layout.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1._layout.shape[-1]} X2: {x2._layout.shape[-1]}"
        )
    if p < 0:
        raise RuntimeError(f"cdist only supports non-negative p values, got {p}")
    if compute_mode not in _MODES:
        raise ValueError(
            f"{compute_mode} is not a valid value for compute_mode: expected one of {', '.join(_MODES)}"
        )
    rows = max(x1._layout.shape[-2], x2._layout.shape[-2])
    product = compute_mode == _MODES[1] or (compute_mode == _MODES[0] and rows > _FEW)
    if p == 2 and product and x1._layout.shape[-1]:
        return DISTANCE.unary(_squares(x1, x2))
    difference: Any = views.unsqueeze(x1, -2) - views.unsqueeze(x2, -3)
    # Vectors without elements are all the same point.
    return vector_norm(difference, p, -1) if difference.shape[-1] else difference.sum(-1)


def _squares(x1: Tensor, x2: Tensor) -> Tensor:
    """``|a - b|^2 = |a|^2 - 2 a b + |b|^2``, as one product of rows with two more columns."""
    batch = layouts.broadcast_shapes(x1._layout.shape[:-2], x2._layout.shape[:-2])
    x1 = views.expand(x1, (*batch, *x1._layout.shape[-2:]))
    x2 = views.expand(x2, (*batch, *x2._layout.shape[-2:]))
    lengths1, lengths2 = (x.square().sum(-1, keepdim=True) for x in (x1, x2))
    left: Any = cat((x1 * -2, lengths1, lengths1.new_ones(lengths1._layout.shape)), -1)
    right: Any = cat((x2, lengths2.new_ones(lengths2._layout.shape), lengths2), -1)
    return matmul(left, views.transpose(right, -2, -1))


@operation(namespace="tensor nn.functional", method=False, autocast=Autocast(cuda=FLOAT32))
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Distance of every row to every later one: what ``cdist(input, input, p)`` has above its diagonal, row by row.

    Parameters
    ----------
    input
        Floating point, of shape ``(n, k)``.
    p
        Of the norm, from 0 (differences that are not zero are counted) to infinity.

    Returns
    -------
    Tensor
        ``(n * (n - 1) / 2,)``.

    Raises
    ------
    RuntimeError
        For another number of dimensions or another type, or if ``p`` is negative.

    Examples
    --------
    >>> tensor.pdist(tensor.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 4.0]]))
    tensor([5., 4., 3.])
    """
    check_tensor(input, "pdist", "input")
    layout = input._layout
    if len(layout.shape) != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {len(layout.shape)}D")
    if not layout.dtype.is_floating_point:
        raise RuntimeError(f"pdist only supports floating-point dtypes, got: {layout.dtype!r}")
    if p < 0:
        raise RuntimeError(f"pdist only supports non-negative p values, got {p}")
    x: Any = input
    one, other = (
        x.index_select(0, _half_of_pairs(layout.device_state, layout.shape[0], half)) for half in (0, 1)
    )
    return vector_norm(one - other, p, -1) if layout.shape[1] else (one - other).sum(-1)


def _half_of_pairs(device_state: DeviceState, rows: int, half: int) -> Tensor:
    """The first, or second, rows of all pairs."""
    return device_constant(device_state, ("pairs", rows, half), lambda: np.triu_indices(rows, 1)[half])


@operation(autocast=Autocast(cuda=FLOAT32))
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """``p``-norm of ``input - other``, which are broadcast: a 0-dim tensor. See :func:`tensor.linalg.vector_norm`.

    Raises
    ------
    RuntimeError
        If shapes do not broadcast, devices differ, or the dtype is neither floating nor complex.

    Examples
    --------
    >>> tensor.dist(tensor.tensor([0.0, 0.0]), tensor.tensor([3.0, 4.0]))
    tensor(5.)
    >>> tensor.dist(tensor.tensor([0.0, 0.0]), tensor.tensor([3.0, 4.0]), p=1)
    tensor(7.)
    """
    return vector_norm(input - other, p)
