"""Operands for samples, and how exact results have to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import tensor
from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import Category, dtype

if TYPE_CHECKING:
    from .samples import Sample

#: Types by the letter that samples have for their kind; the first is the usual one.
KINDS: dict[str, tuple[dtype, ...]] = {
    "b": (dtypes.bool_,),
    "i": (dtypes.int64, dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32),
    "f": (dtypes.float32, dtypes.float16, dtypes.bfloat16, dtypes.float64),
    "c": (dtypes.complex64, dtypes.complex128),
}


def values(sample: Sample, kind: dtype, shape: Any, seed: int = 0) -> Any:
    """Numbers of the sample's domain as a NumPy array of ``kind``."""
    rng = np.random.default_rng([seed, len(sample.name)])
    if kind is dtypes.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    low, high = sample.low, sample.high
    if kind.category is Category.INTEGER:
        least = int(np.ceil(low)) if kind.is_signed else max(int(np.ceil(low)), 0)
        return rng.integers(least, max(int(high), least + 1) + 1, shape).astype(kind.numpy)
    real = rng.uniform(low, high, shape)
    for kink in sample.kinks:
        close = np.abs(real - kink) < 0.05
        real = np.where(close, kink + np.where(real < kink, -0.05, 0.05), real)
    if kind.is_complex:
        return (real + 1j * rng.uniform(0.1, 0.8, shape)).astype(kind.numpy)
    return real.astype(kind.numpy)


def mask(shape: Any) -> Any:
    """Bools."""
    return np.random.default_rng(5).integers(0, 2, shape).astype(bool)


def operands(sample: Sample, kind: dtype, *shapes: Any) -> list[Any]:
    """Arrays of given shapes, or of one shape all, with a mask in front where the sample wants one."""
    shapes = shapes * sample.operands if len(shapes) == 1 else shapes
    result = [values(sample, kind, shapes[i], i) for i in range(sample.operands)]
    return [mask(np.broadcast_shapes(*shapes[: sample.operands])), *result] if sample.condition else result


def on(device: str, array: Any) -> Any:
    """A tensor with the elements of an array."""
    return tensor.from_numpy(np.array(array)).to(device)


def call(sample: Sample, given: list[Any], **more: Any) -> Any:
    """The function of the sample on operands, with its further arguments."""
    return sample.function(*given, **sample.arguments, **more)


def reference(sample: Sample, result: dtype, arrays: list[Any]) -> Any:
    """What is exact, where the function's result is of a type ``result``."""
    floating = result.category >= Category.FLOATING
    exact = [x if sample.condition and i == 0 else _exact(x, floating) for i, x in enumerate(arrays)]
    with np.errstate(all="ignore"):
        return np.asarray(sample.reference(*exact))


def _exact(array: Any, floating: bool) -> Any:
    """The same numbers in the widest type of their kind; with ``floating``, integers as such numbers too."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    return array.astype(np.float64) if floating or array.dtype.kind not in "biu" else array


def units_off(found: Any, expected: Any, least: float = 0.0) -> Any:
    """Units in the last place between a tensor's elements and exact ones.

    Where the exact number is smaller than ``least``, or than the smallest normal one, the unit is that of this.
    """
    limits = tensor.finfo(found.dtype)
    array = found.detach().cpu().to(dtypes.complex128 if found.dtype.is_complex else dtypes.float64).numpy()
    scale = np.maximum(np.abs(expected), max(least, limits.tiny))
    with np.errstate(all="ignore"):
        off = np.abs(array - expected) / (np.exp2(np.floor(np.log2(scale))) * limits.eps)
        same = (array == expected) | (np.isnan(array) & np.isnan(expected))
    # What is too large for the type is infinite.
    same |= np.isinf(array) & (np.abs(expected) > limits.max) & (np.sign(array) == np.sign(expected))
    return np.where(same, 0.0, np.where(np.isnan(off), np.inf, off))


def assert_close(found: Any, expected: Any, sample: Sample, what: str) -> None:
    """Assert that a result is the exact one, rounded to its type with as many units off as the sample allows."""
    dtype = found.dtype
    assert tuple(found.shape) == expected.shape, what
    if dtype.category < Category.FLOATING:
        array = found.cpu().numpy()
        np.testing.assert_array_equal(array, expected.astype(array.dtype), err_msg=what)
        return
    # Half precision is computed in single and rounded once.
    half = dtype.itemsize == 2
    off = units_off(found, expected, sample.least if not half else max(sample.least, 1e-3))
    allowed = sample.half_ulps if half else sample.ulps
    assert not off.size or off.max() <= allowed, (
        f"{what}: off by {off.max()} units, {allowed} allowed: {found} instead of {expected}"
    )
