"""Where the tensors of a checkpoint go."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import drv
import nn
import tensor

from .checkpoints import assert_same, through_file


def test_tensors_come_back_on_their_device_or_where_they_are_wanted(tmp_path: Path) -> None:
    drv.simulator.install(devices=2, check="race")
    argument = {
        "cpu": tensor.arange(3),
        "zero": tensor.arange(6.0, device="cuda:0").reshape(2, 3).t(),
        "one": tensor.arange(8, device="cuda:1")[::2],
        "parameter": nn.Parameter(tensor.ones(2, device="cuda:1")),
        "z": tensor.ones(2, device="cuda:1", dtype=tensor.complex128),
    }
    path = tmp_path / "it"
    tensor.save(argument, path)
    expected_on_cpu = {name: each.detach().cpu() for name, each in argument.items()}
    with tensor.cuda.device(1):
        assert_same(tensor.load(path), argument)

    def devices(map_location: Any, **options: Any) -> str:
        result = tensor.load(path, map_location, **options)
        for name, each in result.items():
            assert_same(each.detach().cpu(), expected_on_cpu[name])
            assert each.dim() == 1 or each.stride() == (1, 3)
        return " ".join(str(each.device) for each in result.values())

    at_home = "cpu cuda:0 cuda:1 cuda:1 cuda:1"
    everywhere = {
        None: at_home,
        "cpu": " ".join(["cpu"] * 5),
        "cuda": " ".join(["cuda:0"] * 5),
        "cuda:1": " ".join(["cuda:1"] * 5),
        1: " ".join(["cuda:1"] * 5),
        tensor.device("cuda", 1): " ".join(["cuda:1"] * 5),
    }
    for mmap in (False, True):
        for needed, expected in everywhere.items():
            assert devices(needed, mmap=mmap) == expected
        assert devices({"cuda:1": "cuda:0"}, mmap=mmap) == "cpu cuda:0 cuda:0 cuda:0 cuda:0"
        assert (
            devices({"cuda:1": "cpu", "cpu": tensor.device("cuda:1")}, mmap=mmap)
            == "cuda:1 cuda:0 cpu cpu cpu"
        )
        assert devices(lambda storage, location: storage, mmap=mmap) == everywhere["cpu"]
        assert devices(lambda storage, location: storage.cuda(1), mmap=mmap) == everywhere["cuda:1"]
        assert devices(lambda storage, location: None, mmap=mmap) == at_home
        assert (
            devices(lambda storage, location: storage if location == "cuda:1" else None, mmap=mmap)
            == "cpu cuda:0 cpu cpu cpu"
        )
    with pytest.raises(TypeError, match="must return a storage of the same size, or None, not 'cpu'"):
        tensor.load(path, lambda storage, location: "cpu")
    with pytest.raises(TypeError, match="must be a device, a dict of devices, or a function, not list"):
        tensor.load(path, ["cpu"])
    drv.reset()
    drv.simulator.install()
    with pytest.raises(RuntimeError, match=r"belong on cuda:1, which is not here: .*map_location='cpu'"):
        tensor.load(path)
    assert devices({"cuda:1": "cuda:0"}) == "cpu cuda:0 cuda:0 cuda:0 cuda:0"


def test_what_streams_write_is_saved_when_the_current_one_waits() -> None:
    drv.simulator.install(check="race", schedule="lazy")
    side = tensor.cuda.Stream()
    with tensor.cuda.stream(side):
        argument = tensor.arange(1000, device="cuda") * 2
    tensor.cuda.current_stream().wait_stream(side)
    assert_same(through_file({"a": argument}), {"a": argument})


def test_pinned_tensors_come_back_in_ordinary_memory() -> None:
    drv.simulator.install(check="race")
    argument = tensor.arange(5).pin_memory()
    result = through_file([argument])[0]
    assert not result.is_pinned()
    assert_same(result, argument)


def test_tensors_on_the_cpu_need_no_driver(tmp_path: Path) -> None:
    tensor.save({"a": nn.Parameter(tensor.ones(2))}, tmp_path / "it")
    code = (
        f"import drv, tensor\nprint(type(tensor.load({str(tmp_path / 'it')!r})['a']), drv.is_initialized())"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(tensor.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    # Without nn, nobody knows what a parameter is.
    assert done.stdout.strip() == "<class 'tensor.methods.tensor.Tensor'> False"


def test_nothing_is_held_twice(tmp_path: Path) -> None:
    size = 8 << 20
    argument = [
        tensor.zeros(size // 16),
        tensor.zeros(256, size // 4096).t(),
        tensor.zeros(size // 2, dtype=tensor.uint8),
    ]
    tracemalloc.start()
    try:
        tensor.save(argument, tmp_path / "it")
        # One that lies in another order is stored from a copy.
        assert tracemalloc.get_traced_memory()[1] < size * 0.6
        del argument
        tracemalloc.reset_peak()
        result = tensor.load(tmp_path / "it")
        assert size < tracemalloc.get_traced_memory()[1] < size * 1.6
        del result
        tracemalloc.reset_peak()
        result = tensor.load(tmp_path / "it", mmap=True)
        assert tracemalloc.get_traced_memory()[1] < size * 0.6
        del result
    finally:
        tracemalloc.stop()


class _Sink:
    """A file that only counts, as a socket might be."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, data: bytes) -> int:
        self.size += len(data)
        return len(data)


@pytest.mark.parametrize("size", [8 << 20, pytest.param(2 << 30, marks=pytest.mark.nightly)])
def test_one_tensor_at_a_time_is_in_host_memory(tmp_path: Path, size: int) -> None:
    """What is on a device, or lies in another order, is copied to be written: one after the other, in either format."""
    drv.simulator.install(memory=4 << 30)
    part = size // 8
    argument = {
        str(number): tensor.zeros(part // 4, device="cuda") for number in range(4)
    } | {
        str(number): tensor.zeros(256, part // 1024).t()[:, ::2] for number in range(4, 8)
    }  # fmt: skip
    path = tmp_path / "it"
    tracemalloc.start()
    try:
        for form in ("safetensors", "torch"):
            for target in (path, _Sink()) if form == "safetensors" else (path,):
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                tensor.save(argument, target, format=form)
                # The simulated device copies by way of another buffer.
                assert tracemalloc.get_traced_memory()[1] - before < part * 2.5, (form, target)
            if form == "safetensors":
                assert isinstance(target, _Sink)
                assert target.size == path.stat().st_size
            # On the device and, of a slice, itself; a file of torch.save has the whole storage.
            held = part * (4 + (4 if form == "torch" else 2))
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            result = tensor.load(path)
            assert tracemalloc.get_traced_memory()[1] - before < held + part * 2.5, form
            assert result["0"].device.type == "cuda"
            del result
    finally:
        tracemalloc.stop()
