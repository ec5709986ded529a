"""Python's operators on tensors, numbers, NumPy's arrays and foreign objects."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import tensor
from tests.tensor.comparison import array_of, assert_same, outcome

_BINARY = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
    operator.and_,
    operator.or_,
    operator.xor,
    operator.lshift,
    operator.rshift,
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
]
_IN_PLACE = [
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
#: NumPy's bools stay such; PyTorch makes floating point of them.
_NUMBERS = [3, 2, True, 2.5, np.float32(2.5), np.int64(3)]
_NAMES = {"ids": lambda each: getattr(each, "__name__", repr(each))}


def _pair(kind: str) -> list[Any]:
    torch = pytest.importorskip("torch")
    return [
        getattr(library, "tensor")([[1, 2, 3], [4, 0, 1]], dtype=getattr(library, kind))  # noqa: B009
        for library in (tensor, torch)
    ]


def _compare(function: Any, ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> None:
    expected = outcome(function, *theirs)
    result = outcome(function, *ours)
    if isinstance(expected, Exception):
        assert isinstance(result, Exception), f"{result} where PyTorch raises {expected!r}"
        known = (RuntimeError, TypeError)
        assert any(isinstance(result, each) and isinstance(expected, each) for each in known), (
            result,
            expected,
        )
        return
    if isinstance(result, Exception):
        raise AssertionError(f"{result!r} where PyTorch gives {expected}") from result
    if isinstance(expected, (bool, str)):
        assert result == expected
        return
    assert str(result.dtype).split(".")[1] == str(expected.dtype).split(".")[1]
    np.testing.assert_allclose(
        array_of(result).astype(np.float64), array_of(expected).astype(np.float64), 1e-6, equal_nan=True
    )


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["float32", "int32", "uint8", "bool"])
@pytest.mark.parametrize("function", _BINARY, **_NAMES)
def test_operators_are_pytorchs(function: Any, kind: str) -> None:
    ours, theirs = _pair(kind)
    _compare(function, (ours, ours[:1] + 1), (theirs, theirs[:1] + 1))
    for number in _NUMBERS:
        if function is operator.pow and kind == "bool" and isinstance(number, (bool, np.bool_)):
            continue  # PyTorch copies
        _compare(function, (ours, number), (theirs, number))
        if not isinstance(number, (np.generic, np.ndarray)):
            # NumPy's scalars come first in their own expressions, and PyTorch's results are then NumPy's.
            _compare(function, (number, ours + 1), (number, theirs + 1))


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["float32", "int32", "bool"])
@pytest.mark.parametrize("function", _IN_PLACE, **_NAMES)
def test_operators_in_place_are_pytorchs(function: Any, kind: str) -> None:
    for number in (2, 2.5, True, None):
        ours, theirs = _pair(kind)
        if function is operator.ipow and kind == "bool" and number is True:
            continue
        others = (ours[:1] + 1, theirs[:1] + 1) if number is None else (number, number)
        before = ours
        _compare(function, (ours, others[0]), (theirs, others[1]))
        assert ours is before
        np.testing.assert_allclose(array_of(ours).astype(float), array_of(theirs).astype(float), 1e-6)


@pytest.mark.parity
@pytest.mark.parametrize("function", _BINARY, **_NAMES)
@pytest.mark.parametrize("other", [None, "1", [1, 2, 3], object()], ids=["none", "text", "list", "object"])
def test_foreign_objects(function: Any, other: Any) -> None:
    ours, theirs = _pair("float32")
    _compare(function, (ours, other), (theirs, other))
    _compare(function, (other, ours), (other, theirs))


def test_foreign_classes_may_take_over() -> None:
    class Unit:
        def __radd__(self, other: Any) -> str:
            return f"{type(other).__name__} with a unit"

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = object.__hash__

    x = tensor.ones(2)
    assert x + Unit() == "Tensor with a unit"
    assert (x == Unit()) is True


def test_arrays_of_numpy(device_name: str) -> None:
    """An array beside a CPU tensor counts as one, whichever comes first; beside a CUDA one it is an error."""
    array = np.array([1.0, 2.0, 3.0])
    x = tensor.ones(3, device=device_name)
    if device_name == "cuda":
        with pytest.raises(RuntimeError, match="same device"):
            x + array
        return
    for result in (x + array, array + x, x * array, array * x):
        assert isinstance(result, tensor.Tensor)
        assert result.dtype is tensor.float64
    assert (array - x).tolist() == [0.0, 1.0, 2.0]
    assert (array > x).tolist() == [False, True, True]
    result = np.float32(2) * x
    assert isinstance(result, tensor.Tensor)
    assert result.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["float32", "int64", "bool", "complex64"])
def test_signs(kind: str) -> None:
    ours, theirs = _pair(kind)
    for function in (operator.neg, operator.pos, operator.invert, abs):
        expected, result = outcome(function, theirs), outcome(function, ours)
        if isinstance(expected, Exception):
            assert isinstance(result, (RuntimeError, TypeError))
        else:
            assert_same(result, expected)


def test_truth() -> None:
    assert bool(tensor.tensor(1)) and not bool(tensor.tensor([0.0]))
    for several in (tensor.ones(2), tensor.ones(0)):
        with pytest.raises(RuntimeError, match="ambiguous|no values"):
            bool(several)
    assert 2 in tensor.tensor([1, 2]) and 3 not in tensor.tensor([1, 2])
    assert int(tensor.tensor(2.7)) == 2 and float(tensor.tensor(2)) == 2.0
    assert [10, 20, 30][tensor.tensor(1)] == 20
    with pytest.raises(TypeError):
        operator.index(tensor.tensor(1.0))


def test_tensors_are_keys_by_identity() -> None:
    x, y = tensor.ones(2), tensor.ones(2)
    assert {x: 1, y: 2}[y] == 2
