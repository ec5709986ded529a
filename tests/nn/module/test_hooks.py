"""Hooks on the calls of modules and on their backward passes."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

import nn
import tensor
from nn.module import hooks
from tensor.utils.checkpoint import checkpoint
from tests.nn.parity import assert_like_pytorch

if TYPE_CHECKING:
    from collections.abc import Callable


def scaling_of(lib: Any, nn: Any) -> Any:
    class Scaling(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(lib.tensor([2.0, 3.0]))

        def forward(self, x: Any, other: Any = None, *, factor: float = 1.0, fail: bool = False) -> Any:
            if fail:
                raise ValueError("asked to")
            y = x * self.weight * factor
            return y if other is None else (y, other, y * other)

    return Scaling()


def forward_programs() -> dict[str, Callable[[Any, Any], Any]]:
    def pre(lib: Any, nn: Any) -> Any:
        seen: list[Any] = []
        module = scaling_of(lib, nn)
        module.register_forward_pre_hook(lambda m, args: seen.append((m is module, args)))
        module.register_forward_pre_hook(lambda m, args: args[0] + 1)
        module.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
        module.register_forward_pre_hook(lambda m, args: seen.append(args), prepend=True)
        return module(lib.ones(2)), seen

    def pre_with_kwargs(lib: Any, nn: Any) -> Any:
        seen: list[Any] = []
        module = scaling_of(lib, nn)
        module.register_forward_pre_hook(
            lambda m, args, kwargs: seen.append((args, kwargs)), with_kwargs=True
        )
        module.register_forward_pre_hook(lambda m, args, kwargs: (args, {"factor": 10.0}), with_kwargs=True)
        return module(lib.ones(2), factor=2.0), seen

    def pre_with_kwargs_wrong(lib: Any, nn: Any) -> Any:
        module = scaling_of(lib, nn)
        module.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True)
        return module(lib.ones(2))

    def after(lib: Any, nn: Any) -> Any:
        seen: list[Any] = []
        module = scaling_of(lib, nn)
        module.register_forward_hook(lambda m, args, out: seen.append((args, out)))
        module.register_forward_hook(lambda m, args, out: out + 1)
        module.register_forward_hook(
            lambda m, args, kwargs, out: seen.append((kwargs, out)), with_kwargs=True
        )
        handle = module.register_forward_hook(lambda m, args, out: out * 100, prepend=True)
        first = module(lib.ones(2), factor=2.0)
        handle.remove()
        handle.remove()
        return first, module(lib.ones(2)), seen, len(module._forward_hooks)

    def always(lib: Any, nn: Any) -> Any:
        seen: list[Any] = []
        module = scaling_of(lib, nn)
        module.register_forward_hook(lambda m, args, out: seen.append("not"))
        module.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
        module.register_forward_hook(
            lambda m, args, kwargs, out: seen.append(kwargs), with_kwargs=True, always_call=True
        )
        module.register_forward_hook(lambda m, args, out: 1 / 0, always_call=True)
        try:
            module(lib.ones(2), fail=True)
        except ValueError as error:
            seen.append(str(error))
        return seen

    def failing_hook(lib: Any, nn: Any) -> Any:
        seen: list[Any] = []
        module = scaling_of(lib, nn)
        module.register_forward_hook(lambda m, args, out: seen.append("once"), always_call=True)
        module.register_forward_hook(lambda m, args, out: 1 / 0)
        module.register_forward_hook(lambda m, args, out: seen.append("late"), always_call=True)
        try:
            module(lib.ones(2))
        except ZeroDivisionError:
            seen.append("raised")
        return seen

    def as_context(lib: Any, nn: Any) -> Any:
        module = scaling_of(lib, nn)
        with module.register_forward_hook(lambda m, args, out: out + 1):
            inside = module(lib.ones(2))
        return inside, module(lib.ones(2))

    return {
        each.__name__: each
        for each in (pre, pre_with_kwargs, pre_with_kwargs_wrong, after, always, failing_hook, as_context)
    }


@pytest.mark.parity
@pytest.mark.parametrize("name", forward_programs())
def test_forward_hooks(name: str) -> None:
    assert_like_pytorch(forward_programs()[name])


def recorder(seen: list[Any], name: str, result: Any = None) -> Callable[..., Any]:
    def hook(module: Any, *gradients: Any) -> Any:
        seen.append((name, gradients))
        return None if result is None else result(*gradients)

    return hook


def backward_programs() -> dict[str, Callable[[Any, Any], Any]]:
    def full(lib: Any, nn: Any) -> Any:
        seen: list[Any] = []
        module = scaling_of(lib, nn)
        module.register_full_backward_hook(recorder(seen, "first"))
        module.register_full_backward_hook(recorder(seen, "before"), prepend=True)
        x = lib.ones(2, requires_grad=True)
        module(x * 2).sum().backward()
        return seen, x.grad, module.weight.grad

    def replaced(lib: Any, nn: Any) -> Any:
        seen: list[Any] = []
        module = scaling_of(lib, nn)
        module.register_full_backward_pre_hook(recorder(seen, "pre", lambda out: (out[0] * 3,)))
        module.register_full_backward_hook(recorder(seen, "after", lambda given, out: (given[0] * 100,)))
        x = lib.ones(2, requires_grad=True)
        module(x).sum().backward()
        return seen, x.grad, module.weight.grad

    def several(lib: Any, nn: Any) -> Any:
        seen: list[Any] = []
        module = scaling_of(lib, nn)
        module.register_full_backward_hook(recorder(seen, "after"))
        module.register_full_backward_pre_hook(recorder(seen, "pre"))
        x, y = lib.ones(2, requires_grad=True), lib.full((2,), 5.0, requires_grad=True)
        first, _, third = module(x, y)
        (first.sum() + third.sum()).backward()
        return seen, x.grad, y.grad

    def mixed_arguments(lib: Any, nn: Any) -> Any:
        seen: list[Any] = []
        module = scaling_of(lib, nn)
        module.register_full_backward_hook(recorder(seen, "after"))
        x = lib.ones(2, requires_grad=True)
        out = module(x, 4.0)
        (out[0] + out[2]).sum().backward()
        return seen, x.grad, out[1]

    def no_input_gradient(lib: Any, nn: Any) -> Any:
        seen: list[Any] = []
        module = scaling_of(lib, nn)
        module.register_full_backward_pre_hook(recorder(seen, "pre"))
        module.register_full_backward_hook(recorder(seen, "after"))
        module(lib.ones(2)).sum().backward()
        return seen, module.weight.grad

    def no_input_gradient_changed(lib: Any, nn: Any) -> Any:
        module = scaling_of(lib, nn)
        module.register_full_backward_hook(lambda m, given, out: (out[0],))
        module(lib.ones(2)).sum().backward()

    def without_grad(lib: Any, nn: Any) -> Any:
        seen: list[Any] = []
        module = scaling_of(lib, nn)
        module.register_full_backward_hook(recorder(seen, "after"))
        with lib.no_grad():
            out = module(lib.ones(2, requires_grad=True))
        return seen, out.requires_grad

    def wrong_number(lib: Any, nn: Any) -> Any:
        module = scaling_of(lib, nn)
        module.register_full_backward_hook(lambda m, given, out: (given[0], given[0]))
        module(lib.ones(2, requires_grad=True)).sum().backward()

    def wrong_number_before(lib: Any, nn: Any) -> Any:
        module = scaling_of(lib, nn)
        module.register_full_backward_pre_hook(lambda m, out: (out[0], out[0]))
        module(lib.ones(2, requires_grad=True)).sum().backward()

    def odd_result(lib: Any, nn: Any) -> Any:
        class Odd(nn.Module):  # type: ignore[name-defined,misc]
            def forward(self, x: Any) -> Any:
                return {"y": x * 2}

        module = Odd()
        module.register_full_backward_hook(lambda m, given, out: None)
        return module(lib.ones(2, requires_grad=True))

    def old_kind(lib: Any, nn: Any) -> Any:
        seen: list[Any] = []
        module = scaling_of(lib, nn)
        module.register_backward_hook(recorder(seen, "old"))
        x = lib.ones(2, requires_grad=True)
        module(x).sum().backward()
        return len(seen), x.grad

    def both_kinds(lib: Any, nn: Any) -> Any:
        module = scaling_of(lib, nn)
        module.register_backward_hook(lambda *args: None)
        module.register_full_backward_hook(lambda *args: None)

    def both_kinds_reversed(lib: Any, nn: Any) -> Any:
        module = scaling_of(lib, nn)
        module.register_full_backward_hook(lambda *args: None)
        module.register_backward_hook(lambda *args: None)

    def nested(lib: Any, nn: Any) -> Any:
        seen: list[Any] = []
        outer = nn.Module()
        outer.first, outer.second = scaling_of(lib, nn), scaling_of(lib, nn)
        outer.forward = lambda x: outer.second(outer.first(x))
        outer.register_full_backward_hook(recorder(seen, "outer"))
        outer.first.register_full_backward_hook(recorder(seen, "inner"))
        outer.second.register_full_backward_pre_hook(recorder(seen, "pre"))
        x = lib.ones(2, requires_grad=True)
        outer(x).sum().backward()
        return seen

    def twice(lib: Any, nn: Any) -> Any:
        seen: list[Any] = []
        module = scaling_of(lib, nn)
        module.register_full_backward_hook(recorder(seen, "after"))
        x = lib.ones(2, requires_grad=True)
        (grad,) = lib.autograd.grad((module(x) ** 3).sum(), x, create_graph=True)
        count = len(seen)
        grad.sum().backward()
        return count, x.grad, grad

    return {
        each.__name__: each
        for each in (
            full,
            replaced,
            several,
            mixed_arguments,
            no_input_gradient,
            no_input_gradient_changed,
            without_grad,
            wrong_number,
            wrong_number_before,
            odd_result,
            old_kind,
            both_kinds,
            both_kinds_reversed,
            nested,
            twice,
        )
    }


@pytest.mark.parity
@pytest.mark.parametrize("name", backward_programs())
def test_backward_hooks(name: str) -> None:
    assert_like_pytorch(backward_programs()[name])


def test_hooks_of_every_module() -> None:
    seen: list[str] = []
    module = nn.Module()
    module.inner = scaling_of(tensor, nn)
    module.forward = lambda x: module.inner(x)
    handles = [
        hooks.register_module_forward_pre_hook(lambda m, args: seen.append("every pre")),
        hooks.register_module_forward_hook(lambda m, args, out: seen.append("every after")),
        hooks.register_module_full_backward_pre_hook(lambda m, out: seen.append("every backward pre")),
        hooks.register_module_full_backward_hook(lambda m, given, out: seen.append("every backward")),
    ]
    module.inner.register_forward_pre_hook(lambda m, args: seen.append("own pre"))
    module.inner.register_forward_hook(lambda m, args, out: seen.append("own after"))
    try:
        with pytest.raises(RuntimeError, match="regular backward hooks and full"):
            hooks.register_module_backward_hook(lambda *args: None)
        module(tensor.ones(2, requires_grad=True)).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    assert seen == [
        "every pre",
        "every pre",
        "own pre",
        "every after",
        "own after",
        "every after",
        "every backward pre",
        "every backward pre",
        "every backward",
        "every backward",
    ]
    seen.clear()
    module.inner._forward_hooks.clear()
    module(tensor.ones(2))
    assert seen == ["own pre"]


def test_hooks_on_registration() -> None:
    seen: list[Any] = []

    def note(module: Any, name: str, value: Any) -> None:
        seen.append((name, type(value).__name__))

    handles = [
        hooks.register_module_parameter_registration_hook(note),
        hooks.register_module_buffer_registration_hook(note),
        hooks.register_module_module_registration_hook(note),
        hooks.register_module_module_registration_hook(
            lambda module, name, value: nn.Tanh() if isinstance(value, nn.ReLU) else None
        ),
    ]
    try:
        module = nn.Module()
        module.weight = nn.Parameter(tensor.ones(1))
        module.register_buffer("mean", tensor.ones(1))
        module.mean = tensor.zeros(1)
        module.layer = nn.ReLU()
        module.add_module("other", nn.Identity())
    finally:
        for handle in handles:
            handle.remove()
    assert seen == [
        ("weight", "Parameter"),
        ("mean", "Tensor"),
        ("mean", "Tensor"),
        ("layer", "ReLU"),
        ("other", "Identity"),
    ]
    assert isinstance(module.layer, nn.Tanh)


def test_what_cannot_be_called_is_no_hook() -> None:
    module: Any = nn.Module()
    for name in (
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_full_backward_pre_hook",
        "register_state_dict_post_hook",
        "register_load_state_dict_pre_hook",
    ):
        with pytest.raises(TypeError, match="a hook must be callable, got int"):
            getattr(module, name)(3)


def test_copies_have_hooks_of_their_own() -> None:
    module: Any = scaling_of(tensor, nn)
    handle = module.register_forward_hook(_add_one)
    result = copy.deepcopy(module)
    handle.remove()
    assert result(tensor.ones(2)).tolist() == [3.0, 4.0]
    assert module(tensor.ones(2)).tolist() == [2.0, 3.0]


def _add_one(_module: Any, _args: Any, output: Any) -> Any:
    return output + 1


def test_backward_hooks_on_devices() -> None:
    import drv

    drv.simulator.install(check="race", schedule="lazy")
    seen: list[Any] = []
    module: Any = scaling_of(tensor, nn).cuda()
    module.register_full_backward_hook(
        lambda m, given, out: seen.append((given[0].tolist(), out[0].tolist()))
    )
    x = tensor.ones(2, device="cuda", requires_grad=True)
    module(x).sum().backward()
    assert seen == [([2.0, 3.0], [1.0, 1.0])]


def test_hooks_that_are_always_called_are_where_a_checkpoint_stops_the_module() -> None:
    module = nn.Linear(2, 2)
    seen: list[bool] = []
    module.register_forward_hook(lambda m, args, out: seen.append(out is None), always_call=True)
    x = tensor.ones(1, 2, requires_grad=True)
    checkpoint(module, x, use_reentrant=False).sum().backward()
    # The second time, it has what it needs before the module returns.
    assert seen == [False, True]
