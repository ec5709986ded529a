"""Unpooling, fractional pooling and norms over windows against PyTorch, and their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from tensor.operations.pooling.fractional_pooling import fractional_max_pool2d, fractional_max_pool3d
from tensor.operations.pooling.pooling import max_pool1d, max_pool2d
from tensor.operations.pooling.power_pooling import lp_pool1d, lp_pool2d, lp_pool3d
from tensor.operations.pooling.unpooling import max_unpool1d, max_unpool2d, max_unpool3d
from tests.tensor.operations.neural_comparison import assert_like_torch, close

_RNG = np.random.default_rng(0)
UNPOOL = {1: max_unpool1d, 2: max_unpool2d, 3: max_unpool3d}
FRACTIONAL = {2: fractional_max_pool2d, 3: fractional_max_pool3d}
NORMS = {1: lp_pool1d, 2: lp_pool2d, 3: lp_pool3d}


@pytest.mark.parity
@pytest.mark.parametrize(
    ("shape", "options", "size"),
    [
        ((2, 3, 8), {"kernel_size": 2}, None),
        ((2, 3, 7), {"kernel_size": 2}, (7,)),
        ((2, 3, 6, 8), {"kernel_size": 2, "stride": 2}, None),
        ((3, 7, 7), {"kernel_size": 3, "stride": 2}, (7, 7)),
        ((2, 3, 7, 8), {"kernel_size": 3, "stride": 2, "padding": 1}, (2, 3, 7, 8)),
        ((1, 2, 4, 6, 4), {"kernel_size": (2, 3, 2)}, None),
    ],
)
def test_unpooling(shape: Any, options: Any, size: Any, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    rank = len(size or shape[2:])
    rank = rank - 2 if rank > 3 else rank
    pool = getattr(torch.nn.functional, f"max_pool{rank}d")
    values, indices = pool(torch.from_numpy(_RNG.standard_normal(shape)), **options, return_indices=True)
    arrays = [values.numpy(), indices.numpy()]
    result = assert_like_torch(
        device_name,
        lambda x, at: UNPOOL[rank](x, at, **options, output_size=size),
        lambda x, at: getattr(torch.nn.functional, f"max_unpool{rank}d")(x, at, **options, output_size=size),
        arrays,
    )
    assert result.grad_fn.name() == f"MaxUnpool{max(rank, 2)}DBackward0"
    assert not result._is_view()


def test_unpooling_is_the_inverse(checked_device: str) -> None:
    x = tensor.zeros(2, 3, 4, 6, device=checked_device)
    x[:, :, ::2, 1::2] = tensor.arange(1.0, 37.0, device=checked_device).view(2, 3, 2, 3)
    values, devices = max_pool2d(x, 2, return_indices=True)
    np.testing.assert_array_equal(max_unpool2d(values, devices, 2).cpu().numpy(), x.cpu().numpy())
    values, devices = max_pool1d(x.flatten(2), 4, return_indices=True)
    assert max_unpool1d(values[:0], devices[:0], 4).shape == (0, 3, 24)


@pytest.mark.parity
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((2, 3, 7, 9), {"kernel_size": 2, "output_size": (4, 5)}),
        ((3, 7, 9), {"kernel_size": (3, 2), "output_ratio": (0.5, 0.7)}),
        ((2, 3, 5, 5), {"kernel_size": 2, "output_size": 1}),
        ((1, 2, 5, 6, 7), {"kernel_size": 2, "output_size": (3, 4, 3)}),
        ((2, 5, 6, 7), {"kernel_size": 2, "output_ratio": 0.6}),
    ],
)
def test_fractional_pooling(shape: Any, options: Any, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    rank = 2 if isinstance(options.get("output_size"), int) else len(options.get("output_size", shape[1:]))
    items = shape[: len(shape) - rank]
    samples = _RNG.uniform(size=(*((1,) if len(items) == 1 else ()), *items, rank))
    theirs = getattr(torch.nn.functional, f"fractional_max_pool{rank}d")
    if isinstance(options.get("output_ratio"), float):
        reference = {**options, "output_ratio": (options["output_ratio"],) * rank}
    else:
        reference = options
    array = _RNG.standard_normal(shape)
    result = assert_like_torch(
        device_name,
        lambda x, share: FRACTIONAL[rank](x, **options, _random_samples=share),
        lambda x, share: theirs(x, **reference, _random_samples=share),
        [array, samples],
        gradients=1,
    )
    assert result.grad_fn.name() == f"FractionalMaxPool{rank}DBackward0"
    share = tensor.from_numpy(samples).to(device_name)
    devices = FRACTIONAL[rank](
        tensor.from_numpy(array).to(device_name), **options, return_indices=True, _random_samples=share
    )[1]
    expected = theirs(
        torch.from_numpy(array), **reference, return_indices=True, _random_samples=torch.from_numpy(samples)
    )[1]
    np.testing.assert_array_equal(devices.cpu().numpy(), expected.numpy())


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_fractional_pooling_of_nan_and_types(kind: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    array = _RNG.standard_normal((1, 2, 6, 6)).astype(kind)
    array[0, 0, 2, 1:3] = np.nan
    samples = np.array([[[0.25, 0.5], [0.75, 0.125]]], kind)
    result = fractional_max_pool2d(
        tensor.from_numpy(array).to(device_name), 3, 3, return_indices=True,
        _random_samples=tensor.from_numpy(samples).to(device_name),
    )  # fmt: skip
    expected = torch.nn.functional.fractional_max_pool2d(
        torch.from_numpy(array).double(), 3, 3, return_indices=True,
        _random_samples=torch.from_numpy(samples).double(),
    )  # fmt: skip
    for one, two in zip(result, expected, strict=True):
        np.testing.assert_array_equal(one.cpu().numpy(), two.numpy())


def test_random_windows_cover_the_ends(checked_device: str) -> None:
    tensor.manual_seed(0)
    x = tensor.arange(64.0, device=checked_device).view(1, 1, 8, 8).expand(4, 2, 8, 8)
    for _ in range(3):
        values, devices = fractional_max_pool2d(x, 2, output_ratio=(0.5, 0.5), return_indices=True)
        assert values.shape == (4, 2, 4, 4)
        assert (values[..., -1, -1] == 63).all().item()
        assert (values.long() == devices).all().item()
        assert (values[..., 0, 0] == 9).all().item()


@pytest.mark.parity
@pytest.mark.parametrize(
    ("shape", "power", "options"),
    [
        ((2, 3, 9), 2, {"kernel_size": 2}),
        ((2, 3, 9), 3.0, {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
        ((2, 3, 6, 8), 2, {"kernel_size": (2, 3), "stride": 2}),
        ((2, 3, 6, 8), 1.0, {"kernel_size": 2}),
        ((2, 3, 6, 8), float("inf"), {"kernel_size": 2}),
        ((2, 3, 6, 8), -float("inf"), {"kernel_size": 2}),
        ((1, 2, 4, 4, 5), 2.0, {"kernel_size": 2}),
    ],
)
def test_norms(shape: Any, power: float, options: Any, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    rank = len(shape) - 2
    array = np.abs(_RNG.standard_normal(shape))
    array[0, 0] = 0
    assert_like_torch(
        device_name,
        lambda x: NORMS[rank](x, power, **options),
        lambda x: getattr(torch.nn.functional, f"lp_pool{rank}d")(x, power, **options),
        [array],
    )


def test_norms_written_out(checked_device: str) -> None:
    array = _RNG.standard_normal((1, 1, 4, 6))
    result = lp_pool2d(tensor.from_numpy(array).to(checked_device), 2, 2)
    expected = np.sqrt((array.reshape(2, 2, 3, 2) ** 2).sum((1, 3)))
    close(result[0, 0], tensor.from_numpy(expected), 1e-12)


def test_second_derivatives() -> None:
    x = tensor.from_numpy(_RNG.standard_normal((1, 2, 4, 4))).requires_grad_()
    share = tensor.from_numpy(_RNG.uniform(size=(1, 2, 2)))
    devices = max_pool2d(tensor.from_numpy(_RNG.standard_normal((1, 2, 8, 8))), 2, return_indices=True)[1]
    for call in (
        lambda x: max_unpool2d(x, devices, 2) ** 2,
        lambda x: fractional_max_pool2d(x, 2, 2, _random_samples=share) ** 2,
        lambda x: lp_pool2d(x, 2, 2),
    ):
        assert tensor.autograd.gradcheck(call, (x,))
        assert tensor.autograd.gradgradcheck(call, (x,))


VALUES, PLACES = tensor.ones(1, 1, 2, 2), tensor.zeros(1, 1, 2, 2, dtype=tensor.int64)
WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "size": (lambda: max_unpool2d(VALUES, PLACES, 2, output_size=(9, 9)), ValueError, "between 2 and 6"),
    "sizes": (lambda: max_unpool2d(VALUES, PLACES, 2, output_size=(4,)), ValueError, "containing 2 or 4"),
    "shape": (lambda: max_unpool2d(VALUES, PLACES[..., 0], 2), RuntimeError, "Expected shape of indices"),
    "type": (lambda: max_unpool2d(VALUES, PLACES.int(), 2), RuntimeError, "int64"),
    "rank": (lambda: max_unpool3d(VALUES[0], PLACES[0], 2), RuntimeError, "4d or 5d"),
    "place": (lambda: max_unpool2d(VALUES, PLACES + 16, 2), RuntimeError, "16"),
    "no tensor": (lambda: max_unpool2d([1.0], PLACES, 2), TypeError, "must be Tensor"),
    "neither": (lambda: fractional_max_pool2d(VALUES, 2), ValueError, "either an output_size"),
    "fit": (lambda: fractional_max_pool2d(VALUES, 2, 2), RuntimeError, "do not fit"),
    "samples": (
        lambda: fractional_max_pool2d(VALUES, 1, 2, _random_samples=tensor.ones(1, 2)),
        RuntimeError,
        r"shape \[1, 1, 2\]",
    ),
    "integers": (lambda: fractional_max_pool2d(PLACES, 1, 2), NotImplementedError, "int64"),
    "numbers": (lambda: fractional_max_pool2d(VALUES, (1, 1, 1), 2), ValueError, "tuple of 2"),
    "flat": (lambda: fractional_max_pool2d(VALUES[0, 0], 1, 2), RuntimeError, "3D or 4D"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name: str) -> None:
    call, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        call()
