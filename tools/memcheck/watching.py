"""Watching over the runtimes that a script makes: how they are to check, and what they found."""

from __future__ import annotations

import contextlib
import gc
import os
from typing import TYPE_CHECKING, Any

from drv import selection
from drv.allocators import guard_runtime, pinned_allocator
from drv.errors import CudaError
from drv.simulator.checks.finding_text import HOST
from drv.simulator.memory.address_space import MemoryKind
from tools.run.arguments import simulate

from . import conversion
from .conversion import KERNEL, SOMETHING
from .findings import Finding, Memory, merged
from .processes import report_of
from .sources import Sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from drv import Runtime
    from drv.allocators import Guard

    from .options import Options

#: Memory that a script allocates; module variables and the heap of kernels belong to modules and devices.
_SCRIPTS_OWN = (
    MemoryKind.DEVICE,
    MemoryKind.PINNED,
    MemoryKind.REGISTERED,
    MemoryKind.MAPPED,
    MemoryKind.ARRAY,
)


class Watch:
    """Prepares every runtime of the process for checking, and gathers what is found.

    Attributes
    ----------
    runtimes : list of Runtime
        Those that were made, the earliest first.
    sources : Sources
        Texts of the kernels that they have loaded, among others.
    lost : bool
        Whether no leaks could be looked for, as an error has lost a device's context.

    Parameters
    ----------
    options : Options
        What the command line says.
    blocking : str, optional
        What the user has set ``CUDA_LAUNCH_BLOCKING`` to.
    """

    def __init__(self, options: Options, blocking: str | None) -> None:
        self.options = options
        self._blocking = blocking
        self.runtimes: list[Runtime] = []
        self.sources = Sources()
        self.lost = False
        self._gather: list[Callable[[], list[Finding]]] = []
        self._left: list[Memory] = []

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch for a block; the environment is then what it was."""
        before = os.environ.copy()
        self._set_environment()
        selection.supervise(self)
        try:
            yield
        finally:
            selection.supervise(None)
            for name in set(os.environ) - set(before):
                del os.environ[name]
            os.environ.update(before)

    def _set_environment(self) -> None:
        options, variables = self.options, os.environ
        self._set_allocators()
        variables["CUDA_LAUNCH_BLOCKING"] = "1"
        if options.simulate is not None:
            simulate(options.simulate)

    def _set_allocators(self) -> None:
        zone, quarantine = self.options.red_zone, self.options.quarantine
        os.environ["GRAPHROOT_NO_CUDA_MEMORY_CACHING"] = "1"
        os.environ["GRAPHROOT_CUDA_ALLOC_CONF"] = (
            f"backend:guarding,guard_red_zone:{zone},guard_quarantine:{quarantine}"
        )

    # What the runtime's selection asks and tells

    def simulator_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """See :class:`drv.selection.Supervisor`."""
        asked = dict(part.split("=", 1) for part in (self.options.simulate or "").split(",") if "=" in part)
        chosen = options | {name.strip(): value.strip() for name, value in asked.items()}
        if self.options.schedule is not None:
            chosen["schedule"] = self.options.schedule
        if asked.get("check") == "off":
            os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
            return chosen
        # Streams stay asynchronous, unless the user has asked for something else.
        if self._blocking is None:
            os.environ.pop("CUDA_LAUNCH_BLOCKING", None)
        else:
            os.environ["CUDA_LAUNCH_BLOCKING"] = self._blocking
        return chosen | {"check": "full"}

    def started(self, runtime: Runtime) -> None:
        """See :class:`drv.selection.Supervisor`."""
        self.runtimes.append(runtime)
        # Scripts choose options of the caching allocator.
        self._set_allocators()
        # What is gathered outlives the runtime, which the script may drop.
        gather = self._gather
        checks = _driver_checks(runtime)
        if checks:
            findings, faults = runtime.driver.findings, runtime.driver.faults
            streams = runtime.driver.stream_stacks
            findings.collect = True
            gather.append(lambda: [conversion.from_fault(each, streams) for each in faults])
            gather.append(lambda: [conversion.from_driver(each, streams) for each in findings])
        guard = guard_runtime(runtime)
        if guard is None:
            return
        guard.collect = True
        # Where the driver checks what the device does, only the host can have written there.
        writer = HOST if checks else KERNEL if runtime.launch_blocking else SOMETHING
        gather.append(
            lambda: [
                conversion.from_overwrite(each, guard.counts[each.key()], writer) for each in guard.overwrites
            ]
        )
        if not checks:
            gather.append(lambda: [conversion.from_error(*each) for each in guard.faults])

    def ending(self, runtime: Runtime) -> None:
        """See :class:`drv.selection.Supervisor`."""
        settle(runtime)
        self.sources.learn(runtime)

    def report(self, process: str) -> Any:
        """See :class:`tools.run.following.Observer`."""
        return report_of(self, process)

    # What was found

    def settle(self) -> None:
        """Let everything that is queued run."""
        for runtime in self.runtimes:
            settle(runtime)
            if runtime.alive:
                self.sources.learn(runtime)

    def look_for_leaks(self) -> None:
        """Note what is still allocated, after the script is gone and the library has let go of its caches."""
        for runtime in self.runtimes:
            if not runtime.alive:
                continue
            if _is_lost(runtime):
                self.lost = True
                continue
            guard = runtime.guard
            # Freed blocks that waited for copies, all of which are done.
            pinned_allocator(runtime).empty_cache()
            runtime.forget_cached()
            gc.collect()
            settle(runtime)
            if guard is None or _driver_checks(runtime):
                self._left += _left_on_driver(runtime)
            else:
                self._left += _left_in_allocators(guard)

    def findings(self) -> list[Finding]:
        """Everything found; the same lines once, with a count."""
        collected = [each for gathered in self._gather for each in gathered()]
        return merged(collected) + conversion.leaks(self._left)


def settle(runtime: Runtime) -> None:
    """Let everything run that is queued on a runtime; what went wrong is on record."""
    if runtime.alive:
        for device in runtime.devices:
            if device.context is not None:
                with contextlib.suppress(CudaError):
                    device.synchronize()


def _driver_checks(runtime: Runtime) -> bool:
    """Whether the driver checks accesses itself."""
    return runtime.simulated and bool(runtime.driver.checks_accesses)


def _is_lost(runtime: Runtime) -> bool:
    """Whether a context of the runtime is lost, with which nothing can be freed any more."""
    if runtime.simulated:
        return any(context.lost is not None for context in runtime.driver.contexts.values())
    return any(device.lost is not None for device in runtime.devices)


def _left_on_driver(runtime: Runtime) -> Iterable[Memory]:
    """What is allocated on a simulated driver, whoever asked for it."""
    for record in runtime.driver.records.values():
        if record.allocation.kind in _SCRIPTS_OWN and not record.freeing:
            yield conversion.memory_of(record.allocation)


def _left_in_allocators(guard: Guard) -> Iterable[Memory]:
    """What the guarding allocators handed out."""
    for member in guard.members:
        for block in member.live_blocks():
            yield Memory(member.memory, member.owner, block.address, block.size, block.allocated)
