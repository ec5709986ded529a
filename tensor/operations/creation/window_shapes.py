"""How windows are made: each shape is an expression of the index ``i``, for the host and for kernels.

A window is one launch on a device, and is worked out in double for every dtype.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nvrtc_kernels import pointwise
from tensor.core.base import empty, wrap
from tensor.core.creation_arguments import check_memory
from tensor.core.devices.state import device_state_of
from tensor.core.plans.fills import filled

from .factories import finish, new_layout
from .ranges import generator

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.plans import planned
    from tensor.methods.tensor import Tensor


class Shape(NamedTuple):
    """A shape of windows: what computes element ``i`` from ``i`` and numbers, in CUDA C++ and in NumPy."""

    device: planned
    host: Callable[..., NDArray[Any]]


def _shape(name: str, numbers: str, code: str, host: Callable[..., NDArray[Any]]) -> Shape:
    scalars = tuple((number, "d") for number in numbers.split())
    return Shape(generator(pointwise.Expression(f"{name}_window", code, scalars)), host)


#: 1 in the middle, falling to 0 at both ends; ``step`` is 2 divided by the period.
TRIANGLE = _shape("bartlett", "step", "1 - fabs(i * step - 1)", lambda i, step: 1 - abs(i * step - 1))
#: Half a wave that begins with element -1/2; ``step`` is 1 divided by the elements of the half.
SINE = _shape("cosine", "step", "sinpi((i + 0.5) * step)", lambda i, step: np.sin(np.pi * (i + 0.5) * step))
EXPONENTIAL = _shape(
    "exponential",
    "center tau",
    "exp(-fabs(i - center) / tau)",
    lambda i, center, tau: np.exp(-abs(i - center) / tau),
)
GAUSSIAN = _shape(
    "gaussian",
    "center deviation",
    "exp(-0.5 * ((i - center) / deviation) * ((i - center) / deviation))",
    lambda i, center, deviation: np.exp(-0.5 * ((i - center) / deviation) ** 2),
)
#: Modified Bessel functions over those of ``beta``; ``step`` is 2 divided by the period.
KAISER = _shape(
    "kaiser",
    "step beta",
    "cyl_bessel_i0(beta * sqrt(fmax(1 - (i * step - 1) * (i * step - 1), 0.0))) / cyl_bessel_i0(beta)",
    lambda i, step, beta: np.i0(beta * np.sqrt(np.maximum(1 - (i * step - 1) ** 2, 0))) / np.i0(beta),
)


@cache
def cosines(count: int) -> Shape:
    """Weighted sum of ``count`` cosines with alternating signs; the numbers are 2 divided by the period, and weights."""
    weights = [f"c{k}" for k in range(count)]
    terms = [f"{'-' if k % 2 else '+'} {weight} * cospi({k} * i * step)" for k, weight in enumerate(weights)]

    def host(i: NDArray[Any], step: float, *argument: float) -> NDArray[Any]:
        waves = ((-1) ** k * weight * np.cos(np.pi * k * i * step) for k, weight in enumerate(argument))
        result: NDArray[Any] = sum(waves, np.zeros_like(i))
        return result

    return _shape(f"cosine_{count}", " ".join(["step", *weights]), f"0.0 {' '.join(terms)}", host)


def window(
    function: str,
    shape: Shape | None,
    length: int,
    numbers: tuple[float, ...],
    dtype: dtype,
    layout: Any,
    device: Any,
    requires_grad: bool,
    pin_memory: bool = False,
) -> Tensor:
    """A window; without a shape it is all ones."""
    device_state = device_state_of(device)
    if layout is not None or pin_memory:
        check_memory(layout, pin_memory, device_state, function)
    result = new_layout((length,), dtype, device_state, None, function)
    if device_state.is_cuda:
        output = filled(result, 1) if shape is None else device_state.plans[shape.device, result](*numbers)
        return finish(output, requires_grad)
    values = np.ones(length) if shape is None else shape.host(np.arange(length, dtype=np.float64), *numbers)
    if not pin_memory:
        return finish(wrap(values.astype(dtype.numpy), result), requires_grad)
    output = empty(result, pin_memory=True)
    output._writable[...] = values
    return finish(output, requires_grad)
