"""Reductions run while the backward pass does, on the CPU and on devices, without races."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
import nn
import parallel
import tensor
from parallel import DistributedDataParallel
from parallel.ddp.buckets import Bucket
from parallel.ddp_comm_hooks import default_hooks
from tensor import cuda
from tests.parallel.jobs import joined
from tests.parallel.processes import run
from tests.tensor.driver_calls import counted

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.simulator_only


class Layers(nn.Module):
    """Linear layers, each its own bucket where buckets are small."""

    def __init__(self, count: int = 3) -> None:
        super().__init__()
        tensor.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(count))

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        for layer in self.layers:
            x = tensor.tanh(layer(x))
        return x


def batch(rank: int) -> tensor.Tensor:
    return tensor.tensor(np.random.default_rng(rank).standard_normal((4, 4), dtype=np.float32))


def whole(size: int, count: int = 3) -> list[Any]:
    model = Layers(count)
    (sum(model(batch(rank)).sum() for rank in range(size)) / size).backward()
    return [each.grad.numpy() for each in model.parameters()]


def close(found: list[Any], wanted: list[Any], tolerance: float = 1e-5) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def gradients(model: nn.Module) -> list[Any]:
    return [each.grad.cpu().numpy().copy() for each in model.parameters()]


def _events(rank: int, size: int, store: str) -> tuple[list[str], list[Any]]:
    with joined(rank, size, store):
        events: list[str] = []
        futures: list[Any] = []
        model = DistributedDataParallel(Layers(), bucket_cap_mb=1e-6)

        def hook(state: Any, bucket: parallel.GradBucket) -> Any:
            futures.append(default_hooks.allreduce_hook(state, bucket))
            events.append(f"begin {bucket.index()}")
            return futures[-1]

        def before_first(module: Any, gradients: Any) -> None:
            # While layer 0 has no gradients yet, other buckets can be reduced to the end.
            futures[0].wait()
            events.append("first is reduced")

        model.register_comm_hook(None, hook)
        model.module.layers[0].register_full_backward_pre_hook(before_first)
        for turn in range(2):
            model.zero_grad()
            futures.clear()
            events.append(f"turn {turn}")
            model(batch(rank)).sum().backward()
            events.append("end")
    return events, gradients(model)


def test_a_bucket_is_reduced_before_the_pass_ends(tmp_path: Path) -> None:
    results = run(_events, 2, str(tmp_path / "store"))
    assert results[0][0] == results[1][0]
    events = results[0][0]
    begins = [f"begin {number}" for number in range(6)]
    assert [each for each in events if each.startswith("begin")] == begins * 2
    first = events[1 : events.index("end")]
    # Two layers' weights and biases are under way, and one is there.
    assert first == [*begins[:4], "first is reduced", *begins[4:]]
    for _, result in results:
        close(result, whole(2))


# Communication hooks


def _hooks(rank: int, size: int, store: str) -> dict[str, list[Any]]:
    with joined(rank, size, store):
        result = {}
        hooks = {
            "all_reduce": default_hooks.allreduce_hook,
            "fp16": default_hooks.fp16_compress_hook,
            "bf16": default_hooks.bf16_compress_hook,
            "wrapped fp16": default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook),
            "wrapped bf16": default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook),
        }
        for name, hook in hooks.items():
            for view in (False, True):
                model = DistributedDataParallel(Layers(), gradient_as_bucket_view=view)
                model.register_comm_hook(None, hook)
                for _ in range(2):
                    model.zero_grad()
                    model(batch(rank)).sum().backward()
                result[f"{name} {view}"] = gradients(model)

        # A hook that gives a tensor of its own.
        def largest(state: str, bucket: parallel.GradBucket) -> Any:
            assert state == "state"
            mine = bucket.buffer().clone()
            work = parallel.all_reduce(mine, parallel.ReduceOp.MAX, async_op=True)
            assert work is not None
            return work.get_future()

        model = DistributedDataParallel(Layers())
        model.register_comm_hook("state", largest)
        model(batch(rank)).sum().backward()
        result["largest"] = gradients(model)
    return result


def test_communication_hooks(tmp_path: Path) -> None:
    one, other = run(_hooks, 2, str(tmp_path / "store"))
    expected = whole(2)
    for name, result in one.items():
        for a, b in zip(result, other[name], strict=True):
            np.testing.assert_array_equal(a, b)
        if name != "largest":
            close(result, expected, 2e-2 if "bf16" in name else 2e-3 if "fp16" in name else 1e-5)
    exact = one["all_reduce False"]
    assert not all(np.array_equal(a, b) for a, b in zip(one["fp16 False"], exact, strict=True))
    alone = []
    for rank in range(2):
        model = Layers()
        model(batch(rank)).sum().backward()
        alone.append(gradients(model))
    close(one["largest"], [np.maximum(a, b) for a, b in zip(*alone, strict=True)])


# Devices


def _on_devices(rank: int, size: int, store: str, schedule: str) -> dict[str, Any]:
    drv.simulator.install(check="race", schedule=schedule)
    with joined(rank, size, store):
        result: dict[str, Any] = {}
        for name, options in {
            "plain": {"bucket_cap_mb": 1e-4},
            "view": {"bucket_cap_mb": 1e-4, "gradient_as_bucket_view": True},
        }.items():
            model = DistributedDataParallel(Layers().cuda(), device_ids=[0], **options)
            side = cuda.Stream()
            for turn in range(3):
                model.zero_grad()
                # Inputs come from the CPU; one of the passes runs on another stream.
                side.wait_stream(cuda.current_stream())
                with cuda.stream(side if turn == 1 else None):
                    out = model(batch(rank))
                    assert out.device == tensor.device("cuda", 0)
                    out.sum().backward()
                cuda.current_stream().wait_stream(side)
            result[name] = gradients(model)
        # Hooks
        model = DistributedDataParallel(Layers().cuda(), device_ids=[0])
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
        for _ in range(2):
            model.zero_grad()
            model(batch(rank)).sum().backward()
        result["fp16"] = gradients(model)
    result["findings"] = [str(each) for each in drv.simulator.findings()]
    return result


@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
def test_on_simulated_devices(schedule: str, tmp_path: Path) -> None:
    results = run(_on_devices, 2, str(tmp_path / "store"), schedule)
    for result in results:
        assert result["findings"] == []
        close(result["plain"], whole(2), 1e-2)
        close(result["view"], whole(2), 1e-2)
        close(result["fp16"], whole(2), 1e-2)
    for a, b in zip(results[0]["plain"], results[1]["plain"], strict=True):
        np.testing.assert_array_equal(a, b)


class TwoStreams(nn.Module):
    """Layers of one bucket on different streams."""

    def __init__(self) -> None:
        super().__init__()
        tensor.manual_seed(0)
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)
        self.side: Any = None

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        here = cuda.current_stream()
        self.side.wait_stream(here)
        x.record_stream(self.side)
        with cuda.stream(self.side):
            there = tensor.tanh(self.other(x))
        mine = tensor.tanh(self.one(x))
        here.wait_stream(self.side)
        there.record_stream(here)
        return mine * there


def _two_streams(rank: int, size: int, store: str, joins: bool) -> Any:
    drv.simulator.install(check="race", schedule="random")
    with joined(rank, size, store):
        if not joins:
            Bucket._join_streams = lambda self: None  # type: ignore[method-assign]
        module = TwoStreams().cuda()
        module.side = cuda.Stream()
        model = DistributedDataParallel(module)
        findings = []
        try:
            for _ in range(2):
                model.zero_grad()
                model(batch(rank).cuda()).sum().backward()
            result = gradients(model)
        except Exception as error:
            result = []
            findings.append(str(error))
    return result, findings + [str(each) for each in drv.simulator.findings()]


def test_gradients_of_one_bucket_from_two_streams(tmp_path: Path) -> None:
    results = run(_two_streams, 2, str(tmp_path / "store"), True)
    module = TwoStreams()
    out = sum(
        (tensor.tanh(module.one(batch(rank))) * tensor.tanh(module.other(batch(rank)))).sum()
        for rank in range(2)
    )
    (out / 2).backward()
    for result, findings in results:
        assert findings == []
        close(result, gradients(module), 1e-2)


def test_a_bucket_that_does_not_wait_for_its_streams(tmp_path: Path) -> None:
    results = run(_two_streams, 2, str(tmp_path / "store"), False)
    assert any("race" in each.lower() for _, findings in results for each in findings)


def _alternating(rank: int, size: int, store: str, waits: bool) -> Any:
    """Passes on two streams by turns, which share nothing but what is only read, and the buckets."""
    drv.simulator.install(check="race", schedule="random")
    result: list[Any] = []
    with joined(rank, size, store):
        model = DistributedDataParallel(Layers(1).cuda())
        x = batch(rank).cuda()
        sides = [cuda.Stream(), cuda.Stream()]
        for side in sides:
            side.wait_stream(cuda.current_stream())
        read = Bucket.read
        if not waits:
            Bucket.read = lambda self: None  # type: ignore[method-assign]
        try:
            for turn in range(4):
                with cuda.stream(sides[turn % 2]):
                    model(x).sum().backward()
                    result = gradients(model) if turn == 3 else result
                    model.zero_grad()
        except Exception as error:
            return result, [str(error)]
        finally:
            Bucket.read = read  # type: ignore[method-assign]
    return result, [str(each) for each in drv.simulator.findings()]


def test_passes_on_streams_that_do_not_wait_for_each_other(tmp_path: Path) -> None:
    for result, findings in run(_alternating, 2, str(tmp_path / "store"), True):
        assert findings == []
        close(result, whole(2, 1), 1e-2)


def test_a_bucket_that_does_not_wait_for_its_readers(tmp_path: Path) -> None:
    results = run(_alternating, 2, str(tmp_path / "store"), False)
    assert any("race" in each.lower() for _, findings in results for each in findings)


def _launches(rank: int, size: int, store: str) -> list[int]:
    drv.simulator.install()
    result = []
    with counted() as calls, joined(rank, size, store):
        plain = Layers().cuda()
        copied = DistributedDataParallel(Layers().cuda())
        shown = DistributedDataParallel(Layers().cuda(), gradient_as_bucket_view=True)
        x = batch(rank).cuda()
        for model in (plain, copied, shown):
            for _ in range(3):
                model.zero_grad()
                calls.clear()
                model(x).sum().backward()
            result.append(calls["cuLaunchKernel"])
    return result


def test_gradients_of_a_bucket_take_one_launch_each_way(tmp_path: Path) -> None:
    for plain, copied, shown in run(_launches, 2, str(tmp_path / "store")):
        assert copied == plain + 2
        assert shown == plain + 1


class Mixed(nn.Module):
    """Layers on the CPU and on two devices."""

    def __init__(self, places: tuple[str, ...]) -> None:
        super().__init__()
        tensor.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in places)
        for layer, device in zip(self.layers, places, strict=True):
            layer.to(device)

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        for layer in self.layers:
            x = tensor.tanh(layer(x.to(layer.weight.device)))
        return x


def _mixed(rank: int, size: int, store: str) -> tuple[list[Any], list[str]]:
    drv.simulator.install(devices=2, check="race", schedule="random")
    with joined(rank, size, store):
        model = DistributedDataParallel(
            Mixed(("cpu", "cuda:1", "cuda:0", "cpu")), find_unused_parameters=True
        )
        assert len(model.reducer.buckets) == 3
        with pytest.raises(ValueError, match="only work with single-device"):
            DistributedDataParallel(model.module, device_ids=[0])
        with pytest.raises(
            ValueError, match=r"on device_ids\[0\], cuda:1, but its parameter 'weight' is on cuda:0"
        ):
            DistributedDataParallel(nn.Linear(2, 2, device="cuda:0"), device_ids=[1])
        for _ in range(2):
            model.zero_grad()
            model(batch(rank)).sum().backward()
        result = gradients(model)
    return result, [str(each) for each in drv.simulator.findings()]


def test_a_model_on_several_devices(tmp_path: Path) -> None:
    model = Mixed(("cpu",) * 4)
    (sum(model(batch(rank)).sum() for rank in range(2)) / 2).backward()
    for result, findings in run(_mixed, 2, str(tmp_path / "store")):
        assert findings == []
        close(result, gradients(model), 1e-2)


def _devices_of_arguments(rank: int, size: int, store: str) -> None:
    import collections
    import dataclasses

    drv.simulator.install(devices=2)
    pair = collections.namedtuple("pair", "x y")  # noqa: PYI024

    @dataclasses.dataclass
    class Inputs:
        x: tensor.Tensor
        name: str

    class Takes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(tensor.ones(1, device="cuda:1"))
            self.seen: Any = None

        def forward(self, *inputs: Any, **named: Any) -> Any:
            self.seen = inputs, named
            return {"out": [self.weight * 2]}

    with joined(rank, size, store):
        x = tensor.ones(2)
        model = DistributedDataParallel(Takes(), device_ids=["cuda:1"], output_device=0)
        packed = nn.utils.rnn.pack_sequence([x, x])
        out = model(x, [x, (x,)], pair(x, 3), Inputs(x, "name"), packed, 4, last={"key": x})
        assert out["out"][0].device == tensor.device("cuda:0")
        (a, (b, (c,)), d, e, f, four), named = model.module.seen
        there = tensor.device("cuda:1")
        for each in (a, b, c, d.x, e.x, f.data, named["last"]["key"]):
            assert each.device == there
        assert (type(d), d.y, e.name, four) == (pair, 3, "name", 4)
        out["out"][0].sum().backward()
        assert model.module.weight.grad.tolist() == [2]


def test_arguments_go_to_the_device(tmp_path: Path) -> None:
    run(_devices_of_arguments, 1, str(tmp_path / "store"))
