"""Functions whose saved tensors are made again: when they run, what they may do, and what is wrong."""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest

import drv
from tensor.autograd import Function, grad
from tensor.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from tensor.utils.checkpoint import CheckpointError, checkpoint, set_checkpoint_early_stop

from .functions import Counted, leaf, plainly, wave

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def test_keywords() -> None:
    x = leaf(1, 2)
    checkpoint(lambda x, *, factor: (x * factor).exp(), x, factor=2).sum().backward()
    assert x.grad.tolist() == pytest.approx((2 * (2 * x.detach()).exp()).tolist())


def test_gradients_of_chosen_inputs() -> None:
    x, w = leaf(1, 2, 3), leaf(0.5, -1, 2)
    (result,) = grad(checkpoint(wave, x, w).sum(), w)
    (expected,) = grad(wave(x, w).sum(), w)
    assert result.tolist() == expected.tolist()


def test_tensors_that_are_no_arguments() -> None:
    x, w = leaf(1, 2, 3), leaf(0.5, -1, 2)
    checkpoint(lambda: wave(x, w)).sum().backward()
    assert w.grad.tolist() == grad(wave(x, w).sum(), w)[0].tolist()


def test_second_derivatives() -> None:
    def program(call: Callable[..., Any]) -> list[Any]:
        x, w = leaf(1, 2, 3), leaf(0.5, -1, 2)
        out = call(wave, x * 1, w)
        first = grad((out * out).sum(), (x, w), create_graph=True)
        (first[0] * first[1]).sum().backward()
        return [x.grad.tolist(), w.grad.tolist()]

    assert program(checkpoint) == program(plainly)


def test_the_function_is_left_early() -> None:
    def function(x: Any) -> Any:
        return x.exp() + 1

    for enable, finished in ((None, 1), (True, 1), (False, 2)):
        counted = Counted(function)
        with contextlib.nullcontext() if enable is None else set_checkpoint_early_stop(enable):
            y = checkpoint(counted, leaf(1))
        y.backward()
        assert (counted.calls, counted.finished) == (2, finished)
    counted = Counted(function)
    checkpoint(counted, leaf(1), early_stop=False).backward()
    assert counted.finished == 2


def test_leaving_early_passes_through_handlers() -> None:
    def function(x: Any) -> Any:
        try:
            return x.exp()
        except Exception:
            return None

    x = leaf(1)
    checkpoint(function, x).backward()
    assert x.grad.tolist() == x.exp().tolist()


def test_each_pass_runs_it_again_once() -> None:
    counted = Counted(wave)
    x, w = leaf(1, 2, 3), leaf(0.5, -1, 2)
    loss = checkpoint(counted, x, w).sum()
    loss.backward(retain_graph=True)
    first = x.grad.tolist()
    x.grad = None
    loss.backward()
    assert x.grad.tolist() == first
    assert counted.calls == 3
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


def test_saved_tensors_may_be_asked_for_twice_and_outside_of_a_pass() -> None:
    class Cube(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            (again,) = ctx.saved_tensors
            return 3 * x * again * g

    counted = Counted(lambda x: Cube.apply(x * 1))
    x = leaf(1, 2)
    y = checkpoint(counted, x)
    assert y.grad_fn.saved_tensors[0].tolist() == [1, 2]
    assert counted.calls == 2
    y.sum().backward()
    assert x.grad.tolist() == [3, 12]


def test_what_was_made_again_is_freed_as_it_is_used() -> None:
    alive: list[weakref.ref[Any]] = []
    most: list[int] = []

    class Watched(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x + 1
            ctx.save_for_backward(y)
            alive.append(weakref.ref(y._storage))
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            gc.collect()
            most.append(sum(each() is not None for each in alive))
            return g * ctx.saved_tensors[0].sign()

    def function(x: Any) -> Any:
        for _ in range(4):
            x = Watched.apply(x)
        return x * 1

    x = leaf(1)
    y = checkpoint(function, x)
    gc.collect()
    assert sum(each() is not None for each in alive) == 0
    y.backward()
    # Before the first derivative nothing had been made again; then all four, of which each is freed after use.
    assert most == [0, 3, 2, 1]
    gc.collect()
    assert sum(each() is not None for each in alive) == 0


def test_no_cycles() -> None:
    gc.disable()
    try:
        x = leaf(1)
        y = checkpoint(lambda x: checkpoint(lambda x: x.exp().sin(), x).cos(), x * 1)
        died = weakref.ref(y.grad_fn)
        y.backward()
        del y
        assert died() is None
    finally:
        gc.enable()


def test_a_backward_pass_inside() -> None:
    def penalty(x: Any) -> Any:
        y = (x * x).exp()
        (slope,) = grad(y.sum(), x, create_graph=True)
        return y + slope * slope

    def program(call: Callable[..., Any]) -> Any:
        x = leaf(0.1, 0.2)
        call(penalty, x * 1).sum().backward()
        return x.grad.tolist()

    expected = program(plainly)
    assert program(checkpoint) == pytest.approx(expected, rel=1e-6)
    assert program(lambda *args: checkpoint(*args, early_stop=False)) == pytest.approx(expected, rel=1e-6)


def test_other_hooks_on_saved_tensors(device: drv.Device) -> None:
    def program(call: Callable[..., Any]) -> Any:
        x, w = leaf(1, 2, 3, device="cuda"), leaf(0.5, -1, 2, device="cuda")
        call(wave, x * 1, w).sum().backward()
        return x.grad.tolist()

    expected = program(plainly)
    with save_on_cpu(pin_memory=True):
        assert program(checkpoint) == expected

    def inside(function: Any, *args: Any) -> Any:
        def saving(*args: Any) -> Any:
            with save_on_cpu():
                return function(*args)

        return checkpoint(saving, *args)

    assert program(inside) == expected
    seen: list[Any] = []
    with saved_tensors_hooks(lambda t: (seen.append(t.shape), t)[1], lambda t: t):
        checkpoint(wave, leaf(1), leaf(2))
    assert len(seen) == 2
    with disable_saved_tensors_hooks("no hooks"), pytest.raises(RuntimeError, match="no hooks"):
        checkpoint(wave, leaf(1), leaf(2))


def test_contexts() -> None:
    events: list[str] = []

    @contextlib.contextmanager
    def noted(name: str) -> Iterator[None]:
        events.append(name)
        yield

    y = checkpoint(lambda x: x.exp(), leaf(1), context_fn=lambda: (noted("first"), noted("again")))
    assert events == ["first"]
    y.backward()
    assert events == ["first", "again"]


def test_another_shape_in_the_further_run() -> None:
    def function(x: Any) -> Any:
        return x.exp() if counted.calls == 1 else x[:1].exp()

    for debug in (False, True):
        counted = Counted(function)
        y = checkpoint(counted, leaf(1, 2), debug=debug)
        with pytest.raises(CheckpointError) as caught:
            y.sum().backward()
        text = str(caught.value)
        assert "tensor at position 0:\nsaved metadata: {'shape': [2]" in text
        assert "recomputed metadata: {'shape': [1]" in text
        assert ("return x.exp() if counted.calls == 1" in text) is debug
    counted = Counted(lambda x: x.exp() if counted.calls == 1 else x.exp().double())
    checkpoint(counted, leaf(1, 2)).sum().backward()
    counted = Counted(lambda x: x.exp() if counted.calls == 1 else x[:1].exp())
    x = leaf(1, 1)
    checkpoint(counted, x, determinism_check="none").sum().backward()
    assert x.grad.tolist() == x.exp().tolist()


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("early_stop", [False, True])
def test_another_number_of_tensors_in_the_further_run(calls: int, early_stop: bool) -> None:
    counted = Counted(lambda x: x.exp().sin() if counted.calls == calls else x.exp())
    x = leaf(1, 2)
    y = checkpoint(counted, x, early_stop=early_stop)
    if calls == 2 and early_stop:
        # All that is needed is there.
        y.sum().backward()
        return
    with pytest.raises(
        CheckpointError, match=rf"(?s)different number.*forward: {3 - calls}\n.*recomputation: {calls}"
    ):
        y.sum().backward()


def test_tensors_written_after_they_were_saved() -> None:
    def function(x: Any) -> Any:
        y = x.exp()
        y.mul_(2)
        return y.sin()

    with pytest.raises(RuntimeError, match=r"saved in a function under checkpoint\(\), is at version 1"):
        checkpoint(function, leaf(1)).backward()


def test_wrong_arguments() -> None:
    x = leaf(1)
    with pytest.raises(TypeError, match="expects a function to run, got Tensor"):
        checkpoint(x, x)
    with pytest.raises(ValueError, match=r"\['default', 'none'\], but got 'some'"):
        checkpoint(wave, x, x, determinism_check="some")
    with pytest.raises(ValueError, match="Unexpected keyword arguments: w"):
        checkpoint(wave, x, w=x, use_reentrant=True)
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        checkpoint(wave, x, x, debug=True, use_reentrant=True)
