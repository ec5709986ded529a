"""What warm convolutions and poolings cost the host: Python calls, and what they queue on a device.

Counted are calls of Python functions, properties and generators' steps among them, of whatever module: on the
simulated device, which runs nothing here, also the simulated driver's own. C functions do not count. A call is warm
when the same one ran before. What is counted of a backward pass is ``result.backward(gradient)`` as a whole, with the
engine's work and the gradients that leaves get, which had none before.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import drv
import tensor
from nn import functional
from tests.tensor.driver_calls import counted

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(params=["cpu", "cuda"])
def unexecuted_place(request: pytest.FixtureRequest) -> str:
    """The CPU, and a simulated device that runs nothing."""
    if request.param == "cuda":
        drv.simulator.install(memory="8GiB", execute=False, check="off")
    return request.param


def python_calls(function: Callable[[], object]) -> int:
    """Calls of Python functions inside ``function``, itself not counted."""
    count = -1

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def leaf(device: str, *shape: int) -> Any:
    return tensor.ones(*shape, device=device, requires_grad=True)


def cost(function: Callable[..., Any], leaves: list[Any]) -> tuple[int, int]:
    """Python calls of a warm call, and of the backward pass from its result."""
    gradient = tensor.ones_like(function(*leaves).detach())

    def measured() -> tuple[int, int]:
        results: list[Any] = []
        forward = python_calls(lambda: results.append(function(*leaves)))
        for each in leaves:
            each.grad = None
        return forward, python_calls(lambda: results[0].backward(gradient))

    for _ in range(3):
        measured()
    return measured()


#: Function of leaves, their shapes, and the most calls forward and backward.
CONVOLUTIONS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], int, int]] = {
    "conv2d": (functional.conv2d, [(2, 3, 8, 8), (4, 3, 3, 3), (4,)], 40, 110),
    "conv2d, large": (
        lambda x, w, b: functional.conv2d(x, w, b, padding=1),
        [(2, 3, 16, 16), (4, 3, 3, 3), (4,)], 40, 110,
    ),
    "conv2d with options": (
        lambda x, w, b: functional.conv2d(x, w, b, stride=(2, 1), padding=(1, 2), dilation=2),
        [(2, 3, 12, 12), (4, 3, 3, 3), (4,)], 40, 110,
    ),
    "conv2d, same": (
        lambda x, w, b: functional.conv2d(x, w, b, padding="same"),
        [(2, 3, 8, 8), (4, 3, 4, 4), (4,)], 40, 110,
    ),
    "conv2d without bias": (functional.conv2d, [(2, 3, 8, 8), (4, 3, 3, 3)], 40, 95),
    "conv2d of one item": (functional.conv2d, [(3, 8, 8), (4, 3, 3, 3), (4,)], 40, 110),
    "conv1d": (functional.conv1d, [(2, 3, 8), (4, 3, 3), (4,)], 40, 110),
    "conv3d": (functional.conv3d, [(2, 3, 5, 5, 5), (4, 3, 3, 3, 3), (4,)], 40, 110),
    "conv_transpose2d": (
        lambda x, w, b: functional.conv_transpose2d(x, w, b, stride=2),
        [(2, 3, 8, 8), (3, 4, 3, 3), (4,)], 40, 110,
    ),
}  # fmt: skip
POOLING: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], int, int]] = {
    "max_pool2d": (lambda x: functional.max_pool2d(x, 2), [(2, 3, 8, 8)], 32, 60),
    "avg_pool2d": (lambda x: functional.avg_pool2d(x, 2), [(2, 3, 8, 8)], 25, 60),
    "max_pool2d, padded": (lambda x: functional.max_pool2d(x, 3, 2, 1), [(2, 3, 8, 8)], 32, 60),
    "adaptive_avg_pool2d": (lambda x: functional.adaptive_avg_pool2d(x, 1), [(2, 3, 8, 8)], 25, 60),
    "fractional_max_pool2d": (
        lambda x, samples: functional.fractional_max_pool2d(x, 2, 4, _random_samples=samples),
        [(2, 3, 8, 8), (2, 3, 2)], 65, 60,
    ),
    "unfold": (lambda x: functional.unfold(x, 3), [(2, 3, 8, 8)], 25, 60),
    "fold": (lambda x: functional.fold(x, (8, 8), 3), [(2, 27, 36)], 25, 60),
}  # fmt: skip
CASES = CONVOLUTIONS | POOLING


@pytest.mark.simulator_only
@pytest.mark.parametrize("name", CASES)
def test_python_calls(name: str, unexecuted_place: str) -> None:
    function, shapes, forward, backward = CASES[name]
    result = cost(function, [leaf(unexecuted_place, *shape) for shape in shapes])
    assert result[0] <= forward, f"{result[0]} Python calls forward"
    assert result[1] <= backward, f"{result[1]} Python calls backward"


#: Kernels of a forward and of a backward pass; each product of matrices comes in addition.
LAUNCHES = {
    "conv2d": (2, 4),
    "conv2d, large": (2, 4),
    "conv2d, same": (2, 4),
    "conv2d without bias": (2, 3),
    "conv_transpose2d": (2, 5),
    "max_pool2d": (1, 1),
    "avg_pool2d": (1, 1),
    "fractional_max_pool2d": (1, 1),
    "unfold": (1, 1),
    "fold": (1, 1),
}


@pytest.mark.simulator_only
@pytest.mark.parametrize("name", LAUNCHES)
def test_what_is_queued(name: str) -> None:
    drv.simulator.install(memory="8GiB", execute=False, check="off")
    function, shapes, _, _ = CASES[name]
    leaves = [leaf("cuda", *shape) for shape in shapes]
    with counted() as calls:
        actual = []
        for _ in range(2):
            calls.clear()
            result = function(*leaves)
            forward = Counter(calls)
            gradient = tensor.ones_like(result.detach())
            for each in leaves:
                each.grad = None
            calls.clear()
            result.backward(gradient)
            actual = [{name: each[name] for name in each if name != "current"} for each in (forward, calls)]
    # Kernels, and nothing else: no copies, no memory from the driver, no waiting.
    assert actual == [{"cuLaunchKernel": count} for count in LAUNCHES[name]]


@pytest.mark.simulator_only
def test_a_gradient_that_is_not_contiguous_is_copied_once() -> None:
    drv.simulator.install(memory="8GiB", execute=False, check="off")
    function, shapes, _, _ = CASES["conv2d"]
    leaves = [leaf("cuda", *shape) for shape in shapes]
    with counted() as calls:
        for _ in range(2):
            result = function(*leaves)
            gradient = tensor.ones((), device="cuda").expand(result.shape)
            for each in leaves:
                each.grad = None
            calls.clear()
            result.backward(gradient)
    assert calls["cuLaunchKernel"] == LAUNCHES["conv2d"][1] + 1
