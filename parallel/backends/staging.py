"""CUDA tensors staged in pinned host memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensor as tensors
from tensor.core.base import empty
from tensor.core.devices.state import cpu
from tensor.core.plans.copies import COPY
from tensor.cuda import Event, Stream, StreamContext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor import Tensor
    from tensor.core.devices.state import CudaState

    from .backend import Array


class Staging:
    """Copies of a process group's tensors from one device to the host and back.

    Attributes
    ----------
    outbound, inbound : Stream
        On which tensors are copied to the host, and back. There are two so that what comes back never waits for what
        the caller has computed since.
    """

    def __init__(self, state: CudaState) -> None:
        self.outbound = Stream(state.device)
        self.inbound = Stream(state.device)
        self.state = state

    def stage(self, operands: Sequence[tuple[Tensor, bool, bool]]) -> Staged:
        """Queue what brings tensors to the host, behind the caller's current stream.

        Parameters
        ----------
        operands : sequence of (Tensor, bool, bool)
            Contiguous tensors on the device, whether each is read, and whether it is filled.
        """
        ready = self.state.local.stream.record_event()
        self.outbound.wait_event(ready)
        plans = self.state.plans
        buffers = []
        with StreamContext(self.outbound):
            for each, is_read, is_filled in operands:
                layout = each._layout
                buffer = empty(layout.on(cpu), pin_memory=True)
                if is_read:
                    plans[COPY, buffer._layout, layout](buffer, each, True)
                    each.record_stream(self.outbound)
                if is_filled:
                    each.record_stream(self.inbound)
                buffers.append(buffer)
            reads = any(is_read for _, is_read, _ in operands)
            copied = self.outbound.record_event(Event(blocking=True)) if reads else None
        filled = [
            (each, buffer)
            for (each, _, is_filled), buffer in zip(operands, buffers, strict=True)
            if is_filled
        ]
        return Staged(self, ready, copied, buffers, filled)


class Staged:
    """Tensors of one operation in pinned memory. Used by the thread that carries out the operation."""

    def __init__(
        self,
        staging: Staging,
        ready: Event,
        copied: Event | None,
        buffers: list[Tensor],
        filled: list[tuple[Tensor, Tensor]],
    ) -> None:
        self._staging = staging
        self._ready = ready
        self._copied = copied
        self._buffers = buffers
        self._filled = filled

    def arrays(self) -> list[Array]:
        """The flat arrays, once the copies to them are done; the host waits only if one is read."""
        if self._copied is not None:
            self._copied.synchronize()
        return [each._writable.reshape(-1) for each in self._buffers]

    def bring_back(self) -> None:
        """Queue the copies to the device of what was filled."""
        inbound: Any = self._staging.inbound
        # Tensors that were not read may be in use by what the caller had queued.
        inbound.wait_event(self._ready)
        plans = self._staging.state.plans
        with StreamContext(inbound), tensors.no_grad():
            for each, buffer in self._filled:
                plans[COPY, each._layout, buffer._layout](each, buffer, True)
