"""Which convolutions go through cuDNN, where it is installed, and by which of its algorithms.

It is asked for its algorithms once for a geometry, formats and settings, and the one that it expects to be the quickest is taken;
with ``backends.cudnn.benchmark`` they are timed, and our own kernels beside them. Our own are taken without being timed for what
cuDNN is known to be slow at or does not do: channels with filters of their own, paddings of different sizes, integers and complex
numbers. Operands are read in the format of the result, row-major or channels last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import drv
from tensor.core.devices.graph_capture import capture_of
from tensor.core.modes.cudnn import settings
from tensor.core.modes.determinism import determinism
from tensor.core.modes.precision import settings as precision
from tensor.core.plans.placing import as_always

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from drv import Runtime
    from nvrtc_kernels.convolution import Geometry
    from tensor.core.devices.state import CudaState
    from tensor.core.layout import Layout
    from tensor.core.modes.cudnn import Cudnn
    from tensor.methods.tensor import Tensor

    #: Computes a convolution of two operands, and perhaps a bias.
    _Run: TypeAlias = Callable[..., Tensor]

#: Names of the types that cuDNN computes convolutions of.
TYPES = ("float16", "bfloat16", "float32", "float64")
#: How often each algorithm runs to be timed.
_RUNS = 3


def library_of(runtime: Runtime) -> Any:
    """cuDNN; ``None`` where it is missing, which is looked for once."""

    def find() -> Any:
        try:
            return runtime.library("cudnn")
        except (drv.LibraryNotInstalledError, drv.NotSupportedError):
            return None

    return runtime.cache("cuDNN, if it is there", find)


def takes(geometry: Geometry, first: Layout, second: Layout, out: Layout) -> bool:
    """Whether cuDNN is there, and a direction of a convolution of operands of these layouts is something for it."""
    device_state: Any = out.device_state
    return (
        device_state.is_cuda
        and out.dtype.name in TYPES
        and not geometry.depthwise
        and not any(geometry.windows.excess)
        and bool(first.numel and second.numel and out.numel)
        and library_of(device_state.runtime) is not None
    )


def chosen(
    device_state: CudaState, own: Callable[[], _Run], ways: Callable[[bool, bool], Sequence[_Run]]
) -> _Run:
    """What computes a convolution of operands of given layouts as the settings say at the time.

    Parameters
    ----------
    own
        Makes what computes it by our own kernels.
    ways
        ``ways(exact, deterministic)`` makes what computes it by the algorithms of cuDNN, the one expected to be quickest first.
    """
    runs: dict[Any, _Run] = {}

    def run(*operands: Any) -> Tensor:
        key = settings.cudnn, precision.convolution_tf32, determinism.required
        chosen_run = runs.get(key)
        if chosen_run is None:
            chosen_run = choose(key, operands)
        return chosen_run(*operands)

    def choose(key: tuple[Cudnn, bool, bool], operands: Sequence[Any]) -> _Run:
        (enabled, benchmark, deterministic, limit), tf32, required = key
        with as_always():
            through_cudnn = ways(not tf32, deterministic or required) if enabled else ()
            if not through_cudnn:
                result = own()
            elif not benchmark:
                result = through_cudnn[0]
            elif capture_of(device_state) is not None:
                # Nothing can be timed while it is captured; the next time something may be.
                return through_cudnn[0]
            else:
                result = _quickest(device_state, [*through_cudnn[: limit or None], own()], operands)
        runs[key] = result
        return result

    return run


def _quickest(device_state: CudaState, ways: Sequence[_Run], operands: Sequence[Any]) -> _Run:
    """The one of ``ways`` that takes the least time on the device."""
    stream = device_state.local.stream.native
    start, end = (drv.Event(device_state.native, timing=True) for _ in range(2))
    times = {}
    for way in ways:
        try:
            # The first run may compile kernels.
            way(*operands)
            start.record(stream)
            for _ in range(_RUNS):
                way(*operands)
            end.record(stream)
        except (drv.OutOfMemoryError, drv.NotSupportedError):
            continue
        end.synchronize()
        times[start.elapsed_time(end)] = way
    # Our own kernels, which come last, need no workspace; if there is no memory for a result, running them says so.
    return times[min(times)] if times else ways[-1]
