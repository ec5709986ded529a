"""Copies of what nobody reads afterwards are no copies."""

from __future__ import annotations

from typing import Any

import pytest

import nn
import tensor

pytestmark = pytest.mark.usefixtures("device")


def test_the_gradient_of_a_table_is_the_memory_that_rows_were_added_to() -> None:
    """It is filled with zeros and written in place before it is handed on."""
    table = nn.Embedding(8, 4, device="cuda")

    def step(indices: Any) -> None:
        table.weight.grad = None
        table(indices).square().sum().backward()

    compiled = tensor.compile(step, fullgraph=True)
    for seed in (1, 2):
        tensor.manual_seed(seed)
        # More than are looked through without sorting them.
        indices = tensor.randint(0, 8, (4100,), device="cuda")
        gradients = []
        for each in (compiled, step):
            each(indices)
            gradients.append(table.weight.grad)
        assert tensor.equal(*gradients)
        assert gradients[0].data_ptr() != gradients[1].data_ptr()
    text = compiled.explain(indices)
    assert "advanced_indexing.change" in text
    assert "copies.copied" not in text, text
