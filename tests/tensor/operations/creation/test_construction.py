"""Tensors of data: numbers, nested sequences, arrays, buffers and other tensors, as PyTorch reads them."""

from __future__ import annotations

import math
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import drv
import tensor
from nvrtc_kernels import dtypes
from tests.tensor.comparison import assert_same, assert_same_elements, assert_same_outcome, outcome
from tests.tensor.expressions import assert_expression, value

NUMBERS: list[str] = [
    "m.tensor(3, **on)",
    "m.tensor(-3.5, **on)",
    "m.tensor(True, **on)",
    "m.tensor(1 - 2j, **on)",
    "m.tensor(nan, **on)",
    "m.tensor(2**62, **on)",
    "m.tensor(-2**63, **on)",
    "m.tensor(-0.0, **on)",
    "m.tensor(1e300, **on)",
    "m.tensor(1e300, dtype=m.float16, **on)",
    "m.tensor(1e300, dtype=m.bfloat16, **on)",
    "m.tensor(1e300 + 1j, dtype=m.complex64, **on)",
    "m.tensor(3, dtype=m.float64, **on)",
    "m.tensor(3, dtype=m.complex128, **on)",
    "m.tensor(3.99, dtype=m.int32, **on)",
    "m.tensor(-3.99, dtype=m.int32, **on)",
    "m.tensor(0.3, dtype=m.bool, **on)",
    "m.tensor(nan, dtype=m.bool, **on)",
    "m.tensor(-1, dtype=m.uint8, **on)",
    "m.tensor(-255, dtype=m.uint8, **on)",
    "m.tensor(True, dtype=m.float16, **on)",
    "m.tensor(2**70, dtype=m.float32, **on)",
    "m.tensor(0.1, dtype=m.float16, **on)",
    "m.tensor(0.1, dtype=m.bfloat16, **on)",
    "m.tensor(65519, dtype=m.float16, **on)",
    "m.tensor(data=3, **on)",
    "m.tensor(3.0, requires_grad=True, **on)",
    "m.tensor(3, dtype=m.complex64, requires_grad=True, **on)",
]

SEQUENCES: list[str] = [
    "m.tensor([1, 2, 3], **on)",
    "m.tensor((1, 2, 3), **on)",
    "m.tensor([[1, 2], [3, 4]], **on)",
    "m.tensor([[[1], [2]], ((3,), [4])], **on)",
    "m.tensor([], **on)",
    "m.tensor([[]], **on)",
    "m.tensor([[], []], **on)",
    "m.tensor([[[], []]], **on)",
    "m.tensor((), dtype=m.int64, **on)",
    "m.tensor([], dtype=m.bool, **on)",
    "m.tensor([True, False], **on)",
    "m.tensor([True, 2], **on)",
    "m.tensor([True, 2.5], **on)",
    "m.tensor([1, 2.5], **on)",
    "m.tensor([1, 2j], **on)",
    "m.tensor([1.5, 2j], **on)",
    "m.tensor([[1, 2], [True, 3.5]], **on)",
    "m.tensor([True, 1j], **on)",
    "m.tensor([2**62, 1], **on)",
    "m.tensor([2**53 + 1, 2**62 + 1], **on)",
    "m.tensor([2**63, 1.0], **on)",
    "m.tensor([1e300, 1], **on)",
    "m.tensor([-1, 2], dtype=m.uint8, **on)",
    "m.tensor([0.5, 2.5], dtype=m.int8, **on)",
    "m.tensor([0, 0.1, nan], dtype=m.bool, **on)",
    "m.tensor([1, 2], dtype=m.bfloat16, **on)",
    "m.tensor([70000, 1], dtype=m.float16, **on)",
    "m.tensor([1, 2], dtype=m.complex64, **on)",
    "m.tensor(range(5), **on)",
    "m.tensor([range(2), range(2, 4)], **on)",
    "m.tensor([np.float32(1), np.float32(2)], **on)",
    "m.tensor([np.float64(1), 2], **on)",
    "m.tensor([np.float16(1), 2], **on)",
    "m.tensor([np.int8(1), np.int16(2)], **on)",
    "m.tensor([np.int32(1), 2.5], **on)",
    "m.tensor([np.bool_(True), False], **on)",
    "m.tensor([np.complex64(1j), 1], **on)",
    "m.tensor([np.array([1, 2]), np.array([3, 4])], **on)",
    "m.tensor([np.array([1.5, 2]), [3, 4]], **on)",
    "m.tensor([[3, 4], np.array([1.5, 2])], **on)",
    "m.tensor([np.zeros((2, 0)), np.zeros((2, 0))], **on)",
    "m.tensor([m.tensor(1, **on), m.tensor(2, **on)], **on)",
    "m.tensor([m.tensor(1.5, **on), 2], **on)",
    "m.tensor([2, m.tensor(1.5, **on)], **on)",
    "m.tensor([m.tensor([1], **on), m.tensor([2], **on)], **on)",
    "m.tensor([m.tensor([1, 2], **on), m.tensor([3, 4], **on)], **on)",
    "m.tensor([m.tensor([[1.5]], **on), [[2]]], **on)",
    "m.tensor([m.tensor(1, dtype=m.int8, **on), m.tensor(2, dtype=m.int8, **on)], **on)",
    "m.tensor([m.tensor(1, dtype=m.bfloat16, **on)], **on)",
    "m.tensor([m.tensor(1.5, dtype=m.float64, **on), 1], **on)",
    "m.tensor([m.tensor(True, **on), m.tensor(2, dtype=m.uint8, **on)], **on)",
    "m.tensor([m.tensor(1.0, requires_grad=True, **on).detach()], **on)",
    "m.tensor(memoryview(b'abc'), **on)",
    "m.tensor(bytearray(b'abc'), **on)",
    "m.tensor(b'abc', **on)",
    "m.tensor([1, 2], pin_memory=False, **on)",
]

ARRAYS: list[str] = [
    "m.tensor(np.arange(6).reshape(2, 3), **on)",
    "m.tensor(np.arange(6).reshape(2, 3).T, **on)",
    "m.tensor(np.array(3.5), **on)",
    "m.tensor(np.float32(3.5), **on)",
    "m.tensor(np.float64(3.5), **on)",
    "m.tensor(np.int8(3), **on)",
    "m.tensor(np.bool_(True), **on)",
    "m.tensor(np.complex128(3), **on)",
    "m.tensor(np.arange(3), dtype=m.float16, **on)",
    "m.tensor(np.array([1.5, -2.5, 300]), dtype=m.int32, **on)",
    "m.tensor(np.array([1.5, 0]), dtype=m.bool, **on)",
    "m.tensor(np.array([1 + 2j]), dtype=m.complex64, **on)",
    "m.as_tensor(np.arange(3), **on)",
    "m.as_tensor(np.arange(6).reshape(2, 3).T, **on)",
    "m.as_tensor(np.arange(3), dtype=m.float32, **on)",
    "m.as_tensor([1, 2], **on)",
    "m.as_tensor(1.5, **on)",
    "m.as_tensor(np.float32(1.5), **on)",
    "m.as_tensor(m.arange(3, **on), dtype=m.float64)",
    "m.as_tensor([m.tensor(1.0, **on), m.tensor(2.0, **on)], **on)",
    "m.asarray([1, 2], **on)",
    "m.asarray(2.5, **on)",
    "m.asarray(np.arange(3), **on)",
    "m.asarray(np.arange(6).reshape(2, 3).T, **on)",
    "m.asarray(m.arange(3, **on))",
    "m.asarray(m.arange(3, **on), dtype=m.float32, copy=True)",
    "m.asarray([1.0], requires_grad=True, **on)",
    "m.asarray(m.ones(2, requires_grad=True, **on))",
    "m.asarray(b'abcd', dtype=m.uint8, **on)",
    "m.asarray(bytearray(b'abcd'), dtype=m.int16, **on)",
    "m.asarray((1, 2.5), **on)",
    "m.frombuffer(bytearray(b'abcdefgh'), dtype=m.int16)",
    "m.frombuffer(bytearray(b'abcdefgh'), dtype=m.int16, count=2, offset=2)",
    "m.frombuffer(bytearray(4), dtype=m.float32, requires_grad=True)",
    "m.from_numpy(np.arange(6).reshape(2, 3))",
    "m.from_numpy(np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1)[::2])",
    "m.from_numpy(np.broadcast_to(np.ones(3), (2, 3)).copy())",
    "m.from_numpy(np.array(3.5))",
    "m.Tensor([1, 2])",
    "m.Tensor([[1.5], [2]])",
    "m.Tensor()",
    "m.Tensor(0)",
    "m.Tensor(0, 3)",
    "m.Tensor(m.Size([0, 2]))",
    "m.Tensor(np.array([1.5, 2], dtype=np.float32))",
    "m.tensor(m.arange(3, **on))",
    "m.tensor(m.arange(3, **on), dtype=m.float64)",
    "m.tensor(m.ones(2, requires_grad=True, **on))",
    "m.tensor(m.arange(6, **on).reshape(2, 3).t())",
    "m.tensor(m.zeros(2, 1, **on).expand(2, 3))",
    "m.scalar_tensor(3, **on)",
    "m.scalar_tensor(3, dtype=m.int8, **on)",
]


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("text", NUMBERS + SEQUENCES + ARRAYS)
def test_data_are_read_as_by_pytorch(text: str, device_name: str) -> None:
    result, _ = assert_expression(text, device_name)
    if not isinstance(result, Exception):
        assert result.device.type == (device_name if "on)" in text else "cpu")


ERRORS: list[str] = [
    "m.tensor()",
    "m.tensor(None, **on)",
    "m.tensor('abc', **on)",
    "m.tensor('3', **on)",
    "m.tensor(object(), **on)",
    "m.tensor({1: 2}, **on)",
    "m.tensor({1, 2}, **on)",
    "m.tensor(iter([1, 2]), **on)",
    "m.tensor([None], **on)",
    "m.tensor(['a'], **on)",
    "m.tensor([1, 'a'], **on)",
    "m.tensor([1, None], **on)",
    "m.tensor([object()], **on)",
    "m.tensor([1, [2]], **on)",
    "m.tensor([[1], 2], **on)",
    "m.tensor([[1, 2], [3]], **on)",
    "m.tensor([[1], [2, 3]], **on)",
    "m.tensor([[[1, 2]], [[3]]], **on)",
    "m.tensor([[1], []], **on)",
    "m.tensor([np.zeros(2), np.zeros(3)], **on)",
    "m.tensor([np.zeros(2), 1], **on)",
    "m.tensor([1, np.zeros(2)], **on)",
    "m.tensor([m.zeros(2, **on), m.zeros(3, **on)], **on)",
    "m.tensor([m.zeros(2, **on), 1], **on)",
    "m.tensor([1, m.zeros(2, **on)], **on)",
    "m.tensor(2**63, **on)",
    "m.tensor(-2**63 - 1, **on)",
    "m.tensor(2**70, **on)",
    "m.tensor([2**63], **on)",
    "m.tensor([1, 2**64], **on)",
    "m.tensor(128, dtype=m.int8, **on)",
    "m.tensor([128], dtype=m.int8, **on)",
    "m.tensor(256, dtype=m.uint8, **on)",
    "m.tensor([1, 256], dtype=m.uint8, **on)",
    "m.tensor(-256, dtype=m.uint8, **on)",
    "m.tensor(2**31, dtype=m.int32, **on)",
    "m.tensor(1e10, dtype=m.int32, **on)",
    "m.tensor([1e10], dtype=m.int32, **on)",
    "m.tensor(nan, dtype=m.int64, **on)",
    "m.tensor([inf], dtype=m.int64, **on)",
    "m.tensor(1j, dtype=m.float32, **on)",
    "m.tensor([1j], dtype=m.float32, **on)",
    "m.tensor(1j, dtype=m.int32, **on)",
    "m.tensor([1, 1j], dtype=m.int32, **on)",
    "m.tensor(1, dtype='int32', **on)",
    "m.tensor(1, dtype=np.int32, **on)",
    "m.tensor(1, device='gpu')",
    "m.tensor(1, unknown=3, **on)",
    "m.tensor(1, m.int64, **on)",
    "m.tensor([1], requires_grad=True, **on)",
    "m.tensor(True, requires_grad=True, **on)",
    "m.tensor(np.array(['a']), **on)",
    "m.tensor(np.array([None]), **on)",
    "m.tensor(np.array(['2020-01-01'], 'M8[D]'), **on)",
    "m.tensor(np.zeros(2, [('a', 'i4')]), **on)",
    "m.tensor(np.str_('3'), **on)",
    "m.from_numpy([1, 2])",
    "m.from_numpy(3)",
    "m.from_numpy(np.float32(3))",
    "m.from_numpy(np.array(['a']))",
    "m.from_numpy(np.array([1, 2])[::-1])",
    "m.from_numpy(np.arange(3).astype('>i4'))",
    "m.from_numpy(np.zeros(4, [('a', 'i1'), ('b', '<i4')])['b'])",
    "m.from_numpy(np.array([None]))",
    "m.from_numpy(m.ones(2))",
    "m.as_tensor(None)",
    "m.as_tensor('a')",
    "m.as_tensor([[1], [2, 3]])",
    "m.as_tensor(np.array([1, 2])[::-1])",
    "m.asarray([1, 2], copy=False)",
    "m.asarray(m.arange(3, **on), dtype=m.float32, copy=False)",
    "m.asarray(None)",
    "m.asarray([1], requires_grad=True)",
    "m.asarray(b'abc', dtype=m.int16)",
    "m.frombuffer(b'', dtype=m.int8)",
    "m.frombuffer(bytearray(8), dtype=m.int16, count=5)",
    "m.frombuffer(bytearray(8), dtype=m.int16, offset=9)",
    "m.frombuffer(bytearray(7), dtype=m.int16)",
    "m.frombuffer(bytearray(8), dtype=m.int16, count=0)",
    "m.frombuffer(bytearray(8), dtype='i4')",
    "m.frombuffer(bytearray(8))",
    "m.frombuffer([1, 2], dtype=m.int8)",
    "m.frombuffer(bytearray(8), dtype=m.int16, offset=-1)",
    "m.Tensor('abc')",
    "m.Tensor(2.5)",
    "m.Tensor(-1)",
    "m.Tensor(1, 'a')",
    "m.Tensor(None)",
]


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("text", ERRORS)
def test_errors_are_of_pytorchs_class(text: str, device_name: str) -> None:
    result, _ = assert_expression(text, device_name)
    assert isinstance(result, Exception)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m.tensor([[1, 2], [3]])", r"expected sequence of length 2 at dim 1 \(got 1\)"),
        ("m.tensor([[], [1]])", r"expected sequence of length 0 at dim 1 \(got 1\)"),
        ("m.tensor([[1], 2])", "not a sequence at dim 1: got int"),
        ("m.tensor([1, [2]])", "expected a number at dim 1, got list of length 1"),
        ("m.tensor(None)", "Could not infer dtype of NoneType"),
        ("m.tensor([1, 'a'])", r"new\(\): invalid data type 'str'"),
        ("m.tensor(300, dtype=m.int8)", "cannot be converted to type tensor.int8 without overflow: 300"),
        ("m.tensor(1j, dtype=m.float32)", "must be a real number, not complex: 1j"),
        ("m.tensor(2**64)", "18446744073709551616 needs more than 64 bits"),
        ("m.tensor([m.zeros(2, 3), 1])", r"one element tensors .* shape \[2, 3\]; use tensor.stack"),
        (
            "m.tensor(np.array(['a']))",
            "can't convert np.ndarray of type numpy.<U1. The only supported types are",
        ),
        ("m.from_numpy([1])", r"expected np.ndarray \(got list\)"),
        ("m.from_numpy(np.arange(3)[::-1])", r"negative strides .* array.copy\(\)"),
        (
            "m.from_numpy(np.arange(3).astype('>i4'))",
            "byte order different from the native byte order .*newbyteorder",
        ),
        ("m.tensor(1, dtype=np.int32)", r"argument 'dtype' must be tensor.dtype, not type"),
    ],
)
def test_errors_say_what_was_given(text: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        value(text, tensor)


def test_lists_of_floats_are_rounded_as_numpy_rounds_them() -> None:
    numbers = [1e300, -1e300, 0.1, 1 / 3, 1e-45, -1e-46, float("nan"), float("inf"), -0.0]
    result = tensor.tensor(numbers)
    with np.errstate(over="ignore"):
        expected = np.array(numbers).astype(np.float32)
    assert result.dtype is tensor.float32
    np.testing.assert_array_equal(result.numpy().view(np.int32), expected.view(np.int32))
    numbers[0] = 1.0
    assert result[0] == float("inf")
    result.add_(1).resize_(100)


def test_data_that_numpy_reads_backwards_are_copied() -> None:
    assert tensor.tensor(np.arange(6)[::-2]).tolist() == [5, 3, 1]
    assert tensor.tensor(np.arange(3).astype(">i4")).tolist() == [0, 1, 2]
    assert tensor.tensor(np.zeros(3, [("a", "i1"), ("b", "<i4")])["b"]).tolist() == [0, 0, 0]


def test_a_sequence_of_ones_own_is_read(device_name: str) -> None:
    class Row:
        def __init__(self, *values: Any) -> None:
            self.values = values

        def __len__(self) -> int:
            return len(self.values)

        def __getitem__(self, position: int) -> Any:
            return self.values[position]

    result = tensor.tensor([Row(1, 2.5), Row(3, 4)], device=device_name)
    assert result.tolist() == [[1, 2.5], [3, 4]]
    assert tensor.tensor(Row(), device=device_name).shape == (0,)


def test_an_object_with_an_array_is_read(device_name: str) -> None:
    class Holder:
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
            return np.array([[1, 2]], dtype or np.int16)

    result = tensor.tensor(Holder(), device=device_name)
    assert (result.dtype, result.tolist()) == (tensor.int16, [[1, 2]])
    assert tensor.as_tensor(Holder(), dtype=tensor.float32, device=device_name).tolist() == [[1, 2]]


@pytest.mark.parametrize("kind", dtypes.EVERY, ids=lambda kind: kind.name)
def test_arrays_of_every_dtype(kind: dtypes.dtype, device_name: str) -> None:
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(kind.numpy)
    for result in (
        tensor.tensor(array, device=device_name),
        tensor.as_tensor(array, device=device_name),
        tensor.asarray(array, device=device_name),
        tensor.tensor([list(row) for row in array], device=device_name),
        tensor.from_numpy(array).to(device_name),
    ):
        assert result.dtype is kind
        assert result.device.type == device_name
        assert_same_elements(result.cpu().numpy(), array)


def test_bfloat16_travels_through_ml_dtypes() -> None:
    array = np.array([1.5, -2.25, np.inf], ml_dtypes.bfloat16)
    shared = tensor.from_numpy(array)
    assert shared.dtype is tensor.bfloat16
    shared[0] = 7
    assert array[0] == 7
    assert shared.numpy().dtype == ml_dtypes.bfloat16
    assert tensor.tensor(array[1]).item() == -2.25
    assert tensor.tensor(array[1]).dtype is tensor.bfloat16
    assert tensor.tensor([array[0], array[1]]).dtype is tensor.bfloat16


def test_memory_is_shared_where_pytorch_shares_it() -> None:
    array = np.arange(6.0).reshape(2, 3)
    for shared in (tensor.from_numpy(array), tensor.as_tensor(array), tensor.asarray(array)):
        assert shared.data_ptr() == array.ctypes.data
        shared[0, 0] += 1
    assert array[0, 0] == 3
    part = tensor.from_numpy(array[:, ::2].T)
    assert (part.shape, part.stride()) == ((2, 2), (2, 3))
    part.fill_(0)
    assert array.tolist() == [[0, 1, 0], [0, 4, 0]]
    result = tensor.arange(3)
    assert tensor.as_tensor(result) is result
    assert tensor.asarray(result) is result
    assert tensor.as_tensor(result, dtype=tensor.int64) is result
    data = bytearray(8)
    tensor.frombuffer(data, dtype=tensor.uint8)[3] = 9
    assert data[3] == 9


def test_memory_is_copied_where_pytorch_copies_it() -> None:
    array = np.arange(3.0)
    for copied in (
        tensor.tensor(array),
        tensor.as_tensor(array, dtype=tensor.float32),
        tensor.asarray(array, copy=True),
        tensor.as_tensor([array]),
        tensor.Tensor(array),
    ):
        copied.fill_(7)
    assert array.tolist() == [0, 1, 2]


def test_a_shared_array_stays_alive() -> None:
    result = tensor.from_numpy(np.full(1000, 3.0))
    np.full(1000, 4.0)
    assert result.tolist() == [3.0] * 1000


def test_read_only_arrays_warn_and_are_not_written() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    for make in (tensor.from_numpy, tensor.as_tensor, tensor.asarray):
        with pytest.warns(UserWarning, match="The given NumPy array is not writable"):
            result = make(array)
        assert result.tolist() == [0, 1, 2]
        with pytest.raises((RuntimeError, ValueError), match="read-only|not writ"):
            result.add_(1)
    assert array.tolist() == [0, 1, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tensor.tensor(array).add_(1)
    with pytest.warns(UserWarning, match="The given buffer is not writable"):
        assert tensor.frombuffer(b"abc", dtype=tensor.uint8).tolist() == [97, 98, 99]


def test_a_tensor_as_data_warns_and_is_detached(device_name: str) -> None:
    argument = tensor.ones(2, 3, device=device_name, requires_grad=True)
    with pytest.warns(UserWarning, match=r"recommended to use sourceTensor.detach\(\).clone\(\)"):
        result = tensor.tensor(argument.t())
    assert not result.requires_grad
    assert result.device == argument.device
    assert result.stride() == (1, 3)
    assert result.data_ptr() != argument.data_ptr()


def test_pinned_data() -> None:
    drv.simulator.install()
    assert tensor.tensor([1, 2], pin_memory=True).is_pinned()
    assert tensor.tensor(np.arange(3), pin_memory=True).is_pinned()
    assert tensor.zeros(3, pin_memory=True).is_pinned()
    assert tensor.arange(3, pin_memory=True).tolist() == [0, 1, 2]
    for text in ("m.zeros(3, pin_memory=True, **on)", "m.zeros_like(m.zeros(3, **on), pin_memory=True)"):
        with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
            value(text, tensor, "cuda")


LEAVES = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(width=32), st.complex_numbers(width=64)
)
NESTED = arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3).flatmap(
    lambda shape: st.lists(LEAVES, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))).map(
        lambda flat: _nested(flat, shape)
    )
)


def _nested(flat: list[Any], shape: tuple[int, ...]) -> list[Any]:
    if len(shape) == 1:
        return flat
    step = len(flat) // shape[0] if shape[0] else 0
    return [_nested(flat[row * step : (row + 1) * step], shape[1:]) for row in range(shape[0])]


NUMBERS_AT_LIMITS = [
    *(-0.0, -0.5, -1.0, -1, -255, -255.0, -256, 127.5, 128.0, -128.5, -129.0, 255.5, 256.0, 65504.0, 65520.0),
    *(2**63 - 1, -(2**63), 2.0**63, -(2.0**63), 1e30, 1e39, math.inf, math.nan, 0j, 1j, -1 + 0j, True),
]


@pytest.mark.parity
@pytest.mark.parametrize("name", [dtype.name for dtype in dtypes.ALL])
def test_numbers_at_the_limits_of_a_dtype(name: str) -> None:
    torch = pytest.importorskip("torch")
    for number in NUMBERS_AT_LIMITS:
        for data in (number, [number], [0.0, number], [number, 0j], [[False, number], [number, 0j]]):
            result = outcome(tensor.tensor, data, dtype=getattr(tensor, name))
            assert_same_outcome(result, outcome(torch.tensor, data, dtype=getattr(torch, name)))


@pytest.mark.parity
@given(NESTED, st.sampled_from([None, *(dtype.name for dtype in dtypes.ALL)]))
def test_nested_lists_of_anything(data: list[Any], name: str | None) -> None:
    torch = pytest.importorskip("torch")
    result = outcome(tensor.tensor, data, dtype=name and getattr(tensor, name))
    expected = outcome(torch.tensor, data, dtype=name and getattr(torch, name))
    assert_same_outcome(result, expected)


@pytest.mark.parity
@given(arrays.arrays(st.sampled_from("?bhilBefdFD"), arrays.array_shapes(min_dims=0, max_dims=3, max_side=4)))
def test_arrays_of_anything(array: Any) -> None:
    torch = pytest.importorskip("torch")
    assert_same(tensor.tensor(array.T), torch.tensor(array.T))
    assert_same(tensor.from_numpy(array.T), torch.from_numpy(array.T))
    assert_same(tensor.as_tensor(array[None][..., None]), torch.as_tensor(array[None][..., None]))
