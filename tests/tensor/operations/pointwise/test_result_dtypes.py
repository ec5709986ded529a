"""What ``out=`` of a wider dtype gets: what the result's own dtype holds, not what C or NumPy computed it with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from nvrtc_kernels import dtypes
from tests.pytorch import torch
from tests.tensor.comparison import array_of, outcome
from tests.tensor.operations.samples import SAMPLES, Sample

from .test_against_pytorch import _twin

#: Functions of integers, by the operands' dtype and a wider one for the result.
_INTEGERS = [sample for sample in SAMPLES if sample.out and set(sample.kinds) & set("bi")]
_WIDER = [("uint8", "int64"), ("bool", "uint8")]
#: What PyTorch computes by other formulas for large integers; ``lcm`` of int32 overflows in another way.
_OTHER_NUMBERS = {"lcm", "ldexp", "pow", "logit", "ndtr", "entr"}


def _is_floating(sample: Sample) -> bool:
    """Whether results of integers are floating point numbers."""
    ones = [tensor.ones(1, dtype=tensor.int32)] * sample.operands
    result = outcome(sample.function, *ones, **sample.arguments)
    return not isinstance(result, Exception) and bool(result.is_floating_point())


def _operands(sample: Sample, kind: str) -> list[Any]:
    """Numbers from the whole range of a dtype; divisors are not 0, and shifts are small."""
    rng = np.random.default_rng(0)
    is_integer = sample.condition or not _is_floating(sample)
    element = dtypes.dtype_named(kind).numpy
    result = []
    for position in range(sample.operands):
        if kind == "bool":
            result.append(rng.integers(0, 2, 9).astype(bool))
            continue
        if dtypes.dtype_named(kind).is_floating_point:
            result.append(rng.uniform(sample.low, sample.high, 9).astype(np.float32))
            continue
        low, high = np.iinfo(element).min, np.iinfo(element).max
        if not is_integer:
            # Functions that oscillate are not compared at numbers of ten digits.
            low, high = max(low, int(sample.low)), int(sample.high)
        values = rng.integers(low, high, 9, dtype=element, endpoint=True)
        if position:
            values[(values == 0) | (values == -1)] = 3
            if "shift" in sample.name:
                values %= 8
        else:
            values[:2] = max(low, -high), high
        result.append(values)
    return [rng.integers(0, 2, 9).astype(bool), *result] if sample.condition else result


def _call(sample: Sample, function: Any, library: Any, kind: str, out: str, device: str = "cpu") -> Any:
    """A function's result in a tensor of dtype ``out``."""
    given = [
        x if x.dtype == bool else x.to(getattr(library, kind))
        for x in (library.from_numpy(array.copy()) for array in _operands(sample, kind))
    ]
    if library is tensor:
        given = [x.to(device) for x in given]
        result = tensor.empty(9, dtype=dtypes.dtype_named(out), device=device)
    else:
        result = library.empty(9, dtype=getattr(library, out))
    function(*given, **sample.arguments, out=result)
    return result


def _assert_near(found: Any, expected: Any, what: str, limit: float = 1e-5) -> None:
    a, b = array_of(found), array_of(expected)
    if a.dtype.kind in "biu":
        np.testing.assert_array_equal(a, b, err_msg=what)
    else:
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(a.astype(wide), b.astype(wide), limit, 1e-6, err_msg=what)


@pytest.mark.parametrize("kind", [["uint8", 200, 100, 44], ["int8", 100, 100, -56]])
@pytest.mark.sampled(4)
def test_sums_wrap_in_their_own_dtype(kind: Any, checked_device: str) -> None:
    name, first, second, total = kind
    on = {"dtype": dtypes.dtype_named(name), "device": checked_device}
    a, b = tensor.tensor([first], **on), tensor.tensor([second], **on)
    for dtype in (tensor.int32, tensor.int64, tensor.float32, tensor.complex64):
        out = tensor.empty(1, dtype=dtype, device=checked_device)
        assert tensor.add(a, b, out=out).tolist() == [total]
        assert tensor.sub(a, -b, out=out).tolist() == [total]


def test_arithmetic_of_bools_stays_in_bools(checked_device: str) -> None:
    yes = tensor.ones(2, dtype=tensor.bool, device=checked_device)
    out = tensor.empty(2, dtype=tensor.uint8, device=checked_device)
    assert tensor.add(yes, yes, out=out).tolist() == [1, 1]
    assert tensor.bitwise_not(yes, out=out).tolist() == [0, 0]


def test_half_precision_is_rounded_before_it_is_widened(checked_device: str) -> None:
    for dtype in (tensor.float16, tensor.bfloat16):
        one = tensor.ones(3, dtype=dtype, device=checked_device)
        little = tensor.full((3,), 2.0**-12, dtype=dtype, device=checked_device)
        for wide in (tensor.float32, tensor.float64, tensor.complex64):
            out = tensor.empty(3, dtype=wide, device=checked_device)
            assert tensor.add(one, little, out=out).tolist() == [1, 1, 1]


@pytest.mark.parametrize(("kind", "out"), _WIDER)
def test_a_device_gives_what_the_host_gives(kind: str, out: str, device: Any) -> None:
    for sample in _INTEGERS:
        host = outcome(_call, sample, sample.function, tensor, kind, out)
        result = outcome(_call, sample, sample.function, tensor, kind, out, "cuda")
        if isinstance(host, Exception):
            assert type(result) is type(host), f"{sample}: {result!r} instead of {host!r}"
        else:
            _assert_near(result, host, str(sample))


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["bool", "uint8", "int8", "int16", "int32", "float16", "bfloat16"])
@pytest.mark.sampled(3)
def test_outputs_of_other_dtypes_are_pytorchs(kind: str) -> None:
    for sample in SAMPLES:
        if not sample.out or sample.name in _OTHER_NUMBERS or sample.twin == "":
            continue
        twin = _twin(sample)
        for out in ("bool", "uint8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64"):
            expected = outcome(_call, sample, twin, torch, kind, out)
            # Some functions of PyTorch take outputs of the result's dtype only.
            if isinstance(expected, Exception):
                continue
            result = outcome(_call, sample, sample.function, tensor, kind, out)
            # Sources of activations have no out=.
            if isinstance(result, TypeError):
                continue
            assert not isinstance(result, Exception), f"{sample} of {kind} into {out}: {result!r}"
            limit = {"float16": 4e-3, "bfloat16": 2e-2}.get(kind, 2e-3)
            _assert_near(result, expected, f"{sample} of {kind} into {out}", limit)
