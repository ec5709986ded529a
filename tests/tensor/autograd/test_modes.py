"""Whether operations are recorded: blocks, decorators, threads, and tensors made in inference mode."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import tensor
from tensor import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from tensor.core.modes.grad_mode import inference_blocks

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator


@pytest.fixture(autouse=True)
def _recording() -> Iterator[None]:
    yield
    assert is_grad_enabled()
    assert not is_inference_mode_enabled()
    assert inference_blocks.count == 0


def leaf(*values: float, device: str = "cpu") -> Any:
    return tensor.tensor(values, dtype=tensor.float32, device=device, requires_grad=True)


# Blocks


def test_blocks() -> None:
    x = leaf(1)
    with no_grad():
        assert not (x * 2).requires_grad
        with enable_grad():
            assert (x * 2).requires_grad
            with set_grad_enabled(False):
                assert not (x * 2).requires_grad
            assert is_grad_enabled()
        assert not is_grad_enabled()
        assert tensor.zeros(1, requires_grad=True).requires_grad
    assert (x * 2).requires_grad


def test_blocks_end_with_errors() -> None:
    for mode in (no_grad, inference_mode, lambda: set_grad_enabled(False)):
        with pytest.raises(KeyError), mode():
            raise KeyError


def test_one_object_for_several_blocks() -> None:
    mode = no_grad()
    with mode:
        assert not is_grad_enabled()
    with mode:
        assert not is_grad_enabled()


def test_a_call_without_a_block() -> None:
    set_grad_enabled(False)
    try:
        assert not is_grad_enabled()
        set_grad_enabled(True)
        assert is_grad_enabled()
    finally:
        set_grad_enabled(True)


# Decorators


@pytest.mark.parametrize(
    "make",
    [
        lambda: no_grad,
        no_grad,
        lambda: inference_mode,
        inference_mode,
        lambda: set_grad_enabled(False),
    ],
)
def test_decorated_functions(make: Any) -> None:
    @make()
    def double(x: Any, depth: int = 0) -> Any:
        """Twice as much."""
        assert not is_grad_enabled()
        return double(x, depth - 1) if depth else x * 2

    assert is_grad_enabled()
    assert double.__name__ == "double"
    assert double.__doc__ == "Twice as much."
    assert not double(leaf(1)).requires_grad
    assert not double(leaf(1), depth=3).requires_grad
    assert is_grad_enabled()


def test_decorated_inside_a_block() -> None:
    @enable_grad()
    def double(x: Any) -> Any:
        return x * 2

    with no_grad():
        assert double(leaf(1)).requires_grad
        assert not is_grad_enabled()


def test_decorated_generators() -> None:
    seen: list[Any] = []

    @no_grad()
    def numbers() -> Generator[int, Any, str]:
        try:
            seen.append(is_grad_enabled())
            got = yield 1
            seen.append((got, is_grad_enabled()))
            try:
                yield 2
            except KeyError:
                seen.append(("caught", is_grad_enabled()))
                yield 3
        finally:
            seen.append(("end", is_grad_enabled()))
        return "done"

    steps = numbers()
    assert next(steps) == 1
    assert is_grad_enabled()
    assert steps.send("sent") == 2
    assert steps.throw(KeyError()) == 3
    assert is_grad_enabled()
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == "done"
    assert seen == [False, ("sent", False), ("caught", False), ("end", False)]
    seen.clear()
    steps = numbers()
    next(steps)
    steps.close()
    assert seen == [False, ("end", False)]


# Threads


def test_modes_are_of_one_thread() -> None:
    seen: list[Any] = []

    def work() -> None:
        seen.append((is_grad_enabled(), is_inference_mode_enabled(), tensor.zeros(1).is_inference()))

    for mode in (no_grad, inference_mode):
        with mode():
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    assert seen == [(True, False, False)] * 2


def test_a_thread_that_turns_recording_off() -> None:
    entered, leave = threading.Event(), threading.Event()

    def work() -> None:
        with inference_mode():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(10)
    assert (leaf(1) * 2).requires_grad
    assert not tensor.zeros(1).is_inference()
    leave.set()
    thread.join()


# Inference mode


def test_nothing_turns_recording_on(device_name: str) -> None:
    x = leaf(1, device=device_name)
    with inference_mode():
        assert is_inference_mode_enabled()
        with enable_grad():
            assert not (x * 2).requires_grad
        with set_grad_enabled(True):
            assert not (x * 2).requires_grad
        with inference_mode(False):
            assert (x * 2).requires_grad
            assert not (x * 2).is_inference()
        y = x * 2
    assert y.is_inference()
    assert not x.is_inference()
    with inference_mode(False):
        assert (x * 2).requires_grad


def test_made_in_inference_mode(device_name: str) -> None:
    x = leaf(1, 2, device=device_name)
    with inference_mode():
        y = x + 1
        shown = x[:1]
        y.mul_(2)
    assert not shown.is_inference()
    for view in (y[:1], y.detach(), y.view(2, 1)):
        assert view.is_inference()
    assert not y.clone().is_inference()
    assert y.tolist() == [4, 6]
    # Nothing is saved of it here.
    (x + y).sum().backward()
    assert x.grad.tolist() == [1, 1]


def inference_errors(library: Any) -> list[str]:
    def message(action: Any) -> str:
        with pytest.raises(RuntimeError) as caught:
            action()
        return str(caught.value)

    x = library.tensor([1.0, 2.0], requires_grad=True)
    base = x * 1
    with library.inference_mode():
        y = library.ones(2)
        view = base[:1]
    with library.no_grad():
        other_view = base[:1]
    return [
        message(lambda: x * y),
        message(lambda: y.add_(1)),
        message(lambda: y[:1].zero_()),
        message(lambda: y._version),
        message(lambda: y.requires_grad_()),
        message(lambda: view.add_(1)),
        message(lambda: other_view.add_(1)),
    ]


@pytest.mark.parity
def test_errors_of_inference_tensors_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    for mine, theirs in zip(inference_errors(tensor), inference_errors(torch), strict=True):
        assert mine.split(".")[0].split(":")[0] == theirs.split(".")[0]


def test_views_of_views_that_were_not_recorded() -> None:
    base = leaf(1, 2) * 1
    with no_grad():
        view = base[:1]
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
        view.view(1, 1).mul_(2)
    with no_grad():
        view.mul_(2)
    assert base.tolist() == [2, 2]


def test_errors_of_inference_tensors() -> None:
    assert "make a clone" in inference_errors(tensor)[0]
    with inference_mode():
        y = tensor.ones(2, requires_grad=True)
        assert y.requires_grad
        y.add_(1)
    assert (leaf(1, 2) * y.clone()).requires_grad
