"""``tensor.accelerator`` says what ``tensor.cuda`` says, and refuses as PyTorch does where there is no device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tensor
from tests.pytorch import torch

if TYPE_CHECKING:
    import drv

#: Functions that need a device, and arguments for them.
NEED_A_DEVICE = [
    ("current_device_index", ()),
    ("current_stream", ()),
    ("empty_cache", ()),
    ("empty_host_cache", ()),
    ("get_device_capability", ()),
    ("get_memory_info", ()),
    ("max_memory_allocated", ()),
    ("memory_allocated", ()),
    ("memory_stats", ()),
    ("reset_peak_memory_stats", ()),
    ("set_device_index", (0,)),
    ("synchronize", ()),
]


@pytest.fixture
def _no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor.cuda, "is_available", lambda: False)
    monkeypatch.setattr(tensor.cuda, "device_count", lambda: 0)


def test_the_device(two_devices: tuple[drv.Device, drv.Device]) -> None:
    accelerator = tensor.accelerator
    assert accelerator.is_available()
    assert accelerator.device_count() == tensor.cuda.device_count()
    assert accelerator.current_accelerator() == tensor.device("cuda")
    assert accelerator.current_accelerator().index is None
    assert accelerator.current_device_index() == 0
    with accelerator.device_index(1):
        assert accelerator.current_device_idx() == 1
        with accelerator.device_index(None):
            assert tensor.cuda.current_device() == 1
    assert accelerator.current_device_index() == 0
    accelerator.set_device_index("cuda:1")
    assert tensor.cuda.current_device() == 1


def test_streams(two_devices: tuple[drv.Device, drv.Device]) -> None:
    stream = tensor.cuda.Stream(1)
    tensor.accelerator.set_stream(stream)
    assert tensor.cuda.current_device() == 1
    assert tensor.accelerator.current_stream() == stream
    assert tensor.accelerator.current_stream(0) == tensor.cuda.default_stream(0)
    x = tensor.ones(4, device="cuda")
    tensor.accelerator.synchronize()
    assert stream.query()
    assert x.tolist() == [1, 1, 1, 1]


def test_memory(device: drv.Device) -> None:
    accelerator = tensor.accelerator
    x = tensor.empty(1 << 20, dtype=tensor.uint8, device="cuda")
    assert accelerator.memory_allocated() == tensor.cuda.memory_allocated() >= x.nbytes
    assert accelerator.memory_reserved(0) == tensor.cuda.memory_reserved()
    assert accelerator.memory_stats() == tensor.cuda.memory_stats()
    del x
    assert accelerator.max_memory_allocated() >= 1 << 20
    accelerator.reset_peak_memory_stats()
    assert accelerator.max_memory_allocated() == accelerator.memory_allocated() < 1 << 20
    accelerator.empty_cache()
    assert accelerator.memory_reserved() == tensor.cuda.memory_reserved() < 1 << 20
    assert accelerator.get_memory_info() == tensor.cuda.mem_get_info()


@pytest.mark.usefixtures("_no_device")
def test_without_a_device() -> None:
    assert not tensor.accelerator.is_available()
    assert tensor.accelerator.device_count() == 0
    assert tensor.accelerator.current_accelerator() is None
    assert tensor.accelerator.current_accelerator(check_available=True) is None


@pytest.mark.parametrize(("name", "arguments"), NEED_A_DEVICE)
@pytest.mark.usefixtures("_no_device")
def test_refusals_without_a_device(name: str, arguments: tuple[object, ...]) -> None:
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
        getattr(tensor.accelerator, name)(*arguments)


@pytest.mark.parity
@pytest.mark.usefixtures("_no_device")
def test_refusals_are_pytorchs() -> None:
    if torch.accelerator.is_available():
        pytest.skip("PyTorch has a device")
    assert torch.accelerator.current_accelerator() is None
    assert set(tensor.accelerator.__all__) <= set(torch.accelerator.__all__)
    for name, arguments in NEED_A_DEVICE:
        for library in (tensor, torch):
            with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
                getattr(library.accelerator, name)(*arguments)
