"""Sums of windows of signals where they overlap: the derivative of ``unfold``, and the end of ``istft``."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import overlapping as kernels
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.base import empty, wrap
from tensor.core.dtypes import promotion as rules
from tensor.core.layout import contiguous
from tensor.core.modes.grad_mode import unrecorded
from tensor.core.plans import planned
from tensor.core.plans.copies import host_conversion

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


def _overlap_add_plan(frames: Layout, step: int, extent: int) -> Callable[[Tensor], Tensor]:
    """``device_state.plans[OVERLAP_ADD, frames_layout, step, extent]`` works it out."""
    *lead, windows, size = frames.shape
    signals = prod(lead)
    out = contiguous[(*lead, extent), frames.dtype, frames.device_state]
    if not frames.device_state.is_cuda:
        return lambda x: wrap(_on_host(x._host, frames, step, extent).reshape(out.shape), out)
    device_state = frames.device_state
    steps = (frames.strides[-3] if lead else 0, frames.strides[-2])
    run = kernels.plan(device_state.native, signals, windows, size, step, extent, steps, frames.dtype)
    local = device_state.local

    def launch(x: Tensor) -> Tensor:
        result = empty(out)
        run(local.stream.handle, result._address, x._address)
        return result

    return launch


OVERLAP_ADD = planned(_overlap_add_plan)


def _on_host(frames: NDArray[Any], layout: Layout, step: int, extent: int) -> NDArray[Any]:
    """Part by part of ``step`` elements: equal parts of all windows never overlap."""
    windows, size = layout.shape[-2:]
    compute_dtype = rules.computes_in(layout.dtype)
    frames = frames.reshape(-1, windows, size)
    parts_of_window = -(-size // step)
    total = np.zeros(
        (len(frames), max(parts_of_window + windows, -(-extent // step)), step), compute_dtype.numpy
    )
    # From the last part on, so that an element gets its windows in their order, as on a device.
    for part in reversed(range(parts_of_window)):
        piece = frames[..., part * step : (part + 1) * step]
        if layout.dtype is not compute_dtype:
            widened = np.empty(piece.shape, compute_dtype.numpy)
            host_conversion(layout.dtype, compute_dtype)(widened, piece)
            piece = widened
        total[:, part : part + windows, : piece.shape[-1]] += piece
    result = total.reshape(len(frames), -1)[:, :extent]
    if layout.dtype is compute_dtype:
        return np.ascontiguousarray(result)
    output = np.empty(result.shape, layout.dtype.numpy)
    host_conversion(compute_dtype, layout.dtype)(output, result)
    return output


def _windows(grad: Tensor, size: int, step: int, windows: int) -> Tensor:
    """The windows of the gradient."""
    return grad.unfold(-1, size, step).narrow(-2, 0, windows)


_FORMULA = BackwardFormula("UnfoldBackward0", "frames", [Derivative(_windows, needs="")])


def overlap_add(frames: Tensor, step: int, extent: int) -> Tensor:
    """Signals ``(..., extent)`` from windows ``(..., windows, size)`` of them, ``step`` apart.

    Windows are added up where they overlap; what none reaches is 0. All of them must lie within ``extent``.
    """
    with unrecorded():
        plain = frames.detach()
        if plain._layout.strides[-1] != 1 or len(plain._layout.shape) > 3:
            plain = plain.contiguous()
        result: Tensor = plain._layout.device_state.plans[OVERLAP_ADD, plain._layout, step, extent](plain)
    windows, size = frames._layout.shape[-2:]
    _FORMULA.record((result,), (frames,), context=(size, step, windows))
    return result
