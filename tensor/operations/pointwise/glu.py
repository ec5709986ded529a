"""The gated linear unit: one half of a tensor times the sigmoid of the other; one kernel forward, two backward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import Category
from tensor.autograd.recording.recorder import BackwardFormula, Composition, Derivative
from tensor.core.arguments import dimension
from tensor.core.modes.grad_mode import unrecorded
from tensor.operations.creation.like import empty_like
from tensor.operations.definition import operation
from tensor.operations.pointwise_operation import Pointwise
from tensor.operations.shapes.slices import narrow
from tensor.operations.special.logistic import sigmoid

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

_GATED = Pointwise(
    "glu",
    "a / (1 + exp(-b))",
    lambda a, b: a / (1 + np.exp(-b)),
    categories=(Category.FLOATING,),
)
#: Of (gradient, value, gate): the gradient of the gate.
_GATE_GRADIENT = Pointwise(
    "glu_backward",
    "a * b * exp(-fabs(c)) / ((1 + exp(-fabs(c))) * (1 + exp(-fabs(c))))",
    lambda a, b, c: a * b * np.exp(-np.abs(c)) / (1 + np.exp(-np.abs(c))) ** 2,
)


def _halves(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    size = x._layout.shape[dim] // 2
    return narrow(x, dim, 0, size), narrow(x, dim, size, size)


def _gradient(_: Any, grad: Tensor, x: Tensor, dim: int) -> tuple[Tensor]:
    value, gate = _halves(x, dim)
    result = empty_like(x)
    of_value, of_gate = _halves(result, dim)
    _GATED.out(of_value, grad, gate)
    _GATE_GRADIENT.out(of_gate, grad, value, gate)
    return (result,)


def _composed(x: Tensor, dim: int) -> Tensor:
    value, gate = _halves(x, dim)
    return value * sigmoid(gate)


_FORMULA = BackwardFormula(
    "GluBackward0",
    "input",
    joint=Derivative(_gradient, needs="input"),
    composition=Composition(_composed, needs="input"),
)


@operation(namespace="nn.functional", method=False)
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Gated linear unit ``a * sigmoid(b)``, where ``a`` and ``b`` are the halves of ``input`` along ``dim``.

    Y. N. Dauphin et al., "Language Modeling with Gated Convolutional Networks", 2017.

    Parameters
    ----------
    input : Tensor
        Of a floating dtype, of shape (..., 2 * N, ...); the result has shape (..., N, ...).

    Raises
    ------
    RuntimeError
        If the size along ``dim`` is odd, or the input is 0-dim.
    IndexError
        If there is no such dimension.
    NotImplementedError
        If the dtype is not a floating one.

    Examples
    --------
    >>> nn.functional.glu(tensor.tensor([2.0, 4.0, 0.0, 100.0]))
    tensor([1., 4.])
    """
    shape = input._layout.shape
    if not shape:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    dim = dimension(dim, len(shape))
    if shape[dim] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {shape[dim]}")
    with unrecorded():
        result = _GATED(*_halves(input, dim))
    _FORMULA.record((result,), (input,), context=(dim,))
    return result
