"""A function as some lanes run it: register file, where each lane stands, how they diverge and converge.

A lane's program counter (``pc``) is the number of the basic block that it runs next; ``~pc`` where the
meeting of lanes that the block begins with has taken place. While all lanes have the same one they run as
they are (``whole``). When they diverge, each program counter has a list of the lanes that wait there, and the
smallest runs next, so that lanes reconverge soon. Lanes that poll memory in a loop give way to the others from
time to time, or a lane that holds a lock would never release it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.ptx.control_flow import End

from . import system_calls

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .batch import Batch
    from .lanes import Lanes
    from .translation.code import Code
    from .translation.plan import FunctionPlan

    Array = NDArray[Any]

#: After so many steps of parted lanes that poll memory, the block that ran longest ago has a turn.
PATIENCE = 16
#: The same where they do not, for they may still wait for each other.
LONG_PATIENCE = 4096
#: Steps that a block which polls memory counts for more, so that what it waits for gets a turn soon.
POLLING_COST = 20
MOST_CALLS = 512


@dataclass(slots=True, eq=False)
class Wait:
    """Lanes of an activation that wait at a block-wide barrier; ``index`` are their indices in it."""

    activation: Activation
    index: Array
    code: Code
    barrier: Array
    count: Array | None
    predicate: Array | None


class Activation:
    """``lanes`` run ``plan``'s function.

    ``parent`` is the activation that called it; ``origin`` are the lanes' indices there, and ``back`` is the
    block of the parent where they go on.
    """

    __slots__ = (
        "back",
        "batch",
        "call",
        "held",
        "lanes",
        "last_turn",
        "origin",
        "parent",
        "plan",
        "polling",
        "ran",
        "registers",
        "returned",
        "stalled",
        "template",
        "tick",
        "waiting",
        "whole",
    )

    def __init__(
        self,
        batch: Batch,
        plan: FunctionPlan,
        lanes: Lanes,
        template: list[Any],
        parent: Activation | None = None,
    ) -> None:
        self.batch = batch
        self.plan = plan
        self.lanes = lanes
        #: Values that registers have at first, or always.
        self.template = template
        self.registers = template.copy()
        self.parent = parent
        self.origin: Array | None = None
        self.back = 0
        self.call: Any = None
        #: Block at which all lanes stand, while they do.
        self.whole: int | None = 0
        #: Lanes by the block at which they stand, otherwise; by ``~block`` when they have met there already.
        self.waiting: dict[int, Array] = {}
        #: Blocks whose lanes wait for other lanes of their warps.
        self.stalled: set[int] = set()
        self.returned: list[Array] = []
        #: Lanes that are at a barrier or in a function called from here.
        self.held = 0
        self.ran: dict[int, int] = {}
        self.tick = 0
        self.polling = False
        #: When the batch last let it run.
        self.last_turn = 0

    @property
    def runnable(self) -> bool:
        """Whether some lanes can go on."""
        return self.whole is not None or len(self.waiting) > len(self.stalled)

    @property
    def finished(self) -> bool:
        """Whether no lane is left here."""
        return self.whole is None and not self.waiting and not self.held

    def run(self) -> None:
        """Run until no lane can go on, a function is called, or the batch's steps are used up."""
        batch = self.batch
        while batch.steps > 0 and self.runnable:
            if self.whole is not None:
                self._run_whole()
            else:
                depth = len(batch.stack)
                self._run_lanes()
                if len(batch.stack) > depth:
                    return

    def _run_whole(self) -> None:
        """All lanes together, until they diverge or exit."""
        plan, registers, lanes, batch = self.plan, self.registers, self.lanes, self.batch
        pc = self.whole
        assert pc is not None
        steps = batch.steps
        while steps > 0:
            steps -= 1
            code = plan.code(pc)
            if code.mask is not None and not self._meets(code, None):
                self.whole = None
                self.waiting[pc] = np.arange(lanes.n)
                break
            decision = code.whole(lanes, registers)
            if code.polls:
                batch.polls += 1
                steps -= POLLING_COST
            block = code.block
            end = block.end
            if end is End.BRANCH:
                if decision.shape[0] == 1:
                    pc = block.targets[0] if decision[0] else block.targets[1]
                    continue
                taken = int(np.count_nonzero(decision))
                if taken == 0 or taken == lanes.n:
                    pc = block.targets[0 if taken else 1]
                    continue
                self.whole = None
                self._part(block.targets[0], np.flatnonzero(decision))
                self._part(block.targets[1], np.flatnonzero(~decision))
                break
            if end is End.FALL or end is End.JUMP:
                pc = block.targets[0]
                continue
            if end is End.BARRIER and self._passes_at_once(code, decision):
                pc = block.targets[0]
                continue
            self.whole = None
            self._end(code, decision, None)
            break
        else:
            self.whole = pc
        batch.steps = steps

    def _run_lanes(self) -> None:
        """One block, for the lanes that stand there."""
        pc = self._choose()
        index = self.waiting.pop(pc)
        lanes = self.lanes
        self.batch.steps -= 1
        if pc < 0:
            code = self.plan.code(~pc)
        else:
            code = self.plan.code(pc)
            meets = code.mask is None or self._meets(code, index)
            if meets and len(index) == lanes.n:
                self.whole = pc
                return
            if meets and not self.waiting and not self.held and not self.returned:
                self._compact(pc, index)
                return
            if not meets:
                ready = self._ready(code, index)
                if not ready.any():
                    self.waiting[pc] = index
                    self.stalled.add(pc)
                    return
                self.waiting[pc] = index[~ready]
                index = index[ready]
        self.stalled.clear()
        some_lanes = lanes.subset(index)
        registers = {}
        for number in code.inputs:
            value = self.registers[number]
            registers[number] = value if value.shape[0] == 1 else value[index]
        decision = code.body(some_lanes, registers)
        for number in code.outputs:
            self.merge(number, index, registers[number])
        self._end(code, decision, index)

    def _choose(self) -> int:
        """Block to run next: the earliest, or for a change the one that ran longest ago."""
        ready = [pc for pc in self.waiting if pc not in self.stalled] if self.stalled else self.waiting
        pc = min(ready)
        self.tick += 1
        if self.plan.code(max(pc, ~pc)).polls:
            self.polling = True
            self.batch.polls += 1
            self.batch.steps -= POLLING_COST
        if len(ready) > 1 and self.tick % (PATIENCE if self.polling else LONG_PATIENCE) == 0:
            self.polling = False
            pc = min(ready, key=lambda each: (self.ran.get(each, 0), each))
        self.ran[pc] = self.tick
        return pc

    def _part(self, pc: int, index: Array) -> None:
        """Lanes come to a block."""
        there = self.waiting.get(pc)
        if there is not None:
            index = np.sort(np.concatenate([there, index]), kind="stable")
        self.waiting[pc] = index
        if self.stalled:
            self.stalled.clear()

    def resume_at(self, targets: Array, converged: int) -> None:
        """Put the lanes at the blocks ``targets``, negative for those elsewhere; ``converged`` is the block if all are at one, else -1."""
        self.whole = converged if converged >= 0 else None
        if converged < 0:
            self.waiting = {int(pc): np.flatnonzero(targets == pc) for pc in np.unique(targets) if pc >= 0}

    def wait_at(self, code: Code, index: Array) -> None:
        """Let lanes wait at the barrier with which a block ends, which has a constant number and no more."""
        last = code.block.last
        assert last is not None
        number = np.array([last.operands[0].value], np.uint32)  # type: ignore[union-attr]
        self._barrier(code, (number, None, None), index)

    def resume(self, pc: int, index: Array) -> None:
        """Lanes that were held go on at a block."""
        self.held -= len(index)
        if len(index) == self.lanes.n:
            self.whole = pc
        else:
            self._part(pc, index)

    def merge(self, number: int, index: Array, value: Array) -> None:
        """Give a register a value for some of the lanes."""
        n = self.lanes.n
        if len(index) == n:
            self.registers[number] = value
            return
        old = self.registers[number]
        new = np.repeat(old, n, axis=0) if old.shape[0] == 1 else old.copy()
        new[index] = value
        self.registers[number] = new

    def _compact(self, pc: int, index: Array) -> None:
        """Go on with the lanes ``index`` alone: all others have ended."""
        plan = self.plan
        registers = self.template.copy()
        for name in plan.blocks[pc].live_in:
            number = plan.numbers[name]
            value = self.registers[number]
            registers[number] = value if value.shape[0] == 1 else value[index]
        self.registers = registers
        self.lanes = self.lanes.subset(index)
        if self.origin is not None:
            self.origin = self.origin[index]
        self.whole = pc

    # Meetings of warps

    def _mask(self, code: Code, index: Array | None) -> Array:
        mask = code.mask if isinstance(code.mask, np.ndarray) else self.registers[code.mask]
        if mask.dtype != np.uint32:
            mask = mask.view(np.uint32)
        return mask if index is None or mask.shape[0] == 1 else mask[index]

    def _meets(self, code: Code, index: Array | None) -> bool:
        """Whether every lane finds all members of its mask here."""
        count = self.lanes.n if index is None else len(index)
        if count == self.batch.live_count:
            return True
        return bool(self._ready(code, index).all())

    def _ready(self, code: Code, index: Array | None, present: Array | None = None) -> Array:
        """Which lanes find all members of their masks here; threads that have ended need not come.

        ``present`` are masks, by warp, of the lanes that came; those of ``index`` when it is left out.
        """
        batch = self.batch
        slots = self.lanes.slots if index is None else self.lanes.slots[index]
        if present is None:
            present = batch.warp_masks(slots)
        rows = batch.constant("warp_slot", None)[slots] >> 5
        missing = self._mask(code, index) & (batch.live_masks() & ~present)[rows]
        ready: Array = missing == 0
        return batch.whole_warpgroups(slots, ready) if code.of_warpgroup else ready

    def meet_again(self, pc: int) -> bool:
        """Whether lanes that wait at a block for others of their warps can go on after all."""
        if not self._ready(self.plan.code(pc), self.waiting[pc]).any():
            return False
        self.stalled.discard(pc)
        return True

    def meet_apart(self, pc: int, present: Array) -> bool:
        """Let lanes that wait at a warp barrier go on, where their warps are at some warp barrier; whether there are any."""
        index = self.waiting[pc]
        ready = self._ready(self.plan.code(pc), index, present)
        if not ready.any():
            return False
        del self.waiting[pc]
        self.stalled.discard(pc)
        self._part(~pc, index[ready])
        if not ready.all():
            self._part(pc, index[~ready])
        return True

    # Ends of blocks

    def _end(self, code: Code, decision: Any, index: Array | None) -> None:
        """Send the lanes ``index`` (all, when ``None``) where their block leads."""
        block = code.block
        end = block.end
        if end is End.FALL or end is End.JUMP:
            self._part(block.targets[0], self._all(index))
        elif end is End.BRANCH:
            if decision.shape[0] == 1:
                self._part(block.targets[0 if decision[0] else 1], self._all(index))
                return
            positions = self._all(index)
            for target, chosen in (
                (block.targets[0], positions[decision]),
                (block.targets[1], positions[~decision]),
            ):
                if len(chosen):
                    self._part(target, chosen)
        elif end is End.SWITCH:
            self._switch(code, decision, self._all(index))
        elif end is End.BARRIER:
            self._barrier(code, decision, self._all(index))
        elif end is End.CALL:
            self._call(code, decision, self._all(index))
        elif end is End.PHASE:
            positions, parities = decision
            self.batch.mbarriers.wait(self, code, positions, parities, self._all(index))
        elif end is End.RETURN and self.parent is not None:
            self.returned.append(self._all(index))
        else:
            self._exit(index)

    def _all(self, index: Array | None) -> Array:
        return np.arange(self.lanes.n) if index is None else index

    def _switch(self, code: Code, decision: Array, index: Array) -> None:
        targets = code.block.targets
        for each in np.unique(decision):
            if each >= len(targets):
                lane = int(np.flatnonzero(np.broadcast_to(decision, index.shape) == each)[0])
                raise self.batch.launch.reports.bad_call(self.lanes.subset(index), code.site, lane, int(each))
            chosen = index if decision.shape[0] == 1 else index[decision == each]
            self._part(targets[int(each)], chosen)

    # Barriers

    def _passes_at_once(self, code: Code, decision: Any) -> bool:
        """All threads of the batch are at one barrier: nobody has to wait."""
        if code.of_cluster:
            return False
        barrier, count, predicate = decision
        batch = self.batch
        if (
            self.lanes.n != batch.live_count
            or barrier.shape[0] != 1
            or count is not None
            or predicate is not None
            or batch.arrivals
            or batch.live is not None
            or code.arrives
        ):
            return False
        if batch.launch.observer is not None:
            batch.launch.observer.barrier(np.unique(self.lanes.block), self.lanes)
        return True

    def _barrier(self, code: Code, decision: Any, index: Array) -> None:
        if code.of_cluster:
            passes = self.batch.cluster_barrier.passed(self.lanes.subset(index))
            if passes.any():
                self._part(code.block.targets[0], index[passes])
            index = index[~passes]
            if len(index):
                self.held += len(index)
                self.batch.cluster_waits.append(Wait(self, index, code, index, None, None))
            return
        barrier, count, predicate = decision
        wait: Wait = Wait(self, index, code, barrier, count, predicate)
        if code.arrives:
            self.batch.arrive(wait)
            self._part(code.block.targets[0], index)
        else:
            self.held += len(index)
            self.batch.waits.append(wait)

    def set_reduction(self, code: Code, index: Array, ones: Array, total: Array) -> None:
        """Result of a barrier that reduces a predicate over the threads that passed it."""
        number, operation = code.reduction
        if operation == "popc":
            value = ones
        elif operation == "and":
            value = ones == total
        else:
            value = ones != 0
        dtype = self.plan.template[number].dtype
        self.merge(number, index, value if value.dtype == dtype else value.astype(np.uint32).view(dtype))

    # Calls

    def _call(self, code: Code, decision: Any, index: Array) -> None:
        call = code.call
        assert call is not None
        if not call.indirect:
            self._enter(code, call.target, index)
            return
        by_address = self.plan.kernel.by_address
        for each in np.unique(decision):
            chosen = index if decision.shape[0] == 1 else index[decision == each]
            name = by_address.get(int(each))
            if name is None:
                raise self.batch.launch.reports.bad_call(self.lanes.subset(chosen), code.site, 0, int(each))
            self._enter(code, name, chosen)

    def _enter(self, code: Code, name: str, index: Array) -> None:
        batch = self.batch
        call = code.call
        assert call is not None
        lanes = self.lanes.subset(index)
        arguments = [
            value if value.shape[0] == 1 else value[index]
            for value in map(self.registers.__getitem__, call.arguments)
        ]
        function = self.plan.kernel.module.functions.get(name)
        if function is None or not function.defined:
            result = system_calls.run(name, lanes, arguments, code.site)
            if call.results and result is not None:
                self.merge(call.results[0], index, result)
            self._part(code.block.targets[0], index)
            return
        plan = self.plan.kernel.function(name)
        top = lanes.top + plan.frame_bytes
        if len(batch.stack) >= MOST_CALLS or not batch.reserve_stack(top):
            raise batch.launch.reports.stack_overflow(lanes, code.site, batch.stack_bytes)
        lanes.frame_bytes, lanes.top = lanes.top, top
        lanes.frame = batch.launch.wide_number(lanes.frame_bytes)
        child = Activation(batch, plan, lanes, plan.template, self)
        child.origin = index
        child.back = code.block.targets[0]
        child.call = call
        for number, value in zip(plan.formals, arguments, strict=False):
            child.registers[number] = value
        self.held += len(index)
        batch.stack.append(child)

    def deliver(self) -> bool:
        """Send the lanes that returned back to the caller; whether there were any."""
        parent = self.parent
        if parent is None or not self.returned:
            return False
        index = np.sort(np.concatenate(self.returned))
        self.returned = []
        assert self.origin is not None
        positions = self.origin[index]
        for number, result in zip(self.call.results, self.plan.results, strict=False):
            value = self.registers[result]
            parent.merge(number, positions, value if value.shape[0] == 1 else value[index])
        parent.resume(self.back, positions)
        return True

    def _exit(self, index: Array | None) -> None:
        slots = self.lanes.slots if index is None else self.lanes.slots[index]
        self.batch.exit(slots)
        caller = self.parent
        while caller is not None:
            caller.held -= len(slots)
            caller = caller.parent
