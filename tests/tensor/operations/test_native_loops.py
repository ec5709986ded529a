"""Native loops on the CPU give what NumPy gives, up to the roundings that samples allow, whatever operands are and how they lie."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nn
import tensor
from drv.host import machine_code
from nn import functional
from nvrtc_kernels import dtypes, host_loops, pointwise
from tensor.core.devices.state import cpu
from tensor.core.plans.copies import host_conversion
from tensor.operations import pointwise_operation
from tests.tensor.operations.operands import call, mask, operands, reference, units_off
from tests.tensor.operations.samples import SAMPLES, Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from drv.environment import NativeLoops

pytestmark = pytest.mark.skipif(not machine_code.available(), reason="llvmlite is not installed")

_FLOATING = [sample for sample in SAMPLES if "f" in sample.kinds]
#: Units in the last place beside what a sample allows: what a device's functions are off beyond NumPy's.
_DEVICE_UNITS = 6.0
_SPECIAL = [
    0.0,
    -0.0,
    1e-45,
    -1e-45,
    1e-38,
    0.5,
    -0.5,
    1.0,
    -1.0,
    2.5,
    88.0,
    -88.0,
    3e38,
    -3e38,
    np.inf,
    -np.inf,
    np.nan,
]


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Loops that are planned in the test, ``None`` for those that there are none for; all sizes have one."""
    result: list[Any] = []
    plan = pointwise.plan_on_host

    def noted(*arguments: Any) -> Any:
        result.append(plan(*arguments))
        return result[-1]

    monkeypatch.setattr(pointwise, "plan_on_host", noted)
    with _Mode("on"):
        yield result


class _Mode:
    """Plans of the CPU are made anew in another mode."""

    def __init__(self, name: NativeLoops) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._former = host_loops.mode()
        cpu.plans.clear()
        host_loops.set_mode(self._name)

    def __exit__(self, *_: object) -> None:
        cpu.plans.clear()
        host_loops.set_mode(self._former)


def _by_numpy(function: Any, *arguments: Any) -> Any:
    with _Mode("off"):
        return function(*arguments)


def _assert_like_numpy(result: Any, expected: Any, units: float) -> None:
    assert result.dtype is expected.dtype
    if not result.dtype.is_floating_point:
        np.testing.assert_array_equal(result.numpy(), expected.numpy())
        return
    off = units_off(result, expected.double().numpy(), 0.1)
    assert off.max() <= units, (
        off.max(),
        result.reshape(-1)[off.argmax()],
        expected.reshape(-1)[off.argmax()],
    )


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.bfloat16, dtypes.float16], ids=str)
@pytest.mark.parametrize("sample", _FLOATING, ids=str)
@pytest.mark.sampled(4)
def test_samples(sample: Sample, dtype: Any, planned: list[Any]) -> None:
    arrays = operands(sample, dtype, (3, 50))
    result = call(sample, [tensor.from_numpy(np.array(each)) for each in arrays])
    if not isinstance(result, tensor.Tensor) or result.dtype.is_complex:
        return
    expected = reference(sample, result.dtype, arrays)
    if not result.dtype.is_floating_point:
        np.testing.assert_array_equal(result.numpy(), expected)
        return
    half = result.dtype.itemsize == 2
    off = units_off(result, expected, max(sample.least, 1e-3 if half else 0.0))
    # The quick forms of half precision have relative errors of 2^-16.
    assert off.max() <= (sample.half_ulps + 0.05 if half else sample.ulps + _DEVICE_UNITS)


#: Rows that have a loop in single precision, of one operand; the others' functions have loops or tables in them.
_UNARY = ("relu", "sigmoid", "tanh", "gelu", "silu", "softplus", "elu", "hardswish", "mish", "erf", "erfc", "expm1", "log1p",
          "rsqrt", "lgamma", "exp2", "atan", "asinh", "round", "sign")  # fmt: skip


def _unary(name: str) -> Any:
    return getattr(tensor, name, None) or getattr(nn.functional, name)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("name", _UNARY)
@pytest.mark.sampled(3)
def test_special_values(name: str, dtype: Any, planned: list[Any]) -> None:
    x = tensor.tensor(_SPECIAL * 5, dtype=dtype)
    result = _unary(name)(x)
    expected = _by_numpy(_unary(name), x)
    if dtype is dtypes.bfloat16:
        assert planned[-1] is not None
    found, numbers = result.double().numpy(), expected.double().numpy()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(numbers))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(numbers))
    nonzero = np.isfinite(numbers) & (np.abs(numbers) > 1e-37)
    np.testing.assert_array_equal(np.sign(found[nonzero]), np.sign(numbers[nonzero]))
    if name in ("tanh", "erf", "expm1", "log1p", "atan", "asinh", "round"):
        zeros = numbers == 0
        np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(numbers[zeros]))
    _assert_like_numpy(result, expected, 2 if dtype is dtypes.bfloat16 else 8)


def test_what_is_rounded_correctly_has_the_same_bits(planned: list[Any]) -> None:
    rng = np.random.default_rng(0)
    numbers = np.concatenate([rng.standard_normal(1000), 10.0 ** rng.uniform(-44, 38, 1000), _SPECIAL])
    with np.errstate(over="ignore"):
        x, y = (tensor.tensor(each.astype(np.float32)) for each in (numbers, rng.permutation(numbers)))
    for dtype in (tensor.bfloat16, tensor.float16):
        a, b = x.to(dtype), y.to(dtype)
        assert planned[-1] is not None
        for function in (tensor.add, tensor.sub, tensor.mul, tensor.div, tensor.maximum, tensor.minimum):
            result, expected = function(a, b), _by_numpy(function, a, b)
            assert planned[-1] is not None
            np.testing.assert_array_equal(result.float().numpy(), expected.float().numpy())
            np.testing.assert_array_equal(
                result.float().signbit().numpy()[~result.isnan().numpy()],
                expected.float().signbit().numpy()[~result.isnan().numpy()],
            )
        np.testing.assert_array_equal(a.float().numpy(), _by_numpy(a.float).numpy())
        np.testing.assert_array_equal(x.to(dtype).float().numpy(), _by_numpy(x.to, dtype).float().numpy())


#: Operands of a loop over (40, 30): transposed, with gaps, stretched, of a larger rank, alone.
_LAYOUTS = {
    "contiguous": lambda x: x(40, 30),
    "transposed": lambda x: x(30, 40).t(),
    "every second column": lambda x: x(40, 60)[:, ::2],
    "every second row": lambda x: x(80, 30)[::2],
    "a row for all": lambda x: x(30).expand(40, 30),
    "a column for all": lambda x: x(40, 1).expand(40, 30),
    "one for all": lambda x: x(1).expand(40, 30),
}


@pytest.mark.parametrize("second", _LAYOUTS)
@pytest.mark.parametrize("first", _LAYOUTS)
@pytest.mark.sampled(5)
def test_layouts(first: str, second: str, planned: list[Any]) -> None:
    tensor.manual_seed(0)
    a, b = (
        _LAYOUTS[name](lambda *shape: tensor.randn(*shape, dtype=tensor.bfloat16)) for name in (first, second)
    )
    result = a * b
    assert planned[-1] is not None
    expected = _by_numpy(lambda: a * b)
    assert result.stride() == expected.stride()
    np.testing.assert_array_equal(result.float().numpy(), expected.float().numpy())
    a = a.clone()
    a.mul_(b)
    np.testing.assert_array_equal(a.float().numpy(), expected.float().numpy())


def test_many_dimensions(planned: list[Any]) -> None:
    x = tensor.randn(3, 4, 5, 6, 7, dtype=tensor.bfloat16)
    for y in (x.permute(4, 2, 0, 3, 1), x[::2, 1:, :, ::2, 1:], x[:, :, :1].expand(3, 4, 5, 6, 7)):
        result = y + y
        np.testing.assert_array_equal(result.float().numpy(), _by_numpy(lambda y=y: y + y).float().numpy())
    assert planned[-1] is not None


def test_numbers_and_masks(planned: list[Any]) -> None:
    x, y = tensor.randn(500), tensor.randn(500)
    condition = tensor.from_numpy(mask((500,)))
    for function in (
        lambda: tensor.where(condition, x.bfloat16(), y.bfloat16()),
        lambda: x.bfloat16() * 2.5,
        lambda: 3 - x.bfloat16(),
        lambda: tensor.addcmul(x, x, y, value=0.5),
        lambda: x.bfloat16() > 0.25,
        lambda: x.bfloat16().clamp(-0.5, 0.25),
        lambda: nn.functional.leaky_relu(x, 0.25),
        lambda: x.bfloat16() * condition,
        lambda: tensor.lerp(x, y, 0.25),
    ):
        result = function()
        assert planned[-1] is not None
        _assert_like_numpy(result, _by_numpy(function), 8)


def test_results_in_place_and_in_given_tensors(planned: list[Any]) -> None:
    x = tensor.randn(1000)
    expected = nn.functional.silu(x)
    y = x.clone()
    assert nn.functional.silu(y, inplace=True) is y
    np.testing.assert_array_equal(y.numpy(), expected.numpy())
    out = tensor.empty(1000, dtype=tensor.float64)
    tensor.sigmoid(x, out=out)
    np.testing.assert_array_equal(out.float().numpy(), tensor.sigmoid(x).numpy())
    columns = tensor.zeros(1000, 2)
    tensor.sigmoid(x, out=columns[:, 1])
    np.testing.assert_array_equal(columns[:, 1].numpy(), tensor.sigmoid(x).numpy())
    assert not columns[:, 0].any()
    with pytest.raises(RuntimeError, match="single memory location"):
        tensor.sigmoid(y[:-1], out=y[1:])


def test_gradients(planned: list[Any]) -> None:
    for name in ("relu", "sigmoid", "gelu", "silu", "softplus", "mish", "elu"):
        grads = []
        for mode in ("on", "off"):
            with _Mode(mode):
                tensor.manual_seed(2)
                x = tensor.randn(300).requires_grad_()
                # Near the zero of a derivative its error is that of its terms, times the gradient that comes.
                _unary(name)(x).backward(tensor.randn(300).clamp(-1, 1))
                grads.append(x.grad)
        _assert_like_numpy(grads[0], grads[1], 16)


#: Fills whose numbers come from loops of four words at a time.
_FILLS = {
    "uniform_": lambda x: x.uniform_(-1, 3),
    "normal_": lambda x: x.normal_(1, 2),
    "exponential_": lambda x: x.exponential_(2.0),
    "geometric_": lambda x: x.geometric_(0.25),
    "bernoulli_": lambda x: x.bernoulli_(0.25),
    "random_": lambda x: x.random_(0, 100),
    "random_ of any range": lambda x: x.random_(),
}


@pytest.mark.parametrize("size", [1, 3, 4, 4097])
@pytest.mark.parametrize("name", _FILLS)
@pytest.mark.sampled(3)
def test_random_numbers_have_the_same_bits(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    loops: list[Any] = []
    plan = host_loops.plan_packs
    monkeypatch.setattr(
        host_loops, "plan_packs", lambda *arguments: loops.append(plan(*arguments)) or loops[-1]
    )
    kinds = [tensor.float32, tensor.float64, tensor.bfloat16, tensor.float16]
    if name[:6] in ("random", "bernou"):
        kinds += [tensor.int64, tensor.int32, tensor.uint8]
    for dtype in kinds:
        drawn = []
        for mode in ("on", "off"):
            with _Mode(mode):
                tensor.manual_seed(3)
                drawn.append(_FILLS[name](tensor.empty(size, dtype=dtype)))
        assert loops[-1] is not None
        np.testing.assert_array_equal(*[each.double().numpy() for each in drawn])


@pytest.mark.parametrize("columns", [67, 512, 575])
def test_rows_of_any_length_have_the_same_bits(columns: int, planned: list[Any]) -> None:
    """In long rows the instructions of several vectors alternate, and at the end of each are fewer columns."""
    x = tensor.randn(20, columns + 3)
    for function in (functional.gelu, functional.mish, functional.softplus):
        result = function(x[:, :columns])
        assert planned[-1] is not None
        np.testing.assert_array_equal(result.numpy(), function(x[:, :columns].contiguous()).numpy())


def test_numbers_that_the_host_draws_are_the_same() -> None:
    results = []
    for mode in ("on", "off"):
        with _Mode(mode):
            tensor.manual_seed(8)
            weights = tensor.rand(3, 1001)
            results.append(
                [tensor.randperm(count) for count in (1, 7, 30, 4099)]
                + [tensor.multinomial(weights, count) for count in (5, 900)]
                + [tensor.multinomial(weights, 2000, replacement=True)]
            )
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first.numpy(), second.numpy())


def test_the_same_elements_are_dropped(planned: list[Any]) -> None:
    for dtype in (tensor.float32, tensor.float64, tensor.bfloat16, tensor.float16):
        results = []
        for mode in ("on", "off"):
            with _Mode(mode):
                tensor.manual_seed(4)
                x = tensor.randn(1003).to(dtype).requires_grad_()
                y = nn.functional.dropout(x, 0.25)
                y.backward(x.detach())
                tensor.manual_seed(5)
                results.append((y.detach(), x.grad, nn.functional.alpha_dropout(x.detach(), 0.25, True)))
        for first, second in zip(*results, strict=True):
            np.testing.assert_array_equal(first.double().numpy(), second.double().numpy())


@pytest.mark.parametrize("dtype", [tensor.float32, tensor.float64, tensor.bfloat16], ids=str)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize("shape", [(1, 70_000), (300, 237), (4000, 3), (5, 1)], ids=str)
@pytest.mark.sampled(8)
def test_rows_are_normalised(shape: tuple[int, int], name: str, affine: bool, dtype: Any) -> None:
    results = []
    for mode in ("on", "off"):
        with _Mode(mode):
            tensor.manual_seed(6)
            x, grad = (tensor.randn(shape, dtype=tensor.float64).to(dtype) for _ in range(2))
            vectors = [tensor.randn(shape[1], dtype=tensor.float64).to(dtype) for _ in range(2 * affine)]
            leaves = [each.requires_grad_() for each in (x, *vectors[: 2 if name == "layer_norm" else 1])]
            y = getattr(nn.functional, name)(leaves[0], (shape[1],), *leaves[1:])
            y.backward(grad)
            results.append([each.detach().double().numpy() for each in (y, *(leaf.grad for leaf in leaves))])
    tolerance = {8: 1e-11, 4: 2e-5, 2: 2e-2}[dtype.itemsize]
    for first, second in zip(*results, strict=True):
        scale = max(np.abs(second).max(), 1)
        np.testing.assert_allclose(first, second, rtol=tolerance, atol=tolerance * scale)


def test_gradients_of_norms_do_not_depend_on_threads() -> None:
    former, results = tensor.get_num_threads(), []
    try:
        for threads in (1, 4):
            tensor.set_num_threads(threads)
            tensor.manual_seed(7)
            leaves = [
                tensor.randn(3000, 200).requires_grad_(),
                *(tensor.randn(200).requires_grad_() for _ in "wb"),
            ]
            nn.functional.layer_norm(leaves[0], (200,), *leaves[1:]).backward(tensor.randn(3000, 200))
            results.append([leaf.grad.numpy() for leaf in leaves])
    finally:
        tensor.set_num_threads(former)
    for one, four in zip(*results, strict=True):
        np.testing.assert_array_equal(one, four)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("shape", [(3, 16), (4, 5, 33), (200, 1403)], ids=str)
def test_softmax(shape: tuple[int, ...], log: bool) -> None:
    """As exact as the difference from the largest element of a row is, with its gradient; what is not finite is as with NumPy."""
    rng = np.random.default_rng(0)
    array, grad = (rng.standard_normal(shape).astype(np.float32) * size for size in (8, 1))
    array[0, 0], array[1, ..., 2], array[2] = 95.0, -np.inf, -1e30
    function = functional.log_softmax if log else functional.softmax
    with _Mode("on"):
        x = tensor.from_numpy(array).requires_grad_()
        result = function(x, -1)
        result.backward(tensor.from_numpy(grad))
    moved = array.astype(np.float64)
    moved -= moved.max(-1, keepdims=True)
    total = np.exp(moved).sum(-1, keepdims=True)
    expected = moved - np.log(total) if log else np.exp(moved) / total
    least = 1.0 if log else 1e-30
    tolerance = np.maximum(np.abs(expected), least) * (1e-6 if log else 1e-6 + 1e-7 * np.abs(moved))
    with np.errstate(invalid="ignore"):
        near = np.abs(result.detach().numpy() - expected) <= tolerance
    assert (near | (expected == result.detach().numpy())).all()
    value = result.detach().double().numpy()
    if log:
        gradient = grad - np.exp(value) * grad.sum(-1, keepdims=True, dtype=np.float64)
    else:
        gradient = (grad - (grad * value).sum(-1, keepdims=True)) * value
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), gradient, rtol=1e-5, atol=1e-6 * np.abs(gradient).max())
    for number in (np.nan, np.inf, -np.inf):
        odd = tensor.from_numpy(array).clone()
        odd[0], odd[1, ..., 3] = number, number
        with _Mode("on"):
            native = function(odd, -1)
        expected = _by_numpy(function, odd, -1).numpy()
        np.testing.assert_array_equal(native.isnan().numpy(), np.isnan(expected))


@pytest.mark.parametrize(
    ("expression", "function", "units"),
    [("__log2f(a)", np.log2, 2.0), ("log1p(a)", np.log1p, 2.0), ("asinh(a)", np.arcsinh, 3.0)],
)
def test_logarithms(
    expression: str, function: Callable[[Any], Any], units: float, planned: list[Any]
) -> None:
    """What PTX approximates, or rounds in another way, is off by no more than its bound; zeros, infinities and NaN are exact."""
    operation = pointwise_operation.Pointwise("logarithm", expression, lambda a: function(a) + 0)
    rng = np.random.default_rng(0)
    array = np.concatenate(
        [
            np.exp(rng.uniform(-103, 88, 30_000)),
            rng.uniform(0.4, 4, 30_000),
            2.0 ** np.arange(-149, 128),
            2.0 ** np.arange(1, 20) - 1,
        ]
    ).astype(np.float32)
    array = np.concatenate([array, np.nextafter(array[-400:], np.float32(0))])
    array = array[array > 0]
    result = operation.unary(tensor.from_numpy(array))
    assert planned[-1] is not None
    assert units_off(result, function(array.astype(np.float64)), 1e-37).max() <= units
    odd = np.array([0.0, np.inf, np.nan], np.float32)
    with np.errstate(all="ignore"):
        expected = function(odd)
    np.testing.assert_array_equal(operation.unary(tensor.from_numpy(odd)).numpy()[:4], expected[:4])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape", [(1,), (17,), (200_003,), (3, 70_001), (1000, 70)], ids=str)
def test_running_sums(shape: tuple[int, ...], dtype: str) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    with _Mode("on"):
        result = tensor.tensor(x).cumsum(-1).numpy()
    expected = np.cumsum(x, axis=-1, dtype=np.float64).astype(dtype)
    np.testing.assert_array_equal(result, expected)
    x.reshape(-1)[0] = np.inf
    with _Mode("on"):
        assert np.isinf(tensor.tensor(x).cumsum(-1).numpy().reshape(-1)[: shape[-1]]).all()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape", [(4,), (200_003,), (3, 70_001), (1000, 70)], ids=str)
def test_running_extremes(shape: tuple[int, ...], dtype: str) -> None:
    """Equal numbers, zeros of both signs and infinities among them, and NaN in some rows."""
    rng = np.random.default_rng(0)
    few = rng.integers(-3, 4, shape).astype(dtype)
    few[few == 2] = -0.0
    for x in (
        few,
        rng.standard_normal(shape).astype(dtype),
        np.sort(rng.standard_normal(shape)).astype(dtype),
    ):
        for special in ((), (np.inf, -np.inf), (np.nan,)):
            x.reshape(-1)[shape[-1] // 2 :][: len(special)] = special
            for function in (tensor.cummax, tensor.cummin):
                results = []
                for mode in ("on", "off"):
                    with _Mode(mode):
                        results.append([each.numpy() for each in function(tensor.tensor(x), -1)])
                for first, second in zip(*results, strict=True):
                    np.testing.assert_array_equal(first, second)
                np.testing.assert_array_equal(*[np.signbit(values) for values, _ in results])


@pytest.mark.parametrize(
    ("shape", "dim"),
    [((1,), None), ((40_001,), None), ((3, 70_001), 1), ((30, 40, 50), (1, 2)), ((30, 40, 50), (0, 1, 2))],
    ids=str,
)
def test_sums_of_rows(shape: tuple[int, ...], dim: Any) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    axes = tuple(range(len(shape))) if dim is None else dim
    with _Mode("on"):
        result, with_dimensions = tensor.tensor(x).sum(dim), tensor.tensor(x).sum(dim, keepdim=True)
    expected = x.sum(axes, dtype=np.float64)
    assert tuple(result.shape) == expected.shape
    assert with_dimensions.shape == x.sum(axes, keepdims=True).shape
    # Added up in double precision and rounded once.
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(with_dimensions.numpy().reshape(expected.shape), result.numpy())
    x.reshape(-1)[-1] = np.inf
    with _Mode("on"):
        assert tensor.tensor(x).sum().item() == np.inf


@pytest.mark.parametrize("dtype", [tensor.float16, tensor.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (3, 1023), (3, 1024), (5, 2049), (1, 70_001), (900, 7)], ids=str)
def test_sums_of_halves(shape: tuple[int, int], dtype: Any) -> None:
    """Numbers of all sizes, whose sums and norms in single precision are as exact as that is."""
    rng = np.random.default_rng(0)
    x = tensor.tensor(np.exp(4 * rng.standard_normal(shape)).clip(0, 6e4) * rng.choice([-1, 1], shape)).to(
        dtype
    )
    exact = x.double().numpy()
    with _Mode("on"):
        sums, norms = x.sum(1, dtype=tensor.float32), x.norm(dim=1, dtype=tensor.float32)
        x[-1, -1] = np.inf
        assert x.sum().item() == np.inf
    error = np.abs(sums.numpy() - exact.sum(1))
    assert (error <= 2e-7 * np.abs(exact).sum(1)).all()
    np.testing.assert_allclose(norms.numpy(), np.sqrt((exact**2).sum(1)), rtol=2e-7)


@pytest.mark.parametrize(
    "dtype", [tensor.float32, tensor.float64, tensor.bfloat16, tensor.complex64], ids=str
)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
        ("Adam", {"amsgrad": True}),
        ("AdamW", {"weight_decay": 0.1}),
        ("RMSprop", {"momentum": 0.5, "centered": True}),
        ("Adagrad", {}),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_steps_of_optimizers(name: str, options: dict[str, Any], dtype: Any) -> None:
    results = []
    for mode in ("on", "off"):
        with _Mode(mode):
            tensor.manual_seed(8)
            parameters = [
                tensor.randn(shape).to(dtype).requires_grad_() for shape in ((30, 41), (7,), (1,), (6, 5))
            ]
            optimizer = getattr(nn.optim, name)(parameters, lr=0.01, **options)
            for _ in range(3):
                for x in parameters:
                    x.grad = (
                        tensor.randn(x.shape[::-1]).t().to(dtype)
                        if x.ndim == 2
                        else tensor.randn(x.shape).to(dtype)
                    )
                optimizer.step()
            results.append([x.detach() for x in parameters])
    tolerance = {tensor.float64: 1e-10, tensor.bfloat16: 2e-2}.get(dtype, 1e-5)
    for one, other in zip(*results, strict=True):
        tensor.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def test_arrays_of_half_precision_are_converted(planned: list[Any]) -> None:
    numbers = np.concatenate([np.random.default_rng(0).standard_normal(1000), _SPECIAL]).astype(np.float32)
    for to in (dtypes.bfloat16, dtypes.float16):
        assert pointwise.conversion_on_host(to, dtypes.float32) is not None
        half, expected = (np.empty(numbers.shape, to.numpy) for _ in range(2))
        host_conversion(dtypes.float32, to)(half, numbers)
        _by_numpy(host_conversion(dtypes.float32, to), expected, numbers)
        np.testing.assert_array_equal(half.astype(np.float32), expected.astype(np.float32))
        back = np.empty_like(numbers)
        host_conversion(to, dtypes.float32)(back, half)
        np.testing.assert_array_equal(back, half.astype(np.float32))


def test_integers_are_numpys(planned: list[Any]) -> None:
    x = tensor.arange(1000, dtype=tensor.int32)
    x.clamp(3, 50)
    tensor.addcmul(x, x, x)
    assert planned == []


def test_threads_share_the_elements() -> None:
    x = tensor.randn(1_000_003)
    former = tensor.get_num_threads()
    with _Mode("auto"):
        try:
            tensor.set_num_threads(1)
            one, rows = x.sigmoid(), x[:-3].view(1000, 1000).t().bfloat16().sigmoid()
            tensor.set_num_threads(4)
            np.testing.assert_array_equal(x.sigmoid().numpy(), one.numpy())
            np.testing.assert_array_equal(
                x[:-3].view(1000, 1000).t().bfloat16().sigmoid().float().numpy(), rows.float().numpy()
            )
        finally:
            tensor.set_num_threads(former)


def test_few_elements_are_numpys() -> None:
    """The same numbers whatever ran before: size and dtype alone decide who computes."""
    small, large = host_loops.FEW - 1, host_loops.FEW
    assert not host_loops.worth(small)
    with _Mode("auto"):
        x = tensor.randn(large)
        np.testing.assert_array_equal(x[:small].sigmoid().numpy(), _by_numpy(x[:small].sigmoid).numpy())
        assert host_loops.worth(large)


def test_without_llvmlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "available", lambda: False)
    with _Mode("on"):
        assert host_loops.mode() == "off"
        np.testing.assert_allclose(tensor.zeros(100).sigmoid().numpy(), 0.5)


@pytest.mark.parametrize(("setting", "expected"), [("", "auto"), ("on", "on"), ("off", "off")])
def test_the_environment_decides(setting: str, expected: str) -> None:
    code = "from nvrtc_kernels import host_loops; print(host_loops.mode())"
    environment = os.environ | {"GRAPHROOT_CPU_NATIVE": setting}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == expected


def test_few_elements_load_no_compiler() -> None:
    code = "import sys, tensor; tensor.ones(100).sigmoid(); print('llvmlite' in sys.modules)"
    environment = os.environ | {"GRAPHROOT_CPU_NATIVE": "auto"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_loops_are_on_disk_for_the_next_process(tmp_path: Any) -> None:
    code = """
import tensor
from nvrtc_kernels.host_loops import code
compiled = []
original = code._compiled
code._compiled = lambda *arguments: compiled.append(1) or original(*arguments)
x = tensor.linspace(-4, 4, 70_000)
print(len(compiled), x.sigmoid().sum().item(), len(compiled))
"""
    environment = os.environ | {"GRAPHROOT_CACHE_DIR": str(tmp_path), "GRAPHROOT_CPU_NATIVE": "auto"}
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    assert outputs[0][::2] == ["0", "1"]
    assert outputs[1][::2] == ["0", "0"]
    assert outputs[0][1] == outputs[1][1]
