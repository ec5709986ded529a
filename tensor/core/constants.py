"""Small tensors that follow from sizes alone, made once and kept where they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base import wrap
from .modes.sync_debug import sync_debug
from .plans.steps import innermost, recorders

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    from .devices.state import DeviceState


def device_constant(
    device_state: DeviceState, key: tuple[Any, ...], make: Callable[[], NDArray[Any]]
) -> Tensor:
    """The tensor on ``device_state`` that is known by ``key``; at first the elements of ``make()``."""
    state: Any = device_state
    result: Tensor | None = state.plans.get(key)
    if result is None:

        def create() -> Tensor:
            with sync_debug.suspended():
                created: Tensor = wrap(make()).to(device_state.device)
                if device_state.is_cuda:
                    # Other streams will read it: it is there before anyone can ask.
                    state.local.stream.synchronize()
            state.plans[key] = created
            return created

        recorder = innermost() if recorders else None
        if recorder is not None and recorder.device_state is device_state:
            # Making it is no part of what is recorded.
            result = recorder.looked_up(key, create)
        else:
            result = create()
    if device_state.is_cuda:
        # When plans are forgotten, its memory must wait for whoever still reads it.
        result.record_stream(state.local.stream)
    return result
