"""Checkpoints and other programs that know safetensors."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import pytest
import safetensors
import safetensors.numpy

import tensor
from nvrtc_kernels import dtypes
from tests.tensor.comparison import array_of, assert_same_elements

from .checkpoints import KINDS, assert_same, numbers


def test_other_programs_find_the_tensors(tmp_path: Path) -> None:
    argument = {
        "model": OrderedDict({"conv.weight": tensor.arange(6.0).reshape(2, 3).t()}),
        "optimizer": {"state": {0: {"step": tensor.tensor(3.0)}}},
        "conv": {"weight": tensor.ones(1)},
        "conv.weight": tensor.zeros(1),
        "__metadata__": tensor.ones(2),
        "\ud800": tensor.ones(3),
        "z": tensor.full((2,), 1 + 2j, dtype=tensor.complex128),
        "c": tensor.full((2,), 1 + 2j, dtype=tensor.complex64),
    }
    tensor.save(argument, tmp_path / "it")
    assert_same(tensor.load(tmp_path / "it"), argument)
    result = safetensors.numpy.load_file(tmp_path / "it")
    assert {name: array.tolist() for name, array in result.items()} == {
        "model.conv.weight": [[0, 3], [1, 4], [2, 5]],
        "optimizer.state.0.step": 3,
        "conv.weight": [1],
        "conv.weight.2": [0],
        "__metadata__.2": [1, 1],
        "\\ud800": [1, 1, 1],
        "z": [[1, 2], [1, 2]],
        "c": [1 + 2j, 1 + 2j],
    }
    tensor.save(tensor.ones(2), tmp_path / "it")
    assert list(safetensors.numpy.load_file(tmp_path / "it")) == ["tensor"]


@pytest.mark.parity
@KINDS
def test_pytorch_reads_and_writes_the_same(kind: dtypes.dtype, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    argument = {"a.weight": numbers(kind, 2, 3), "a.scale": numbers(kind), "none": numbers(kind, 0, 2)}
    tensor.save(argument, tmp_path / "ours")
    theirs = load_file(tmp_path / "ours")
    if kind is not tensor.complex128:
        for name, each in argument.items():
            assert_same_elements(array_of(theirs[name]), array_of(each))
    if kind is tensor.complex128:
        theirs = {name: torch.view_as_complex(each) for name, each in theirs.items()}
        with pytest.raises((ValueError, RuntimeError, KeyError)):
            save_file(theirs, tmp_path / "theirs")
        return
    save_file(theirs, tmp_path / "theirs", metadata={"format": "pt"})
    result = tensor.load(tmp_path / "theirs")
    assert type(result) is dict
    for name, each in argument.items():
        assert_same(result[name], each)
        assert_same(tensor.load(tmp_path / "theirs", mmap=True)[name], each)


def test_types_that_there_are_no_tensors_of(tmp_path: Path) -> None:
    header = b'{"a":{"dtype":"F8_E8M0","shape":[2],"data_offsets":[0,2]}}'
    (tmp_path / "it").write_bytes(len(header).to_bytes(8, "little") + header + bytes(2))
    with pytest.raises(
        RuntimeError, match="tensor 'a' has type 'F8_E8M0', which there is no tensor of; known are BOOL"
    ):
        tensor.load(tmp_path / "it")
