"""A launch: its grid in batches of thread blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .batch import Batch
from .launch_state import LaunchState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from drv.simulator.checks.observation import AccessObserver
    from drv.simulator.memory.address_space import AddressSpace
    from drv.simulator.ptx.program import Function, Module
    from drv.simulator.timing.metering.meter import Meter

#: Blocks of instructions that a batch runs before others have a turn, and that a launch may run.
TURN = 20_000
MOST_STEPS = 50_000_000


def _no_condition(handle: int, value: int) -> bool:
    return False


@dataclass(slots=True)
class Launch:
    """A kernel with all that it needs to run.

    Attributes
    ----------
    kernel, module
        Entry function, and the module that it is in.
    symbols
        Address of every module variable on the device.
    grid, block
        Blocks, and threads in a block, along ``(x, y, z)``.
    dynamic_shared
        Bytes of dynamic shared memory per block.
    params
        Parameter buffer, laid out as ``kernel.parameters`` says.
    device
        Ordinal of the device that runs it.
    properties
        What the kernel can ask of the device: ``multiprocessors``.
    checked
        Whether accesses that are not allowed are faults (otherwise they do nothing).
    observer
        Told of every access, if there is one.
    printf
        Takes what the kernel prints.
    cooperative
        Whether all blocks must run at the same time.
    meter
        Counts what the launch does, and says which blocks are to run for that, if its time is to be modelled.
    cluster
        Blocks of a cluster along ``(x, y, z)``, which divide the grid; ``None`` where there are no clusters.
    set_condition
        Takes the handle of a condition of a graph and a value; whether there is such a condition.
    schedule, seed
        When asynchronous operations are carried out: ``"eager"``, ``"lazy"``, or ``"random"`` as drawn from a seed.
    native
        Whether native code runs it: ``off``, ``on``, or ``auto``, where that is worth it.
    cores
        How many cores native code may use for it.
    """

    kernel: Function
    module: Module
    symbols: Mapping[str, int]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared: int
    params: bytes
    device: int
    properties: Any
    checked: bool
    observer: AccessObserver | None
    printf: Callable[[str], object]
    cooperative: bool = False
    meter: Meter | None = None
    cluster: tuple[int, int, int] | None = None
    set_condition: Callable[[int, int], bool] = _no_condition
    schedule: str = "eager"
    seed: int = 0
    native: str = "auto"
    cores: int = 1


def run(launch: Launch, memory: AddressSpace) -> None:
    """Run a launch to its end.

    Raises
    ------
    DeviceFault
        If the kernel does what a GPU would stop it for, or reaches an instruction that makes no sense; its report
        says where.
    """
    state = LaunchState(launch, memory)
    size = state.batch_blocks
    starts = range(0, state.blocks, size) if launch.meter is None else launch.meter.batches(state, size)
    done = 0
    try:
        with np.errstate(all="ignore"):
            for first in starts:
                start, stop = max(first, done), min(first + size, state.blocks)
                if start < stop:
                    done = _run_batch(state, start, stop, size)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        # Operands that fit their opcode in form may still not fit it in meaning.
        raise state.reports.not_understood(error) from error
    finally:
        state.end()


def _run_batch(state: LaunchState, start: int, stop: int, size: int) -> int:
    """Run the blocks from ``start`` to ``stop``, or more; returns the first block that has not run."""
    native = state.native if state.observer is None and state.native_ready() else None
    if native is not None and state.cores > 1:
        left = native.run_rest(state, start)
        if left is not None:
            return _finish(state, left, state.blocks, size)
    batch = Batch(state, start, stop - start)
    if native is not None:
        return stop if native.run(batch) else _finish(state, [batch], stop, size)
    batch.begin()
    done = _finish(state, [batch], stop, size)
    if state.native is not None:
        state.native.was_run_by_numpy(batch)
    return done


def _finish(state: LaunchState, running: list[Batch], start: int, size: int) -> int:
    """Run batches to their end; returns the first block that has not run.

    A batch that polls memory may wait for blocks that have not started, so further ones join it.
    """
    steps = 0
    while running:
        left = [batch for batch in running if not batch.run(TURN)]
        if state.observer is not None:
            for batch in running:
                if batch not in left:
                    state.observer.blocks_end(batch.blocks)
        if left:
            steps += TURN * len(left)
            if start < state.blocks and any(batch.polls for batch in left):
                count = min(size, state.blocks - start)
                left.append(Batch(state, start, count))
                left[-1].begin()
                start += count
            elif steps > MOST_STEPS or all(batch.circles for batch in left):
                raise state.reports.timeout([standing for batch in left for standing in batch.standing()])
        running = left
    return start
