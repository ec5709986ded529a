"""cuFFT plans, kept in a least-recently-used cache for each device.

A plan belongs to the cache and to whoever executes it: one that is evicted while a thread prepares an execution, or
while the device still runs one, is destroyed when the last of them is done. Plans have no work area of their own; each
execution gets one from the caching allocator, on its own stream, so that no two streams ever share one and the
memory statistics count it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

import drv
from drv.bindings.cufft import CUFFT_FORWARD, CUFFT_INVERSE, cufftType
from tensor.core.devices import device as devices
from tensor.core.devices.event import Event
from tensor.core.devices.graph_capture import capture_of
from tensor.core.devices.state import cuda_state

if TYPE_CHECKING:
    from tensor.core.devices.state import CudaState
    from tensor.core.devices.stream import Stream

#: Plans that a cache keeps at first, as PyTorch does for CUDA 10 and later.
DEFAULT_SIZE = 4096
_TRANSFORM_TYPES = {
    ("c2c", 8): (cufftType.CUFFT_C2C, "cufftExecC2C"),
    ("c2c", 16): (cufftType.CUFFT_Z2Z, "cufftExecZ2Z"),
    ("r2c", 8): (cufftType.CUFFT_R2C, "cufftExecR2C"),
    ("r2c", 16): (cufftType.CUFFT_D2Z, "cufftExecD2Z"),
    ("c2r", 8): (cufftType.CUFFT_C2R, "cufftExecC2R"),
    ("c2r", 16): (cufftType.CUFFT_Z2D, "cufftExecZ2D"),
}


class Side(NamedTuple):
    """How the input, or the output, of a batch of transforms lies in memory, in elements.

    Element ``(x, y)`` of transform ``b`` is ``b * batch + (x * embed[1] + y) * step`` after the first.
    """

    embed: tuple[int, ...]
    step: int
    batch: int


class Key(NamedTuple):
    """What a plan is made for; the direction is chosen at each execution."""

    transform_type: str
    complex_bytes: int
    sizes: tuple[int, ...]
    input: Side
    output: Side
    transforms: int


class FftPlan:
    """A cuFFT plan.

    Attributes
    ----------
    users : int
        Threads that prepare an execution now; under the cache's lock.
    graphs : WeakSet
        What CUDA graphs that execute it hold on to.
    """

    def __init__(self, device_state: CudaState, key: Key) -> None:
        self.device_state = device_state
        self.library: Any = device_state.runtime.library("cufft")
        self._current = device_state.runtime.current
        device_state.native.use()
        transform_type, execute = _TRANSFORM_TYPES[key.transform_type, key.complex_bytes]
        self._execute = getattr(self.library, execute)
        self._directed = key.transform_type == "c2c"
        handle = self.library.cufftCreate()
        try:
            self.library.cufftSetAutoAllocation(handle, 0)
            self.work_bytes = self.library.cufftMakePlanMany64(
                handle,
                len(key.sizes),
                key.sizes,
                key.input.embed,
                key.input.step,
                key.input.batch,
                key.output.embed,
                key.output.step,
                key.output.batch,
                transform_type,
                key.transforms,
            )
        except BaseException:
            self.library.cufftDestroy(handle)
            raise
        self.handle = handle
        self.users = 0
        self.evicted = False
        self.graphs: WeakSet[_Hold] = WeakSet()
        self._retires = False
        self._lock = threading.Lock()
        #: What it was last told; it keeps both.
        self._stream: Stream | None = None
        self._work_area = -1
        #: Streams that executed it; and once it was evicted, what they had queued by then.
        self._streams: dict[Stream, Stream] = {}
        self._events: list[Event] = []

    def execute(self, argument: int, result: int, *, inverse: bool) -> None:
        """Queue the transform of the memory at ``argument`` to that at ``result`` on this thread's current stream."""
        device_state = self.device_state
        stream = device_state.local.stream
        capture = capture_of(device_state)
        block, work_area = None, 0
        if self.work_bytes:
            block = device_state.allocate(self.work_bytes, stream.cuda_stream)
            work_area = block.address
        try:
            # Stream and work area are the plan's: nobody else may set them before it is executed.
            with self._lock:
                if self._current.device is not device_state.native:
                    device_state.native.use()
                if stream is not self._stream:
                    self.library.cufftSetStream(self.handle, int(stream.handle))
                    self._stream = stream
                if capture is None:
                    self._streams[stream] = stream
                else:
                    hold = _Hold(self)
                    self.graphs.add(hold)
                    capture.referenced.append(hold)
                if work_area != self._work_area:
                    self.library.cufftSetWorkArea(self.handle, work_area)
                    self._work_area = work_area
                if self._directed:
                    self._execute(self.handle, argument, result, CUFFT_INVERSE if inverse else CUFFT_FORWARD)
                else:
                    self._execute(self.handle, argument, result)
        finally:
            if block is not None:
                # Whoever gets it next on this stream comes after the transform.
                device_state.free(block)

    def retire(self) -> None:
        """Note what the device still has to do with the plan, as soon as no stream is captured."""
        if self.device_state.runtime.captures:
            self._retires = True
            return
        self._retires = False
        for stream in self._streams:
            event = Event()
            event.record(stream)
            self._events.append(event)

    def idle(self) -> bool:
        """Whether the device is done with the plan, which was retired, and no graph has it."""
        if self._retires:
            self.retire()
        self._events = [event for event in self._events if not event.query()]
        return not (self._events or self.graphs)

    def destroy(self) -> None:
        """Destroy it. Nobody uses it any more."""
        self.device_state.native.use()
        self.library.cufftDestroy(self.handle)


class _Hold:
    """A graph's hold on a plan, which has tables that the graph's kernels read."""

    __slots__ = ("__weakref__", "plan")

    def __init__(self, plan: FftPlan) -> None:
        self.plan = plan


class PlanCache:
    """Plans of one device, the most recently used ones.

    Attributes
    ----------
    created, destroyed : int
        How many plans were.
    """

    def __init__(self, device_state: CudaState) -> None:
        self.device_state = device_state
        self.created = self.destroyed = 0
        self._plans: OrderedDict[Key, FftPlan] = OrderedDict()
        self._retired: list[FftPlan] = []
        self._limit = DEFAULT_SIZE
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._plans)

    @property
    def limit(self) -> int:
        """How many plans are kept."""
        return self._limit

    @limit.setter
    def limit(self, value: int) -> None:
        with self._lock:
            self._limit = value
            self._shrink()

    def clear(self) -> None:
        """Let go of all plans."""
        with self._lock:
            while self._plans:
                self._evict()
            self._sweep()

    def transform(self, key: Key, argument: int, result: int, *, inverse: bool) -> None:
        """Execute the plan for ``key`` on this thread's current stream."""
        with self._lock:
            plan = self._plans.get(key)
            if plan is None:
                plan = FftPlan(self.device_state, key)
                self.created += 1
                self._plans[key] = plan
                plan.users += 1
                self._shrink()
            else:
                self._plans.move_to_end(key)
                plan.users += 1
        try:
            plan.execute(argument, result, inverse=inverse)
        finally:
            with self._lock:
                plan.users -= 1
                if plan.evicted and not plan.users:
                    self._retire(plan)
                if self._retired:
                    self._sweep()

    def _shrink(self) -> None:
        while len(self._plans) > self._limit:
            self._evict()

    def _evict(self) -> None:
        plan = self._plans.popitem(last=False)[1]
        plan.evicted = True
        if not plan.users:
            self._retire(plan)

    def _retire(self, plan: FftPlan) -> None:
        plan.retire()
        self._retired.append(plan)

    def _sweep(self) -> None:
        """Destroy evicted plans that the device is done with; not while a stream is captured, when it cannot be asked."""
        if self.device_state.runtime.captures:
            return
        waiting = []
        for plan in self._retired:
            if plan.idle():
                plan.destroy()
                self.destroyed += 1
            else:
                waiting.append(plan)
        self._retired = waiting


def plan_cache(device_state: CudaState) -> PlanCache:
    """The cache of a device."""
    result: PlanCache = device_state.runtime.cache(
        ("cufft plans", device_state.ordinal), lambda: PlanCache(device_state)
    )
    return result


class CufftPlanCache:
    """``backends.cuda.cufft_plan_cache``: the current device's cache, and with ``[device]`` another one's."""

    __slots__ = ("_ordinal",)

    _ordinal: int | None

    def __init__(self, ordinal: int | None = None) -> None:
        object.__setattr__(self, "_ordinal", ordinal)

    def _cache(self) -> PlanCache:
        return plan_cache(cuda_state(self._ordinal))

    @property
    def size(self) -> int:
        """Plans in the cache."""
        return len(self._cache())

    @property
    def max_size(self) -> int:
        """Plans to keep, 4096 at first; fewer evict at once, 0 keeps none.

        Raises
        ------
        RuntimeError
            For a negative number.
        TypeError
            For what is no integer.
        """
        return self._cache().limit

    @max_size.setter
    def max_size(self, value: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"cuFFT: max_size must be an integer, got {type(value).__name__}")
        if value < 0:
            raise RuntimeError(f"cuFFT: expected a non-negative number of plans as max_size, but got {value}")
        self._cache().limit = value

    def clear(self) -> None:
        """Let go of all plans."""
        self._cache().clear()

    def __setattr__(self, name: str, value: object) -> None:
        if name == "size":
            raise RuntimeError(
                ".size is a read-only property showing the number of plans currently in the cache. To change the cache "
                "capacity, set cufft_plan_cache.max_size."
            )
        if name != "max_size":
            raise AttributeError(
                f"cufft_plan_cache has no attribute {name!r}: it has size, max_size and clear()"
            )
        object.__setattr__(self, name, value)

    def __getitem__(self, device: object) -> CufftPlanCache:
        """The cache of a device, given as such or by its index.

        Raises
        ------
        RuntimeError
            For a device that does not exist or is no CUDA device.
        """
        if isinstance(device, int) and not isinstance(device, bool):
            ordinal: int | None = device
        else:
            result = devices.device(device)  # type: ignore[arg-type]
            if result.type != "cuda":
                raise RuntimeError(f"cufft_plan_cache: expected a CUDA device, got {result!r}")
            ordinal = result.index
        count = drv.device_count()
        if ordinal is not None and not 0 <= ordinal < count:
            raise RuntimeError(
                f"cufft_plan_cache: expected 0 <= device index < {count}, but got device with index {ordinal}"
            )
        return CufftPlanCache(ordinal)
