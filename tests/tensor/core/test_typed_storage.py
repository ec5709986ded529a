"""``UntypedStorage``, ``TypedStorage`` and ``FloatStorage`` and its like, as PyTorch's programs use them."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tensor

if TYPE_CHECKING:
    from pathlib import Path
from nvrtc_kernels import dtypes
from tests.pytorch import torch

pytestmark = pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")


def test_a_tensors_storages(device_name: str) -> None:
    x = tensor.arange(4.0, device=device_name)
    typed, untyped = x[1:].storage(), x.untyped_storage()
    assert isinstance(typed, tensor.TypedStorage)
    assert isinstance(untyped, tensor.UntypedStorage)
    assert not isinstance(typed, tensor.UntypedStorage)
    assert isinstance(typed, tensor.FloatStorage) is (device_name == "cpu")
    assert isinstance(typed, x.storage_type())
    assert not isinstance(typed, tensor.DoubleStorage)
    assert tensor.is_storage(typed)
    assert tensor.is_storage(untyped)
    assert typed.untyped() is untyped is untyped.untyped()
    assert (typed.size(), len(typed), typed.nbytes(), typed.element_size()) == (4, 4, 16, 4)
    assert (untyped.size(), len(untyped), untyped.nbytes(), untyped.element_size()) == (16, 16, 16, 1)
    assert typed.data_ptr() == untyped.data_ptr() == x.data_ptr()
    assert typed.dtype is tensor.float32
    assert typed.device == untyped.device == x.device
    assert typed.get_device() == untyped.get_device() == (0 if x.is_cuda else -1)
    assert (typed.is_cuda, typed.is_shared()) == (x.is_cuda, x.is_cuda)
    assert typed.resizable()
    assert typed.tolist() == list(typed) == [0, 1, 2, 3]
    typed[1] = 5
    typed[-1] = 6
    assert x.tolist() == [0, 5, 2, 6]
    assert typed[1] == 5
    typed[0:2] = 7
    typed[::2] = 8
    assert x.tolist() == [8, 7, 8, 6]
    before = x._version
    typed.fill_(1)
    assert x.tolist() == [1] * 4
    assert x._version > before
    assert typed.double().tolist() == [1] * 4
    assert typed.double().dtype is tensor.float64
    assert typed.clone().data_ptr() != typed.data_ptr()
    assert typed.cpu().tolist() == typed.to(device="cpu").tolist() == [1] * 4
    assert typed.type() == f"tensor.{'cuda.' if x.is_cuda else ''}FloatStorage"
    assert repr(typed).endswith(f"[tensor.TypedStorage(dtype=tensor.float32, device={x.device}) of size 4]")
    for wrong, error in ((4, IndexError), (-5, IndexError), ("a", RuntimeError), (slice(0, 2), RuntimeError)):
        with pytest.raises(error):
            typed[wrong]
    assert untyped[12:16].tolist() == [0, 0, 128, 63]
    untyped[:] = 0
    assert x.tolist() == [0] * 4


def test_storages_of_their_own() -> None:
    assert tensor.UntypedStorage().nbytes() == 0
    assert tensor.UntypedStorage(5).nbytes() == 5
    assert tensor.UntypedStorage([1, 2, 255]).tolist() == [1, 2, 255]
    assert tensor.FloatStorage(3).size() == 3
    assert tensor.FloatStorage([1, 2.5]).tolist() == [1, 2.5]
    assert tensor.FloatStorage.dtype is tensor.float32
    assert tensor.TypedStorage(3, dtype=tensor.int16).nbytes() == 6
    assert tensor.TypedStorage().dtype is tensor.get_default_dtype()
    bytes_ = tensor.UntypedStorage([0, 0, 128, 63])
    assert tensor.TypedStorage(wrap_storage=bytes_, dtype=tensor.float32).tolist() == [1.0]
    assert tensor.FloatStorage(wrap_storage=bytes_).untyped() is bytes_
    assert tensor.LongStorage([1, 2]).copy_(tensor.LongStorage([3, 4])).tolist() == [3, 4]
    assert tensor.FloatStorage.from_buffer(b"\x3f\x80\0\0", byte_order="big").tolist() == [1.0]
    assert tensor.UntypedStorage.from_buffer(b"abc").tolist() == [97, 98, 99]
    grown = tensor.UntypedStorage()
    grown.resize_(8)
    assert grown.fill_(1).tolist() == [1] * 8
    for call, error in (
        (lambda: tensor.FloatStorage(-1), RuntimeError),
        (lambda: tensor.FloatStorage("ab"), TypeError),
        (lambda: tensor.FloatStorage(1, 2), TypeError),
        (lambda: tensor.UntypedStorage(1.5), TypeError),
        (lambda: tensor.UntypedStorage([256]), RuntimeError),
        (lambda: tensor.TypedStorage(3, wrap_storage=bytes_), TypeError),
        (lambda: tensor.TypedStorage(wrap_storage=[1]), TypeError),
        (lambda: tensor.FloatStorage.from_buffer(b"abc"), ValueError),
        (lambda: tensor.FloatStorage.from_buffer(b"abcd", byte_order="odd"), ValueError),
    ):
        with pytest.raises(error):
            call()


def test_storages_on_a_device(device_name: str) -> None:
    storage = tensor.UntypedStorage([1, 2, 3], device=device_name)
    assert storage.device.type == device_name
    assert storage.tolist() == [1, 2, 3]
    assert storage.to("cpu").tolist() == [1, 2, 3]


def test_tensors_over_storages(device_name: str) -> None:
    x = tensor.arange(4.0, device=device_name)
    typed, untyped = x.storage(), x.untyped_storage()
    for y in (tensor.Tensor(untyped), tensor.Tensor(typed), x.new(typed)):
        assert y.tolist() == [0, 1, 2, 3]
        assert y.data_ptr() == x.data_ptr()
    y = tensor.empty(0, device=device_name).set_(typed, 1, (2,), (2,))
    assert y.tolist() == [1, 3]
    with pytest.raises(
        RuntimeError, match="Expected a Storage of type Double or an UntypedStorage, but got type Float"
    ):
        tensor.empty(0, dtype=tensor.float64, device=device_name).set_(typed)
    with pytest.raises(RuntimeError, match="Expected a Storage of type Float .* got type Long"):
        tensor.Tensor(tensor.LongStorage([1]))
    assert tensor.Tensor(tensor.UntypedStorage()).shape == (0,)
    assert tensor.tensor(typed).tolist() == [0, 1, 2, 3]


def test_copies_and_pickles(device_name: str) -> None:
    x = tensor.arange(3.0, device=device_name)
    typed = x.storage()
    for copied in (copy.copy(typed), copy.deepcopy(typed), pickle.loads(pickle.dumps(typed))):
        assert copied.tolist() == [0, 1, 2]
        assert copied.dtype is tensor.float32
        assert copied.data_ptr() != typed.data_ptr()
        assert copied.device == typed.device
    # One storage stays one.
    back = pickle.loads(pickle.dumps((x, x.untyped_storage(), typed)))
    assert back[0].untyped_storage() is back[1] is back[2].untyped()


@pytest.mark.parity
def test_classes_are_pytorchs() -> None:
    for kind in dtypes.ALL:
        name = f"{kind.scalar_type}Storage"
        mine, theirs = getattr(tensor, name)([0, 1]), getattr(torch, name)([0, 1])
        assert mine.tolist() == theirs.tolist()
        assert mine.type() == theirs.type().replace("torch.", "tensor.")
        assert mine.dtype is kind


@pytest.mark.parity
def test_converting_storages_as_pytorch_does() -> None:
    for name in ("bool", "byte", "char", "short", "int", "long", "half", "float", "double", "complex_float"):

        def numbers(library: Any, name: str = name) -> Any:
            typed = library.FloatStorage([0.0, 1.5, 3.0])
            return getattr(typed, name)()

        assert numbers(tensor).tolist() == numbers(torch).tolist()
        assert str(numbers(tensor).dtype) == str(numbers(torch).dtype).replace("torch.", "tensor.")


def test_memory_of_arrays() -> None:
    array = np.arange(3.0)
    typed = tensor.from_numpy(array).storage()
    typed[0] = 4
    assert array[0] == 4


def test_files_are_mapped(tmp_path: Path) -> None:
    file = tmp_path / "bytes"
    file.write_bytes(bytes(range(8)))
    private = tensor.UntypedStorage.from_file(file, nbytes=4)
    assert private.tolist() == [0, 1, 2, 3]
    x = tensor.asarray(private, dtype=tensor.uint8)
    x.fill_(9)
    assert private.tolist() == [9] * 4 and file.read_bytes() == bytes(range(8))
    shared = tensor.UntypedStorage.from_file(str(file), shared=True, nbytes=12)
    tensor.asarray(shared, dtype=tensor.uint8)[8:].fill_(7)
    assert file.read_bytes() == bytes(range(8)) + b"\7" * 4
    assert len(tensor.UntypedStorage.from_file(file)) == 0
    for arguments, words in (
        ((file, False, 13), "has 12 bytes and not 13"),
        ((tmp_path / "none", False, 1), "unable to open file"),
        ((file, False, -1), "negative size"),
    ):
        with pytest.raises(RuntimeError, match=words):
            tensor.UntypedStorage.from_file(*arguments)
