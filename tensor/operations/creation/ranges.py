"""New tensors whose elements follow each other: ranges by step, and by count, linear and logarithmic."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dtypes, pointwise
from tensor.core.base import TensorBase, empty, maker, wrap
from tensor.core.creation_arguments import as_out, check_memory, dtype_of_argument
from tensor.core.devices.state import device_state_of
from tensor.core.dtypes.default import default_dtype_of, get_default_dtype
from tensor.core.dtypes.scalars import element, is_number
from tensor.core.plans import not_implemented, planned
from tensor.core.plans.steps import one_step
from tensor.operations.definition import operation
from tensor.operations.pointwise.complex_numbers import polar

from .factories import finish, new_layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.devices.state import DeviceState
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

#: Integers below it are elements of int64.
_FAR = 1 << 63
#: Sums and products of float32 are made in double, so that the last element of a long range is right too.
_FLOATS = pointwise.Expression("arange", "start + i * step", (("start", "d"), ("step", "d")))
_INTEGERS = pointwise.Expression("arange", "start + i * step", (("start", "q"), ("step", "q")))
_LINEAR = pointwise.Expression(
    "linspace",
    "i < half ? start + i * step : end - (last - i) * step",
    (("start", "d"), ("end", "d"), ("step", "d"), ("half", "q"), ("last", "q")),
    options=("--fmad=false",),
)
_POWERS = pointwise.Expression(
    "logspace",
    "pow(base, i < half ? start + i * step : end - (last - i) * step)",
    (("base", "d"), *_LINEAR.scalars),
    options=("--fmad=false",),
)


def _generate_plan(expression: pointwise.Expression, layout: Layout) -> Callable[..., Tensor]:
    """How to make one of ``layout``.

    Elements computed from their index: ``device_state.plans[operation, layout](*scalars)`` is a new tensor on a device.
    """
    device_state: Any = layout.device_state
    make, local = maker(layout), device_state.local
    launch = pointwise.plan_generator(device_state.native, expression, layout.numel, layout.dtype)

    def run(*scalars: Any) -> Tensor:
        stream = local.stream
        result = make(stream)
        launch(stream.handle, result._storage.address, *scalars)
        return result

    return run


def generator(expression: pointwise.Expression) -> planned:
    """What generates elements by ``expression`` on a device."""
    return planned(_generate_plan, expression)


FLOATS, INTEGERS, LINEAR, POWERS = (
    generator(expression) for expression in (_FLOATS, _INTEGERS, _LINEAR, _POWERS)
)


@operation(method=False)
def arange(
    start: Any = None,
    end: Any = None,
    step: Any = 1,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """``ceil((end - start) / step)`` numbers from ``start`` on, ``step`` apart, without ``end``.

    ``arange(end)`` starts at 0.

    Parameters
    ----------
    start, end, step : number
        Numbers, or 0-dim tensors.
    dtype : dtype, optional
        By default int64 if all three are integers, else the default dtype.

    Raises
    ------
    RuntimeError
        If ``step`` is 0 or leads away from ``end``, a number is not finite, or the dtype is bool or complex.
    ValueError
        If ``step`` becomes 0 in an integer dtype.
    TypeError
        If there is no ``end``, or one of the three is not a number.

    Examples
    --------
    >>> tensor.arange(4)
    tensor([0, 1, 2, 3])
    >>> tensor.arange(1.0, 2.0, 0.25)
    tensor([1.0000, 1.2500, 1.5000, 1.7500])
    """
    if end is None:
        start, end = 0, start
    first, last, stride = _bounds(0 if start is None else start, end, step, "arange")
    whole = isinstance(first, int) and isinstance(last, int) and isinstance(stride, int)
    if out is not None:
        dtype, device = as_out(out, dtype, device, "arange")
    if dtype is None:
        result_dtype = dtypes.int64 if whole else get_default_dtype()
    else:
        result_dtype = _real_dtype(dtype, dtype, "arange")
    if result_dtype is dtypes.int64:
        if not (whole and -_FAR < first < _FAR and -_FAR < last < _FAR and -_FAR < stride < _FAR):
            first, last, stride = (
                element(first, result_dtype),
                element(last, result_dtype),
                element(stride, result_dtype),
            )
        if stride == 0:
            raise ValueError(f"arange(): step must be nonzero as {result_dtype!r}, got {step}")
        count = -((first - last) // stride)
    else:
        count = math.ceil((last - first) / stride)
    device_state = device_state_of(device)
    if layout is not None or pin_memory:
        check_memory(layout, pin_memory, device_state, "arange")
    result = _progression(first, stride, count, result_dtype, device_state, pin_memory, "arange")
    return finish(result, requires_grad, out) if requires_grad or out is not None else result


@operation(method=False)
def range(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Numbers from ``start`` to ``end``, ``step`` apart, ``end`` included: ``floor((end - start) / step) + 1`` of them.

    Of the default dtype, also for integers. :func:`arange` is the usual function.

    Raises
    ------
    RuntimeError
        If ``step`` is 0 or leads away from ``end``, a number is not finite, or the dtype is bool or complex.
    TypeError
        If there is no ``end``, or one of the three is not a number.

    Examples
    --------
    >>> tensor.range(1, 3)
    tensor([1., 2., 3.])
    """
    if end is None:
        start, end = 0, start
    first, last, stride = _bounds(start, end, step, "range")
    if out is not None:
        dtype, device = as_out(out, dtype, device, "range")
    result_dtype = _real_dtype(dtype, get_default_dtype(), "range")
    device_state = device_state_of(device)
    if layout is not None or pin_memory:
        check_memory(layout, pin_memory, device_state, "range")
    count = math.floor((last - first) / stride) + 1
    result = _progression(first, stride, count, result_dtype, device_state, pin_memory, "range")
    return finish(result, requires_grad, out)


def _bounds(start: Any, end: Any, step: Any, function: str) -> tuple[Any, Any, Any]:
    """Start, end and step, which go well together."""
    if end is None:
        raise TypeError(f'{function}() missing 1 required argument: "end"')
    first = start if type(start) is int else _real(start, function, "start")
    last = end if type(end) is int else _real(end, function, "end")
    stride = step if type(step) is int else _real(step, function, "step")
    if stride == 0:
        raise RuntimeError(f"{function}(): step must be nonzero")
    if not (math.isfinite(first) and math.isfinite(last) and math.isfinite(stride)):
        raise RuntimeError(f"{function}(): unsupported range: {first} -> {last} by {stride}")
    if (last - first) * (1 if stride > 0 else -1) < 0:
        raise RuntimeError(
            f"{function}(): upper bound and lower bound inconsistent with step sign: from {first} to {last} by "
            f"{stride}"
        )
    return first, last, stride


def _real(argument: Any, function: str, what: str) -> Any:
    number = _number(argument, function, what)
    if isinstance(number, complex):
        raise RuntimeError(f"{function}(): argument '{what}' must be a real number, got {number}")
    return number


def _real_dtype(argument: Any, default: dtype, function: str) -> dtype:
    result_dtype = _dtype(argument, default, function)
    if result_dtype.is_complex:
        raise RuntimeError(f"{function}(): not implemented for {result_dtype!r}; use a real dtype")
    return result_dtype


def _dtype(argument: Any, default: dtype, function: str) -> dtype:
    dtype = default if argument is None else dtype_of_argument(argument, function)
    if dtype.is_storage_only:
        raise not_implemented(function, dtype)
    if dtype is dtypes.bool_:
        raise RuntimeError(f"{function}(): not implemented for {dtype!r}; use an integer dtype")
    return dtype


def _progression(
    first: Any,
    stride: Any,
    count: int,
    dtype: dtype,
    device_state: DeviceState,
    pin_memory: bool,
    function: str,
) -> Tensor:
    """``count`` numbers ``first + i * stride``, worked out in int64 for integers, else in double."""
    integral = not dtype.is_floating_point
    number = int if integral else float
    first, stride = number(first), number(stride)
    result = new_layout((count,), dtype, device_state, None, function)
    if device_state.is_cuda:
        output: Tensor = device_state.plans[INTEGERS if integral else FLOATS, result](first, stride)
        return output
    return _on_host(first, stride, result, pin_memory)


@one_step
def _on_host(first: Any, stride: Any, layout: Layout, pin_memory: bool) -> Tensor:
    numbers = np.arange(layout.shape[0], dtype=np.float64 if layout.dtype.is_floating_point else np.int64)
    if first != 0 or stride != 1:
        numbers = numbers * stride + first
    return _of_numbers(numbers, layout, pin_memory)


def _of_numbers(numbers: np.ndarray[Any, Any], layout: Layout, pin_memory: bool) -> Tensor:
    if numbers.dtype != layout.dtype.numpy:
        with np.errstate(all="ignore"):
            numbers = numbers.astype(layout.dtype.numpy)
    if pin_memory:
        result = empty(layout, pin_memory=True)
        result._writable[...] = numbers
        return result
    return wrap(np.ascontiguousarray(numbers), layout)


def _number(value: Any, function: str, what: str) -> Any:
    """A number of Python's, from one, from NumPy's, or from a tensor without dimensions."""
    if is_number(value) or (isinstance(value, TensorBase) and not value._layout.shape):
        value = value.item() if hasattr(value, "item") else value
        return int(value) if isinstance(value, bool) else value
    if isinstance(value, TensorBase) and function in ("linspace", "logspace"):
        raise RuntimeError(
            f"{function}(): only supports 0-dimensional start and end tensors, but got {what} with "
            f"{len(value._layout.shape)} dimension(s)"
        )
    raise TypeError(f"{function}(): argument '{what}' must be Number, not {type(value).__name__}")


@operation(method=False)
def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """``steps`` evenly spaced numbers from ``start`` to ``end``, both included.

    Parameters
    ----------
    start, end : number or Tensor
        Numbers, or 0-dim tensors.
    dtype : dtype, optional
        By default the default dtype, complex if a number is.

    Raises
    ------
    RuntimeError
        If ``steps`` is negative, the dtype is bool, or it is real and a number is complex.

    Examples
    --------
    >>> tensor.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    return _spaced(start, end, steps, None, "linspace", out, dtype, layout, device, requires_grad, pin_memory)


@operation(method=False)
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """``base`` to the power of ``steps`` evenly spaced numbers from ``start`` to ``end``, both included.

    ``base ** linspace(start, end, steps)``.

    Raises
    ------
    RuntimeError
        If ``steps`` is negative, the dtype is bool, or it is real and a number is complex.
    TypeError
        If ``base`` is not a real number.

    Examples
    --------
    >>> tensor.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    >>> tensor.logspace(0, 3, 4, base=2)
    tensor([1., 2., 4., 8.])
    """
    if not is_number(base) or isinstance(base, complex):
        raise TypeError(f"logspace(): argument 'base' must be float, not {type(base).__name__}")
    return _spaced(
        start, end, steps, float(base), "logspace", out, dtype, layout, device, requires_grad, pin_memory
    )


def _spaced(
    start: Any,
    end: Any,
    steps: int,
    base: float | None,
    function: str,
    out: Tensor | None,
    dtype: dtype | None,
    layout: Any,
    device: Any,
    requires_grad: bool,
    pin_memory: bool,
) -> Tensor:
    first, last = _number(start, function, "start"), _number(end, function, "end")
    if not hasattr(steps, "__index__"):
        raise TypeError(f"{function}(): argument 'steps' must be int, not {type(steps).__name__}")
    count = steps.__index__()
    if count < 0:
        raise RuntimeError(f"{function}(): number of steps must be non-negative, got {count}")
    if out is not None:
        dtype, device = as_out(out, dtype, device, function)
    default = default_dtype_of(1j if isinstance(first, complex) or isinstance(last, complex) else 1.0)
    element_dtype = _dtype(dtype, default, function)
    if default.is_complex and not element_dtype.is_complex:
        raise RuntimeError(
            f"{function}(): inferred dtype {default!r} can't be safely cast to passed dtype {element_dtype!r}"
        )
    device_state = device_state_of(device)
    if layout is not None or pin_memory:
        check_memory(layout, pin_memory, device_state, function)
    result = new_layout((count,), element_dtype, device_state, None, function)
    if element_dtype.is_complex:
        output = _complex_steps(complex(first), complex(last), count, base, result, pin_memory)
    else:
        if not element_dtype.is_floating_point:
            # Integers lose their fractions first, as in PyTorch.
            first, last = element(first, element_dtype), element(last, element_dtype)
        output = _steps(float(first), float(last), count, base, result, pin_memory)
    return finish(output, requires_grad, out)


def _steps(
    start: float, end: float, count: int, base: float | None, result: Layout, pin_memory: bool
) -> Tensor:
    """Even steps, or powers of ``base``, worked out in double; from both ends, so that both are exact."""
    step = (end - start) / (count - 1) if count > 1 else 0.0
    half = count // 2 if count > 1 else count
    device_state = result.device_state
    if device_state.is_cuda:
        numbers = (start, end, step, half, count - 1)
        output: Tensor = (
            device_state.plans[LINEAR, result](*numbers)
            if base is None
            else device_state.plans[POWERS, result](base, *numbers)
        )
        return output
    return _steps_on_host(start, end, step, base, result, pin_memory)


@one_step
def _steps_on_host(
    start: float, end: float, step: float, base: float | None, result: Layout, pin_memory: bool
) -> Tensor:
    count = result.shape[0]
    half = count // 2 if count > 1 else count
    with np.errstate(all="ignore"):
        values = np.arange(count, dtype=np.float64)
        first, second = values[:half], values[half:]
        first *= step
        first += start
        np.subtract(count - 1, second, out=second)
        second *= step
        np.subtract(end, second, out=second)
        return _of_numbers(values if base is None else np.power(base, values), result, pin_memory)


def _complex_steps(
    start: complex, end: complex, count: int, base: float | None, result: Layout, pin_memory: bool
) -> Tensor:
    """Even steps of the real and of the imaginary parts; powers of ``base`` in double too."""
    parts_layout = result.with_dtype(dtypes.float64)
    real = _steps(start.real, end.real, count, None, parts_layout, False)
    imag = _steps(start.imag, end.imag, count, None, parts_layout, False)
    if base is not None:
        logarithm = math.log(base)
        turned = polar((real * logarithm).exp_(), imag * logarithm)
        real, imag = turned.real, turned.imag
    output = empty(result, pin_memory=pin_memory)
    output.real.copy_(real)
    output.imag.copy_(imag)
    output._storage.version = 0
    return output
