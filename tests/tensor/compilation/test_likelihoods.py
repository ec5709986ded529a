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
