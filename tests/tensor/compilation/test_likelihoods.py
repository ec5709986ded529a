"""Negative log-likelihoods of log-probabilities are computed by what sums them, and by what goes on with the losses."""

from __future__ import annotations

from typing import Any

import pytest

import drv
import tensor
from nn import functional

from .test_fused_reductions import _calls
from .test_fusion import _compiled, _randn


def _targets(*shape: int, classes: int, ignored: int = -100) -> Any:
    """Classes, every fourth of them ignored."""
    result = tensor.randint(0, classes, shape, device="cuda")
    result.view(-1)[::4] = ignored
    return result


@pytest.mark.parametrize("shape", [(9,), (6, 5), (4, 3, 2, 3), (1, 5, 7)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("reduction", "dtype"), [("mean", tensor.float32), ("sum", tensor.bfloat16)])
@pytest.mark.sampled(4)
def test_what_becomes_of_a_mean_is_part_of_the_kernel(
    device: drv.Device, shape: tuple[int, ...], weighted: bool, reduction: str, dtype: Any
) -> None:
    classes = shape[min(1, len(shape) - 1)]

    def function(x: Any, target: Any, weight: Any) -> Any:
        loss = functional.nll_loss(
            x, target, weight if weighted else None, ignore_index=1, reduction=reduction
        )
        return loss * 0.5 + 1

    target = _targets(*shape[:1], *shape[2:], classes=classes, ignored=1)
    if len(shape) == 1:
        target = tensor.tensor(2, device="cuda")
    text = _compiled(
        function, _randn(*shape, grad=True, dtype=dtype), target, _randn(classes).abs(), exact=False
    )
    assert text.startswith("forward: 4 operations in 1 calls"), text


@pytest.mark.parametrize("dtype", [tensor.float32, tensor.float16, tensor.float64])
def test_what_goes_on_with_losses_looks_them_up(device: drv.Device, dtype: Any) -> None:
    def function(x: Any, target: Any, weight: Any, mask: Any) -> Any:
        losses = functional.nll_loss(x, target, weight, reduction="none")
        return (losses * mask).sum(), functional.nll_loss(x, target, reduction="none").exp()

    operands = _randn(3, 4, 5, dtype=dtype), _targets(3, 5, classes=4), _randn(4, dtype=dtype).abs()
    text = _compiled(function, *operands, _randn(3, 5, dtype=dtype), exact=False)
    assert _calls(text) == [2], text
    _compiled(lambda x, target: functional.nll_loss(x, target, reduction="none"), *operands[:2])


def test_what_is_computed_stays_with_the_kernel_that_reads_it(device: drv.Device) -> None:
    def function(x: Any, target: Any) -> Any:
        return functional.nll_loss(x.log_softmax(-1), target.clone()) * 2, functional.nll_loss(x * 2, target)

    text = _compiled(function, _randn(6, 5, grad=True), _targets(6, classes=5))
    assert "classification.nll" in text, text


def test_targets_that_are_no_classes(device: drv.Device, capfd: pytest.CaptureFixture[str]) -> None:
    compiled = tensor.compile(lambda x, target: functional.nll_loss(x, target) * 2, fullgraph=True)
    x, target = _randn(6, 5), _targets(6, classes=5)
    compiled(x, target)
    with pytest.raises(drv.DeviceAssertError, match="kernel 'fused_classification_nll_classification_mean"):
        compiled(x, target + 5)
        tensor.cuda.synchronize()
    assert "is out of bounds: there are 5 classes" in capfd.readouterr().out
    drv.reset()


def test_steps_of_a_classifier(schedule: None) -> None:
    x, weight = _randn(40, 7, grad=True), _randn(7).abs()

    def function(target: Any) -> Any:
        return functional.nll_loss(functional.log_softmax(x, -1), target, weight).sqrt()

    compiled = tensor.compile(function, fullgraph=True)
    for _ in range(2):
        target = _targets(40, classes=7)
        losses = [each(target) for each in (compiled, function)]
        tensor.testing.assert_close(*losses)
        tensor.testing.assert_close(*(tensor.autograd.grad(each, x)[0] for each in losses))


@pytest.mark.parametrize("shape", [(7,), (6, 8), (3, 4, 5), (2, 5, 3, 4)])
@pytest.mark.parametrize("dtype", [tensor.float32, tensor.bfloat16])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.sampled(4)
def test_gradients_are_part_of_what_goes_on_with_them(
    device: drv.Device, shape: tuple[int, ...], dtype: Any, reduction: str
) -> None:
    """Of the derivative of log-softmax, along the last dimension and others, and of chains, with weights and without."""
    dim = min(1, len(shape) - 1)

    def function(x: Any, target: Any, weight: Any) -> Any:
        log_p = functional.log_softmax(x * 2, dim)
        return functional.nll_loss(log_p, target, weight, ignore_index=1, reduction=reduction)

    target = _targets(*shape[:dim], *shape[dim + 1 :], classes=shape[dim], ignored=1)
    if len(shape) == 1:
        target = tensor.tensor(2, device="cuda")
    x, weight = _randn(*shape, grad=True, dtype=dtype), _randn(shape[dim], dtype=dtype).abs()
    backward = _compiled(function, x, target, weight, exact=False).split("backward: ")[1]
    assert backward.split(" in ")[1].startswith("1 calls"), backward
    assert "classification_nll_gradient_softmax" in backward, backward

    def chain(x: Any, target: Any) -> Any:
        return functional.nll_loss(x * 0.5, target, ignore_index=1, reduction=reduction)

    backward = _compiled(chain, x, target, exact=False).split("backward: ")[1]
    assert backward.startswith("2 operations in 1 calls"), backward


def test_gradients_that_stay_apart_say_why(device: drv.Device) -> None:
    """Whatever depends on where an element lies is no part of reductions, or of what is transposed."""

    def function(x: Any, bias: Any, target: Any) -> Any:
        return functional.nll_loss(x + bias, target)

    operands = _randn(6, 5), _randn(5, grad=True), _targets(6, classes=5)
    text = _compiled(function, *operands, exact=False)
    assert "it depends on the places of its elements" in text, text

    def turned(x: Any, target: Any) -> Any:
        return functional.nll_loss(x.t() * 2, target)

    _compiled(turned, _randn(5, 6, grad=True), _targets(6, classes=5), exact=False)


def test_steps_of_a_segmentation(schedule: None) -> None:
    """Log-probabilities along the channels of images, with temperature and weights: one kernel each way but for the mean."""
    x, weight = _randn(4, 7, 6, 5, grad=True), _randn(7).abs()

    def function(target: Any, temperature: Any) -> Any:
        return functional.nll_loss(functional.log_softmax(x / temperature, 1), target, weight)

    compiled = tensor.compile(function, fullgraph=True)
    for _ in range(2):
        target, temperature = _targets(4, 6, 5, classes=7), _randn(7, 1, 1).abs() + 1
        losses = [each(target, temperature) for each in (compiled, function)]
        tensor.testing.assert_close(*losses)
        tensor.testing.assert_close(*(tensor.autograd.grad(each, x)[0] for each in losses))


@pytest.mark.parametrize(("count", "calls"), [(900, 1), (2900, 1), (5000, 2), (16500, 1)])
def test_what_blocks_would_share_for_the_lookup_alone_stays_apart(
    device: drv.Device, count: int, calls: int
) -> None:
    """A mean of so few losses takes one block, which takes no longer with a kernel before it than blocks that share the lookup."""

    def function(x: Any, target: Any) -> Any:
        return functional.nll_loss(x, target, reduction="none").mean()

    text = _compiled(function, _randn(count, 3), _targets(count, classes=3), exact=False)
    assert _calls(text) == [calls], text
    assert ("would be shared by blocks" in text) == (calls == 2), text
