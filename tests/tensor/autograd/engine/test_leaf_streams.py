"""Where gradients of leaves are accumulated, who may use them when, and what a pass asks of the driver."""

from __future__ import annotations

from typing import Any

import pytest

import drv
import tensor
from tensor import cuda
from tensor.autograd import grad
from tensor.autograd.engine import accumulation, engine
from tests.tensor.driver_calls import counted

from .streams import finish, sound, unsound
from .test_streams import CUBED, leaf, recorded_on, side_stream

pytestmark = pytest.mark.simulator_only


# 3. Gradients in the caller's context, and in others


def gradient_of_a_side_stream() -> list[float]:
    x, side = leaf(1, 2, 3), side_stream()
    recorded_on(side, x).backward()
    return x.grad.tolist()


def given_by_grad() -> list[float]:
    x, side = leaf(1, 2, 3), side_stream()
    (result,) = grad(recorded_on(side, x), x)
    return result.tolist()


def of_an_inner_tensor() -> list[float]:
    x, side = leaf(1, 2, 3), side_stream()
    with cuda.stream(side):
        y = x * 1.0
    (result,) = grad(recorded_on(side, y), y)
    return result.tolist()


@pytest.mark.parametrize("program", [gradient_of_a_side_stream, given_by_grad, of_an_inner_tensor])
def test_the_caller_may_use_gradients_at_once(program: Any) -> None:
    sound(program, CUBED)


@pytest.mark.parametrize("program", [gradient_of_a_side_stream, given_by_grad, of_an_inner_tensor])
def test_an_engine_whose_callers_wait_for_nothing(monkeypatch: pytest.MonkeyPatch, program: Any) -> None:
    monkeypatch.setattr(engine.GraphTask, "join_callers_streams", lambda self: None)
    unsound(program, CUBED)


def used_elsewhere(*, wait: bool) -> list[float]:
    """Gradients of a pass in the default stream's context, used on another stream."""
    x = leaf(1, 2, 3)
    recorded_on(side_stream(), x).backward()
    other = cuda.Stream()
    if wait:
        other.wait_stream(cuda.current_stream())
    with cuda.stream(other):
        return x.grad.tolist()


def used_on_the_default_stream(*, wait: bool) -> list[float]:
    """Gradients of a pass in the context of another stream."""
    x, side = leaf(1, 2, 3), side_stream()
    with cuda.stream(side):
        recorded_on(side, x).backward()
    if wait:
        cuda.default_stream().wait_stream(side)
    return x.grad.tolist()


@pytest.mark.parametrize("program", [used_elsewhere, used_on_the_default_stream])
def test_gradients_in_another_context(program: Any) -> None:
    sound(lambda: program(wait=True), CUBED)


@pytest.mark.parametrize("program", [used_elsewhere, used_on_the_default_stream])
def test_gradients_in_another_context_without_a_wait(program: Any) -> None:
    unsound(lambda: program(wait=False), CUBED)


def fill_backward_use() -> list[float]:
    """The three in one context, on another stream than the forward pass."""
    x = leaf(1, 2, 3)
    y = x * x * x
    with cuda.stream(side_stream()):
        gradient = tensor.full((3,), 1.0, device="cuda")
        y.backward(gradient)
        return (x.grad * 2.0).tolist()


def test_fill_backward_and_use_in_one_context() -> None:
    sound(fill_backward_use, [2 * each for each in CUBED])


def dropped_gradient() -> list[float]:
    """A gradient whose memory is another stream's is used by the caller and dropped."""
    x, side = leaf(1, 2, 3), side_stream()
    recorded_on(side, x).backward()
    used = x.grad * 2.0
    x.grad = None
    with cuda.stream(side):
        kept = [tensor.full((3,), 7.0, device="cuda") for _ in range(6)]
    side.synchronize()
    del kept
    return used.tolist()


def test_the_caller_may_drop_gradients_at_once() -> None:
    sound(dropped_gradient, [2 * each for each in CUBED])


def test_an_engine_that_hands_over_gradients_but_not_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor.Tensor, "record_stream", lambda self, stream: None)
    unsound(dropped_gradient, [2 * each for each in CUBED])


def test_callbacks_run_after_the_caller_has_waited() -> None:
    def program() -> list[float]:
        x, side = leaf(1, 2, 3), side_stream()
        loss = recorded_on(side, x)
        result: list[Any] = []
        x.register_post_accumulate_grad_hook(
            lambda x: engine.queue_callback(lambda: result.append((cuda.current_stream(), x.grad * 2.0)))
        )
        loss.backward()
        ((stream, doubled),) = result
        assert stream == cuda.default_stream()
        return doubled.tolist()

    sound(program, [2 * each for each in CUBED])


# 5. The stream of a leaf


def accumulated_on(x: Any, loss: Any) -> cuda.Stream:
    """The stream that is current while the gradient of ``x`` is accumulated."""
    result: list[cuda.Stream] = []
    handle = x.register_post_accumulate_grad_hook(lambda _: result.append(cuda.current_stream(x.device)))
    loss.backward()
    handle.remove()
    return result[0]


def test_a_leaf_is_accumulated_on_the_stream_of_its_first_use(device: drv.Device) -> None:
    main, first, second = cuda.current_stream(), side_stream(), side_stream()
    x = leaf(1, 2, 3)
    for stream in (first, second):
        stream.wait_stream(main)
    losses = [recorded_on(first, x), recorded_on(second, x)]
    with cuda.stream(second):
        second.wait_stream(first)
        total = losses[0] + losses[1]
    assert accumulated_on(x, total) == first
    assert x.grad.tolist() == [2 * each for each in CUBED]
    # A graph that is gone decides nothing.
    del losses, total
    second.wait_stream(main)
    assert accumulated_on(x, recorded_on(second, x)) == second
    assert x.grad.tolist() == [3 * each for each in CUBED]
    finish()


def test_what_is_not_recorded_is_no_use(device: drv.Device) -> None:
    x, first, second = leaf(1, 2, 3), side_stream(), side_stream()
    with tensor.no_grad():
        recorded_on(first, x)
    assert accumulated_on(x, recorded_on(second, x)) == second
    finish()


def test_a_leaf_is_accumulated_on_its_own_device(two_devices: tuple[drv.Device, drv.Device]) -> None:
    x, side = leaf(1, 2, 3, device="cuda:1"), side_stream(1)
    with cuda.stream(side):
        y = x * x * x
    cuda.current_stream(1).wait_stream(side)
    loss = y.to("cuda:0").sum()
    seen: list[tuple[int, cuda.Stream]] = []
    x.register_post_accumulate_grad_hook(
        lambda _: seen.append((cuda.current_device(), cuda.current_stream()))
    )
    loss.backward()
    assert seen == [(1, side)]
    assert x.grad.device == tensor.device("cuda:1")
    finish()


def accumulated_twice() -> list[float]:
    """The second pass adds on another stream than the one that the gradient's memory came from."""
    main, first, second = cuda.current_stream(), cuda.Stream(), cuda.Stream()
    x = leaf(1, 2, 3)
    for stream in (first, second):
        stream.wait_stream(main)
        recorded_on(stream, x).backward()
    return x.grad.tolist()


def test_gradients_of_two_passes_on_two_streams() -> None:
    sound(accumulated_twice, [2 * each for each in CUBED])


def dropped_after_two_passes() -> list[float]:
    """As above, but the second pass is called on the stream that it accumulates on."""
    main, first, second = cuda.current_stream(), cuda.Stream(), cuda.Stream()
    x = leaf(1, 2, 3)
    first.wait_stream(main)
    recorded_on(first, x).backward()
    second.wait_stream(main)
    with cuda.stream(second):
        recorded_on(second, x).backward()
        argument = x.grad * 1.0
    x.grad = None
    with cuda.stream(first):
        kept = [tensor.full((3,), 7.0, device="cuda") for _ in range(6)]
    first.synchronize()
    del kept
    with cuda.stream(second):
        return argument.tolist()


def test_memory_of_a_gradient_that_other_streams_added_to() -> None:
    sound(dropped_after_two_passes, [2 * each for each in CUBED])


# Graphs that span devices


def over_two_devices(*, sides: bool) -> list[float]:
    """A graph from device 0 to 1 and back, on default or side streams; leaves on both."""
    streams = [side_stream(ordinal) if sides else cuda.default_stream(ordinal) for ordinal in (0, 1)]
    x, w = leaf(1, 2, 3, device="cuda:0"), leaf(4, 5, 6, device="cuda:1")
    for ordinal, stream in enumerate(streams):
        stream.wait_stream(cuda.default_stream(ordinal))
    with cuda.stream(streams[0]), cuda.stream(streams[1]), cuda.device(0):
        y = (x * x).to("cuda:1") * w
        loss = (y.to("cuda:0") * x).sum()
    loss.backward()
    for stream in streams:
        stream.synchronize()
    return x.grad.tolist() + w.grad.tolist()


#: Of (x * x * w * x).sum().
OVER_TWO = [12.0, 60.0, 162.0, 1.0, 8.0, 27.0]


@pytest.mark.parametrize("sides", [False, True])
def test_a_graph_over_two_devices(sides: bool) -> None:
    sound(lambda: over_two_devices(sides=sides), OVER_TWO, devices=2)


def summed_over_two_devices() -> list[float]:
    """Gradients that arrive from both devices are summed, and used on the caller's streams of both."""
    x, w = leaf(1, 2, 3, device="cuda:0"), leaf(1, 1, 1, device="cuda:1")
    sides = [side_stream(0), side_stream(1)]
    with cuda.stream(sides[0]), cuda.stream(sides[1]):
        near, far = x * x, x.to("cuda:1") * w
        loss = near.to("cuda:1").sum() + (far * far).sum()
    loss.backward()
    # The gradient of w first: the host waits for all that is read here.
    return (w.grad * 1.0).tolist() + (x.grad * 1.0).tolist()


SUMMED_OVER_TWO = [2.0, 8.0, 18.0, 4.0, 8.0, 12.0]


def test_gradients_of_two_devices_are_summed() -> None:
    sound(summed_over_two_devices, SUMMED_OVER_TWO, devices=2)


def test_an_engine_whose_callers_wait_on_one_device_only(monkeypatch: pytest.MonkeyPatch) -> None:
    differs = engine._differs
    monkeypatch.setattr(engine, "_differs", lambda stream: stream.device_index == 0 and differs(stream))
    unsound(summed_over_two_devices, SUMMED_OVER_TWO, devices=2)


def test_an_engine_without_events_between_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulation, "_mark", lambda stream, target: None)
    unsound(lambda: over_two_devices(sides=True), OVER_TWO, devices=2)


def test_a_graph_through_the_host() -> None:
    def program() -> list[float]:
        x, side = leaf(1, 2, 3), side_stream()
        with cuda.stream(side):
            y = (x * x).cpu()
        z = (y * y).to("cuda")
        z.sum().backward()
        side.synchronize()
        return x.grad.tolist()

    sound(program, [4.0, 32.0, 108.0])


# What a pass asks of the driver


@pytest.mark.parametrize("on_side", [False, True])
def test_a_pass_on_one_stream_records_no_event(on_side: bool) -> None:
    drv.simulator.install(schedule="lazy", check="race")
    with counted() as calls, cuda.stream(cuda.Stream() if on_side else None):
        x = leaf(1, 2, 3)
        for _ in range(2):
            loss = (x.sin() * x * 2.0 + x).sum()
            calls.clear()
            loss.backward()
            assert calls["cuLaunchKernel"] > 4
            assert not calls.ordering()
    finish()


def test_events_are_recorded_where_gradients_change_streams() -> None:
    drv.simulator.install(schedule="lazy", check="race")
    with counted() as calls:
        x, side = leaf(1, 2, 3), side_stream()
        with cuda.stream(side):
            y = (x * x).sin().cos()
        cuda.current_stream().wait_stream(side)
        loss = (y * 3.0).exp().sum()
        calls.clear()
        loss.backward()
    # One gradient enters the side stream; the caller waits for the one of the leaf.
    assert calls["cuStreamWaitEvent"] == 2
    finish()


def test_a_pass_never_blocks_the_host() -> None:
    drv.simulator.install(devices=2, schedule="lazy", check="race")
    with counted() as calls:
        # Memory and kernels are there from the first turn on.
        for turn in range(2):
            calls.clear()
            x, w = leaf(1, 2, 3, device="cuda:0"), leaf(4, 5, 6, device="cuda:1")
            sides = [side_stream(0), side_stream(1)]
            with cuda.stream(sides[0]), cuda.stream(sides[1]), cuda.device(0):
                y = (x * x).to("cuda:1") * w
                loss = (y.to("cuda:0") * x).sum()
            calls.clear()
            loss.backward()
            if turn:
                assert not calls.blocking()
            # Nothing has waited, so that under this schedule nothing has run.
            assert not cuda.current_stream(0).query()
            assert not cuda.current_stream(1).query()
            assert not sides[0].query()
            assert not sides[1].query()
            assert x.grad.tolist() + w.grad.tolist() == OVER_TWO
    finish()
