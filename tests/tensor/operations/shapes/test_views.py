"""Views: shapes, strides, offsets and elements of any chain of them, and errors, against NumPy and PyTorch."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tensor
from tests.tensor.comparison import array_of, assert_same_elements, assert_same_outcome, outcome, torch_dtype

from .view_steps import SHAPES, make, make_in_numpy, steps

QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much]


@settings(max_examples=100, suppress_health_check=QUIET)
@given(shape=SHAPES, data=st.data())
def test_chains_against_numpy(shape: tuple[int, ...], data: st.DataObject) -> None:
    array = np.arange(prod(shape), dtype=np.float32).reshape(shape)
    view = tensor.from_numpy(array)
    for _ in range(4):
        name, args = data.draw(steps(tuple(view.shape)))
        result = outcome(make, view, name, args)
        if isinstance(result, Exception):
            assert isinstance(result, (RuntimeError, IndexError, ValueError))
            continue
        expected = make_in_numpy(array, name, args)
        if expected is None:
            continue
        assert len(result) == len(expected)
        for each, that in zip(result, expected, strict=True):
            assert_same_elements(each.numpy(), that)
            copied = name in {"reshape", "ravel", "flatten"}
            assert copied or each.untyped_storage() is view.untyped_storage()
        if result:
            at = data.draw(st.integers(0, len(result) - 1))
            view, array = result[at], expected[at]


def _compare(found: Any, expected: Any) -> None:
    assert torch_dtype(found.dtype) is expected.dtype
    assert tuple(found.shape) == tuple(expected.shape)
    assert found.stride() == expected.stride()
    assert found.storage_offset() == expected.storage_offset()
    assert found.is_contiguous() == expected.is_contiguous()
    assert_same_elements(array_of(found), array_of(expected))


def _compare_all(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for each, that in zip(found, expected, strict=True):
        _compare(each, that)


def _has_negative_sizes(made: Any) -> bool:
    """Whether PyTorch made a tensor of a negative size, as it does where another size is 0."""
    return not isinstance(made, Exception) and any(size < 0 for each in made for size in each.shape)


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["float32", "complex64", "uint8"])
@settings(max_examples=60, suppress_health_check=QUIET)
@given(shape=SHAPES, data=st.data())
def test_chains_against_pytorch(
    device_name: str, kind: str, shape: tuple[int, ...], data: st.DataObject
) -> None:
    torch = pytest.importorskip("torch")
    count = prod(shape)
    base = tensor.arange(count, device=device_name).to(getattr(tensor, kind))
    other_base = torch.arange(count).to(getattr(torch, kind))
    view, other = base.view(shape), other_base.view(shape)
    shared = True
    for _ in range(4):
        step = data.draw(steps(tuple(view.shape)), label="step")
        result, expected = outcome(make, view, *step), outcome(make, other, *step)
        if _has_negative_sizes(expected):
            assert isinstance(result, RuntimeError)
            continue
        if assert_same_outcome(result, expected, _compare_all) and result:
            at = data.draw(st.integers(0, len(result) - 1))
            view, other = result[at], expected[at]
            is_shared = other.untyped_storage().data_ptr() == other_base.untyped_storage().data_ptr()
            assert not count or (view.untyped_storage() is base.untyped_storage()) == is_shared
            shared &= is_shared
    # What is written through the last view is seen by the first tensor.
    version = base._version
    assert_same_outcome(outcome(view.fill_, 7), outcome(other.fill_, 7), _compare)
    assert_same_elements(array_of(base), array_of(other_base))
    assert not shared or base._version >= version


# Each method as scripts call it


def test_names_of_one_view(device_name: str) -> None:
    x = tensor.arange(24, device=device_name).view(2, 3, 4)
    assert x.moveaxis(0, 2).stride() == x.movedim(0, 2).stride() == (4, 1, 12)
    assert x.swapdims(0, 1).stride() == x.swapaxes(0, 1).stride() == x.transpose(0, 1).stride()
    assert x.permute(2, 0, 1).shape == x.permute((2, 0, 1)).shape == x.permute([2, 0, 1]).shape == (4, 2, 3)
    assert x.view(6, 4).shape == x.view((6, 4)).shape == x.view(tensor.Size([6, 4])).shape
    assert x.view(-1).view_as(x).shape == x.reshape(-1).reshape_as(x).shape == x.shape
    assert x[:1].expand_as(x).stride() == x[:1].broadcast_to(x.shape).stride() == (0, 4, 1)
    assert x.unflatten(2, (2, 2)).shape == x.unflatten(dim=-1, sizes=[2, 2]).shape == (2, 3, 2, 2)
    assert [part.shape for part in x.split_with_sizes([1, 3], 2)] == [(2, 3, 1), (2, 3, 3)]
    assert [part.shape for part in x.split(2, dim=1)] == [(2, 2, 4), (2, 1, 4)]
    assert x.flatten(start_dim=1).shape == (2, 12)
    assert x.narrow(dim=2, start=tensor.tensor(1), length=2).storage_offset() == 1


@pytest.mark.parity
def test_methods_that_change_the_tensor_itself(device_name: str) -> None:
    torch = pytest.importorskip("torch")
    mine = tensor.arange(6, device=device_name).view(1, 2, 3)
    theirs = torch.arange(6).view(1, 2, 3)
    for name, args in [
        ("transpose_", (1, 2)),
        ("squeeze_", (0,)),
        ("t_", ()),
        ("unsqueeze_", (-1,)),
        ("squeeze_", ()),
        ("as_strided_", ((2, 2), (1, 2), 1)),
    ]:
        memory = mine.untyped_storage()
        assert getattr(mine, name)(*args) is mine
        getattr(theirs, name)(*args)
        assert mine.untyped_storage() is memory
        _compare(mine, theirs)


def test_complex_numbers_and_their_parts_share_memory(device_name: str) -> None:
    pairs = tensor.arange(12, dtype=tensor.float32, device=device_name).view(2, 3, 2)
    numbers = tensor.view_as_complex(pairs)
    numbers.imag.fill_(-1)
    numbers.real[1] = 7
    assert pairs.tolist() == [[[0, -1], [2, -1], [4, -1]], [[7, -1]] * 3]
    again = tensor.view_as_real(numbers.t())
    assert (again.shape, again.stride()) == ((3, 2, 2), (2, 6, 1))
    assert again.data_ptr() == pairs.data_ptr()


def test_other_types_of_the_same_bytes(device_name: str) -> None:
    x = tensor.tensor([1.0, -2.0], device=device_name)
    assert x.view(tensor.int32).tolist() == [0x3F800000, -0x40000000]
    x.view(tensor.int16)[1::2] = 0
    assert x.tolist() == [0.0, 0.0]
    assert x.view(tensor.uint8).view(tensor.float32).stride() == (1,)
    assert x.view(tensor.complex64).shape == (1,)


# What cannot be

HUGE = 2**62


@pytest.mark.parity
@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("view", (5,), r"shape '\[5\]' is invalid for input of size 6"),
        ("view", (-1, -1), "only one dimension can be inferred"),
        ("view", (-2, 3), "invalid shape dimension -2"),
        ("view", (HUGE, HUGE), "invalid for input of size 6"),
        ("view", (HUGE, 4, 6), "invalid for input of size 6"),
        ("reshape", (HUGE, -1), "invalid for input of size 6"),
        ("expand", (3, 3), r"expanded size of the tensor \(3\) must match the existing size \(2\)"),
        ("expand", (HUGE, 2, 3), "integer multiplication overflow"),
        ("expand", (HUGE, HUGE, 2, 3), "integer multiplication overflow"),
        ("broadcast_to", ((3,),), "must be greater or equal to the number of dimensions"),
        ("select", (0, 2), "index 2 out of range"),
        ("select", (2, 0), "Dimension out of range"),
        ("select", (0, HUGE), "out of range"),
        ("narrow", (1, 2, 2), r"start \(2\) \+ length \(2\) exceeds dimension size \(3\)"),
        ("narrow", (1, 0, HUGE), "exceeds dimension size"),
        ("narrow", (1, 0, -1), "length must be non-negative"),
        ("unfold", (0, 3, 1), "maximum size for tensor at dimension 0 is 2 but size is 3"),
        ("unfold", (0, 1, 0), "step is 0 but must be > 0"),
        ("as_strided", ((2,), (1, 1)), "mismatch in length of strides and shape"),
        ("as_strided", ((7,), (1,)), "out of bounds for storage of size"),
        ("as_strided", ((HUGE, HUGE), (HUGE, HUGE)), "integer multiplication overflow"),
        ("as_strided", ((2,), (1,), -1), "out of bounds"),
        ("as_strided", ((2,), (1,), HUGE), "out of bounds"),
        ("split", (-1,), "split_size be non-negative, but got split_size=-1"),
        ("split", ([1, 2],), "sum exactly to 2"),
        ("chunk", (0,), "greater than 0, got: 0"),
        ("permute", (0,), "number of dimensions"),
        ("permute", (0, 0), "dim 0 appears multiple times"),
        ("transpose", (0, 2), "Dimension out of range"),
        ("unflatten", (1, (2, 2)), "don't multiply up to the size of dim 1"),
        ("diagonal", (0, 1, 1), "cannot be identical"),
        ("view", ("float32",), None),
        ("view", (1.5,), None),
        ("expand", (None,), None),
        ("permute", ("ab",), None),
        ("transpose", (0,), None),
        ("transpose", (0.5, 1), None),
        ("select", (0, None), None),
        ("narrow", (0, "1", 1), None),
    ],
)
def test_errors(device_name: str, name: str, args: tuple[Any, ...], message: str | None) -> None:
    torch = pytest.importorskip("torch")
    x = tensor.arange(6, device=device_name).view(2, 3)
    result = outcome(getattr(x, name), *args)
    assert_same_outcome(result, outcome(getattr(torch.arange(6).view(2, 3), name), *args), lambda *_: None)
    if message is not None:
        with pytest.raises(type(result), match=message):
            raise result
    assert (tuple(x.shape), x._version) == ((2, 3), 0)
