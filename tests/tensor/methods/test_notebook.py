"""Tensors in notebooks."""

from __future__ import annotations

import tensor
from tensor.methods.notebook import size_text


def test_what_a_notebook_shows(device_name: str) -> None:
    x = tensor.ones(2, 3, device=device_name)
    html = x._repr_html_()
    assert html.startswith("<div><b>Tensor</b> · 2 × 3 · float32 · ")
    assert f"· {device_name}" in html
    assert "24 B</div><pre>tensor([[1., 1., 1.]," in html


def test_graphs_and_classes_are_told_and_text_is_escaped() -> None:
    x = tensor.ones((), requires_grad=True)
    assert "scalar · float32 · cpu · 4 B · leaf with grad" in x._repr_html_()
    html = (x * 2)._repr_html_()
    assert "MulBackward0" in html
    assert "grad_fn=&lt;MulBackward0&gt;" in html


def test_sparse_tensors() -> None:
    html = tensor.eye(3).to_sparse()._repr_html_()
    assert "3 × 3" in html
    assert "indices=tensor" in html


def test_sizes() -> None:
    assert [size_text(each) for each in (5, 2048, 3 << 20, 5 << 50)] == [
        "5 B",
        "2.0 KiB",
        "3.0 MiB",
        "5120.0 TiB",
    ]
