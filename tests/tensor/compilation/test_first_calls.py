"""First calls that set something up, are made before parameters have shapes, or while another thread records one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import nn
import tensor
from tensor.distributions import Normal

if TYPE_CHECKING:
    import drv


class _Masked(nn.Module):
    """Makes its mask, and a table for each length, when they are needed."""

    def __init__(self) -> None:
        super().__init__()
        self.mask: Any = None
        self.tables: dict[int, Any] = {}

    def forward(self, x: Any) -> Any:
        length = len(x)
        if self.mask is None or len(self.mask) < length:
            self.mask = tensor.ones(length, length, device=x.device).tril()
        if length not in self.tables:
            self.tables[length] = tensor.arange(float(length), device=x.device)
        return x @ self.mask[:length, :length] + self.tables[length]


def test_what_is_made_once(device: drv.Device) -> None:
    """The call that makes it runs as it is, without a warning, and the next one of its like is recorded."""
    model, plain = tensor.compile(_Masked(), fullgraph=True), _Masked()
    for length in (3, 3, 3, 2, 2, 4, 4, 4):
        x = tensor.randn(length, length, device="cuda")
        tensor.testing.assert_close(model(x), plain(x))
    assert vars(model)["forward"].programs == 3


def test_what_is_made_anew_each_time(device: drv.Device) -> None:
    seen: dict[int, int] = {}

    def function(x: Any) -> Any:
        seen[len(seen)] = 1
        return x * len(seen)

    compiled, x = tensor.compile(function), tensor.ones(2, device="cuda")
    assert compiled(x).tolist() == [1.0] * 2
    with pytest.warns(UserWarning, match="it changes what it reads: a container has 2 elements instead of 1"):
        assert compiled(x).tolist() == [2.0] * 2
    assert compiled(x).tolist() == [3.0] * 2


def test_lazy_modules(device: drv.Device) -> None:
    model = tensor.compile(nn.Sequential(nn.LazyLinear(4), nn.ReLU()).cuda(), fullgraph=True)
    x = tensor.ones(2, 3, device="cuda")
    results = [model(x) for _ in range(3)]
    assert vars(model)["forward"].programs == 1
    assert results[0].equal(results[1]) and results[0].equal(results[2])


#: Which function has begun, and which has ended.
_PROGRESS = [False] * 3


def test_two_threads_at_once(device: drv.Device) -> None:
    """The second is not recorded, and what it computes is no part of the first one's program."""
    _PROGRESS[:] = [False] * 3
    x = tensor.ones(3, device="cuda")
    plans = x._layout.device_state.plans

    def first(x: Any) -> Any:
        y = x * 2
        _PROGRESS[0] = True
        while not _PROGRESS[1]:
            pass
        return y + 1

    def second(x: Any) -> Any:
        y = x * 3
        _PROGRESS[1] = True
        while not _PROGRESS[2]:
            pass
        return y + 1

    results: dict[str, Any] = {}
    compiled = [tensor.compile(each) for each in (first, second)]

    def run_first() -> None:
        with pytest.warns(UserWarning, match="it changes what it reads"):
            results["first"] = compiled[0](x)
        _PROGRESS[2] = True

    thread = threading.Thread(target=run_first)
    thread.start()
    while not _PROGRESS[0]:
        pass
    results["second"] = compiled[1](x)
    thread.join()
    assert [results[name].tolist() for name in ("first", "second")] == [[3.0] * 3, [4.0] * 3]
    assert x._layout.device_state.plans is plans
    results["second"] = compiled[1](x * 2)
    assert results["second"].tolist() == [7.0] * 3
    assert compiled[1].programs == 1


@pytest.mark.parametrize("device_type", ["cuda", "cpu"])
def test_a_thread_that_trains_while_another_one_records(device: drv.Device, device_type: str) -> None:
    """Its optimizer and its distributions do what they do by themselves, and are no part of the other one's program."""
    _PROGRESS[:] = [False] * 3
    x = tensor.ones(3, device=device_type)

    def slow(x: Any) -> Any:
        y = x * 2
        _PROGRESS[0] = True
        while not _PROGRESS[1]:
            pass
        return y + 1

    compiled = tensor.compile(slow)
    results: list[Any] = []

    def record() -> None:
        with pytest.warns(UserWarning, match="it changes what it reads"):
            results.append(compiled(x))

    thread = threading.Thread(target=record)
    thread.start()
    try:
        while not _PROGRESS[0]:
            pass
        parameter = nn.Parameter(tensor.ones(2, device=device_type))
        optimizer = nn.optim.SGD([parameter], lr=0.5)
        scaler = tensor.amp.GradScaler(device_type, init_scale=2.0)
        scaler.scale(parameter.sum()).backward()
        scaler.step(optimizer)
        assert parameter.tolist() == [0.5, 0.5]
        optimizer.step()
        assert parameter.tolist() == [0.0, 0.0]
        optimizer.zero_grad()
        assert parameter.grad is None
        with pytest.raises(ValueError, match="the constraint"):
            Normal(parameter, parameter - 1)
    finally:
        _PROGRESS[1] = True
        thread.join()
    assert results[0].tolist() == [3.0] * 3
