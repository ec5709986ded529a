"""How one value is written to every element of a layout."""

from __future__ import annotations

from math import copysign
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import pointwise
from nvrtc_kernels.dtypes import STORAGE_ONLY, Category, uint64
from tensor.core.base import empty, maker, wrap
from tensor.core.dtypes.scalars import element

from .plans import planned
from .steps import one_step

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

_EXPRESSIONS = {
    Category.BOOL: pointwise.Expression("fill", "value", (("value", "?"),)),
    Category.INTEGER: pointwise.Expression("fill", "value", (("value", "q"),)),
    Category.FLOATING: pointwise.Expression("fill", "value", (("value", "d"),)),
    Category.COMPLEX: pointwise.Expression("fill", "(complex128{re, im})", (("re", "d"), ("im", "d"))),
}
_UINT64 = pointwise.Expression("fill", "value", (("value", "Q"),))


def _fill_plan(layout: Layout) -> Callable[[Tensor, Any], None]:
    """How to fill a layout.

    ``device_state.plans[FILL, layout]`` carries it out.
    """
    device_state = layout.device_state
    if not device_state.is_cuda:
        return _on_host
    # What a stretched dimension shows is written once.
    sizes = zip(layout.shape, layout.strides, strict=True)
    layout = layout.with_strides(
        tuple(1 if step == 0 and size else size for size, step in sizes), layout.strides
    )
    count = layout.numel
    expression = _UINT64 if layout.dtype is uint64 else _EXPRESSIONS[layout.dtype.category]
    launch = pointwise.plan(device_state.native, expression, layout.shape, (layout.strides, layout.dtype))
    local = device_state.local
    is_complex = layout.dtype.is_complex
    by_memset = layout.dense and count > 0 and not is_complex
    is_floating = layout.dtype.is_floating_point
    clear = _clearing(layout)

    def run(target: Tensor, value: Any) -> None:
        # A negative zero is no zero here: its bits are not all 0.
        if by_memset and not value and not (is_floating and copysign(1.0, value) < 0):
            clear(target)
        elif is_complex:
            launch(local.stream.handle, target._address, value.real, value.imag)
        else:
            launch(local.stream.handle, target._storage.address + target._offset, value)

    return run


FILL = planned(_fill_plan, takes=STORAGE_ONLY)


def _zero_plan(layout: Layout) -> Callable[[Tensor], None]:
    """How to clear a layout.

    ``device_state.plans[ZERO, layout](target)`` fills with zeros.
    """
    if layout.device_state.is_cuda and layout.dense and layout.numel:
        return _clearing(layout)
    fill, zero = FILL.plan(layout), element(0, layout.dtype)
    return lambda target: fill(target, zero)


ZERO = planned(_zero_plan, takes=STORAGE_ONLY)


def _clearing(layout: Layout) -> Callable[[Tensor], None]:
    """What sets all bytes of tensors of a dense layout on a device to 0."""
    device_state: Any = layout.device_state
    runtime, native, local, nbytes = (
        device_state.runtime,
        device_state.native,
        device_state.local,
        layout.nbytes,
    )
    memset, current = runtime.driver.cuMemsetD8Async, runtime.current

    def clear(target: Tensor) -> None:
        if current.device is not native:
            native.make_current()
        status = memset(target._storage.address + target._offset, 0, nbytes, local.stream.handle)[0]
        if status:
            runtime.fail(status, "cuMemsetD8Async", f"{nbytes} bytes")

    return clear


def _filled_plan(layout: Layout) -> Callable[[Any], Tensor]:
    """How to make one of ``layout``.

    ``device_state.plans[FILLED, layout](value)`` is a new tensor on a device with ``value`` everywhere.
    """
    make, fill = maker(layout), FILL.plan(layout)
    by_memset = layout.dense and layout.numel > 0
    clear = _clearing(layout)
    dtype = layout.dtype

    def run(value: Any) -> Tensor:
        if by_memset and type(value) is int and value == 0:
            result = make()
            clear(result)
            return result
        number = element(value, dtype)
        result = make()
        fill(result, number)
        return result

    return run


FILLED = planned(_filled_plan, takes=STORAGE_ONLY)


def _on_host(target: Tensor, value: Any) -> None:
    target._writable.fill(value)


@one_step
def _zeros_on_host(layout: Layout) -> Tensor:
    # The operating system hands out zeros: nothing is written until it is used.
    try:
        return wrap(np.zeros(layout.shape, layout.dtype.numpy), layout)
    except (MemoryError, ValueError):
        return empty(layout)  # which says what there was no memory for


def filled(layout: Layout, value: Any, *, pin_memory: bool = False) -> Tensor:
    """New tensor of ``layout`` with ``value`` everywhere, which the dtype must hold."""
    if (
        type(value) is int
        and value == 0
        and layout.contiguous
        and not layout.device_state.is_cuda
        and not pin_memory
    ):
        # A negative zero is a float.
        return _zeros_on_host(layout)
    if layout.device_state.is_cuda and not pin_memory:
        filled_there: Tensor = layout.device_state.plans[FILLED, layout](value)
        return filled_there
    value = element(value, layout.dtype)
    result = empty(layout, pin_memory=pin_memory)
    layout.device_state.plans[FILL, layout](result, value)
    return result
