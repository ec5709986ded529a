"""Every pointwise operation on the CPU and on a device: numbers, types, layouts, results given, derivatives."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import drv
import tensor
from nvrtc_kernels import dtypes

from .samples import APART, SAMPLES, Sample

_KINDS = {
    "b": (dtypes.bool_,),
    "i": (dtypes.int64, dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32),
    "f": (dtypes.float32, dtypes.float16, dtypes.bfloat16, dtypes.float64),
    "c": (dtypes.complex64, dtypes.complex128),
}
_FAMILIES = (
    "activation_functions",
    "arithmetic",
    "bitwise",
    "comparisons",
    "complex_numbers",
    "logic",
    "powers",
    "rounding",
    "selection",
    "special_functions",
    "trigonometry",
)
_FLOATS = [sample for sample in SAMPLES if "f" in sample.kinds]
_DERIVATIVES = [sample for sample in _FLOATS if sample.differentiable]


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not request.config.getoption("--gpu"):
        drv.simulator.install(check="full")
    return request.param


def _values(sample: Sample, kind: dtypes.dtype, shape: Any, seed: int = 0) -> Any:
    """Numbers of the sample's domain as a NumPy array of ``kind``."""
    rng = np.random.default_rng([seed, len(sample.name)])
    if kind is dtypes.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    low, high = sample.low, sample.high
    if kind.category is dtypes.Category.INTEGER:
        least = int(np.ceil(low)) if kind.is_signed else max(int(np.ceil(low)), 0)
        return rng.integers(least, max(int(high), least + 1) + 1, shape).astype(kind.numpy)
    real = rng.uniform(low, high, shape)
    for kink in sample.kinks:
        close = np.abs(real - kink) < 0.05
        real = np.where(close, kink + np.where(real < kink, -0.05, 0.05), real)
    if kind.is_complex:
        return (real + 1j * rng.uniform(0.1, 0.8, shape)).astype(kind.numpy)
    return real.astype(kind.numpy)


def _operands(sample: Sample, kind: dtypes.dtype, *shapes: Any) -> list[Any]:
    shapes = shapes * sample.operands if len(shapes) == 1 else shapes
    return [_values(sample, kind, shapes[i], i) for i in range(sample.operands)]


def _mask(shape: Any) -> Any:
    return np.random.default_rng(5).integers(0, 2, shape).astype(bool)


def _on(device: str, array: Any) -> Any:
    return tensor.from_numpy(np.array(array)).to(device)


def _call(sample: Sample, operands: list[Any], **more: Any) -> Any:
    return sample.function(*operands, **sample.arguments, **more)


def _exact(array: Any, floating: bool) -> Any:
    """The same numbers in the widest type of their kind; with ``floating``, integers as such numbers too."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    return array.astype(np.float64) if floating or array.dtype.kind not in "biu" else array


def _expected(sample: Sample, result: dtypes.dtype, operands: list[Any]) -> Any:
    """What the reference gives, where the function's result is of a type ``result``."""
    floating = result.category >= dtypes.Category.FLOATING
    exact = [x if sample.condition and i == 0 else _exact(x, floating) for i, x in enumerate(operands)]
    with np.errstate(all="ignore"):
        return np.asarray(sample.reference(*exact))


def _assert_close(found: Any, expected: Any, ulps: float, what: str) -> None:
    kind = found.dtype
    array = found.cpu().numpy() if kind is not dtypes.bfloat16 else found.cpu().float().numpy()
    assert array.shape == expected.shape, what
    if kind.category < dtypes.Category.FLOATING:
        np.testing.assert_array_equal(array, expected.astype(array.dtype), err_msg=what)
        return
    # Half precision is computed in single and rounded once.
    steps = ulps if kind.itemsize // (2 if kind.is_complex else 1) > 2 else 1
    epsilon = tensor.finfo(kind).eps
    scale = np.maximum(np.abs(expected), 1e-3 if kind is dtypes.float16 else 1e-30)
    with np.errstate(all="ignore"):
        off = np.abs(array - expected) / (scale * epsilon)
    assert not array.size or np.nanmax(off) <= steps, (
        f"{what}: off by {np.nanmax(off)} units, {steps} allowed"
    )


def test_every_public_function_has_a_sample() -> None:
    public = {
        name
        for name in tensor.__all__
        if inspect.isfunction(found := getattr(tensor, name))
        and found.__module__.removeprefix("tensor.") in _FAMILIES
        and found.__name__ == name
    }
    assert public <= {sample.name for sample in SAMPLES} | APART


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_numbers_of_every_type(sample: Sample, device: str) -> None:
    for letter in sample.kinds:
        kinds = _KINDS[letter] if device == "cpu" else _KINDS[letter][:1]
        for kind in kinds:
            operands = _operands(sample, kind, (23,))
            given = [_on(device, x) for x in operands]
            if sample.condition:
                operands.insert(0, _mask((23,)))
                given.insert(0, _on(device, operands[0]))
            found = _call(sample, given)
            expected = _expected(sample, found.dtype, operands)
            assert found.device.type == device
            _assert_close(found, expected, sample.ulps, f"{sample} of {kind!r}")


@pytest.mark.parametrize("sample", _FLOATS, ids=str)
def test_layouts(sample: Sample, device: str) -> None:
    """Strided, broadcast, empty and 0-dim operands give what contiguous copies give."""
    kind = dtypes.float32
    shapes: list[tuple[tuple[int, ...], ...]] = [
        ((), (), ()),
        ((0, 3), (0, 3), (0, 3)),
        ((2, 3), (3,), (2, 1)),
    ]
    for chosen in shapes:
        operands = (
            _operands(sample, kind, *chosen) if sample.operands > 1 else _operands(sample, kind, chosen[0])
        )
        given = [_on(device, x) for x in operands]
        common = np.broadcast_shapes(*[x.shape for x in operands])
        if sample.condition:
            operands.insert(0, _mask(common))
            given.insert(0, _on(device, operands[0]))
        found = _call(sample, given)
        assert tuple(found.shape) == common
        _assert_close(found, _expected(sample, found.dtype, operands), sample.ulps, f"{sample} of {chosen}")
    operands = _operands(sample, kind, (6, 8))
    given = [_on(device, x).t()[::2] for x in operands]
    operands = [x.T[::2] for x in operands]
    if sample.condition:
        operands.insert(0, _mask((4, 6)))
        given.insert(0, _on(device, operands[0]))
    found = _call(sample, given)
    _assert_close(
        found, _expected(sample, found.dtype, operands), sample.ulps, f"{sample} of strided operands"
    )


@pytest.mark.parametrize("sample", [each for each in SAMPLES if each.out or each.in_place], ids=str)
def test_results_written_to_given_tensors(sample: Sample, device: str) -> None:
    letter = "f" if "f" in sample.kinds else sample.kinds[0]
    kind = _KINDS[letter][0]
    operands = [_on(device, x) for x in _operands(sample, kind, (2, 5))]
    if sample.condition:
        operands.insert(0, _on(device, _mask((2, 5))))
    expected = _call(sample, operands)
    parameters = inspect.signature(sample.function).parameters
    if "out" in parameters and sample.out:
        out = tensor.empty(0, dtype=expected.dtype, device=device)
        assert _call(sample, operands, out=out) is out
        np.testing.assert_array_equal(out.cpu().numpy(), expected.cpu().numpy())
    if not sample.in_place:
        return
    target = operands[0].clone()
    method = getattr(target, f"{sample.name}_", None)
    if "inplace" in parameters:
        found = _call(sample, [target, *operands[1:]], inplace=True)
    elif method is not None:
        before = target._version
        found = method(*operands[1:], **sample.arguments)
        assert target._version > before
    else:
        return
    assert found is target
    np.testing.assert_array_equal(
        target.cpu().numpy(), expected.to(target.dtype).cpu().numpy(), err_msg=str(sample)
    )


# Derivatives


def _slope(function: Any, x: Any, direction: Any) -> Any:
    step = 1e-6
    return (function(x + step * direction) - function(x - step * direction)) / (2 * step)


@pytest.mark.parametrize("sample", _DERIVATIVES, ids=str)
@pytest.mark.parametrize("kind", [dtypes.float64, dtypes.complex128], ids=["real", "complex"])
def test_derivatives(sample: Sample, kind: dtypes.dtype) -> None:
    """First and second derivatives agree with finite differences."""
    if ("c" if kind.is_complex else "f") not in sample.kinds:
        pytest.skip("there is no such form")
    values = _operands(sample, kind, (4,))
    mask = [_on("cpu", _mask((4,)))] if sample.condition else []
    rng = np.random.default_rng(3)

    def directions(array: Any) -> Any:
        made = rng.standard_normal(array.shape)
        return made + 1j * rng.standard_normal(array.shape) if array.dtype.kind == "c" else made

    plain = _call(sample, [*mask, *[_on("cpu", x) for x in values]])
    weight = directions(plain.numpy())
    inner = [directions(x) for x in values]

    def first(arrays: list[Any]) -> tuple[float, list[Any], Any]:
        """The weighted sum of the results, its gradients, and the gradients' weighted sum."""
        operands = [_on("cpu", x).requires_grad_() for x in arrays]
        result = _call(sample, [*mask, *operands])
        if not result.requires_grad:
            raise AssertionError(f"{sample} recorded nothing")
        grads = tensor.autograd.grad(
            result, operands, _on("cpu", weight.astype(result.dtype.numpy)), create_graph=True
        )
        # The real scalar product that gradients of complex numbers are about.
        value = float(np.sum(np.real(np.conj(weight) * result.detach().numpy())))
        return value, grads, operands

    _, grads, operands = first(values)
    for position, (x, grad) in enumerate(zip(values, grads, strict=True)):
        direction = directions(x)
        wanted = _slope(
            lambda moved, position=position: first([*values[:position], moved, *values[position + 1 :]])[0],
            x,
            direction,
        )
        found = float(np.sum(np.real(np.conj(grad.detach().numpy()) * direction)))
        assert found == pytest.approx(wanted, rel=2e-5, abs=2e-6), f"{sample}: derivative {position}"

    def second_value(arrays: list[Any]) -> float:
        found = first(arrays)[1]
        return float(
            sum(np.sum(np.real(np.conj(w) * g.detach().numpy())) for w, g in zip(inner, found, strict=True))
        )

    wanting = [(g, w) for g, w in zip(grads, inner, strict=True) if g.requires_grad]
    if not wanting:
        return
    seconds = tensor.autograd.grad(
        [g for g, _ in wanting],
        operands,
        [_on("cpu", w.astype(g.dtype.numpy)) for g, w in wanting],
        allow_unused=True,
    )
    for position, (x, second) in enumerate(zip(values, seconds, strict=True)):
        direction = directions(x)
        wanted = _slope(
            lambda moved, position=position: second_value(
                [*values[:position], moved, *values[position + 1 :]]
            ),
            x,
            direction,
        )
        found = 0.0 if second is None else float(np.sum(np.real(np.conj(second.numpy()) * direction)))
        assert found == pytest.approx(wanted, rel=1e-4, abs=1e-5), f"{sample}: second derivative {position}"
