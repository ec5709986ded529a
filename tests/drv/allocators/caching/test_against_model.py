"""The allocator against a plain model of it: the same addresses, the same layout, the same counters."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from drv.allocators import CachedBlock
from tests.drv.allocators.fakes import MIB, Bottom

from .model import Model

STREAMS = st.sampled_from([1, 7, 8])
SIZES = st.one_of(
    st.integers(1, 4096),
    st.sampled_from([512, 1024, MIB - 512, MIB, MIB + 1, 2 * MIB, 10 * MIB - 513, 10 * MIB - 512, 10 * MIB]),
    st.integers(1, 2 * MIB),
    st.integers(MIB, 40 * MIB),
)


class AgainstModel(RuleBasedStateMachine):
    blocks: Bundle[CachedBlock] = Bundle("blocks")

    def __init__(self) -> None:
        super().__init__()
        self.bottom = Bottom()
        self.allocator = self.bottom.allocator
        self.events = self.bottom.events
        self.model = Model()
        self.live: list[CachedBlock] = []
        self.queues: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self.counts: Counter[int] = Counter()

    def _poll(self, *, wait: bool = False) -> None:
        """What an allocation does first: blocks whose streams are done come back, stream by stream."""
        for key, queue in list(self.queues.items()):
            while queue and (wait or self.events.done[key] >= queue[0][0]):
                address = queue.pop(0)[1]
                self.counts[address] -= 1
                if not self.counts[address]:
                    self.model.finish(address)
            if not queue:
                del self.queues[key]

    @rule(target=blocks, size=SIZES, stream=STREAMS)
    def allocate(self, size: int, stream: int) -> CachedBlock:
        return self._allocate(size, stream)

    @rule(block=consumes(blocks))
    def free(self, block: CachedBlock) -> None:
        self._free(block)

    @rule(
        sizes=st.lists(st.sampled_from([512, 600, 1024, MIB, 2 * MIB]), min_size=1, max_size=4),
        rounds=st.integers(1, 4),
        stream=STREAMS,
    )
    def allocate_and_free_in_turn(self, sizes: list[int], rounds: int, stream: int) -> None:
        """As a loop does, whose blocks are freed when the next ones are there; nobody looks at the order meanwhile."""
        before = self._allocate(sizes[-1], stream)
        for size in sizes * rounds:
            block = self._allocate(size, stream)
            self._free(before)
            before = block
        self._free(before)

    def _allocate(self, size: int, stream: int) -> CachedBlock:
        self._poll()
        expected = self.model.fit(size, stream)
        block = self.allocator.allocate(size, stream)
        if expected is None:
            expected = self.model.add_segment(block.address, size, stream)
            assert self.bottom.source.calls[-1] == ("allocate", Model.segment_size(size))
        assert block.address == expected[1].address
        self.model.use(*expected, size)
        assert (block.size, block.requested, block.stream) == (expected[1].size, size, stream)
        self.live.append(block)
        return block

    def _free(self, block: CachedBlock) -> None:
        self.live.remove(block)
        uses = list(block.uses or ())
        address = block.address
        self.allocator.free(block)
        for key in uses:
            self.queues.setdefault(key, []).append((self.events.queued[key], address))
        self.counts[address] = len(uses)
        self.model.free(address, pending=bool(uses))

    @rule(block=blocks, stream=STREAMS, device=st.sampled_from([None, 0, 1]))
    def use_elsewhere(self, block: CachedBlock, stream: int, device: int | None) -> None:
        if block.live:
            self.events.work(stream, device or 0)
            self.allocator.record_stream(block, stream, device)

    @rule(stream=STREAMS, device=st.sampled_from([0, 1]))
    def work_is_done(self, stream: int, device: int) -> None:
        self.events.finish(stream, device)

    @rule()
    def empty_cache(self) -> None:
        self.allocator.empty_cache()
        self._poll(wait=True)
        self.model.release_unused()

    @rule()
    def reset_peaks(self) -> None:
        self.allocator.reset_peaks()
        for quantity in self.model.counts.values():
            quantity.peak = quantity.current

    @rule()
    def reset_accumulated(self) -> None:
        self.allocator.reset_accumulated()
        for quantity in self.model.counts.values():
            quantity.allocated = quantity.freed = 0

    @invariant()
    def live_blocks_do_not_overlap(self) -> None:
        ranges = sorted((block.address, block.address + block.size) for block in self.live)
        assert all(end <= start for (_, end), (start, _) in pairwise(ranges))

    @invariant()
    def layout_is_the_models(self) -> None:
        states = {"active_allocated": "live", "active_pending_free": "pending", "inactive": "free"}
        result = [
            (block["address"], block["size"], states[block["state"]])
            for segment in self.allocator.snapshot()
            for block in segment["blocks"]
        ]
        assert result == self.model.layout()

    @invariant()
    def counters_are_the_models(self) -> None:
        result = self.allocator.statistics()
        for name, quantity in self.model.counts.items():
            for figure in ("current", "peak", "allocated", "freed"):
                assert result[f"{name}.{figure}"] == getattr(quantity, figure), f"{name}.{figure}"

    @invariant()
    def the_driver_holds_what_is_counted(self) -> None:
        assert self.bottom.source.used == self.allocator.statistics()["reserved_bytes.all.current"]

    def teardown(self) -> None:
        for block in self.live:
            self.allocator.free(block)
        self.allocator.empty_cache()
        assert self.bottom.source.used == 0
        result = self.allocator.statistics()
        assert not any(value for name, value in result.items() if name.endswith(".current"))


TestAgainstModel = AgainstModel.TestCase
TestAgainstModel.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
