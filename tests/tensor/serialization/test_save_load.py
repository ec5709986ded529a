"""What ``tensor.save`` writes, ``tensor.load`` reads."""

from __future__ import annotations

import io
import math
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy

import drv
import nn
import tensor
from nvrtc_kernels import dtypes
from tensor import Tensor
from tests.tensor.comparison import array_of

from .checkpoints import KINDS, assert_same, numbers, through_file

VALUES = [
    None, True, False, 0, -1, 2**63 - 1, -(2**63), 2**63, -(2**64) - 7, 0.1, -0.0, 5e-324, math.inf, -math.inf,
    math.nan, 1j, complex(math.nan, -math.inf), complex(-0.0, 0.0), "", "a\0ü\ud800\U0001f600", [], (), {}, [[[]]], ((),),
    slice(None), slice(1, -2, 3), tensor.float16, tensor.bool, tensor.device("cpu"), tensor.device("cuda:3"),
    tensor.device("cuda"), tensor.Size([]), tensor.Size([2, 0]), {0: 1, "0": 2, (0, None): 3, 1.5: 4, None: 5, True: 6},
    {"tensor": "x", "same": 0, "dict": {}, "__metadata__": 1}, OrderedDict(b=1, a=2), OrderedDict([(3, 4)]),
    Counter({30: 2, 80: 1, 3: -1}), defaultdict(list, a=[1]), defaultdict(None, {1: 2}), {"": {"": {"": 1}}},
    np.float32(0.1), np.float64("nan"), np.int64(-3), np.uint64(2**64 - 1), np.bool_(True), np.complex64(1 - 2j),
    np.float16(-0.0), dtypes.bfloat16.numpy.type(1.5), {np.int32(1): np.int32(2)}, {tensor.int8: 1},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: ascii(value)[:30])
def test_values(value: Any) -> None:
    assert_same(through_file(value), value)
    assert_same(through_file({"a": [value, (value,)]}), {"a": [value, (value,)]})


def test_numbers_of_more_digits_than_python_converts() -> None:
    assert through_file(10**9000 + 7) == 10**9000 + 7


@KINDS
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3), (2, 1, 4)])
def test_tensors(kind: dtypes.dtype, shape: tuple[int, ...]) -> None:
    argument = numbers(kind, *shape)
    result = through_file({"a": argument})["a"]
    assert_same(result, argument)
    assert result.stride() == argument.stride()
    assert (result.fill_(1) == 1).all()


@KINDS
def test_order_of_dimensions_is_kept(kind: dtypes.dtype) -> None:
    whole = numbers(kind, 2, 3, 4)
    for part in (whole.transpose(0, 2), whole.permute(1, 2, 0)):
        result = through_file(part)
        assert_same(result, part)
        assert result.stride() == part.stride()
        assert not result.is_contiguous()
    picture = numbers(kind, 2, 3, 4, 5).to(memory_format=tensor.channels_last)
    assert through_file([picture])[0].is_contiguous(memory_format=tensor.channels_last)


@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_parts_are_stored_without_what_is_around_them(where: str) -> None:
    if where == "cuda":
        drv.simulator.install(check="race")
    whole = tensor.arange(120000.0, device=where).reshape(300, 400)
    for part in (whole[5], whole[:, 7], whole[::50, ::40], whole.t()[::50, 3:5], whole[3, 4], whole[:, :0]):
        file = io.BytesIO()
        tensor.save(part, file)
        assert len(file.getvalue()) < 3000
        assert_same(through_file(part), part)
    wide = whole[:2, :3].unsqueeze(1).expand(2, 100000, 3)
    file = io.BytesIO()
    tensor.save(wide, file)
    assert len(file.getvalue()) < 1000
    result = through_file(wide)
    assert result.shape == wide.shape
    assert result.stride(1) == 0
    assert (result == wide).all()
    windows = whole.view(-1)[:10].unfold(0, 4, 1)
    assert_same(through_file(windows), windows)
    assert through_file(windows).stride() == (1, 1)


def test_memory_that_is_shared_is_shared_again() -> None:
    whole = tensor.arange(12.0).reshape(3, 4)
    parameter = nn.Parameter(whole)
    argument = {
        "whole": whole,
        "again": whole,
        "row": whole[1],
        "t": whole.t(),
        "bits": whole.view(tensor.int32),
        "bytes": whole.view(tensor.uint8)[:, 3:6],
        "parameter": parameter,
        "apart": whole.clone(),
    }
    result = through_file(argument)
    assert_same(result, argument)
    assert result["whole"] is result["again"]
    assert result["parameter"] is not result["whole"]
    result["row"].fill_(-1)
    for name, each in result.items():
        if name not in ("row", "apart", "bytes"):
            assert array_of(each.t() if name == "t" else each)[1, 0] != array_of(argument["apart"])[1, 0], (
                name
            )
    assert_same(result["apart"], argument["apart"])
    file = io.BytesIO()
    tensor.save(argument, file)
    stored = safetensors.numpy.load(file.getvalue())
    assert sorted(stored) == ["apart", "whole"]


def test_parts_that_overlap_without_a_whole() -> None:
    memory = tensor.arange(20.0)
    argument = [
        memory[:8],
        memory[4:14],
        memory[2:12].view(tensor.int64),
        memory[15:],
        memory.view(5, 4)[:, 1][:2],
    ]
    result = through_file(argument)
    assert_same(result, argument)
    result[0][5] = 100.0
    assert result[1][1] == 100.0
    assert result[4][1] == 100.0
    assert result[3].untyped_storage().nbytes() == 20


def test_containers_that_are_the_same_are_so_again_and_grow_no_file() -> None:
    shared: list[Any] = [tensor.ones(1)]
    for _ in range(60):
        shared = [shared, shared]
    result = through_file({"a": shared, "b": shared})
    assert result["a"] is result["b"]
    assert result["a"][0] is result["a"][1]


def test_parameters_buffers_gradients_and_attributes() -> None:
    parameter = nn.Parameter(tensor.ones(2, dtype=tensor.float64))
    frozen = nn.Parameter(tensor.ones(2), requires_grad=False)
    buffer = nn.Buffer(tensor.arange(3), persistent=False)
    leaf = tensor.zeros(3, requires_grad=True)
    leaf.note = {"why": (1, tensor.ones(1))}
    computed = leaf * 2
    parameter.sum().backward()
    argument = [parameter, frozen, buffer, leaf]
    result = through_file(argument)
    assert_same(result, argument)
    assert result[0].grad is None
    assert result[2].persistent is False
    assert result[0].is_leaf
    result = through_file(computed)
    assert result.requires_grad and result.is_leaf
    with pytest.raises(AttributeError):
        assert through_file(tensor.ones(1)).note


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
        self.head = nn.Linear(3, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


def training(device: str) -> tuple[Any, Any, Any, Any]:
    tensor.manual_seed(1)
    model = Model().to(device)
    optimizer = nn.optim.Adam(model.parameters(), lr=0.01, amsgrad=True)
    scheduler = nn.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            nn.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=2),
            nn.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4, 4]),
        ],
        milestones=[2],
    )

    def step() -> float:
        optimizer.zero_grad()
        inputs = tensor.randn(8, 4, device=device)
        loss = nn.functional.mse_loss(model(inputs), inputs[:, :3])
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.item()

    return model, optimizer, scheduler, step


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_training_goes_on_as_if_it_had_not_stopped(device: str, tmp_path: Path) -> None:
    if device == "cuda":
        drv.simulator.install(check="race")
    generator = tensor.cuda.get_rng_state if device == "cuda" else tensor.get_rng_state
    model, optimizer, scheduler, step = training(device)
    for _ in range(4):
        step()
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "generator": generator(),
        "epoch": 4,
    }
    tensor.save(checkpoint, tmp_path / "it")
    expected = [step() for _ in range(4)]
    model, optimizer, scheduler, step = training(device)
    result = tensor.load(tmp_path / "it")
    assert type(result["model"]) is OrderedDict
    assert result["model"]._metadata == checkpoint["model"]._metadata
    model.load_state_dict(result["model"])
    optimizer.load_state_dict(result["optimizer"])
    scheduler.load_state_dict(result["scheduler"])
    (tensor.cuda.set_rng_state if device == "cuda" else tensor.set_rng_state)(result["generator"])
    assert [step() for _ in range(4)] == expected
