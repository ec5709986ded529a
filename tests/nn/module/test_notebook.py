"""Modules in notebooks."""

from __future__ import annotations

import nn


def test_a_tree_that_opens() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 1)))
    model[0].weight.requires_grad_(False)
    html = model._repr_html_()
    assert html.startswith(
        "<details open><summary><b>Sequential</b>() · 13 parameters, 52 B, 6 of them frozen</summary>"
    )
    assert "<div>0: <b>Linear</b>(in_features=2, out_features=3, bias=True) · 9 parameters, 36 B" in html
    assert "<details><summary>1: <b>Sequential</b>() · 4 parameters, 16 B</summary>" in html
    assert html.count("<details") == html.count("</details>") == 2


def test_layers_without_sizes_and_names_with_signs() -> None:
    class Strange(nn.Module):
        def extra_repr(self) -> str:
            return "a < b"

    assert nn.LazyLinear(3)._repr_html_().startswith("<div><b>LazyLinear</b>(")
    assert Strange()._repr_html_() == "<div><b>Strange</b>(a &lt; b)</div>"
