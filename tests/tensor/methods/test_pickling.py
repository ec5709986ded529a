"""``copy.copy``, ``copy.deepcopy`` and ``pickle`` of tensors and storages."""

from __future__ import annotations

import copy
import io
import pickle
import pickletools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import drv
import tensor
from nvrtc_kernels import dtypes
from tensor import Tensor, cuda
from tensor.core.storage import HostStorage

ALL = pytest.mark.parametrize("kind", dtypes.EVERY, ids=lambda kind: kind.name)
PROTOCOLS = pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
WHERE = pytest.mark.parametrize("where", ["cpu", "cuda"])


def through_pickle(given: Any, protocol: int | None = None) -> Any:
    return pickle.loads(pickle.dumps(given, protocol))


WAYS = pytest.mark.parametrize("way", [copy.deepcopy, through_pickle])


def numbers(kind: dtypes.dtype, *shape: int) -> Tensor:
    return tensor.arange(int(np.prod(shape))).reshape(shape).to(kind)


def views(whole: Tensor) -> list[Tensor]:
    """Layouts of all kinds of a (4, 6) tensor."""
    return [
        whole,
        whole.t(),
        whole[1:, 2:5],
        whole[::2, ::3],
        whole[2, 3],
        whole[:, :0],
        whole[1].expand(3, 6),
        whole.unsqueeze(1),
    ]


class Marked(Tensor):
    """A subclass with attributes."""


class Slotted(Tensor):
    """A subclass with slots."""

    __slots__ = ("__hidden", "shown", "unset")

    def hide(self, value: Any) -> None:
        self.__hidden = value

    def hidden(self) -> Any:
        return self.__hidden


class Counted(Tensor):
    """A subclass that says itself what is kept."""

    def __getstate__(self) -> Any:
        return {"count": self.__dict__.get("count", 0) + 1}

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)


# Values


@ALL
@WHERE
@WAYS
def test_every_dtype_and_layout(device: drv.Device, kind: dtypes.dtype, where: str, way: Any) -> None:
    for argument in views(numbers(kind, 4, 6).to(where)):
        result = way(argument)
        assert type(result) is Tensor
        assert result.dtype is kind
        assert result.device == argument.device
        assert result.shape == argument.shape
        assert result.stride() == argument.stride()
        assert result.storage_offset() == argument.storage_offset()
        assert result.tolist() == argument.tolist()
        assert result.untyped_storage() is not argument.untyped_storage()
        assert not result.requires_grad


@PROTOCOLS
@WHERE
def test_every_protocol(device: drv.Device, protocol: int, where: str) -> None:
    argument = numbers(tensor.float32, 4, 6).to(where).t()
    result = through_pickle(argument, protocol)
    assert result.tolist() == argument.tolist()
    assert result.device == argument.device
    result.fill_(1)
    assert result.tolist() == [[1] * 4] * 6
    assert argument[1, 0].item() == 1
    assert argument[5, 3].item() == 23


def test_the_device_is_kept(two_devices: tuple[drv.Device, drv.Device]) -> None:
    argument = tensor.arange(3, device="cuda:1")
    for way in (copy.copy, copy.deepcopy, through_pickle):
        assert way(argument).device == tensor.device("cuda:1")
        assert way(argument).tolist() == [0, 1, 2]
    assert cuda.current_device() == 0


@pytest.mark.simulator_only
def test_a_device_that_is_not_here() -> None:
    drv.simulator.install(devices=2)
    text = pickle.dumps(tensor.ones(2, device="cuda:1"))
    drv.reset()
    drv.simulator.install(devices=1)
    with pytest.raises(
        RuntimeError, match=r"belongs on cuda:1, which is not here: .*no device 1.*Move tensors to the CPU"
    ):
        pickle.loads(text)


def test_pinned_memory_comes_back_pageable(device: drv.Device) -> None:
    argument = tensor.arange(3).pin_memory()
    for way in (copy.deepcopy, through_pickle):
        result = way(argument)
        assert result.tolist() == [0, 1, 2]
        assert not result.is_pinned()
    assert copy.copy(argument).is_pinned()


def test_another_process_reads_it(device: drv.Device) -> None:
    text = pickle.dumps({"a": tensor.arange(3.0), "b": tensor.ones(2, dtype=tensor.bfloat16)})
    script = "import pickle, sys; found = pickle.load(sys.stdin.buffer); print(found['a'].tolist(), found['b'].dtype)"
    done = subprocess.run(
        [sys.executable, "-c", script], input=text, capture_output=True, timeout=200, check=True
    )
    assert done.stdout.decode().split("\n")[0] == "[0.0, 1.0, 2.0] tensor.bfloat16"


# Sharing


def test_copy_shares_the_memory() -> None:
    argument = tensor.arange(6.0).reshape(2, 3)[:, 1:]
    argument.name = "x"
    result = copy.copy(argument)
    assert result is not argument
    assert result.untyped_storage() is argument.untyped_storage()
    assert result.stride() == argument.stride()
    assert result.name == "x"
    result.fill_(7)
    assert argument.tolist() == [[7, 7], [7, 7]]
    assert copy.copy(tensor.ones(2, requires_grad=True)).requires_grad


@WHERE
@WAYS
def test_views_of_one_storage_keep_sharing(device: drv.Device, where: str, way: Any) -> None:
    whole = tensor.arange(12.0).reshape(3, 4).to(where)
    other = tensor.zeros(2, device=where)
    first, second, third, again, apart = way([whole, whole[1:], whole.t(), whole, other])
    assert again is first
    assert second.untyped_storage() is first.untyped_storage() is third.untyped_storage()
    assert apart.untyped_storage() is not first.untyped_storage()
    second.fill_(-1)
    assert first.tolist() == [[0, 1, 2, 3], [-1] * 4, [-1] * 4]
    assert third[0].tolist() == [0, -1, -1]
    assert whole[1].tolist() == [4, 5, 6, 7]


def test_a_storage_is_kept_once() -> None:
    whole = tensor.zeros(1000)
    assert len(pickle.dumps([whole, whole[:10], whole.t()])) < 4000 + 1000


def test_without_an_entry_of_its_own_in_the_memo() -> None:
    argument = tensor.ones(2)
    memo: dict[int, Any] = {}
    result = argument.__deepcopy__(memo)
    assert argument.__deepcopy__(memo) is result
    assert argument.untyped_storage().__deepcopy__(memo) is result.untyped_storage()


# Differentiation


@WAYS
def test_requires_grad_is_kept(way: Any) -> None:
    argument = tensor.ones(3, requires_grad=True)
    result = way(argument)
    assert result.requires_grad
    assert result.is_leaf
    assert not way(argument.detach()).requires_grad


def test_deepcopy_keeps_the_gradient_and_pickle_does_not() -> None:
    argument = tensor.ones(3, requires_grad=True)
    argument.grad = tensor.full((3,), 2.0)
    result = copy.deepcopy(argument)
    assert result.grad is not argument.grad
    assert result.grad is not None
    assert result.grad.tolist() == [2, 2, 2]
    both = copy.deepcopy([argument.grad, argument])
    assert both[1].grad is both[0]
    assert through_pickle(argument).grad is None
    assert copy.copy(argument).grad is None


@pytest.mark.parametrize("way", [copy.copy, through_pickle])
def test_a_computed_tensor_comes_back_as_a_leaf(way: Any) -> None:
    result = way(tensor.ones(3, requires_grad=True).view(3))
    assert result.requires_grad
    assert result.is_leaf


def test_a_computed_tensor_has_no_deepcopy() -> None:
    with pytest.raises(
        RuntimeError, match="Only Tensors created explicitly by the user .graph leaves. support"
    ):
        copy.deepcopy(tensor.ones(3, requires_grad=True).view(3))


def test_hooks_are_not_kept() -> None:
    argument = tensor.ones(3, requires_grad=True)
    argument.register_hook(lambda grad: grad)
    with pytest.warns(UserWarning, match=r"1 backward hook\(s\) on the tensor will not be serialized"):
        pickle.dumps(argument)


# Attributes and subclasses


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, through_pickle])
def test_attributes_are_kept(way: Any) -> None:
    argument = tensor.ones(2)
    argument.tags, argument.other = ["a"], argument
    result = way(argument)
    assert result.tags == ["a"]
    if way is copy.copy:
        assert result.tags is argument.tags
        assert result.other is argument
    else:
        assert result.tags is not argument.tags
        assert result.other is result


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, through_pickle])
def test_subclasses_are_kept(way: Any) -> None:
    marked = tensor.arange(3.0).as_subclass(Marked)
    marked.requires_grad_(True)
    marked.mark = {"deep": 1}
    result = way(marked)
    assert type(result) is Marked
    assert result.mark == {"deep": 1}
    assert result.requires_grad
    assert result.tolist() == [0, 1, 2]
    slotted = tensor.arange(3.0).as_subclass(Slotted)
    slotted.shown, slotted.free = [1], 2
    slotted.hide(3)
    result = way(slotted)
    assert type(result) is Slotted
    assert (result.shown, result.free, result.hidden()) == ([1], 2, 3)
    assert not hasattr(result, "unset")
    counted = tensor.arange(3.0).as_subclass(Counted)
    counted.count, counted.lost = 1, True
    result = way(counted)
    assert result.count == 2
    assert not hasattr(result, "lost")


# Storages


@WHERE
def test_storages(device: drv.Device, where: str) -> None:
    argument = tensor.arange(6, dtype=tensor.uint8).to(where)
    storage = argument.untyped_storage()
    for way in (copy.copy, copy.deepcopy, through_pickle, type(storage).clone):
        result = way(storage)
        assert type(result) is type(storage)
        assert result is not storage
        assert result.device == storage.device
        assert result.nbytes() == 6
        assert tensor.empty(0, dtype=tensor.uint8, device=where).set_(result).tolist() == [0, 1, 2, 3, 4, 5]


@WHERE
@WAYS
def test_no_elements(device: drv.Device, where: str, way: Any) -> None:
    result = way(tensor.zeros(0, 3, device=where))
    assert result.shape == (0, 3)
    assert result.is_cuda is (where == "cuda")


def test_a_storage_without_memory_says_so() -> None:
    argument = tensor.ones(4)
    argument.untyped_storage().resize_(0)
    for way in (copy.deepcopy, pickle.dumps):
        with pytest.raises(RuntimeError, match="resized to 0 bytes"):
            way(argument)
    assert copy.copy(argument).shape == (4,)


def test_memory_of_other_libraries(device: drv.Device) -> None:
    memory = drv.DeviceMemory(4)
    argument = tensor.as_tensor(memory).fill_(5)
    for way in (copy.deepcopy, through_pickle):
        result = way(argument)
        assert result.tolist() == [5] * 4
        result.fill_(1)
    assert argument.tolist() == [5] * 4
    array = np.arange(3)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        read_only = tensor.from_numpy(array)
    assert through_pickle(read_only).fill_(1).tolist() == [1, 1, 1]


@pytest.mark.simulator_only
def test_copies_run_on_the_current_stream() -> None:
    drv.simulator.install(schedule="lazy", check="race")
    with cuda.stream(cuda.Stream()):
        argument = tensor.zeros(1000, device="cuda").fill_(2)
        for way in (copy.deepcopy, through_pickle):
            assert way(argument).tolist() == [2] * 1000
    cuda.synchronize()


# Buffers beside the pickle


def test_buffers_beside_the_pickle() -> None:
    argument = tensor.arange(1000.0)
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps([argument, argument[10:]], protocol=5, buffer_callback=buffers.append)
    assert len(text) < 500
    assert len(buffers) == 1
    assert buffers[0].raw().nbytes == 4000
    shared, part = pickle.loads(text, buffers=buffers)
    assert shared.data_ptr() == argument.data_ptr()
    assert part.data_ptr() == argument.data_ptr() + 40
    copied, _ = pickle.loads(text, buffers=[bytes(buffers[0])])
    copied.fill_(0)
    assert copied.tolist() == [0] * 1000
    assert argument[3].item() == 3
    writable = bytearray(buffers[0])
    kept, _ = pickle.loads(text, buffers=[writable])
    kept.fill_(0)
    assert not any(writable)


def test_buffers_of_cuda_tensors(device: drv.Device) -> None:
    argument = tensor.arange(1000.0, device="cuda")
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(argument, protocol=5, buffer_callback=buffers.append)
    result = pickle.loads(text, buffers=buffers)
    assert result.is_cuda
    assert result.tolist() == argument.tolist()


# What a pickle may hold


def test_a_pickle_names_two_functions_and_no_class() -> None:
    text = pickle.dumps([tensor.ones(2), tensor.ones(3, dtype=tensor.bfloat16, requires_grad=True)], 4)
    strings = [argument for _, argument, _ in pickletools.genops(text) if isinstance(argument, str)]
    assert {name for name in strings if name.startswith("tensor")} == {
        "tensor.core.storage",
        "tensor.methods.pickling",
    }
    assert {"rebuild", "rebuild_storage"} <= set(strings)


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": (5,)},
        {"shape": (2, 2)},
        {"shape": (-1,)},
        {"strides": (2,)},
        {"strides": (-1,)},
        {"offset": 4},
        {"offset": -4},
        {"dtype_name": "float64"},
        {"strides": ()},
    ],
)
def test_a_damaged_pickle(changes: dict[str, Any]) -> None:
    from tensor.methods.pickling import rebuild

    whole: dict[str, Any] = {
        "storage": HostStorage(np.zeros(16, np.uint8)),
        "dtype_name": "float32",
        "shape": (4,),
        "strides": (1,),
        "offset": 0,
        "requires_grad": False,
    }
    assert rebuild(**whole).tolist() == [0] * 4
    with pytest.raises(ValueError, match="the pickle is damaged: a tensor of shape"):
        rebuild(**{**whole, **changes})
    with pytest.raises(ValueError, match="has a tensor of type 'float8', expected one of bool, uint8"):
        rebuild(**{**whole, "dtype_name": "float8"})


def test_a_truncated_pickle() -> None:
    text = pickle.dumps(tensor.ones(100))
    for size in (10, 200, len(text) - 1):
        with pytest.raises((pickle.UnpicklingError, EOFError)):
            pickle.load(io.BytesIO(text[:size]))
