"""Padding and packing sequences, against PyTorch and by what must hold."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import drv
import nn
import tensor
from nn.utils import rnn
from nn.utils.rnn import PackedSequence
from tests.nn.parity import assert_like_pytorch, assert_refused_like_pytorch
from tests.nn.test_signatures import assert_same_parameters
from tests.tensor.comparison import array_of

LENGTHS = {"sorted": [4, 3, 3, 1], "unsorted": [3, 1, 4, 3], "equal": [4, 4, 4, 4]}


def _batch(place: str, batch_first: bool = False, features: tuple[int, ...] = (2,)) -> Any:
    shape = (4, 4, *features)
    array = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    result = tensor.from_numpy(array).to(place)
    return result.transpose(0, 1) if batch_first else result


def _parts(sequence: Any) -> list[Any]:
    return [None if each is None else array_of(each).tolist() for each in sequence]


@pytest.mark.parity
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("features", [(), (2,), (2, 3)])
@pytest.mark.parametrize("order", LENGTHS)
def test_there_and_back(order: str, features: tuple[int, ...], batch_first: bool, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    lengths = LENGTHS[order]
    x = _batch(device_name, batch_first, features)
    packed = rnn.pack_padded_sequence(x, lengths, batch_first, order != "unsorted")
    other = torch.from_numpy(np.array(array_of(x)))
    expected = torch.nn.utils.rnn.pack_padded_sequence(
        other, torch.tensor(lengths), batch_first, order != "unsorted"
    )
    assert _parts(packed) == _parts(expected)
    assert packed.batch_sizes.device.type == "cpu"
    assert packed.sorted_indices is None or packed.sorted_indices.device == x.device
    for options in ({}, {"padding_value": -1.5}, {"total_length": 6}):
        padded, result = rnn.pad_packed_sequence(packed, batch_first, **options)
        their_padded, their_lengths = torch.nn.utils.rnn.pad_packed_sequence(expected, batch_first, **options)
        np.testing.assert_array_equal(array_of(padded), array_of(their_padded))
        assert result.tolist() == their_lengths.tolist() == lengths
        assert result.dtype is tensor.int64
    for left, right in zip(
        rnn.unpack_sequence(packed), torch.nn.utils.rnn.unpack_sequence(expected), strict=True
    ):
        np.testing.assert_array_equal(array_of(left), array_of(right))


@pytest.mark.parity
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_pad_sequence(batch_first: bool, side: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    sequences = [
        _batch(device_name)[number, :length].requires_grad_() for number, length in enumerate((2, 4, 1))
    ]
    others = [torch.from_numpy(np.array(array_of(each))).requires_grad_() for each in sequences]
    result = rnn.pad_sequence(sequences, batch_first, -2.0, side)
    expected = torch.nn.utils.rnn.pad_sequence(others, batch_first, -2.0, side)
    np.testing.assert_array_equal(array_of(result), array_of(expected))
    (result * result).sum().backward()
    (expected * expected).sum().backward()
    for left, right in zip(sequences, others, strict=True):
        np.testing.assert_array_equal(array_of(left.grad), array_of(right.grad))
    for left, right in zip(
        rnn.unpad_sequence(result, tensor.tensor([2, 4, 1]), batch_first), others, strict=True
    ):
        assert left.shape[1:] == tuple(right.shape[1:])
        if side == "right":
            np.testing.assert_array_equal(array_of(left), array_of(right))
    # A generator, and rows of a tensor, are sequences too.
    assert rnn.pad_sequence(each for each in sequences).shape == (4, 3, 2)
    assert rnn.pad_sequence(result).shape == (result.shape[1], result.shape[0], 2)


def test_derivatives(device_name: str) -> None:
    x = tensor.randn(3, 3, 2, dtype=tensor.float64, device=device_name, requires_grad=True)

    def there_and_back(x: Any) -> Any:
        packed = rnn.pack_padded_sequence(x, [1, 3, 2], enforce_sorted=False)
        return rnn.pad_packed_sequence(packed._replace(data=packed.data**2))[0]

    def padded(*sequences: Any) -> Any:
        return rnn.pad_sequence(sequences, padding_side="left") ** 2

    assert tensor.autograd.gradcheck(there_and_back, (x,))
    assert tensor.autograd.gradgradcheck(there_and_back, (x,), fast_mode=True)
    sequences = tuple(
        tensor.randn(length, 2, dtype=tensor.float64, device=device_name, requires_grad=True)
        for length in (1, 3)
    )
    assert tensor.autograd.gradcheck(padded, sequences)
    assert tensor.autograd.gradgradcheck(padded, sequences, fast_mode=True)
    unpadded = rnn.unpad_sequence(x, tensor.tensor([1, 2, 3]))
    sum(each.sum() for each in unpadded).backward()
    assert float(x.grad.sum()) == 12


def test_pack_sequence(device_name: str) -> None:
    sequences = [tensor.ones(length, device=device_name) * length for length in (2, 3, 1)]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    assert packed.data.tolist() == [3, 2, 1, 3, 2, 3]
    assert packed.batch_sizes.tolist() == [3, 2, 1]
    assert packed.sorted_indices.tolist() == [1, 0, 2]
    assert packed.unsorted_indices.tolist() == [1, 0, 2]
    for left, right in zip(rnn.unpack_sequence(packed), sequences, strict=True):
        assert tensor.equal(left, right)


@pytest.mark.simulator_only
def test_devices_and_types() -> None:
    drv.simulator.install()
    packed = rnn.pack_sequence([tensor.ones(1, 2), tensor.ones(3, 2)], enforce_sorted=False)
    assert not packed.is_cuda
    assert packed.to("cpu") is packed
    assert packed.cpu() is packed
    assert packed.float() is packed
    there = packed.cuda()
    assert there.is_cuda
    assert there.cuda() is there
    assert isinstance(there, PackedSequence)
    assert there.batch_sizes is packed.batch_sizes
    assert there.sorted_indices.is_cuda
    assert there.unsorted_indices.is_cuda
    assert not there.cpu().is_cuda
    assert there.double().data.dtype is tensor.float64
    assert there.to(tensor.float16).sorted_indices.dtype is tensor.int64
    assert there.to(device="cpu", dtype=tensor.float64).data.dtype is tensor.float64
    for arguments in (("cuda", True), ("cuda", tensor.float64, True), (there.data.double(), False, True)):
        moved = packed.to(*arguments)
        assert moved.is_cuda
        assert moved.unsorted_indices.tolist() == packed.unsorted_indices.tolist()
    dtypes = {
        "double": tensor.float64, "float": tensor.float32, "half": tensor.float16, "long": tensor.int64,
        "int": tensor.int32, "short": tensor.int16, "char": tensor.int8, "byte": tensor.uint8,
    }  # fmt: skip
    for name, kind in dtypes.items():
        assert getattr(packed, name)().data.dtype is kind
    assert not packed.is_pinned()
    pinned = packed.pin_memory()
    assert pinned.is_pinned()
    assert pinned.sorted_indices.is_pinned()
    assert pinned.to("cuda", non_blocking=True).data.tolist() == packed.data.tolist()


def test_parts() -> None:
    data, sizes = tensor.ones(3), tensor.tensor([2, 1])
    packed = PackedSequence(data, sizes)
    assert packed.data is data
    assert PackedSequence((data, sizes)).batch_sizes is sizes
    indices = tensor.tensor([1, 2, 0])
    assert PackedSequence(data, sizes, indices).unsorted_indices.tolist() == [2, 0, 1]
    assert rnn.invert_permutation(indices).tolist() == [2, 0, 1]
    assert rnn.invert_permutation(None) is None
    assert repr(packed).startswith("PackedSequence(data=tensor([1., 1., 1.]), batch_sizes=tensor([2, 1])")
    fields, _, *rest = packed
    assert fields is data
    assert rest == [None, None]


WRONG: dict[str, tuple[Any, str]] = {
    "not sorted": (lambda r, t: r.pack_padded_sequence(t.ones(3, 2, 1), [1, 2]), "enforce_sorted=False"),
    "length 0": (lambda r, t: r.pack_padded_sequence(t.ones(3, 2, 1), [2, 0]), "greater than 0.*is 0"),
    "count": (lambda r, t: r.pack_padded_sequence(t.ones(3, 2, 1), [2]), r"got 1 \(batch_size=2\)"),
    "empty": (lambda r, t: r.pack_padded_sequence(t.ones(0, 2, 1), [1, 1]), "Cannot pack empty"),
    "lengths of two dimensions": (
        lambda r, t: r.pack_padded_sequence(t.ones(3, 2, 1), t.tensor([[1, 1]])),
        "1D CPU int64",
    ),
    "total length": (
        lambda r, t: r.pad_packed_sequence(r.pack_sequence([t.ones(3)]), total_length=2),
        "total_length=2 and max sequence length being 3",
    ),
    "no sequences": (lambda r, t: r.pad_sequence([]), "empty list"),
    "no iterable": (lambda r, t: r.pad_sequence(5), "Expected iterable"),
    "side": (lambda r, t: r.pad_sequence([t.ones(2)], padding_side="top"), "but got top"),
    "features": (lambda r, t: r.pad_sequence([t.ones(2, 3), t.ones(2, 4)]), r"got \[2, 4\]"),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name: str) -> None:
    call, message = WRONG[name]
    assert_refused_like_pytorch(lambda layers, t: call(layers.utils.rnn, t), message)


def test_lengths_beyond_the_padded_steps() -> None:
    # PyTorch packs fewer rows than the batch sizes say.
    with pytest.raises(RuntimeError, match="at most 3.*got 4"):
        rnn.pack_padded_sequence(tensor.ones(3, 2, 1), [4, 2])


@pytest.mark.simulator_only
def test_lengths_and_sizes_on_a_device() -> None:
    drv.simulator.install()
    with pytest.raises(RuntimeError, match="move it with lengths.cpu"):
        rnn.pack_padded_sequence(tensor.ones(3, 2, device="cuda"), tensor.tensor([2, 1], device="cuda"))
    with pytest.raises(ValueError, match="should always be on CPU, got cuda:0"):
        PackedSequence(tensor.ones(1), tensor.tensor([1], device="cuda"))


@pytest.mark.parity
def test_names_and_signatures() -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.nn.utils.rnn
    assert sorted(rnn.__all__) == sorted(theirs.__all__)
    for name in rnn.__all__:
        if not inspect.isclass(getattr(rnn, name)):
            assert_same_parameters(getattr(rnn, name), getattr(theirs, name))
    missing = {
        name
        for name in dir(theirs.PackedSequence)
        if not name.startswith("_") and not hasattr(PackedSequence, name)
    }
    assert not missing
    assert nn.utils.rnn is rnn


@pytest.mark.parity
def test_against_pytorch_in_one_program() -> None:
    def program(library: Any, layers: Any) -> Any:
        utilities = layers.utils.rnn
        x = library.arange(24.0).view(4, 3, 2)
        packed = utilities.pack_padded_sequence(x, library.tensor([2, 4, 1]), enforce_sorted=False)
        back, lengths = utilities.pad_packed_sequence(packed, batch_first=True, padding_value=-1)
        return list(packed), back, lengths, utilities.unpack_sequence(packed)

    assert_like_pytorch(program)
