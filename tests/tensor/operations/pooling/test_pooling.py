"""Pooling against PyTorch, and differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drv
import tensor
from nn import functional
from tests.tensor.launched_kernels import launched

_RNG = np.random.default_rng(0)
CASES: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "max": ("max_pool2d", (2, 3, 6, 8), {"kernel_size": 2}),
    "max overlapping": ("max_pool2d", (2, 3, 7, 8), {"kernel_size": 3, "stride": 2, "padding": 1}),
    "max dilated": ("max_pool2d", (2, 3, 9, 8), {"kernel_size": (3, 2), "stride": 1, "dilation": 2, "padding": (1, 1)}),
    "max ceil": ("max_pool2d", (2, 3, 7, 8), {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
    "max ceil padded": ("max_pool1d", (2, 3, 10), {"kernel_size": 3, "stride": 4, "padding": 1, "ceil_mode": True}),
    "max one item": ("max_pool1d", (3, 9), {"kernel_size": 2}),
    "max volume": ("max_pool3d", (1, 2, 4, 5, 6), {"kernel_size": 2, "stride": (1, 2, 2)}),
    "avg": ("avg_pool2d", (2, 3, 6, 8), {"kernel_size": 2}),
    "avg padded": ("avg_pool2d", (2, 3, 7, 8), {"kernel_size": 3, "stride": 2, "padding": 1}),
    "avg without padding": (
        "avg_pool2d", (2, 3, 7, 8), {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    ),
    "avg ceil": ("avg_pool2d", (2, 3, 7, 8), {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    "avg divisor": ("avg_pool2d", (3, 7, 8), {"kernel_size": 3, "divisor_override": 2}),
    "avg signal": ("avg_pool1d", (2, 3, 9), {"kernel_size": 4, "stride": 1}),
    "avg volume": ("avg_pool3d", (1, 2, 4, 5, 6), {"kernel_size": (2, 1, 3)}),
    "adaptive avg": ("adaptive_avg_pool2d", (2, 3, 7, 8), {"output_size": (3, 5)}),
    "adaptive avg 1": ("adaptive_avg_pool2d", (2, 3, 7, 8), {"output_size": 1}),
    "adaptive avg more": ("adaptive_avg_pool2d", (2, 3, 3, 4), {"output_size": (5, None)}),
    "adaptive avg signal": ("adaptive_avg_pool1d", (2, 3, 7), {"output_size": 4}),
    "adaptive avg volume": ("adaptive_avg_pool3d", (1, 2, 4, 5, 6), {"output_size": 3}),
    "adaptive max": ("adaptive_max_pool2d", (2, 3, 7, 8), {"output_size": (3, 5)}),
    "adaptive max signal": ("adaptive_max_pool1d", (2, 3, 7), {"output_size": 4}),
    "adaptive max volume": ("adaptive_max_pool3d", (1, 2, 4, 5, 6), {"output_size": 3}),
}  # fmt: skip


@pytest.mark.parity
@pytest.mark.parametrize("name", CASES)
def test_against_pytorch(name: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    function, shape, options = CASES[name]
    array = _RNG.standard_normal(shape)
    mine = tensor.from_numpy(array.copy()).to(device_name).requires_grad_()
    theirs = torch.from_numpy(array.copy()).requires_grad_()
    if "max" in function:
        result, devices = getattr(functional, function)(mine, **options, return_indices=True)
        expected, other = getattr(torch.nn.functional, function)(theirs, **options, return_indices=True)
        np.testing.assert_array_equal(devices.cpu().numpy(), other.numpy())
    else:
        result = getattr(functional, function)(mine, **options)
        expected = getattr(torch.nn.functional, function)(theirs, **options)
    np.testing.assert_allclose(result.detach().cpu().numpy(), expected.detach().numpy())
    grad = _RNG.standard_normal(tuple(expected.shape))
    result.backward(tensor.from_numpy(grad.copy()).to(device_name))
    expected.backward(torch.from_numpy(grad))
    np.testing.assert_allclose(mine.grad.cpu().numpy(), theirs.grad.numpy(), atol=1e-14)


@pytest.mark.parametrize("name", ["max overlapping", "avg padded", "adaptive avg", "adaptive max"])
@pytest.mark.sampled(4)
def test_second_derivatives(name: str, device_name: str) -> None:
    function, _, options = CASES[name]
    options = {"output_size": 2} if "output_size" in options else options
    x = tensor.from_numpy(_RNG.permutation(18.0 * np.arange(18)).reshape(1, 2, 3, 3)).to(device_name)

    def call(x: Any) -> Any:
        return getattr(functional, function)(x, **options) ** 2

    assert tensor.autograd.gradgradcheck(call, (x.div(100).requires_grad_(),))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32"])
def test_types(kind: str, device_name: str) -> None:
    array = _RNG.standard_normal((1, 2, 4, 4))
    x = tensor.from_numpy(array).to(device_name, getattr(tensor, kind))
    exact = x.double().cpu().numpy().reshape(2, 2, 2, 2, 2)
    assert functional.max_pool2d(x, 2).dtype is x.dtype
    np.testing.assert_array_equal(functional.max_pool2d(x, 2)[0].double().cpu().numpy(), exact.max((2, 4)))
    means = functional.avg_pool2d(x, 2)[0].double().cpu().numpy()
    np.testing.assert_allclose(means, exact.mean((2, 4)), atol=1e-2)


@pytest.mark.parametrize("name", [each for each in CASES if "max" in each])
def test_values_alone_are_those_with_indices(name: str) -> None:
    """Where indices are not asked for, a device does not write them, and takes more outputs at a time."""
    drv.simulator.install(check="full")
    function, shape, options = CASES[name]
    array = _RNG.standard_normal((*shape[:-1], 3 * shape[-1] + 1))
    array.reshape(-1)[::11] = np.nan
    x = tensor.from_numpy(array).to("cuda", tensor.bfloat16)
    pool = getattr(functional, function)
    expected, _ = pool(x, **options, return_indices=True)
    with launched() as names:
        values = pool(x, **options)
    np.testing.assert_array_equal(values.float().cpu().numpy(), expected.float().cpu().numpy())
    kernel = "adaptive_max_pool" if "adaptive" in name else "max_pool_rows_values"
    assert f"{kernel}_bfloat16" in names
    assert not drv.simulator.findings()


def test_nan_wins(device_name: str) -> None:
    x = tensor.tensor([[1.0, float("nan"), 3.0, -1.0]], device=device_name)
    values, devices = functional.max_pool1d(x, 2, return_indices=True)
    assert np.isnan(values.cpu().numpy()[0, 0])
    assert devices.tolist() == [[1, 2]]


def test_no_items(device_name: str) -> None:
    x = tensor.ones(0, 2, 4, 4, device=device_name, requires_grad=True)
    for result in (
        functional.max_pool2d(x, 2),
        functional.avg_pool2d(x, 2),
        functional.adaptive_max_pool2d(x, 2),
    ):
        assert result.shape == (0, 2, 2, 2)
        result.sum().backward()
    assert x.grad.shape == x.shape


def test_options_of_other_types(device_name: str) -> None:
    x = tensor.ones(1, 2, 4, 4, device=device_name)
    for _ in range(2):
        assert functional.max_pool2d(x, (2, 2)).shape == (1, 2, 2, 2)
        assert functional.max_pool2d(x, [2, 2], []).shape == (1, 2, 2, 2)
        # What equals a number that was planned for is not taken for it.
        with pytest.raises(RuntimeError, match="tuple of 2 ints"):
            functional.max_pool2d(x, (2.0, 2))


def test_names_of_nodes() -> None:
    x = tensor.ones(1, 1, 4, 4, requires_grad=True)
    assert functional.max_pool2d(x, 2).grad_fn.name() == "MaxPool2DWithIndicesBackward0"
    assert functional.avg_pool2d(x, 2).grad_fn.name() == "AvgPool2DBackward0"
    assert functional.adaptive_avg_pool2d(x, 2).grad_fn.name() == "AdaptiveAvgPool2DBackward0"


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "padding": (lambda x: functional.max_pool2d(x, 2, padding=2), RuntimeError, "at most half"),
    "kernel": (lambda x: functional.max_pool2d(x, 9), RuntimeError, "too small"),
    "zero": (lambda x: functional.max_pool2d(x, 0), RuntimeError, "at least 1"),
    "numbers": (lambda x: functional.avg_pool2d(x, (1, 2, 3)), RuntimeError, "tuple of 2 ints"),
    "rank": (lambda x: functional.max_pool2d(x[0, 0], 2), RuntimeError, "Expected 3D or 4D"),
    "divisor": (lambda x: functional.avg_pool2d(x, 2, divisor_override=0), RuntimeError, "not zero"),
    "output": (lambda x: functional.adaptive_avg_pool2d(x, (1, 2, 3)), RuntimeError, "2 numbers"),
    "complex": (lambda x: functional.max_pool2d(x.to(tensor.complex64), 2), NotImplementedError, "complex64"),
    "empty": (lambda x: functional.max_pool2d(x[:, :0], 2), RuntimeError, "positive length"),
    "no tensor": (lambda x: functional.max_pool2d([1], 2), TypeError, "must be Tensor"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name: str) -> None:
    call, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        call(tensor.ones(1, 2, 4, 4))


@pytest.mark.simulator_only
@pytest.mark.parametrize("dtype", [tensor.float32, tensor.float64, tensor.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((3, 2, 8, 16), {"kernel_size": 2}),
        ((2, 3, 7, 13), {"kernel_size": 2, "ceil_mode": True}),
        ((1, 2, 9, 24), {"kernel_size": (3, 2), "stride": (2, 3)}),
        ((2, 1, 6, 32), {"kernel_size": 3, "stride": 2, "padding": 1}),
        ((1, 1, 1, 40), {"kernel_size": (1, 5), "stride": 1, "padding": (0, 2)}),
        ((2, 2, 5, 1), {"kernel_size": (2, 1)}),
        ((0, 2, 4, 4), {"kernel_size": 2}),
    ],
)
@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d"])
@pytest.mark.sampled(3)
def test_rows_of_windows(name: str, shape: tuple[int, ...], options: dict[str, Any], dtype: Any) -> None:
    """Rows of whole packs and others, windows apart and overlapping, on a device that checks every access."""
    drv.simulator.install(check="full", schedule="lazy")
    array = _RNG.integers(-4, 5, shape).astype(np.float32)
    array[array == 4] = np.nan if "max" in name else 4
    function = getattr(functional, name)

    def computed(x: Any) -> list[Any]:
        x = x.requires_grad_()
        result = function(x, **options)
        grad = tensor.arange(result.numel()).view(result.shape).remainder(7).to(x.device, x.dtype)
        return [
            each.detach().cpu().double().numpy() for each in (result, *tensor.autograd.grad(result, x, grad))
        ]

    host = tensor.from_numpy(array).to(dtype)
    # A view whose first element is not where a pack begins.
    shifted = tensor.empty(host.numel() + 1, dtype=dtype, device="cuda")[1:].view(shape)
    for x in (host.cuda(), shifted.copy_(host)):
        for got, expected in zip(computed(x), computed(host.clone()), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-2 if dtype is tensor.bfloat16 else 1e-6)
    assert not drv.simulator.findings()
