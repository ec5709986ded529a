"""Thread blocks that run together: their threads' constants, memory, and who waits at which barrier."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from .activation import Activation, Wait
from .asynchronous import WARPGROUP_THREADS, Mbarriers, Operations, Products
from .clusters import ClusterBarrier
from .lanes import Lanes
from .launch_state import STACK_LIMIT
from .thread_constants import BLOCK_CONSTANTS, THREAD_CONSTANTS
from .translation.code import Site

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from drv.simulator.checks.observation import AccessObserver

    from .launch_state import LaunchState

    Array = NDArray[Any]


#: Blocks of instructions that run before activations other than the innermost may have a turn.
TURN = 400
#: Turns between two looks whether the threads go round in circles.
LAP = 64


class Batch:
    """``count`` thread blocks, from the one with number ``start`` on; of clusters all blocks."""

    def __init__(self, launch: LaunchState, start: int, count: int) -> None:
        self.launch = launch
        self.count = count
        #: Linear index of each in the grid.
        self.blocks = launch.blocks_from(start, count)
        self.n = count * launch.threads
        self.warps = count * launch.warps
        self.shared_stride = -(-launch.shared_bytes // 16) * 16
        self.stack_bytes = 0
        self._shared: Array | None = None
        self._shared_views: dict[Any, Array] = {}
        self._local = np.zeros(0, np.uint8)
        self._local_views: dict[Any, Array] = {}
        self._constants: dict[Any, Array] = {}
        self.live_count = self.n
        #: Threads that have not ended, made when the first one does.
        self.live: Array | None = None
        self.waits: list[Wait] = []
        #: Those at the barriers of their clusters.
        self.cluster_waits: list[Wait] = []
        #: Threads that arrived at a barrier without waiting: (block in batch, barrier) -> number.
        self.arrivals: dict[tuple[int, int], int] = {}
        self.steps = 0
        #: Blocks of instructions that have run, those that poll memory counted several times.
        self.blocks_run = 0
        #: How often threads polled memory, perhaps for what another thread writes.
        self.polls = 0
        self._repeats = False
        #: Writes, turns and state when the state was last taken.
        self._circle: tuple[int, int, int] = (-1, 0, 0)
        self._turns = self._polls_before = 0
        self._left = TURN
        self._starving = False
        #: Function of the kernel, and all threads in it.
        self.entry = launch.plan.function(launch.plan.entry.name)
        self.reserve_stack(self.entry.frame_bytes)
        self._all_lanes: Lanes | None = None
        self.stack: list[Activation] = []

    @property
    def all_lanes(self) -> Lanes:
        """All threads, in the kernel itself."""
        if self._all_lanes is None:
            self._all_lanes = Lanes(self, np.arange(self.n), 0, self.entry.frame_bytes)
        return self._all_lanes

    def begin(self) -> Activation:
        """Put all threads at the kernel's first block, for Python to run them."""
        root = Activation(self, self.entry, self.all_lanes, self.launch.template)
        self.stack.append(root)
        return root

    # Constants

    def constant(self, name: str, axis: int | None) -> Array:
        """A value that never changes, per thread of the batch or ``(1,)``; see :meth:`Lanes.constant`."""
        key = name, axis
        values = self._constants.get(key)
        if values is None:
            cache = self.launch.plan.geometry
            cache_key = (self.launch.block, self.count, name, axis)
            if name in THREAD_CONSTANTS:
                values = cache.get(cache_key)
                if values is None:
                    if len(cache) > 256:
                        cache.clear()
                    values = cache[cache_key] = THREAD_CONSTANTS[name](self, axis)
            else:
                values = BLOCK_CONSTANTS[name](self, axis)
            self._constants[key] = values
        return values

    # Memory

    def shared(self, dtype: Any) -> Array:
        """Shared memory of all blocks, one after the other."""
        view = self._shared_views.get(dtype)
        if view is None:
            if self._shared is None:
                self._shared = np.zeros(max(self.shared_stride * self.count, 16), np.uint8)
            view = self._shared_views[dtype] = self._shared.view(dtype)
        return view

    def share(self, memory: Array) -> None:
        """Have ``memory``, zeroed, for the shared memory of all blocks."""
        self._shared = memory

    def local(self, dtype: Any) -> Array:
        """Local memory of all threads, ``stack_bytes`` each."""
        view = self._local_views.get(dtype)
        if view is None:
            view = self._local_views[dtype] = self._local.view(dtype)
        return view

    def reserve_stack(self, size: int) -> bool:
        """Have at least ``size`` bytes of local memory per thread; ``False`` if that is more than there may be."""
        if size <= self.stack_bytes:
            return True
        if size > STACK_LIMIT:
            return False
        grown = min(max(size, 2 * self.stack_bytes), STACK_LIMIT)
        local = np.zeros((self.n, grown), np.uint8)
        local[:, : self.stack_bytes] = self._local.reshape(self.n, self.stack_bytes)
        self._local, self.stack_bytes = local.reshape(-1), grown
        self._local_views.clear()
        return True

    @functools.cached_property
    def cluster_barrier(self) -> ClusterBarrier:
        """The barriers of the clusters."""
        return ClusterBarrier(self)

    @functools.cached_property
    def operations(self) -> Operations:
        """Asynchronous operations."""
        return Operations(self)

    @functools.cached_property
    def products(self) -> Products:
        """Matrix products of warpgroups."""
        return Products(self)

    @functools.cached_property
    def mbarriers(self) -> Mbarriers:
        """The ``mbarrier`` objects in shared memory."""
        return Mbarriers(self)

    # Ends and barriers

    def exit(self, slots: Array) -> None:
        """Threads end."""
        if self.live is None:
            self.live = np.ones(self.n, np.bool_)
        self.live[slots] = False
        self.live_count -= len(slots)

    def arrive(self, wait: Wait) -> None:
        """Lanes arrive at a barrier without waiting."""
        blocks = wait.activation.lanes.broadcast(wait.activation.lanes.constant("block_in_batch"))[wait.index]
        barrier = np.broadcast_to(wait.barrier, blocks.shape)
        for block, number in zip(blocks.tolist(), barrier.tolist(), strict=True):
            key = block, number
            self.arrivals[key] = self.arrivals.get(key, 0) + 1
        observer = self.launch.observer
        if observer is not None:
            for block, number in {*zip(blocks.tolist(), barrier.tolist(), strict=True)}:
                mine = wait.index[(blocks == block) & (barrier == number)]
                observer.release(
                    ("barrier", int(self.blocks[block]), number), wait.activation.lanes.subset(mine)
                )

    def release(self) -> bool:
        """Let the threads go on that wait at complete barriers; whether there were any."""
        if self.cluster_waits and self.cluster_barrier.release(self.cluster_waits):
            return True
        if not self.waits:
            return False
        block_of = self.constant("block_in_batch", None)
        slots = np.concatenate([wait.activation.lanes.slots[wait.index] for wait in self.waits])
        sizes = [len(wait.index) for wait in self.waits]
        owner = np.repeat(np.arange(len(self.waits)), sizes)
        barrier = np.concatenate(
            [np.broadcast_to(wait.barrier, (size,)) for wait, size in zip(self.waits, sizes, strict=True)]
        ).astype(np.int64)
        blocks = block_of[slots] if block_of.shape[0] > 1 else np.zeros(len(slots), np.int64)
        expected = self._expected(owner, blocks, block_of)
        keys = blocks * 1024 + barrier
        present = np.bincount(keys, minlength=1)
        if self.arrivals:
            present = np.concatenate([present, np.zeros(max(self.count * 1024 - len(present), 0), np.int64)])
            for (block, number), arrived in self.arrivals.items():
                present[block * 1024 + number] += arrived
        complete = present[keys] >= expected
        if not complete.any():
            return False
        done = np.unique(keys[complete])
        for key in done.tolist():
            self.arrivals.pop((key // 1024, key % 1024), None)
        self._pass(owner, keys, np.isin(keys, done), slots)
        return True

    def _expected(self, owner: Array, blocks: Array, block_of: Array) -> Array:
        """Threads that each waiting thread's barrier waits for."""
        if self.live is None:
            alive = np.full(self.count, self.launch.threads)
        elif block_of.shape[0] == 1:
            alive = np.array([self.live_count])
        else:
            alive = np.bincount(block_of[self.live], minlength=self.count)
        expected = alive[blocks]
        start = 0
        for wait in self.waits:
            stop = start + len(wait.index)
            if wait.count is not None:
                expected[start:stop] = np.broadcast_to(wait.count, (stop - start,))
            start = stop
        return expected

    def _pass(self, owner: Array, keys: Array, complete: Array, slots: Array) -> None:
        launch = self.launch
        predicates = None
        if any(wait.predicate is not None for wait in self.waits):
            predicates = np.concatenate(
                [
                    np.broadcast_to(
                        np.zeros(1, np.bool_) if w.predicate is None else w.predicate, w.index.shape
                    )
                    for w in self.waits
                ]
            )
            ones = np.bincount(keys, weights=predicates, minlength=1).astype(np.uint32)
            total = np.bincount(keys, minlength=1).astype(np.uint32)
        if launch.observer is not None:
            self._tell_of_barriers(launch.observer, keys[complete], slots[complete])
        left = []
        for number, wait in enumerate(self.waits):
            mine = owner == number
            passes = complete[mine]
            index = wait.index[passes]
            if len(index):
                if wait.predicate is not None:
                    mine_keys = keys[mine][passes]
                    wait.activation.set_reduction(wait.code, index, ones[mine_keys], total[mine_keys])
                wait.activation.resume(wait.code.block.targets[0], index)
            if not passes.all():
                waiting = ~passes
                wait.barrier = _select(wait.barrier, waiting)
                wait.count = None if wait.count is None else _select(wait.count, waiting)
                wait.predicate = None if wait.predicate is None else _select(wait.predicate, waiting)
                wait.index = wait.index[waiting]
                left.append(wait)
        self.waits = left

    def _tell_of_barriers(self, observer: AccessObserver, keys: Array, slots: Array) -> None:
        """Threads pass their barriers: all threads of their blocks, or some."""
        whole = []
        for key in np.unique(keys).tolist():
            block, number = divmod(key, 1024)
            passing = np.sort(slots[keys == key])
            own = slice(block * self.launch.threads, (block + 1) * self.launch.threads)
            alive = self.launch.threads if self.live is None else int(np.count_nonzero(self.live[own]))
            if len(passing) == alive:
                whole.append(passing)
                continue
            lanes = Lanes(self, passing, 0, 0)
            name = "barrier", int(self.blocks[block]), number
            observer.release(name, lanes)
            observer.complete(name, name[1])
            observer.acquire(name, lanes)
        if whole:
            lanes = Lanes(self, np.concatenate(whole), 0, 0)
            observer.barrier(np.unique(lanes.block), lanes)

    # Running

    def run(self, steps: int) -> bool:
        """Run for about ``steps`` blocks of instructions; whether all threads have ended."""
        while self.stack:
            running = self._next()
            if running is None:
                if (
                    not self.release()
                    and not self._meet()
                    and not self._deliver()
                    and not self._advance()
                    and not self.mbarriers.give_up()
                ):
                    raise self.launch.reports.deadlock(self._waiting())
            else:
                budget = self.steps = min(steps, self._left)
                running.last_turn = self._turns
                running.run()
                used = budget - self.steps
                self.blocks_run += used
                self._left -= used
                steps -= used
                if self._left <= 0:
                    self._end_turn()
                if steps <= 0:
                    self.release()
                    return False
            while self.stack and self.stack[-1].finished:
                self.stack.pop().deliver()
            if len(self.stack) > 1:
                for each in [each for each in self.stack if each.finished]:
                    each.deliver()
                    self.stack.remove(each)
        self.end()
        return True

    def end(self) -> None:
        """All threads have ended: what they have not waited for is carried out.

        What refers to the batch is let go of, so that it and its launch are freed without a collection of garbage.
        """
        if "operations" in self.__dict__:
            self.operations.finish()
        for name in ("cluster_barrier", "operations", "products", "mbarriers"):
            self.__dict__.pop(name, None)
        self._all_lanes = None

    def _advance(self) -> bool:
        """Let asynchronous operations go on, and the threads that wait for them; whether any did."""
        if "operations" not in self.__dict__ and "mbarriers" not in self.__dict__:
            return False
        if self.mbarriers.wake():
            return True
        before = self.mbarriers.completed
        if not self.operations.advance(self.mbarriers.awaited, lambda: self.mbarriers.completed != before):
            return False
        self.mbarriers.wake()
        return True

    def _next(self) -> Activation | None:
        """Activation to run next: the innermost, or when it does not come to an end the one that waited longest."""
        if self._starving:
            self._starving = False
            self.release()
            self._meet()
            self._deliver()
            self._advance()
            runnable = [each for each in self.stack if each.runnable]
            return min(runnable, key=lambda each: each.last_turn, default=None)
        return next((each for each in reversed(self.stack) if each.runnable), None)

    def _end_turn(self) -> None:
        polls, self._polls_before = self.polls - self._polls_before, self.polls
        self._turns += 1
        self._left = TURN
        self.launch.watch(polls, self)
        self._starving = polls > 0 or self._turns % LAP == 0
        self._look_for_circle()

    @property
    def circles(self) -> bool:
        """Whether the threads go round in circles, and nothing was written meanwhile that could free them."""
        return self._repeats and self._circle[0] == self.launch.writes

    def _look_for_circle(self) -> None:
        """Find out whether the threads are where they were, with nothing written in between.

        Then they are there forever, if all of them had turns since. The state to compare with is taken
        anew after 2, 4, 8, ... turns, so that circles of any length are found.
        """
        writes, turns = self.launch.writes, self._turns
        if turns & (turns - 1) == 0:
            self._circle, self._repeats = (writes, turns, self.state()), False
        elif self._circle[0] == writes and turns % LAP == 0:
            _, since, state = self._circle
            all_ran = all(each.last_turn > since for each in self.stack if each.runnable)
            self._repeats = all_ran and state == self.state()

    def state(self) -> int:
        """Hash of where the threads stand and of their registers."""
        return hash(
            tuple(
                (
                    each.plan.function.name,
                    each.lanes.slots.tobytes(),
                    each.whole,
                    tuple((pc, index.tobytes()) for pc, index in each.waiting.items()),
                    tuple(value.tobytes() for value in each.registers),
                )
                for each in self.stack
            )
        )

    def _deliver(self) -> bool:
        """Send all lanes back that have returned from a function; whether there were any."""
        delivered = [each.deliver() for each in reversed(self.stack)]
        return any(delivered)

    def _meet(self) -> bool:
        """Let lanes go on that waited for others of their warps and need not any more; whether there were any.

        Threads at different warp barriers meet too; the other instructions exchange values, and must be the same.
        """
        met = False
        apart = []
        for each in self.stack:
            for pc in list(each.stalled):
                if each.plan.code(pc).block.instructions[0].base == "bar":
                    apart.append((each, pc))
                else:
                    met |= each.meet_again(pc)
        if apart:
            slots = np.concatenate([each.lanes.slots[each.waiting[pc]] for each, pc in apart])
            present = self.warp_masks(slots)
            for each, pc in apart:
                met |= each.meet_apart(pc, present)
        return met

    def warp_masks(self, slots: Array) -> Array:
        """Mask ``(warps,)`` of the lanes in each warp that ``slots`` names."""
        flags = np.zeros(self.warps * 32, np.bool_)
        flags[self.constant("warp_slot", None)[slots]] = True
        masks: Array = np.packbits(flags, bitorder="little").view(np.uint32)
        return masks

    def whole_warpgroups(self, slots: Array, ready: Array) -> Array:
        """Which of the lanes ``slots`` that are ``ready`` have all lanes of their warpgroups with them."""
        groups = -(-self.launch.threads // WARPGROUP_THREADS)
        block, thread = np.divmod(np.arange(self.n), self.launch.threads)
        number = block * groups + thread // WARPGROUP_THREADS
        alive = np.bincount(number if self.live is None else number[self.live], minlength=self.count * groups)
        present = np.bincount(number[slots[ready]], minlength=self.count * groups)
        whole: Array = ready & (present >= alive)[number[slots]]
        return whole

    def live_masks(self) -> Array:
        """Mask ``(warps,)`` of the lanes in each warp that have not ended."""
        return self.warp_masks(np.arange(self.n) if self.live is None else np.flatnonzero(self.live))

    def standing(self) -> list[tuple[Lanes, Any, str]]:
        """Where the threads are: lanes, instruction, and what they do there."""
        threads = self._waiting()
        for each in self.stack:
            waiting = dict(each.waiting) if each.whole is None else {each.whole: np.arange(each.lanes.n)}
            for pc, index in waiting.items():
                block = each.plan.blocks[max(pc, ~pc)]
                first = block.instructions[0] if block.instructions else block.last
                if pc not in each.stalled and first is not None:
                    threads.append((each.lanes.subset(index), Site(first, each.plan.function.name), "run"))
        return threads

    def _waiting(self) -> list[tuple[Lanes, Any, str]]:
        threads = [
            (wait.activation.lanes.subset(wait.index), wait.code.site, f"wait at a barrier of their {group}")
            for waits, group in ((self.waits, "block"), (self.cluster_waits, "cluster"))
            for wait in waits
        ]
        threads += self.mbarriers.standing()
        for each in self.stack:
            for block in each.stalled:
                first = each.plan.blocks[block].instructions[0]
                site = Site(first, each.plan.function.name)
                lanes = each.lanes.subset(each.waiting[block])
                threads.append((lanes, site, "wait for other lanes of their warp"))
        return threads


def _select(values: Array, lanes: Array) -> Array:
    return values if values.shape[0] == 1 else values[lanes]
