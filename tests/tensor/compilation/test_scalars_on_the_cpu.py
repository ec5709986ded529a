"""0-dim tensors of the CPU in compiled work of a device: programs read them anew in each call."""

from __future__ import annotations

from typing import Any

import pytest

import tensor

_number = tensor.tensor(2.0)


def _lerped(x: Any, y: Any) -> Any:
    z = x.clone()
    z.mul_(y).add_(_number)
    return z * y


#: Functions of a tensor on the device and a 0-dim one on the CPU.
SCALARS: dict[str, Any] = {
    "an argument": lambda x, y: x * y + 1,
    "a closure": lambda x, y: (x + _number).sin() - y,
    "several parts": lambda x, y: ((((x * y).cumsum(0) + _number).cumsum(0) * y).cumsum(0) - 1).softmax(0),
    "where": lambda x, y: tensor.where(x > 0, x, y),
    "to": lambda x, y: y.to("cuda").add_(1) * x + y,
    "in place": _lerped,
}


@pytest.mark.parametrize("name", SCALARS)
@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
@pytest.mark.parametrize("dtype", [tensor.float32, tensor.float64, tensor.int64], ids=str)
@pytest.mark.sampled(10)
def test_scalars_on_the_cpu_are_read_in_each_call(schedule: None, name: str, mode: Any, dtype: Any) -> None:
    function = SCALARS[name]
    compiled = tensor.compile(function, fullgraph=True, mode=mode)
    for number in range(5):
        x = tensor.randn(4, device="cuda", requires_grad=True)
        y = tensor.tensor(number + 1, dtype=dtype)
        _number.fill_(number - 2)
        results = [each(x, y) for each in (compiled, function)]
        tensor.testing.assert_close(*results, rtol=0, atol=0)
        gradients = [tensor.autograd.grad(each.sum(), x)[0] for each in results]
        tensor.testing.assert_close(*gradients, rtol=0, atol=0)
    assert compiled.programs == 1
    assert "copy of a scalar on the CPU" in compiled.explain(x, y)


def test_other_tensors_on_the_cpu_in_work_of_the_device_stay_uncompiled(device: Any) -> None:
    """What has dimensions, and scalars that get gradients, for these go back to the CPU."""
    x, y = tensor.randn(4, device="cuda"), tensor.tensor(2.0, requires_grad=True)
    for function, operand in (
        (lambda x, y: x * y.to("cuda"), tensor.ones(4)),
        (lambda x, y: (x * y).sum(), y),
    ):
        compiled = tensor.compile(function)
        with pytest.warns(UserWarning, match="it runs as it is"):
            result = compiled(x, operand)
        tensor.testing.assert_close(result, function(x, operand))
        assert compiled.programs == 0
    compiled(x, y).backward()
    tensor.testing.assert_close(y.grad, x.sum().cpu())
