"""What ``tensor.cuda`` says of devices and modes, and names of spans for profilers."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import nn
import tensor
from tensor.cuda import monitoring, nvtx

if TYPE_CHECKING:
    from collections.abc import Iterator

    import drv


def test_architectures_of_the_devices(device: drv.Device) -> None:
    major, minor = tensor.cuda.get_device_capability()
    assert f"sm_{major}{minor}" in tensor.cuda.get_arch_list()


def test_no_architectures_without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring.drv, "is_available", lambda: False)
    assert tensor.cuda.get_arch_list() == []


def test_small_answers() -> None:
    assert tensor.cuda.get_allocator_backend() == "native"
    tensor.cuda.ipc_collect()
    assert not tensor.cuda.is_current_stream_capturing()


@pytest.fixture
def _default_mode() -> Iterator[None]:
    yield
    tensor.cuda.set_sync_debug_mode("default")


@pytest.mark.usefixtures("_default_mode")
def test_modes_of_synchronizing() -> None:
    for mode, level in ((0, 0), ("warn", 1), (2, 2), ("error", 2), (1, 1), ("default", 0)):
        tensor.cuda.set_sync_debug_mode(mode)
        assert tensor.cuda.get_sync_debug_mode() == level
    for mode in (3, "loud"):
        with pytest.raises(RuntimeError, match="expected one of `default`, `warn`, `error`"):
            tensor.cuda.set_sync_debug_mode(mode)
    assert tensor.cuda.get_sync_debug_mode() == 0


#: What makes the host wait for the device, of a tensor there.
WAITING = {
    "item": lambda x: x[0].item(),
    "cpu": lambda x: x.cpu(),
    "tolist": lambda x: x.tolist(),
    "if": lambda x: bool(x.sum()),
    "nonzero": lambda x: x.nonzero(),
    "upload": lambda x: x.copy_(tensor.ones(2)),
    "construction": lambda x: tensor.tensor([1.0, 2.0], device="cuda"),
    "into pageable memory": lambda x: tensor.empty(2).copy_(x, non_blocking=True),
    "stream": lambda x: tensor.cuda.current_stream().synchronize(),
}


@pytest.mark.usefixtures("_default_mode")
@pytest.mark.parametrize("name", WAITING)
def test_what_waits_for_the_device_warns_or_fails(name: str, device: drv.Device) -> None:
    x = tensor.tensor([0.0, 2.0], device="cuda")
    tensor.cuda.set_sync_debug_mode("warn")
    with pytest.warns(UserWarning, match="called a synchronizing CUDA operation") as caught:
        WAITING[name](x)
    assert {each.filename for each in caught} == {__file__}
    tensor.cuda.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
        WAITING[name](x)
    tensor.cuda.set_sync_debug_mode("default")
    # What was refused was not begun.
    assert x.tolist() == ([1.0, 1.0] if name == "upload" else [0.0, 2.0])


@pytest.mark.usefixtures("_default_mode")
def test_what_does_not_wait_passes(device: drv.Device) -> None:
    pinned = tensor.ones(2).pin_memory()
    linear = nn.Linear(2, 2, device="cuda")
    optimizer = nn.optim.AdamW(linear.parameters())
    scheduler = nn.optim.lr_scheduler.StepLR(optimizer, 1)
    tensor.cuda.set_sync_debug_mode("error")
    x = pinned.to("cuda", non_blocking=True)
    for _ in range(2):
        loss = nn.functional.cross_entropy(
            linear(x)[None], tensor.zeros(1, device="cuda", dtype=tensor.int64)
        )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(linear.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
    pinned.copy_(x, non_blocking=True)
    event = tensor.cuda.Event()
    event.record()
    event.synchronize()
    tensor.cuda.synchronize()
    tensor.fft.fft(x)
    x.sort()
    x.cumsum(0)


@pytest.mark.simulator_only
def test_simulated_devices_have_no_load(device: drv.Device) -> None:
    with pytest.raises(RuntimeError, match=r"cuda.utilization\(\): a simulated device has no load"):
        tensor.cuda.utilization()
    with pytest.raises(RuntimeError, match=r"cuda.memory_usage\(\): a simulated device"):
        tensor.cuda.memory_usage(0)


class _Nvml:
    """NVIDIA's management library for one device."""

    def __init__(self) -> None:
        self.bus_ids: list[str] = []

    def init_v2(self) -> None:
        pass

    def device_get_handle_by_pci_bus_id_v2(self, bus_id: str) -> int:
        self.bus_ids.append(bus_id)
        return 7

    def device_get_utilization_rates(self, handle: int) -> Any:
        assert handle == 7
        return SimpleNamespace(gpu=40, memory=12)


@pytest.fixture
def _gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    native = SimpleNamespace(
        name="a GPU",
        runtime=SimpleNamespace(simulated=False),
        properties=SimpleNamespace(pci_domain_id=0, pci_bus_id=0x1A, pci_device_id=0),
    )
    monkeypatch.setattr(monitoring, "existing_device", lambda device: native)


@pytest.mark.usefixtures("_gpu")
def test_load_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    library = _Nvml()
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvml", library)
    assert tensor.cuda.utilization() == 40
    assert tensor.cuda.memory_usage(0) == 12
    assert library.bus_ids == ["00000000:1a:00.0"] * 2


@pytest.mark.usefixtures("_gpu")
def test_load_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvml", None)
    with pytest.raises(RuntimeError, match=r"\(NVML\) does not answer for a GPU"):
        tensor.cuda.utilization()


class _Library:
    """The package ``nvtx``, which notes what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def push_range(self, message: str) -> None:
        self.calls.append(("push", message))

    def pop_range(self) -> None:
        self.calls.append(("pop", None))

    def start_range(self, message: str) -> str:
        self.calls.append(("start", message))
        return f"id of {message}"

    def end_range(self, range_id: str) -> None:
        self.calls.append(("end", range_id))

    def mark(self, message: str) -> None:
        self.calls.append(("mark", message))


@pytest.fixture(params=[None, _Library])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Library | None]:
    made = None if request.param is None else request.param()
    monkeypatch.setitem(sys.modules, "nvtx", made)
    nvtx._library.cache_clear()
    yield made
    nvtx._library.cache_clear()


def test_spans(library: _Library | None) -> None:
    assert nvtx.range_push("outer") == 0
    with nvtx.range("step {} of {n}", 3, n=4):
        assert nvtx.range_push("inner") == 2
        assert nvtx.range_pop() == 2
    assert nvtx.range_pop() == 0
    assert nvtx.range_pop() == -1
    number = nvtx.range_start("across threads")
    assert nvtx.range_start("another") != number
    nvtx.range_end(number)
    nvtx.range_end(number)
    nvtx.mark("now")
    if library is not None:
        assert library.calls == [
            ("push", "outer"),
            ("push", "step 3 of 4"),
            ("push", "inner"),
            ("pop", None),
            ("pop", None),
            ("pop", None),
            ("start", "across threads"),
            ("start", "another"),
            ("end", "id of across threads"),
            ("mark", "now"),
        ]


def test_a_span_ends_when_its_block_fails(library: _Library | None) -> None:
    with pytest.raises(ValueError, match="no"), nvtx.range("block"):
        raise ValueError("no")
    assert nvtx.range_pop() == -1
