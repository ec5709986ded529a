"""Storages: bytes that tensors share, their size and contents, pinned memory, versions, and dropped runtimes."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import drv
import tensor
from tensor import cuda
from tests.tensor.comparison import assert_same_outcome, outcome

# Sharing


def test_views_share_the_storage(device_name: str) -> None:
    x = tensor.zeros(2, 3, device=device_name)
    memory = x.untyped_storage()
    assert (memory.nbytes(), len(memory), memory.element_size()) == (24, 24, 1)
    assert memory.device == x.device
    assert memory.is_cuda == x.is_cuda
    assert repr(memory) == f"<tensor.Storage of 24 bytes on {x.device}>"
    for view in (
        x[1],
        x.t(),
        x.view(-1),
        x.detach(),
        x.data,
        x.view(tensor.int16),
        x[:0],
        x.as_strided((1,), (1,), 5),
    ):
        assert view.untyped_storage() is memory
        assert view._version == x._version
    assert x[1].data_ptr() == memory.data_ptr() + 12 == x.data_ptr() + 12
    assert x[:0].data_ptr() == 0
    assert x.clone().untyped_storage() is not memory
    assert x.new_empty(0).untyped_storage().data_ptr() == 0
    assert x.is_set_to(x.view(2, 3))
    assert not x.is_set_to(x[:1])


def test_a_view_keeps_the_memory(device_name: str) -> None:
    last = tensor.arange(1000, device=device_name)[999:]
    gc.collect()
    tensor.zeros(1000, dtype=tensor.int64, device=device_name)
    assert last.item() == 999
    assert last.untyped_storage().nbytes() == 8000
    assert last.nbytes == 8


def test_versions_count_writes(device_name: str) -> None:
    x = tensor.zeros(2, 2, device=device_name)
    versions = [x._version]
    for write in (
        lambda: x.add_(1),
        lambda: x[0].fill_(3),
        lambda: x.__setitem__(0, 4),
        lambda: x.__setitem__((0, 0), tensor.tensor(4.0)),
        lambda: x.t().copy_(tensor.ones(2, 2)),
        lambda: x.detach().zero_(),
        lambda: x.data.mul_(2),
        lambda: x.view(tensor.int32).add_(1),
        lambda: x.t_(),
        lambda: x.uniform_(),
    ):
        write()
        versions.append(x._version)
    assert versions == list(range(len(versions)))
    for read in (
        lambda: x + 1,
        lambda: x[0],
        lambda: x.clone(),
        lambda: x.tolist(),
        lambda: x.cpu(),
        lambda: x.sum(),
    ):
        read()
    with pytest.raises(RuntimeError):
        x.copy_(tensor.ones(3))
    assert x._version == versions[-1]


# The bytes


def test_contents(device_name: str) -> None:
    x = tensor.tensor([1, 256, -1], dtype=tensor.int16, device=device_name)
    memory = x.untyped_storage()
    assert memory.tolist() == list(memory) == [1, 0, 0, 1, 255, 255]
    assert (memory[3], memory[-1], memory[0]) == (1, 255, 1)
    memory[1] = 1
    memory[-1] = 0
    assert x.tolist() == [257, 256, 255]
    other = memory.clone()
    assert memory.fill_(257) is memory
    assert x.tolist() == [257] * 3
    assert memory.copy_(other) is memory
    assert x.tolist() == [257, 256, 255]
    assert x._version == 4
    assert memory.copy_(memory.cpu()).tolist() == other.tolist()


@pytest.mark.parity
@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda s, _: s[4], "index 4 out of range for storage of size 4"),
        (lambda s, _: s[-5], "index -5 out of range"),
        (lambda s, _: s[1.0], "can't index a storage with float"),
        (lambda s, _: s["a"], "can't index a storage with str"),
        (lambda s, m: s.copy_(m.ones(2).untyped_storage()), "self was 4 bytes but source was 8 bytes"),
        (lambda s, _: s.copy_(3), "must be a storage, not int"),
    ],
)
def test_mistakes_with_contents(device_name: str, mistake: Any, message: str) -> None:
    torch = pytest.importorskip("torch")
    x = tensor.ones(1, device=device_name)
    result = outcome(mistake, x.untyped_storage(), tensor)
    assert_same_outcome(result, outcome(mistake, torch.ones(1).untyped_storage(), torch), lambda *_: None)
    with pytest.raises(type(result), match=message):
        raise result
    assert (x.tolist(), x._version) == ([1], 0)


def test_between_devices() -> None:
    drv.simulator.install(devices=2)
    host = tensor.arange(3).untyped_storage()
    there = host.cuda(1)
    assert there.device == tensor.device("cuda:1")
    assert there.cuda("cuda:1") is there
    assert host.cpu() is host
    assert there.cuda().device == tensor.device("cuda:0")
    assert there.cpu().tolist() == host.tolist()
    assert there.clone().device == there.device
    with pytest.raises(RuntimeError, match="cannot pin a storage on cuda:1"):
        there.pin_memory()


# Memory that is given back


def test_memory_given_back_and_taken_again(device_name: str) -> None:
    x = tensor.ones(8, device=device_name)
    memory, part = x.untyped_storage(), x[2:4]
    used = cuda.memory_allocated() if x.is_cuda else 0
    assert memory.resize_(0) is memory
    assert (memory.nbytes(), memory.data_ptr(), len(memory)) == (0, 0, 0)
    assert not x.is_cuda or cuda.memory_allocated() < used
    for use in (
        lambda: x + 1,
        lambda: x.add_(1),
        lambda: part.tolist(),
        lambda: x.zero_(),
        lambda: x.clone(),
        lambda: x.sum(),
    ):
        with pytest.raises(RuntimeError, match=r"resized to 0 bytes: call resize_\(32\)"):
            use()
    assert (tuple(x.shape), part.storage_offset()) == ((8,), 2)
    memory.resize_(32)
    assert x.fill_(5).tolist() == [5] * 8
    assert part.tolist() == [5, 5]


@pytest.mark.parametrize("size", [-1, 1, 33, 2**62])
def test_sizes_that_a_storage_cannot_have(device_name: str, size: int) -> None:
    x = tensor.ones(8, device=device_name)
    with pytest.raises(RuntimeError, match=f"cannot resize a storage of 32 bytes to {size}"):
        x.untyped_storage().resize_(size)
    with pytest.raises(TypeError):
        x.untyped_storage().resize_(1.5)  # type: ignore[arg-type]
    assert x.tolist() == [1] * 8


# Other memory for a tensor

RESIZED: list[Any] = [
    lambda m: m.ones(3).resize_(2),
    lambda m: m.ones(3).resize_(5)[:3],
    lambda m: m.ones(3).resize_((1, 3)),
    lambda m: m.ones(3).resize_(()),
    lambda m: m.ones(3).resize_(0, 4),
    lambda m: m.arange(6).view(2, 3).t().resize_(3, 2),
    lambda m: m.arange(6).view(2, 3).t().resize_(2, 3),
    lambda m: m.arange(6).view(2, 3).t().resize_(3, 3)[:2],
    lambda m: m.arange(6).view(2, 3)[1].resize_(2, 3)[0],
    lambda m: m.arange(4)[1:3].resize_(3),
    lambda m: m.arange(4)[1:3].resize_(2, 2)[0],
    lambda m: m.arange(3).resize_(1, 3, 1, 1, memory_format=m.channels_last),
    lambda m: m.ones(3).resize_as_(m.ones(1, 2)),
    lambda m: m.ones(3).resize_(-1),
    lambda m: m.ones(3).resize_(2, -3),
    lambda m: m.ones(3).resize_(2**62),
    lambda m: m.ones(3).resize_(2**62, 4),
    lambda m: m.ones(3).resize_("a"),
    lambda m: m.ones(3).resize_(),
    lambda m: m.ones(3).resize_(1.5),
    lambda m: m.ones(3).resize_(2, memory_format=m.channels_last),
    lambda m: m.ones(3).resize_(1, 3, 1, 1, memory_format=m.preserve_format),
    lambda m: m.ones(3, requires_grad=True).resize_(2),
    lambda m: m.ones(3, requires_grad=True).mul(2).resize_(2),
    lambda m: m.ones(3).set_(),
    lambda m: m.ones(3).set_(m.ones(2, 2).t()),
    lambda m: m.ones(3).set_(m.arange(4.0), 1, (2,), (2,)),
    lambda m: m.ones(3).set_(m.arange(4.0).untyped_storage()),
    lambda m: m.ones(3).set_(m.arange(4.0).untyped_storage(), 1, (2,), (2,)),
    lambda m: m.ones(3).set_(m.arange(4.0).untyped_storage(), 1, (2,)),
    lambda m: m.ones(3).set_(m.arange(4.0).untyped_storage(), -1, (2,), (2,)),
    lambda m: m.ones(3).set_(m.arange(4.0).untyped_storage(), 0, (-2,), (2,)),
    lambda m: m.ones(3).set_(m.arange(4.0).untyped_storage(), 0, (2,), (-2,)),
    lambda m: m.ones(3).set_(m.arange(4.0).untyped_storage(), 0, (2, 2), (1,)),
    lambda m: m.ones(3).set_(m.arange(2)),
    lambda m: m.ones(3).set_(3),
    lambda m: m.ones(3, requires_grad=True).set_(m.ones(2)),
]  # fmt: skip


class _On:
    """This library with its tensors made on a device."""

    def __init__(self, place: str) -> None:
        self.place = place

    def __getattr__(self, name: str) -> Any:
        result = getattr(tensor, name)
        return (
            (lambda *args, **options: result(*args, device=self.place, **options))
            if name in {"ones", "arange"}
            else result
        )


def _compare(found: Any, expected: Any) -> None:
    assert tuple(found.shape) == tuple(expected.shape)
    assert (found.stride(), found.storage_offset()) == (expected.stride(), expected.storage_offset())
    assert found.tolist() == expected.tolist()


@pytest.mark.parity
@pytest.mark.parametrize("program", RESIZED)
@pytest.mark.filterwarnings("ignore:non-inplace resize")
def test_other_memory_and_shapes(device_name: str, program: Any) -> None:
    torch = pytest.importorskip("torch")
    assert_same_outcome(outcome(program, _On(device_name)), outcome(program, torch), _compare)


def test_a_refused_change_changes_nothing(device_name: str) -> None:
    drv.simulator.install(devices=2) if device_name == "cpu" else None
    x = tensor.arange(6.0, device=device_name).view(2, 3)
    memory = x.untyped_storage()
    elsewhere = tensor.ones(2, device="cuda:0" if device_name == "cpu" else "cpu")
    for change in (
        lambda: x.resize_(-1),
        lambda: x.resize_(2**62),
        lambda: x.resize_(2**61, 2**61),
        lambda: x.resize_("a"),
        lambda: x.set_(elsewhere),
        lambda: x.set_(elsewhere.untyped_storage()),
        lambda: x.set_(memory, 5, (2,), (1,)),
        lambda: x.set_(memory, 2**62, (2,), (1,)),
        lambda: x.set_(memory, 0, (2**62,), (1,)),
        lambda: setattr(x, "data", 3),
    ):
        with pytest.raises((RuntimeError, TypeError)):
            change()
        assert x.untyped_storage() is memory
        assert x.stride() == (3, 1)
        assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
        assert x._version == 0


def test_views_follow_what_was_resized(device_name: str) -> None:
    x = tensor.arange(4, device=device_name)
    view = x[1:]
    memory = x.untyped_storage()
    x.resize_(1000)
    assert x[:4].tolist() == [0, 1, 2, 3]
    assert memory is x.untyped_storage() is view.untyped_storage()
    assert memory.nbytes() == 8000
    x.fill_(7)
    assert view.tolist() == [7, 7, 7]
    view.fill_(5)
    assert x[:5].tolist() == [7, 5, 5, 5, 7]
    small = tensor.arange(4, device=device_name)
    view = small[1:]
    small.resize_(2).fill_(0)
    assert view.tolist() == [0, 2, 3]


def test_what_shows_other_memory_is_not_what_was_saved() -> None:
    """The version tells, whichever versions the two memories had."""
    for writes in range(3):
        weight = tensor.tensor([3.0, 4.0], requires_grad=True)
        x, source = tensor.ones(2), tensor.zeros(2)
        for _ in range(writes):
            source.add_(1)
        x.add_(1)
        result = (x * weight).sum()
        x.set_(source)
        assert x.data_ptr() == source.data_ptr()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.backward()


# Pinned memory


def test_pinned_memory_grows_pinned(device: drv.Device) -> None:
    x = tensor.arange(4).pin_memory()
    part = x[2:]
    x.resize_(9)
    assert x.is_pinned()
    assert part.tolist() == [2, 3]
    assert x.to("cuda")[:4].tolist() == [0, 1, 2, 3]


def test_pinned_memory(device: drv.Device) -> None:
    x = tensor.arange(6).view(2, 3)
    assert not x.is_pinned()
    assert not x.untyped_storage().is_pinned()
    pinned = x.t().pin_memory()
    assert pinned.is_pinned()
    assert pinned[0].is_pinned()
    assert pinned.pin_memory() is pinned
    assert pinned.tolist() == x.t().tolist()
    assert pinned.device == tensor.device("cpu")
    storage = x.untyped_storage().pin_memory()
    assert storage.is_pinned()
    assert storage.pin_memory() is storage
    assert storage.tolist() == x.untyped_storage().tolist()
    assert tensor.empty(3, pin_memory=True).is_pinned()
    assert tensor.empty(0).pin_memory().tolist() == []
    for result in (pinned + 1, pinned.clone(), pinned.to(tensor.float32)):
        assert not result.is_pinned()
    with pytest.raises(RuntimeError, match=r"only dense CPU tensors can be pinned, this one is on cuda:0"):
        x.cuda().pin_memory()
    assert not x.cuda().is_pinned()
    array = pinned.numpy()
    del pinned
    gc.collect()
    tensor.zeros(6, dtype=tensor.int64, pin_memory=True)
    assert array.tolist() == [[0, 3], [1, 4], [2, 5]]


# Runtimes that were dropped


def _uses() -> dict[str, Any]:
    """What a tensor ``x`` on a device is used for; ``y`` lies on the same device of a later runtime."""
    return {
        "add": lambda x, y: x + 1,
        "add beside": lambda x, y: y + x,
        "add_": lambda x, y: x.add_(1),
        "sum": lambda x, y: x.sum(),
        "matmul": lambda x, y: x @ x.t(),
        "cat": lambda x, y: tensor.cat([x, x]),
        "sort": lambda x, y: x.sort(),
        "fill_": lambda x, y: x.fill_(2),
        "zero_": lambda x, y: x.zero_(),
        "uniform_": lambda x, y: x.uniform_(),
        "assign": lambda x, y: x.__setitem__(0, 1),
        "resize_": lambda x, y: x.resize_(1000),
        "clone": lambda x, y: x.clone(),
        "contiguous": lambda x, y: x.t().contiguous(),
        "zeros_like": lambda x, y: tensor.zeros_like(x),
        "tolist": lambda x, y: x.tolist(),
        "item": lambda x, y: x[0, 0].item(),
        "repr": lambda x, y: repr(x),
        "cpu": lambda x, y: x.cpu(),
        "cuda": lambda x, y: x.cuda(),
        "other device": lambda x, y: x.to("cuda:1"),
        "copied from": lambda x, y: y.copy_(x),
        "copied to": lambda x, y: x.copy_(y),
        "from host": lambda x, y: x.copy_(tensor.ones(2, 3)),
        "backward": lambda x, y: x.detach().requires_grad_().sum().backward(),
        "interface": lambda x, y: x.__cuda_array_interface__,
        "dlpack": lambda x, y: x.__dlpack__(),
        "bytes": lambda x, y: x.untyped_storage().tolist(),
    }


@pytest.mark.simulator_only
@pytest.mark.parametrize("use", _uses())
def test_tensors_of_a_dropped_runtime(use: str) -> None:
    drv.simulator.install(devices=2)
    x = tensor.ones(2, 3, device="cuda")
    drv.reset()
    drv.simulator.install(devices=2)
    y = tensor.zeros(2, 3, device="cuda")
    with pytest.raises(drv.DroppedRuntimeError, match=r"runtime that drv.reset\(\) dropped"):
        _uses()[use](x, y)
    assert (x._version, tuple(x.shape), x.device) == (0, (2, 3), y.device)
    assert (y.tolist(), y._version) == ([[0] * 3] * 2, 0)
    # What is only known about it still is, and it goes quietly.
    assert x[0].stride() == (1,)
    del x
    gc.collect()
    assert cuda.memory_allocated() == 512
    assert y.add_(1).tolist() == [[1] * 3] * 2


@pytest.mark.simulator_only
@pytest.mark.parametrize("again", [False, True])
def test_pinned_memory_of_a_dropped_runtime_is_ordinary_memory(again: bool) -> None:
    drv.simulator.install(check="race")
    x = tensor.arange(4).pin_memory()
    drv.reset()
    if again:
        drv.simulator.install(check="race")
    assert not x.is_pinned()
    assert x.add_(1).tolist() == [1, 2, 3, 4]
    assert np.asarray(x).sum() == 10
    if again:
        assert x.cuda(non_blocking=True).tolist() == [1, 2, 3, 4]
        assert x.pin_memory().is_pinned()
        assert x.copy_(tensor.zeros(4, device="cuda"), non_blocking=True).tolist() == [0] * 4
