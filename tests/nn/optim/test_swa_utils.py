"""Averages of models: by their formulas, and as PyTorch's; statistics of batches; the schedule to a constant rate."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import drv
import nn
import nn.optim
import tensor
from nn.optim import swa_utils
from tests.tensor.driver_calls import counted

_MAKERS: dict[str, Any] = {
    "default": lambda swa: {},
    "swa": lambda swa: {"avg_fn": swa.get_swa_avg_fn()},
    "swa of many": lambda swa: {"multi_avg_fn": swa.get_swa_multi_avg_fn()},
    "ema": lambda swa: {"avg_fn": swa.get_ema_avg_fn(0.75)},
    "ema of many": lambda swa: {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.75)},
    "short ema of many": lambda swa: {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.25)},
    "own": lambda swa: {"avg_fn": lambda average, value, n: average + (value - average) / (n + 2)},
}
#: PyTorch refuses to average integers, such as the number of batches, by its function for many.
_CASES = [(name, flag) for name in _MAKERS for flag in (False, True) if (name, flag) != ("swa of many", True)]


def _model(lib: Any = nn) -> Any:
    return lib.Sequential(lib.Linear(3, 4), lib.BatchNorm1d(4), lib.Linear(4, 2))


def _set(model: Any, arrays: list[Any]) -> None:
    """Put arrays into the parameters, and others made of them into the buffers."""
    with tensor.no_grad():
        for each, array in zip(model.parameters(), arrays, strict=True):
            each.data.copy_(each.new_tensor(array.tolist()))
        for number, each in enumerate(model.buffers()):
            each.fill_(int(10 * arrays[number].ravel()[0]))


def _arrays(random: Any) -> list[Any]:
    return [random.standard_normal(tuple(each.shape)) for each in _model().parameters()]


@pytest.mark.parity
@pytest.mark.parametrize(("name", "use_buffers"), _CASES)
@pytest.mark.sampled(3)
def test_averages_as_in_pytorch(device_name: str, name: str, use_buffers: bool) -> None:
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(0)
    steps = [_arrays(random) for _ in range(4)]
    models = _model().to(device_name), _model(torch.nn)
    averaged = [
        lib.AveragedModel(model, use_buffers=use_buffers, **_MAKERS[name](lib))
        for lib, model in zip((swa_utils, torch.optim.swa_utils), models, strict=True)
    ]
    for arrays in steps:
        for model, average in zip(models, averaged, strict=True):
            _set(model, arrays)
            average.update_parameters(model)
    ours, theirs = (each.state_dict() for each in averaged)
    assert list(ours) == list(theirs)
    for key, value in theirs.items():
        assert str(ours[key].dtype).split(".")[1] == str(value.dtype).split(".")[1]
        np.testing.assert_allclose(ours[key].tolist(), value.tolist(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("decay", [None, 0.75, 0.25, 0.0, 1.0])
def test_averages_of_many(device_name: str, dtype: str, decay: float | None) -> None:
    kind = getattr(tensor, dtype)
    random = np.random.default_rng(0)
    shapes = ((3, 5), (), (0,), (4100,))

    def arrays() -> list[Any]:
        made = [random.standard_normal(shape) for shape in shapes]
        return [each + 1j * random.standard_normal(each.shape) for each in made] if kind.is_complex else made

    before, after = arrays(), arrays()
    averages = [tensor.tensor(each, dtype=kind, device=device_name) for each in before]
    values = [tensor.tensor(each, dtype=kind, device=device_name) for each in after]
    if decay is None:
        swa_utils.get_swa_multi_avg_fn()(averages, values, 3)
        weight = 0.25
    else:
        swa_utils.get_ema_multi_avg_fn(decay)(averages, values, 3)
        weight = 1 - decay
    tolerance = {"float16": 5e-3, "float64": 1e-13}.get(dtype, 1e-5)
    for result, a, b in zip(averages, before, after, strict=True):
        expected = np.asarray(a + weight * (b - a))
        np.testing.assert_allclose(
            result.cpu().numpy().astype(expected.dtype), expected, rtol=tolerance, atol=tolerance
        )
    if decay == 0.0:
        assert [each.tolist() for each in averages] == [each.tolist() for each in values]


def test_one_model_and_its_average(device_name: str) -> None:
    model = nn.Linear(2, 1, bias=False).to(device_name)
    average = swa_utils.AveragedModel(model)
    x = tensor.ones(1, 2, device=device_name)
    for number in (1.0, 2.0, 6.0):
        with tensor.no_grad():
            model.weight.fill_(number)
        average.update_parameters(model)
    assert average.n_averaged.item() == 3
    assert average(x).tolist() == [[pytest.approx(6.0)]]
    assert model(x).tolist() == [[12.0]]
    assert all(each.grad_fn is None and each.is_leaf for each in average.parameters())
    other = swa_utils.AveragedModel(model)
    other.load_state_dict(average.state_dict())
    other.update_parameters(model)
    assert other.module.weight.tolist() == [[pytest.approx(3.75)] * 2]
    assert average.module.weight.tolist() == [[pytest.approx(3.0)] * 2]


def test_the_average_on_another_device(device_name: str) -> None:
    model = _model().to(device_name)
    average = swa_utils.AveragedModel(model, device="cpu", use_buffers=True)
    for _ in range(2):
        average.update_parameters(model)
    assert {each.device.type for each in average.state_dict().values()} == {"cpu"}
    for a, b in zip(average.module.parameters(), model.parameters(), strict=True):
        np.testing.assert_allclose(a.tolist(), b.tolist(), rtol=1e-6)


def test_custom_functions_get_one_dtype_and_device_at_a_time(device_name: str) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double(), nn.Linear(2, 2)).to(device_name)
    calls = []

    def keep_greater(averages: Any, values: Any, number: Any) -> None:
        calls.append(
            ({each.dtype for each in (*averages, *values)}, len(averages), number.item(), number.device.type)
        )
        for average, value in zip(averages, values, strict=True):
            average.copy_(tensor.maximum(average, value))

    average = swa_utils.AveragedModel(model, multi_avg_fn=keep_greater)
    average.update_parameters(model)
    with tensor.no_grad():
        for each in model.parameters():
            each.add_(1)
    average.update_parameters(model)
    assert calls == [({tensor.float32}, 4, 1, device_name), ({tensor.float64}, 2, 1, device_name)]
    assert all((a == b).all() for a, b in zip(average.parameters(), model.parameters(), strict=True))


def test_mistakes_of_averages() -> None:
    model = nn.Linear(2, 1)
    swa, ema = swa_utils.get_swa_avg_fn(), swa_utils.get_ema_multi_avg_fn()
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
        swa_utils.AveragedModel(model, avg_fn=swa, multi_avg_fn=ema)
    for function in (swa_utils.get_ema_avg_fn, swa_utils.get_ema_multi_avg_fn):
        for decay in (-0.1, 1.1, float("nan")):
            with pytest.raises(ValueError, match="Invalid decay value"):
                function(decay)
    average = swa_utils.AveragedModel(_model())
    before = [each.tolist() for each in average.parameters()]
    with pytest.raises(ValueError, match="3 buffers, but the model has 0"):
        average.update_parameters(nn.Linear(2, 1))
    assert [each.tolist() for each in average.parameters()] == before
    assert average.n_averaged.item() == 0


@pytest.mark.simulator_only
def test_many_parameters_are_averaged_in_one_launch() -> None:
    drv.simulator.install(check="full")
    averages = [tensor.ones(1 + i % 5, device="cuda") for i in range(50)]
    values = [tensor.zeros(1 + i % 5, device="cuda") for i in range(50)]
    update = swa_utils.get_ema_multi_avg_fn(0.5)
    with counted() as calls:
        update(averages, values, 1)
    assert calls["cuLaunchKernel"] == 1
    assert not calls.blocking()
    assert all((each == 0.5).all() for each in averages)


def test_statistics_of_batches(device_name: str) -> None:
    random = np.random.default_rng(0)
    batches = random.standard_normal((3, 8, 4)).astype(np.float32)
    model = nn.Sequential(nn.BatchNorm1d(4, momentum=0.3), nn.Dropout(0.5)).to(device_name)
    model.eval()
    norm = model[0]
    norm.running_mean.fill_(7)
    loader = [(tensor.tensor(each), None) for each in batches]
    swa_utils.update_bn(loader, model, device=device_name)
    np.testing.assert_allclose(norm.running_mean.tolist(), batches.mean((0, 1)), atol=1e-6)
    np.testing.assert_allclose(norm.running_var.tolist(), batches.var(1, ddof=1).mean(0), rtol=1e-5)
    assert norm.num_batches_tracked.item() == 3
    assert (norm.momentum, model.training, norm.training) == (0.3, False, False)
    swa_utils.update_bn([each.to(device_name) for each, _ in loader], model)
    assert norm.num_batches_tracked.item() == 3


def test_statistics_that_fail_leave_the_momentum() -> None:
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 1)).eval()
    with pytest.raises(RuntimeError):
        swa_utils.update_bn([tensor.ones(2, 4), tensor.ones(2, 5)], model)
    assert (model[0].momentum, model.training) == (0.1, False)
    plain = nn.Linear(4, 1)
    swa_utils.update_bn(iter(lambda: pytest.fail("nothing is to be computed"), None), plain)


SCHEDULES: dict[str, Any] = {
    "cosine": lambda s, o: s.SWALR(o, 0.5),
    "linear": lambda s, o: s.SWALR(o, [0.01, 0.2], anneal_epochs=4, anneal_strategy="linear"),
    "at once": lambda s, o: s.SWALR(o, 0.3, anneal_epochs=0),
}


def _optimizers() -> list[Any]:
    torch = pytest.importorskip("torch")
    return [
        optim.SGD(
            [
                {"params": [lib.zeros(2, requires_grad=True)]},
                {"params": [lib.zeros(1, requires_grad=True)], "lr": 0.02},
            ],
            lr=0.1,
        )
        for lib, optim in ((tensor, nn.optim), (torch, torch.optim))
    ]


@pytest.mark.parity
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_as_in_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = _optimizers()
    pairs = []
    for lib, optimizer in ((nn.optim, ours), (torch.optim, theirs)):
        first = lib.lr_scheduler.ExponentialLR(optimizer, 0.9)
        pairs.append((optimizer, first, SCHEDULES[name](lib.swa_utils, optimizer)))
    for epoch in range(20):
        for optimizer, first, second in pairs:
            optimizer.step()
            (first if epoch < 3 else second).step()
        a, b = ([group["lr"] for group in each.param_groups] for each in (ours, theirs))
        assert a == pytest.approx(b, rel=1e-12)
    a, b = (pair[2].state_dict() for pair in pairs)
    assert list(a) == list(b)
    for key, value in b.items():
        assert a[key] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-12))
    # Both go on from the other's state.
    for (optimizer, _, schedule), state in zip(pairs, (b, a), strict=True):
        schedule.load_state_dict(state)
        optimizer.step()
        schedule.step()
    a, b = ([group["lr"] for group in each.param_groups] for each in (ours, theirs))
    assert a == pytest.approx(b, rel=1e-12)


def test_the_schedule_to_a_constant_rate() -> None:
    optimizer = nn.optim.SGD([tensor.zeros(1, requires_grad=True)], lr=1.0)
    schedule = swa_utils.SWALR(optimizer, swa_lr=0.2, anneal_epochs=4)
    rates = []
    for _ in range(6):
        optimizer.step()
        schedule.step()
        rates.append(schedule.get_last_lr()[0])
    cosine = [(1 - np.cos(np.pi * each / 4)) / 2 for each in range(1, 5)]
    assert rates == pytest.approx([1.0 - 0.8 * each for each in cosine] + [0.2, 0.2])
    with pytest.warns(UserWarning, match="get_last_lr"):
        schedule.get_lr()
    again = nn.optim.SGD([tensor.zeros(1, requires_grad=True)], lr=1.0)
    other = swa_utils.SWALR(again, swa_lr=0.2, anneal_strategy="linear")
    other.load_state_dict(schedule.state_dict())
    assert other.anneal_func(0.25) == pytest.approx(cosine[0])
    assert other.last_epoch == 6


def test_mistakes_of_the_schedule() -> None:
    optimizer = nn.optim.SGD([tensor.zeros(1, requires_grad=True)], lr=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="must be one of 'cos' or 'linear', instead got exp"):
            swa_utils.SWALR(optimizer, 0.1, anneal_strategy="exp")
        for epochs in (-1, 2.5):
            with pytest.raises(ValueError, match="anneal_epochs must be equal or greater than 0"):
                swa_utils.SWALR(optimizer, 0.1, anneal_epochs=epochs)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="swa_lr must have the same length"):
            swa_utils.SWALR(optimizer, [0.1, 0.2])
        with pytest.raises(TypeError, match="not an Optimizer"):
            swa_utils.SWALR(nn.Linear(1, 1), 0.1)  # type: ignore[arg-type]
    assert "swa_lr" not in optimizer.param_groups[0]
