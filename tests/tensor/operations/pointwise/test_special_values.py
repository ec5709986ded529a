"""Pointwise operations on zeros, infinities, NaN, the smallest and largest numbers, and integers at their limits."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import tensor
from tests.tensor.comparison import array_of
from tests.tensor.operations.operands import call
from tests.tensor.operations.samples import SAMPLES, Sample

INF, NAN = np.inf, np.nan
_NUMBERS = [0.0, -0.0, 0.5, -0.5, 1, -1, 1.5, 2, -2, 2.5, -2.5, 3, 100, -100, 1e10, -1e10, INF, -INF, NAN]
_FLOATS = {
    "float16": [*_NUMBERS[:-7], 6e-8, 65504, -65504, INF, -INF, NAN],
    "float32": [*_NUMBERS, 1e-45, -1e-45, 1e-38],
    "float64": [*_NUMBERS, 5e-324, -5e-324, 1e-310, 1e300],
}
#: What is not taken from PyTorch where operands are large: formulas that overflow, or types that disagree.
_MODERATE = {"hardswish", "gelu", "pow-root"}
#: Where the sign of a zero depends on the order of operations, C leaves it open, or PyTorch differs by the processor (the
#: gelu of oneDNN, where it is used, has no negative zero).
_SIGNLESS = {
    "addcmul",
    "atan2",
    "clamp",
    "clamp-lower",
    "fmax",
    "fmin",
    "gelu",
    "hardswish",
    "lerp",
    "lerp-tensors",
    "logaddexp2",
    "pow-root",
    "relu",
    "sinc",
    "softshrink",
}
_TESTED = [sample for sample in SAMPLES if "f" in sample.kinds and not sample.condition]


def _operands(sample: Sample, name: str) -> list[Any]:
    """Every number, or every pair or triple of some."""
    numbers = np.array(_FLOATS[name]).astype(name)
    if sample.operands == 3:
        numbers = numbers[[0, 1, 2, 4, 5, -3, -2, -1]]
    return [x.reshape(-1) for x in np.meshgrid(*[numbers] * sample.operands)]


def _assert_same_values(found: Any, expected: Any, sample: Sample, given: list[Any]) -> None:
    """NaN, infinities and zeros where they are to be, and else the same numbers up to roundings."""
    a, b = array_of(found), array_of(expected)
    assert a.dtype == b.dtype
    if a.dtype.kind == "b":
        wrong = a != b
    else:
        limits = np.finfo(a.dtype)
        a, b = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(all="ignore"):
            near = np.abs(a - b) <= limits.eps * 16 * (np.abs(b) + 0.1) + float(limits.tiny) / 8
        wrong = ~(near | (a == b) | ((a != a) & (b != b)))
        if str(sample) not in _SIGNLESS:
            wrong |= (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
    if str(sample) in _MODERATE:
        wrong &= np.abs(given[0]) < 1e9
    if sample.name in {"remainder", "fmod"}:
        # Of very large quotients PyTorch's remainders of float32 are NaN.
        with np.errstate(all="ignore"):
            wrong &= ~(np.abs(given[0] / given[1]) > 1e9)
    shown = [(*(x[i] for x in given), a[i], b[i]) for i in np.nonzero(wrong)[0][:5]]
    assert not wrong.any(), f"{sample}: (operands, found, expected) are {shown}"


#: Whose values at infinity and NaN are NaN in PyTorch, or what the formula gives; see test_special_functions.py.
_OWN = {"i0", "igamma", "igammac", "ldexp", *(set(tensor.special.__all__) - set(tensor.__all__))}


@pytest.mark.parity
@pytest.mark.parametrize("sample", [sample for sample in _TESTED if sample.name not in _OWN], ids=str)
def test_special_values_are_pytorchs(sample: Sample) -> None:
    torch = pytest.importorskip("torch")
    twin = getattr(torch, sample.name, None) or getattr(torch.nn.functional, sample.name)
    for name in _FLOATS:
        argument = _operands(sample, name)
        result = call(sample, [tensor.from_numpy(x) for x in argument])
        expected = twin(*[torch.from_numpy(x) for x in argument], **sample.arguments)
        _assert_same_values(result, expected, sample, argument)


@pytest.mark.parametrize("device_name", ["cuda"], indirect=True)
@pytest.mark.parametrize("sample", _TESTED, ids=str)
def test_special_values_on_a_device(sample: Sample, device_name: str) -> None:
    argument = _operands(sample, "float32")
    expected = call(sample, [tensor.from_numpy(x) for x in argument])
    result = call(sample, [tensor.from_numpy(x).to(device_name) for x in argument])
    _assert_same_values(result, expected, sample, argument)


# Integers

_INTEGERS = [sample for sample in SAMPLES if "i" in sample.kinds and not sample.condition]


def _at_limits(sample: Sample, name: str) -> list[Any]:
    limits = np.iinfo(name)
    numbers = [0, 1, 2, 3, 7, 8, 31, 32, 63, 64, 100, limits.max, limits.max - 1, limits.min]
    numbers += [-1, -2, -3, -8, limits.min + 1] if limits.min else []
    if sample.operands == 3:
        numbers = [0, 1, 3, limits.max, limits.min]
    argument = [x.reshape(-1) for x in np.meshgrid(*[np.array(numbers).astype(name)] * sample.operands)]
    if sample.name in {"gcd", "lcm"}:
        # PyTorch divides by the size of the smallest, which is undefined.
        defined = (
            (argument[0] != limits.min) & (argument[1] != limits.min) if limits.min else argument[0] >= 0
        )
        if sample.name == "lcm":
            # What does not fit wraps, in another way.
            product = np.abs(argument[0].astype(np.float64) * argument[1].astype(np.float64))
            defined &= product < limits.max
        argument = [x[defined] for x in argument]
    if sample.name in {"floor_divide", "remainder", "fmod", "div"}:
        # What divides by zero is an error on a CPU, and the smallest by -1 is undefined.
        defined = (argument[1] != 0) & ~((argument[1] == -1) & (argument[0] == limits.min))
        argument = [x[defined] for x in argument]
    return argument


@pytest.mark.parity
@pytest.mark.parametrize("sample", _INTEGERS, ids=str)
@pytest.mark.sampled(3)
def test_integers_at_their_limits(sample: Sample, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    names = ["int8", "uint8", "int16", "int32", "int64"] if device_name == "cpu" else ["uint8", "int64"]
    for name in names:
        argument = _at_limits(sample, name)
        result = call(sample, [tensor.from_numpy(x).to(device_name) for x in argument])
        if result.dtype.is_floating_point:
            return  # converted before: nothing wraps
        twin = getattr(torch, sample.name, None) or getattr(torch.nn.functional, sample.name)
        expected = twin(*[torch.from_numpy(x) for x in argument], **sample.arguments)
        np.testing.assert_array_equal(array_of(result), array_of(expected), err_msg=f"{sample} of {name}")


def test_integers_divided_by_zero(device_name: str) -> None:
    """An error on the CPU; on a device, which raises none, zero."""
    a, b = (tensor.tensor(x, device=device_name) for x in ([5, -5, 0], [0, 0, 2]))
    for function in (operator.floordiv, operator.mod, tensor.fmod):
        if device_name == "cpu":
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                function(a, b)
            assert function(a[2:], b[2:]).tolist() == [0]
            assert function(a[:0], b[:0]).tolist() == []
        else:
            assert function(a, b).tolist() == [0, 0, 0]
    assert tensor.div(a, b).tolist() == [INF, -INF, 0.0]
    assert tensor.div(a.float(), 0, rounding_mode="floor").tolist()[:2] == [INF, -INF]


def test_remainders_have_the_sign_of_the_divisor(device_name: str) -> None:
    a, b = (tensor.tensor(x, device=device_name) for x in ([7.0, -7.0, 7.0, -7.0], [3.0, 3.0, -3.0, -3.0]))
    for x, y in ((a, b), (a.long(), b.long())):
        assert (x % y).tolist() == [1, 2, -2, -1]
        assert tensor.fmod(x, y).tolist() == [1, -1, 1, -1]
        assert (x // y).tolist() == [2, -3, -3, 2]
        assert tensor.div(x, y, rounding_mode="trunc").tolist() == [2, -2, -2, 2]


def test_numbers_that_wrap(device_name: str) -> None:
    x = tensor.tensor([0, 200], dtype=tensor.uint8, device=device_name)
    assert (x - 1).tolist() == [255, 199]
    assert (x + 300).tolist() == [44, 244]
    assert (x == 456).tolist() == [False, False]
    assert (x < -1).tolist() == [False, False]
    assert (-x).tolist() == [0, 56]
    large = tensor.tensor([2**63 - 1, -(2**63)], device=device_name)
    assert (large + 1).tolist() == [-(2**63), -(2**63) + 1]
    assert (large * 2).tolist() == [-2, 0]
    assert abs(large).tolist() == [2**63 - 1, -(2**63)]


def test_large_integers_stay_exact(device_name: str) -> None:
    """No integer passes through floating point."""
    x = tensor.tensor([2**53 + 1, -(2**62) - 1], device=device_name)
    assert (x + 0).tolist() == [2**53 + 1, -(2**62) - 1]
    assert (x // 1).tolist() == [2**53 + 1, -(2**62) - 1]
    assert (x == 2**53).tolist() == [False, False]
    assert x.clamp(min=2**53).tolist() == [2**53 + 1, 2**53]
    assert tensor.maximum(x, x - 1).tolist() == x.tolist()
    assert tensor.where(x > 0, x, -x).tolist() == [2**53 + 1, 2**62 + 1]
    assert (tensor.tensor([3], device=device_name) ** 39).tolist() == [3**39]
    assert tensor.tensor(2**62 + 1, device=device_name).add(1).item() == 2**62 + 2


# Casts


def test_floating_point_becomes_integers_towards_zero(device_name: str) -> None:
    x = tensor.tensor([0.9, -0.9, 1.5, -1.5, 255.9, -1.0, 256.0], device=device_name)
    assert x.int().tolist() == [0, 0, 1, -1, 255, -1, 256]
    assert x.to(tensor.uint8).tolist() == [0, 0, 1, 255, 255, 255, 0]
    assert x.to(tensor.int8).tolist() == [0, 0, 1, -1, -1, -1, 0]
    assert tensor.tensor([0.0, -0.0, NAN, 1e-45], device=device_name).bool().tolist() == [
        False,
        False,
        True,
        True,
    ]


def test_what_is_too_large_for_a_float_becomes_infinite(device_name: str) -> None:
    x = tensor.tensor([1e300, -1e300, 65519.0, 65520.0, 6e-8], dtype=tensor.float64, device=device_name)
    assert x.float().tolist()[:2] == [INF, -INF]
    assert x.half().tolist()[:4] == [INF, -INF, 65504.0, INF]
    assert x.half()[4].item() == 2**-24
    out = tensor.empty(5, dtype=tensor.float16, device=device_name)
    assert tensor.mul(x, 1, out=out).tolist()[:4] == [INF, -INF, 65504.0, INF]


def test_numbers_beside_half_precision_are_rounded_once(device_name: str) -> None:
    """A number keeps its digits while half precision is computed in single."""
    x = tensor.tensor([1.0, 3.0], dtype=tensor.float16, device=device_name)
    assert (x * (1 / 3)).tolist() == [float(np.float16(np.float32(1) * np.float32(1 / 3))), 1.0]
    assert (x + 1e-8).tolist() == [1.0, 3.0]
    assert (x * 1e6).tolist() == [INF, INF]
    assert (x * 1e6 / 1e6).tolist() == [INF, INF]
