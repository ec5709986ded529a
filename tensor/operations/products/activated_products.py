"""Products of matrices, added to something, with an activation at their end: through cuBLASLt (:mod:`.epilogues`) one launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import Category
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.base import maker
from tensor.core.layout import contiguous
from tensor.core.modes.grad_mode import unrecorded
from tensor.core.plans import planned
from tensor.operations.autocast import LOWER, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise.activations import gelu, relu

from . import blas, epilogues
from .added_products import _matrix_shape, addmm
from .matrix_products import _delivered, check_operands

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


def _plan(
    input: Layout | None, a: Layout, b: Layout, use_gelu: bool
) -> Callable[[Tensor | None, Tensor, Tensor, float], Tensor | None] | None:
    """How to multiply and activate matrices in one launch.

    ``device_state.plans[operation, input, a, b, use_gelu]``: ``run(input, a, b, alpha)``, which adds a vector, or ``None``;
    ``None``, or a run that gives ``None``, where it takes several.
    """
    (m, n), k, device_state = _matrix_shape(a, b), a.shape[1], a.device_state
    if not device_state.is_cuda:
        return None
    if input is not None and (input.shape != (n,) or not input.contiguous):
        return None
    out = contiguous[(m, n), a.dtype, device_state]
    factors = [blas.factor((1, *each.shape), (each.numel, *each.strides)) for each in (a, b, out)]
    first, second, into = factors
    if first is None or second is None or into is None:
        return None
    cuda: Any = device_state
    epilogue = (epilogues.GELU if use_gelu else epilogues.RELU)[input is not None]
    multiply = epilogues.product(cuda, a.dtype, (m, n, k), (first, second, into), epilogue)
    if multiply is None:
        return None
    make = maker(out)

    def run(input: Tensor | None, a: Tensor, b: Tensor, alpha: float) -> Tensor | None:
        result = make()
        vector = 0 if input is None else input._address
        possible = multiply(result._address, a._address, b._address, vector, 0, alpha)
        return result if possible else None

    return run


_ACTIVATED = planned(_plan)


def _no_derivative(*_: Any) -> None:
    raise NotImplementedError(
        "derivative for _addmm_activation is not implemented; use addmm and an activation, which tensor.compile puts together"
    )


_FORMULA = BackwardFormula(
    "AddmmActivationBackward0", "input mat1 mat2", joint=Derivative(_no_derivative, needs="")
)


@operation(autocast=Autocast(cuda=LOWER, cpu=LOWER))
def _addmm_activation(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: Any = 1,
    alpha: Any = 1,
    use_gelu: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Relu or gelu of ``beta * input + alpha * mat1 @ mat2``; it has no derivative.

    On a CUDA device, where ``beta`` is 0 or ``input`` is a vector and ``beta`` 1, it is one launch of cuBLASLt's, if that is
    installed. Its gelu, and so the one of a device, is the approximation by tanh; nothing says what its relu makes of NaN.

    Parameters
    ----------
    input : Tensor
        Of a shape that broadcasts to the product's.
    mat1 : Tensor
        Of shape (n, m).
    mat2 : Tensor
        Of shape (m, p).
    beta, alpha : float
        Factors of ``input``, and of the product. NaN and infinity in ``input`` do not matter where ``beta`` is 0.
    use_gelu : bool
        Whether it is gelu instead of relu.
    out : Tensor, optional
        Tensor of the result's dtype that the result is written to, resized to its shape.

    Returns
    -------
    Tensor
        Of shape (n, p).

    Raises
    ------
    RuntimeError
        If the factors are not matrices with the same inner size, ``input`` cannot be broadcast to the product's
        shape, or dtypes or devices differ; in a backward pass, always.
    NotImplementedError
        If the dtype is complex, or an integer one and ``use_gelu`` is true.

    Examples
    --------
    >>> tensor._addmm_activation(tensor.tensor([-2.0, 1.0]), tensor.eye(2), tensor.eye(2))
    tensor([[0., 1.],
            [0., 2.]])
    """
    check_operands("_addmm_activation", input, mat1, mat2)
    layout = mat1._layout
    is_cuda = layout.device_state.is_cuda
    _matrix_shape(layout, mat2._layout)
    with unrecorded():
        result = None
        if is_cuda and layout.dtype.category is Category.FLOATING and _are_factors(beta, alpha):
            added = None if beta == 0 else input
            run = layout.device_state.plans[
                _ACTIVATED, None if added is None else added._layout, layout, mat2._layout, bool(use_gelu)
            ]
            result = None if run is None else run(added, mat1, mat2, alpha)
        if result is None:
            result = addmm(input, mat1, mat2, beta=beta, alpha=alpha)
            result = gelu(result, "tanh" if is_cuda else "none") if use_gelu else relu(result)
    _FORMULA.record((result,), (input, mat1, mat2))
    return result if out is None else _delivered(result, out)


def _are_factors(beta: Any, alpha: Any) -> bool:
    """Whether cuBLASLt can be given them: the bias has no factor of its own."""
    return type(beta) in (int, float) and type(alpha) in (int, float) and beta in (0, 1)
