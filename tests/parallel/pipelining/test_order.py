"""Orders of passes: each pass once, backward after forward, and none that waits for ever."""

from __future__ import annotations

import pytest

from parallel.pipelining.order import Action, all_forward_all_backward, one_forward_one_backward

SIZES = [(1, 1), (1, 3), (2, 2), (4, 4), (4, 9), (8, 8)]


def _finishes(orders: list[list[Action]]) -> bool:
    """Whether all stages come to their end, where each pass waits for that of its neighbour."""
    done: set[tuple[int, Action]] = set()
    positions, last = [0] * len(orders), len(orders) - 1
    while True:
        before = len(done)
        for stage, actions in enumerate(orders):
            while positions[stage] < len(actions):
                action = actions[positions[stage]]
                other = stage + (-1 if action.forward else 1)
                if 0 <= other <= last and (other, action) not in done:
                    break
                if not action.forward and (stage, Action(True, action.microbatch)) not in done:
                    return False
                done.add((stage, action))
                positions[stage] += 1
        if len(done) == before:
            return all(position == len(actions) for position, actions in zip(positions, orders, strict=True))


@pytest.mark.parametrize(("stages", "microbatches"), SIZES)
def test_all_stages_come_to_their_end(stages: int, microbatches: int) -> None:
    for orders in (
        [one_forward_one_backward(stage, stages, microbatches) for stage in range(stages)],
        [all_forward_all_backward(microbatches)] * stages,
    ):
        assert _finishes(orders)
        for each in orders:
            assert sorted(each) == sorted(
                Action(forward, number) for forward in (True, False) for number in range(microbatches)
            )
