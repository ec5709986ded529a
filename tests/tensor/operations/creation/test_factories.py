"""New tensors, called as PyTorch's users call them: the same tensor, or an error of the same class."""

from __future__ import annotations

import pytest

import tensor
from nvrtc_kernels import dtypes
from tests.tensor.comparison import assert_same_outcome, outcome
from tests.tensor.expressions import assert_expression, value

NAMES = [dtype.name for dtype in dtypes.EVERY]

SIZES: list[str] = [
    "m.zeros(2, 3, **on)",
    "m.zeros((2, 3), **on)",
    "m.zeros([2, 3], **on)",
    "m.zeros(m.Size([2, 3]), **on)",
    "m.zeros(size=(2, 3), **on)",
    "m.zeros(5, **on)",
    "m.zeros((), **on)",
    "m.zeros([], **on)",
    "m.zeros(0, **on)",
    "m.zeros(3, 0, 2, **on)",
    "m.zeros(m.tensor(3), 2, **on)",
    "m.zeros((m.tensor(3), 2), **on)",
    "m.ones(2, 3, **on)",
    "m.ones((), **on)",
    "m.ones(size=[4], **on)",
    "m.ones(4, 0, **on)",
    "m.full((2, 3), 7, **on)",
    "m.full([2], 7.5, **on)",
    "m.full((), True, **on)",
    "m.full((2,), 1 + 2j, **on)",
    "m.full(size=(2,), fill_value=3, **on)",
    "m.full((2,), nan, **on)",
    "m.full((2,), -inf, **on)",
    "m.full((2, 2), m.tensor(2.5), **on)",
    "m.full((2,), -1, dtype=m.uint8, **on)",
    "m.full((2,), 2.75, dtype=m.int32, **on)",
    "m.full((2,), 2.75, dtype=m.bool, **on)",
    "m.full((2,), 3, dtype=m.complex64, **on)",
    "m.full((2,), 0.0, **on)",
    "m.full((2,), -0.0, **on)",
    "m.full((2,), complex(-0.0, 0.0), **on)",
    "m.full((2,), np.float32(3), **on)",
    "m.full((2,), np.int16(3), **on)",
    "m.full((2,), 65504, dtype=m.float16, **on)",
    "m.full((2,), inf, dtype=m.float16, **on)",
    "m.empty(0, **on)",
    "m.empty((0, 4), dtype=m.int16, **on)",
    "m.empty((0, 4, 2, 2), memory_format=m.channels_last, **on)",
    "m.eye(3, **on)",
    "m.eye(2, 4, **on)",
    "m.eye(4, 2, **on)",
    "m.eye(n=2, m=3, **on)",
    "m.eye(0, **on)",
    "m.eye(0, 3, **on)",
    "m.eye(3, dtype=m.bool, **on)",
    "m.ones(2, layout=m.strided, **on)",
    "m.empty_permuted((2, 3, 4), (2, 0, 1), **on).zero_()",
    "m.empty_permuted((2, 0), (1, 0), **on)",
    "m.empty_permuted((), (), **on).zero_()",
]

RANGES: list[str] = [
    "m.arange(5, **on)",
    "m.arange(5.0, **on)",
    "m.arange(0, **on)",
    "m.arange(True, **on)",
    "m.arange(2, 7, **on)",
    "m.arange(2, 7, 2, **on)",
    "m.arange(1, 2.5, 0.5, **on)",
    "m.arange(7, 2, -2, **on)",
    "m.arange(0.5, -3, -0.7, **on)",
    "m.arange(3, 3, **on)",
    "m.arange(end=4, **on)",
    "m.arange(start=1, end=4, **on)",
    "m.arange(start=1, end=9, step=3, **on)",
    "m.arange(m.tensor(5), **on)",
    "m.arange(m.tensor(1.5), 4, **on)",
    "m.arange(2**40, 2**40 + 3, **on)",
    "m.arange(0, 1, 0.1, dtype=m.float16, **on)",
    "m.arange(0, 1, 0.1, dtype=m.bfloat16, **on)",
    "m.arange(1, 2.5, 0.5, dtype=m.float64, **on)",
    "m.arange(5, dtype=m.uint8, **on)",
    "m.arange(1.7, 9.9, 2.9, dtype=m.int64, **on)",
    "m.arange(-2.5, 2.5, dtype=m.int32, **on)",
    "m.linspace(0, 1, 5, **on)",
    "m.linspace(3, -3, 4, **on)",
    "m.linspace(0, 1, 1, **on)",
    "m.linspace(0, 1, 0, **on)",
    "m.linspace(2, 2, 3, **on)",
    "m.linspace(start=-10, end=10, steps=5, **on)",
    "m.linspace(0, 9, 10, dtype=m.int32, **on)",
    "m.linspace(0, 10, 4, dtype=m.int64, **on)",
    "m.linspace(-1.5, 1.5, 7, dtype=m.float64, **on)",
    "m.linspace(m.tensor(0.5), m.tensor(2.0), 4, **on)",
    "m.linspace(m.tensor(0.5), 2, 4, **on)",
    "m.linspace(0, 1, m.tensor(3), **on)",
    "m.linspace(0, 1 + 2j, 3, **on)",
    "m.linspace(0, 2, 3, dtype=m.complex64, **on)",
    "m.logspace(0, 3, 4, dtype=m.float64, **on)",
    "m.logspace(0, 4, 5, base=2, **on)",
    "m.logspace(0, 4, 5, 2, **on)",
    "m.logspace(1, 1, 1, **on)",
    "m.logspace(0, 1, 0, **on)",
    "m.logspace(start=0, end=3, steps=4, base=2.0, dtype=m.int64, **on)",
    "m.range(1, 4, **on)",
    "m.range(1, 4, 0.5, **on)",
    "m.range(1, 4, dtype=m.int64, **on)",
]

GRIDS: list[str] = [
    "m.tril_indices(3, 3, **on)",
    "m.tril_indices(4, 3, 1, **on)",
    "m.tril_indices(3, 4, -1, **on)",
    "m.tril_indices(row=2, col=3, offset=2, **on)",
    "m.tril_indices(2, 3, 9, dtype=m.int32, **on)",
    "m.tril_indices(2, 3, -9, **on)",
    "m.tril_indices(0, 3, **on)",
    "m.triu_indices(3, 3, **on)",
    "m.triu_indices(4, 3, 1, **on)",
    "m.triu_indices(3, 4, -1, **on)",
    "m.triu_indices(row=2, col=3, offset=2, **on)",
    "m.triu_indices(3, 0, **on)",
    "m.triu_indices(3, 2, -9, **on)",
    'm.meshgrid(m.arange(3, **on), m.arange(2, **on), indexing="ij")',
    'm.meshgrid(m.arange(3, **on), m.arange(2, **on), indexing="xy")',
    'm.meshgrid([m.arange(3, **on), m.arange(2, **on)], indexing="xy")',
    'm.meshgrid(*(m.arange(n, **on) for n in (2, 3, 4)), indexing="xy")',
    'm.meshgrid(m.arange(3, **on), m.tensor(7, **on), indexing="ij")',
    'm.meshgrid(m.arange(3, **on), indexing="xy")',
    'm.meshgrid(m.arange(0, **on), m.arange(2, **on), indexing="ij")',
    "m.complex(m.ones(2, **on), m.zeros(2, **on))",
    "m.complex(m.ones(2, 1, **on), m.zeros(3, **on))",
    "m.complex(*(m.ones(2, dtype=m.float64, **on),) * 2)",
    "m.complex(m.ones((), **on), m.zeros(0, **on))",
]


@pytest.mark.parity
@pytest.mark.parametrize("text", SIZES + RANGES + GRIDS)
@pytest.mark.sampled(3)
def test_tensors_are_pytorchs(text: str, device_name: str) -> None:
    result, _ = assert_expression(text, device_name)
    for each in result if isinstance(result, tuple) else (result,):
        assert each.device.type == device_name


@pytest.mark.parity
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(3)
def test_every_dtype(name: str, device_name: str) -> None:
    for text in (
        "m.zeros(2, 3, dtype=m.{name}, **on)",
        "m.ones(2, 3, dtype=m.{name}, **on)",
        "m.full((2, 3), 1, dtype=m.{name}, **on)",
        "m.eye(2, 3, dtype=m.{name}, **on)",
        "m.arange(0, 9, 2, dtype=m.{name}, **on)",
        "m.linspace(0, 8, 5, dtype=m.{name}, **on)",
        "m.logspace(0, 3, 4, 2, dtype=m.{name}, **on)",
        "m.empty(0, 3, dtype=m.{name}, **on)",
        "m.empty_strided((0, 3), (3, 1), dtype=m.{name}, **on)",
        "m.tril_indices(2, 3, dtype=m.{name}, **on)",
        "m.triu_indices(2, 3, dtype=m.{name}, **on)",
    ):
        assert_expression(text.replace("{name}", name), device_name)


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["float", "int", "bool", "complex"])
def test_pythons_types_stand_for_dtypes(kind: str, device_name: str) -> None:
    for text in (
        "m.zeros(2, dtype={kind}, **on)",
        "m.full((2,), 1, dtype={kind}, **on)",
        "m.tensor([0, 1], dtype={kind}, **on)",
        "m.zeros_like(m.ones(2, dtype=m.float16, **on), dtype={kind})",
        "m.ones(2, dtype=m.float16, **on).new_ones(3, dtype={kind})",
        "m.ones(2, dtype=m.float16, **on).to({kind})",
        "m.ones(2, dtype=m.float16, **on).to(dtype={kind})",
        "m.ones(2, dtype=m.float16, **on).type({kind})",
    ):
        assert_expression(text.replace("{kind}", kind), device_name)


LIKE: list[str] = [
    "m.zeros_like(x)",
    "m.ones_like(x)",
    "m.full_like(x, 2)",
    "m.full_like(x, fill_value=True)",
    "m.zeros_like(x, dtype=m.float64)",
    "m.ones_like(x, dtype=m.bool)",
    "m.zeros_like(x, memory_format=m.contiguous_format)",
    "m.zeros_like(x, memory_format=m.preserve_format)",
    'm.zeros_like(x, device="cpu")',
    "m.zeros_like(x, layout=m.strided)",
    "m.empty_like(x).zero_()",
    "m.empty_like(x, dtype=m.int16).fill_(3)",
    "m.zeros_like(input=x)",
    "x.new_zeros(2, 3)",
    "x.new_zeros((2, 3))",
    "x.new_zeros(size=(2, 3))",
    "x.new_ones(2, dtype=m.float64)",
    "x.new_ones([])",
    "x.new_full((2,), 3)",
    "x.new_full(size=(2,), fill_value=3, dtype=m.int8)",
    "x.new_empty(0, 3)",
    "x.new_empty((0,), dtype=m.int8)",
    "x.new_empty_strided((2, 3), (1, 2)).zero_()",
    "x.new_tensor([1, 0])",
    "x.new_tensor(1)",
    "x.new_tensor([[1, 1]], dtype=m.float64)",
    "x.new_tensor([1.0], dtype=m.float64, requires_grad=True)",
    "x.new_zeros(2, dtype=m.float64, requires_grad=True)",
    "m.ones_like(x, dtype=m.float64, requires_grad=True)",
]

ORIGINALS: dict[str, str] = {
    "dense": "m.arange(6, **on).reshape(2, 3)",
    "transposed": "m.zeros(2, 3, 4, dtype=m.float16, **on).transpose(0, 2)",
    "stretched": "m.zeros(3, 1, dtype=m.bool, **on).expand(3, 4)",
    "partly stretched": "m.zeros(3, 1, 2, dtype=m.uint8, **on).expand(3, 4, 2).transpose(0, 2)",
    "strided": "m.zeros(8, dtype=m.complex64, **on)[::2]",
    "permuted with gaps": "m.zeros(3, 8, 2, **on)[:, ::2].permute(2, 0, 1)",
    "channels last": "m.zeros(2, 3, 4, 5, **on).contiguous(memory_format=m.channels_last)",
    "0-dim": "m.tensor(3, **on)",
    "empty": "m.zeros(2, 0, 3, **on).transpose(0, 2)",
    "empty stretched": "m.zeros(2, 1, **on).expand(2, 0)",
    "recorded": "m.zeros(3, requires_grad=True, **on) * 2",
}


@pytest.mark.parity
@pytest.mark.parametrize("original", ORIGINALS.values(), ids=ORIGINALS.keys())
def test_like_another_tensor(original: str, device_name: str) -> None:
    for text in LIKE:
        result, _ = assert_expression(text.replace("x", f"({original})", 1), device_name)
        assert result.device.type == ("cpu" if "cpu" in text else device_name)


@pytest.mark.parity
def test_channels_last_is_made_and_kept(device_name: str) -> None:
    torch = pytest.importorskip("torch")
    for memory_format, shape in (("channels_last", (2, 3, 4, 5)), ("channels_last_3d", (2, 3, 4, 5, 6))):
        mine = tensor.empty(shape, device=device_name, memory_format=getattr(tensor, memory_format))
        theirs = torch.empty(shape, memory_format=getattr(torch, memory_format))
        assert mine.stride() == theirs.stride()
        assert tensor.zeros_like(mine).stride() == theirs.stride()
        assert tensor.zeros_like(mine).is_contiguous(memory_format=getattr(tensor, memory_format))
        mine = tensor.zeros_like(tensor.zeros(shape), memory_format=getattr(tensor, memory_format))
        assert mine.stride() == theirs.stride()


OUT: list[str] = [
    "m.zeros(2, 3, out=out)",
    "m.ones(2, 3, out=out)",
    "m.full((2, 3), 1, out=out)",
    "m.full((2, 3), 1.5, out=out)",
    "m.eye(2, 3, out=out)",
    "m.arange(6, out=out)",
    "m.arange(1.5, 4.0, out=out)",
    "m.linspace(0, 6, 4, out=out)",
    "m.logspace(0, 2, 3, 2, out=out)",
    "m.range(1, 3, out=out)",
    "m.empty(2, 0, out=out)",
    "m.zeros(2, dtype=m.float32, out=out)",
    "m.arange(3, dtype=m.int64, out=out)",
]


@pytest.mark.parity
@pytest.mark.parametrize("text", OUT)
@pytest.mark.parametrize("name", ["float32", "int64", "float16", "complex64", "bool"])
def test_out_gives_the_dtype_and_takes_the_shape(text: str, name: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    mine = tensor.zeros(0, dtype=getattr(tensor, name), device=device_name)
    theirs = torch.zeros(0, dtype=getattr(torch, name))
    result = outcome(value, text, tensor, device_name, out=mine)
    expected = outcome(value, text, torch, out=theirs)
    if assert_same_outcome(result, expected):
        assert result is mine


def test_out_with_the_right_shape_keeps_its_memory_and_strides(device_name: str) -> None:
    base = tensor.zeros(3, 2, device=device_name)
    out = base.t()
    tensor.ones(2, 3, out=out)
    assert out.stride() == (1, 2)
    assert base.sum().item() == 6
    tensor.arange(6, out=base.view(-1))
    assert base.tolist() == [[0, 1], [2, 3], [4, 5]]


ERRORS: list[str] = [
    "m.arange(0, 3, 0.5, dtype=m.int64, **on)",
    "m.full((2,), 1e30, dtype=m.float16, **on)",
    "m.zeros(-1, **on)",
    "m.zeros((2, -3), **on)",
    "m.zeros(2.5, **on)",
    'm.zeros("3", **on)',
    'm.zeros((2, "3"), **on)',
    "m.zeros(None, **on)",
    "m.zeros(**on)",
    "m.zeros([[2, 3]], **on)",
    'm.zeros(2, dtype="float32", **on)',
    "m.zeros(2, dtype=3, **on)",
    "m.zeros(2, dtypes=m.float32, **on)",
    'm.zeros(2, layout="strided", **on)',
    "m.zeros(2, dtype=m.int64, requires_grad=True, **on)",
    "m.zeros(2, dtype=m.bool, requires_grad=True, **on)",
    "m.zeros(2, out=3, **on)",
    "m.empty(2**62, **on)",
    "m.empty(2**40, 2**40, **on)",
    "m.full(3, 1, **on)",
    'm.full((3,), "1", **on)',
    "m.full((3,), None, **on)",
    "m.full((3,), [1], **on)",
    "m.full((3,), 300, dtype=m.int8, **on)",
    "m.full((3,), 1e300, dtype=m.float32, **on)",
    "m.full((3,), nan, dtype=m.int32, **on)",
    "m.full((3,), 1j, dtype=m.float32, **on)",
    "m.full((3,), 256, dtype=m.uint8, **on)",
    "m.full((3,), 70000, dtype=m.float16, **on)",
    "m.full((3,), 1e39, dtype=m.bfloat16, **on)",
    "m.full((3,), 2**70, **on)",
    "m.full((-3,), 1, **on)",
    "m.full((3,), **on)",
    "m.full((3,), m.ones(2), **on)",
    "m.empty_strided((2, 3), (1,), **on)",
    "m.empty_strided((2, 3), (-1, 1), **on)",
    "m.empty_strided((2, -3), (1, 1), **on)",
    'm.empty_strided((2,), ("1",), **on)',
    "m.empty_strided((2,), **on)",
    "m.empty_permuted((2, 3), (0, 0), **on)",
    "m.empty_permuted((2, 3), (0,), **on)",
    "m.empty_permuted((2, 3), (1, 2), **on)",
    "m.empty((2, 3), memory_format=m.channels_last, **on)",
    "m.empty((2, 3), memory_format=m.preserve_format, **on)",
    'm.empty((2, 3), memory_format="channels_last", **on)',
    "m.eye(-1, **on)",
    "m.eye(2, -1, **on)",
    "m.eye(2.0, **on)",
    'm.eye("2", **on)',
    "m.arange(5, 2, **on)",
    "m.arange(2, 5, -1, **on)",
    "m.arange(2, 5, 0, **on)",
    "m.arange(0, inf, **on)",
    "m.arange(0, nan, **on)",
    'm.arange("5", **on)',
    "m.arange(**on)",
    "m.arange(None, **on)",
    "m.arange(m.tensor([1, 2]), **on)",
    "m.arange(0, 3, requires_grad=True, **on)",
    "m.arange(3, dtype=m.bool, **on)",
    "m.linspace(0, 1, -1, **on)",
    "m.linspace(0, 1, 2.5, **on)",
    "m.linspace(0, 1, **on)",
    'm.linspace("0", 1, 3, **on)',
    "m.linspace(0, m.ones(2), 3, **on)",
    "m.linspace(0, 1j, 3, dtype=m.float32, **on)",
    "m.logspace(0, 1, -1, **on)",
    'm.logspace(0, 1, 3, base="2", **on)',
    "m.range(5, 1, **on)",
    "m.range(1, 5, 0, **on)",
    "m.tril_indices(-1, 3, **on)",
    "m.tril_indices(3, **on)",
    "m.tril_indices(3, 3.5, **on)",
    "m.triu_indices(3, -1, **on)",
    "m.meshgrid()",
    'm.meshgrid(m.ones(2, 2, **on), indexing="ij")',
    'm.meshgrid(m.ones(2, **on), indexing="ji")',
    'm.meshgrid(m.ones(2, **on), m.arange(2, **on), indexing="ij")',
    'm.meshgrid(m.ones(2, **on), 3, indexing="ij")',
    "m.complex(m.ones(2, **on), m.ones(2, dtype=m.float64, **on))",
    "m.complex(m.arange(2, **on), m.arange(2, **on))",
    "m.complex(m.ones(2, **on), m.ones(3, **on))",
    "m.complex(m.ones(2, **on), 1.0)",
    "m.complex(m.ones(2, **on), m.ones(2, **on), out=m.ones(2, **on))",
    "m.zeros_like([1, 2])",
    'm.zeros_like(m.ones(2, **on), dtype="float32")',
    "m.ones_like(m.ones(2, **on), memory_format=m.channels_last)",
    "m.ones_like(m.arange(2, **on), requires_grad=True)",
    "m.full_like(m.ones(2, **on))",
    "m.full_like(m.ones(2, dtype=m.int8, **on), 300)",
    'm.ones(2, **on).new_zeros("2")',
    "m.ones(2, **on).new_zeros(-2)",
    "m.ones(2, **on).new_full((2,))",
    'm.ones(2, **on).new_tensor("x")',
    "m.ones(2, **on).new_ones(2, dtype=2)",
]


@pytest.mark.parity
@pytest.mark.parametrize("text", ERRORS)
def test_errors_are_of_pytorchs_class(text: str, device_name: str) -> None:
    assert_expression(text, device_name)
