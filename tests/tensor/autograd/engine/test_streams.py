"""Backward passes and streams: what is ordered is right under every schedule, what is not shows.

Most rules are pairs: a correct program, and the same one with a wait left out, or with an engine that breaks
the rule.
"""

from __future__ import annotations

from typing import Any

import pytest

import drv
import tensor
from tensor import cuda
from tensor.autograd import Function
from tensor.autograd.engine import accumulation, engine
from tensor.autograd.engine.node_streams import NodeStreams
from tensor.autograd.engine.root import GraphRoot

from .streams import finish, sound, unsound

pytestmark = pytest.mark.simulator_only

#: d/dx of (x * x * x).sum() at 1, 2, 3.
CUBED = [3.0, 12.0, 27.0]


def leaf(*values: float, device: Any = "cuda") -> Any:
    return tensor.tensor(values, dtype=tensor.float32, device=device, requires_grad=True)


def side_stream(device: Any = None) -> cuda.Stream:
    """A new stream that has waited for the current one."""
    result = cuda.Stream(device)
    result.wait_stream(cuda.current_stream(device))
    return result


def recorded_on(stream: cuda.Stream, x: Any) -> Any:
    """A loss of ``x`` whose operations were recorded on ``stream``."""
    with cuda.stream(stream):
        return (x * x * x).sum()


class Watched(Function):
    """The identity, which notes the current device and stream of its backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Any, seen: list[Any]) -> Any:
        ctx.seen = seen
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        ctx.seen.append((cuda.current_device(), cuda.current_stream()))
        return gradient.clone(), None


# 1. Each operation on the stream of its forward; an event and a wait where a gradient changes streams


def test_operations_run_on_the_streams_and_devices_of_the_forward(
    two_devices: tuple[drv.Device, drv.Device],
) -> None:
    streams = [cuda.Stream(0), cuda.Stream(1), cuda.Stream(0)]
    seen: list[Any] = []
    x = leaf(1, 2, 3)
    y = x
    for stream in streams:
        stream.wait_stream(cuda.current_stream(stream.device))
    for before, stream in zip([None, *streams], streams, strict=False):
        if before is not None:
            stream.wait_stream(before)
        with cuda.stream(stream):
            y = Watched.apply(y.to(stream.device), seen)
    with cuda.stream(streams[-1]):
        loss = y.sum()
    other = cuda.Stream(1)
    with cuda.stream(other):
        loss.backward()
        assert cuda.current_stream() == other
        assert cuda.current_device() == 1
    assert cuda.current_stream(0) == cuda.default_stream(0)
    assert seen == [(stream.device_index, stream) for stream in reversed(streams)]
    finish()


def test_current_streams_come_back_after_an_error(device: drv.Device) -> None:
    class Failing(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            raise ZeroDivisionError

    x, side = leaf(1, 2, 3), side_stream()
    with cuda.stream(side):
        loss = Failing.apply(x).sum()
    with pytest.raises(ZeroDivisionError):
        loss.backward()
    assert cuda.current_stream() == cuda.default_stream()
    finish()


def recorded_on_another_stream() -> list[float]:
    x, side = leaf(1, 2, 3), side_stream()
    recorded_on(side, x).backward()
    # What runs late runs no later than here.
    side.synchronize()
    return x.grad.tolist()


def test_a_pass_may_be_called_on_any_stream() -> None:
    sound(recorded_on_another_stream, CUBED)


def test_an_engine_on_the_callers_stream_reads_what_is_not_there_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodeStreams, "enter", lambda self, node: None)
    unsound(recorded_on_another_stream, CUBED)


def test_an_engine_without_events_reads_gradients_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulation, "_mark", lambda stream, target: None)
    unsound(recorded_on_another_stream, CUBED)


def through_three_streams() -> list[float]:
    main, first, second = cuda.current_stream(), side_stream(), side_stream()
    x = leaf(1, 2, 3)
    first.wait_stream(main)
    with cuda.stream(first):
        y = x * x
    second.wait_stream(first)
    with cuda.stream(second):
        z = y * x
    main.wait_stream(second)
    z.sum().backward()
    return x.grad.tolist()


def test_gradients_go_from_stream_to_stream() -> None:
    sound(through_three_streams, CUBED)


def test_an_engine_without_events_between_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulation, "_mark", lambda stream, target: None)
    unsound(through_three_streams, CUBED)


def summed_from_two_streams(branches: int = 2) -> list[float]:
    main = cuda.current_stream()
    x = leaf(1, 2, 3)
    y = x * x
    loss: Any = 0.0
    for factor in range(1, branches + 1):
        side = side_stream()
        with cuda.stream(side):
            part = (y * float(factor)).sum()
        main.wait_stream(side)
        loss = loss + part
    loss.backward()
    return x.grad.tolist()


def test_two_gradients_of_different_streams_are_summed() -> None:
    sound(summed_from_two_streams, [6.0, 12.0, 18.0])


def test_four_gradients_of_different_streams_are_summed() -> None:
    sound(lambda: summed_from_two_streams(4), [20.0, 40.0, 60.0])


@pytest.mark.parametrize("forgets", ["first", "later"])
def test_an_engine_that_sums_without_waiting(monkeypatch: pytest.MonkeyPatch, forgets: str) -> None:
    names = {"first": "hold", "later": "add"}
    right = getattr(accumulation, names[forgets])

    def wrong(*arguments: Any) -> Any:
        *others, _, target = arguments
        return right(*others, None, target)

    monkeypatch.setattr(engine, names[forgets], wrong)
    unsound(summed_from_two_streams, [6.0, 12.0, 18.0])


def test_leaves_used_on_two_streams() -> None:
    def program() -> list[float]:
        main, first, second = cuda.current_stream(), cuda.Stream(), cuda.Stream()
        x = leaf(1, 2, 3)
        losses = []
        for side in (first, second):
            side.wait_stream(main)
            losses.append(recorded_on(side, x))
            main.wait_stream(side)
        (losses[0] + losses[1]).backward()
        return x.grad.tolist()

    sound(program, [2 * each for each in CUBED])


def memory_is_used_again_on_the_stream_it_came_from() -> list[float]:
    main, side = cuda.current_stream(), cuda.Stream()
    x = leaf(1, 2, 3)
    y = x * x
    side.wait_stream(main)
    with cuda.stream(side):
        loss = (y * 2.0).sum()
    loss.backward()
    # The gradient of y was made on the side stream, and is used on this one.
    with cuda.stream(side):
        kept = [tensor.full((3,), 7.0, device="cuda") for _ in range(4)]
    side.synchronize()
    argument = x.grad.tolist()
    del kept
    return argument


def test_memory_of_a_gradient_waits_for_the_stream_that_uses_it() -> None:
    sound(memory_is_used_again_on_the_stream_it_came_from, [4.0, 8.0, 12.0])


def test_an_engine_that_records_no_use_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor.Tensor, "record_stream", lambda self, stream: None)
    unsound(memory_is_used_again_on_the_stream_it_came_from, [4.0, 8.0, 12.0])


# 2. The root


def called_on_a_side_stream(recorded: cuda.Stream) -> list[float]:
    """The gradient of a leaf, where backward is called on another stream than the forward was ``recorded`` on."""
    x = leaf(1, 2, 3)
    recorded.wait_stream(cuda.current_stream())
    loss = recorded_on(recorded, x)
    with cuda.stream(side_stream()):
        loss.backward()
        recorded.synchronize()
        return x.grad.tolist()


def recorded_on_the_default_stream() -> list[float]:
    return called_on_a_side_stream(cuda.default_stream())


def recorded_on_a_third_stream() -> list[float]:
    return called_on_a_side_stream(cuda.Stream())


def recorded_where_the_pass_is_called() -> list[float]:
    x = leaf(1, 2, 3)
    with cuda.stream(side_stream()):
        (x * x * x).sum().backward()
        return x.grad.tolist()


@pytest.mark.parametrize(
    "program", [recorded_on_the_default_stream, recorded_on_a_third_stream, recorded_where_the_pass_is_called]
)
def test_an_implicit_gradient_in_a_stream_context(program: Any) -> None:
    sound(program, CUBED)


@pytest.mark.parametrize("program", [recorded_on_the_default_stream, recorded_on_a_third_stream])
def test_a_root_on_the_default_stream_is_read_too_early(
    monkeypatch: pytest.MonkeyPatch, program: Any
) -> None:
    monkeypatch.setattr(
        GraphRoot, "stream_of", staticmethod(lambda gradient: gradient._layout.device_state.default_stream)
    )
    unsound(program, CUBED)


TWICE_CUBED = [2 * each for each in CUBED]


def given_gradient(*, wait: bool = True, record: bool = True, reuse: bool = True) -> list[float]:
    """A pass from a gradient of a side stream, whose memory that stream may use again afterwards."""
    main, side = cuda.current_stream(), side_stream()
    x = leaf(1, 2, 3)
    y = x * x * x
    with cuda.stream(side):
        gradient = tensor.full((3,), 2.0, device="cuda")
    if wait:
        main.wait_stream(side)
    if record:
        gradient.record_stream(main)
    y.backward(gradient)
    if reuse:
        del gradient
        with cuda.stream(side):
            kept = [tensor.full((3,), 7.0, device="cuda") for _ in range(3)]
        side.synchronize()
        del kept
    return x.grad.tolist()


def gradient_of_the_context() -> list[float]:
    side = side_stream()
    x = leaf(1, 2, 3)
    y = x * x * x
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        y.backward(tensor.full((3,), 2.0, device="cuda"))
        kept = [tensor.full((3,), 7.0, device="cuda") for _ in range(3)]
    side.synchronize()
    del kept
    return x.grad.tolist()


def test_a_gradient_made_in_the_context_of_the_call() -> None:
    sound(gradient_of_the_context, TWICE_CUBED)


def test_a_gradient_of_another_stream_with_a_wait_and_record_stream() -> None:
    sound(given_gradient, TWICE_CUBED)


def test_a_gradient_of_another_stream_without_a_wait() -> None:
    unsound(lambda: given_gradient(wait=False, reuse=False), TWICE_CUBED)


def test_memory_of_a_given_gradient_is_lost_without_record_stream() -> None:
    unsound(lambda: given_gradient(record=False), TWICE_CUBED)


def reduced_by_the_engine() -> list[float]:
    """What was broadcast is summed up by the engine, and what was converted is converted back."""
    x, w = leaf(2), leaf(1, 2, 3)
    side = side_stream()
    with cuda.stream(side):
        loss = (x * w * x.to(tensor.float64)).sum()
    loss.backward()
    side.synchronize()
    return x.grad.tolist() + w.grad.tolist()


def test_gradients_are_made_to_fit_on_the_stream_of_their_maker() -> None:
    sound(reduced_by_the_engine, [24.0, 4.0, 4.0, 4.0])
