"""A CUDA driver in Python: the calls of the driver API, with no GPU."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from drv import current, environment, selection
from drv.errors import InvalidValueError, NotSupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drv.runtime import Runtime

    from .checks.findings import Findings
    from .injection import Injection
    from .outsiders.running import run
    from .outsiders.stand_in import stand_in
    from .timing.recorder import Recorder

__all__ = ["findings", "from_environment", "inject", "install", "installed", "run", "stand_in", "timed"]


def __getattr__(name: str) -> Any:
    # Loaded when it is used, since the simulated driver is: a program on NVIDIA's does without.
    if name == "run":
        from .outsiders.running import run

        return globals().setdefault(name, run)
    if name == "stand_in":
        from .outsiders.stand_in import stand_in

        return globals().setdefault(name, stand_in)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def install(**options: Any) -> Runtime:
    """Use the simulated driver in this process, before the first CUDA call.

    Parameters
    ----------
    **options
        As in ``GRAPHROOT_SIMULATOR``, whose values hold for what is left out here: ``devices=2``,
        ``model="h200"``, ``memory="2GiB"``, ``capability="9.0"``, ``multiprocessors=132``, ``peers="all"``,
        ``schedule="lazy"``, ``seed=0``, ``check="race"``, ``same_values="report"``, ``native="off"``, ``cores="all"``,
        ``execute=False``, ``cudnn=True``.
        ``docs/simulator.md`` says what each does.

    Returns
    -------
    Runtime
        The runtime in use from now on.

    Raises
    ------
    CudaError
        If a driver is already in use.
    InvalidValueError
        If an option does not exist or cannot have that value.
    """
    return selection.install(lambda: _driver(options))


@contextmanager
def installed(**options: Any) -> Iterator[Runtime]:
    """Use the simulated driver for a block, as :func:`install` does, and drop it after.

    Options and errors are those of :func:`install`.

    Examples
    --------
    >>> with drv.simulator.installed(devices=2, schedule="lazy") as runtime:
    ...     print(len(runtime.devices))
    2
    """
    runtime = install(**options)
    try:
        yield runtime
    finally:
        if selection.is_current(runtime):
            selection.reset()


def findings() -> Findings:
    """Everything that the simulated driver's checkers have reported so far: races, uninitialised reads.

    The result is a sequence that goes on growing; within ``with findings().collecting():`` findings are only
    recorded, and no synchronising call raises them.

    Raises
    ------
    NotSupportedError
        If the driver in use is NVIDIA's.

    Examples
    --------
    >>> with drv.simulator.installed(check="race"):
    ...     memory = drv.DeviceMemory(1024)
    ...     with drv.simulator.findings().collecting() as findings:
    ...         for stream in (drv.Stream(), drv.Stream()):
    ...             drv.memset(memory, 0, 1024, stream=stream)
    ...         drv.Device(0).synchronize()
    ...         print([str(finding.kind) for finding in findings])
    ['race']
    """
    result: Findings = _simulated("nothing is found").driver.findings
    return result


def inject() -> Injection:
    """Faults on demand, so that a program's error paths can be tested.

    ``inject().out_of_memory_after(nbytes)``, ``inject().fail_call(nth, name)``, ``inject().fail_launch(nth, kernel)``
    and ``inject().lose_device(ordinal)`` say what is to go wrong; ``inject().clear()`` takes it back.

    Raises
    ------
    NotSupportedError
        If the driver in use is NVIDIA's.

    Examples
    --------
    >>> with drv.simulator.installed():
    ...     drv.simulator.inject().out_of_memory_after(1 << 20)
    ...     try:
    ...         drv.DeviceMemory(1 << 21)
    ...     except drv.OutOfMemoryError as error:
    ...         print(error.status)
    CUDA_ERROR_OUT_OF_MEMORY
    """
    result: Injection = _simulated("faults cannot be made on demand").driver.inject
    return result


@contextmanager
def timed(*, results: bool = True) -> Iterator[Recorder]:
    """Record for a block what simulated devices do, with the time that the GPU they stand for would take.

    ``model=`` of the driver's options says which GPU that is; without, an H100's figures count. ``docs/model.md`` says
    what the times are made of.

    Parameters
    ----------
    results : bool
        Whether results are needed. Otherwise only a sample of a large grid's blocks runs, and library calls and large
        copies do nothing: to see times of work that is too large to simulate.

    Yields
    ------
    Recorder
        ``operations`` are the kernels, copies and library calls so far: name, ``start`` and ``end`` in seconds,
        ``metrics`` (``modelled_us``, ``sectors_over_needed``, ...) and ``advice``.

    Raises
    ------
    NotSupportedError
        If the driver in use is NVIDIA's.
    RuntimeError
        If times are being recorded already.

    Examples
    --------
    >>> source = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x * 8] *= 2; }'
    >>> with drv.simulator.installed(model="h200"):
    ...     kernel = drv.Module(drv.compile_program(source, "compute_90").image).function("twice")
    ...     memory = drv.DeviceMemory(4 * 8 * 32)
    ...     with drv.simulator.timed() as timing:
    ...         kernel.launch(1, 32, (memory,))
    ...         drv.Device(0).synchronize()
    >>> operation = timing.operations[0]
    >>> operation.name, operation.metrics["sectors_over_needed"]
    ('twice', 8.0)
    """
    # The model of time is loaded by who asks for times.
    from .timing.recorder import recording

    with recording(_simulated("times are measured, not modelled").driver, results=results) as recorder:
        yield recorder


def _simulated(refusal: str) -> Runtime:
    runtime = current.runtime()
    if not runtime.simulated:
        raise NotSupportedError(f"on NVIDIA's driver {refusal}: use GRAPHROOT_DRIVER=simulator")
    return runtime


def from_environment() -> Any:
    """A simulated driver with the options of ``GRAPHROOT_SIMULATOR``, on which :func:`drv.runtime` builds its runtime.

    Raises
    ------
    InvalidValueError
        If an option is unknown or has a value that it cannot take.
    """
    return _driver({})


def _driver(options: dict[str, Any]) -> Any:
    # A program on NVIDIA's driver imports this package, and loads nothing of the simulated one.
    from .driver import SimulatedDriver
    from .options import OptionError, parse_options

    try:
        supervised = selection.supervised(options)
        return SimulatedDriver(parse_options(environment.simulator_options(), **supervised))
    except OptionError as error:
        raise InvalidValueError(str(error)) from error
