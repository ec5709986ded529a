"""Models of published runs that documents predict: they are as large as the published ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tensor
from nn.utils.skipping import without_initialization
from tests.examples.running import ROOT
from tools.scale.jobs import job_of

if TYPE_CHECKING:
    from nn import Module

pytestmark = pytest.mark.simulator_only


def _parameters(module: Module) -> int:
    return sum(each.numel() for each in module.parameters())


def test_bert_large(monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of(str(ROOT / "docs" / "published" / "bert_large.py"))
    with without_initialization():
        model = job.model()
    # 334,094,338 is what transformers counts of a BertForQuestionAnswering with the weights of bert-large-uncased.
    assert _parameters(model) == 334_094_338
    blocks = job.layers(model)
    assert len(blocks) == 24
    # A loss is computed of two of them.
    model.layers = type(model.layers)(*blocks[:2])
    monkeypatch.setenv("SEQUENCES", "1")
    with tensor.no_grad():
        for each in model.parameters():
            each.fill_(0.01)
        # Where all weights are equal, so are the scores of all tokens.
        assert float(job.loss(model)) == pytest.approx(float(tensor.log(tensor.tensor(384.0))), rel=1e-3)
