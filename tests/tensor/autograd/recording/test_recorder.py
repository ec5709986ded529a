"""The recorder: derivatives that name what they need, formulas, and computing without recording."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import tensor
from tensor.autograd.graph import saved_tensors_hooks
from tensor.autograd.recording.inplace import record_in_place
from tensor.autograd.recording.recorder import BackwardFormula, Composition, Derivative
from tensor.core.modes.grad_mode import modes, recording, unrecorded


def leaf(*values: float) -> tensor.Tensor:
    return tensor.tensor(list(values), dtype=tensor.float64, requires_grad=True)


def product(formula: BackwardFormula, a: Any, b: Any, *context: Any) -> tensor.Tensor:
    with unrecorded():
        result = a * b
    formula.record((result,), (a, b), (), context)
    return result


MUL = BackwardFormula(
    "MulBackward0", "a b", [Derivative(lambda grad, other: grad * other, needs="b"), lambda grad, a: grad * a]
)


def packed(function: Any) -> list[tensor.Tensor]:
    """What ``function`` saves."""
    kept: list[tensor.Tensor] = []

    def pack(x: tensor.Tensor) -> tensor.Tensor:
        kept.append(x)
        return x

    with saved_tensors_hooks(pack, lambda x: x):
        function()
    return kept


def test_derivatives_name_what_they_need_in_words_or_by_their_parameters() -> None:
    assert Derivative(lambda grad, a, out: grad, needs="out a").needs == ("out", "a")
    assert Derivative(lambda grad, a, out: grad).needs == ("a", "out")
    assert Derivative(lambda grad, size: grad, needs="").needs == ()


def test_a_recorded_operation_has_gradients_of_any_order() -> None:
    a, b = leaf(2.0, 3.0), leaf(5.0, 7.0)
    result = product(MUL, a, b)
    assert result.grad_fn.name() == "MulBackward0"
    assert [node.name() for node, _ in result.grad_fn.next_functions] == ["AccumulateGrad", "AccumulateGrad"]
    first = tensor.autograd.grad(result.sum(), (a, b), create_graph=True)
    assert [x.tolist() for x in first] == [[5.0, 7.0], [2.0, 3.0]]
    (second,) = tensor.autograd.grad(first[0].sum(), b)
    assert second.tolist() == [1.0, 1.0]


def test_only_what_the_gradients_asked_for_need_is_saved() -> None:
    a, b, plain = leaf(2.0), leaf(5.0), tensor.tensor([7.0], dtype=tensor.float64)
    assert [x.tolist() for x in packed(lambda: product(MUL, a, plain))] == [[7.0]]
    assert [x.tolist() for x in packed(lambda: product(MUL, plain, b))] == [[7.0]]
    assert [x.tolist() for x in packed(lambda: product(MUL, a, b))] == [[2.0], [5.0]]
    assert packed(lambda: product(MUL, plain, plain)) == []


def test_one_function_for_all_gradients_gets_none_for_what_is_not_needed() -> None:
    seen: list[Any] = []

    def gradients(mask: Any, grad: Any, b: Any, a: Any) -> Any:
        seen.append((mask, b is None, a is None))
        return grad * b if mask[0] else None, grad * a if mask[1] else None

    formula = BackwardFormula("MulBackward0", "a b", joint=Derivative(gradients, needs=("b", "a")))
    a, b = leaf(2.0), tensor.tensor([5.0], dtype=tensor.float64)
    product(formula, a, b).sum().backward()
    assert a.grad is not None
    assert a.grad.tolist() == [5.0]
    assert seen == [((True, False), False, True)]


def test_outputs_and_other_values_are_saved_by_name() -> None:
    x, weight = leaf(0.0, 1.0), tensor.tensor([2.0, 3.0], dtype=tensor.float64)
    formula = BackwardFormula(
        "ExpBackward0",
        "x weight",
        [Derivative(lambda grad, out, weight: grad * out * weight, needs="out weight")],
    )
    with unrecorded():
        result = x.exp()
    formula.record((result,), (x,), (weight,))
    result.sum().backward()
    assert x.grad is not None
    assert tensor.allclose(x.grad, x.detach().exp() * weight)
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        result.sum().backward()


def test_a_saved_value_that_was_written_since_is_an_error() -> None:
    a, b = leaf(2.0), tensor.tensor([5.0], dtype=tensor.float64)
    result = product(MUL, a, b)
    b.add_(1)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*needed by MulBackward0"):
        result.sum().backward()


def test_integer_outputs_have_no_history() -> None:
    x = leaf(3.0, 1.0)
    formula = BackwardFormula(
        "SortBackward0", "x", [lambda grad, indices: grad[indices]], outputs="values indices"
    )
    with unrecorded():
        values, indices = x.sort()
    formula.record((values, indices), (x,))
    assert values.requires_grad
    assert not indices.requires_grad
    assert packed(lambda: formula.record((indices,), (x,))) == []


def test_an_operation_that_wrote_a_tensor() -> None:
    doubled = BackwardFormula("DoubleBackward0", "x", [Derivative(lambda grad: grad * 2)])
    x = leaf(1.0, 2.0)
    y = x.clone()
    with unrecorded():
        y.mul_(2)
    record_in_place(doubled, y, (y,))
    assert y.grad_fn.name() == "DoubleBackward0"
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_composition_gives_the_derivatives_of_higher_order() -> None:
    passes: list[str] = []

    def by_hand(mask: Any, grad: Any, x: Any, power: int) -> Any:
        passes.append("by hand")
        with unrecorded():
            return grad * power * x ** (power - 1)

    def composed(x: Any, power: int) -> Any:
        passes.append("composed")
        return x**power

    formula = BackwardFormula(
        "CubeBackward0",
        "x",
        joint=Derivative(by_hand, needs="x"),
        composition=Composition(composed, needs="x"),
    )

    def cube(x: Any) -> Any:
        with unrecorded():
            result = x * x * x
        formula.record((result,), (x,), (), (3,))
        return result

    x = leaf(2.0)
    (first,) = tensor.autograd.grad(cube(x).sum(), x)
    assert (first.tolist(), passes) == ([12.0], ["by hand"])
    (first,) = tensor.autograd.grad(cube(x).sum(), x, create_graph=True)
    assert passes == ["by hand", "composed"]
    (second,) = tensor.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = tensor.autograd.grad(second.sum(), x)
    assert [each.tolist() for each in (first, second, third)] == [[12.0], [12.0], [6.0]]


def test_a_composition_does_without_the_value_of_what_is_only_added() -> None:
    def by_hand(mask: Any, grad: Any, x: Any) -> Any:
        raise AssertionError("the pass is recorded")

    formula = BackwardFormula(
        "SquareBackward0",
        "x bias",
        joint=Derivative(by_hand, needs="x"),
        composition=Composition(lambda x, bias: x * x if bias is None else x * x + bias, needs="x bias"),
    )
    for requires_grad in (True, False):
        x, bias = leaf(2.0, 3.0), tensor.tensor([1.0], dtype=tensor.float64, requires_grad=requires_grad)
        with unrecorded():
            result = x * x + bias
        formula.record((result,), (x, bias))
        with tensor.no_grad():
            # It was not saved.
            bias.add_(1)
        inputs = (x, bias) if requires_grad else (x,)
        first = tensor.autograd.grad(result.sum(), inputs, create_graph=True)
        assert [each.tolist() for each in first] == [[4.0, 6.0], [2.0]][: len(inputs)]
        (second,) = tensor.autograd.grad(first[0].sum(), x)
        assert second.tolist() == [2.0, 2.0]


def test_a_number_of_inputs_that_is_open() -> None:
    formula = BackwardFormula(
        "TotalBackward0",
        "",
        joint=Derivative(lambda mask, grad: tuple(grad if asked else None for asked in mask), needs=""),
    )
    inputs = [leaf(1.0), tensor.tensor([2.0], dtype=tensor.float64), leaf(4.0)]
    with unrecorded():
        result = inputs[0] + inputs[1] + inputs[2]
    formula.record((result,), inputs)
    result.sum().backward()
    assert [None if x.grad is None else x.grad.tolist() for x in inputs] == [[1.0], None, [1.0]]


def test_unrecorded_holds_inside_with_in_this_thread_and_ends_with_an_error() -> None:
    other: list[bool] = []
    with unrecorded():
        assert not modes.recording
        with unrecorded():
            pass
        assert not modes.recording
        thread = threading.Thread(target=lambda: other.append(modes.recording))
        thread.start()
        thread.join()
        with recording():
            assert modes.recording
        assert not modes.recording
    assert modes.recording
    assert other == [True]
    with pytest.raises(ValueError, match="inside"), unrecorded():
        raise ValueError("inside")
    assert modes.recording
