"""What a compiled function makes of values on the host is copied to the device once, where it is the same in all calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
import tensor

if TYPE_CHECKING:
    pass


pytestmark = pytest.mark.usefixtures("schedule")


_factor = 2.0
_array = np.arange(4, dtype=np.float32)


def _filled_on_the_host(x: Any) -> Any:
    scale = tensor.zeros(4)
    scale[1] = 3
    return x * scale.cuda()


def _copied_to_a_tensor(x: Any) -> Any:
    row = tensor.zeros(4, device=x.device)
    row.copy_(tensor.arange(4.0))
    return x * row


FUNCTIONS: dict[str, Any] = {
    "a list": lambda x: x * tensor.tensor([1.0, 2.0, 3.0, 4.0], device=x.device),
    "a number": lambda x: x * tensor.tensor(_factor, device=x.device),
    "indices": lambda x: x[:, [2, 0]],
    "an index": lambda x: x[:, tensor.tensor([0, 2], device=x.device)] + 1,
    "an array": lambda x: x * tensor.from_numpy(_array).to(x.device),
    "pinned": lambda x: x * tensor.full((4,), 3.0, pin_memory=True).to(x.device, non_blocking=True),
    "filled": _filled_on_the_host,
    "copied": _copied_to_a_tensor,
    "an identity": lambda x: x + tensor.eye(4, device=x.device),
    "a mask": lambda x: x.masked_fill(
        tensor.ones(4, 4, dtype=tensor.bool, device=x.device).triu(1), -1e9
    ).softmax(-1),
    "triangles": lambda x: x.tril() @ x.clone().triu_(1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.sampled(12)
def test_results_are_those_of_the_function(name: str, grad: bool) -> None:
    function = FUNCTIONS[name]
    compiled = tensor.compile(function, fullgraph=True)
    for number in range(3):
        results = []
        for each in (compiled, function):
            x = (tensor.arange(16.0, device="cuda").view(4, 4) / (number + 3) - 1).requires_grad_(grad)
            results.append([each(x)])
            if grad:
                results[-1][0].square().sum().backward()
                results[-1].append(x.grad)
        for one, other in zip(*results, strict=True):
            assert one.stride() == other.stride()
            tensor.testing.assert_close(one, other)
    assert compiled.programs == 1


def test_nothing_is_copied_to_the_device_by_later_calls() -> None:
    compiled = tensor.compile(FUNCTIONS["a list"], fullgraph=True)
    x = tensor.ones(4, 4, device="cuda")
    compiled(x)
    with drv.simulator.timed(results=False) as timing:
        compiled(x)
        tensor.cuda.synchronize()
    assert [each.name.startswith("mul") for each in timing.operations] == [True], timing.operations


def test_values_that_change() -> None:
    """They are compared at each call, as others that a function reads."""
    global _factor
    compiled = tensor.compile(FUNCTIONS["a number"], fullgraph=True)
    array = tensor.compile(FUNCTIONS["an array"], fullgraph=True)
    x = tensor.ones(4, 4, device="cuda")
    try:
        for number in (2.0, 3.0, 2.0):
            _factor = number
            _array[2] = number
            assert compiled(x).unique().tolist() == [number]
            assert array(x)[0].tolist() == [0.0, 1.0, number, 3.0]
    finally:
        _factor = 2.0


def test_reduced_overhead() -> None:
    compiled = tensor.compile(FUNCTIONS["filled"], fullgraph=True, mode="reduce-overhead")
    for number in range(5):
        assert compiled(tensor.full((4,), float(number), device="cuda")).tolist() == [0, 3.0 * number, 0, 0]


_generator = np.random.default_rng(0)
_large = np.zeros(5000, np.float32)


def _through_the_host(x: Any) -> Any:
    there = x[0].to("cpu", non_blocking=True)
    tensor.cuda.synchronize()
    return x * (there * 2).cuda()


def _written(x: Any) -> Any:
    row = tensor.tensor([1.0, 2.0, 3.0, 4.0], device=x.device)
    row += 1
    return x * row


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x * tensor.rand(4).cuda(), "random numbers are drawn"),
        (lambda x: x * tensor.from_numpy(np.random.rand(4)).cuda(), r"it calls numpy.random"),
        (lambda x: x * float(np.random.rand()), r"it calls numpy.random"),
        (lambda x: x * float(_generator.random()), "it reads a Generator"),
        (lambda x: x * tensor.from_numpy(_large[:4]).cuda(), "it reads an array of NumPy"),
        (lambda x: x * tensor.from_numpy(np.load("there.npy")).cuda(), r"it reads with numpy.load\(\)"),
        (_through_the_host, "a tensor on cpu takes part in work on cuda:0"),
        (_written, "it writes to a tensor on the device that it makes of values on the host"),
        (lambda x: tensor.tensor([1.0], device=x.device), "its result is a tensor that is made of values on the host"),
    ],
)  # fmt: skip
@pytest.mark.sampled(10)
def test_what_is_another_value_in_each_call(
    function: Any, reason: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("there.npy", np.arange(4, dtype=np.float32))
    compiled = tensor.compile(function)
    x = tensor.ones(4, 4, device="cuda")
    with pytest.warns(UserWarning, match=reason):
        compiled(x)
    assert compiled.programs == 0


def test_tensors_on_the_cpu_from_outside_are_no_constants() -> None:
    outside = tensor.arange(4.0).pin_memory()
    compiled = tensor.compile(lambda x: x * outside[1:2].to(x.device, non_blocking=True))
    x = tensor.ones(4, device="cuda")
    for number in range(3):
        outside[1] = number
        if number:
            assert compiled(x).tolist() == [number] * 4
        else:
            with pytest.warns(UserWarning, match="a tensor on cpu takes part in work on cuda:0"):
                compiled(x)
        tensor.cuda.synchronize()
    assert compiled.programs == 0
