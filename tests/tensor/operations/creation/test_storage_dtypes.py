"""Dtypes that elements are stored in and hardly computed with: uint16, uint32, uint64 and float8."""

from __future__ import annotations

import copy
import io
import math
import operator
import pickle
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import tensor
from nvrtc_kernels import dtypes
from tests.pytorch import torch
from tests.tensor.comparison import array_of, assert_same, torch_dtype

if TYPE_CHECKING:
    from pathlib import Path

STORED = pytest.mark.parametrize("kind", dtypes.STORAGE_ONLY, ids=lambda kind: kind.name)
UNSIGNED = pytest.mark.parametrize("kind", dtypes.UNSIGNED, ids=lambda kind: kind.name)
FLOAT8 = pytest.mark.parametrize("kind", dtypes.FLOAT8, ids=lambda kind: kind.name)


def _patterns(kind: dtypes.dtype) -> Any:
    """Every bit pattern of a type of one or two bytes."""
    if kind is dtypes.bool_:
        return np.array([False, True])
    return np.arange(1 << 8 * kind.itemsize).astype(f"u{kind.itemsize}").view(kind.numpy)


def _assert_conversion(array: Any, kind: dtypes.dtype, to: dtypes.dtype, device: str) -> None:
    """Compare a conversion with PyTorch's, where it is defined: out of an integer's range it is not."""
    if kind.is_floating_point and to.category is dtypes.Category.INTEGER:
        bits = {4: 31, 8: 63}.get(to.itemsize, 31)
        with np.errstate(invalid="ignore"):
            numbers = array.astype(np.float64)
            inside = np.isfinite(numbers) & (np.abs(np.trunc(numbers)) < 2.0**bits)
        array = array[inside]
    result = tensor.from_numpy(array).to(device).to(to)
    source = torch.from_numpy(array.view(np.uint8)).view(torch_dtype(kind))
    assert_same(result, source.to(torch_dtype(to)))


@pytest.mark.parity
@pytest.mark.parametrize("to", dtypes.EVERY, ids=lambda to: to.name)
@FLOAT8
def test_every_float8_converts_as_pytorchs(kind: dtypes.dtype, to: dtypes.dtype, device_name: str) -> None:
    _assert_conversion(_patterns(kind), kind, to, device_name)


@pytest.mark.parity
@pytest.mark.parametrize(
    "kind",
    [each for each in dtypes.EVERY if each.itemsize <= 2 and each is not dtypes.bool_],
    ids=lambda kind: kind.name,
)
@pytest.mark.parametrize("to", dtypes.STORAGE_ONLY, ids=lambda to: to.name)
@pytest.mark.filterwarnings("ignore:.*writable")
@pytest.mark.sampled(3)
def test_every_pattern_of_16_bits_converts_as_pytorchs(
    kind: dtypes.dtype, to: dtypes.dtype, device_name: str
) -> None:
    _assert_conversion(_patterns(kind), kind, to, device_name)


@pytest.mark.parity
@pytest.mark.parametrize("to", dtypes.STORAGE_ONLY, ids=lambda to: to.name)
@pytest.mark.parametrize("kind", [dtypes.float32, dtypes.float64, dtypes.int64, dtypes.uint64], ids=str)
def test_wide_numbers_convert_as_pytorchs(kind: dtypes.dtype, to: dtypes.dtype) -> None:
    @given(arrays.arrays(f"u{kind.itemsize}", 16))
    def check(patterns: Any) -> None:
        _assert_conversion(patterns.view(kind.numpy), kind, to, "cpu")

    check()


@pytest.mark.parity
@FLOAT8
def test_rounding_to_float8_on_every_side_of_every_tie(kind: dtypes.dtype, device_name: str) -> None:
    held = np.unique(np.abs(_patterns(kind).astype(np.float32)))
    held = held[np.isfinite(held)]
    ties = np.concatenate([(held[1:] + held[:-1]) / 2, [held[-1] + (held[-1] - held[-2]) / 2]])
    near = [np.nextafter(ties, np.float32(0)), ties, np.nextafter(ties, np.float32(np.inf))]
    values = np.concatenate(near).astype(np.float32)
    values = np.concatenate([values, -values, [np.inf, -np.inf, np.nan, 1e-45]]).astype(np.float32)
    _assert_conversion(values, dtypes.float32, kind, device_name)


@FLOAT8
def test_float8_has_no_more_than_pytorch_says(kind: dtypes.dtype, device_name: str) -> None:
    largest = tensor.finfo(kind).max
    x = tensor.tensor([math.inf, -math.inf, 1e30, math.nan, -0.0, 2 * largest], device=device_name).to(kind)
    beyond = largest if kind is dtypes.float8_e4m3fn else math.inf
    assert x.tolist()[:3] == [beyond, -beyond, beyond]
    assert math.isnan(x.tolist()[3])
    assert math.copysign(1, x.tolist()[4]) == -1
    assert x[5].item() == beyond
    # NaN keeps its sign, and has all bits set.
    signed = tensor.tensor([-1, 0x7FFFFFFF], dtype=tensor.int32, device=device_name).view(tensor.float32)
    assert signed.to(kind).view(tensor.uint8).tolist() == [0xFF, 0x7F]
    assert type(x[0].item()) is float


@FLOAT8
def test_copies_keep_the_bits_of_every_nan(kind: dtypes.dtype, device_name: str) -> None:
    patterns = tensor.arange(256, dtype=tensor.uint8, device=device_name)
    x = patterns.view(kind)
    square = x.view(16, 16)
    for whole in (x.clone(), tensor.cat([x[:9], x[9:]]), x[tensor.arange(256, device=device_name)], x.cpu()):
        assert whole.view(tensor.uint8).tolist() == list(range(256))
    turned = square.t().contiguous()
    assert turned.view(tensor.uint8).tolist() == patterns.view(16, 16).t().tolist()


@STORED
@pytest.mark.sampled(4)
def test_made_moved_and_shown(kind: dtypes.dtype, device_name: str) -> None:
    on: dict[str, Any] = {"dtype": kind, "device": device_name}
    x = tensor.tensor([[1, 2, 3], [4, 5, 6]], **on)
    number = float if kind.is_floating_point else int
    rows = [[number(each) for each in row] for row in ([1, 2, 3], [4, 5, 6])]
    assert x.tolist() == rows
    assert x[1].tolist() == rows[1]
    assert x[:, 1].tolist() == [row[1] for row in rows]
    assert x.index_select(1, tensor.tensor([2, 0], device=device_name)).tolist() == [
        [r[2], r[0]] for r in rows
    ]
    assert x[x != 2].tolist() == [1, 3, 4, 5, 6]
    assert x.gather(1, tensor.tensor([[0], [2]], device=device_name)).tolist() == [[1], [6]]
    assert x.repeat(1, 2).tolist() == [row * 2 for row in rows]
    assert tensor.stack([x, x]).tolist() == [rows, rows]
    assert x.roll(1, 1).tolist() == [[row[2], *row[:2]] for row in rows]
    assert x.flip(0).tolist() == rows[::-1]
    assert x.t().flip(1).tolist() == [[row[k] for row in rows[::-1]] for k in range(3)]
    assert x.rot90().tolist() == [[row[k] for row in rows] for k in (2, 1, 0)]
    assert tensor.where(x == 3, tensor.zeros(2, 3, **on), x).tolist() == [[1, 2, 0], [4, 5, 6]]
    x[0, 0] = 7
    x[1] = 2
    x[:, 2] = tensor.tensor([8, 0], **on)
    assert x.tolist() == [[7, 2, 8], [2, 2, 0]]
    assert x.any().item()
    assert not x.all().item()
    for made in (tensor.ones(2, **on), tensor.full((2,), 1, **on), tensor.zeros(2, **on).fill_(1)):
        assert made.tolist() == [1, 1]
        assert made.dtype is kind
    assert tensor.scalar_tensor(3, **on).item() == 3
    assert tensor.zeros_like(x).sum(dtype=tensor.float32).item() == 0
    assert tensor.equal(copy.deepcopy(x), x)
    assert f"dtype=tensor.{kind.name}" in repr(x)
    assert x.type().endswith(f"{kind.scalar_type}Tensor")


@UNSIGNED
@pytest.mark.sampled(4)
def test_the_largest_unsigned_numbers(kind: dtypes.dtype, device_name: str) -> None:
    limits = tensor.iinfo(kind)
    largest = (1 << 8 * kind.itemsize) - 1
    assert (limits.min, limits.max, limits.bits) == (0, largest, 8 * kind.itemsize)
    x = tensor.full((3,), largest, dtype=kind, device=device_name)
    assert x.tolist() == [largest] * 3
    assert str(largest) in repr(x)
    assert (x == largest).tolist() == [True] * 3
    assert (x * 2).tolist() == [largest - 1] * 3
    assert (x & 6 | tensor.ones_like(x)).tolist() == [7] * 3
    assert tensor.tensor(-1, device=device_name).to(kind).item() == largest
    assert tensor.sort(tensor.tensor([3, largest, 0], dtype=kind, device=device_name))[0].tolist() == [
        0,
        3,
        largest,
    ]
    drawn = tensor.randint(0, 7, (50,), dtype=kind, device=device_name)
    assert set(drawn.tolist()) <= set(range(7))
    assert x.to(tensor.float64)[0].item() == float(largest)
    with pytest.raises(RuntimeError, match="without overflow"):
        tensor.full((1,), largest + 1, dtype=kind, device=device_name) if largest < 1 << 62 else x.fill_(-1.5)


@STORED
def test_what_is_not_computed_says_so(kind: dtypes.dtype, device_name: str) -> None:
    x = tensor.ones(4, dtype=kind, device=device_name)
    advice = rf"not implemented for '{kind.scalar_type}'.*\.to\(tensor\."
    for function in (
        operator.neg,
        lambda x: x + x,
        lambda x: x < x,
        lambda x: x - 1,
        lambda x: x.amax(),
        lambda x: x.nonzero(),
        lambda x: x @ x,
        lambda x: x.clamp(0, 1),
        lambda x: x.scatter_add(0, tensor.tensor([0], device=device_name), x[:1]),
        lambda x: tensor.arange(3, dtype=kind, device=device_name),
        lambda x: tensor.rand(3, dtype=kind, device=device_name),
        lambda x: tensor.randperm(3, dtype=kind, device=device_name),
    ):
        with pytest.raises(NotImplementedError, match=advice if function is operator.neg else None):
            function(x)
    assert x.tolist() == [1] * 4


@FLOAT8
def test_float8_promotes_to_nothing(kind: dtypes.dtype) -> None:
    x = tensor.ones(2, dtype=kind)
    with pytest.raises(
        RuntimeError, match="Promotion for Float8 Types is not supported, .* and Float; convert"
    ):
        x * tensor.ones(2)
    assert tensor.result_type(x, 1.5) is kind
    with pytest.raises(TypeError, match="only floating-point types are supported as the default"):
        tensor.set_default_dtype(kind)
    assert (x * x).dtype is kind


@UNSIGNED
def test_unsigned_promotes_to_floating_point_only(kind: dtypes.dtype, device_name: str) -> None:
    x = tensor.tensor([1, 2], dtype=kind, device=device_name)
    assert (x + tensor.ones(2, device=device_name)).tolist() == [2, 3]
    assert (x / 2).dtype is tensor.float32
    assert x.sum().dtype is tensor.int64
    assert x.sum().item() == 3
    assert x.cumsum(0).tolist() == [1, 3]
    assert x.sqrt().dtype is tensor.float32
    with pytest.raises(RuntimeError, match=f"attempted to promote {kind.scalar_type} and Long"):
        x * tensor.tensor([1, 2], device=device_name)


@STORED
def test_bytes_shared_with_numpy_and_views(kind: dtypes.dtype) -> None:
    array = np.array([1, 2, 3]).astype(kind.numpy)
    x = tensor.from_numpy(array)
    assert x.dtype is kind
    array[0] = 5
    assert x[0].item() == 5
    assert x.numpy().dtype == kind.numpy
    assert x.view(tensor.uint8).view(kind).tolist() == [5, 2, 3]
    assert x.view(tensor.uint8).numel() == 3 * kind.itemsize
    assert tensor.frombuffer(bytearray(8), dtype=kind).numel() == 8 // kind.itemsize
    assert tensor.from_numpy(array[::2]).tolist() == [5, 3]
    assert tensor.tensor(array).tolist() == tensor.tensor(list(array)).tolist() == [5, 2, 3]


@STORED
def test_files_and_pickles(kind: dtypes.dtype, tmp_path: Path, device_name: str) -> None:
    x = tensor.tensor([1, 2, 3, 4], device=device_name).to(kind)
    for keywords in ({}, {"format": "torch"}):
        tensor.save({"x": x, "part": x[1:3]}, tmp_path / "it", **keywords)
        result = tensor.load(tmp_path / "it")
        assert result["x"].dtype is kind
        assert result["x"].tolist() == [1, 2, 3, 4]
        result["x"][1] = 6
        assert result["part"].tolist() == [6, 3]
    assert pickle.loads(pickle.dumps(x)).tolist() == [1, 2, 3, 4]


@pytest.mark.parity
@STORED
@pytest.mark.parametrize("zipped", [True, False])
def test_files_of_pytorch(kind: dtypes.dtype, tmp_path: Path, zipped: bool) -> None:
    import safetensors.torch

    theirs = torch.tensor([[1, 2], [3, 4]]).to(torch_dtype(kind))
    torch.save({"x": theirs, "y": theirs.t()}, tmp_path / "theirs", _use_new_zipfile_serialization=zipped)
    result = tensor.load(tmp_path / "theirs")
    assert_same(result["x"], theirs)
    assert_same(result["y"], theirs.t())
    tensor.save(result, tmp_path / "ours", format="torch")
    back = torch.load(tmp_path / "ours", weights_only=True)
    assert_same(result["y"], back["y"])
    safetensors.torch.save_file({"x": theirs}, tmp_path / "safe")
    assert_same(tensor.load(tmp_path / "safe")["x"], theirs)
    tensor.save({"x": result["x"]}, tmp_path / "safe")
    assert torch.equal(safetensors.torch.load_file(tmp_path / "safe")["x"].float(), theirs.float())


@pytest.mark.parity
@STORED
def test_shown_and_limited_as_pytorch_does(kind: dtypes.dtype, device_name: str) -> None:
    values = torch.tensor([1.0, 2.5, 100.0, 0.01]).to(torch_dtype(kind))
    result = tensor.tensor([1.0, 2.5, 100.0, 0.01]).to(device_name).to(kind)
    assert repr(result.cpu()).replace("dtype=tensor.", "dtype=torch.") == repr(values)
    limits = "finfo" if kind.is_floating_point else "iinfo"
    mine, theirs = getattr(tensor, limits)(kind), getattr(torch, limits)(torch_dtype(kind))
    names = ["bits", "max", "min", "dtype"] + (
        ["eps", "tiny", "resolution"] if kind.is_floating_point else []
    )
    for name in names:
        assert getattr(mine, name) == getattr(theirs, name), name
    assert (kind.is_signed, kind.itemsize) == (theirs.min < 0, torch_dtype(kind).itemsize)


@pytest.mark.parity
@STORED
def test_dlpack_with_pytorch(kind: dtypes.dtype) -> None:
    theirs = torch.tensor([1, 2, 3]).to(torch_dtype(kind))
    assert_same(tensor.from_dlpack(theirs), theirs)
    ours = tensor.tensor([3, 4]).to(kind)
    assert array_of(torch.from_dlpack(ours)).tolist() == array_of(ours).tolist()


#: Calls on a tensor ``x`` of four elements, a mask ``k`` and indices ``i``, of which PyTorch has some for these dtypes.
CALLS = """
x * x; x == x; x != x; x == 1; x / x; x & x; x | x; x ^ x; ~x; x + x; x - x; x // x; x % x; x ** x; x < x; x >= x
m.maximum(x, x); m.where(k, x, x); m.where(k, x, 1); m.isclose(x, x); m.equal(x, x); m.outer(x, x); abs(x); -x
x.sqrt(); x.floor(); x.round(); x.relu(); m.isnan(x); m.isinf(x); m.isfinite(x); m.signbit(x); x.clone()
x.sum(); x.prod(); x.mean(); x.max(); x.amax(); x.argmax(); x.any(); x.all(); x.cumsum(0); x.cumprod(0); x.sort()[0]
x.argsort(); x.unique(); x.flip(0); x.nonzero(); x.count_nonzero(); x.median(); x.topk(2)[0]; x.square(); x.diag()
x.triu(); x[i]; x[k]; x[1]; x[1:]; x.masked_fill(k, 1); x.index_add(0, i, x[:2]); m.cat([x, x]); m.cat([x, m.ones(1)])
x.repeat(2); x.roll(1); x.view(2, 2).t().contiguous(); m.zeros_like(x); m.arange(3, dtype=x.dtype); x.lerp(x, 0.5)
m.eye(2, dtype=x.dtype); m.linspace(0, 1, 3, dtype=x.dtype); m.rand(2, dtype=x.dtype); x.clamp(1, 2); x.sum(dtype=m.float32)
m.searchsorted(x, x); x.unfold(0, 2, 1); x.item(); x[1].item(); bool(x[0]); int(x[1]); x.new_zeros(2); x.is_nonzero()
x.nan_to_num(); x.positive(); m.isposinf(x); x + 1; x + 1.5; x * 2.5; x + m.ones(4); x * m.ones(4, dtype=m.int64)
m.histc(x); x.bincount(); x.view(m.uint8); x.fill_(3); x.zero_(); x.repeat_interleave(2); m.tril_indices(2, 2, dtype=x.dtype)
"""
#: Where this library computes what PyTorch does not have: what only moves elements, and what is computed in another dtype.
#: (PyTorch flips these dtypes along every dimension but the last.)
MORE = {"x.masked_fill(k, 1)", "x * 2.5", "m.equal(x, x)", "x.flip(0)"}


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@STORED
def test_pytorch_has_the_same_operations(kind: dtypes.dtype) -> None:
    for call in [each.strip() for line in CALLS.split("\n") for each in line.split(";") if each.strip()]:
        outcomes = []
        for module in (torch, tensor):
            names = {
                "m": module,
                "x": module.tensor([1.0, 2.0, 3.0, 1.0]).to(getattr(module, kind.name)),
                "i": module.tensor([0, 2]),
                "k": module.tensor([True, False, True, False]),
            }
            try:
                outcomes.append(eval(call, names))
            except Exception as error:
                outcomes.append(error)
        expected, found = outcomes
        if isinstance(expected, Exception):
            assert isinstance(found, Exception) or call in MORE, (
                f"{call}: {found!r} where PyTorch has {expected!r}"
            )
        elif isinstance(expected, torch.Tensor):
            assert isinstance(found, tensor.Tensor), f"{call}: {found!r} where PyTorch has {expected!r}"
            assert_same(found, expected)
        else:
            assert found == expected, call


@given(st.floats(width=32), st.sampled_from(dtypes.FLOAT8))
def test_float8_is_the_nearest_number(value: float, kind: dtypes.dtype) -> None:
    """By the definition of rounding, with the numbers as ``ml_dtypes`` reads them."""
    held = tensor.tensor(value).to(kind).item()
    numbers = np.unique(_patterns(kind).astype(np.float64))
    finite = numbers[np.isfinite(numbers)]
    if math.isnan(value):
        assert math.isnan(held)
        return
    if math.isinf(held):
        assert kind is dtypes.float8_e5m2
        assert abs(value) >= 61440.0
        return
    assert abs(held - value) == np.abs(finite - value).min() or abs(held) == finite.max()


def test_a_file_object_of_float8() -> None:
    buffer = io.BytesIO()
    tensor.save(tensor.ones(3, dtype=tensor.float8_e5m2), buffer)
    buffer.seek(0)
    assert tensor.load(buffer).numpy().dtype == np.dtype(ml_dtypes.float8_e5m2)
