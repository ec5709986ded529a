"""Softmax along a dimension, its logarithm, and their derivatives."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import softmax as kernels
from nvrtc_kernels.host_loops import softmax as loops
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core import layout as layouts
from tensor.core.arguments import dimension
from tensor.core.base import empty, maker, wrap
from tensor.core.creation_arguments import dtype_of_argument
from tensor.core.dtypes import promotion as rules
from tensor.core.host.memory import empty_array
from tensor.core.modes.grad_mode import modes
from tensor.core.plans import planned
from tensor.core.plans.copies import host_conversion
from tensor.operations.autocast import FLOAT32_RESULT, Autocast
from tensor.operations.creation.copies import contiguous
from tensor.operations.creation.factories import delivered
from tensor.operations.definition import operation

from . import softmax_on_host as rows_on_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


def sizes_along(shape: tuple[int, ...], dim: int) -> tuple[int, int, int]:
    """Elements before a dimension, of it, and behind it."""
    return (prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :])) if shape else (1, 1, 1)


class _Softmax:
    """``device_state.plans[operation, layout, dim, dtype](input)``, for a contiguous input."""

    def __init__(self, name: str, *, log: bool) -> None:
        self.name = name
        self.log = log

    def plan(self, layout: Layout, dim: int, dtype: dtype) -> Callable[[Tensor], Tensor]:
        """What works on contiguous tensors of ``layout``; the result has the dtype ``dtype``."""
        out = layouts.contiguous[layout.shape, dtype, layout.device_state]
        if not layout.device_state.is_cuda:
            compute_dtype = rules.computes_in(dtype)

            def on_host(input: Tensor) -> Tensor:
                array = _as(input._host, layout.dtype, compute_dtype)
                with np.errstate(all="ignore"):
                    return _wrapped(self._on_host(array, dim), compute_dtype, out)

            return on_host
        device_state = layout.device_state
        run = kernels.plan(
            device_state.native, sizes_along(layout.shape, dim), dtype, layout.dtype, log=self.log
        )
        make, local = maker(out), device_state.local

        def on_device(input: Tensor) -> Tensor:
            stream = local.stream
            result = make(stream)
            run(stream.handle, result._storage.address, input._storage.address + input._offset)
            return result

        return on_device

    def _on_host(self, array: Array, dim: int) -> Array:
        if not array.shape:
            array = array.reshape(1)
        elif dim == array.ndim - 1:
            result = empty_array(array.shape, array.dtype)
            if not loops.forward(_rows(array), _rows(result), log=self.log):
                rows_on_host.forward(_rows(array), _rows(result), log=self.log)
            return result
        moved: Array = array - array.max(axis=dim, keepdims=True)
        exponents: Array = np.exp(moved)
        total = exponents.sum(axis=dim, keepdims=True, dtype=array.dtype)
        if self.log:
            moved -= np.log(total)
            return moved
        exponents /= total
        return exponents


def _softmax_gradient_plan(
    grad: Layout, result: Layout, dim: int, dtype: dtype, *, log: bool
) -> Callable[[Tensor, Tensor], Tensor]:
    """What works on contiguous tensors of these layouts; the gradient is of type ``dtype``.

    ``device_state.plans[operation, grad, result, dim, dtype](grad, result)``, both contiguous.
    """
    out = layouts.contiguous[grad.shape, dtype, grad.device_state]
    if not out.numel:
        return lambda *_: empty(out)
    if not grad.device_state.is_cuda:
        compute_dtype = rules.computes_in(result.dtype)

        def on_host(argument: Tensor, value: Tensor) -> Tensor:
            g, y = (
                _as(argument._host, grad.dtype, compute_dtype),
                _as(value._host, result.dtype, compute_dtype),
            )
            if not g.shape:
                g, y = g.reshape(1), y.reshape(1)
            with np.errstate(all="ignore"):
                if dim == g.ndim - 1:
                    into = empty_array(g.shape, g.dtype)
                    if not loops.backward(_rows(g), _rows(y), _rows(into), log=log):
                        rows_on_host.backward(_rows(g), _rows(y), _rows(into), log=log)
                    return _wrapped(into, compute_dtype, out)
                if log:
                    return _wrapped(g - np.exp(y) * g.sum(axis=dim, keepdims=True), compute_dtype, out)
                return _wrapped((g - (g * y).sum(axis=dim, keepdims=True)) * y, compute_dtype, out)

        return on_host
    device_state = grad.device_state
    run = kernels.plan_backward(
        device_state.native, sizes_along(grad.shape, dim), dtype, grad.dtype, result.dtype, log=log
    )
    make, local = maker(out), device_state.local

    def on_device(argument: Tensor, result: Tensor) -> Tensor:
        stream = local.stream
        output = make(stream)
        run(stream.handle, output._address, argument._address, result._address)
        return output

    return on_device


def _rows(array: Array) -> Array:
    return array.reshape(-1, array.shape[-1])


def _as(array: Array, dtype: dtype, compute_dtype: dtype) -> Array:
    if dtype is compute_dtype:
        return array
    result = empty_array(array.shape, compute_dtype.numpy)
    host_conversion(dtype, compute_dtype)(result, array)
    return result


def _wrapped(array: Array, dtype: dtype, out: Layout) -> Tensor:
    return wrap(np.ascontiguousarray(_as(array, dtype, out.dtype)).reshape(out.shape), out)


SOFTMAX, LOG_SOFTMAX = _Softmax("softmax", log=False), _Softmax("log_softmax", log=True)
GRADIENTS = {log: planned(_softmax_gradient_plan, log=log) for log in (False, True)}


def _gradient(grad: Tensor, out: Tensor, dim: int, dtype: dtype, log: bool) -> Tensor:
    """The gradient of ``input``, of type ``dtype``: an operation of its own."""
    argument, value = contiguous(grad), contiguous(out)
    plans = argument._layout.device_state.plans
    output: Tensor = plans[GRADIENTS[log], argument._layout, value._layout, dim, dtype](argument, value)
    if modes.recording:
        _OF_GRADIENTS[log].record((output,), (grad, out), (), (dim, grad._layout.dtype, log))
    return output


def _second_by_out(gradient: Tensor, grad: Tensor, out: Tensor, dim: int, dtype: dtype, log: bool) -> Tensor:
    """The gradient of ``out`` from that of :func:`_gradient`'s result."""
    if log:
        return -gradient * out.exp() * grad.sum(dim, keepdim=True)
    inner, outer = (grad * out).sum(dim, keepdim=True), (gradient * out).sum(dim, keepdim=True)
    return gradient * (grad - inner) - grad * outer


def _second_by_grad(gradient: Tensor, out: Tensor, dim: int, dtype: dtype, log: bool) -> Tensor:
    """The gradient of ``grad`` from that of :func:`_gradient`'s result, which is linear in ``grad``."""
    if log:
        return gradient - (gradient * out.exp()).sum(dim, keepdim=True)
    return _gradient(gradient, out, dim, dtype, log)


#: By whether it is the logarithm: of the operations, and of their gradients.
_FORMULAS = [
    BackwardFormula(name, "input", [Derivative(_gradient, needs="out")])
    for name in ("SoftmaxBackward0", "LogSoftmaxBackward0")
]
_OF_GRADIENTS = [
    BackwardFormula(
        name,
        "grad out",
        [Derivative(_second_by_grad, needs="out"), Derivative(_second_by_out, needs="grad out")],
        outputs="gradient",
    )
    for name in ("SoftmaxBackwardDataBackward0", "LogSoftmaxBackwardDataBackward0")
]


def _apply(row: _Softmax, input: Tensor, dim: int | None, dtype: dtype | None, out: Tensor | None) -> Tensor:
    layout = input._layout
    element_dtype = layout.dtype if dtype is None else dtype_of_argument(dtype, row.name)
    if not element_dtype.is_floating_point:
        raise NotImplementedError(
            f'"{row.name}" not implemented for {element_dtype!r}: give a floating point dtype, as in '
            f"{row.name}(x, dim, dtype=tensor.float32)"
        )
    if dim is None:
        raise TypeError(f"{row.name}() missing 1 required positional argument: 'dim'")
    at = dimension(dim, len(layout.shape))
    origin = layout.dtype
    if origin.is_complex or not origin.is_floating_point:
        input, origin = input.to(element_dtype), element_dtype
    plain = contiguous(input)
    if not layout.numel:
        result = empty(layouts.contiguous[layout.shape, element_dtype, layout.device_state])
    else:
        result = layout.device_state.plans[row, plain._layout, at, element_dtype](plain)
    if input._autograd is not None:
        _FORMULAS[row.log].record((result,), (input,), context=(at, origin, row.log))
    return delivered(out, result, row.name)


@operation(namespace="tensor special", autocast=Autocast(cuda=FLOAT32_RESULT))
def softmax(
    input: Tensor, dim: int | None = None, dtype: dtype | None = None, *, out: Tensor | None = None
) -> Tensor:
    """``exp(input) / sum(exp(input))`` along ``dim``, computed without overflow.

    Parameters
    ----------
    input : Tensor
        Of a floating dtype, or of any with ``dtype``.
    dim : int
        Dimension along which the result sums to 1, negative ones counted from the end.
    dtype : dtype, optional
        Floating dtype of the result, and to compute in; by default the input's. CUDA autocast gives float32.
    out : Tensor, optional
        Tensor of the result's dtype that the result is written to, resized to its shape.

    Raises
    ------
    NotImplementedError
        If the dtype is not a floating one.
    IndexError
        If there is no such dimension.
    RuntimeError
        If ``out`` is of another dtype or device.
    TypeError
        If ``dim`` is missing.

    Examples
    --------
    >>> tensor.softmax(tensor.tensor([[0.0, 0.0], [0.0, 1000.0]]), dim=1)
    tensor([[0.5000, 0.5000],
            [0.0000, 1.0000]])
    """
    return _apply(SOFTMAX, input, dim, dtype, out)


@operation(namespace="tensor special", autocast=Autocast(cuda=FLOAT32_RESULT))
def log_softmax(
    input: Tensor, dim: int | None = None, dtype: dtype | None = None, *, out: Tensor | None = None
) -> Tensor:
    """``input - log(sum(exp(input)))`` along ``dim``: the logarithm of :func:`softmax`, without loss of accuracy.

    Parameters
    ----------
    input : Tensor
        Of a floating dtype, or of any with ``dtype``.
    dim : int
        Dimension along which the exponentials of the result sum to 1, negative ones counted from the end.
    dtype : dtype, optional
        Floating dtype of the result, and to compute in; by default the input's. CUDA autocast gives float32.
    out : Tensor, optional
        Tensor of the result's dtype that the result is written to, resized to its shape.

    Raises
    ------
    NotImplementedError
        If the dtype is not a floating one.
    IndexError
        If there is no such dimension.
    RuntimeError
        If ``out`` is of another dtype or device.
    TypeError
        If ``dim`` is missing.

    Examples
    --------
    >>> tensor.log_softmax(tensor.tensor([[0.0, 0.0], [0.0, 1000.0]]), dim=1)
    tensor([[-6.9315e-01, -6.9315e-01],
            [-1.0000e+03,  0.0000e+00]])
    """
    return _apply(LOG_SOFTMAX, input, dim, dtype, out)
