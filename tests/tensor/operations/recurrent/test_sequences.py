"""Steps of a recurrent layer that are one launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drv
import tensor
from tests.tensor.driver_calls import counted
from tests.tensor.operations.neural_comparison import on
from tests.tensor.operations.recurrent.test_recurrent import CELLS, _arrays, _run

pytestmark = pytest.mark.simulator_only

#: Cells whose steps may be one launch.
SEQUENCES = [which for which in CELLS if which != "lstm projected"]


def _spans(*counts: int) -> list[tuple[int, int]]:
    return [(sum(counts[:number]), count) for number, count in enumerate(counts)]


def _results(place: str, which: str, hidden: int, spans: Any, dtype: Any = tensor.float64) -> list[Any]:
    """Results and gradients of everything."""
    rows, batch = sum(count for _, count in spans), max(count for _, count in spans)
    arrays = _arrays(which, rows, hidden, batch)
    # Smaller, as the sums have more terms.
    operands = [None if each is None else on(place, each * 0.3).to(dtype).requires_grad_() for each in arrays]
    results = _run(which, operands, spans, hidden, batch)
    sum((each.double() ** 2).sum() for each in results).backward()
    leaves = [each.grad for each in operands if each is not None]
    return [each.detach().double().cpu().numpy() for each in (*results, *leaves)]


#: Sequences that end one after another: two launches, and steps between them.
ENDING = _spans(9, 9, 9, 9, 5, 5, 2, 2, 2, 2, 2)


@pytest.mark.parametrize(
    ("which", "multiprocessors", "hidden", "spans"),
    [
        *[(which, 132, 4, ENDING) for which in SEQUENCES],
        ("lstm", 132, 4, ENDING[::-1]),
        # Rows of the batch in two parts, the second smaller.
        ("gru", 132, 6, _spans(*[9] * 4)),
        # Units of a block in two groups, rows of a block in two turns.
        ("lstm", 3, 22, _spans(*[36] * 4)),
    ],
)
def test_values(which: str, multiprocessors: int, hidden: int, spans: Any) -> None:
    drv.simulator.install(check="full", schedule="random", multiprocessors=multiprocessors)
    with counted() as calls:
        result = _results("cuda", which, hidden, spans)
    assert calls["cuLaunchCooperativeKernel"] == (2 if len(spans) == 4 else 4)
    assert not drv.simulator.findings()
    for left, right in zip(result, _results("cpu", which, hidden, spans), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("name", "error"), [("float32", 1e-3), ("bfloat16", 0.03), ("float16", 0.004)])
def test_dtypes(name: str, error: float) -> None:
    # The products with the input may be done in TF32.
    drv.simulator.install(check="full")
    spans = _spans(*[3] * 5)
    for which in ("lstm", "gru"):
        result = _results("cuda", which, 8, spans, getattr(tensor, name))
        for left, right in zip(result, _results("cpu", which, 8, spans), strict=True):
            np.testing.assert_allclose(left, right, atol=error * np.abs(right).max(), rtol=0)


@pytest.mark.parametrize("which", SEQUENCES)
def test_launches_do_not_grow_with_the_number_of_steps(which: str) -> None:
    drv.simulator.install()
    counts = []
    with counted() as calls:
        for steps in (4, 9):
            calls.clear()
            _results("cuda", which, 4, _spans(*[2] * steps))
            counts.append(
                [calls[name] for name in ("cuLaunchKernel", "cuMemsetD32Async", "cuLaunchCooperativeKernel")]
            )
    assert counts[0] == counts[1]
    assert counts[0][2] == 2


def test_what_does_not_fit_is_done_by_steps() -> None:
    drv.simulator.install(multiprocessors=1)
    with counted() as calls:
        _results("cuda", "gru", 20, _spans(*[2] * 5))
        # Three steps are no more than products and kernels.
        _results("cuda", "gru", 4, _spans(*[2] * 3))
    assert not calls["cuLaunchCooperativeKernel"]


def test_a_captured_graph_replays_sequences() -> None:
    drv.simulator.install(schedule="lazy", check="race")
    data, state, _, *weights, _ = _arrays("gru", 8, 4, 2)
    operands = [on("cuda", each) for each in (data, state)], [on("cuda", each) for each in weights]
    x, hx = operands[0]

    def step() -> Any:
        return _run("gru", [x, hx, None, *operands[1], None], _spans(*[2] * 4), 4, 2)[0]

    step()
    graph = tensor.cuda.CUDAGraph()
    with tensor.cuda.graph(graph):
        result = step()
    for _ in range(2):
        x.mul_(0.5)
        graph.replay()
        np.testing.assert_array_equal(result.cpu().numpy(), step().cpu().numpy())
