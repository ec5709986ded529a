"""Connectionist temporal classification against PyTorch's, and against a sum over all ways."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import drv
import tensor
from tensor.operations.losses.sequence import ctc_loss
from tests.tensor.operations.neural_comparison import assert_like_torch, on

_RNG = np.random.default_rng(0)
_LENGTHS, _TARGET_LENGTHS = [7, 5, 7], [3, 0, 2]


def _log_probs(*shape: int, kind: Any = np.float32) -> Any:
    x = _RNG.standard_normal(shape)
    return (x - np.log(np.exp(x).sum(-1, keepdims=True))).astype(kind)


@pytest.mark.parity
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("padded", [True, False])
def test_like_pytorch(reduction: str, padded: bool, checked_device: str) -> None:
    functional = pytest.importorskip("torch.nn.functional")
    targets = np.array([[1, 1, 3], [2, 2, 2], [4, 1, 1]])
    if not padded:
        targets = np.array([1, 1, 3, 4, 1])
    assert_like_torch(
        checked_device,
        lambda x, t: ctc_loss(x, t, _LENGTHS, _TARGET_LENGTHS, reduction=reduction),
        lambda x, t: functional.ctc_loss(x, t, _LENGTHS, _TARGET_LENGTHS, reduction=reduction),
        (_log_probs(7, 3, 5), targets),
    )


@pytest.mark.parity
def test_one_sample_and_other_blanks(checked_device: str) -> None:
    functional = pytest.importorskip("torch.nn.functional")
    for dtype in (np.float32, np.float64):
        assert_like_torch(
            checked_device,
            lambda x, t: ctc_loss(x, t, (6,), (4,), blank=2),
            lambda x, t: functional.ctc_loss(x, t, (6,), (4,), blank=2),
            (_log_probs(6, 40, kind=dtype), np.array([0, 1, 1, 3])),
        )


@pytest.mark.parity
@pytest.mark.parametrize("zero_infinity", [True, False])
def test_targets_that_are_too_long(zero_infinity: bool, checked_device: str) -> None:
    functional = pytest.importorskip("torch.nn.functional")
    assert_like_torch(
        checked_device,
        lambda x, t: ctc_loss(x, t, [3, 0, 3], [3, 1, 1], reduction="none", zero_infinity=zero_infinity),
        lambda x, t: functional.ctc_loss(
            x, t, [3, 0, 3], [3, 1, 1], reduction="none", zero_infinity=zero_infinity
        ),
        (_log_probs(3, 3, 4), np.array([[1, 1, 2], [1, 0, 0], [2, 0, 0]])),
        gradients=9 if zero_infinity else 0,
    )


def test_the_sum_over_all_ways(device_name: str) -> None:
    times, target = 4, (1, 1)
    log_probs = _log_probs(times, 1, 3, kind=np.float64)
    total = 0.0
    for way in itertools.product(range(3), repeat=times):
        merged = [label for label, _ in itertools.groupby(way)]
        if tuple(label for label in merged if label) == target:
            total += np.exp(sum(log_probs[t, 0, label] for t, label in enumerate(way)))
    result = ctc_loss(
        on(device_name, log_probs), on(device_name, np.array([target])), [times], [2], reduction="sum"
    )
    assert result.item() == pytest.approx(-np.log(total), rel=1e-12)


def test_derivatives(device_name: str) -> None:
    x = on(device_name, _RNG.standard_normal((4, 2, 3)), grad=True)
    targets = on(device_name, np.array([[1, 2], [1, 1]]))

    def function(x: Any) -> Any:
        return ctc_loss(x.log_softmax(-1), targets, [4, 3], [2, 2], reduction="none")

    assert tensor.autograd.gradcheck(function, (x,), fast_mode=device_name == "cuda")
    gradient = tensor.autograd.grad(function(x).sum(), x, create_graph=True)[0]
    with pytest.raises(NotImplementedError, match="not implemented"):
        gradient.sum().backward()


def test_half_precision_and_strides(device_name: str) -> None:
    x = on(device_name, _log_probs(3, 5, 4))
    targets, lengths = on(device_name, np.array([[1], [2], [3]])), on(device_name, np.array([5, 5, 4]))
    moved = ctc_loss(x.transpose(0, 1), targets, lengths, (1, 1, 1))
    plain = ctc_loss(x.transpose(0, 1).contiguous(), targets.int(), [5, 5, 4], [1, 1, 1])
    assert moved.item() == pytest.approx(plain.item(), rel=1e-6)
    half = ctc_loss(x.transpose(0, 1).half(), targets, lengths, (1, 1, 1))
    assert half.dtype is tensor.float16
    assert half.item() == pytest.approx(plain.item(), rel=1e-2)


def test_wrong_arguments(request: pytest.FixtureRequest) -> None:
    x, target = tensor.zeros(3, 2, 4), tensor.ones(2, 2).long()
    for match, call in (
        ("label range", lambda: ctc_loss(x, target, [3, 3], [2, 2], blank=4)),
        ("input_lengths must be of size", lambda: ctc_loss(x, target, [3], [2, 2])),
        ("input_lengths to have value", lambda: ctc_loss(x, target, [3, 4], [2, 2])),
        ("target_lengths to have value", lambda: ctc_loss(x, target, [3, 3], [2, 3])),
        ("targets must be integral", lambda: ctc_loss(x, target.float(), [3, 3], [2, 2])),
        ("for targets", lambda: ctc_loss(x, target[:1], [3, 3], [2, 2])),
        ("one after another", lambda: ctc_loss(x, target.view(-1), [3, 3], [2, 1])),
        ("classes from 0 to 3, but got 9", lambda: ctc_loss(x, target + 8, [3, 3], [2, 2])),
    ):
        with pytest.raises(RuntimeError, match=match):
            call()
    if not request.config.getoption("--gpu"):
        drv.simulator.install()
        with pytest.raises(drv.DeviceAssertError):
            ctc_loss(x.cuda(), (target + 8).cuda(), [3, 3], [2, 2]).item()
