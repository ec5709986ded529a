"""``__torch_function__``: subclasses stay what they are, handlers and modes see calls, plain tensors pay nothing."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
import threading
from textwrap import dedent
from typing import Any

import pytest

import tensor
from tensor import overrides
from tests.pytorch import torch

from .programs import PROGRAMS


class Own(tensor.Tensor):
    """A class that overrides nothing."""


@pytest.mark.parity
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_are_pytorchs(program: Any) -> None:
    ours, theirs = _Ours(), program(torch)
    assert program(ours) == theirs


class _Ours:
    """``tensor`` with what PyTorch has in ``torch._C``."""

    def __getattr__(self, name: str) -> Any:
        return tensor if name == "_C" else getattr(tensor, name)


def test_subclasses_stay_on_both_devices(device_name: str) -> None:
    x = tensor.arange(4.0, device=device_name).as_subclass(Own)
    for result in (
        x + 1,
        x.reshape(2, 2) @ x.reshape(2, 2),
        tensor.cat([x, x]),
        tensor.nn.functional.relu(x),
        x[1:],
        x.cpu(),
    ):
        assert type(result) is Own
    assert type(x.sort().values) is Own
    assert type(x.tolist()) is list
    assert type(x.shape) is tensor.Size


def test_subclasses_are_copied_and_pickled_as_themselves() -> None:
    x = tensor.ones(2).as_subclass(Own)
    assert type(copy.deepcopy(x)) is type(pickle.loads(pickle.dumps(x))) is type(copy.copy(x)) is Own


def test_gradients_pass_through_subclasses(device_name: str) -> None:
    x = tensor.arange(3.0, device=device_name).as_subclass(Own).requires_grad_()
    y = (x * x).sum()
    assert type(y) is Own
    assert y.grad_fn is not None
    y.backward()
    assert x.grad.tolist() == [0, 2, 4]
    (grad,) = tensor.autograd.grad((x**3).sum(), x)
    assert grad.tolist() == [0, 3, 12]


def test_modules_compute_with_subclasses() -> None:
    linear = tensor.nn.Linear(3, 2)
    x = tensor.ones(1, 3).as_subclass(Own)
    y = linear(x)
    assert type(y) is Own
    assert y.tolist() == linear(tensor.ones(1, 3)).tolist()
    assert type(linear.weight + 1) is tensor.Tensor
    y.sum().backward()
    assert type(linear.weight.grad) is tensor.Tensor


def test_subclasses_under_vmap_and_in_traces() -> None:
    x = tensor.arange(6.0).reshape(3, 2)
    x.as_subclass(Own)
    result = tensor.func.vmap(lambda row: (row * row).sum() + row[0])(x)
    assert result.tolist() == [1, 15, 45]
    traced = tensor.fx.symbolic_trace(tensor.nn.Sequential(tensor.nn.Linear(2, 2), tensor.nn.ReLU()))
    assert type(traced(x.as_subclass(Own))) is Own
    assert [node.op for node in traced.graph.nodes] == ["placeholder", "call_module", "call_module", "output"]


def test_functions_stay_the_objects_that_they_were() -> None:
    signature, name = inspect.signature(tensor.add), tensor.add.__qualname__
    before = tensor.add
    tensor.ones(1).as_subclass(Own)
    assert tensor.add is before
    assert inspect.signature(tensor.add) == signature
    assert tensor.add.__qualname__ == name


def test_errors_still_name_arguments() -> None:
    x = tensor.ones(1).as_subclass(Own)
    with pytest.raises(TypeError, match=r"add\(\): argument 'input' \(position 1\) must be Tensor, not str"):
        tensor.add("x", 1)
    with pytest.raises(TypeError):
        x + "x"
    with pytest.raises(RuntimeError, match="shape"):
        x.reshape(3)


def test_modes_belong_to_their_thread() -> None:
    seen: list[Any] = []

    class Logging(overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Logging():
        thread = threading.Thread(target=lambda: tensor.ones(2))
        thread.start()
        thread.join()
        assert not seen
        tensor.ones(2)
    tensor.zeros(2)
    assert seen == [tensor.ones]


def test_a_mode_leaves_after_an_error() -> None:
    class Failing(overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"), Failing():
        tensor.ones(2)
    assert tensor.ones(2).tolist() == [1, 1]
    with pytest.raises(NotImplementedError, match="has no __torch_function__"), overrides.TorchFunctionMode():
        tensor.ones(2)


def test_functions_of_users_ask() -> None:
    @overrides.wrap_torch_function(lambda x, y=None: (x, y))
    def scaled(x: Any, y: Any = None) -> Any:
        return x * 2

    class Refusing:
        def __torch_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            return func.__name__, len(types), args[0] is self, kwargs

    assert scaled(tensor.ones(1)).tolist() == [2]
    assert scaled(Refusing(), y=1) == ("scaled", 1, True, {"y": 1})


def test_redispatching_sees_what_a_function_is_made_of() -> None:
    seen: list[str] = []

    class Logged(tensor.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.__name__)
            return overrides.redispatch_function(func, types, args, kwargs)

    def scaled(a: Any, b: Any) -> Any:
        if overrides.has_torch_function((a, b)):
            return overrides.handle_torch_function(scaled, (a, b), a, b)
        return a * b + 1

    result = scaled(tensor.ones(1).as_subclass(Logged), tensor.ones(1))
    assert result.tolist() == [2]
    assert seen[:2] == ["scaled", "mul"]


def test_operators_that_are_methods_by_another_name() -> None:
    names: list[str] = []

    class Named(overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x = tensor.ones(1)
    with Named():
        _ = +x, x.positive(), tensor.positive(x), -x, abs(x)
    assert names == ["positive", "positive", "positive", "neg", "abs"]


def test_names_and_what_can_be_taken_over() -> None:
    functions = overrides.get_overridable_functions()
    assert tensor.add in functions["tensor"]
    assert tensor.Tensor.add in functions[tensor.Tensor]
    assert tensor.nn.functional.relu in functions["nn.functional"]
    assert overrides.resolve_name(tensor.nn.functional.relu) == "torch.nn.functional.relu"
    assert overrides.resolve_name(len) is None
    stand_ins = overrides.get_testing_overrides()
    assert stand_ins[tensor.cat]([1], dim=2) == stand_ins[tensor.Tensor.shape.__get__](1) == -1
    with pytest.raises(TypeError, match="missing a required argument"):
        stand_ins[tensor.cat]()
    assert overrides.is_tensor_method_or_property(tensor.Tensor.shape.__get__)
    assert not overrides.is_tensor_method_or_property(tensor.add)
    assert tensor.Tensor.as_subclass in overrides.get_ignored_functions()


#: In a process of its own, as others have made subclasses here.
_PLAIN = """
    import sys, tensor
    from tensor.methods.overriding.interception import is_intercepted

    class Own(tensor.Tensor):
        pass

    codes = {name: getattr(tensor, name).__code__ for name in ("add", "cat", "zeros")}
    x = tensor.nn.Linear(2, 2)(tensor.ones(1, 2)).sum()
    x.backward()

    def calls(x):
        x + x
        count = 0
        def profile(frame, event, argument):
            nonlocal count
            count += event == "call"
        sys.setprofile(profile)
        x + x
        sys.setprofile(None)
        return count

    before = calls(tensor.ones(1))
    assert not is_intercepted() and codes["add"] is tensor.add.__code__
    y = tensor.ones(1).as_subclass(Own)
    assert is_intercepted() and type(y + 1) is Own
    print(before, calls(tensor.ones(1)))
"""


def test_plain_tensors_do_not_pay() -> None:
    done = subprocess.run([sys.executable, "-c", dedent(_PLAIN)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, after = map(int, done.stdout.split())
    assert before < after


#: In a process of its own, where nothing has overridden yet.
_FIRST = """
    import tensor

    class Scalar:
        def __init__(self, value):
            self.value = value

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func is {function}, [each.__name__ for each in types], len(args), kwargs

    print({call})
"""


@pytest.mark.parametrize(
    ("function", "call", "expected"),
    [
        ("tensor.mean", "tensor.mean(Scalar(1), dim=0)", (True, ["Scalar"], 1, {"dim": 0})),
        ("tensor.add", "tensor.add(tensor.ones(1), Scalar(1))", (True, ["Scalar"], 2, {})),
        ("tensor.cat", "tensor.cat([Scalar(1)])", (True, ["Scalar"], 1, {})),
        ("tensor.nn.functional.relu", "tensor.nn.functional.relu(Scalar(1))", (True, ["Scalar"], 1, {})),
        ("tensor.Tensor.mul_", "tensor.ones(1).mul_(Scalar(1))", (True, ["Scalar"], 2, {})),
    ],
)
def test_the_first_call_of_a_process_asks(function: str, call: str, expected: Any) -> None:
    text = dedent(_FIRST).format(function=function, call=call)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == repr(expected)
