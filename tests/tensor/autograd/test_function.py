"""``autograd.Function``: operations with derivatives that users write."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import drv
import tensor
from tensor import no_grad
from tensor.autograd import Function, grad
from tensor.autograd.function import once_differentiable


class Scale(Function):
    """``x * factor``, by a number."""

    @staticmethod
    def forward(ctx: Any, x: Any, factor: float = 2.0) -> Any:
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * ctx.factor, None


class Power(Function):
    """``x ** 3`` with its derivative by differentiable operations, in the separate style."""

    @staticmethod
    def forward(x: Any, exponent: int = 3) -> Any:
        return x**exponent

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, exponent = inputs
        ctx.exponent = exponent
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * ctx.exponent * x ** (ctx.exponent - 1), None


def leaf(*values: float) -> Any:
    return tensor.tensor(values, dtype=tensor.float64, requires_grad=True)


def ones_like(x: Any) -> Any:
    return tensor.ones(x.shape, dtype=x.dtype, device=x.device)


@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_gradients_and_names(device: drv.Device, where: str) -> None:
    x = tensor.tensor([1.0, 2.0], device=where, requires_grad=True)
    y = Scale.apply(x, 3.0)
    assert y.grad_fn.name() == type(y.grad_fn).__name__ == "ScaleBackward"
    assert repr(y.grad_fn).startswith("<tensor.autograd.function.ScaleBackward object at 0x")
    assert "grad_fn=<ScaleBackward>" in repr(y)
    assert "grad_fn=<ScaleBackward>" in repr(y)
    assert y.grad_fn.factor == 3.0
    assert [node.name() for node, _ in y.grad_fn.next_functions[:1]] == ["AccumulateGrad"]
    y.backward(ones_like(y))
    assert x.grad.tolist() == [3, 3]


def test_arguments_by_name_and_defaults() -> None:
    x = leaf(1, 2)
    assert Scale.apply(x, factor=5.0).tolist() == [5, 10]
    assert Power.apply(x).tolist() == [1, 8]
    assert Power.apply(x, exponent=2).tolist() == [1, 4]
    assert Power.apply(exponent=2, x=x).tolist() == [1, 4]


def test_second_derivatives_go_through_backward() -> None:
    x = leaf(1, 2)
    (first,) = grad(Power.apply(x), x, ones_like(x), create_graph=True)
    assert first.tolist() == [3, 12]
    (second,) = grad(first, x, ones_like(x), create_graph=True)
    assert second.tolist() == [6, 12]
    (third,) = grad(second, x, ones_like(x))
    assert third.tolist() == [6, 6]


def test_forward_is_not_recorded_and_backward_only_where_asked() -> None:
    modes = []

    class Watching(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            modes.append(tensor.is_grad_enabled())
            assert (x * 2).grad_fn is None
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            modes.append(tensor.is_grad_enabled())
            return grad

    x = leaf(1)
    Watching.apply(x).backward()
    grad(Watching.apply(x), x, create_graph=True)
    assert modes == [False, False, False, True]
    with no_grad():
        assert not Watching.apply(x).requires_grad
    assert not Watching.apply(x.detach()).requires_grad


def test_needs_input_grad() -> None:
    class Product(Function):
        @staticmethod
        def forward(ctx: Any, a: Any, number: int, b: Any) -> Any:
            assert ctx.needs_input_grad == (True, False, False)
            return a * b * number

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            assert ctx.needs_input_grad == (True, False, False)
            return grad * 2, None, grad * 3

    a, b = leaf(1), leaf(1).detach()
    Product.apply(a, 4, b).backward()
    assert a.grad.tolist() == [2]
    assert b.grad is None


class Two(Function):
    """Two outputs, and something that is no tensor."""

    seen: Any = None

    @staticmethod
    def forward(ctx: Any, x: Any, materialize: bool) -> Any:
        ctx.set_materialize_grads(materialize)
        return x + 1, "text", x + 2

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        Two.seen = [None if each is None else each.tolist() for each in grads]
        return grads[2] * 10, None


@pytest.mark.parametrize(("materialize", "missing"), [(True, [0, 0]), (False, None)])
def test_several_outputs(materialize: bool, missing: Any) -> None:
    x = leaf(1, 2)
    first, text, second = Two.apply(x, materialize)
    assert text == "text"
    assert (first.output_nr, second.output_nr) == (0, 2)
    assert first.grad_fn is second.grad_fn
    second.backward(ones_like(second))
    assert Two.seen == [missing, None, [1, 1]]
    assert x.grad.tolist() == [10, 10]


def test_outputs_without_derivative() -> None:
    class Largest(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y, mask, whole = x * 2, x > 1, x.to(tensor.int64)
            ctx.mark_non_differentiable(mask)
            return y, mask, whole

        @staticmethod
        def backward(ctx: Any, grad: Any, _: Any, __: Any) -> Any:
            return grad * 2

    x = leaf(1, 2)
    y, mask, whole = Largest.apply(x)
    assert y.requires_grad
    assert not mask.requires_grad
    assert not whole.requires_grad
    y.backward(ones_like(y))
    assert x.grad.tolist() == [2, 2]


class Double(Function):
    """Doubles in place."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2


def test_in_place() -> None:
    x = leaf(1, 2)
    y = x.clone()
    before = y._version
    z = Double.apply(y)
    assert z is y
    assert y._version > before
    assert y.grad_fn.name() == "DoubleBackward"
    y.backward(ones_like(y))
    assert x.grad.tolist() == [2, 2]


def test_in_place_through_a_view() -> None:
    x = leaf(1, 2, 3)
    whole = x.clone()
    part = whole[1:]
    Double.apply(part)
    assert whole.tolist() == [1, 4, 6]
    assert whole.grad_fn.name() == "CopySlices"
    whole.backward(ones_like(whole))
    assert x.grad.tolist() == [1, 2, 2]


def test_in_place_on_leaves_and_wrong_marks() -> None:
    class Forgets(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        Double.apply(leaf(1))
    with pytest.raises(RuntimeError, match="marked as dirty during the forward method were not returned"):
        Forgets.apply(leaf(1).clone())
    assert Double.apply(leaf(1).detach()).tolist() == [2]


def test_an_input_that_is_returned_becomes_a_view() -> None:
    class Same(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 7

    x = leaf(1)
    y = Same.apply(x)
    assert y is not x
    assert y.data_ptr() == x.data_ptr()
    y.backward()
    assert x.grad.tolist() == [7]
    with pytest.raises(RuntimeError, match="created inside a custom Function"):
        Same.apply(x.clone()).mul_(2)


def test_views_of_inputs_refuse_writes() -> None:
    class Part(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x[1:]

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return tensor.zeros(3, dtype=grad.dtype)

    y = Part.apply(leaf(1, 2, 3).clone())
    with pytest.raises(RuntimeError, match=r"Output 0 of PartBackward is a view .* cloning the output"):
        y.add_(1)
    assert y.tolist() == [2, 3]
    with no_grad():
        y.add_(1)


def test_saved_tensors_are_checked_and_freed() -> None:
    x = leaf(1, 2)
    y = x * 1
    z = Power.apply(y)
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"is at version 1; expected version 0 .*PowerBackward"):
        z.backward(ones_like(z))
    z = Power.apply(x)
    z.backward(ones_like(z))
    with pytest.raises(RuntimeError, match="second time"):
        z.backward(ones_like(z))
    with pytest.raises(RuntimeError, match="second time"):
        z.grad_fn.saved_tensors  # noqa: B018
    with pytest.raises(TypeError, match=r"save_for_backward .* argument 1 is of type int"):
        type("Bad", (Function,), {"forward": staticmethod(lambda ctx, x: ctx.save_for_backward(x, 1))}).apply(
            x
        )


def returning(result: Any) -> type[Function]:
    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, number: int) -> Any:
            return x * number

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return result(grad)

    return Wrong


@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        (
            lambda grad: grad,
            RuntimeError,
            r"function WrongBackward returned an incorrect number of gradients \(expected 2, got 1\)",
        ),
        (lambda grad: (grad, None, grad), RuntimeError, r"expected 2, got 3"),
        (lambda grad: (grad, grad), RuntimeError, "different from None at position 2"),
        (
            lambda grad: (1.0, None),
            TypeError,
            r"WrongBackward returned a gradient of type float at position 1",
        ),
        (
            lambda grad: (tensor.zeros(2, dtype=tensor.float64), None),
            RuntimeError,
            r"WrongBackward returned an invalid gradient at index 0 - got \[2\] but expected shape compatible with \[3\]",
        ),
    ],
)
def test_wrong_gradients_name_the_function(result: Any, error: type[Exception], message: str) -> None:
    x = leaf(1, 2, 3)
    y = returning(result).apply(x, 2)
    with pytest.raises(error, match=message):
        y.backward(ones_like(y))
    assert x.grad is None


def test_more_nones_than_arguments() -> None:
    x = leaf(1)
    returning(lambda grad: (grad, None, None, None)).apply(x, 2).backward()
    assert x.grad.tolist() == [1]


def test_gradients_of_another_type_are_converted() -> None:
    x = tensor.ones(2, requires_grad=True)
    y = returning(lambda grad: (grad.to(tensor.float64), None)).apply(x, 2)
    y.backward(ones_like(y))
    assert x.grad.dtype is tensor.float32


def test_wrong_device_of_a_gradient(device: drv.Device) -> None:
    x = tensor.ones(2, requires_grad=True)
    y = returning(lambda grad: (grad.cuda(), None)).apply(x, 2)
    with pytest.raises(RuntimeError, match=r"WrongBackward .* index 0 - expected device cpu but got cuda:0"):
        y.backward(ones_like(y))


def test_once_differentiable() -> None:
    class Once(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, grad: Any) -> Any:
            assert not tensor.is_grad_enabled()
            (x,) = ctx.saved_tensors
            return grad * 2 * x

    x = leaf(3)
    Once.apply(x).backward()
    assert x.grad.tolist() == [6]
    weight = leaf(1)
    (first,) = grad(Once.apply(x * weight), x, create_graph=True)
    assert first.requires_grad
    (first,) = grad(Once.apply(x), x, weight, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.backward()


def test_unfinished_functions() -> None:
    class Nothing(Function):
        pass

    class NoBackward(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

    class Both(NoBackward):
        backward = staticmethod(lambda ctx, grad: grad)
        vjp = staticmethod(lambda ctx, grad: grad)

    class Vjp(NoBackward):
        vjp = staticmethod(lambda ctx, grad: grad * 3)

    x = leaf(1)
    with pytest.raises(NotImplementedError, match="must implement the forward"):
        Nothing.apply(x)
    with pytest.raises(NotImplementedError, match="must implement either the backward or vjp"):
        NoBackward.apply(x).backward()
    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        Both.apply(x).backward()
    with pytest.raises(RuntimeError, match="should not be instantiated"):
        Vjp()
    Vjp.apply(x).backward()
    assert x.grad.tolist() == [3]


def test_an_output_that_is_saved_makes_no_cycle() -> None:
    class Exp(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (y,) = ctx.saved_tensors
            assert y.grad_fn is not None
            return grad * y

    x = leaf(0)
    gc.disable()
    try:
        y = Exp.apply(x)
        died = [weakref.ref(y), weakref.ref(y.grad_fn)]
        (second,) = grad(*grad(y, x, create_graph=True)[:1], x)
        assert second.tolist() == [1]
        del y
        assert [each() for each in died] == [None, None]
    finally:
        gc.enable()


def test_backward_inside_backward() -> None:
    class Nested(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, depth: int) -> Any:
            ctx.depth = depth
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            if not ctx.depth:
                return grad * 2, None
            with tensor.enable_grad():
                inner = x.detach().requires_grad_()
                Nested.apply(inner, ctx.depth - 1).backward(grad)
            return inner.grad, None

    x = leaf(1)
    # Deeper than Python's stack.
    Nested.apply(x, 300).backward()
    assert x.grad.tolist() == [2]


@pytest.mark.parity
@pytest.mark.parametrize("in_place", [False, True])
def test_as_pytorch(in_place: bool) -> None:
    torch = pytest.importorskip("torch")

    def program(lib: Any) -> list[Any]:
        class Cube(lib.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any, y: Any) -> Any:
                ctx.save_for_backward(x.clone(), y)
                if in_place:
                    ctx.mark_dirty(x)
                    return x.mul_(x).mul_(x).mul_(y), x * 0
                return x * x * x * y, y * 1

            @staticmethod
            def backward(ctx: Any, grad: Any, other: Any) -> Any:
                x, y = ctx.saved_tensors
                return grad * 3 * x * x * y, grad * x * x * x + other * 0

        x = lib.tensor([1.0, 2.0], dtype=lib.float64, requires_grad=True)
        y = lib.tensor([3.0, 4.0], dtype=lib.float64, requires_grad=True)
        out = Cube.apply(x * 1, y)[0]
        first = lib.autograd.grad(out, (x, y), lib.ones(2, dtype=lib.float64), create_graph=True)
        (first[0] * first[1]).backward(lib.ones(2, dtype=lib.float64))
        return [each if each is None else each.tolist() for each in (out, *first, x.grad, y.grad)]

    assert program(tensor) == program(torch)
