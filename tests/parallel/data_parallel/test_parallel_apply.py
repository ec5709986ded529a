"""Modules in threads: their state is the caller's, and so are their exceptions."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import drv
import nn
import tensor
from parallel import parallel_apply
from tensor import cuda
from tests.parallel.simulated import install

pytestmark = pytest.mark.simulator_only


@pytest.fixture(autouse=True)
def machine() -> None:
    install(2)


def state(x: tensor.Tensor) -> dict[str, Any]:
    return {
        "thread": threading.current_thread(),
        "device": cuda.current_device(),
        "streams": (cuda.current_stream(0), cuda.current_stream(1)),
        "grad": tensor.is_grad_enabled(),
        "inference": tensor.is_inference_mode_enabled(),
        "autocast": tensor.is_autocast_enabled("cuda"),
        "dtype": tensor.get_autocast_dtype("cuda"),
        "product": (x @ x).dtype,
    }


def inputs() -> list[tensor.Tensor]:
    return [tensor.ones(2, 2, device=i) for i in range(2)]


def test_state_of_threads() -> None:
    seen = parallel_apply([state, state], inputs())
    assert len({each["thread"] for each in seen} | {threading.current_thread()}) == 3
    assert [each["device"] for each in seen] == [0, 1]
    for each in seen:
        assert each["grad"] and not each["inference"] and not each["autocast"]
        assert each["product"] is tensor.float32
    side = cuda.Stream(1)
    with tensor.no_grad(), tensor.autocast("cuda", dtype=tensor.bfloat16), side:
        for each in parallel_apply([state, state], inputs()):
            assert not each["grad"] and not each["inference"] and each["autocast"]
            assert each["dtype"] is each["product"] is tensor.bfloat16
            assert each["streams"] == (cuda.default_stream(0), side)
    with tensor.inference_mode():
        for each in parallel_apply([state, state], inputs()):
            assert not each["grad"] and each["inference"]
    assert tensor.is_grad_enabled() and not tensor.is_inference_mode_enabled()
    assert cuda.current_device() == 0


def test_threads_end() -> None:
    before = threading.active_count()
    parallel_apply([state, state], inputs())
    assert threading.active_count() == before


def test_modules_run_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=20)
    parallel_apply([lambda x: meeting.wait(), lambda x: meeting.wait()], inputs())


def test_arguments() -> None:
    def add(x: Any, y: Any = 0, *, z: Any = 0) -> Any:
        return x + y + z

    a, b = inputs()
    results = parallel_apply([add, add], [(a, 2), (b, 3)], ({"z": 10}, {}))
    assert [each.flatten()[0].item() for each in results] == [13, 4]
    assert parallel_apply([add, add], [1, [2, 3]], devices=["cuda:0", tensor.device(1)]) == [1, 5]
    assert parallel_apply([add], [(a,)])[0].device.index == 0
    (only,) = parallel_apply([state], [(b,)])
    assert only["device"] == 1
    assert only["thread"] == threading.current_thread()


def test_devices_are_found_in_nested_arguments() -> None:
    a, b = inputs()
    result = parallel_apply(
        [lambda *args, **named: cuda.current_device()] * 2, [([{"x": (None, b)}],), ()], ({}, {"y": a})
    )
    assert result == [1, 0]


def test_errors() -> None:
    a, b = inputs()
    with pytest.raises(ValueError, match="2 modules, but 1 inputs"):
        parallel_apply([state, state], [a])
    with pytest.raises(ValueError, match="2 modules, but 3 devices"):
        parallel_apply([state, state], [a, b], devices=[0, 1, 1])
    with pytest.raises(ValueError, match="In replica 1, no device was provided and no tensor was found"):
        parallel_apply([state, state], [a, 3])
    with pytest.raises(ValueError, match="the first tensor is on cpu"):
        parallel_apply([state], [tensor.ones(2)])


class OwnError(Exception):
    pass


class StrangeError(Exception):
    def __init__(self, number: int, other: int) -> None:
        super().__init__(f"{number} {other}")


def test_exceptions_keep_their_type() -> None:
    def fails(x: tensor.Tensor, error: Exception) -> tensor.Tensor:
        if x.device.index == 1:
            raise error
        return x

    a, b = inputs()
    for error in (
        ValueError("the reason"),
        OwnError("the reason"),
        KeyError("the reason"),
        cuda.OutOfMemoryError("the reason"),
    ):
        with pytest.raises(type(error)) as caught:
            parallel_apply([fails, fails], [(a, error), (b, error)])
        assert type(caught.value) is type(error)
        text = str(caught.value)
        assert text.startswith(f"Caught {type(error).__name__} in replica 1 on device 1.\nOriginal Traceback")
        assert "the reason" in text
        assert "test_parallel_apply.py" in text and "in fails" in text
    with pytest.raises(RuntimeError, match="Caught StrangeError in replica 1 on device 1"):
        parallel_apply([fails, fails], [(a, error), (b, StrangeError(1, 2))])
    with pytest.raises(ValueError, match="Caught ValueError in replica 0 on device 1"):
        parallel_apply([fails], [(b, ValueError())])


def test_first_of_several_exceptions() -> None:
    def fails(x: tensor.Tensor) -> None:
        raise ValueError(f"on {x.device}")

    with pytest.raises(ValueError, match=r"replica 0 on device 0[\s\S]*on cuda:0"):
        parallel_apply([fails, fails], inputs())


class _Block:
    """A block of device 1 that fails as it is entered, or left."""

    def __init__(self, device: int, where: str) -> None:
        self.device, self.where = device, where

    def __enter__(self) -> None:
        if (self.device, self.where) == (1, "enter"):
            raise cuda.OutOfMemoryError("no device to enter")

    def __exit__(self, *_: object) -> None:
        if (self.device, self.where) == (1, "leave"):
            raise cuda.OutOfMemoryError("no device to leave for")


@pytest.mark.parametrize("where", ["enter", "leave"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_device_that_cannot_be_entered_or_left(
    where: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "device", lambda device: _Block(device, where))
    calls = []

    def works(x: tensor.Tensor) -> None:
        calls.append(x)

    # The last of the modules is on device 1.
    arguments = inputs()[-count:]
    with pytest.raises(
        cuda.OutOfMemoryError, match=rf"replica {count - 1} on device 1[\s\S]*no device to {where}"
    ):
        parallel_apply([works] * count, arguments)
    assert len(calls) == (count if where == "leave" else count - 1)

    def fails(x: tensor.Tensor) -> None:
        raise ValueError("the module's own")

    # A failure of the module itself is what is raised.
    error = ValueError if where == "leave" or count == 2 else cuda.OutOfMemoryError
    with pytest.raises(error):
        parallel_apply([fails] * count, arguments)


def test_leaving_the_interpreter() -> None:
    def leaves(x: tensor.Tensor) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit) as caught:
        parallel_apply([leaves, leaves], inputs())
    assert caught.value.code == 3


def test_casts_of_parameters_are_dropped_with_the_block() -> None:
    linear = nn.Linear(2, 2).cuda()
    with tensor.autocast("cuda"):
        parallel_apply([linear, linear], [inputs()[0]] * 2)
    with tensor.no_grad():
        linear.weight.zero_()
    with tensor.autocast("cuda"):
        result = parallel_apply([linear, linear], [inputs()[0]] * 2)
        assert (result[0] == linear.bias.half()).all()


def test_a_thread_that_cannot_leave_its_device() -> None:
    def fails_to_leave(x: tensor.Tensor) -> tensor.Tensor:
        result = x + 1
        if x.get_device():
            drv.simulator.inject().fail_call(name="cuCtxSetCurrent")
        return result

    with pytest.raises(drv.CudaError, match=r"in replica 1 on device 1[\s\S]*cuCtxSetCurrent"):
        parallel_apply([fails_to_leave] * 2, inputs())
