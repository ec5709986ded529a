"""Views that are made together have one node, which writes their gradients side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drv
import nn
import tensor
from tests.tensor.driver_calls import Calls, counted

_DIVISIONS: dict[str, tuple[str, Any]] = {
    "split": ("SplitBackward0", lambda x: x.split(2, 1)),
    "sizes": ("SplitWithSizesBackward0", lambda x: x.split([1, 3, 2], 1)),
    "unbind": ("UnbindBackward0", lambda x: x.unbind(1)),
    "chunk": ("SplitBackward0", lambda x: x.chunk(3, 1)),
}


def _source() -> Any:
    return tensor.arange(24.0).reshape(4, 6).requires_grad_()


@pytest.mark.parametrize("name", _DIVISIONS)
def test_all_have_one_node(name: str) -> None:
    node, division = _DIVISIONS[name]
    parts = division(_source() * 1)
    assert parts[0].grad_fn.name() == node
    assert all(part.grad_fn is parts[0].grad_fn for part in parts)
    assert [part.output_nr for part in parts] == list(range(len(parts)))


@pytest.mark.parametrize("used", ["all", "one", "each twice"])
@pytest.mark.parametrize("name", _DIVISIONS)
def test_gradients_of_first_and_second_order(name: str, used: str) -> None:
    division = _DIVISIONS[name][1]
    x = _source()
    parts = division(x * 1)
    chosen = {"all": parts, "one": parts[1:2], "each twice": parts + parts}[used]
    total = sum((i + 1) * part.pow(3).sum() for i, part in enumerate(chosen))
    (first,) = tensor.autograd.grad(total, x, create_graph=True)
    (second,) = tensor.autograd.grad(first.sum(), x)

    factors = np.zeros((4, 6))
    with tensor.no_grad():
        where = division(tensor.arange(24).reshape(4, 6))
    numbers = {"all": where, "one": where[1:2], "each twice": where + where}[used]
    for i, part in enumerate(numbers):
        factors.reshape(-1)[part.numpy().reshape(-1)] += i + 1
    values = x.detach().numpy()
    np.testing.assert_allclose(first.detach().numpy(), 3 * factors * values**2)
    np.testing.assert_allclose(second.numpy(), 6 * factors * values)


def test_a_part_that_is_written_has_the_history_of_its_base() -> None:
    x = _source()
    whole = x * 1
    first, second, third = whole.split(2, 1)
    second.mul_(10)
    (first.sum() + second.sum() + 2 * third.sum() + whole.sum()).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[2, 2, 20, 20, 3, 3]] * 4)


def test_parts_of_leaves_and_of_what_is_not_recorded() -> None:
    x = _source()
    with pytest.raises(RuntimeError, match="view of a leaf Variable"):
        x.split(2, 1)[0].mul_(2)
    with tensor.no_grad():
        part = x.unbind(0)[0]
    assert part._base is x and not part.requires_grad
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        part.mul_(2)
    assert tensor.empty(0, 3, requires_grad=True).unbind(0) == ()
    assert not any(part.requires_grad for part in tensor.arange(4).split(2))


def test_hooks_see_the_gradient_of_each_part() -> None:
    seen: dict[int, list[float]] = {}
    parts = (_source() * 1).unbind(1)
    for i in (0, 3):
        parts[i].register_hook(lambda grad, i=i: seen.__setitem__(i, grad.tolist()))
    parts[2].retain_grad()
    sum((i * part).sum() for i, part in enumerate(parts)).backward()
    assert seen == {0: [0.0] * 4, 3: [3.0] * 4} and parts[2].grad.tolist() == [2.0] * 4


def _backward(loss: Any) -> Calls:
    with counted() as calls:
        loss.backward()
    return calls


def test_a_device_makes_a_copy_for_each_part_and_no_fill() -> None:
    drv.simulator.install(check="race")
    x = tensor.ones(4, 96, device="cuda", requires_grad=True)
    assert x.split(32, 1)[0].grad_fn.name() == "SplitBackward0"
    calls = _backward(sum(part.sum() for part in (x * 1).split(32, 1)))
    # The sums' gradients are views. What is counted: fills are not.
    assert not {name for name in calls if name.startswith("cuMemset")}
    np.testing.assert_array_equal(x.grad.cpu().numpy(), np.ones((4, 96)))


def test_gradients_of_weights_are_handed_on_without_copies() -> None:
    drv.simulator.install(check="race")
    norm = nn.LayerNorm(64).cuda()
    calls = _backward(norm(tensor.ones(8, 64, device="cuda")).sum())
    assert not {name for name in calls if name.startswith("cuMemcpy")}
    assert norm.weight.grad._base is None and norm.weight.grad.data_ptr() != norm.bias.grad.data_ptr()
