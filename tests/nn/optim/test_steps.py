"""Every optimizer, step for step, as PyTorch's, on the CPU and on a device."""

from __future__ import annotations

from typing import Any

import pytest

from .twins import Twins

pytestmark = pytest.mark.parity

_ADAM: list[dict[str, Any]] = [
    {},
    {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-4},
    {"weight_decay": 0.1},
    {"weight_decay": 0.1, "amsgrad": True, "maximize": True},
]
_DECOUPLED: list[dict[str, Any]] = [
    {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-4},
    {"weight_decay": 0.1},
    {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
]
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "SGD": [
        {"lr": 0.1},
        {"lr": 0.1, "weight_decay": 0.1, "maximize": True},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.3},
        {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1, "maximize": True},
    ],
    "Adam": [*_ADAM, {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "AdamW": _ADAM,
    "Adamax": [{}, {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-4}, {"weight_decay": 0.1, "maximize": True}],
    "NAdam": [{}, {"momentum_decay": 0.1}, *_DECOUPLED],
    # The second average is short enough to be rectified after a few steps.
    "RAdam": [{}, *_DECOUPLED],
    "RMSprop": [
        {},
        {"alpha": 0.8, "eps": 1e-4, "weight_decay": 0.1, "maximize": True},
        {"momentum": 0.9},
        {"centered": True},
        {"centered": True, "momentum": 0.9, "weight_decay": 0.1},
    ],
    "Adagrad": [
        {},
        {"lr_decay": 0.1, "weight_decay": 0.1, "eps": 1e-4, "maximize": True},
        {"lr": 0.1, "initial_accumulator_value": 0.5},
    ],
    "Rprop": [
        {},
        {"lr": 0.5, "etas": (0.3, 1.5), "step_sizes": (0.2, 0.6)},
        {"lr": 0.1, "etas": (0.7, 1.1), "maximize": True},
    ],
    "ASGD": [
        {},
        {"lr": 0.1, "lambd": 0.1, "alpha": 0.5, "t0": 3.5, "weight_decay": 0.1},
        {"lr": 0.05, "t0": 0, "maximize": True, "weight_decay": 0.1},
    ],
    "Adadelta": [{}, {"lr": 0.5, "rho": 0.8, "eps": 1e-4, "weight_decay": 0.1, "maximize": True}],
}
CASES = [(name, options) for name, several in OPTIONS.items() for options in several]


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
@pytest.mark.sampled(3)
def test_ten_steps(device_name: str, name: str, options: dict[str, Any]) -> None:
    twins = Twins(device_name)
    result = twins.run(lambda optim, params: getattr(optim, name)(params, **options))
    twins.assert_same(*result)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.sampled(3)
def test_other_types(device_name: str, name: str, dtype: str) -> None:
    twins = Twins(device_name, ((5,), (2, 2)), dtype)
    options = OPTIONS[name][-1]
    result = twins.run(lambda optim, params: getattr(optim, name)(params, **options))
    twins.assert_same(*result, **({} if "complex" in dtype else {"rtol": 1e-11, "atol": 1e-12}))
