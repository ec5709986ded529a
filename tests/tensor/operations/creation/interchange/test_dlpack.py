"""DLPack in both directions: values, sharing, lifetimes, errors."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import subprocess
import sys
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import drv
import tensor
from nvrtc_kernels import dtypes
from tensor import Tensor, cuda, from_dlpack

ALL = pytest.mark.parametrize("kind", dtypes.EVERY, ids=lambda kind: kind.name)
#: Types that NumPy takes through DLPack.
KNOWN = pytest.mark.parametrize(
    "kind",
    [dtype for dtype in dtypes.EVERY if dtype not in (dtypes.bfloat16, *dtypes.FLOAT8)],
    ids=lambda kind: kind.name,
)


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
        whole[1:2],
        whole[1].expand(3, 6),
        whole.unsqueeze(1),
        whole.flatten()[5:],
    ]


class Old:
    """An array of a library that knows DLPack of before 1.0."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.streams: list[Any] = []

    def __dlpack__(self, stream: Any = None) -> Any:
        self.streams.append(stream)
        return self.array.__dlpack__() if stream is None else self.array.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


# NumPy


@KNOWN
def test_numpy_shares_what_it_is_given(kind: dtypes.dtype) -> None:
    for argument in views(numbers(kind, 4, 6)):
        result = np.from_dlpack(argument)
        assert result.dtype == kind.numpy
        assert result.shape == argument.shape
        np.testing.assert_array_equal(result, argument.numpy())
        if argument.numel():
            assert result.ctypes.data == argument.data_ptr()
            assert [step // kind.itemsize for step in result.strides] == list(argument.stride())


@KNOWN
def test_arrays_of_numpy_are_shared(kind: dtypes.dtype) -> None:
    whole = numbers(kind, 4, 6).numpy()
    for argument in (
        whole,
        whole.T,
        whole[1:, 2:5],
        whole[::2, ::3],
        whole[2, 3:4],
        whole[:, :0],
        whole[1:2, None],
    ):
        result = from_dlpack(argument)
        assert result.dtype is kind
        assert result.shape == argument.shape
        assert result.device == tensor.device("cpu")
        np.testing.assert_array_equal(result.numpy(), argument)
        if argument.size:
            assert result.data_ptr() == argument.ctypes.data
    result = from_dlpack(whole)
    result[0, 0] = 1
    assert whole[0, 0] == 1
    assert from_dlpack(np.array(3, kind.numpy)).shape == ()


@ALL
def test_old_and_new_capsules_round_trip(kind: dtypes.dtype) -> None:
    for argument in views(numbers(kind, 4, 6)):
        for version in (None, (0, 8), (1, 0), (1, 9), (2, 0)):
            capsule = argument.__dlpack__(max_version=version)
            new = version is not None and version[0] > 0
            assert ('"dltensor_versioned"' in repr(capsule)) is new
            result = from_dlpack(capsule)
            assert '"used_dltensor' in repr(capsule)
            assert result.dtype is kind
            assert result.shape == argument.shape
            assert result.tolist() == argument.tolist()
            if argument.numel():
                assert result.data_ptr() == argument.data_ptr()


def test_views_keep_their_strides() -> None:
    argument = numbers(tensor.float32, 4, 6)[1::2, ::2].t()
    result = from_dlpack(argument)
    assert result.stride() == argument.stride() == (2, 12)
    result.fill_(-1)
    assert argument.tolist() == [[-1, -1]] * 3


def test_negative_strides_are_an_error_and_leave_the_capsule() -> None:
    array = np.arange(4.0)
    capsule = array[::-1].__dlpack__()
    with pytest.raises(BufferError, match=r"negative strides \[-1\].*copy the array first"):
        from_dlpack(capsule)
    assert '"dltensor"' in repr(capsule)
    assert from_dlpack(array[3:][::-1]).tolist() == [3.0]


def test_types_that_tensors_lack() -> None:
    capsule = np.arange(3).__dlpack__()
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    # Of the DLTensor: its data, type and index of its device, its dimensions, and then code and bits of its dtype.
    bits = ctypes.c_uint8.from_address(pointer(capsule, b"dltensor") + 8 + 8 + 4 + 1)
    assert bits.value == 64
    bits.value = 4
    with pytest.raises(BufferError, match=r"Unsupported dtype in the DLPack capsule: code 0, 4 bits, 1 lane"):
        from_dlpack(capsule)


def test_a_producer_of_before_version_1() -> None:
    old = Old(np.arange(4.0))
    result = from_dlpack(old)
    result[1] = 9
    assert old.array[1] == 9
    assert old.streams == [None]
    copied = from_dlpack(old, copy=True)
    copied[1] = 3
    assert old.array[1] == 9
    assert from_dlpack(old, copy=False).data_ptr() == old.array.ctypes.data


# PyTorch


@pytest.mark.parity
@ALL
def test_pytorch_shares_what_it_is_given(kind: dtypes.dtype) -> None:
    torch = pytest.importorskip("torch")
    for argument in views(numbers(kind, 4, 6)):
        for capsule in (argument, argument.__dlpack__()):
            result = torch.from_dlpack(capsule)
            assert str(result.dtype) == f"torch.{kind.name}"
            assert tuple(result.shape) == argument.shape
            assert result.tolist() == argument.tolist()
            if argument.numel():
                assert result.data_ptr() == argument.data_ptr()


@pytest.mark.parity
@ALL
def test_tensors_of_pytorch_are_shared(kind: dtypes.dtype) -> None:
    torch = pytest.importorskip("torch")
    whole = torch.arange(24).reshape(4, 6).to(getattr(torch, kind.name))
    for argument in views(whole):
        for source in (argument, torch.utils.dlpack.to_dlpack(argument)):
            result = from_dlpack(source)
            assert result.dtype is kind
            assert result.shape == tuple(argument.shape)
            assert result.tolist() == argument.tolist()
            if argument.numel():
                assert result.data_ptr() == argument.data_ptr()


# Arguments


def test_requires_grad_is_an_error() -> None:
    argument = tensor.ones(2, requires_grad=True)
    with pytest.raises(BufferError, match=r"require gradient, use tensor.detach\(\)"):
        argument.__dlpack__()
    assert np.from_dlpack(argument.detach()).tolist() == [1, 1]


@pytest.mark.parametrize("stream", ["1", 1.0, True, object()])
def test_streams_are_numbers(stream: Any) -> None:
    with pytest.raises(TypeError, match="stream must be ``int`` or ``none``, got"):
        tensor.ones(1).__dlpack__(stream=stream)


def test_streams_of_cpu_tensors() -> None:
    tensor.ones(1).__dlpack__(stream=-1)
    with pytest.raises(ValueError, match="stream should be None on cpu, got 1"):
        tensor.ones(1).__dlpack__(stream=1)


def test_copies_on_demand() -> None:
    argument = numbers(tensor.float32, 2, 3).t()
    assert from_dlpack(argument.__dlpack__(copy=False)).data_ptr() == argument.data_ptr()
    for result in (
        from_dlpack(argument.__dlpack__(copy=True)),
        from_dlpack(argument, copy=True),
        from_dlpack(argument.__dlpack__(), copy=True),
        tensor.from_dlpack(argument.__dlpack__(max_version=(1, 0), copy=True)),
    ):
        assert result.data_ptr() != argument.data_ptr()
        assert result.stride() == argument.stride()
        assert result.tolist() == argument.tolist()
    assert np.from_dlpack(argument, copy=True).ctypes.data != argument.data_ptr()
    assert np.from_dlpack(argument, copy=False).ctypes.data == argument.data_ptr()


def test_a_copy_says_that_it_is_one() -> None:
    class Managed(ctypes.Structure):
        _fields_ = (
            ("major", ctypes.c_uint32),
            ("minor", ctypes.c_uint32),
            ("context", ctypes.c_void_p),
            ("deleter", ctypes.c_void_p),
            ("flags", ctypes.c_uint64),
        )

    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )

    def header(capsule: Any) -> Managed:
        return Managed.from_address(pointer(capsule, b"dltensor_versioned"))

    argument = tensor.ones(3)
    plain, copied = (
        argument.__dlpack__(max_version=(1, 1)),
        argument.__dlpack__(max_version=(1, 1), copy=True),
    )
    assert (header(plain).major, header(plain).minor, header(plain).flags) == (1, 0, 0)
    assert header(copied).flags == 2


def test_devices_that_are_none_of_ours() -> None:
    with pytest.raises(BufferError, match="Unsupported device_type: 10"):
        tensor.ones(1).__dlpack__(dl_device=(10, 0))

    class Elsewhere(Old):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 8, 0

    with pytest.raises(BufferError, match=r"Unsupported device_type: 8; tensors are on CPUs \(1\)"):
        from_dlpack(Elsewhere(np.ones(1)))


def test_what_is_no_capsule() -> None:
    with pytest.raises(
        TypeError, match=r"expected an object with a __dlpack__ method or a DLPack capsule, got list"
    ):
        from_dlpack([1, 2])
    import datetime

    with pytest.raises(RuntimeError, match=r"invalid capsule.*datetime"):
        from_dlpack(datetime.datetime_CAPI)  # type: ignore[attr-defined]


def test_a_capsule_is_consumed_once() -> None:
    capsule = tensor.ones(2).__dlpack__()
    kept = from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="can be consumed only once"):
        from_dlpack(capsule)
    assert kept.tolist() == [1, 1]


def test_memory_that_is_not_to_be_written() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="given through DLPack is not writable"):
        result = from_dlpack(array)
    with pytest.raises((RuntimeError, ValueError)):
        result.fill_(1)
    assert array.tolist() == [0, 1, 2]
    assert not np.from_dlpack(result).flags.writeable
    with pytest.raises(BufferError, match="Cannot export a read-only tensor"):
        result.__dlpack__()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert from_dlpack(array, copy=True).add(1).tolist() == [1, 2, 3]


# Lifetimes


class Holder:
    """Memory whose end shows."""

    def __init__(self) -> None:
        self.array = np.arange(4.0)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.array.__array_interface__


def lent() -> tuple[Tensor, weakref.ref[Holder]]:
    holder = Holder()
    result = weakref.ref(holder)
    return tensor.from_numpy(np.asarray(holder)), result


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_dropped_capsule_frees(version: Any) -> None:
    argument, holder = lent()
    capsule = argument.__dlpack__(max_version=version)
    del argument
    assert holder() is not None
    del capsule
    assert holder() is None


@pytest.mark.parity
@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_dropped_while_an_exception_is_raised(version: Any) -> None:
    argument, holder = lent()

    def refuse(capsule: Any, divisor: int) -> None:
        raise AssertionError

    with pytest.raises(ZeroDivisionError):
        refuse(argument.__dlpack__(max_version=version), 1 // 0)
    with pytest.raises(TypeError):
        len(argument.__dlpack__(max_version=version))
    for name in ("numpy", "tensor", "torch"):
        if importlib.util.find_spec(name) is None:
            continue
        consumer = importlib.import_module(name)
        with pytest.raises(ZeroDivisionError):
            refuse(consumer.from_dlpack(argument), 1 // 0)
    del argument
    gc.collect()
    assert holder() is None


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_consumer_keeps_the_memory(version: Any) -> None:
    argument, holder = lent()
    capsule = argument.__dlpack__(max_version=version)
    del argument
    result = from_dlpack(capsule)
    part = result[1:]
    del result
    assert part.tolist() == [1, 2, 3]
    del part
    assert holder() is None
    # The capsule was used up, so its end changes nothing.
    del capsule


def test_every_capsule_holds_on_its_own() -> None:
    argument, holder = lent()
    arrays = [np.from_dlpack(argument) for _ in range(3)]
    del argument
    while arrays:
        assert holder() is not None
        assert arrays.pop().tolist() == [0, 1, 2, 3]
    assert holder() is None


def test_memory_given_back_is_kept_for_its_consumers() -> None:
    argument = tensor.arange(4)
    result = np.from_dlpack(argument)
    argument.untyped_storage().resize_(0)
    assert result.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", [tensor.float32, tensor.bfloat16])
def test_nothing_is_left_over(device: drv.Device, kind: dtypes.dtype) -> None:
    argument = tensor.ones(1024, dtype=kind, device="cuda")
    before = cuda.memory_allocated()
    for version in (None, (1, 0)):
        for _ in range(3):
            argument.__dlpack__(max_version=version)
            from_dlpack(argument.__dlpack__(max_version=version))
            from_dlpack(argument.clone().__dlpack__(max_version=version))
    assert cuda.memory_allocated() == before
    del argument
    assert cuda.memory_allocated() < before


_ALIVE = """
import sys, numpy as np, tensor, drv
drv.simulator.install()
given = tensor.arange(4.0)
array, capsule = np.from_dlpack(given), given.__dlpack__(max_version=(1, 0))
borrowed = tensor.from_dlpack(np.arange(3)), tensor.from_dlpack(given)
on_device = tensor.ones(3, device="cuda")
kept = on_device.__dlpack__(), tensor.from_dlpack(on_device)
sys.modules["elsewhere"] = array, capsule, borrowed, kept
"""
_ALIVE_WITH_PYTORCH = (
    _ALIVE
    + """
import torch
sys.modules["somewhere"] = torch.from_dlpack(given), tensor.from_dlpack(torch.ones(2))
"""
)


def _assert_silent(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=200, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_end_of_the_interpreter() -> None:
    """Capsules, borrowers and lenders that are alive when the interpreter ends do no harm."""
    _assert_silent(_ALIVE)


@pytest.mark.parity
def test_the_end_of_the_interpreter_with_pytorch() -> None:
    assert callable(pytest.importorskip("torch").from_dlpack)
    _assert_silent(_ALIVE_WITH_PYTORCH)


def test_the_old_module() -> None:
    from tensor.utils.dlpack import from_dlpack as taken
    from tensor.utils.dlpack import to_dlpack

    argument = tensor.arange(3)
    capsule = to_dlpack(argument)
    assert '"dltensor"' in repr(capsule)
    assert taken(capsule).data_ptr() == argument.data_ptr()
