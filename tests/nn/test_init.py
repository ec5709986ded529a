"""Initial values: their distribution, and what PyTorch makes of the same arguments."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import tensor
from nn import init

from .parity import assert_like_pytorch


def drawn(name: str, *shape: int, place: str = "cpu", **options: Any) -> np.ndarray[Any, Any]:
    """Values that an initialiser gives to a tensor of ``shape``."""
    target = tensor.empty(*shape, device=place)
    assert getattr(init, name)(target, **options) is target
    return target.cpu().double().numpy()


def deviation_of_uniform(low: float, high: float) -> float:
    return (high - low) / math.sqrt(12)


@pytest.mark.parametrize(
    ("name", "options", "mean", "deviation", "bound"),
    [
        ("uniform_", {}, 0.5, deviation_of_uniform(0, 1), 1),
        ("uniform_", {"a": -3.0, "b": 1.0}, -1, deviation_of_uniform(-3, 1), 3),
        ("normal_", {}, 0, 1, None),
        ("normal_", {"mean": 2.0, "std": 3.0}, 2, 3, None),
        ("xavier_uniform_", {}, 0, math.sqrt(2 / (60 + 300)), math.sqrt(6 / (60 + 300))),
        ("xavier_uniform_", {"gain": 2.0}, 0, 2 * math.sqrt(2 / 360), 2 * math.sqrt(6 / 360)),
        ("xavier_normal_", {"gain": 3.0}, 0, 3 * math.sqrt(2 / 360), None),
        ("kaiming_uniform_", {}, 0, math.sqrt(2 / 60), math.sqrt(6 / 60)),
        ("kaiming_uniform_", {"a": math.sqrt(5)}, 0, math.sqrt(1 / 180), math.sqrt(1 / 60)),
        ("kaiming_normal_", {"mode": "fan_out", "nonlinearity": "relu"}, 0, math.sqrt(2 / 300), None),
        ("kaiming_normal_", {"nonlinearity": "tanh"}, 0, 5 / 3 / math.sqrt(60), None),
    ],
)
def test_distribution(
    name: str, options: dict[str, Any], mean: float, deviation: float, bound: float | None
) -> None:
    tensor.manual_seed(7)
    values = drawn(name, 100, 20, 3, **options)
    error = deviation / math.sqrt(values.size)
    assert abs(values.mean() - mean) < 5 * error
    assert abs(values.std() / deviation - 1) < 0.05
    if bound is not None:
        assert np.abs(values).max() <= bound


@pytest.mark.parity
def test_truncated_normal() -> None:
    stats = pytest.importorskip("scipy.stats")
    tensor.manual_seed(3)
    values = drawn("trunc_normal_", 4000, mean=1.0, std=2.0, a=-1.0, b=4.0)
    assert values.min() >= -1
    assert values.max() <= 4
    assert stats.kstest(values, stats.truncnorm(-1, 1.5, loc=1, scale=2).cdf).pvalue > 1e-3


@pytest.mark.parametrize("shape", [(4, 4), (3, 8), (8, 3), (6, 2, 3), (2, 3, 3), (1, 5)])
@pytest.mark.parametrize("dtype", [tensor.float32, tensor.float64])
def test_orthogonal(shape: tuple[int, ...], dtype: tensor.dtype) -> None:
    weight = init.orthogonal_(tensor.empty(*shape, dtype=dtype), gain=2.0)
    matrix = weight.double().numpy().reshape(shape[0], -1)
    product = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)


def test_orthogonal_matrices_are_uniformly_distributed() -> None:
    tensor.manual_seed(0)
    corners = np.array([drawn("orthogonal_", 2, 2)[0, 0] for _ in range(400)])
    # Without the correction of signs all of them would have the same one.
    assert 120 < (corners > 0).sum() < 280


def test_sparse() -> None:
    tensor.manual_seed(0)
    values = drawn("sparse_", 10, 40, sparsity=0.35, std=2.0)
    assert ((values == 0).sum(axis=0) == 4).all()
    assert abs(values[values != 0].std() / 2 - 1) < 0.25


@pytest.mark.parametrize("name", ["uniform_", "normal_", "trunc_normal_", "kaiming_uniform_", "orthogonal_"])
def test_generator_and_device(name: str, device_name: str) -> None:
    def values(seed: int) -> list[Any]:
        generator = tensor.Generator(device_name).manual_seed(seed)
        result: list[Any] = drawn(name, 4, 3, place=device_name, generator=generator).tolist()
        return result

    assert values(1) == values(1)
    assert values(1) != values(2)


@pytest.mark.parametrize("name", ["ones_", "zeros_", "eye_", "sparse_", "xavier_normal_"])
def test_on_devices(name: str, device_name: str) -> None:
    options = {"sparsity": 0.5} if name == "sparse_" else {}
    assert np.isfinite(drawn(name, 4, 3, place=device_name, **options)).all()


def test_nothing_is_recorded() -> None:
    weight = tensor.ones(4, 4, requires_grad=True)
    for name in ("uniform_", "normal_", "trunc_normal_", "eye_", "orthogonal_", "ones_", "kaiming_normal_"):
        getattr(init, name)(weight)
    assert weight.is_leaf
    assert weight.requires_grad


EXACT = {
    "constant": lambda lib, nn: nn.init.constant_(lib.empty(2, 3), 4.5),
    "ones": lambda lib, nn: nn.init.ones_(lib.empty(3)),
    "zeros": lambda lib, nn: nn.init.zeros_(lib.empty(3)),
    "eye": lambda lib, nn: nn.init.eye_(lib.empty(2, 3)),
    "eye tall": lambda lib, nn: nn.init.eye_(lib.empty(4, 2)),
    "eye of 3": lambda lib, nn: nn.init.eye_(lib.empty(4, 2, 2)),
    "dirac 1d": lambda lib, nn: nn.init.dirac_(lib.empty(3, 2, 3)),
    "dirac 2d": lambda lib, nn: nn.init.dirac_(lib.empty(4, 3, 2, 3), groups=2),
    "dirac 3d": lambda lib, nn: nn.init.dirac_(lib.empty(2, 3, 1, 2, 3)),
    "dirac groups": lambda lib, nn: nn.init.dirac_(lib.empty(6, 1, 3), groups=3),
    "dirac wrong": lambda lib, nn: nn.init.dirac_(lib.empty(4, 1, 3), groups=3),
    "dirac matrix": lambda lib, nn: nn.init.dirac_(lib.empty(4, 4)),
    "xavier vector": lambda lib, nn: nn.init.xavier_uniform_(lib.empty(4)),
    "xavier empty": lambda lib, nn: nn.init.xavier_uniform_(lib.empty(0, 4)),
    "kaiming empty": lambda lib, nn: nn.init.kaiming_uniform_(lib.empty(0, 4)),
    "kaiming normal empty": lambda lib, nn: nn.init.kaiming_normal_(lib.empty(4, 0)),
    "kaiming mode": lambda lib, nn: nn.init.kaiming_normal_(lib.empty(4, 2), mode="out"),
    "kaiming nonlinearity": lambda lib, nn: nn.init.kaiming_normal_(lib.empty(4, 2), nonlinearity="x"),
    "orthogonal vector": lambda lib, nn: nn.init.orthogonal_(lib.empty(4)),
    "orthogonal empty": lambda lib, nn: nn.init.orthogonal_(lib.empty(0, 4)),
    "sparse vector": lambda lib, nn: nn.init.sparse_(lib.empty(4), 0.1),
    "deprecated": lambda lib, nn: nn.init.constant(lib.empty(4), 0.1),
    "far mean": lambda lib, nn: nn.init.trunc_normal_(lib.empty(1), mean=9.0, a=1.0, b=1.0),
    "backwards": lambda lib, nn: nn.init.uniform_(lib.empty(1), 2.0, 1.0),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", EXACT)
def test_like_pytorch(name: str) -> None:
    assert_like_pytorch(EXACT[name])


NAMES = ["linear", "conv1d", "conv_transpose3d", "sigmoid", "tanh", "relu", "leaky_relu", "selu", "gelu"]


@pytest.mark.parity
@pytest.mark.parametrize("param", [None, 0, 0.3, True, "x"])
@pytest.mark.parametrize("name", NAMES)
def test_gain(name: str, param: Any) -> None:
    assert_like_pytorch(lambda lib, nn: float(nn.init.calculate_gain(name, param)))


@pytest.mark.parity
def test_every_name_of_pytorch_is_there() -> None:
    torch = pytest.importorskip("torch")
    theirs = {
        name
        for name, value in vars(torch.nn.init).items()
        if callable(value) and value.__module__ == "torch.nn.init" and not name.startswith("_")
    }
    assert {name for name in theirs if name.islower()} - set(init.__all__) == set()


def test_deprecated_names_say_what_to_use() -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        init.xavier_uniform(tensor.empty(2, 2))  # type: ignore[call-arg, unused-ignore]
    assert "xavier_uniform_" in str(warned[0].message)
    assert warned[0].filename == __file__
