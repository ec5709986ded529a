"""Interpolation against PyTorch, against sums written out, and its derivatives."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import drv
import tensor
from nvrtc_kernels import interpolation as kernels
from tensor.operations.resampling.interpolation import interpolate
from tests.tensor.operations.neural_comparison import assert_like_torch

_RNG = np.random.default_rng(0)
#: Shape of the input and options.
CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "nearest": ((2, 3, 4, 5), {"scale_factor": 2}),
    "nearest odd": ((2, 3, 4, 5), {"size": (7, 3)}),
    "nearest factor": ((2, 3, 7, 5), {"scale_factor": (1.7, 0.6)}),
    "nearest signal": ((2, 3, 10), {"size": 7}),
    "nearest volume": ((1, 2, 3, 4, 5), {"size": (2, 7, 5)}),
    "nearest same": ((2, 3, 4, 5), {"size": (4, 5)}),
    "exact": ((2, 3, 4, 5), {"size": (7, 3), "mode": "nearest-exact"}),
    "exact signal": ((2, 3, 10), {"scale_factor": 0.7, "mode": "nearest-exact"}),
    "exact volume": ((1, 2, 3, 4, 5), {"scale_factor": 1.4, "mode": "nearest-exact"}),
    "linear": ((2, 3, 7), {"size": 11, "mode": "linear"}),
    "linear corners": ((2, 3, 7), {"size": 4, "mode": "linear", "align_corners": True}),
    "bilinear": ((2, 3, 4, 5), {"scale_factor": 2, "mode": "bilinear"}),
    "bilinear of four": ((2, 3, 4, 6), {"scale_factor": 2, "mode": "bilinear"}),
    "bilinear odd": ((2, 3, 7, 9), {"size": (5, 13), "mode": "bilinear"}),
    "bilinear corners": ((2, 3, 7, 9), {"size": (5, 13), "mode": "bilinear", "align_corners": True}),
    "bilinear factor": ((2, 3, 7, 9), {"scale_factor": (1.3, 0.45), "mode": "bilinear"}),
    "bilinear recomputed": (
        (2, 3, 7, 9),
        {"scale_factor": (1.3, 0.45), "mode": "bilinear", "recompute_scale_factor": True},
    ),
    "bilinear one": ((1, 2, 1, 6), {"size": (4, 1), "mode": "bilinear", "align_corners": True}),
    "bilinear much": ((1, 2, 1, 2), {"size": (9, 12), "mode": "bilinear"}),
    "trilinear": ((1, 2, 3, 4, 5), {"size": (5, 2, 8), "mode": "trilinear"}),
    "trilinear corners": ((1, 2, 3, 4, 5), {"scale_factor": 1.5, "mode": "trilinear", "align_corners": True}),
    "bicubic": ((2, 3, 4, 5), {"scale_factor": 2.2, "mode": "bicubic"}),
    "bicubic corners": ((2, 3, 7, 6), {"size": (3, 11), "mode": "bicubic", "align_corners": True}),
    "bicubic same": ((2, 3, 4, 5), {"size": (4, 9), "mode": "bicubic"}),
    "smooth bilinear": ((2, 3, 11, 9), {"size": (3, 13), "mode": "bilinear", "antialias": True}),
    "smooth bicubic": ((2, 3, 13, 9), {"size": (3, 4), "mode": "bicubic", "antialias": True}),
    "smooth corners": (
        (1, 3, 11, 9),
        {"size": (4, 5), "mode": "bilinear", "antialias": True, "align_corners": True},
    ),
    "smooth factor": ((1, 3, 11, 9), {"scale_factor": 0.3, "mode": "bicubic", "antialias": True}),
    "smooth same": ((1, 3, 11, 9), {"size": (11, 4), "mode": "bicubic", "antialias": True}),
    "area": ((2, 3, 7, 9), {"size": (3, 4), "mode": "area"}),
    "area signal": ((2, 3, 7), {"scale_factor": 0.5, "mode": "area"}),
    "area volume": ((1, 2, 4, 5, 6), {"size": 3, "mode": "area"}),
}


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(3)
def test_against_pytorch(name: str, kind: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    shape, options = CASES[name]

    def theirs(x: Any) -> Any:
        return torch.nn.functional.interpolate(x, **options)

    def mine(x: Any) -> Any:
        return interpolate(x, **options)

    array = _RNG.standard_normal(shape).astype(kind)
    result = assert_like_torch(
        device_name, mine, theirs, [array], tolerance=1e-5 if kind == "float32" else 1e-12
    )
    expected = theirs(torch.from_numpy(array).requires_grad_()).grad_fn.name()
    if options.get("mode") != "area":
        assert result.grad_fn.name() == expected


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear"])
def test_places_are_rounded_as_in_pytorch(mode: str, kind: str) -> None:
    torch = pytest.importorskip("torch")
    for argument in range(1, 60, 3):
        array = np.arange(1.0, argument + 1, dtype=kind).reshape(1, 1, argument)
        x, y = tensor.from_numpy(array), torch.from_numpy(array)
        for options in [{"size": output} for output in range(1, 80, 2)] + [
            {"scale_factor": f / 10} for f in (7, 9, 13, 21, 33)
        ]:
            if argument * options.get("scale_factor", 1) < 1:
                continue
            result = interpolate(x, mode=mode, **options).numpy()
            expected = torch.nn.functional.interpolate(y, mode=mode, **options).numpy()
            np.testing.assert_allclose(result, expected, rtol=1e-6, err_msg=f"{argument} {options}")


def _bilinear(x: Any, height: int, width: int) -> Any:
    """Written out for one image, with the edges where they were."""
    result = np.zeros((height, width))
    for i in range(height):
        for j in range(width):
            y = max((i + 0.5) * x.shape[0] / height - 0.5, 0)
            z = max((j + 0.5) * x.shape[1] / width - 0.5, 0)
            at, to = int(y), int(z)
            below, right = min(at + 1, x.shape[0] - 1), min(to + 1, x.shape[1] - 1)
            upper = (1 - (z - to)) * x[at, to] + (z - to) * x[at, right]
            lower = (1 - (z - to)) * x[below, to] + (z - to) * x[below, right]
            result[i, j] = (1 - (y - at)) * upper + (y - at) * lower
    return result


@pytest.mark.parametrize("size", [(7, 9), (3, 2), (5, 6), (12, 1)])
def test_against_sums(size: tuple[int, int], checked_device: str) -> None:
    array = _RNG.standard_normal((2, 1, 5, 6))
    x = tensor.from_numpy(array).to(checked_device)
    result = interpolate(x, size, mode="bilinear").cpu().numpy()
    np.testing.assert_allclose(result[1, 0], _bilinear(array[1, 0], *size), rtol=1e-12)
    nearest = interpolate(x, size).cpu().numpy()
    rows, columns = (
        np.arange(output) * argument // output for output, argument in zip(size, (5, 6), strict=True)
    )
    np.testing.assert_array_equal(nearest, array[:, :, rows][..., columns])


@pytest.mark.parametrize(
    "name", ["nearest odd", "bilinear factor", "trilinear", "bicubic", "smooth bicubic", "smooth bilinear"]
)
@pytest.mark.sampled(4)
def test_derivatives(name: str, device_name: str) -> None:
    shape, options = CASES[name]
    x = tensor.from_numpy(_RNG.standard_normal((1, 1, *shape[2:]))[..., :5, :5]).to(device_name)
    options = {**options, "size": (3, 2, 4)[: len(shape) - 2]}
    options.pop("scale_factor", None)
    assert tensor.autograd.gradcheck(
        lambda x: interpolate(x, **options), (x.requires_grad_(),), fast_mode=True
    )
    assert tensor.autograd.gradgradcheck(lambda x: interpolate(x, **options) ** 2, (x,), fast_mode=True)


@pytest.mark.parametrize(
    "name",
    [
        "bilinear odd",
        "bicubic",
        "nearest volume",
        "smooth bicubic",
        "bilinear much",
        "bilinear of four",
        "trilinear",
    ],
)
@pytest.mark.sampled(2)
def test_devices_agree(name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """With several planes for each thread, 64-bit numbers of elements, and every check of the simulator."""
    simulated = not request.config.getoption("--gpu")
    if simulated:
        drv.simulator.install(check="full")
    shape, options = CASES[name]
    array = _RNG.standard_normal((3, 4, *shape[2:]))
    grads, results = [], []
    for device, many in (("cpu", 1), ("cuda", 1 << 31), ("cuda", 1)):
        monkeypatch.setattr(kernels, "_MANY", many)
        monkeypatch.setattr(kernels, "_BUSY", Fraction(1, 100))
        x = tensor.from_numpy(array).to(device)[:, 1:].requires_grad_()
        x._layout.device_state.plans.clear()
        y = interpolate(x, **options)
        (grad,) = tensor.autograd.grad((y**2).sum(), x)
        results.append(y.detach().cpu().numpy())
        grads.append(grad.cpu().numpy())
    for result in (results, grads):
        np.testing.assert_allclose(result[1], result[0], rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(result[1], result[2])
    if simulated:
        assert not drv.simulator.findings()


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.sampled(4)
def test_half_precision_is_summed_in_single(kind: str, mode: str, device_name: str) -> None:
    x = tensor.from_numpy(_RNG.standard_normal((1, 2, 5, 7))).to(device_name, getattr(tensor, kind))
    result = interpolate(x, (8, 3), mode=mode)
    assert result.dtype is x.dtype
    expected = interpolate(x.float(), (8, 3), mode=mode).to(x.dtype)
    np.testing.assert_array_equal(result.float().cpu().numpy(), expected.float().cpu().numpy())


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_bytes(mode: str, device_name: str) -> None:
    array = _RNG.integers(0, 256, (1, 2, 5, 7)).astype(np.uint8)
    x = tensor.from_numpy(array).to(device_name)
    result = interpolate(x, (9, 4), mode=mode)
    assert result.dtype is tensor.uint8
    exact = interpolate(x.double(), (9, 4), mode=mode).cpu().numpy().clip(0, 255)
    assert np.abs(result.cpu().numpy() - exact).max() <= 0.5 + 1e-4


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_strides_and_empty_batches(mode: str, device_name: str) -> None:
    array = _RNG.standard_normal((4, 5, 3, 2))
    x = tensor.from_numpy(array).to(device_name).permute(3, 2, 0, 1)
    result = interpolate(x, (6, 3), mode=mode).cpu().numpy()
    same = interpolate(x.contiguous(), (6, 3), mode=mode).cpu().numpy()
    np.testing.assert_array_equal(result, same)
    wide = x[:1, :1, :1, :1].expand(2, 3, 4, 5)
    np.testing.assert_allclose(interpolate(wide, (6, 3), mode=mode).cpu().numpy(), array[0, 0, 0, 0])
    empty = x[:0].requires_grad_()
    output = interpolate(empty, (6, 3), mode=mode)
    assert output.shape == (0, 3, 6, 3)
    assert tensor.autograd.grad(output.sum(), empty)[0].shape == (0, 3, 4, 5)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_what_is_infinite_stays_where_it_is(mode: str, antialias: bool, device_name: str) -> None:
    x = tensor.ones(1, 1, 3, 40, device=device_name)
    x[0, 0, 1, 2] = float("inf")
    x[0, 0, 1, 30] = float("nan")
    result = interpolate(x, (3, 20), mode=mode, antialias=antialias).cpu().numpy()[0, 0]
    assert np.isfinite(result[:, 6:11]).all()
    assert np.isnan(result[1, 15])
    assert not np.isfinite(result[1, 1])
    assert interpolate(x, (3, 20), mode=mode).shape == result[None, None].shape


def test_weights_that_a_row_lacks_make_no_numbers_infinite(checked_device: str) -> None:
    """Threads have several elements, and a window of the input with weights of 0."""
    array = _RNG.standard_normal((2, 1, 4, 6)).astype(np.float32)
    array[0, 0, [0, 1, 3], [1, 4, 5]] = np.inf, np.nan, -np.inf
    x = tensor.from_numpy(array)
    for size in ((8, 12), (4, 12), (9, 10), (8, 7)):
        result = interpolate(x.to(checked_device), size, mode="bilinear").cpu().numpy()
        expected = interpolate(x, size, mode="bilinear").numpy()
        assert np.isfinite(expected).sum() < expected.size
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_a_size_that_stays_is_not_smoothed(device_name: str) -> None:
    """Whatever the factor says that led to it."""
    x = tensor.from_numpy(_RNG.standard_normal((1, 2, 6, 4))).to(device_name)
    for mode in ("bilinear", "bicubic"):
        result = interpolate(x, scale_factor=(1.16, 1.2), mode=mode, antialias=True)
        np.testing.assert_array_equal(result.cpu().numpy(), x.cpu().numpy())


def test_one_column_depends_on_the_row(device_name: str) -> None:
    """As the separable sums say, where PyTorch gives all rows the first one."""
    array = _RNG.standard_normal((1, 1, 6, 3))
    result = interpolate(tensor.from_numpy(array).to(device_name), (3, 1), mode="bilinear", antialias=True)
    rows = interpolate(tensor.from_numpy(array), (3, 3), mode="bilinear", antialias=True).numpy()
    weights = interpolate(
        tensor.eye(3, dtype=tensor.float64).view(1, 3, 1, 3), (2, 1), mode="bilinear", antialias=True
    )
    expected = rows[0, 0] @ weights.numpy()[0, :, 0, 0]
    np.testing.assert_allclose(result.cpu().numpy().ravel(), expected, atol=1e-12)


def test_the_result_is_no_view(device_name: str) -> None:
    x = tensor.ones(1, 1, 2, 2, device=device_name)
    for mode in ("nearest", "bilinear"):
        interpolate(x, (2, 2), mode=mode).zero_()
    assert x.sum().item() == 4


def test_a_long_signal_keeps_no_large_matrix(device_name: str) -> None:
    x = tensor.arange(3.0, device=device_name).view(1, 1, 3).requires_grad_()
    result = interpolate(x, 3000, mode="linear")
    (grad,) = tensor.autograd.grad(result.sum(), x)
    assert grad.sum().item() == pytest.approx(3000)


WRONG: dict[str, tuple[tuple[int, ...], dict[str, Any], type[Exception], str]] = {
    "both": ((1, 1, 2, 2), {"size": 2, "scale_factor": 2}, ValueError, "only one of size or scale_factor"),
    "neither": ((1, 1, 2, 2), {}, ValueError, "either size or scale_factor"),
    "sizes": ((1, 1, 2, 2), {"size": (1, 2, 3)}, ValueError, "same number of spatial dimensions"),
    "factors": ((1, 1, 2, 2), {"scale_factor": (1, 2, 3)}, ValueError, "same number of spatial dimensions"),
    "corners": ((1, 1, 2, 2), {"size": 2, "align_corners": True}, ValueError, "interpolating modes"),
    "recompute": ((1, 1, 2), {"size": 2, "recompute_scale_factor": True}, ValueError, "explicit size"),
    "smooth": ((1, 1, 2), {"size": 2, "mode": "linear", "antialias": True}, ValueError, "Anti-alias"),
    "rank": ((1, 2, 2), {"size": 2, "mode": "bilinear"}, NotImplementedError, "Got 3D input, but bilinear mode needs 4D"),
    "mode": ((1, 1, 2, 2), {"size": 2, "mode": "some"}, NotImplementedError, "got some"),
    "two dimensions": ((2, 2), {"size": 2}, (NotImplementedError, ValueError), "Only 3D, 4D and 5D"),
    "zero": ((1, 1, 2, 2), {"size": 0}, RuntimeError, "greater than 0"),
    "channels": ((1, 0, 2, 2), {"size": 2}, RuntimeError, "greater than 0"),
    "no integer": ((1, 1, 2), {"size": 2.5}, TypeError, "integers"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name: str) -> None:
    shape, options, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        interpolate(tensor.ones(shape), **options)


@pytest.mark.parity
@pytest.mark.parametrize("name", [name for name in WRONG if name != "two dimensions"])
def test_wrong_arguments_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    shape, options, error, _ = WRONG[name]
    with pytest.raises(error):
        torch.nn.functional.interpolate(torch.ones(shape), **options)


def test_wrong_types() -> None:
    with pytest.raises(TypeError, match="must be Tensor"):
        interpolate([1.0], 2)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="int64"):
        interpolate(tensor.ones(1, 1, 2, dtype=tensor.int64), 2)
