"""When a kernel gets native code, and who has it."""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING

from drv.host import machine_code
from drv.simulator.execution.translation import translation_cache

from .crew import Crew
from .machine import Machine
from .program import NativeProgram, build, load_scheduler, scheduler_image

if TYPE_CHECKING:
    from types import CodeType

    from drv.host.machine_code import LoadedCode
    from drv.simulator.execution.batch import Batch
    from drv.simulator.execution.launch_state import LaunchState
    from drv.simulator.execution.translation.plan import KernelPlan
    from drv.simulator.ptx.program import Instruction

#: Nanoseconds that compiling an instruction takes, and running it by NumPy: once, and for each lane more. A kernel is
#: compiled when NumPy has run it for about as long as that takes, so that neither is ever much of a loss. Time is not
#: asked for, so that a program runs the same way each time.
COMPILING = 1_300_000
RUNNING = 2_000
RUNNING_A_LANE = 1.5
#: Batches given back to Python without being finished after which native code is no gain.
MOST_LEFT = 4
#: Batches that there must be for each core, and blocks of instructions that a batch must run, for several cores to be
#: quicker than one: Python, which starts each batch, runs on one at a time.
LEAST_BATCHES, LEAST_STEPS = 2, 32


class NativeKernel:
    """Native code of one kernel, if it has or gets any.

    Parameters
    ----------
    plan : KernelPlan
        The kernel.
    """

    def __init__(self, plan: KernelPlan) -> None:
        self.plan = plan
        #: Nanoseconds that NumPy has taken to run the kernel, for each instruction of it (see :data:`RUNNING`).
        self._spent = 0.0
        self.program: NativeProgram | None = None
        #: What runs it; more than one where several cores do.
        self.machines: list[Machine] = []
        self.refused = not machine_code.available()
        self._looked = False
        self._left = self._finished = 0
        #: Blocks of instructions that the latest batch has run.
        self._steps = 0

    def begin_launch(self, launch: LaunchState, *, at_once: bool) -> bool:
        """Be ready to run a launch; whether there is native code for it. ``at_once`` asks for it where there is none yet."""
        if self.refused:
            return False
        if self.program is None and not self._find(at_once=at_once):
            return False
        self._prepare(launch, 1)
        return True

    def _prepare(self, launch: LaunchState, count: int) -> list[Machine]:
        """The first ``count`` machines, which know the launch and have room for its batches."""
        assert self.program is not None
        size, warps = launch.batch_lanes, launch.batch_warps
        self.machines = [each for each in self.machines if each.capacity >= size and each.warps >= warps]
        while len(self.machines) < count:
            entry = self.plan.function(self.plan.entry.name)
            self.machines.append(Machine(self.program, entry, _scheduler(), size, warps))
        for machine in self.machines[:count]:
            machine.begin_launch(launch)
        return self.machines[:count]

    def run(self, batch: Batch) -> bool:
        """Run a batch; whether all its threads have ended. If not, Python goes on with them."""
        machine = self.machines[0]
        finished = machine.run(batch)
        self._steps = machine.steps_run
        self._count(finished)
        return finished

    def run_rest(self, launch: LaunchState, first: int) -> list[Batch] | None:
        """Run all batches from block ``first`` on, on several cores; returns those that Python has to go on with.

        ``None`` where they must run one after the other, or would not be quicker.
        """
        assert self.program is not None
        batches = -(-(launch.blocks - first) // launch.batch_blocks)
        count = min(launch.cores, batches // LEAST_BATCHES)
        if count < 2 or self._steps < LEAST_STEPS or not self.program.independent:
            return None
        left = Crew(launch, self._prepare(launch, count), first).run()
        for number in range(batches):
            self._count(number >= len(left))
        return left

    def _count(self, finished: bool) -> None:
        if finished:
            self._finished += 1
        else:
            self._left += 1
            if self._left > MOST_LEFT and self._left > self._finished:
                self.refused = True

    def was_run_by_numpy(self, batch: Batch) -> None:
        """A batch has ended that native code did not run."""
        blocks = len(self.plan.function(self.plan.entry.name).blocks)
        self._spent += batch.blocks_run / blocks * (RUNNING + RUNNING_A_LANE * batch.n)

    def instruction_at(self, python: CodeType, line: int) -> Instruction | None:
        """The instruction that line ``line`` of a piece which Python runs does."""
        return None if self.program is None else self.program.instruction_at(python, line)

    def leave(self) -> None:
        """Forget what it ran on, which nobody else may need any more."""
        self.machines.clear()

    def _find(self, *, at_once: bool) -> bool:
        disk = self.plan.module.translation_cache
        name = f"native code of {self.plan.entry.name} for {machine_code.identity()}"
        if not self._looked and disk is not None:
            program = disk.load(name, self.plan.module)
            self.program = program if isinstance(program, NativeProgram) else None
        self._looked = True
        if self.program is None and (at_once or self._spent > COMPILING):
            self.program = build(self.plan.function(self.plan.entry.name))
            if self.program is None:
                self.refused = True
            elif disk is not None:
                disk.store(name, self.program, self.plan.module)
        return self.program is not None


@functools.cache
def _scheduler() -> LoadedCode:
    """The native functions that all kernels share."""
    version = translation_cache.version()
    if not version:
        return load_scheduler(scheduler_image())
    disk = translation_cache.disk_cache()
    key = hashlib.sha256(version + machine_code.identity().encode() + b" scheduling").hexdigest()
    image = disk.load(key)
    if image is None:
        image = scheduler_image()
        disk.store(key, image)
    return load_scheduler(image)
