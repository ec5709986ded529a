"""Running plans of kernels that need scratch memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nvrtc_kernels import reduction
    from nvrtc_kernels.plans import Plan
    from tensor.core.devices.state import CudaState


def launch(device_state: CudaState, plan: Plan, *addresses: int) -> None:
    """Queue ``plan`` on this thread's current stream, with scratch memory where it needs some.

    The memory is given back at once: whoever gets it next on this stream comes after the kernels.
    """
    stream = device_state.local.stream
    if not plan.scratch_bytes:
        plan.run(stream.handle, 0, *addresses)
        return
    block: Any = device_state.allocate(plan.scratch_bytes, stream.cuda_stream)
    try:
        plan.run(stream.handle, block.address, *addresses)
    finally:
        device_state.free(block)


def launch_reduction(device_state: CudaState, plan: reduction.Plan, *arguments: Any) -> None:
    """:func:`launch` of a reduction: operands' addresses, and numbers behind them."""
    stream = device_state.local.stream
    block: Any = device_state.allocate(plan.scratch_bytes, stream.cuda_stream) if plan.scratch_bytes else None
    try:
        plan.run(stream.handle, *arguments, scratch=0 if block is None else block.address)
    finally:
        if block is not None:
            device_state.free(block)
