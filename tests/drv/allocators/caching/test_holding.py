"""Freed blocks that are held back, out of the pool's order: nobody can tell, but for the time that it saves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drv.allocators.caching import pool as pool_module
from drv.allocators.caching.pool import BlockPool
from tests.drv.allocators.fakes import Bottom

from .model import Model

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv.allocators.caching.blocks import CachedBlock

#: What a program does in turn: allocate so many bytes, or free the live block of that number, counted from the newest.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("allocate"), st.sampled_from([512, 512, 512, 1024])),
        st.tuples(st.just("free"), st.integers(0, 5)),
    ),
    min_size=2,
    max_size=14,
)


class Both:
    """An allocator and its model, which do the same."""

    def __init__(self) -> None:
        self.bottom = Bottom()
        self.allocator = self.bottom.allocator
        self.model = Model()
        self.live: list[CachedBlock] = []

    def allocate(self, size: int) -> None:
        expected = self.model.fit(size, 0)
        block = self.allocator.allocate(size)
        if expected is None:
            expected = self.model.add_segment(block.address, size, 0)
        assert block.address == expected[1].address
        assert block.live
        self.model.use(*expected, size)
        self.live.append(block)

    def free(self, number: int) -> None:
        if number < len(self.live):
            block = self.live.pop(~number)
            self.allocator.free(block)
            self.model.free(block.address, pending=False)

    def check(self) -> None:
        result = self.allocator.statistics()
        for name, quantity in self.model.counts.items():
            for figure in ("current", "peak", "allocated", "freed"):
                assert result[f"{name}.{figure}"] == getattr(quantity, figure), f"{name}.{figure}"
        states = {"active_allocated": "live", "inactive": "free"}
        blocks = [block for segment in self.allocator.snapshot() for block in segment["blocks"]]
        assert [(b["address"], b["size"], states[b["state"]]) for b in blocks] == self.model.layout()


@pytest.mark.parametrize("chunk", [2, 256])
@given(before=STEPS, steps=STEPS, rounds=st.integers(1, 5))
@example(
    before=[("allocate", 512)] * 3 + [("free", 1)],
    steps=[("free", 0), ("free", 0), ("allocate", 512), ("allocate", 512)],
    rounds=5,
)
@example(
    before=[("allocate", 512)] * 4 + [("free", 2)],
    steps=[("allocate", 512), ("free", 1), ("free", 0), ("allocate", 512)],
    rounds=5,
)
@example(  # What both merge to is no better than a hole before them.
    before=[("allocate", 1024), *[("allocate", 512)] * 4, ("free", 4)],
    steps=[("free", 1), ("allocate", 512), ("free", 0), ("free", 1), ("allocate", 512), ("allocate", 512)],
    rounds=1,
)
@example(  # The one with the lower address merges with the hole behind it.
    before=[("allocate", 512), ("allocate", 1024), *[("allocate", 512)] * 3, ("free", 3)],
    steps=[("free", 1), ("allocate", 512), ("free", 0), ("free", 2), ("allocate", 512), ("allocate", 512)],
    rounds=1,
)
@settings(max_examples=300, deadline=None)
def test_loops_get_the_blocks_of_the_model(
    chunk: int, before: list[tuple[str, int]], steps: list[tuple[str, int]], rounds: int
) -> None:
    """Nobody looks at the order between the steps, so that blocks are held through all of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool_module, "CHUNK", chunk)
        both = Both()
        for name, number in before + steps * rounds:
            getattr(both, name)(number)
        both.check()


def counted(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[str]:
    """Which of a pool's methods are called from now on."""
    calls: list[str] = []

    def counting(name: str) -> Callable[..., Any]:
        original = getattr(BlockPool, name)

        def method(self: BlockPool, *arguments: Any) -> Any:
            calls.append(name)
            return original(self, *arguments)

        return method

    for name in names:
        monkeypatch.setattr(BlockPool, name, counting(name))
    return calls


def chain(both: Both, length: int, size: int = 512) -> None:
    """As ``for _ in range(length): x = x * a`` does, and the end of its function."""
    both.allocate(size)
    for _ in range(length - 1):
        both.allocate(size)
        both.free(1)
    both.free(0)


@pytest.mark.parametrize("others", [0, 1, 3])
def test_a_chain_of_operations_that_is_repeated_leaves_the_order_alone(
    monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    both = Both()
    for _ in range(others):
        both.allocate(512)
    for _ in range(4):
        chain(both, 10)
    calls = counted(monkeypatch, "take", "give", "put_held", "hold", "hold_both", "hold_second")
    for _ in range(5):
        chain(both, 10)
    assert calls == ["hold_second"] * 5
    both.check()


def test_pairs_that_are_put_back_are_looked_for_less_and_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three blocks that are freed in a row: a pair is never handed out."""
    both = Both()
    calls = counted(monkeypatch, "hold_second")
    formed = 0
    original = pool_module.together

    def together(*arguments: Any) -> Any:
        nonlocal formed
        formed += 1
        return original(*arguments)

    monkeypatch.setattr(pool_module, "together", together)
    for _ in range(500):
        for _ in range(3):
            both.allocate(512)
        # So that what is freed next may be held.
        both.free(0)
        both.allocate(512)
        for _ in range(3):
            both.free(0)
    assert not calls
    assert 3 < formed < 20
    both.check()


def test_a_block_is_held_among_many_free_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    both = Both()
    free = 2 * pool_module.CHUNK
    for _ in range(2 * free):
        both.allocate(512)
    for number in range(free):
        both.free(number)
    for _ in range(2):
        both.allocate(512)
        both.free(0)
    calls = counted(monkeypatch, "take", "give", "put_held", "hold")
    for _ in range(5):
        both.allocate(512)
        both.free(0)
    assert not calls
    both.check()


def test_blocks_that_cannot_be_held_are_looked_at_less_and_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest block, which is freed before another one is allocated, is behind the hole that takes the new one."""
    both = Both()
    looked = 0
    original = pool_module.alone

    def alone(*arguments: Any) -> Any:
        nonlocal looked
        looked += 1
        return original(*arguments)

    monkeypatch.setattr(pool_module, "alone", alone)
    both.allocate(4096)
    for _ in range(200):
        both.allocate(512)
    both.free(200)
    for _ in range(150):
        both.free(199)
        both.allocate(512)
    assert 3 < looked < 20
    both.check()
