"""Random numbers are work of the current stream, and do not depend on it."""

from __future__ import annotations

import pytest

import drv
import tensor
from tensor import cuda

pytestmark = pytest.mark.simulator_only

SCHEDULES = [
    {"schedule": "eager"},
    {"schedule": "lazy"},
    *({"schedule": "random", "seed": seed} for seed in range(4)),
]


def expected() -> list[object]:
    tensor.manual_seed(21)
    p = tensor.rand(64)
    return [
        p.tolist(), tensor.randn(64).tolist(), tensor.bernoulli(p).tolist(),
        tensor.normal(p, p).tolist(), tensor.randperm(64).tolist(), tensor.randint(9, (64,)).tolist(),
    ]  # fmt: skip


@pytest.mark.parametrize("options", SCHEDULES, ids=str)
def test_side_streams_with_waits(options: dict[str, object]) -> None:
    drv.simulator.install(check="race", **options)
    needed = expected()
    first, second = cuda.Stream(), cuda.Stream()
    with cuda.stream(first):
        p = tensor.rand(64, device="cuda")
        z = tensor.randn(64, device="cuda")
    second.wait_stream(first)
    with cuda.stream(second):
        drawn = [p, z, tensor.bernoulli(p), tensor.normal(p, p), tensor.randperm(64, device="cuda")]
        drawn.append(tensor.randint(9, (64,), device="cuda"))
    cuda.current_stream().wait_stream(second)
    assert [each.tolist() for each in drawn] == needed
    for each in (p, z):
        each.record_stream(second)


@pytest.mark.parametrize("fill", ["normal_", "bernoulli_", "random_"])
def test_without_the_wait_it_is_a_race(fill: str) -> None:
    drv.simulator.install(schedule="lazy", check="race")
    x = tensor.zeros(64, device="cuda")
    cuda.synchronize()
    with cuda.stream(cuda.Stream()):
        getattr(x, fill)()
    with pytest.raises(drv.DataRaceError):
        x.clone()
        cuda.synchronize()


@pytest.mark.parametrize("options", SCHEDULES[1:], ids=str)
def test_pinned_memory_of_permutations_is_not_reused_too_early(options: dict[str, object]) -> None:
    drv.simulator.install(check="race", **options)
    tensor.manual_seed(3)
    expected = [tensor.randperm(50).tolist() for _ in range(8)]
    result = [tensor.randperm(50, device="cuda") for _ in range(8)]
    assert [each.tolist() for each in result] == expected


def test_the_host_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    drv.simulator.install(schedule="lazy")
    x = tensor.empty(64, device="cuda")

    def wait(*_: object) -> None:
        raise AssertionError("the host waited")

    with monkeypatch.context() as patched:
        for kind in (drv.Stream, drv.Device, drv.Event):
            patched.setattr(kind, "synchronize", wait)
        for fill in (x.normal_, x.uniform_, x.bernoulli_, x.random_, x.exponential_, x.cauchy_):
            fill()
        p = tensor.rand(64, device="cuda")
        result = [tensor.bernoulli(p), tensor.normal(p, 0.5), tensor.randperm(64, device="cuda")]
        x.bernoulli_(tensor.tensor(0.5))
        with pytest.raises(AssertionError, match="the host waited"):
            x.tolist()
    assert sorted(result[2].tolist()) == list(range(64))
