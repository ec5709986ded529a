"""Linear maps: rows times a transposed matrix, plus a bias.

One operation with one node: on a device the bias is added by the product's launch, and its gradient summed up by that of the
weight's (:mod:`.epilogues`); where that cannot be, it is broadcast into the result, to which cuBLAS then adds the product.
Dimensions before the last one are one long dimension of rows, without views. What does not fit that (integers, complex
numbers, other shapes of weight and bias) consists of other operations.
"""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import pointwise
from nvrtc_kernels.dtypes import float32
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.base import TensorBase, maker, wrap
from tensor.core.host.memory import empty_array
from tensor.core.layout import contiguous
from tensor.core.modes.grad_mode import modes
from tensor.core.plans import planned
from tensor.core.plans.copies import host_conversion
from tensor.operations.autocast import LOWER, Autocast, dtype_of_gradient
from tensor.operations.definition import operation
from tensor.operations.normalization.row_normalization import in_compute_dtype
from tensor.operations.reduction import into_out
from tensor.operations.reductions.sums import SUM_IN_SINGLE

from . import blas, epilogues
from .added_products import addmm
from .contractions import matmul
from .on_host import HostProduct, Matrix, plan_pair, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


def _rows_times_matrix_plan(
    x: Layout, w: Layout, b: Layout | None, *, transposed: bool
) -> Callable[..., Tensor] | None:
    """How to multiply contiguous rows of shape ``(..., inputs)``.

    ``device_state.plans[operation, rows, matrix, bias]``: ``run(rows, matrix, bias)``, or ``None`` if it does not fit.

    Parameters
    ----------
    transposed
        Whether the matrix is ``(outputs, inputs)``, and not ``(inputs, outputs)``.
    """
    dtype, device_state = x.dtype, x.device_state
    if len(w.shape) != 2 or not x.shape or not x.contiguous or not dtype.is_floating_point:
        return None
    outputs, inputs = w.shape if transposed else w.shape[::-1]
    if x.shape[-1] != inputs or not inputs or not outputs or not x.numel:
        return None
    if b is not None and (
        tuple(b.shape) != (outputs,) or b.dtype is not dtype or b.device_state is not device_state
    ):
        return None
    if w.dtype is not dtype or w.device_state is not device_state:
        return None
    count = x.numel // inputs
    out = contiguous[(*x.shape[:-1], outputs), dtype, device_state]
    if not device_state.is_cuda:
        return _rows_on_host(dtype, (count, inputs), w, out, transposed)
    steps = w.strides[::-1] if transposed else w.strides
    return _rows_on_device((count, inputs, outputs), steps, b, out)


def _delivered(result: Array, compute_dtype: dtype, out: Layout) -> Tensor:
    if out.dtype is not compute_dtype:
        output = empty_array(result.shape, out.dtype.numpy)
        with np.errstate(all="ignore"):
            host_conversion(compute_dtype, out.dtype)(output, result)
        result = output
    return wrap(result.reshape(out.shape), out)


def _rows_on_host(
    dtype: dtype, shape: tuple[int, int], w: Layout, out: Layout, transposed: bool
) -> Callable[..., Tensor]:
    product = HostProduct(dtype, shape[0] * shape[1] * out.shape[-1])
    matrix = Matrix(tuple(w.shape), tuple(w.strides), transposed)  # type: ignore[arg-type]
    multiply = plan_pair(product, rows_of(*shape), matrix)

    def run(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        result = multiply(x, w)
        if b is not None:
            with np.errstate(all="ignore"):
                result += in_compute_dtype(b)
        return _delivered(result, product.computes_in, out)

    return run


def _rows_on_device(
    sizes: tuple[int, int, int], steps: tuple[int, ...], b: Layout | None, out: Layout
) -> Callable[..., Tensor] | None:
    device_state: Any = out.device_state
    local, dtype = device_state.local, out.dtype
    count, inputs, outputs = sizes
    rows = blas.factor((1, count, inputs), (count * inputs, inputs, 1))
    matrix = blas.factor((1, inputs, outputs), (inputs * outputs, *steps))
    into = blas.factor((1, count, outputs), (count * outputs, outputs, 1))
    if rows is None or matrix is None or into is None:
        return None
    multiply = blas.product(device_state, dtype, (1, count, outputs, inputs), rows, matrix, into)
    make = maker(out)
    if b is None:

        def run(x: Tensor, w: Tensor, _: None) -> Tensor:
            result = make()
            multiply(result._address, x._address, w._address)
            return result

        return run
    with_bias = None
    if b.strides[0] == 1:
        sizes = count, outputs, inputs
        with_bias = epilogues.product(device_state, dtype, sizes, (rows, matrix, into), epilogues.BIAS)
    spread = _Spread(device_state, (count, outputs), b)

    def run_with_bias(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        result = make()
        addresses = result._address, x._address, w._address
        if with_bias is None or not with_bias(*addresses, b._address):
            spread.copy(local.stream.handle, addresses[0], b._address)
            multiply(*addresses, 1, 1)
        return result

    return run_with_bias


class _Spread:
    """What copies a bias to rows; it has a kernel once that is needed."""

    def __init__(self, device_state: Any, shape: tuple[int, int], bias: Layout) -> None:
        self._device_state, self._shape, self._bias = device_state, shape, bias

    @cached_property
    def copy(self) -> Callable[..., None]:
        """``copy(stream_handle, rows, bias)``, addresses."""
        dtype, bias = self._bias.dtype, self._bias
        strides = ((self._shape[1], 1), dtype), ((0, bias.strides[0]), dtype)
        return pointwise.plan_copy(self._device_state.native, self._shape, *strides)


def _outer_sum_plan(
    grad: Layout, x: Layout, result_dtype: dtype | None
) -> Callable[[Tensor, Tensor], Tensor]:
    """How to multiply contiguous tensors of shapes ``(..., outputs)`` and ``(..., inputs)``.

    ``device_state.plans[operation, grad, rows, dtype]``: ``run(grad, rows)``, the sum of the outer products of their
    rows; in float32, where that dtype is wanted of half precision.
    """
    dtype, device_state = x.dtype, x.device_state
    outputs, inputs = grad.shape[-1], x.shape[-1]
    count = x.numel // inputs
    out = contiguous[(outputs, inputs), result_dtype or dtype, device_state]
    if not device_state.is_cuda:
        product = HostProduct(dtype, count * outputs * inputs)
        multiply = plan_pair(product, rows_of(count, outputs, transposed=True), rows_of(count, inputs))
        return lambda grad, x: _delivered(multiply(grad, x), product.computes_in, out)
    left = blas.Factor(True, outputs, count * outputs)
    right = blas.Factor(False, inputs, count * inputs)
    into = blas.Factor(False, inputs, outputs * inputs)
    cuda: Any = device_state
    on_cuda = blas.product(cuda, dtype, (1, outputs, inputs, count), left, right, into, output=result_dtype)
    make = maker(out)

    def on_device(grad: Tensor, x: Tensor) -> Tensor:
        result = make()
        on_cuda(result._address, grad._address, x._address)
        return result

    return on_device


def _outer_sum_and_sum_plan(
    grad: Layout, x: Layout, result_dtype: dtype | None
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor] | None] | None:
    """The gradients of a weight and its bias in one launch, as :func:`_outer_sum_plan` has the first of them.

    ``run(grad, rows)``; ``None``, or a run that gives ``None``, where they have to be computed apart.
    """
    dtype, device_state = x.dtype, x.device_state
    outputs, inputs = grad.shape[-1], x.shape[-1]
    if not device_state.is_cuda or not x.numel:
        return None
    count = x.numel // inputs
    out, sums = (
        contiguous[shape, result_dtype or dtype, device_state] for shape in ((outputs, inputs), (outputs,))
    )
    factors = blas.Factor(True, outputs, 0), blas.Factor(False, inputs, 0), blas.Factor(False, inputs, 0)
    multiply = epilogues.product(
        device_state, dtype, (outputs, inputs, count), factors, epilogues.SUMS_OF_FIRST, output=result_dtype
    )
    if multiply is None:
        return None
    make, make_sums = maker(out), maker(sums)

    def run(grad: Tensor, x: Tensor) -> tuple[Tensor, Tensor] | None:
        result, of_bias = make(), make_sums()
        possible = multiply(result._address, grad._address, x._address, of_bias._address)
        return (result, of_bias) if possible else None

    return run


LINEAR = planned(_rows_times_matrix_plan, transposed=True)
TIMES = planned(_rows_times_matrix_plan, transposed=False)
OUTER_SUM = planned(_outer_sum_plan)
OUTER_SUM_AND_SUM = planned(_outer_sum_and_sum_plan)


def _times(grad: Tensor, w: Tensor) -> Tensor:
    """The gradient of ``input``, from the contiguous one of the result: its rows times the matrix."""
    layout = grad._layout
    run = layout.device_state.plans[TIMES, layout, w._layout, None]
    if run is None:
        return matmul(grad, w)
    result: Tensor = run(grad, w, None)
    if modes.recording:
        _TIMES_FORMULAS[min(len(layout.shape), 3)].record((result,), (grad, w))
    return result


def _outer_sum(grad: Tensor, x: Tensor, result_dtype: dtype | None = None) -> Tensor:
    """The gradient of ``weight``, from the contiguous one of the result and contiguous rows."""
    layout = grad._layout
    result: Tensor = layout.device_state.plans[OUTER_SUM, layout, x._layout, result_dtype](grad, x)
    if modes.recording:
        _OUTER_SUM_FORMULA.record((result,), (grad, x))
    return result


def _both_sums(grad: Tensor, x: Tensor, result_dtype: dtype | None) -> tuple[Tensor, Tensor] | None:
    """The gradients of ``weight`` and ``bias`` in one launch; ``None`` where that cannot be."""
    layout = grad._layout
    run = layout.device_state.plans[OUTER_SUM_AND_SUM, layout, x._layout, result_dtype]
    result: tuple[Tensor, Tensor] | None = None if run is None else run(grad, x)
    return result


def _mapped(rows: Tensor, matrix: Tensor) -> Tensor:
    """The linear map, which is a gradient of both."""
    result: Tensor = linear(rows, matrix)
    return result


def _gradients(
    mask: tuple[bool, ...],
    grad: Tensor,
    w: Tensor | None,
    x: Tensor | None,
    of_weight: dtype | None,
    of_bias: dtype | None,
) -> tuple[Any, ...]:
    results: list[Any] = [None, None, None]
    if not grad._layout.contiguous:
        # Once for all that read it.
        grad = grad.contiguous()
    if mask[0] and w is not None:
        results[0] = _times(grad, w)
    if (
        len(mask) > 2
        and mask[1]
        and mask[2]
        and x is not None
        and of_weight is of_bias
        and not modes.recording
    ):
        both = _both_sums(grad, x, of_weight)
        if both is not None:
            return results[0], *both
    if mask[1] and x is not None:
        results[1] = _outer_sum(grad, x, None if modes.recording else of_weight)
    if len(mask) > 2 and mask[2]:
        dims = tuple(range(len(grad._layout.shape) - 1))
        if dims and of_bias is float32 and not modes.recording:
            (results[2],) = SUM_IN_SINGLE(grad, dims, False)
        else:
            results[2] = grad.sum(dims) if dims else grad
    return tuple(results[: len(mask)])


#: Without and with bias, by what PyTorch, which takes several operations for it, shows as ``grad_fn``: for matrices,
#: vectors, and others.
_FORMULAS = [
    [
        BackwardFormula(name, "input weight", joint=Derivative(_gradients, needs=("weight", "input")))
        for name in names
    ]
    for names in (
        ("MmBackward0", "SqueezeBackward4", "UnsafeViewBackward0"),
        ("AddmmBackward0", "ViewBackward0", "ViewBackward0"),
    )
]
#: The linear map and its two gradients are each other's gradients. By the number of dimensions, 3 for more.
_TIMES_FORMULAS = {
    dims: BackwardFormula(
        name,
        "grad w",
        [
            Derivative(_mapped, needs="w"),
            Derivative(lambda gradient, grad: _outer_sum(grad, gradient.contiguous()), needs="grad"),
        ],
    )
    for dims, name in ((1, "SqueezeBackward1"), (2, "MmBackward0"), (3, "ViewBackward0"))
}
_OUTER_SUM_FORMULA = BackwardFormula(
    "TBackward0",
    "grad x",
    [
        Derivative(lambda gradient, x: _mapped(x, gradient), needs="x"),
        Derivative(lambda gradient, grad: _times(grad, gradient), needs="grad"),
    ],
)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=LOWER, cpu=LOWER))
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``.

    Parameters
    ----------
    input : Tensor
        Of shape (..., inputs).
    weight : Tensor
        Of shape (outputs, inputs), or (inputs,) for one output without a dimension.
    bias : Tensor, optional
        Of shape (outputs,).
    out : Tensor, optional
        Tensor of the result's dtype that the result is written to, resized to its shape.

    Returns
    -------
    Tensor
        Of shape (..., outputs).

    Raises
    ------
    RuntimeError
        If the input's last dimension is not that of ``weight``, ``bias`` has not one element for each output, or
        dtypes or devices differ.

    Examples
    --------
    >>> nn.functional.linear(tensor.ones(1, 2), tensor.tensor([[1.0, 2.0]]), tensor.tensor([10.0]))
    tensor([[13.]])
    """
    try:
        layout = input._layout
        run = layout.device_state.plans[
            LINEAR, layout, weight._layout, None if bias is None else bias._layout
        ]
    except AttributeError:
        for position, each in enumerate((input, weight, bias)):
            if not isinstance(each, TensorBase) and (each is not None or position < 2):
                raise TypeError(
                    f"linear(): argument {position + 1} must be Tensor, not {type(each).__name__}"
                ) from None
        raise
    if run is None:
        if not layout.contiguous and layout.shape and len(weight._layout.shape) == 2:
            return linear(input.contiguous(), weight, bias, out=out)
        return into_out(_composed(input, weight, bias), out, "linear")
    result: Tensor = run(input, weight, bias)
    if modes.recording and (
        input._autograd is not None
        or weight._autograd is not None
        or (bias is not None and bias._autograd is not None)
    ):
        dims = len(layout.shape)
        formula = _FORMULAS[bias is not None][0 if dims == 2 else 1 if dims == 1 else 2]
        inputs = (input, weight) if bias is None else (input, weight, bias)
        formula.record((result,), inputs, (), (dtype_of_gradient(weight), dtype_of_gradient(bias)))
    return result if out is None else into_out(result, out, "linear")


def _composed(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The same by other operations."""
    dims, shape = input.dim(), input.shape
    if not dims or not weight.dim():
        raise RuntimeError(
            f"both arguments to linear need to be at least 1D, but they are {dims}D and {weight.dim()}D"
        )
    if weight.dim() == 1 or bias is None:
        product = matmul(input, weight if weight.dim() == 1 else weight.t())
        return product if bias is None else product.add(bias)
    if bias.dim() > 1 and dims != 2:
        return matmul(input, weight.t()).add(bias)
    rows = input if dims == 2 else input.reshape(prod(shape[:-1]), shape[-1])
    result = addmm(bias, rows, weight.t())
    return result if dims == 2 else result.view(*shape[:-1], weight.shape[0])
