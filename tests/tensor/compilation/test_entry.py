"""What a compiled call holds for its backward pass, and until when."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import nn
import tensor

pytestmark = pytest.mark.usefixtures("device")


def _peak(function: Any, x: Any, *, retain_graph: bool = False) -> tuple[int, int]:
    """Bytes that a forward pass leaves, and that are in use at most during the backward pass behind it."""
    before = tensor.cuda.memory_allocated()
    loss = function(x).square().sum()
    saved = tensor.cuda.memory_allocated() - before
    tensor.cuda.reset_peak_memory_stats()
    loss.backward(retain_graph=retain_graph)
    return saved, tensor.cuda.max_memory_allocated() - before


def test_saved_tensors_are_freed_during_the_backward_pass() -> None:
    """The most memory is that of eager execution: what was saved goes as it has been read, and gradients come."""
    # Without biases: sums for them are done together, and what they read is held for that.
    layers = (each for _ in range(6) for each in (nn.Linear(128, 128, bias=False), nn.Tanh()))
    model = nn.Sequential(*layers).cuda()
    x = tensor.randn(128, 128, device="cuda")
    figures = {}
    for name, function in (("eager", model.forward), ("compiled", tensor.compile(model.forward))):
        for _ in range(2):
            model.zero_grad()
            figures[name] = _peak(function, x)
    assert figures["compiled"][0] <= figures["eager"][0]
    # But for scalars, which live a little longer, and one tensor: the memory of several comes and goes together.
    assert figures["compiled"][1] < figures["eager"][1] + x.nbytes + x.nbytes // 16, figures
    model.zero_grad()
    _, retained = _peak(function, x, retain_graph=True)
    assert retained > figures["compiled"][1] + x.nbytes, "it would not be noticed if nothing was freed"


def test_a_second_pass_needs_the_graph_to_be_retained() -> None:
    weight = tensor.ones(4, device="cuda", requires_grad=True)
    compiled = tensor.compile(lambda x: (x * weight).exp())
    x = tensor.ones(4, device="cuda")
    for _ in range(2):
        result = compiled(x)
        (first,) = tensor.autograd.grad(result.sum(), weight, retain_graph=True)
        (second,) = tensor.autograd.grad(result.sum(), weight)
        assert tensor.equal(first, second)
        with pytest.raises(RuntimeError, match="a second time"):
            tensor.autograd.grad(result.sum(), weight)


def test_arguments_are_let_go_of() -> None:
    """By the backward pass, although its result is still there."""
    weight = tensor.ones(4, device="cuda", requires_grad=True)
    compiled = tensor.compile(lambda x: (x * weight).exp())
    for _ in range(2):
        x = tensor.ones(4, device="cuda")
        argument = weakref.ref(x)
        result = compiled(x)
        del x
        result.sum().backward()
        gc.collect()
        assert argument() is None
