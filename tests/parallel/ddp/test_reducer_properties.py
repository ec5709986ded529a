"""Any passes, with any parameters on any rank, give the gradients that the rules say."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import tensor
from parallel.ddp.reducer import Reducer

from .test_reducer import Collectives, on_ranks

RANKS = 2
COUNT = 4

#: For each rank the factors of the parameters in its output; 0 for those that it does not use.
factors = st.lists(
    st.lists(st.integers(0, 3), min_size=COUNT, max_size=COUNT).filter(any),
    min_size=RANKS,
    max_size=RANKS,
)
#: Whether a pass is reduced, whether gradients are forgotten before it, and what it uses.
passes = st.lists(st.tuples(st.booleans(), st.booleans(), factors), min_size=1, max_size=5)


def by_rules(steps: list[Any]) -> list[list[list[float | None]]]:
    """Gradients of each rank after each pass."""
    grads: list[list[float | None]] = [[None] * COUNT for _ in range(RANKS)]
    used = [False] * COUNT
    result = []
    for reduced, forgets, each in steps:
        for rank in range(RANKS):
            if forgets:
                grads[rank] = [None] * COUNT
            for number, factor in enumerate(each[rank]):
                if factor:
                    used[number] = True
                    grads[rank][number] = (grads[rank][number] or 0.0) + factor
        if reduced:
            for number in range(COUNT):
                if used[number]:
                    mean = sum(grads[rank][number] or 0.0 for rank in range(RANKS)) / RANKS
                    for rank in range(RANKS):
                        grads[rank][number] = mean
            used = [False] * COUNT
        result.append([list(each) for each in grads])
    return result


def run_rank(collectives: Collectives, steps: list[Any], as_view: bool, limits: list[int]) -> Any:
    parameters = [tensor.ones(1 + number, requires_grad=True) for number in range(COUNT)]
    reducer = Reducer(
        parameters,
        [str(number) for number in range(COUNT)],
        collectives,
        limits,
        find_unused_parameters=True,
        gradient_as_bucket_view=as_view,
    )
    result = []
    for reduced, forgets, each in steps:
        if forgets:
            for parameter in parameters:
                parameter.grad = None
        used = zip(parameters, each[collectives.rank], strict=True)
        out = sum((parameter * factor).sum() for parameter, factor in used if factor)
        if reduced:
            reducer.check_finished()
            reducer.rebuild()
            reducer.prepare(out)
        else:
            reducer.skip()
        out.backward()
        values = [
            None if parameter.grad is None else set(parameter.grad.tolist()) for parameter in parameters
        ]
        assert all(value is None or len(value) == 1 for value in values)
        result.append([None if value is None else value.pop() for value in values])
    return result


@settings(max_examples=60)
@given(passes, st.booleans(), st.sampled_from([[1], [8, 12], [1000]]))
def test_gradients_follow_the_rules(steps: list[Any], as_view: bool, limits: list[int]) -> None:
    results = on_ranks(lambda collectives: run_rank(collectives, steps, as_view, limits))
    assert [list(pair) for pair in zip(*results, strict=True)] == by_rules(steps)
