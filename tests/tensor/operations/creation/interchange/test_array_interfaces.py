"""The CUDA array interface in both directions, NumPy's protocols, ``as_tensor`` and ``asarray`` of foreign arrays."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import drv
import tensor
from nvrtc_kernels import dtypes
from tensor import Tensor, as_tensor, asarray, cuda
from tensor.operations.creation.interchange.array_interfaces import from_cuda_array_interface

ALL = pytest.mark.parametrize("kind", dtypes.ALL, ids=lambda kind: kind.name)
N = 4096


class Array:
    """Another library's CUDA array: what a tensor tells of itself, with changes."""

    def __init__(self, kept: Any, **changes: Any) -> None:
        self.kept = kept
        self.__cuda_array_interface__ = {**kept.__cuda_array_interface__, **changes}


def numbers(kind: dtypes.dtype, *shape: int, device: str = "cuda") -> Tensor:
    return tensor.arange(int(np.prod(shape))).reshape(shape).to(kind).to(device)


# Giving CUDA memory


@ALL
def test_what_a_cuda_tensor_tells(device: drv.Device, kind: dtypes.dtype) -> None:
    argument = numbers(kind, 3, 4)
    told = argument.__cuda_array_interface__
    assert told == {
        "shape": (3, 4),
        "strides": None,
        "typestr": np.dtype(kind.numpy).str,
        "data": (argument.data_ptr(), False),
        "stream": 1,
        "version": 3,
    }
    assert type(told["shape"]) is tuple
    part = argument[1:, ::2]
    told = part.__cuda_array_interface__
    assert told["strides"] == (4 * kind.itemsize, 2 * kind.itemsize)
    assert told["data"][0] == argument.data_ptr() + 4 * kind.itemsize


def test_of_no_elements_and_of_one(device: drv.Device) -> None:
    told = tensor.empty(0, 3, device="cuda").__cuda_array_interface__
    assert (told["shape"], told["strides"], told["data"]) == ((0, 3), None, (0, False))
    assert numbers(tensor.int8).__cuda_array_interface__["shape"] == ()


def test_the_stream_is_the_current_one_of_the_device(two_devices: tuple[drv.Device, drv.Device]) -> None:
    here, there = tensor.ones(2, device="cuda:0"), tensor.ones(2, device="cuda:1")
    with cuda.stream(cuda.Stream(1)) as _:
        assert there.__cuda_array_interface__["stream"] == int(cuda.current_stream(1).handle)
        assert here.__cuda_array_interface__["stream"] == 1


def test_cpu_tensors_have_none() -> None:
    argument = tensor.ones(2)
    assert not hasattr(argument, "__cuda_array_interface__")
    with pytest.raises(
        AttributeError, match=r"non-CUDA tensor type: tensor.FloatTensor .* use tensor.cuda\(\)"
    ):
        _ = argument.__cuda_array_interface__


def test_requires_grad_is_an_error(device: drv.Device) -> None:
    argument = tensor.ones(2, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match=r"Variable that requires grad.*var.detach\(\)"):
        _ = argument.__cuda_array_interface__
    assert argument.detach().__cuda_array_interface__["shape"] == (2,)


# Taking CUDA memory


@ALL
def test_memory_is_shared(device: drv.Device, kind: dtypes.dtype) -> None:
    whole = numbers(kind, 4, 6)
    for argument in (whole, whole.t(), whole[1:, 2:5], whole[::2, ::3], whole[2, 3], whole[1].expand(3, 6)):
        result = as_tensor(Array(argument))
        assert result.dtype is kind
        assert result.device == argument.device
        assert result.shape == argument.shape
        assert result.stride() == argument.stride()
        assert result.data_ptr() == argument.data_ptr()
        assert result.tolist() == argument.tolist()
    part = whole[1:, :2]
    as_tensor(Array(part)).fill_(0)
    assert part.tolist() == [[0, 0]] * 3


def test_no_elements(device: drv.Device) -> None:
    result = as_tensor(Array(tensor.empty(2, 0, device="cuda"), strides=(8, 4)))
    assert result.shape == (2, 0)
    assert result.is_cuda
    assert (result + 1).tolist() == [[], []]


def test_memory_of_the_driver(device: drv.Device) -> None:
    memory = drv.DeviceMemory(8)
    result = as_tensor(memory)
    result.fill_(3)
    assert result.dtype is tensor.uint8
    assert result.tolist() == [3] * 8
    assert result.data_ptr() == memory.address


def test_the_device_is_that_of_the_address(two_devices: tuple[drv.Device, drv.Device]) -> None:
    argument = tensor.arange(4, device="cuda:1")
    for current in (0, 1):
        with cuda.device(current):
            result = as_tensor(Array(argument[1:]))
            assert result.device == tensor.device("cuda:1")
            assert result.tolist() == [1, 2, 3]
            assert cuda.current_device() == current
    assert as_tensor(Array(argument), device="cuda:0").device == tensor.device("cuda:0")
    assert as_tensor(Array(argument), device="cpu", dtype=tensor.float64).tolist() == [0, 1, 2, 3]


def test_the_owner_is_kept(device: drv.Device) -> None:
    argument = tensor.arange(4, device="cuda")
    owner = Array(argument)
    alive = weakref.ref(owner)
    result = as_tensor(owner)
    part = result[1:]
    del owner, argument, result
    gc.collect()
    assert alive() is not None
    assert part.tolist() == [1, 2, 3]
    del part
    gc.collect()
    assert alive() is None


def test_old_versions(device: drv.Device) -> None:
    argument = tensor.arange(6, device="cuda").reshape(2, 3)
    described = {key: argument.__cuda_array_interface__[key] for key in ("shape", "typestr", "data")}
    for more in ({}, {"version": 0}, {"version": 2, "strides": None}, {"version": 1, "strides": (24, 8)}):
        owner = Array(argument)
        owner.__cuda_array_interface__ = {**described, **more}
        assert as_tensor(owner).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"version": 4}, ValueError, "version 4 of the CUDA array interface is unknown, expected 0 to 3"),
        ({"mask": object()}, NotImplementedError, "masked arrays are not supported"),
        ({"typestr": ">f4"}, TypeError, "not in native byte order"),
        (
            {"typestr": "<M8[s]"},
            TypeError,
            "can't share elements of type <M8\\[s\\]. The only supported types are: bool",
        ),
        ({"typestr": "|S4"}, TypeError, "can't share elements of type"),
        ({"strides": (4,)}, ValueError, r"gives strides \[4\] for shape \[2, 3\]"),
        ({"strides": (-12, 4)}, ValueError, r"strides \[-12, 4\] of the given CUDA array are negative"),
        ({"strides": (10, 4)}, ValueError, r"no multiples of the element size \(4 bytes\)"),
        ({"shape": (2, -3)}, ValueError, r"negative"),
        ({"data": 16}, TypeError, "must be a 2-tuple"),
        ({"data": (0, False)}, ValueError, "pointer 0x0 .* is not registered with any CUDA device"),
        ({"data": (12344, False)}, ValueError, "pointer 0x3038 .* is not registered with any CUDA device"),
        ({"stream": 0}, ValueError, "stream 0 of the CUDA array interface is ambiguous"),
    ],
)
def test_what_is_refused(
    device: drv.Device, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    argument = Array(tensor.ones(2, 3, device="cuda"), **changes)
    with pytest.raises(error, match=message):
        from_cuda_array_interface(argument)


def test_memory_that_must_not_be_written_or_is_misaligned(device: drv.Device) -> None:
    argument = tensor.ones(4, device="cuda")
    with pytest.raises(TypeError, match="the read only flag is not supported, should always be False"):
        as_tensor(Array(argument, data=(argument.data_ptr(), True)))
    with pytest.raises(BufferError, match="not aligned to their 4 bytes"):
        as_tensor(Array(argument, data=(argument.data_ptr() + 2, False), shape=(2,)))


@pytest.mark.simulator_only
@pytest.mark.parametrize("told", [True, False])
def test_the_stream_is_waited_for(told: bool) -> None:
    drv.simulator.install(schedule="lazy", check="race")
    with cuda.stream(cuda.Stream()):
        argument = tensor.zeros(N, device="cuda")
        argument.fill_(5)
        array = Array(argument) if told else Array(argument, stream=None)
    with cuda.stream(cuda.Stream()):
        added = as_tensor(array) + 1
    if told:
        cuda.synchronize()
        assert added.tolist() == [6.0] * N
    else:
        with pytest.raises(drv.DataRaceError):
            cuda.synchronize()


# NumPy


@ALL
def test_arrays_over_cpu_tensors(kind: dtypes.dtype) -> None:
    whole = numbers(kind, 4, 6, device="cpu")
    for argument in (whole, whole.t(), whole[1:, 2:5], whole[2, 3], whole[:, :0]):
        result = np.asarray(argument)
        assert result.dtype == kind.numpy
        assert result.shape == argument.shape
        np.testing.assert_array_equal(result, argument.numpy())
        if argument.numel():
            assert result.ctypes.data == argument.data_ptr()
            assert np.array(argument, copy=False).ctypes.data == argument.data_ptr()
            assert np.array(argument).ctypes.data != argument.data_ptr()
    np.asarray(whole)[0, 0] = 1
    assert whole[0, 0].item() == 1


def test_arrays_of_another_type() -> None:
    argument = tensor.arange(3)
    assert np.asarray(argument, np.float32).dtype == np.float32
    assert np.asarray(argument, "int64").ctypes.data == argument.data_ptr()
    assert argument.__array__(np.float64).tolist() == [0.0, 1.0, 2.0]
    assert argument.__array__().ctypes.data == argument.data_ptr()
    with pytest.raises(ValueError, match="Unable to avoid copy while creating an array as requested"):
        np.array(argument, np.float32, copy=False)


def test_an_array_keeps_the_memory() -> None:
    result = np.asarray(tensor.arange(5)[1:])
    gc.collect()
    assert result.tolist() == [1, 2, 3, 4]


def test_arrays_of_what_is_not_on_the_cpu(device: drv.Device) -> None:
    with pytest.raises(
        TypeError, match=r"can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu\(\)"
    ):
        np.asarray(tensor.ones(2, device="cuda"))
    with pytest.raises(RuntimeError, match=r"Use tensor.detach\(\).numpy\(\) instead"):
        np.asarray(tensor.ones(2, requires_grad=True))
    pinned = tensor.arange(3).pin_memory()
    assert np.asarray(pinned).ctypes.data == pinned.data_ptr()


def test_functions_of_numpy_give_tensors() -> None:
    argument = tensor.tensor([0.0, 1.0])
    result = np.exp(argument)
    assert isinstance(result, Tensor)
    np.testing.assert_array_equal(result.numpy(), np.exp(np.array([0, 1], np.float32)))
    assert isinstance(np.greater(argument, 0), Tensor)
    assert isinstance(np.square(tensor.tensor(3.0)), Tensor)
    assert isinstance(np.bitwise_or(tensor.tensor([1]), np.array([1], np.uint64).astype(np.int64)), Tensor)
    assert argument.__array_wrap__(np.array(["a"])).dtype == np.dtype("U1")


def test_operators_between_arrays_and_tensors_are_the_tensors() -> None:
    array, argument = np.arange(3.0), tensor.arange(3.0)
    for result in (array + argument, argument + array, array * argument, array - argument):
        assert isinstance(result, Tensor)
    assert (array + argument).tolist() == [0, 2, 4]


def test_lists_that_hold_tensors() -> None:
    assert tensor.tensor([1.0, tensor.tensor(2.0)]).tolist() == [1, 2]
    assert tensor.tensor([1.0, tensor.tensor(2.0, requires_grad=True)]).tolist() == [1, 2]


def test_lists_that_hold_cuda_tensors(device: drv.Device) -> None:
    assert tensor.tensor([1.0, tensor.tensor(2.0, device="cuda")]).tolist() == [1, 2]


# as_tensor and asarray


@pytest.mark.parity
def test_arrays_of_dlpack_are_shared() -> None:
    torch = pytest.importorskip("torch")
    argument = torch.arange(6).reshape(2, 3).t()
    for result in (
        as_tensor(argument),
        asarray(argument),
        asarray(argument, copy=False),
        asarray(argument.__dlpack__()),
    ):
        assert result.data_ptr() == argument.data_ptr()
        assert result.stride() == argument.stride()
        assert result.tolist() == argument.tolist()
    assert asarray(argument, copy=True).data_ptr() != argument.data_ptr()
    assert as_tensor(argument, tensor.float32).dtype is tensor.float32
    with pytest.raises(ValueError, match="without a copy"):
        asarray(argument, dtype=tensor.float32, copy=False)


def test_asarray_of_arrays_and_tensors() -> None:
    array = np.arange(3)
    argument = tensor.arange(3)
    assert asarray(array).data_ptr() == array.ctypes.data
    assert asarray(array, copy=True).data_ptr() != array.ctypes.data
    assert asarray(argument) is argument
    assert asarray(argument, copy=True) is not argument
    assert asarray([1, 2], copy=True).tolist() == [1, 2]
    with pytest.raises(ValueError, match="can't alias arbitrary Python objects"):
        asarray([1, 2], copy=False)


def test_device_0_is_a_device(device: drv.Device) -> None:
    assert as_tensor(np.arange(3), device=0).is_cuda
    assert as_tensor(tensor.arange(3), device=0).is_cuda
    cupy_like = Array(tensor.arange(3, device="cuda"))
    assert asarray(cupy_like, copy=False).data_ptr() == cupy_like.kept.data_ptr()
    assert asarray(cupy_like, copy=True).data_ptr() != cupy_like.kept.data_ptr()
