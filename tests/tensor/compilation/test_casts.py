"""Casts that kernels make as they load and store: results are those of the casts, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest

import tensor
from nn import functional

pytestmark = pytest.mark.usefixtures("device")


def _step(shape: tuple[int, ...], dtype: Any, **options: Any) -> tuple[str, list[Any]]:
    """What a compiled step of cross entropy explains, and its loss and gradients, which are those of the step as it is."""
    tensor.manual_seed(1)
    weight = tensor.randn(*shape, device="cuda", dtype=dtype, requires_grad=True)
    target = tensor.randint(0, shape[1], (shape[0], *shape[2:]), device="cuda")
    target[0] = -100

    def step(target: Any) -> Any:
        weight.grad = None
        logits = weight * 2
        loss = functional.cross_entropy(logits.float(), target, **options)
        loss.square().mean().backward()
        return loss.detach()

    compiled = tensor.compile(step, fullgraph=True)
    for _ in range(2):
        results = [[each(target), weight.grad] for each in (compiled, step)]
        for one, other in zip(*results, strict=True):
            assert one.dtype is other.dtype
            tensor.testing.assert_close(one, other, rtol=0, atol=0)
    return compiled.explain(target), results[0]


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((5, 257), {}),
        ((4, 3, 2, 3), {"label_smoothing": 0.1}),
        ((6, 40), {"reduction": "sum", "weight": True, "label_smoothing": 0.2}),
        ((6, 16), {"reduction": "none"}),
    ],
)
def test_logits_in_half_precision(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    if options.get("weight"):
        options = options | {"weight": tensor.rand(shape[1], device="cuda")}
    text, (_, gradient) = _step(shape, tensor.bfloat16, **options)
    assert "copies.copied" not in text, text
    assert gradient.abs().max() > 0


def test_logits_that_are_read_in_single_precision_too() -> None:
    """The cast stays, and is what the loss reads."""
    x = tensor.randn(4, 9, device="cuda", dtype=tensor.float16)
    target = tensor.randint(0, 9, (4,), device="cuda")

    def function(x: Any, target: Any) -> Any:
        logits = (x * 2).float()
        return functional.cross_entropy(logits, target), logits

    compiled = tensor.compile(function, fullgraph=True)
    for _ in range(2):
        for one, other in zip(compiled(x, target), function(x, target), strict=True):
            tensor.testing.assert_close(one, other, rtol=0, atol=0)


def test_logits_from_outside() -> None:
    """They may begin anywhere, and are added up in the packs of what a cast would give: the kernel casts them itself."""
    memory = tensor.randn(37, device="cuda", dtype=tensor.float16)
    target = tensor.randint(0, 9, (4,), device="cuda")

    def function(memory: Any, target: Any) -> Any:
        return functional.cross_entropy(memory[1:].view(4, 9).float(), target)

    compiled = tensor.compile(function, fullgraph=True)
    for _ in range(2):
        tensor.testing.assert_close(compiled(memory, target), function(memory, target), rtol=0, atol=0)
    assert "fused_copies_copied_classification_cross_entropy" in compiled.explain(memory, target)
