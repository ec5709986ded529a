"""Types of results, for all pairs of dtypes and all kinds of operands, as PyTorch has them; limits of dtypes."""

from __future__ import annotations

import copy
import operator
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tensor
from nvrtc_kernels import dtypes
from tests.tensor.comparison import assert_same_outcome, outcome
from tests.tensor.expressions import assert_expression, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMES = [dtype.name for dtype in dtypes.ALL]
SCALARS = [True, 3, 2.5, 1 + 2j]

#: Kinds of operands: a tensor with dimensions, one without, and an empty one.
SHAPES: list[tuple[int, ...]] = [(2,), (), (0,)]


@pytest.fixture(autouse=True)
def _same_default_dtype() -> Iterator[None]:
    before = tensor.get_default_dtype()
    yield
    tensor.set_default_dtype(before)


def both(names: list[str] = NAMES) -> Iterator[tuple[Any, Any]]:
    """The dtypes of this library and of PyTorch."""
    torch = pytest.importorskip("torch")
    for name in names:
        yield getattr(tensor, name), getattr(torch, name)


@pytest.mark.parity
def test_promote_types() -> None:
    torch = pytest.importorskip("torch")
    for mine, theirs in both():
        for my_other, their_other in both():
            result = tensor.promote_types(mine, my_other)
            assert name_of(result) == name_of(torch.promote_types(theirs, their_other))
            assert result is tensor.promote_types(my_other, mine)


@pytest.mark.parity
def test_can_cast() -> None:
    torch = pytest.importorskip("torch")
    for mine, theirs in both():
        for my_other, their_other in both():
            expected = torch.can_cast(theirs, their_other)
            assert tensor.can_cast(mine, my_other) == expected, (mine, my_other)
            assert tensor.can_cast(from_=mine, to=my_other) == expected


@pytest.mark.parity
@pytest.mark.parametrize("default", ["float32", "float64", "float16", "bfloat16"])
def test_result_type(default: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    tensor.set_default_dtype(getattr(tensor, default))
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, default))
    try:
        mine = [tensor.zeros(s, dtype=k, device=device_name) for k, _ in both() for s in SHAPES] + SCALARS
        theirs = [torch.zeros(s, dtype=k) for _, k in both() for s in SHAPES] + SCALARS
        for x, their_x in zip(mine, theirs, strict=True):
            for y, their_y in zip(mine, theirs, strict=True):
                result, expected = tensor.result_type(x, y), torch.result_type(their_x, their_y)
                assert name_of(result) == type_here(expected), (their_x, their_y)
    finally:
        torch.set_default_dtype(before)


ARITHMETIC: list[Callable[[Any, Any], Any]] = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
]
BITWISE: list[Callable[[Any, Any], Any]] = [
    operator.and_,
    operator.or_,
    operator.xor,
    operator.lshift,
    operator.rshift,
]
COMPARISONS: list[Callable[[Any, Any], Any]] = [
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
]
IN_PLACE: list[Callable[[Any, Any], Any]] = [
    operator.iadd,
    operator.isub,
    operator.imul,
    operator.itruediv,
    operator.ifloordiv,
    operator.imod,
    operator.ipow,
    operator.iand,
    operator.ior,
    operator.ixor,
    operator.ilshift,
    operator.irshift,
]


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", ARITHMETIC + BITWISE + COMPARISONS + IN_PLACE)
def test_operators(function: Callable[[Any, Any], Any]) -> None:
    torch = pytest.importorskip("torch")
    mine = [tensor.ones(s, dtype=k) for k, _ in both() for s in SHAPES[:2]] + SCALARS
    theirs = [torch.ones(s, dtype=k) for _, k in both() for s in SHAPES[:2]] + SCALARS
    in_place = function in IN_PLACE
    for x, their_x in zip(mine, theirs, strict=True):
        for y, their_y in zip(mine, theirs, strict=True):
            if not isinstance(x, tensor.Tensor) and not isinstance(y, tensor.Tensor):
                continue
            left, their_left = (
                (x.clone(), their_x.clone()) if in_place and hasattr(x, "clone") else (x, their_x)
            )
            result, expected = outcome(function, left, y), outcome(function, their_left, their_y)
            if isinstance(expected, NotImplementedError) and "ComplexHalf" in str(expected):
                continue
            if function in (operator.pow, operator.ipow) and _is_bool(x) and _is_bool(y):
                continue
            try:
                assert_same_outcome(result, expected, _same_type)
            except AssertionError as error:
                raise AssertionError(f"{function.__name__}({their_x}, {their_y}): {error}") from error


def _is_bool(x: Any) -> bool:
    return x is True or getattr(x, "dtype", None) is tensor.bool


def type_here(expected: Any) -> str:
    """Name of PyTorch's type here, where there is no complex type of two half precision numbers."""
    name = name_of(expected)
    return "complex64" if name == "complex32" else name


def _same_type(found: Any, expected: Any) -> None:
    assert name_of(found.dtype) == type_here(expected.dtype)
    assert tuple(found.shape) == tuple(expected.shape)


@pytest.mark.parity
@pytest.mark.parametrize("function", [operator.add, operator.truediv, operator.pow, operator.lt])
def test_numpys_numbers_count_as_numbers(function: Callable[[Any, Any], Any]) -> None:
    torch = pytest.importorskip("torch")
    for number in (np.float64(2), np.float32(2), np.int64(2), np.int8(2), np.bool_(True), np.complex64(2)):
        if function is operator.lt and number.dtype.kind == "c":
            continue
        for mine, theirs in both(["int32", "float16", "float32", "complex64"]):
            if function is operator.lt and mine.is_complex:
                continue
            result = function(tensor.ones(2, dtype=mine), number)
            assert result.dtype is function(tensor.ones(2, dtype=mine), number.item()).dtype
            expected = outcome(function, torch.ones(2, dtype=theirs), number.item())
            if not isinstance(expected, NotImplementedError):
                _same_type(result, expected)


def test_0_dim_tensors_of_the_cpu_are_scalars_on_a_device(device_name: str) -> None:
    x = tensor.ones(2, dtype=tensor.float16, device=device_name)
    for scalar in (tensor.tensor(2.0), tensor.tensor(2.0, dtype=tensor.float64), tensor.tensor(3)):
        for result in (x + scalar, scalar + x, x * scalar, scalar < x):
            assert result.device == x.device
        assert (x + scalar).dtype is tensor.float16


MORE: list[str] = [
    "m.ones(2, dtype=m.int32, **on).sqrt()",
    "m.zeros(2, dtype=m.bool, **on).exp()",
    "m.ones(2, dtype=m.uint8, **on).mean(dtype=m.float64)",
    "m.ones(2, dtype=m.int8, **on).sum()",
    "m.ones(2, dtype=m.bool, **on).sum()",
    "m.ones(2, dtype=m.float16, **on).sum()",
    "m.ones(2, dtype=m.int8, **on).sum(dtype=m.float16)",
    "m.ones(2, dtype=m.bool, **on).cumsum(0)",
    "m.ones(2, dtype=m.int8, **on).prod()",
    "m.ones(2, dtype=m.complex64, **on).abs()",
    "m.ones(2, dtype=m.complex128, **on).angle()",
    "m.where(m.ones(2, **on) > 0, 1, 2.5)",
    "m.where(m.ones(2, **on) > 0, m.ones(2, dtype=m.int8, **on), 2.5)",
    "m.where(m.ones(2, **on) > 0, m.ones(2, dtype=m.int8, **on), m.tensor(2.5, dtype=m.float64, **on))",
    "m.maximum(m.ones(2, dtype=m.int8, **on), m.ones(2, **on))",
    "m.cat([m.ones(1, dtype=m.int8, **on), m.ones(1, dtype=m.float16, **on)])",
    "m.stack([m.ones(1, dtype=m.bool, **on), m.ones(1, dtype=m.int32, **on)])",
    "m.add(m.ones(2, dtype=m.int8, **on), 1, alpha=2)",
    "m.add(m.ones(2, dtype=m.int8, **on), 1, alpha=2.5)",
    "m.ones(2, dtype=m.int8, **on).add(2.5)",
    "m.ones(2, dtype=m.int8, **on).add_(2.5)",
    "m.ones(2, dtype=m.int8, **on).add_(m.ones(2, dtype=m.int64, **on))",
    "m.ones(2, dtype=m.bool, **on).add_(1)",
    "m.ones(2, dtype=m.float16, **on).add_(m.ones(2, dtype=m.float64, **on))",
    "m.ones(2, **on).mul_(1j)",
    "m.ones(2, dtype=m.int32, **on).div_(2)",
    "m.add(m.ones(2, **on), 1, out=m.ones(2, dtype=m.float64, **on))",
    "m.add(m.ones(2, **on), 1, out=m.ones(2, dtype=m.float16, **on))",
    "m.add(m.ones(2, **on), 1, out=m.ones(2, dtype=m.int64, **on))",
    "m.lt(m.ones(2, **on), 2, out=m.ones(2, dtype=m.float16, **on))",
    "m.matmul(m.ones(2, 2, **on), m.ones(2, 2, dtype=m.float64, **on))",
    "m.ones(2, 2, dtype=m.int32, **on) @ m.ones(2, 2, **on)",
    "m.ones(2, dtype=m.float16, **on).dot(m.ones(2, **on))",
    "2 ** m.ones(2, dtype=m.int8, **on)",
    "2.5 ** m.ones(2, dtype=m.int8, **on)",
    "1 / m.ones(2, dtype=m.int8, **on)",
    "1 - m.ones(2, dtype=m.bool, **on)",
    "m.ones(2, dtype=m.bool, **on) - m.ones(2, dtype=m.bool, **on)",
    "-m.ones(2, dtype=m.bool, **on)",
    "~m.ones(2, dtype=m.bool, **on)",
    "~m.ones(2, **on)",
    "m.ones(2, **on) & 1",
    "m.ones(2, dtype=m.complex64, **on) < 1",
    "m.ones(2, dtype=m.complex64, **on) // 1",
    "m.ones(2, dtype=m.complex64, **on) % 1",
    "m.arange(2, **on) + 2.5",
    "m.arange(2, **on) * m.tensor(2.5, dtype=m.float64, **on)",
]


@pytest.mark.parity
@pytest.mark.parametrize("text", MORE)
def test_more_operations(text: str, device_name: str) -> None:
    assert_expression(text, device_name)


QUERIES: list[str] = [
    "m.result_type(m.ones(2), 1)",
    "m.result_type(tensor=m.ones(2), other=1)",
    "m.result_type(1, 2.5)",
    "m.result_type(m.ones(2), 'a')",
    "m.result_type(m.ones(2), None)",
    "m.result_type(m.float32, m.ones(2))",
    "m.result_type()",
    "m.promote_types(m.int8, m.float16)",
    "m.promote_types(type1=m.int8, type2=m.float16)",
    "m.promote_types(m.int8, float)",
    "m.promote_types('int8', m.float16)",
    "m.promote_types(m.int8)",
    "m.can_cast(m.float32, m.int8)",
    "m.can_cast(m.float32, 'int8')",
    "m.can_cast(3, m.int8)",
    "m.get_default_dtype()",
    "m.set_default_dtype(m.int32)",
    "m.set_default_dtype('float32')",
    "m.set_default_dtype(None)",
    "m.set_default_dtype(m.complex64)",
    "m.finfo(m.int32)",
    "m.finfo(m.bool)",
    "m.finfo('float32')",
    "m.finfo(3)",
    "m.iinfo(m.float32)",
    "m.iinfo(m.bool)",
    "m.iinfo()",
    "m.iinfo(m.complex64)",
    "m.float32.to_complex()",
    "m.float64.to_complex()",
    "m.complex64.to_real()",
    "m.complex128.to_real()",
    "m.int32.to_real()",
    "m.float == m.float32",
    "m.half is m.float16",
    "m.double is m.float64",
    "m.cfloat is m.complex64",
    "m.cdouble is m.complex128",
    "m.long is m.int64",
    "m.int is m.int32",
    "m.short is m.int16",
    "m.bool == m.uint8",
    "m.float32 == 'float32'",
    "isinstance(m.float32, m.dtype)",
    "m.float32 in {m.float32: 1}",
    "copy.copy(m.float32) is m.float32",
    "copy.deepcopy([m.float32])[0] is m.float32",
]


@pytest.mark.parity
@pytest.mark.parametrize("text", QUERIES)
def test_queries(text: str) -> None:
    assert_expression(text)


def test_a_dtype_has_a_name() -> None:
    assert tensor.float32.name == "float32"


@pytest.mark.parity
@pytest.mark.parametrize("name", NAMES)
def test_limits(name: str) -> None:
    torch = pytest.importorskip("torch")
    kind, theirs = getattr(tensor, name), getattr(torch, name)
    for limits in ("finfo", "iinfo"):
        result = outcome(getattr(tensor, limits), kind)
        expected = outcome(getattr(torch, limits), theirs)
        if isinstance(expected, Exception):
            assert isinstance(result, type(expected))
            continue
        assert repr(result) == repr(expected)
        assert str(result) == str(expected)
        names = [each for each in dir(expected) if not each.startswith("_")]
        for each in names:
            mine, other = getattr(result, each), getattr(expected, each)
            assert type(mine) is type(other), each
            assert mine == other, each


@pytest.mark.parity
def test_limits_compare_and_have_defaults() -> None:
    torch = pytest.importorskip("torch")
    assert repr(tensor.finfo()) == repr(torch.finfo())
    tensor.set_default_dtype(tensor.float64)
    assert tensor.finfo().bits == 64
    assert tensor.finfo(type=tensor.float16).max == 65504
    assert tensor.iinfo(type=tensor.int8).min == -128
    assert tensor.finfo(tensor.float16) == tensor.finfo(tensor.float16)
    assert tensor.finfo(tensor.float16) != tensor.finfo(tensor.bfloat16)
    assert tensor.iinfo(tensor.int8) != tensor.iinfo(tensor.uint8)
    with pytest.raises(AttributeError):
        tensor.finfo(tensor.float16).max = 3


def test_the_default_dtype_is_that_of_floats(device_name: str) -> None:
    on = {"device": device_name}
    tensor.set_default_dtype(tensor.float64)
    assert tensor.get_default_dtype() is tensor.float64
    for result in (
        tensor.tensor(1.5, **on),
        tensor.zeros(2, **on),
        tensor.arange(0, 1, 0.5, **on),
        tensor.eye(2, **on),
    ):
        assert result.dtype is tensor.float64
    assert tensor.tensor(1j, **on).dtype is tensor.complex128
    assert tensor.tensor([1, 2], **on).dtype is tensor.int64
    assert (tensor.tensor([1, 2], **on) / 2).dtype is tensor.float64
    assert (tensor.tensor([1, 2], **on) * 2.5).dtype is tensor.float64
    assert tensor.tensor([1, 2], **on).sqrt().dtype is tensor.float64
    assert tensor.rand(2, **on).dtype is tensor.float64
    assert tensor.Tensor([1, 2]).dtype is tensor.float64
    tensor.set_default_dtype(tensor.float16)
    assert tensor.tensor(1.5, **on).dtype is tensor.float16
    assert tensor.full((2,), 2.5, **on).dtype is tensor.float16


def test_dtypes_are_objects_that_stay_themselves() -> None:
    for dtype in dtypes.ALL:
        assert pickle.loads(pickle.dumps(dtype)) is dtype
        assert copy.deepcopy(dtype) is dtype
        assert repr(dtype) == f"tensor.{dtype.name}"
        assert hash(dtype) == hash(dtype)
        assert getattr(tensor, dtype.name) is dtype
        assert (
            tensor.zeros(1, dtype=dtype).element_size()
            == dtype.itemsize
            == tensor.zeros(1, dtype=dtype).itemsize
        )


@pytest.mark.parametrize("operand", ["a", None, [1, 2], {}, object()])
def test_operands_that_are_none(operand: Any, device_name: str) -> None:
    x = tensor.ones(2, device=device_name)
    for function in (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.lt):
        with pytest.raises(TypeError):
            function(x, operand)
    if operand != [1, 2]:
        assert (x == operand) is False
        assert (x != operand) is True
