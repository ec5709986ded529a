"""What all optimizers share: groups, hooks, state dicts, copies, texts and mistakes."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import drv
import nn
import nn.optim
import tensor
from nn.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
    required,
)

from .test_steps import OPTIONS
from .twins import SHAPES, Twins, assert_close

NAMES = tuple(OPTIONS)
MATRICES = ("Adafactor", "Muon")


def _leaf(*shape: int) -> Any:
    return tensor.zeros(*shape, requires_grad=True)


@pytest.mark.parity
@pytest.mark.parametrize("name", [*NAMES, *MATRICES, "LBFGS"])
def test_text_and_options(name: str) -> None:
    torch = pytest.importorskip("torch")
    shape = (2, 3) if name == "Muon" else (2,)
    ours = getattr(nn.optim, name)([_leaf(*shape)])
    theirs = getattr(torch.optim, name)([torch.zeros(shape, requires_grad=True)])
    assert repr(ours) == repr(theirs)
    assert list(ours.defaults) == list(theirs.defaults)
    assert ours.state_dict()["param_groups"] == theirs.state_dict()["param_groups"]
    ours.add_param_group({"params": _leaf(*shape), "lr": 0.5})
    theirs.add_param_group({"params": torch.zeros(shape, requires_grad=True), "lr": 0.5})
    assert repr(ours) == repr(theirs)


@pytest.mark.parity
@pytest.mark.parametrize("name", ["Adam", "ASGD", "Rprop"])
def test_groups_with_options_of_their_own(device_name: str, name: str) -> None:
    twins = Twins(device_name)

    def make(optim: Any, params: Any) -> Any:
        groups = [{"params": params[:2], "lr": 0.01}, {"params": iter(params[2:]), "weight_decay": 0.2}]
        return getattr(optim, name)(groups, lr=0.1)

    twins.assert_same(*twins.run(make, 4))


@pytest.mark.parity
def test_names_of_parameters() -> None:
    torch = pytest.importorskip("torch")
    ours = nn.optim.SGD([("weight", _leaf(2)), ("bias", _leaf(1))])
    theirs = torch.optim.SGD(
        [("weight", torch.zeros(2, requires_grad=True)), ("bias", torch.zeros(1, requires_grad=True))]
    )
    assert ours.param_groups[0]["param_names"] == ["weight", "bias"]
    assert repr(ours) == repr(theirs)
    assert ours.state_dict() == theirs.state_dict()
    with pytest.raises(ValueError, match="names are missing"):
        nn.optim.SGD([("weight", _leaf(2)), _leaf(1)])
    with pytest.raises(ValueError, match="with/without names"):
        ours.add_param_group({"params": [_leaf(1)]})


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda o: o.SGD([]), ValueError, "empty parameter list"),
        (lambda o: o.SGD(_leaf(2)), TypeError, "iterable of Tensors or dicts"),
        (lambda o: o.SGD([3.0]), TypeError, "can only optimize Tensors"),
        (lambda o: o.SGD([_leaf(2) * 2]), ValueError, "non-leaf"),
        (lambda o: o.SGD([{"params": {_leaf(2)}}]), TypeError, "ordered collections"),
        (lambda o: o.SGD([_leaf(2)], lr=-0.1), ValueError, "Invalid learning rate: -0.1"),
        (lambda o: o.SGD([_leaf(2)], momentum=-1), ValueError, "Invalid momentum value"),
        (lambda o: o.SGD([_leaf(2)], weight_decay=-1), ValueError, "Invalid weight_decay value"),
        (lambda o: o.SGD([_leaf(2)], nesterov=True), ValueError, "Nesterov momentum requires"),
        (lambda o: o.SGD([_leaf(2)], lr=tensor.ones(2)), ValueError, "1-element Tensor"),
        (lambda o: o.Adam([_leaf(2)], lr=float("nan")), ValueError, "Invalid learning rate"),
        (lambda o: o.Adam([_leaf(2)], eps=-1), ValueError, "Invalid epsilon value"),
        (lambda o: o.Adam([_leaf(2)], betas=(1.0, 0.9)), ValueError, "Invalid beta parameter at index 0"),
        (lambda o: o.AdamW([_leaf(2)], betas=(0.9, -1)), ValueError, "Invalid beta parameter at index 1"),
        (lambda o: o.NAdam([_leaf(2)], momentum_decay=-1), ValueError, "Invalid momentum_decay value"),
        (lambda o: o.RMSprop([_leaf(2)], alpha=-1), ValueError, "Invalid alpha value"),
        (lambda o: o.Adagrad([_leaf(2)], lr_decay=-1), ValueError, "Invalid lr_decay value"),
        (lambda o: o.Adadelta([_leaf(2)], rho=1.5), ValueError, "Invalid rho value"),
        (lambda o: o.ASGD([_leaf(2)], lr=-1), ValueError, "Invalid learning rate: -1"),
        (lambda o: o.ASGD([_leaf(2)], weight_decay=-1), ValueError, "Invalid weight_decay value: -1"),
        (lambda o: o.Rprop([_leaf(2)], lr=-1), ValueError, "Invalid learning rate: -1"),
        (lambda o: o.Rprop([_leaf(2)], etas=(0.5, 0.9)), ValueError, "Invalid eta values: 0.5, 0.9"),
        (lambda o: o.Adam([_leaf(2)], fused=True, foreach=True), RuntimeError, "together"),
        (lambda o: o.Adam([_leaf(2)], fused=True, differentiable=True), RuntimeError, "does not support"),
        (lambda o: o.Adam([_leaf(2)], differentiable=True), NotImplementedError, "differentiable=True"),
        (
            lambda o: o.Optimizer([_leaf(2)], {"lr": required}),
            ValueError,
            "required optimization parameter lr",
        ),
        (lambda o: o.Optimizer([_leaf(2)], {}).step(), NotImplementedError, "step"),
    ],
)
def test_mistakes(make: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        make(nn.optim)


def test_a_parameter_in_two_groups() -> None:
    x, y = _leaf(2), _leaf(2)
    optimizer = nn.optim.SGD([x])
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizer.add_param_group({"params": [y, x]})
    with pytest.raises(TypeError, match="must be a dict"):
        optimizer.add_param_group([y])  # type: ignore[arg-type]
    assert len(optimizer.param_groups) == 1
    with pytest.warns(UserWarning, match="duplicate parameters"):
        nn.optim.SGD([y, y])


@pytest.mark.parametrize("options", [{"foreach": True}, {"fused": True}, {"capturable": True}], ids=str)
def test_options_that_choose_an_implementation(options: dict[str, Any]) -> None:
    x = _leaf(3)
    x.grad = tensor.ones(3)
    optimizer = nn.optim.Adam([x], lr=0.5, **options)
    optimizer.step()
    assert x.tolist() == pytest.approx([-0.5] * 3)
    assert optimizer.state_dict()["param_groups"][0] | options == optimizer.state_dict()["param_groups"][0]


def test_zero_grad(device_name: str) -> None:
    x, y = tensor.ones(3, device=device_name, requires_grad=True), _leaf(2)
    optimizer = nn.optim.SGD([x, y], lr=0.1)
    (x * x).sum().backward()
    kept = x.grad
    optimizer.zero_grad(set_to_none=False)
    assert x.grad is kept
    assert kept is not None
    assert kept.tolist() == [0, 0, 0]
    assert y.grad is None
    optimizer.zero_grad()
    assert x.grad is None
    (x * x).sum().backward(create_graph=True)
    optimizer.zero_grad(set_to_none=False)
    assert x.grad.grad_fn is None


def test_a_closure_is_called_with_gradients() -> None:
    x = tensor.tensor([3.0], requires_grad=True)
    optimizer = nn.optim.SGD([x], lr=0.25)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss

    with tensor.no_grad():
        loss = optimizer.step(closure)
    assert (loss.item(), x.item()) == (9.0, 1.5)
    assert x.is_leaf
    assert x.requires_grad


def test_hooks() -> None:
    calls: list[Any] = []
    x = _leaf(1)
    x.grad = tensor.ones(1)
    optimizer = nn.optim.SGD([x], lr=1.0)
    handles = [
        register_optimizer_step_pre_hook(lambda o, args, kwargs: calls.append(("every before", args))),
        register_optimizer_step_post_hook(lambda o, args, kwargs: calls.append(("every after", args))),
        optimizer.register_step_pre_hook(lambda o, args, kwargs: ((lambda: 7,), kwargs)),
        optimizer.register_step_post_hook(lambda o, args, kwargs: calls.append(("after", len(args)))),
    ]
    assert optimizer.step() == 7
    assert calls == [("every before", ()), ("after", 1), ("every after", calls[2][1])]
    for handle in handles:
        handle.remove()
    calls.clear()
    assert optimizer.step() is None
    assert calls == []
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="tuple of"):
        optimizer.step()


def test_hooks_of_a_derived_class_run_once() -> None:
    class Counting(nn.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    x = _leaf(1)
    x.grad = tensor.ones(1)
    optimizer, calls = Counting([x], lr=1.0), []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    optimizer.step()
    assert calls == [1]
    assert x.item() == -1


def test_hooks_of_state_dicts() -> None:
    x = _leaf(1)
    optimizer, calls = nn.optim.SGD([x], lr=1.0), []
    optimizer.register_state_dict_pre_hook(lambda o: calls.append("before"))
    optimizer.register_state_dict_post_hook(lambda o, state: state | {"more": 1})
    optimizer.register_state_dict_post_hook(lambda o, state: calls.append("first"), prepend=True)
    optimizer.register_load_state_dict_pre_hook(lambda o, state: calls.append(state["more"]))
    optimizer.register_load_state_dict_post_hook(lambda o: calls.append("after"))
    state = optimizer.state_dict()
    assert state["more"] == 1
    optimizer.load_state_dict(state)
    assert calls == ["before", "first", 1, "after"]


@pytest.mark.parity
@pytest.mark.parametrize("name", NAMES)
def test_goes_on_from_a_state_dict(device_name: str, name: str) -> None:
    options = OPTIONS[name][-1]
    shapes = ((3, 4), ())
    whole, parted = Twins(device_name, shapes), Twins(device_name, shapes)
    optimizer = getattr(nn.optim, name)(whole.ours, **options)
    first = getattr(nn.optim, name)(parted.ours, **options)
    for _ in range(3):
        for twins, each in ((whole, optimizer), (parted, first)):
            twins.set_gradients()
            each.step()
    second = getattr(nn.optim, name)(parted.ours)
    state = first.state_dict()
    second.load_state_dict(state)
    assert second.state_dict()["param_groups"] == state["param_groups"]
    for value in state["state"].values():
        for kept in value.values():
            kept.fill_(99)
    for _ in range(2):
        for twins, each in ((whole, optimizer), (parted, second)):
            twins.set_gradients()
            each.step()
    for a, b in zip(whole.ours, parted.ours, strict=True):
        assert a.tolist() == b.tolist()


def converted(value: Any, library: Any) -> Any:
    """A state dict with the tensors of another library."""
    if isinstance(value, dict):
        return {key: converted(each, library) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(converted(each, library) for each in value)
    return library.tensor(value.tolist()) if hasattr(value, "tolist") else value


@pytest.mark.parity
@pytest.mark.parametrize("name", NAMES)
def test_state_dicts_carry_over(name: str) -> None:
    """PyTorch goes on from this library's state dict, and the other way round."""
    twins = Twins("cpu")
    options = OPTIONS[name][-1]
    ours, theirs = twins.run(lambda optim, params: getattr(optim, name)(params, **options), 4)
    a, b = ours.state_dict(), theirs.state_dict()
    assert a["param_groups"] == b["param_groups"]
    assert {key: list(value) for key, value in a["state"].items()} == {
        key: list(value) for key, value in b["state"].items()
    }
    ours = getattr(nn.optim, name)(twins.ours)
    theirs_again = getattr(twins.torch.optim, name)(twins.theirs)
    ours.load_state_dict(converted(b, tensor))
    theirs_again.load_state_dict(converted(a, twins.torch))
    for _ in range(3):
        twins.set_gradients()
        ours.step()
        theirs_again.step()
    twins.assert_same(ours, theirs_again)


def test_state_dicts_of_other_groups() -> None:
    x, y = _leaf(2), _leaf(3)
    optimizer = nn.optim.Adam([x, y])
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optimizer.load_state_dict(nn.optim.Adam([{"params": [x]}, {"params": [y]}]).state_dict())
    with pytest.raises(ValueError, match="doesn't match the size"):
        optimizer.load_state_dict(nn.optim.Adam([x]).state_dict())


def test_old_state_dicts() -> None:
    """Steps were numbers, and options fewer."""
    x = _leaf(2)
    x.grad = tensor.ones(2)
    optimizer = nn.optim.AdamW([x])
    state = {"step": 3, "exp_avg": tensor.zeros(2), "exp_avg_sq": tensor.zeros(2)}
    group = {"params": [0], "lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
    optimizer.load_state_dict({"state": {0: state}, "param_groups": [group]})
    optimizer.step()
    assert optimizer.state[x]["step"].item() == 4
    assert optimizer.param_groups[0]["decoupled_weight_decay"] is True
    assert optimizer.param_groups[0]["amsgrad"] is False


def test_only_an_optimizer_s_own_numbers_stay_on_the_host(device_name: str) -> None:
    """A state of someone's own optimizer goes with its parameter, whatever it is called."""

    class Own(nn.optim.Optimizer):
        pass

    x = tensor.ones(2, device=device_name, requires_grad=True)
    optimizer = Own([x], {})
    state = {name: tensor.ones(2) for name in ("eta", "mu", "mu_product")} | {"step": tensor.tensor(1.0)}
    optimizer.load_state_dict({"state": {0: state}, "param_groups": [{"params": [0]}]})
    devices = {name: each.device.type for name, each in optimizer.state[x].items()}
    assert devices == {"eta": device_name, "mu": device_name, "mu_product": device_name, "step": "cpu"}


def test_state_goes_to_where_the_parameter_is(device_name: str) -> None:
    source = tensor.ones(2, 3, dtype=tensor.float64, requires_grad=True)
    source.grad = tensor.ones(2, 3, dtype=tensor.float64)
    first = nn.optim.Adam([source])
    first.step()
    target = tensor.ones(3, 2, device=device_name).t().requires_grad_()
    second = nn.optim.Adam([target])
    second.load_state_dict(first.state_dict())
    moment = second.state[target]["exp_avg"]
    assert (moment.dtype, moment.device, moment.stride()) == (target.dtype, target.device, target.stride())
    assert second.state[target]["step"].device.type == "cpu"
    target.grad = tensor.ones(2, 3, device=device_name)
    second.step()
    assert target.is_contiguous() is False
    assert np.allclose(target.detach().cpu().numpy(), 1 - 0.001, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_copies(name: str) -> None:
    x = tensor.ones(3, requires_grad=True)
    x.grad = tensor.ones(3)
    optimizer = getattr(nn.optim, name)([x], lr=0.1)
    optimizer.step()
    for copied in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert repr(copied) == repr(optimizer)
        y = copied.param_groups[0]["params"][0]
        assert y is not x
        y.grad = tensor.ones(3)
        copied.step()
        assert copied.state_dict()["state"].keys() == optimizer.state_dict()["state"].keys()
        assert y.tolist() != x.tolist()


def test_a_gradient_of_another_device_names_both(device_name: str) -> None:
    x = _leaf(2)
    x.grad = tensor.ones(2)
    optimizer = nn.optim.Adam([x])
    optimizer.step()
    optimizer.state[x]["exp_avg"] = tensor.zeros(3, device=device_name)
    with pytest.raises(RuntimeError, match=r"\[2\] on cpu.*\[3\] on " + device_name):
        optimizer.step()


def test_a_step_is_noticed_by_a_graph_that_needs_the_former_value() -> None:
    x = tensor.ones(3, requires_grad=True)
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    nn.optim.SGD([x], lr=0.1).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_nothing_to_do() -> None:
    optimizer = nn.optim.Adam([_leaf(2), _leaf(*SHAPES[2])])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
    assert optimizer.state_dict()["state"] == {}


@pytest.mark.parity
def test_parameters_of_views_and_other_orders(device_name: str) -> None:
    """Parameters with gaps, and gradients in another order of dimensions than theirs."""
    twins = Twins(device_name, ((4, 6), (5, 3)))
    twins.ours = [
        twins.ours[0].detach()[:, ::2].requires_grad_(),
        twins.ours[1].detach().t().requires_grad_(),
    ]
    twins.theirs = [
        twins.theirs[0].detach()[:, ::2].requires_grad_(),
        twins.theirs[1].detach().t().requires_grad_(),
    ]
    twins.assert_same(*twins.run(lambda optim, params: optim.Adam(params, lr=0.1), 3))
    assert_close(twins.ours[0]._base, twins.theirs[0]._base, 1e-5, 1e-5)


@pytest.mark.parity
@pytest.mark.parametrize("name", ["SGD", "Adam"])
@pytest.mark.filterwarnings("ignore:.*duplicate parameters")
def test_a_parameter_that_is_listed_twice(device_name: str, name: str) -> None:
    twins = Twins(device_name, ((5,), (3,)))
    twins.assert_same(*twins.run(lambda optim, p: getattr(optim, name)([p[0], p[1], p[0]], lr=0.1), 3))


@pytest.mark.parametrize("name", [*NAMES, "Adafactor", "LBFGS"])
def test_a_layer_learns(name: str) -> None:
    random = np.random.default_rng(0)
    x = tensor.tensor(random.standard_normal((64, 5)), dtype=tensor.float32)
    y = x @ tensor.tensor(random.standard_normal((5, 2)), dtype=tensor.float32) + 1.0
    tensor.manual_seed(0)
    layer = nn.Linear(5, 2)
    rates = {"Adadelta": 8.0, "LBFGS": 0.5, "Adagrad": 0.5, "RMSprop": 0.02}
    optimizer = getattr(nn.optim, name)(layer.parameters(), lr=rates.get(name, 0.1))

    def closure() -> Any:
        optimizer.zero_grad()
        loss = ((layer(x) - y) ** 2).mean()
        loss.backward()
        return loss

    first = closure().item()
    for _ in range(150 if name != "LBFGS" else 5):
        optimizer.step(closure)
    assert closure().item() < first / 100


@pytest.mark.simulator_only
def test_many_steps_with_flat_memory() -> None:
    drv.simulator.install()
    x = tensor.ones(300, device="cuda", requires_grad=True)
    optimizer = nn.optim.Adam([x])
    used = []
    for number in range(200):
        optimizer.zero_grad()
        (x * x).sum().backward()
        optimizer.step()
        if number in (10, 199):
            used.append(tensor.cuda.memory_allocated())
    assert used[0] == used[1]
