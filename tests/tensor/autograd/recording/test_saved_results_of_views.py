"""Operations in place on views that keep their result for the derivative: the history of what they kept is the view's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import tensor
from nn import functional
from tensor.autograd import Function, gradcheck, gradgradcheck
from tensor.autograd.graph import saved_tensors_hooks
from tests.tensor.comparison import array_of

if TYPE_CHECKING:
    from collections.abc import Callable

VALUES = [[0.5, 0.7, 0.3], [0.2, 0.9, 0.4]]

#: Operations whose derivatives need the result.
WRITES: dict[str, Callable[[Any], Any]] = {
    name: lambda x, name=name: getattr(x, name)()
    for name in ("exp_", "exp2_", "expm1_", "sigmoid_", "sqrt_", "rsqrt_", "tanh_", "reciprocal_")
} | {"after another": lambda x: x.div_(2).exp_()}
VIEWS: dict[str, Callable[[Any], Any]] = {
    "row": lambda y: y[0],
    "column": lambda y: y[:, 1],
    "nested": lambda y: y.t()[1:][0],
    "all": lambda y: y.view(-1),
    "steps": lambda y: y.view(-1)[::2],
    "diagonal": lambda y: y.diagonal(),
}


def written(write: Callable[[Any], Any], view: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of a tensor that writes to a view of a copy."""

    def function(x: Any) -> Any:
        y = x * 1
        write(view(y))
        return y

    return function


def derivatives(
    library: Any, function: Callable[[Any], Any], x: Any, retain_graph: bool | None = None
) -> list[Any]:
    """Gradients up to the third; by default the last pass frees the graph."""
    result = function(x)
    gradients = []
    for order in range(3):
        total = (result * result).sum()
        (result,) = library.autograd.grad(total, x, None, retain_graph, create_graph=order < 2)
        gradients.append(result.detach())
    return gradients


#: Every operation with one view, and every view with one operation.
PAIRS = [(write, "row") for write in WRITES] + [("exp_", view) for view in VIEWS if view != "row"]


@pytest.mark.parametrize(("write", "view"), PAIRS)
@pytest.mark.sampled(4)
def test_second_derivatives(write: str, view: str, device_name: str) -> None:
    x = tensor.tensor(VALUES, dtype=tensor.float64, device=device_name, requires_grad=True)
    function = written(WRITES[write], VIEWS[view])
    assert gradgradcheck(function, (x,))
    freed, kept = (derivatives(tensor, function, x, retain_graph=each) for each in (None, True))
    for actual, expected in zip(freed, kept, strict=True):
        assert array_of(actual).tolist() == array_of(expected).tolist()


@pytest.mark.parity
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("write", WRITES)
def test_as_pytorch(write: str, view: str) -> None:
    torch = pytest.importorskip("torch")
    function = written(WRITES[write], VIEWS[view])
    mine, theirs = (
        derivatives(each, function, each.tensor(VALUES, dtype=each.float64, requires_grad=True))
        for each in (tensor, torch)
    )
    for actual, expected in zip(mine, theirs, strict=True):
        assert array_of(actual) == pytest.approx(expected.numpy(), rel=1e-9, abs=1e-9)


def test_real_views_of_complex_numbers(device_name: str) -> None:
    x = tensor.tensor(VALUES, dtype=tensor.float64, device=device_name, requires_grad=True)

    def function(x: Any) -> Any:
        y = x * (1 + 2j)
        tensor.view_as_real(y)[0].exp_()
        return tensor.view_as_real(y)

    assert gradcheck(function, (x,))
    assert gradgradcheck(function, (x,))


def test_a_result_that_hooks_packed() -> None:
    x = tensor.tensor(VALUES, dtype=tensor.float64, requires_grad=True)

    def function(x: Any) -> Any:
        with saved_tensors_hooks(lambda saved: saved.clone(), lambda saved: saved.clone()):
            return written(WRITES["exp_"], VIEWS["nested"])(x)

    assert gradgradcheck(function, (x,))


class Exponential(Function):
    """Written by hand, in place."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x.exp_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (result,) = ctx.saved_tensors
        return grad * result


def test_a_function_of_the_users() -> None:
    x = tensor.tensor(VALUES, dtype=tensor.float64, requires_grad=True)
    assert gradgradcheck(written(Exponential.apply, VIEWS["row"]), (x,))


@pytest.mark.parametrize("name", ["relu_", "elu_", "leaky_relu_", "selu_", "celu_", "threshold_"])
def test_activations(name: str) -> None:
    x = tensor.tensor(VALUES, dtype=tensor.float64, requires_grad=True)
    arguments = {"threshold_": (0.1, 0.0)}.get(name, ())
    function = written(lambda view: getattr(functional, name)(view, *arguments), VIEWS["row"])
    assert gradgradcheck(function, (x,))


def test_the_kept_result_has_the_history_of_the_view_and_its_node_is_freed_once() -> None:
    x = tensor.tensor(VALUES, requires_grad=True)
    y = x * 1
    row = y[0]
    row.exp_()
    (first,) = tensor.autograd.grad(y.sum(), x, create_graph=True)
    names, waiting = [], [first.grad_fn]
    while waiting:
        node = waiting.pop()
        names.append(node.name())
        waiting += [each for each, _ in node.next_functions if each is not None]
    assert "CopySlices" in names
    assert "ExpBackward0" not in names
    first.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.sum().backward()
