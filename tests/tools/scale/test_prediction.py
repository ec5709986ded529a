"""Predictions: what ranks exchange, what hides it, memory of parts, and that parts make up a step."""

from __future__ import annotations

from typing import Any

import pytest

import nn
import tensor
from tools.scale.jobs import Job, job_of
from tools.scale.language_models import GPTS
from tools.scale.network import NETWORKS
from tools.scale.prediction import predict

pytestmark = pytest.mark.simulator_only

LAYERS, WIDTH = 6, 512
PARAMETERS = LAYERS * WIDTH * (WIDTH + 1)
NETWORK = NETWORKS["dgx-a100"]


def _model() -> Any:
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))


def _loss(model: Any) -> Any:
    return model(tensor.ones(256, WIDTH)).square().mean()


JOB = Job("layers", _model, _loss, list)


def _rows(strategy: str, counts: list[int]) -> list[Any]:
    rows = predict(JOB, strategy, counts, NETWORK, "a100", None)
    for each in rows:
        assert each.compute_ms + each.exposed_ms + each.idle_ms == pytest.approx(each.step_ms)
        assert 0 <= each.exposed_ms <= each.communication_ms + 1e-9
        assert each.fits
    return rows


def test_replicas_add_up_gradients_while_the_backward_pass_goes_on() -> None:
    one, node, cluster = _rows("ddp", [1, 8, 8192])
    assert one.efficiency == 1.0 and one.exposed_ms == pytest.approx(0.0)
    for each in (node, cluster):
        assert each.communication_bytes == 4 * PARAMETERS
        # Several buckets: the first are reduced while there is more to compute.
        assert each.exposed_ms < 0.95 * each.communication_ms
    assert one.step_ms < node.step_ms < cluster.step_ms
    assert one.memory_bytes == node.memory_bytes == cluster.memory_bytes
    assert cluster.efficiency == pytest.approx(one.step_ms / cluster.step_ms)


def test_parts_are_gathered_twice_and_gradients_scattered() -> None:
    node, shard = _rows("fully_shard", [8, 512])
    for each in (node, shard):
        # In the forward and the backward pass, and the gradients.
        assert each.communication_bytes == pytest.approx(3 * 4 * PARAMETERS, rel=0.01)
    # Parameters and two states are divided; whole layers and activations are as large on any number of ranks, and at the peak, in
    # the backward pass, most gradients are not there.
    states = 3 * 4 * PARAMETERS
    assert node.memory_bytes - shard.memory_bytes == pytest.approx(states / 8 - states / 512, rel=0.02)
    (hybrid,) = _rows("hybrid", [512])
    assert hybrid.communication_ms < shard.communication_ms
    assert hybrid.memory_bytes == pytest.approx(node.memory_bytes, rel=0.05)


class _Tables(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.segments = nn.Embedding(30522, 64), nn.Embedding(2, 64)
        self.dense = nn.Linear(64, 64)

    def forward(self, tokens: Any) -> Any:
        return self.dense(self.words(tokens) + self.segments(tokens))


def test_gradients_of_tables_find_what_was_sorted() -> None:
    """Sorts for the second table launch some of the kernels that sorts for the first did, and their result is needed once more."""

    def loss(model: Any) -> Any:
        return model(tensor.zeros(12288, dtype=tensor.int64)).square().sum()

    (row,) = predict(Job("tables", _Tables, loss, list), "ddp", [1], NETWORK, "a100", None)
    assert row.compute_ms > 0


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="12 devices are no whole number of nodes of 8"):
        predict(JOB, "ddp", [12], NETWORK, "a100", None)
    with pytest.raises(ValueError, match="no strategy 'fsdp': expected ddp, fully_shard, hybrid"):
        predict(JOB, "fsdp", [8], NETWORK, "a100", None)
    with pytest.raises(ValueError, match="no device 'p100': expected h200"):
        predict(JOB, "ddp", [8], NETWORK, "p100", None)


def test_no_more_than_a_simulated_device_has() -> None:
    def model() -> Any:
        return nn.Linear(1 << 20, 3 << 20, bias=False)

    with pytest.raises(
        ValueError,
        match="large: one device with the whole model, to compare with, would take more than 4096 GiB",
    ):
        predict(Job("large", model, _loss, list), "ddp", [8], NETWORK, "a100", None)


def test_jobs(tmp_path: Any) -> None:
    job = job_of("gpt-tiny,layers=1,length=16,width=64")
    model: Any = job.model()
    assert len(job.layers(model)) == 1 and job.loss(model).shape == ()
    # Equation 3 of Narayanan et al. 2021 counts a matrix for each of a block's, and the head's.
    sizes = GPTS["gpt-1.7b"]
    assert sizes.flops() == pytest.approx(4.83e14, rel=0.01)
    path = tmp_path / "script.py"
    path.write_text("def model():\n    pass\n")
    for text, words in [
        ("gpt9", "no model 'gpt9': expected one of gpt-tiny"),
        ("gpt2,depth=3", "'depth=3' is no size"),
        (str(path), "does not define loss"),
    ]:
        with pytest.raises(ValueError, match=words):
            job_of(text)


def test_no_values_are_drawn_for_a_model() -> None:
    states = []

    def model() -> Any:
        states.append(tensor.cuda.get_rng_state().tolist())
        result = _model()
        states.append(tensor.cuda.get_rng_state().tolist())
        return result

    predict(Job("layers", model, _loss, list), "fully_shard", [1], NETWORK, "a100", None)
    before, after = states
    assert before == after
