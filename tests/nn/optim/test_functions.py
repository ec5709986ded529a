"""Function forms of optimizers, ``nn.optim.adam.adam`` and its neighbours: a step with states that the caller keeps."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from tests.pytorch import torch

_ADAM = ("exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs", "state_steps")
_BETAS = {"beta1": 0.9, "beta2": 0.99, "lr": 0.05, "weight_decay": 0.1, "eps": 1e-6}

#: Module, function, its lists of states after parameters and gradients, and options.
CALLS: list[tuple[str, str, tuple[str, ...], dict[str, Any]]] = [
    ("adam", "adam", _ADAM, {**_BETAS, "amsgrad": True, "maximize": True}),
    ("adam", "adam", _ADAM, {**_BETAS, "amsgrad": False, "maximize": False, "decoupled_weight_decay": True}),
    ("adamw", "adamw", _ADAM, {**_BETAS, "amsgrad": False, "maximize": False}),
    (
        "sgd",
        "sgd",
        ("momentum_buffer_list",),
        {
            "weight_decay": 0.1,
            "momentum": 0.9,
            "lr": 0.1,
            "dampening": 0.2,
            "nesterov": False,
            "maximize": False,
        },
    ),
    (
        "rmsprop",
        "rmsprop",
        ("square_avgs", "grad_avgs", "momentum_buffer_list", "state_steps"),
        {"lr": 0.1, "alpha": 0.9, "eps": 1e-6, "weight_decay": 0.1, "momentum": 0.5, "centered": True},
    ),
    (
        "adagrad",
        "adagrad",
        ("state_sums", "state_steps"),
        {"lr": 0.1, "weight_decay": 0.1, "lr_decay": 0.2, "eps": 1e-6, "maximize": False},
    ),
    (
        "adadelta",
        "adadelta",
        ("square_avgs", "acc_deltas", "state_steps"),
        {"lr": 0.1, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.1, "maximize": True},
    ),
    ("adamax", "adamax", ("exp_avgs", "exp_infs", "state_steps"), _BETAS),
    (
        "asgd",
        "asgd",
        ("axs", "mus", "etas", "state_steps"),
        {"lambd": 0.01, "lr": 0.1, "t0": 1.0, "alpha": 0.75, "weight_decay": 0.1},
    ),
    (
        "nadam",
        "nadam",
        ("exp_avgs", "exp_avg_sqs", "mu_products", "state_steps"),
        {**_BETAS, "momentum_decay": 0.1, "maximize": True},
    ),
    ("radam", "radam", _ADAM[:2] + _ADAM[3:], {**_BETAS, "decoupled_weight_decay": True}),
    (
        "rprop",
        "rprop",
        ("prevs", "step_sizes", "state_steps"),
        {"step_size_min": 1e-6, "step_size_max": 50, "etaminus": 0.5, "etaplus": 1.2},
    ),
]
_NUMBERS = {"state_steps": 0.0, "mus": 1.0, "etas": 0.1, "mu_products": 1.0}


def _function(library: Any, module: str, name: str) -> Any:
    place = "nn.optim" if library is tensor else "torch.optim"
    # That module of PyTorch is a stand-in of tensor.as_torch here, so the name is looked up where it is defined.
    module = "adam" if library is tensor and module == "adamw" else module
    return getattr(importlib.import_module(f"{place}.{module}"), name)


def _states(library: Any, names: tuple[str, ...], params: list[Any]) -> list[list[Any]]:
    columns: list[list[Any]] = []
    for name in names:
        if name in _NUMBERS:
            columns.append([library.tensor(_NUMBERS[name]) for _ in params])
        elif name == "momentum_buffer_list" and len(names) == 1:
            columns.append([None for _ in params])
        else:
            value = 0.1 if name == "step_sizes" else 0.0
            columns.append([library.full_like(each, value) for each in params])
    return columns


@pytest.mark.parity
@pytest.mark.parametrize(("module", "name", "names", "options"), CALLS)
def test_steps_are_pytorchs(module: str, name: str, names: tuple[str, ...], options: dict[str, Any]) -> None:
    outcomes = []
    for library in (tensor, torch):
        rng = np.random.default_rng(1)
        params = [library.from_numpy(rng.standard_normal(shape)) for shape in ((3, 2), (5,))]
        states = _states(library, names, params)
        if "state_steps" in names:
            # A parameter that joined later.
            states[names.index("state_steps")][1].fill_(2)
        for _ in range(4):
            grads = [library.from_numpy(rng.standard_normal(tuple(each.shape))) for each in params]
            _function(library, module, name)(params, grads, *states, **options)
        outcomes.append([x.numpy() for column in [params, *states] for x in column])
    for ours, theirs in zip(*outcomes, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-12)


def test_the_function_is_the_step_of_the_class(device_name: str) -> None:
    x, y = (tensor.ones(3, device=device_name, requires_grad=True) for _ in range(2))
    optimizer = nn.optim.Adam([x], lr=0.1)
    zeros = lambda: [tensor.zeros(3, device=device_name)]  # noqa: E731
    averages, squares, steps = zeros(), zeros(), [tensor.tensor(0.0)]
    for factor in (1.0, -2.0):
        x.grad = tensor.full((3,), factor, device=device_name)
        optimizer.step()
        nn.optim.adam.adam(
            [y], [x.grad], averages, squares, [], steps,
            amsgrad=False, beta1=0.9, beta2=0.999, lr=0.1, weight_decay=0.0, eps=1e-8, maximize=False,
        )  # fmt: skip
    assert y.tolist() == x.tolist()
    assert optimizer.state[x]["exp_avg"].tolist() == averages[0].tolist()
    assert steps[0] == 2


def _sgd(params: list[Any], grads: list[Any], buffers: list[Any], **options: Any) -> None:
    defaults = {"weight_decay": 0.0, "momentum": 0.9, "lr": 0.5, "dampening": 0.0, "nesterov": False}
    nn.optim.sgd.sgd(params, grads, buffers, **{**defaults, "maximize": False, **options})


def test_buffers_begin_with_the_first_step() -> None:
    x, g = tensor.zeros(2), tensor.ones(2)
    buffers: list[Any] = [None]
    _sgd([x], [g], buffers)
    assert buffers[0].tolist() == [1, 1]
    _sgd([x], [g], buffers)
    assert x.tolist() == pytest.approx([-1.45, -1.45])


def test_scaled_gradients() -> None:
    x, g = tensor.zeros(2), tensor.ones(2)
    _sgd([x], [g], [None], grad_scale=tensor.tensor(4.0), found_inf=tensor.tensor(0.0), fused=True)
    assert x.tolist() == [-0.125, -0.125]
    _sgd([x], [g], [None], grad_scale=tensor.tensor(4.0), found_inf=tensor.tensor(1.0), fused=True)
    assert x.tolist() == [-0.125, -0.125]


def test_sparse_gradients() -> None:
    x = tensor.zeros(3, 2)
    g = tensor.sparse_coo_tensor(tensor.tensor([[1]]), tensor.ones(1, 2), (3, 2))
    _sgd([x], [g], [None], momentum=0.0, has_sparse_grad=True)
    assert x.tolist() == [[0, 0], [-0.5, -0.5], [0, 0]]
    with pytest.raises(RuntimeError, match="weight_decay is not compatible with sparse gradients"):
        _sgd([x], [g], [None], weight_decay=0.1)


def test_a_parameter_that_is_listed_twice_is_updated_twice() -> None:
    x, g = tensor.zeros(2), tensor.ones(2)
    _sgd([x, x], [g, g], [None, None], momentum=0.0)
    assert x.tolist() == [-1, -1]


def test_what_is_refused() -> None:
    x = [tensor.zeros(2)]
    options = {"lr": 0.1, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.0, "maximize": False}
    with pytest.raises(NotImplementedError, match="Adadelta with differentiable=True"):
        nn.optim.adadelta.adadelta(x, x, x, x, [tensor.tensor(0.0)], differentiable=True, **options)
    with pytest.raises(RuntimeError, match="must contain a list of singleton tensors"):
        nn.optim.adadelta.adadelta(x, x, x, x, [0], **options)
