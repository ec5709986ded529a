"""Selecting the driver, once; starting over; what a forked child may do."""

from __future__ import annotations

import atexit
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from graphroot.coexistence import own

from . import environment
from .current import in_use, runtime
from .errors import CudaError, ForkError, NoDeviceError, NoDriverError, error_class
from .failures import status_text
from .runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FORKED = (
    "this process was forked from one that had used CUDA, and no CUDA context survives a fork. Start workers "
    "with multiprocessing.get_context('spawn'), or fork before the first CUDA call"
)
_NOT_INITIALIZED = 3


class Supervisor(Protocol):
    """A tool that watches over a program's runtimes."""

    def simulator_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Options for a simulated driver that is about to be made, for which the program asks for ``options``."""

    def started(self, runtime: Runtime) -> None:
        """``runtime`` was made and nothing has used it yet."""

    def ending(self, runtime: Runtime) -> None:
        """``runtime`` is about to be dropped by :func:`reset`."""


class _Selection:
    """How to make the runtime in use."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        #: Makes the simulated driver that was installed from Python, if one was.
        self.simulator: Callable[[], Any] | None = None
        #: What the parent of this forked process had used: ``"context"``, ``"driver"`` or nothing.
        self.inherited = ""
        #: How many devices that parent saw.
        self.inherited_devices = 0
        self.hooked = False
        #: The tool that watches, if one does; by the environment, for a process that a watched program has started.
        self.supervisor: Supervisor | None = None


_selection = _Selection()


def is_available() -> bool:
    """Whether there is a driver with a device. Creates no context, and raises nothing.

    It is False on a machine with neither a GPU nor ``GRAPHROOT_DRIVER=simulator``.
    """
    try:
        runtime()
    except (NoDriverError, NoDeviceError):
        return False
    except ForkError:
        return True
    return True


def is_initialized() -> bool:
    """Whether a driver was chosen in this process. Chooses none, and raises nothing.

    >>> drv.current_device().ordinal
    0
    >>> drv.is_initialized()
    True
    """
    return in_use.runtime is not None


def is_current(candidate: Runtime) -> bool:
    """Whether ``candidate`` is the runtime in use."""
    return in_use.runtime is candidate


def device_count() -> int:
    """Number of visible devices, 0 where there is no driver. Creates no context, and raises nothing.

    A forked child of a process that used CUDA, which can use no device, is told how many its parent saw.
    """
    try:
        return len(runtime().devices)
    except (NoDriverError, NoDeviceError):
        return 0
    except ForkError:
        return _selection.inherited_devices


def reset() -> None:
    """Drop the runtime with everything it holds; the next use chooses a driver afresh.

    Objects of the dropped runtime raise :class:`DroppedRuntimeError` when used. Options given to
    ``drv.simulator.install`` are forgotten. Work that is still queued on simulated devices does not run any more, except
    where host callbacks are queued: these end first.
    """
    # Callbacks that are queued may call this library: they find the runtime in use, and nobody who waits for them has the lock.
    active = in_use.runtime
    if active is not None:
        active.end_callbacks()
    with _selection.lock:
        _selection.simulator = None
        watching = _selection.supervisor
        if watching is not None and in_use.runtime is not None:
            watching.ending(in_use.runtime)
        dropped, in_use.runtime = in_use.runtime, None
    if dropped is not None:
        dropped.close()


@contextmanager
def set_aside() -> Iterator[None]:
    """Leave the runtime in use as it is for a block, which may choose another; that is dropped at its end.

    Objects of the one set aside work on, also within the block.
    """
    with _selection.lock:
        saved = in_use.runtime, _selection.simulator
        in_use.runtime = _selection.simulator = None
    try:
        yield
    finally:
        reset()
        with _selection.lock:
            in_use.runtime, _selection.simulator = saved


def supervise(supervisor: Supervisor | None) -> None:
    """Have ``supervisor`` watch over every runtime that this process makes from now on; ``None`` ends it."""
    _hook()
    _selection.supervisor = supervisor


def supervised(options: dict[str, Any]) -> dict[str, Any]:
    """``options`` of a simulated driver, as the tool that watches wants them."""
    watching = _supervisor()
    return options if watching is None else watching.simulator_options(options)


def _supervisor() -> Supervisor | None:
    """The tool that watches over this process."""
    reference = environment.supervisor()
    if _selection.supervisor is None and reference is not None:
        # What it does at the interpreter's end comes before the driver's.
        _hook()
        module, _, function = reference.partition(":")
        # By name, as tools are above this layer.
        _selection.supervisor = getattr(own(module), function)()
    return _selection.supervisor


def install(simulator: Callable[[], Any]) -> Runtime:
    """Use the driver that ``simulator`` returns; see ``drv.simulator.install``.

    Raises
    ------
    CudaError
        If a driver is already in use.
    """
    with _selection.lock:
        if in_use.runtime is not None:
            raise CudaError(
                f"the {in_use.runtime.name} driver is already in use: install the simulator before the "
                "first CUDA call, or call drv.reset() first"
            )
        started = _start(simulator(), simulated=True)
        _selection.simulator = simulator
        return started


def _choose() -> Runtime:
    with _selection.lock:
        if in_use.runtime is not None:
            return in_use.runtime
        if _selection.inherited == "context":
            raise ForkError(_FORKED)
        if _selection.simulator is not None:
            return _start(_selection.simulator(), simulated=True)
        choice = environment.driver_choice()
        if choice == "simulator":
            # The chosen driver is loaded, and no other.
            from .simulator import from_environment

            return _start(from_environment(), simulated=True)
        return _start(_nvidia(choice), simulated=False)


def _start(driver: Any, *, simulated: bool) -> Runtime:
    _hook()
    started = in_use.runtime = Runtime(driver, simulated=simulated)
    watching = _supervisor()
    if watching is not None:
        watching.started(started)
    return started


def _hook() -> None:
    """Be told of forks and of the interpreter's end."""
    if not _selection.hooked:
        _selection.hooked = True
        os.register_at_fork(after_in_child=_after_fork)
        atexit.register(_at_exit)


def _nvidia(choice: str) -> Any:
    """NVIDIA's driver, initialised."""
    remedy = (
        "Install the NVIDIA driver, or run without a GPU on the simulated driver: `graphroot run --simulate "
        "program.py`, or GRAPHROOT_DRIVER=simulator"
    )
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise NoDriverError(f"cuda.bindings cannot be imported ({error}): pip install cuda-python") from error
    try:
        status = driver.cuInit(0)[0]
    except Exception as error:
        raise NoDriverError(
            f"NVIDIA's driver does not load (GRAPHROOT_DRIVER={choice}): {str(error).rstrip('.')}. {remedy}"
        ) from None
    if int(status) == _NOT_INITIALIZED and _selection.inherited:
        raise ForkError(_FORKED)
    if status and not issubclass(error_class(int(status)), (NoDriverError, NoDeviceError)):
        # Such as CUDA_ERROR_UNKNOWN where the kernel module is damaged: there is no driver to work with.
        name, text = status_text(driver, status)
        raise NoDriverError(
            f"NVIDIA's driver does not start (GRAPHROOT_DRIVER={choice}): cuInit failed: {name}: {text}. {remedy}",
            status=name,
            call="cuInit",
        )
    return driver


def _after_fork() -> None:
    """In a forked child: what the parent had is out of reach, and must not be given back either."""
    _selection.lock = threading.RLock()
    # The parent's, which will not hear of this process.
    _selection.supervisor = None
    left, in_use.runtime = in_use.runtime, None
    if left is None:
        return
    if any(device.context is not None for device in left.devices):
        _selection.inherited = "context"
    elif not left.simulated:
        _selection.inherited = "driver"
    _selection.inherited_devices = len(left.devices)
    left.retire(ForkError, _FORKED)


def _at_exit() -> None:
    """At interpreter exit: let host callbacks end, then leave every handle to the operating system."""
    left = in_use.runtime
    if left is not None:
        left.exit()


in_use.choose = _choose
