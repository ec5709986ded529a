"""Schedules against PyTorch's over 50 epochs, state dicts, and mistakes."""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING, Any

import pytest

import nn.optim
import tensor
from nn.optim import lr_scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

EPOCHS = 50


class Half:
    """A callable object."""

    def __init__(self, factor: float = 0.5) -> None:
        self.factor = factor

    def __call__(self, epoch: int) -> float:
        return 1.0 / (1.0 + self.factor * epoch)


SCHEDULES: dict[str, Callable[[Any, Any], Any]] = {
    "lambda": lambda s, o: s.LambdaLR(o, lambda epoch: 0.95**epoch),
    "lambdas": lambda s, o: s.LambdaLR(o, [Half(), Half(0.1)]),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.9 + 0.01 * (epoch % 3)),
    "step": lambda s, o: s.StepLR(o, 7, 0.5),
    "multi-step": lambda s, o: s.MultiStepLR(o, [3, 10, 10, 30], 0.5),
    "constant": lambda s, o: s.ConstantLR(o, 0.25, 8),
    "linear": lambda s, o: s.LinearLR(o, 0.2, 0.9, 12),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.93),
    "polynomial": lambda s, o: s.PolynomialLR(o, 40, 1.5),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 10, 0.001),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 5, 2, 0.001),
    "equal restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 6),
    "triangular": lambda s, o: s.CyclicLR(o, 0.01, [0.1, 0.2], 6, 3),
    "triangular2": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 6, mode="triangular2", cycle_momentum=False),
    "exp_range": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 6, mode="exp_range", gamma=0.97),
    "scaled cycles": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 6, scale_fn=Half()),
    "scaled iterations": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 6, scale_fn=Half(), scale_mode="iterations"),
    "one cycle": lambda s, o: s.OneCycleLR(o, [0.1, 0.3], 60),
    "one cycle in three phases": lambda s, o: s.OneCycleLR(
        o, 0.1, epochs=6, steps_per_epoch=10, three_phase=True, anneal_strategy="linear"
    ),
    "one cycle without momentum": lambda s, o: s.OneCycleLR(o, 0.1, 51, cycle_momentum=False),
    "sequential": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, 1.0, 5), s.CosineAnnealingLR(o, 20), s.ExponentialLR(o, 0.9)], [5, 25]
    ),
    "chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 4), s.ExponentialLR(o, 0.95)]),
    "chained in a sequence": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 4), s.ExponentialLR(o, 0.95)], [10]
    ),
}


def _optimizers(adam: bool = False) -> tuple[Any, Any]:
    torch = pytest.importorskip("torch")
    result = []
    for library, optim in ((tensor, nn.optim), (torch, torch.optim)):
        groups = [
            {"params": [library.zeros(2, requires_grad=True)]},
            {"params": [library.zeros(2, requires_grad=True)], "lr": 0.02},
        ]
        kind = optim.Adam if adam else optim.SGD
        result.append(kind(groups, lr=0.05) if adam else kind(groups, lr=0.05, momentum=0.9))
    return result[0], result[1]


def _rates(optimizer: Any, scheduler: Any) -> list[Any]:
    result = [*scheduler.get_last_lr(), *(group["lr"] for group in optimizer.param_groups)]
    for name in ("momentum", "initial_lr"):
        result += [group[name] for group in optimizer.param_groups if name in group]
    result += [group["betas"][0] for group in optimizer.param_groups if "betas" in group]
    return result


@pytest.mark.parity
@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("adam", [False, True])
@pytest.mark.filterwarnings("ignore:.*Overflow|.*lr_scheduler")
def test_fifty_epochs(name: str, adam: bool) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = _optimizers(adam)
    a, b = SCHEDULES[name](lr_scheduler, ours), SCHEDULES[name](torch.optim.lr_scheduler, theirs)
    for _ in range(EPOCHS):
        assert _rates(ours, a) == pytest.approx(_rates(theirs, b), rel=1e-11, abs=1e-15)
        ours.step()
        theirs.step()
        a.step()
        b.step()
    ignored = {"_scale_fn_ref"}
    assert set(a.state_dict()) == set(b.state_dict()) - ignored


@pytest.mark.parity
@pytest.mark.parametrize("name", SCHEDULES)
def test_goes_on_from_state_dicts(name: str) -> None:
    first, _ = _optimizers()
    second, _ = _optimizers()
    a, b = SCHEDULES[name](lr_scheduler, first), SCHEDULES[name](lr_scheduler, second)
    for _ in range(9):
        first.step()
        a.step()
    second.load_state_dict(first.state_dict())
    b.load_state_dict(copy.deepcopy(a.state_dict()))
    for _ in range(20):
        for optimizer, scheduler in ((first, a), (second, b)):
            optimizer.step()
            scheduler.step()
        assert _rates(first, a) == _rates(second, b)


@pytest.mark.parity
@pytest.mark.parametrize(
    "name", ["step", "multi-step", "constant", "linear", "exponential", "polynomial", "cosine"]
)
@pytest.mark.filterwarnings("ignore:.*epoch parameter", "ignore:.*lr_scheduler")
def test_a_given_epoch(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = _optimizers()
    a, b = SCHEDULES[name](lr_scheduler, ours), SCHEDULES[name](torch.optim.lr_scheduler, theirs)
    for epoch in (3, 10, 2, 25):
        a.step(epoch)
        b.step(epoch)
        assert _rates(ours, a) == pytest.approx(_rates(theirs, b), rel=1e-12)


@pytest.mark.parity
def test_a_fraction_of_an_epoch() -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = _optimizers()
    a = lr_scheduler.CosineAnnealingWarmRestarts(ours, 4, 2)
    b = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(theirs, 4, 2)
    for epoch in (0.25, 3.5, 4.0, 11.5, 13.25, 30):
        a.step(epoch)
        b.step(epoch)
        assert a.get_last_lr() == pytest.approx(b.get_last_lr(), rel=1e-12)


@pytest.mark.parity
def test_resumed_at_an_epoch() -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = _optimizers()
    for optimizer in (ours, theirs):
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"]
    a = lr_scheduler.CosineAnnealingLR(ours, 10, last_epoch=4)
    b = torch.optim.lr_scheduler.CosineAnnealingLR(theirs, 10, last_epoch=4)
    for _ in range(5):
        assert a.get_last_lr() == pytest.approx(b.get_last_lr(), rel=1e-12)
        for each in (ours, theirs, a, b):
            each.step()
    with pytest.raises(KeyError, match="initial_lr"):
        lr_scheduler.StepLR(_optimizers()[0], 3, last_epoch=4)


@pytest.mark.parity
@pytest.mark.parametrize(
    "options",
    [
        {"patience": 2},
        {"mode": "max", "patience": 1, "cooldown": 2, "threshold": 0.1, "factor": 0.5},
        {"patience": 0, "threshold_mode": "abs", "threshold": 0.3, "min_lr": [1e-3, 1e-4]},
        {"mode": "max", "patience": 3, "threshold_mode": "abs", "eps": 1e-3},
    ],
    ids=str,
)
def test_plateau(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = _optimizers()
    a = lr_scheduler.ReduceLROnPlateau(ours, **options)
    b = torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, **options)
    for epoch in range(EPOCHS):
        metric = 3.0 / (1 + epoch % 13) + 0.2 * (epoch % 4)
        a.step(metric)
        b.step(metric)
        assert _rates(ours, a) == pytest.approx(_rates(theirs, b), rel=1e-12)
        assert a.state_dict() == b.state_dict()


def test_rates_that_are_tensors() -> None:
    rate = tensor.tensor(0.5)
    optimizer = nn.optim.SGD([tensor.zeros(2, requires_grad=True)], lr=rate)
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    last = scheduler.get_last_lr()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is rate
    assert (rate.item(), last[0].item(), scheduler.get_last_lr()[0].item()) == (0.25, 0.5, 0.25)


@pytest.mark.parity
def test_warnings() -> None:
    optimizer, _ = _optimizers()
    scheduler = lr_scheduler.StepLR(optimizer, 3)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        scheduler.step()
    with pytest.warns(UserWarning, match="get_last_lr"):
        scheduler.get_lr()
    with pytest.warns(UserWarning, match="epoch parameter"):
        scheduler.step(3)
    optimizer, _ = _optimizers()
    scheduler = lr_scheduler.StepLR(optimizer, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
        scheduler.step()


@pytest.mark.parity
@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda s, o, p: s.StepLR(3, 1), TypeError),
        (lambda s, o, p: s.LambdaLR(o, [abs]), ValueError),
        (lambda s, o, p: s.MultiplicativeLR(o, 3), TypeError),
        (lambda s, o, p: s.ConstantLR(o, 2.0), ValueError),
        (lambda s, o, p: s.LinearLR(o, 0.0), ValueError),
        (lambda s, o, p: s.LinearLR(o, 0.5, 2.0), ValueError),
        (lambda s, o, p: s.CosineAnnealingWarmRestarts(o, 0), ValueError),
        (lambda s, o, p: s.CosineAnnealingWarmRestarts(o, 2, 0), ValueError),
        (lambda s, o, p: s.CyclicLR(o, [0.1], 0.2), ValueError),
        (lambda s, o, p: s.CyclicLR(o, 0.1, 0.2, mode="round"), ValueError),
        (lambda s, o, p: s.CyclicLR(p, 0.1, 0.2), ValueError),
        (lambda s, o, p: s.OneCycleLR(o, 0.1), ValueError),
        (lambda s, o, p: s.OneCycleLR(o, 0.1, 0), ValueError),
        (lambda s, o, p: s.OneCycleLR(o, 0.1, 10, pct_start=2.0), ValueError),
        (lambda s, o, p: s.OneCycleLR(o, 0.1, 10, anneal_strategy="none"), ValueError),
        (lambda s, o, p: s.ReduceLROnPlateau(o, factor=1.0), ValueError),
        (lambda s, o, p: s.ReduceLROnPlateau(o, "less"), ValueError),
        (lambda s, o, p: s.ReduceLROnPlateau(o, min_lr=[1.0]), ValueError),
        (lambda s, o, p: s.SequentialLR(o, [], []), ValueError),
        (lambda s, o, p: s.SequentialLR(o, [s.StepLR(o, 1)], [3]), ValueError),
        (lambda s, o, p: s.SequentialLR(o, [s.StepLR(p, 1)], []), ValueError),
        (lambda s, o, p: s.ChainedScheduler([s.ReduceLROnPlateau(o)]), ValueError),
        (lambda s, o, p: s.ChainedScheduler([3]), (TypeError, AttributeError)),
    ],
)
def test_mistakes(make: Any, error: Any) -> None:
    torch = pytest.importorskip("torch")
    for library, optim in ((tensor, nn.optim), (torch, torch.optim)):
        groups = [{"params": [library.zeros(2, requires_grad=True)]} for _ in range(2)]
        others = [library.zeros(2, requires_grad=True)]
        with pytest.raises(error):
            make(optim.lr_scheduler, optim.SGD(groups), optim.Adagrad(others))


@pytest.mark.parity
def test_stepping_too_far() -> None:
    optimizer, _ = _optimizers()
    scheduler = lr_scheduler.OneCycleLR(optimizer, 0.1, 3)
    optimizer.step()
    for _ in range(3):
        scheduler.step()
    with pytest.raises(ValueError, match="Tried to step 4 times"):
        scheduler.step()


@pytest.mark.parity
def test_a_schedule_of_the_users() -> None:
    class Halving(lr_scheduler._LRScheduler):
        def get_lr(self) -> list[float]:
            return [rate / 2**self.last_epoch for rate in self.base_lrs]

    optimizer, _ = _optimizers()
    scheduler = Halving(optimizer)
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    assert scheduler.get_last_lr() == [0.05 / 8, 0.02 / 8]
