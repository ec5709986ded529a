"""Device states: the memory that tensors lie in, with everything that serves it.

There is one for the host, and one for each device of the runtime. Objects of a runtime hang on the
runtime, so that :func:`drv.reset` drops them with it.
"""

from __future__ import annotations

import atexit
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from weakref import WeakSet

import drv
from tensor.core.plans import Plans

from . import device as devices

if TYPE_CHECKING:
    from collections.abc import Callable

    from .stream import Stream


class _State:
    """Where memory is. ``plans`` holds what works on it."""

    # ``is_cuda`` is no attribute of the classes: CPython 3.11 reads a slot several times as fast.
    __slots__ = ("device", "is_cuda", "plans")

    def __init__(self, device: devices.device) -> None:
        self.device = device
        self.plans = Plans()

    def check_alive(self) -> None:
        """Raise DroppedRuntimeError for a device of a runtime that was dropped, whose name means another now."""


class HostState(_State):
    """The host's memory."""

    __slots__ = ()
    is_cuda: Literal[False]

    def __init__(self) -> None:
        super().__init__(devices.device("cpu"))
        self.is_cuda = False

    def __repr__(self) -> str:
        return "<HostState>"


class CudaState(_State):
    """A device's memory.

    Attributes
    ----------
    native : drv.Device
        The device.
    ordinal : int
        Its number.
    allocate, free
        Methods of the device's allocator, looked up once.
    local
        What differs from thread to thread: ``local.stream`` is the current stream.
    """

    __slots__ = ("__weakref__", "allocate", "allocator", "free", "local", "native", "ordinal", "runtime")
    is_cuda: Literal[True]

    def __init__(self, runtime: drv.Runtime, ordinal: int) -> None:
        # Of use only where a device is.
        from drv.allocators import device_allocator

        super().__init__(devices.device("cuda", ordinal))
        self.is_cuda = True
        self.runtime = runtime
        self.ordinal = ordinal
        self.native = runtime.device(ordinal)
        self.allocator = device_allocator(runtime, ordinal)
        self.allocate: Callable[[int, int], Any] = self.allocator.allocate
        self.free: Callable[[Any], None] = self.allocator.free
        self.local = _Local(_stream_of(self, self.native.default_stream))
        _cuda_states.add(self)

    def __repr__(self) -> str:
        return f"<CudaState {self.ordinal} of {self.runtime!r}>"

    def check_alive(self) -> None:
        """See :meth:`DeviceState.check_alive`."""
        self.native.use()

    def let_go(self) -> None:
        """Drop plans and what belongs to threads, which the garbage collector does not see through."""
        self.plans.clear()
        self.local = _Local(self.local.default)

    @property
    def default_stream(self) -> Stream:
        """The device's default stream."""
        return self.local.default

    def pinned_allocator(self) -> Any:
        """The allocator of pinned host memory, which all devices share."""
        # As above.
        from drv.allocators import pinned_allocator

        return pinned_allocator(self.runtime)


#: ``is_cuda`` says which of them one is, to type checkers too.
DeviceState: TypeAlias = HostState | CudaState


class _Local(threading.local):
    """Of one thread and one device."""

    def __init__(self, default: Stream) -> None:
        self.default = default
        self.stream = default
        #: The handles of cuBLAS and cuDNN, once there are any.
        self.blas: Any = None
        self.cudnn: Any = None
        #: What lets go of them with the thread.
        self.leases: list[Any] = []
        #: Results that a plan is to give, the next one last: see :mod:`tensor.core.plans.placing`.
        self.placed: list[Any] = []


#: Makes a stream of a device from the driver's one.
_stream_of: Callable[[CudaState, drv.Stream], Stream]


def make_streams_with(factory: Callable[[CudaState, drv.Stream], Stream]) -> None:
    """Have ``factory`` make the default streams of devices. The module of streams, which builds on this one, does so."""
    global _stream_of
    _stream_of = factory


#: The state of every device that is in use.
_cuda_states: WeakSet[CudaState] = WeakSet()


def _keep(block: Any) -> None:
    """Leave memory to the operating system."""


def _at_exit() -> None:
    """Have what the interpreter destroys after its modules' names give nothing back: that takes these names."""
    for each in list(_cuda_states):
        each.free = _keep


atexit.register(_at_exit)

#: The host.
cpu = HostState()


def cuda_state(ordinal: int | None = None) -> CudaState:
    """The state of a device of the runtime in use, by default of this thread's current device.

    Raises
    ------
    RuntimeError
        Of one of drv's classes, if there is no such device, or no driver can be had.
    """
    runtime = drv.runtime()
    if ordinal is None:
        selected = runtime.current.selected
        ordinal = 0 if selected is None else selected.ordinal
    key = "device_state", ordinal
    result: CudaState | None = runtime.cached(key)
    # A lambda would make cells of the names at each call.
    return runtime.cache(key, partial(CudaState, runtime, ordinal)) if result is None else result


def forget_plans() -> None:
    """Make plans anew, because something else than layouts that they were made from has changed."""
    global _forgotten
    _forgotten += 1
    for device_state in (cpu, *_cuda_states):
        device_state.plans.clear()


_forgotten = 0


def plans_forgotten() -> int:
    """How often :func:`forget_plans` was called: what was made of plans is good for one count only."""
    return _forgotten


def device_state_of(argument: Any) -> DeviceState:
    """DeviceState that a ``device=`` argument means: a device, a text, an index, or ``None`` for the default.

    Raises
    ------
    RuntimeError
        For a type of device that can be named and has no tensors here, as "meta".
    """
    if argument is None:
        argument = devices.default_device()
        if argument is None:
            return cpu
    cls = type(argument)
    if cls is not str and cls is not devices.device:
        argument = devices.device(argument)
    is_cuda, ordinal = _named.get(argument) or _look_up(argument)
    return cuda_state(ordinal) if is_cuda else cpu


#: What devices and the texts that name them mean: whether it is one of CUDA, and its number. There are few devices.
_named: dict[str | devices.device, tuple[bool, int | None]] = {}


def _look_up(argument: str | devices.device) -> tuple[bool, int | None]:
    device = devices.device(argument)
    if device.type not in ("cpu", "cuda"):
        raise RuntimeError(f"there are no tensors on device '{device}' here: use device='cpu' or 'cuda'")
    result = _named[argument] = device.type == "cuda", device.index
    return result
