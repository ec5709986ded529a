"""Tensors as NumPy arrays, Python numbers and texts, in other dtypes and on other devices, and what they are."""

from __future__ import annotations

import copy
import gc
import math
import operator
import re
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import drv
import tensor
from nvrtc_kernels import dtypes
from tensor.core import layout
from tests.tensor.comparison import (
    array_of,
    assert_same,
    assert_same_elements,
    assert_same_outcome,
    outcome,
    torch_of,
)
from tests.tensor.expressions import assert_alike, assert_expression, value

TO: list[str] = [
    "m.ones(2, **on).to(m.float64)",
    "m.ones(2, **on).to(m.float64, True)",
    "m.ones(2, **on).to(m.float64, True, True)",
    "m.ones(2, **on).to(m.float64, non_blocking=True, copy=True)",
    "m.ones(2, **on).to(dtype=m.int8)",
    "m.ones(2, **on).to(dtype=int)",
    "m.ones(2, **on).to(d)",
    "m.ones(2, **on).to(m.device(d))",
    "m.ones(2, **on).to(d, m.int8)",
    "m.ones(2, **on).to(d, m.int8, True)",
    "m.ones(2, **on).to(d, m.int8, True, True)",
    "m.ones(2, **on).to(d, dtype=m.int8)",
    "m.ones(2, **on).to(device=d, dtype=m.int8)",
    "m.ones(2, **on).to(None)",
    "m.ones(2, **on).to(None, m.int8)",
    "m.ones(2, **on).to(None, None)",
    "m.ones(2, **on).to()",
    "m.ones(2, **on).to(m.ones(3, dtype=m.int8, **on))",
    "m.ones(2, 3, **on).t().to(m.float64)",
    "m.ones(2, 3, **on).t().to(m.float64, memory_format=m.contiguous_format)",
    "m.ones(2, 3, **on).t().to(memory_format=m.contiguous_format)",
    "m.ones(2, 3, 4, 5, **on).to(memory_format=m.channels_last)",
    "m.ones(2, 3, 1, 1, **on).to(memory_format=m.channels_last)",
    "m.ones(2, 3, 4, 5, **on).to(m.int8, memory_format=m.channels_last)",
    "m.ones(2, 3, 4, 5, 6, **on).to(memory_format=m.channels_last_3d)",
    "m.ones(2, 1, **on).expand(2, 3).to(m.int8)",
    "m.ones(8, **on)[::2].to(m.int8)",
    "m.ones(2, **on).float()",
    "m.ones(2, **on).double()",
    "m.ones(2, **on).half()",
    "m.ones(2, **on).bfloat16()",
    "m.ones(2, **on).cfloat()",
    "m.ones(2, **on).cdouble()",
    "m.ones(2, **on).bool()",
    "m.ones(2, **on).byte()",
    "m.ones(2, **on).char()",
    "m.ones(2, **on).short()",
    "m.ones(2, **on).int()",
    "m.ones(2, **on).long()",
    "m.ones(2, 3, 4, 5, **on).double(memory_format=m.channels_last)",
    "m.ones(2, **on).type(m.int8)",
    "m.ones(2, **on).type(dtype=m.int8)",
    "m.ones(2, **on).type_as(m.ones(3, dtype=m.int8, **on))",
    "m.ones(2, requires_grad=True, **on).to(m.float64).detach()",
    "m.ones(2, requires_grad=True, **on).to(m.int8)",
    "m.ones(2, requires_grad=True, **on).double().sum().detach()",
]

TO_ERRORS: list[str] = [
    "m.ones(2, **on).to(other=m.ones(3, dtype=m.int8, **on))",
    "m.ones(2, **on).to(m.float64, dtype=m.float64)",
    "m.ones(2, **on).to(m.float64, 'cpu')",
    "m.ones(2, **on).to(m.float64, device='cpu')",
    "m.ones(2, **on).to('cpu', device='cpu')",
    "m.ones(2, **on).to('cpu', m.float64, True, True, True)",
    "m.ones(2, **on).to(m.ones(1), m.int8)",
    "m.ones(2, **on).to('float32')",
    "m.ones(2, **on).to([1])",
    "m.ones(2, **on).to(dtype='float32')",
    "m.ones(2, **on).to(np.float32)",
    "m.ones(2, **on).to(memory_format='x')",
    "m.ones(2, **on).to(memory_format=m.channels_last)",
    "m.ones(2, **on).to(unknown=3)",
    "m.ones(2, **on).cpu(1)",
    "m.ones(2, **on).float(1)",
    "m.ones(2, **on).type('foo')",
    "m.ones(2, **on).type(3)",
    "m.ones(2, **on).type(int)",
    "m.ones(2, **on).type_as(3)",
    "m.ones(2, **on).contiguous(1)",
    "m.ones(2, 3, **on).t().contiguous(memory_format=m.preserve_format)",
    "m.ones(2, **on).is_contiguous(memory_format=1)",
]

NUMBERS: list[str] = [
    "m.tensor(3, **on).item()",
    "m.tensor(3.5, **on).item()",
    "m.tensor(True, **on).item()",
    "m.tensor(1 + 2j, **on).item()",
    "m.tensor([[3.5]], **on).item()",
    "m.tensor(0.1, dtype=m.bfloat16, **on).item()",
    "m.tensor(0.1, dtype=m.float16, **on).item()",
    "m.tensor(0.1, **on).item()",
    "m.tensor(2**62 + 1, **on).item()",
    "m.tensor(200, dtype=m.uint8, **on).item()",
    "m.tensor(3.5, requires_grad=True, **on).item()",
    "m.tensor([1, 2], **on).item()",
    "m.tensor([], **on).item()",
    "m.tensor([[1, 2], [3, 4]], **on).tolist()",
    "m.tensor([[1.5, nan], [inf, 4]], **on).tolist()",
    "m.tensor([True, False], **on).tolist()",
    "m.tensor([1j, 2], **on).tolist()",
    "m.tensor([0.1, 2], dtype=m.bfloat16, **on).tolist()",
    "m.tensor([0.1, 2], dtype=m.float16, **on).tolist()",
    "m.tensor(0.1, dtype=m.bfloat16, **on).tolist()",
    "m.tensor(3, **on).tolist()",
    "m.tensor([], **on).tolist()",
    "m.zeros(2, 0, **on).tolist()",
    "m.arange(6, **on).reshape(2, 3).t().tolist()",
    "m.ones(2, requires_grad=True, **on).tolist()",
    "bool(m.tensor(3, **on))",
    "bool(m.tensor(0.0, **on))",
    "bool(m.tensor([[nan]], **on))",
    "bool(m.tensor([0j], **on))",
    "bool(m.tensor([False], **on))",
    "bool(m.tensor([], **on))",
    "bool(m.tensor([1, 2], **on))",
    "bool(m.zeros(0, 3, **on))",
    "int(m.tensor(3.9, **on))",
    "int(m.tensor(-3.9, **on))",
    "int(m.tensor([True], **on))",
    "int(m.tensor(2**62 + 1, **on))",
    "int(m.tensor(nan, **on))",
    "int(m.tensor(inf, **on))",
    "int(m.tensor(1j, **on))",
    "int(m.tensor([1, 2], **on))",
    "int(m.tensor([], **on))",
    "float(m.tensor(3, **on))",
    "float(m.tensor([[2.5]], **on))",
    "float(m.tensor(True, **on))",
    "float(m.tensor(2.5, dtype=m.bfloat16, **on))",
    "float(m.tensor(1 + 0j, **on))",
    "float(m.tensor(1j, **on))",
    "float(m.tensor([1.5, 2], **on))",
    "float(m.tensor([], **on))",
    "complex(m.tensor(1 + 2j, **on))",
    "complex(m.tensor(2, **on))",
    "complex(m.tensor([1, 2j], **on))",
    "[10, 20, 30][m.tensor(1, **on)]",
    "[10, 20, 30][m.tensor([[2]], **on)]",
    "[10, 20, 30][m.tensor(1.0, **on)]",
    "[10, 20, 30][m.tensor([1, 2], **on)]",
    "[10, 20, 30][m.tensor(True, **on)]",
    "list(range(m.tensor(3, dtype=m.uint8, **on)))",
    "'abc' * m.tensor(2, **on)",
    "hex(m.tensor(255, **on))",
    "round(m.tensor(2.567, **on), decimals=1)",
    "len(m.zeros(3, 2, **on))",
    "len(m.zeros(0, 2, **on))",
    "len(m.tensor(3, **on))",
    "[x for x in m.arange(3, **on)]",
    "[x for x in m.arange(6, **on).reshape(2, 3)]",
    "list(m.zeros(0, **on))",
    "list(m.zeros(0, 3, **on))",
    "list(m.zeros(2, 0, **on))",
    "list(m.tensor(3, **on))",
    "list(reversed(m.arange(3, **on)))",
    "[*m.arange(2, **on)]",
    "(lambda a, b: b)(*m.arange(2, **on))",
    "dict(zip(m.arange(2, **on).tolist(), 'ab'))",
    "3 in m.arange(5, **on)",
    "7 in m.arange(5, **on)",
    "nan in m.tensor([nan], **on)",
    "m.tensor(2, **on) in m.arange(5, **on)",
    "m.tensor([2, 9], **on) in m.arange(2, **on)",
    "None in m.arange(5, **on)",
    "'a' in m.arange(5, **on)",
    "sum(m.arange(4, **on))",
    "max(m.arange(4, **on))",
    "sorted(m.tensor([3, 1, 2], **on))",
    "math.sqrt(m.tensor(4, **on))",
    "math.floor(m.tensor(2.5, **on))",
    "abs(m.tensor([-1, 2], **on))",
]

FORMATS: list[str] = [
    "f'{m.tensor(3.14159, **on):.2f}'",
    "f'{m.tensor(3, **on):05d}'",
    "f'{m.tensor(3, **on)}'",
    "f'{m.tensor(True, **on)}'",
    "f'{m.tensor(3.5, **on):>10}'",
    "f'{m.tensor(1 + 2j, **on):.1f}'",
    "f'{m.tensor(0.1, **on)}'",
    "f'{m.tensor(0.1, dtype=m.bfloat16, **on)}'",
    "f'{m.tensor(2.5, requires_grad=True, **on):.1f}'",
    "f'{m.tensor([1.5], **on).sum():e}'",
    "f'{m.tensor([1.5], **on):.2f}'",
    "f'{m.tensor([1.5, 2], **on):>40}'",
    "f'{m.tensor(3.5, **on):d}'",
    "'%d' % m.tensor(3, **on)",
    "'%.2f' % m.tensor(3.14159, **on)",
    "'%s' % m.tensor(3.5)",
    "'{:.3f}'.format(m.tensor(2.0, **on))",
]

ABOUT: list[str] = [
    "x.dim()",
    "x.ndim",
    "x.ndimension()",
    "x.numel()",
    "x.nelement()",
    "x.shape",
    "x.size()",
    "x.size(0)",
    "x.size(-1)",
    "x.size(dim=1)",
    "x.size(2)",
    "x.size(-3)",
    "x.size('a')",
    "x.shape[0]",
    "x.shape[-1:]",
    "x.shape.numel()",
    "x.stride()",
    "x.stride(0)",
    "x.stride(-1)",
    "x.stride(dim=1)",
    "x.stride(5)",
    "x.storage_offset()",
    "x.element_size()",
    "x.itemsize",
    "x.nbytes",
    "x.dtype",
    "x.dtype.itemsize",
    "x.dtype.is_floating_point",
    "x.dtype.is_complex",
    "x.dtype.is_signed",
    "x.dtype.to_real()",
    "x.is_floating_point()",
    "x.is_complex()",
    "x.is_signed()",
    "x.is_contiguous()",
    "x.is_contiguous(memory_format=m.contiguous_format)",
    "x.is_contiguous(memory_format=m.channels_last)",
    "x.is_leaf",
    "x.requires_grad",
    "x.grad",
    "x.grad_fn",
    "x.is_sparse",
    "x.is_quantized",
    "x.is_meta",
    "x.is_mps",
    "x.is_conj()",
    "x.is_neg()",
    "x.is_inference()",
    "x.is_nonzero()",
    "x.is_same_size(x)",
    "x.is_same_size(m.ones(1))",
    "x.is_set_to(x)",
    "x._is_view()",
    "x.clone()._is_view()",
    "x.clone().swapaxes_(0, 1)",
    "x.double() @ x.double().t()",
    "x.is_set_to(x.clone())",
    "x.T",
    "x.mT",
    "x.H",
    "x.mH",
    "x.real",
    "x.new(2, 0)",
    "x.new([1, 0])",
    "x.new()",
    "x.resolve_conj()",
    "x.resolve_neg()",
    "x.layout == m.strided",
    "x.cpu().get_device()",
    "x.adjoint()",
    "m.adjoint(x)",
    "m.detach(x)",
    "x.untyped_storage().nbytes()",
    "x.dim_order()",
    "m.numel(x)",
    "m.is_tensor(x)",
    "m.is_tensor(3)",
    "m.is_floating_point(x)",
    "m.is_complex(x)",
    "m.is_nonzero(x)",
    "m.is_same_size(x, x)",
    "m.is_storage(x)",
    "m.is_storage(x.untyped_storage())",
    "m.is_conj(x)",
    "m.is_floating_point(3)",
    "m.numel(3)",
    "m.is_signed(x)",
    "m.is_inference(x)",
    "m.get_device(x.cpu())",
    "m.is_complex([1])",
]

ORIGINALS: dict[str, str] = {
    "matrix": "m.arange(6.0, **on).reshape(2, 3)",
    "transposed part": "m.arange(24, dtype=m.int16, **on).reshape(4, 6)[1:3, ::2].t()",
    "complex": "m.ones(2, 2, dtype=m.complex64, **on)",
    "empty": "m.ones(0, 3, dtype=m.bfloat16, **on)",
    "one": "m.ones(1, 1, dtype=m.bool, **on)",
    "stretched": "m.ones(1, 1, dtype=m.uint8, **on).expand(3, 4)",
}


@pytest.mark.parity
@pytest.mark.parametrize("text", TO + TO_ERRORS)
def test_to(text: str, device_name: str) -> None:
    result, _ = assert_expression(text, device_name)
    assert isinstance(result, Exception) == (text in TO_ERRORS)
    if isinstance(result, tensor.Tensor):
        assert result.device.type == device_name


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", NUMBERS + FORMATS)
def test_as_numbers_and_texts(text: str, device_name: str) -> None:
    assert_expression(text, device_name, math=math)


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("original", ORIGINALS.values(), ids=ORIGINALS.keys())
def test_what_it_is(original: str, device_name: str) -> None:
    for text in ABOUT:
        try:
            assert_expression(re.sub(r"\bx\b", f"({original})", text), device_name)
        except AssertionError as error:
            raise AssertionError(f"{text}: {error}") from error


@pytest.mark.parity
@pytest.mark.parametrize("kind", dtypes.EVERY, ids=lambda kind: kind.name)
@pytest.mark.sampled(3)
def test_between_all_dtypes(kind: dtypes.dtype, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    numbers = [0, 1, 2.5, -3.75, 100.9] if kind.is_signed else [0, 1, 2.5, 200]
    mine = tensor.tensor(numbers, dtype=tensor.float64, device=device_name).to(kind)
    theirs = torch.tensor(numbers, dtype=torch.float64).to(getattr(torch, kind.name))
    assert_same(mine, theirs)
    for other in dtypes.EVERY:
        if other is tensor.uint8 and kind.is_signed and not kind.is_complex:
            mine, theirs = mine.abs(), theirs.abs()
        assert_same(mine.to(other), theirs.to(getattr(torch, other.name)))


def test_a_conversion_that_changes_nothing_is_the_tensor_itself(device_name: str) -> None:
    x = tensor.ones(2, 3, device=device_name)
    same = ["x.to(m.float32)", "x.to(d)", "x.to(d, m.float32)", "x.to(x)", "x.float()", "x.type(m.float32)"]
    same += ["x.type_as(x)", "x.to()", "x.contiguous()", "x.to(dtype=None)", "x.resolve_conj()"]
    for text in same:
        assert value(text, tensor, device_name, x=x) is x, text
    assert value("x.cuda()" if x.is_cuda else "x.cpu()", tensor, device_name, x=x) is x
    for text in ("x.to(m.float32, copy=True)", "x.to(d, copy=True)", "x.to(x, copy=True)", "x.clone()"):
        result = value(text, tensor, device_name, x=x)
        assert result is not x
        assert result.data_ptr() != x.data_ptr()


def test_it_is_so_after_layouts_were_forgotten(device_name: str) -> None:
    x = tensor.ones(2, 3, device=device_name)
    # As happens in programs with very many shapes.
    layout.strided.clear()
    layout.contiguous.clear()
    for text in ("x.to(m.float32)", "x.to(d)", "x.to(x)", "x.float()", "x.contiguous()"):
        assert value(text, tensor, device_name, x=x) is x, text
    y = tensor.ones(2, 3, device=device_name, requires_grad=True)
    layout.strided.clear()
    layout.contiguous.clear()
    (y * x).sum().backward()
    (y * x).sum().backward()
    assert y.grad.tolist() == [[2, 2, 2], [2, 2, 2]]


def test_between_devices() -> None:
    drv.simulator.install(devices=2, check="race")
    x = tensor.arange(6.0).reshape(2, 3).t()
    for result in (
        x.cuda(),
        x.cuda(1),
        x.cuda("cuda:1"),
        x.cuda(tensor.device("cuda", 1)),
        x.cuda(device=1),
        x.to(1),
    ):
        assert result.is_cuda
        assert result.stride() == (1, 3)
        assert result.cpu().tolist() == x.tolist()
        assert result.to("cuda:0").cpu().tolist() == x.tolist()
        assert result.to("cpu", tensor.int8).tolist() == x.tolist()
    assert x.cuda(1).get_device() == 1
    assert x.to(1).device == tensor.device("cuda:1")
    assert x.cuda(1).to("cuda").get_device() == 0
    with tensor.cuda.device(1):
        assert x.cuda().get_device() == 1
        assert x.to("cuda").get_device() == 1
        assert x.cuda(0).cuda().get_device() == 1
    with pytest.raises(RuntimeError, match="Invalid device, must be cuda device"):
        x.cuda("cpu")


def test_types_of_other_objects_have_names() -> None:
    assert tensor.typename(tensor.arange(2)) == "tensor.LongTensor"
    assert tensor.typename(3) == "int"
    assert tensor.typename(np.float32) == "numpy.float32"


@pytest.mark.parity
def test_types_have_names(device_name: str) -> None:
    torch = pytest.importorskip("torch")
    for dtype in dtypes.EVERY:
        result = tensor.zeros(0, dtype=dtype, device=device_name).type()
        expected = torch.zeros(0, dtype=getattr(torch, dtype.name)).type()
        middle = "cuda." if device_name == "cuda" else ""
        assert result == expected.replace("torch.", f"tensor.{middle}")
        output = tensor.zeros(2, device=device_name).type(result)
        assert (output.dtype, output.device.type) == (dtype, device_name)


# NumPy


def test_numpy_shares_memory() -> None:
    x = tensor.arange(6.0).reshape(2, 3)
    for array in (x.numpy(), x.detach().numpy(), np.asarray(x), np.array(x, copy=False), x.numpy(force=True)):
        array[0, 0] += 1
    assert x[0, 0].item() == 5
    part = x[:, ::2].t()
    assert part.numpy().strides == (8, 12)
    part.numpy()[:] = 0
    assert x.tolist() == [[0, 1, 0], [0, 4, 0]]
    assert x.numpy() is not x.numpy()


def test_numpy_views_keep_the_memory_alive() -> None:
    array = tensor.full((1000,), 3.0).numpy()
    gc.collect()
    tensor.full((1000,), 4.0)
    assert (array == 3).all()


@pytest.mark.parametrize("kind", dtypes.ALL, ids=lambda kind: kind.name)
def test_numpy_of_every_dtype(kind: dtypes.dtype) -> None:
    x = tensor.tensor([[0, 1, 2], [3, 4, 5]], dtype=kind)
    array = x.t().numpy()
    assert array.dtype == kind.numpy
    assert_same_elements(array, np.array([[0, 3], [1, 4], [2, 5]]).astype(kind.numpy))
    assert x[0, 0].numpy().shape == ()
    assert tensor.zeros(3, 0, dtype=kind).numpy().shape == (3, 0)


NUMPY_ERRORS: list[str] = [
    "m.ones(2, requires_grad=True).numpy()",
    "np.asarray(m.ones(2, requires_grad=True))",
    "m.ones(2).numpy(1)",
    "np.array(m.arange(2), dtype='f4', copy=False)",
]


@pytest.mark.parity
@pytest.mark.parametrize("text", NUMPY_ERRORS)
def test_numpy_errors(text: str) -> None:
    result, _ = assert_expression(text)
    assert isinstance(result, Exception)


def test_a_device_tensor_is_no_array() -> None:
    drv.simulator.install(check="race")
    x = tensor.arange(3, device="cuda")
    for function in (x.numpy, lambda: np.asarray(x), lambda: np.array(x)):
        with pytest.raises(
            TypeError, match=r"can't convert cuda:0 device type tensor to numpy.*Tensor.cpu\(\)"
        ):
            function()
    assert x.numpy(force=True).tolist() == [0, 1, 2]
    assert tensor.ones(2, device="cuda", requires_grad=True).numpy(force=True).tolist() == [1, 1]


ARRAY: list[str] = [
    "np.asarray(m.arange(3))",
    "np.array(m.arange(3), dtype=np.float32)",
    "np.array(m.arange(3), copy=True)",
    "np.array([m.tensor(1), m.tensor(2)])",
    "np.add(m.arange(3), 1)",
    "np.add(np.arange(3), m.arange(3))",
    "np.sin(m.zeros(2))",
    "np.stack([m.arange(2), m.arange(2)])",
    "m.arange(3) + np.arange(3)",
    "m.ones(2) * np.float64(3)",
    "np.float64(3) * m.ones(2)",
    "np.float32(3) + m.arange(2)",
    "np.int64(3) - m.arange(2)",
    "m.arange(2) < np.int64(1)",
    "np.int64(1) < m.arange(2)",
    "np.zeros(5)[m.tensor([1, 2])]",
    "np.zeros(5)[m.tensor(1)]",
    "m.arange(5)[np.array([1, 2])]",
    "m.arange(5)[np.int64(2)]",
    "np.array(m.tensor(3.5))",
    "np.dot(m.ones(2), m.ones(2))",
]


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("text", ARRAY)
def test_in_numpys_functions(text: str) -> None:
    assert_expression(text)


def test_numpys_reductions_are_the_tensors_own() -> None:
    x = tensor.arange(6.0).reshape(2, 3)
    assert np.sum(x).item() == 15
    assert np.sum(x, axis=0).tolist() == [3, 5, 7]
    assert np.mean(x, axis=1, keepdims=True).tolist() == [[1], [4]]


# Python


def test_hash_and_identity(device_name: str) -> None:
    x, y = tensor.ones(2, device=device_name), tensor.ones(2, device=device_name)
    assert hash(x) == hash(x)
    assert len({x: 1, y: 2}) == 2
    assert len({x, y, x}) == 2
    assert x in {x}
    x.add_(1)
    assert x in {x}


def test_weak_references_and_attributes(device_name: str) -> None:
    x = tensor.ones(2, device=device_name)
    x.note = "kept"
    assert x.note == "kept"
    reference = weakref.ref(x)
    assert reference() is x
    del x
    assert reference() is None


def test_copies(device_name: str) -> None:
    x = tensor.arange(6.0, device=device_name).reshape(2, 3).t()
    for result in (copy.deepcopy(x), x.clone()):
        assert result.device == x.device
        assert result.stride() == x.stride()
        assert result.tolist() == x.tolist()
        assert result.data_ptr() != x.data_ptr()
    assert copy.copy(x).data_ptr() == x.data_ptr()
    leaf = tensor.ones(2, requires_grad=True, device=device_name)
    assert copy.deepcopy(leaf).requires_grad
    shared = copy.deepcopy([x, x[0]])
    shared[0].fill_(7)
    assert shared[1].tolist() == [7, 7]
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(leaf * 2)


def test_numbers_of_python_in_all_places(device_name: str) -> None:
    x = tensor.tensor(3, device=device_name)
    assert operator.index(x) == 3
    assert [0] * x == [0, 0, 0]
    assert list(range(x)) == [0, 1, 2]
    assert math.isclose(math.exp(tensor.tensor(1.0, device=device_name)), math.e, rel_tol=1e-6)
    assert max(tensor.tensor([1, 5, 2], device=device_name)).item() == 5


@pytest.mark.parity
@given(arrays.arrays(st.sampled_from("?bhilBefdFD"), arrays.array_shapes(min_dims=0, max_dims=3, max_side=4)))
def test_lists_and_numbers_of_anything(array: Any) -> None:
    torch = pytest.importorskip("torch")
    mine, theirs = tensor.from_numpy(array.copy()).T, torch.from_numpy(array.copy()).T
    assert repr(mine.tolist()) == repr(theirs.tolist())
    for function in (bool, int, float, complex, operator.index, len):
        assert_same_outcome(outcome(function, mine), outcome(function, theirs), assert_alike)
    assert_same_elements(array_of(mine), array_of(theirs))
    assert torch.equal(torch_of(mine).nan_to_num(), theirs.nan_to_num())
