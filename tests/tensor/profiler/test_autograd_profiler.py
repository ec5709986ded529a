"""``tensor.autograd.profiler``: the older interface of profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tensor
from tensor.autograd import profiler
from tests.pytorch import torch

if TYPE_CHECKING:
    from pathlib import Path

    import drv


def test_a_block_is_profiled(tmp_path: Path) -> None:
    with profiler.profile(record_shapes=True) as run, profiler.record_function("twice"):
        tensor.ones(3).mul(2)
        tensor.ones(4).mul(2)
    counts = {each.key: each.count for each in run.key_averages()}
    assert (counts["twice"], counts["aten::mul"]) == (1, 2)
    by_shape = run.key_averages(group_by_input_shape=True)
    assert [each.count for each in by_shape if each.key == "aten::mul"] == [1, 1]
    assert run.self_cpu_time_total > 0
    assert run.total_average().count == len(run.function_events)
    assert "aten::mul" in run.table(sort_by="cpu_time_total")
    assert "aten::mul" in str(run)
    run.export_chrome_trace(str(tmp_path / "trace.json"))
    assert "aten::mul" in (tmp_path / "trace.json").read_text()


def test_devices_are_looked_at_when_asked(device: drv.Device) -> None:
    with profiler.profile(use_cuda=True) as run:
        tensor.ones(3, device="cuda").mul(2)
        tensor.cuda.synchronize()
    assert sum(each.self_device_time_total for each in run.key_averages()) > 0


def test_a_block_that_is_not_profiled() -> None:
    with profiler.profile(enabled=False) as run:
        tensor.ones(3)
    assert "unfinished" in str(run)
    with pytest.raises(RuntimeError, match="didn't finish running"):
        run.key_averages()


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="use_device is 'tpu'"):
        profiler.profile(use_device="tpu")
    with pytest.raises(ValueError, match="activities is empty"):
        profiler.profile(use_cpu=False)
    run = profiler.profile()
    with run:
        pass
    with pytest.raises(RuntimeError, match="not reentrant"), run:
        pass


@pytest.mark.parity
def test_counts_are_pytorchs() -> None:
    counts = []
    for library in (tensor, torch):
        with library.autograd.profiler.profile() as run, library.autograd.profiler.record_function("block"):
            x = library.ones(2, requires_grad=True)
            (x * 2).sum().backward()
        averages = {each.key: each.count for each in run.key_averages()}
        counts.append([averages[name] for name in ("block", "aten::mul", "aten::sum")])
        with pytest.raises(RuntimeError, match="not reentrant"), run:
            pass
    # PyTorch counts the product of the backward pass too, which is no public operation here.
    assert counts[0][::2] == counts[1][::2]
