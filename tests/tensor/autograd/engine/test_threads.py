"""Backward passes inside backward passes, and in several threads at once."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import drv
import tensor
from tensor import cuda
from tensor.autograd import Function, grad
from tensor.autograd.engine import engine

from .streams import finish, sound
from .test_streams import side_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

THREADS = 4


def leaf(*values: float, device: str = "cpu") -> Any:
    return tensor.tensor(values, dtype=tensor.float32, device=device, requires_grad=True)


@contextmanager
def switching_often() -> Iterator[None]:
    """Threads take turns after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def together(work: Callable[[int], Any], count: int = THREADS) -> list[Any]:
    """Results of ``work(number)`` in ``count`` threads that start at once."""
    start = threading.Barrier(count)
    results: list[Any] = [None] * count
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            start.wait(30)
            results[number] = work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    with switching_often():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    return results


class Checkpointed(Function):
    """Computes ``function`` again in the backward pass, by a pass of its own."""

    @staticmethod
    def forward(ctx: Any, x: Any, function: Callable[[Any], Any]) -> Any:
        ctx.save_for_backward(x)
        ctx.again = function
        return function(x.detach())

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (x,) = ctx.saved_tensors
        with tensor.enable_grad():
            x = x.detach().requires_grad_()
            y = ctx.again(x)
        y.backward(gradient)
        return x.grad, None


# Inside each other


def test_a_pass_inside_a_pass(device_name: str) -> None:
    w, x = leaf(2, 3, device=device_name), leaf(1, 2, device=device_name)
    y = Checkpointed.apply(x * 1.0, lambda x: x * x * w)
    (y * 2.0).sum().backward()
    assert x.grad.tolist() == [8, 24]
    # The inner pass accumulates into the leaves that it reaches.
    assert w.grad.tolist() == [2, 8]


def test_nested_passes_use_the_gradients_of_the_outer_one() -> None:
    x = leaf(1, 2)
    y = x
    for _ in range(50):
        y = Checkpointed.apply(y, lambda x: Checkpointed.apply(x, lambda x: x * 1.0))
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_an_error_in_an_inner_pass_leaves_the_outer_one() -> None:
    class Catching(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            number = engine.pass_number()
            with tensor.enable_grad():
                inner = leaf(1).clone()
                inner.register_hook(lambda gradient: 1 // 0)
                with pytest.raises(ZeroDivisionError):
                    inner.backward()
            assert engine.pass_number() == number
            assert not tensor.is_grad_enabled()
            return gradient

    x = leaf(1, 2)
    (Catching.apply(x) * 2.0).sum().backward()
    assert x.grad.tolist() == [2, 2]
    assert engine.pass_number() == -1
    assert tensor.is_grad_enabled()


def test_an_inner_pass_on_another_stream() -> None:
    def program() -> list[float]:
        x, inner = leaf(1, 2, device="cuda"), side_stream()

        def again(x: Any) -> Any:
            here = cuda.current_stream()
            inner.wait_stream(here)
            with cuda.stream(inner):
                y = x * x
            here.wait_stream(inner)
            y.record_stream(here)
            x.record_stream(inner)
            return y

        side = side_stream()
        with cuda.stream(side):
            loss = (Checkpointed.apply(x * 1.0, again) * 3.0).sum()
        loss.backward()
        return x.grad.tolist()

    sound(program, [6.0, 12.0])


def test_a_hook_that_runs_another_graph_backward() -> None:
    x, y = leaf(1, 2), leaf(3, 4)
    other = (y * y).sum()
    x.register_hook(lambda gradient: other.backward())
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4]
    assert y.grad.tolist() == [6, 8]


@pytest.mark.parametrize("depth", [1, 40])
def test_callbacks_of_the_inner_and_of_the_outermost_pass(depth: int) -> None:
    """Deep ones too, which run in threads of their own."""
    order: list[str] = []

    def inner(level: int) -> None:
        x = tensor.ones(1, requires_grad=True)

        def hook(gradient: tensor.Tensor) -> None:
            if level:
                inner(level - 1)
                return
            engine.queue_callback(lambda: order.append("outermost"), outermost=True)
            engine.queue_callback(lambda: order.append("inner"))

        x.register_hook(hook)
        with tensor.enable_grad():
            (2 * x).sum().backward()
        order.append(str(level))

    inner(depth)
    assert order == ["inner", *map(str, range(depth)), "outermost", str(depth)]


# In several threads


def test_separate_graphs(device_name: str) -> None:
    def work(number: int) -> list[float]:
        x = leaf(1, 2, 3, device=device_name)
        for _ in range(4):
            y = x
            for _ in range(8):
                y = y * float(number)
            y.sum().backward()
        return x.grad.tolist()

    assert together(work) == [[4.0 * number**8] * 3 for number in range(THREADS)]


def test_graphs_that_share_leaves(device_name: str) -> None:
    turns = 20
    x = leaf(1, 2, 3, device=device_name)
    factors = [float(number + 1) for number in range(THREADS)]

    def work(number: int) -> None:
        for _ in range(turns):
            (x * factors[number]).sum().backward()

    together(work)
    if device_name == "cuda":
        finish()
    assert x.grad.tolist() == [turns * sum(factors)] * 3


def test_a_shared_graph_that_is_kept(device_name: str) -> None:
    x, w = leaf(1, 2, 3, device=device_name), leaf(2, 2, 2, device=device_name)
    shared = (x * w).exp().log()
    losses = [(shared * float(number + 1)).sum() for number in range(THREADS)]
    together(lambda number: [losses[number].backward(retain_graph=True) for _ in range(5)])
    total = 5 * sum(range(1, THREADS + 1))
    assert x.grad.tolist() == pytest.approx([2.0 * total] * 3)
    assert w.grad.tolist() == pytest.approx([1.0 * total, 2.0 * total, 3.0 * total])


def test_a_shared_graph_gives_each_thread_its_own_gradients(device_name: str) -> None:
    x = leaf(1, 2, 3, device=device_name)
    shared = x * x

    def work(number: int) -> list[float]:
        (result,) = grad((shared * float(number)).sum(), x, retain_graph=True)
        return result.tolist()

    assert together(work) == [[2.0 * number, 4.0 * number, 6.0 * number] for number in range(THREADS)]
    assert x.grad is None


def test_a_shared_graph_is_freed_by_one_thread() -> None:
    x = leaf(1, 2, 3)
    shared = (x * x).exp()
    losses = [shared.sum() for _ in range(THREADS)]

    def work(number: int) -> bool:
        try:
            losses[number].backward()
        except RuntimeError as error:
            assert "second time" in str(error)
            return False
        return True

    assert sum(together(work)) >= 1


def test_each_thread_has_its_own_streams() -> None:
    drv.simulator.install(check="race")
    streams = [cuda.Stream() for _ in range(THREADS)]

    def work(number: int) -> list[float]:
        with cuda.stream(streams[number]):
            x = leaf(1, 2, 3, device="cuda")
            seen = set()
            x.register_hook(lambda gradient: seen.add(cuda.current_stream()))
            (x * x * float(number)).sum().backward()
            assert seen == {streams[number]}
            assert cuda.current_stream() == streams[number]
            return x.grad.tolist()

    assert together(work) == [[2.0 * number, 4.0 * number, 6.0 * number] for number in range(THREADS)]
    finish()


@pytest.mark.simulator_only
def test_leaves_shared_by_threads_on_streams_of_their_own() -> None:
    """All gradients are added on the stream of the leaf, so that the sum is right whatever the order."""

    def program() -> list[float]:
        x = leaf(1, 2, 3, device="cuda")
        losses = []
        for number in range(3):
            with cuda.stream(side_stream()):
                losses.append((x * float(number + 1)).sum())
        together(lambda number: losses[number].backward(), 3)
        # The threads' streams have waited for the gradient: all of them are the default one.
        return x.grad.tolist()

    sound(program, [6.0, 6.0, 6.0])


def test_a_leaf_has_one_node_whoever_uses_it_first() -> None:
    for _ in range(20):
        x = leaf(1, 2)
        nodes = together(lambda number, x=x: (x * 1.0).grad_fn.next_functions[0][0])
        assert len({id(node) for node in nodes}) == 1


def test_passes_inside_each_other_to_any_depth(device_name: str) -> None:
    depth = 150
    x = leaf(1, 2, device=device_name)
    stream = side_stream() if device_name == "cuda" else None

    def at(level: int) -> Callable[[Any], Any]:
        return lambda x: Checkpointed.apply(x, at(level - 1)) if level else x * 2.0

    with cuda.stream(stream):
        at(depth)(x).sum().backward()
        assert x.grad.tolist() == [2, 2]
        if stream is not None:
            assert cuda.current_stream() == stream
            finish()
