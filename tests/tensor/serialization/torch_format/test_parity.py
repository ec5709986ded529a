"""Files that PyTorch itself writes and reads."""

from __future__ import annotations

import io
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nvrtc_kernels import dtypes
from tests.pytorch import torch
from tests.tensor.comparison import array_of
from tests.tensor.serialization.checkpoints import KINDS, assert_same, numbers

pytestmark = pytest.mark.parity

FORMATS = pytest.mark.parametrize("zipped", [True, False], ids=["archive", "before"])


def read_by_us(value: Any, *, zipped: bool = True, **options: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    return tensor.load(file, **options)


def read_by_torch(value: Any, **options: Any) -> Any:
    file = io.BytesIO()
    tensor.save(value, file, format="torch")
    file.seek(0)
    return torch.load(file, weights_only=True, **options)


def to_torch(value: Any) -> Any:
    """The same tensor in PyTorch, laid out alike."""
    array = array_of(value)
    if value.dtype is tensor.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def same(ours: Any, theirs: Any) -> None:
    assert str(ours.dtype).removeprefix("tensor.") == str(theirs.dtype).removeprefix("torch.")
    assert tuple(ours.shape) == tuple(theirs.shape)
    if theirs.numel() > 1:
        assert tuple(ours.stride()) == tuple(theirs.stride())
    assert ours.storage_offset() == theirs.storage_offset()
    assert ours.requires_grad == theirs.requires_grad
    plain = theirs.detach().resolve_conj()
    expected = plain.view(torch.int16).numpy() if theirs.dtype is torch.bfloat16 else plain.numpy()
    actual = array_of(ours.detach())
    np.testing.assert_array_equal(
        actual.view(np.int16) if theirs.dtype is torch.bfloat16 else actual, expected
    )


@KINDS
@FORMATS
def test_tensors_that_pytorch_wrote(kind: dtypes.dtype, zipped: bool) -> None:
    leaf = to_torch(numbers(kind, 4, 6))
    argument = {
        "whole": leaf,
        "part": leaf[1:, ::2],
        "t": leaf.t(),
        "one": leaf[2, 3],
        "expanded": leaf[0, :1].expand(5),
        "scalar": torch.tensor(1).to(leaf.dtype),
        "empty": leaf[:0],
        "none": torch.empty(0, 3, dtype=leaf.dtype),
        "corner": leaf[4:, 3:],
    }
    result = read_by_us(argument, zipped=zipped)
    for name, each in argument.items():
        same(result[name], each)
    assert result["t"].data_ptr() == result["whole"].data_ptr()
    result["whole"].fill_(1)
    assert bool((result["expanded"] == 1).all())


@KINDS
def test_tensors_that_pytorch_reads(kind: dtypes.dtype, device_name: str) -> None:
    leaf = numbers(kind, 4, 6).to(device_name)
    argument = {"whole": leaf, "part": leaf[1:, ::2], "t": leaf.t(), "one": leaf[2, 3], "empty": leaf[:0]}
    argument["scalar"] = numbers(kind, 1)[0]
    result = read_by_torch(argument, map_location="cpu")
    for name, each in argument.items():
        same(each.cpu() if name in ("whole", "t", "empty") else each, result[name])
    assert result["t"].data_ptr() == result["whole"].data_ptr()


@FORMATS
def test_containers_and_numbers(zipped: bool) -> None:
    argument = {
        "list": [None, True, 0, 255, 65535, -1, 2**31, -(2**70), 0.1, float("inf"), "text \ud800", ""],
        "tuple": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
        "sets": [set(), {1, "a"}, frozenset((2,))],
        "bytes": [b"", b"\0\xff", bytearray(b"q")],
        "more": [
            1 + 2j,
            slice(1, None, 2),
            range(3),
            OrderedDict(a=1),
            Counter("aab"),
            defaultdict(list, a=[1]),
        ],
        1: {2.5: {None: (), (1, "a"): []}},
    }
    argument["again"] = argument["list"]
    result = read_by_us(argument, zipped=zipped)
    assert_same(result, argument)
    assert result["again"] is result["list"]
    arrays = [
        np.arange(6.0).reshape(2, 3).T,
        np.float32(2),
        np.bool_(1),
        np.array("ab"),
        np.ones((0, 2), np.int8),
        np.dtype("i2"),
    ]
    for each, expected in zip(read_by_us(arrays, zipped=zipped), arrays, strict=True):
        assert type(each) is type(expected)
        np.testing.assert_array_equal(each, expected)
    own = read_by_us([torch.Size([1, 2]), torch.device("cuda", 1), torch.bfloat16, torch.bool], zipped=zipped)
    assert_same(own, [tensor.Size([1, 2]), tensor.device("cuda:1"), tensor.bfloat16, tensor.bool])


@FORMATS
def test_modules_and_optimizers_that_pytorch_wrote(zipped: bool) -> None:
    def trained(modules: Any, optimizers: Any, library: Any) -> Any:
        model = modules.Sequential(
            modules.BatchNorm2d(1), modules.Conv2d(1, 2, 3), modules.Flatten(), modules.Linear(8, 2)
        )
        return (
            model,
            optimizers.AdamW(model.parameters(), lr=0.1),
            library.arange(32.0).sin().reshape(2, 1, 4, 4),
        )

    model, optimizer, inputs = trained(torch.nn, torch.optim, torch)
    model(inputs).square().sum().backward()
    optimizer.step()
    result = read_by_us({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, zipped=zipped)
    ours, our_optimizer, our_input = trained(nn, nn.optim, tensor)
    ours.load_state_dict(result["model"])
    our_optimizer.load_state_dict(result["optimizer"])
    assert result["model"]._metadata == model.state_dict()._metadata
    for _ in range(2):
        for each, one, with_input in ((model, optimizer, inputs), (ours, our_optimizer, our_input)):
            one.zero_grad()
            each(with_input).square().sum().backward()
            one.step()
    for name, each in model.state_dict().items():
        np.testing.assert_allclose(array_of(ours.state_dict()[name]), each.numpy(), rtol=1e-4, atol=1e-5)
    # And back.
    theirs = read_by_torch({"model": ours.state_dict(), "optimizer": our_optimizer.state_dict()})
    model.load_state_dict(theirs["model"])
    optimizer.load_state_dict(theirs["optimizer"])
    for name, each in ours.state_dict().items():
        same(each, model.state_dict()[name])
    assert theirs["model"]._metadata == ours.state_dict()._metadata


@FORMATS
def test_parameters_buffers_and_attributes_that_pytorch_wrote(zipped: bool) -> None:
    noted = torch.ones(2)
    noted.note = "mine"
    trained = torch.nn.Parameter(torch.ones(2))
    trained.note = [1]
    frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    buffer = torch.nn.Buffer(torch.ones(1), persistent=False)
    conjugate = torch.tensor([1 + 2j]).conj()
    leaf = torch.ones(1, requires_grad=True)
    argument = [noted, trained, frozen, buffer, leaf] + [conjugate] * zipped
    result = read_by_us(argument, zipped=zipped)
    for ours, theirs in zip(result, argument, strict=True):
        same(ours, theirs)
    assert [type(each) for each in result[:5]] == [
        tensor.Tensor,
        nn.Parameter,
        nn.Parameter,
        nn.Buffer,
        tensor.Tensor,
    ]
    assert (result[0].note, result[1].note, result[3].persistent) == ("mine", [1], False)


def test_parameters_and_values_that_pytorch_reads() -> None:
    noted = tensor.ones(2)
    noted.note = "mine"
    trained = nn.Parameter(tensor.ones(2))
    trained.note = [1]
    values = [
        None,
        True,
        255,
        -1,
        2**31,
        2**70,
        0.1,
        "text",
        (),
        (1,),
        {1, "a"},
        b"\0\xff",
        bytearray(b"q"),
        1j,
        Counter("aab"),
    ]
    argument = {
        "tensors": [
            noted,
            trained,
            nn.Parameter(tensor.ones(1), False),
            nn.Buffer(tensor.ones(1)),
            tensor.ones(1),
        ],
        "views": [noted.view(tensor.int32)],
        "values": values,
        "own": [tensor.Size([1, 2]), tensor.device("cuda:1"), tensor.bfloat16],
    }
    result = read_by_torch(argument)
    for ours, theirs in zip(argument["tensors"], result["tensors"], strict=True):
        same(ours, theirs)
    assert [type(each) is torch.nn.Parameter for each in result["tensors"]] == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert isinstance(result["tensors"][3], torch.nn.Buffer)
    assert (result["tensors"][0].note, result["tensors"][1].note) == ("mine", [1])
    assert result["views"][0].data_ptr() == result["tensors"][0].data_ptr()
    assert_same(result["values"], values)
    assert result["own"] == [torch.Size([1, 2]), torch.device("cuda:1"), torch.bfloat16]


def test_storages_of_devices(tmp_path: Path) -> None:
    import drv

    drv.simulator.install(devices=2, check="race")
    file = io.BytesIO()
    tensor.save({"a": tensor.arange(6.0, device="cuda:1")[2:]}, file, format="torch")
    file.seek(0)
    with pytest.raises(RuntimeError, match="CUDA"):
        torch.load(file, weights_only=True)
    seen: list[str] = []
    file.seek(0)
    result = torch.load(
        file, weights_only=True, map_location=lambda storage, place: seen.append(place) or storage
    )
    assert seen == ["cuda:1"]
    assert result["a"].tolist() == [2, 3, 4, 5]


def test_mapped_files_and_checksums_left_out(tmp_path: Path) -> None:
    argument = {"a": torch.arange(6.0), "b": torch.ones(3, dtype=torch.bool), "none": torch.ones(0)}
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(argument, tmp_path / "theirs")
    finally:
        torch.serialization.set_crc32_options(True)
    for options in ({}, {"mmap": True}):
        result = tensor.load(tmp_path / "theirs", **options)
        for name, each in argument.items():
            same(result[name], each)
    tensor.save(result, tmp_path / "ours", format="torch")
    for name, each in torch.load(tmp_path / "ours", mmap=True).items():
        same(result[name], each)


@FORMATS
def test_whole_modules_and_foreign_tensors_are_refused(zipped: bool) -> None:
    for value, message in (
        (torch.nn.Linear(1, 1), "names torch.nn.modules.linear.Linear.*state_dict"),
        (torch.ones(2).to_sparse(), "sparse|_rebuild_sparse_tensor"),
        (torch.ones(2).to(torch.float8_e5m2fnuz), "torch.float8_e5m2fnuz"),
        (torch.ones(2, device="meta"), "_rebuild_meta_tensor"),
        (np.array([None]), "NumPy's type 'O"),
    ):
        for weights_only in (True, False):
            with pytest.raises(tensor.serialization.UnpicklingError, match=message):
                read_by_us(value, zipped=zipped, weights_only=weights_only)
