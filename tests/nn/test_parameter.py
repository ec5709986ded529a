"""Parameters that show other memory."""

from __future__ import annotations

from typing import Any

import pytest

import nn
import tensor
from tensor.methods.overriding.protocol import DisableTorchFunctionSubclass

from .parity import assert_like_pytorch


@pytest.mark.parity
def test_other_data_while_a_graph_lives() -> None:
    def program(lib: Any, nn: Any) -> Any:
        parameter = nn.Parameter(lib.ones(3))
        former = (parameter * 2).sum()
        parameter.data = parameter.data.double()
        (parameter * 3).sum().backward()
        return former, str(parameter.grad.dtype), parameter.grad

    assert_like_pytorch(program)


def test_other_device_while_a_graph_lives(device_name: str) -> None:
    parameter = nn.Parameter(tensor.ones(3))
    former = (parameter * 2).sum()
    parameter.data = parameter.data.to(device_name)
    (parameter * 3).sum().backward()
    assert former.item() == 6.0
    assert parameter.grad is not None
    assert parameter.grad.device.type == device_name
    assert parameter.grad.tolist() == [3.0] * 3


@pytest.mark.parity
def test_integers_have_no_gradients() -> None:
    parameter = nn.Parameter(tensor.ones(3))
    with pytest.raises(RuntimeError, match="must be floating point or complex"):
        parameter.data = tensor.ones(3, dtype=tensor.int64)
    assert parameter.dtype is tensor.float32
    assert_like_pytorch(lambda lib, nn: setattr(nn.Parameter(lib.ones(1)), "data", lib.zeros(1).long()))


def _program_of_subclasses(lib: Any, nn: Any) -> Any:
    """Parameters of a tensor of a class that takes over operations."""
    asked = []

    class Marked(lib.Tensor):  # type: ignore[name-defined, misc]
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    class Other(nn.Parameter):  # type: ignore[name-defined, misc]
        pass

    parameter = nn.Parameter(lib.ones(2, 2).as_subclass(Marked))
    text = repr(parameter)
    del asked[:]
    module = nn.Linear(2, 2, bias=False)
    module.weight = parameter
    module(lib.ones(2)).sum().backward()
    plain = lib.ones(1).as_subclass(Marked)
    return (
        type(parameter).__name__, text, isinstance(parameter, nn.Parameter), isinstance(parameter, Other),
        isinstance(plain, nn.Parameter), [name for name, _ in module.named_parameters()], "linear" in asked,
        type(nn.Parameter(plain, requires_grad=False)).__name__, lib.Tensor.tolist(parameter.grad),
    )  # fmt: skip


def test_a_parameter_of_a_subclass_is_of_that_class() -> None:
    name, text, is_parameter, *_, grad = _program_of_subclasses(tensor, nn)
    assert (name, is_parameter, grad) == ("Marked", True, [[1.0, 1.0]] * 2)
    assert text.startswith("Parameter(Marked([[1., 1.],")


@pytest.mark.parity
def test_parameters_of_subclasses_are_pytorchs() -> None:
    assert_like_pytorch(_program_of_subclasses)


def test_a_subclass_that_detaches_to_another_class_is_refused() -> None:
    class Loose(tensor.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            with DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {})).as_subclass(tensor.Tensor)

    with pytest.raises(RuntimeError, match=r"requires that detach\(\) returns an instance of the same type"):
        nn.Parameter(tensor.ones(2).as_subclass(Loose))
