"""Hooks of tensors and nodes: when they run, what they see and what they may change, as in PyTorch."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest

import tensor
from tensor.autograd import Function, grad
from tensor.autograd.graph import get_gradient_edge

if TYPE_CHECKING:
    from collections.abc import Callable

    import drv


def leaf(*values: float, device: str = "cpu", library: Any = tensor) -> Any:
    return library.tensor(values, dtype=library.float32, device=device, requires_grad=True)


def plain(value: Any) -> Any:
    """Lists and numbers in place of tensors, names in place of nodes."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value.tolist()


Log = "list[Any]"


# Programs that give the same in both libraries


def replacing(library: Any, log: Any) -> Any:
    x = leaf(1, 2, library=library)
    y = x * 3
    y.register_hook(lambda g: log.append(("y", plain(g))))
    y.register_hook(lambda g: g * 2)
    y.register_hook(lambda g: log.append(("y again", plain(g))))
    x.register_hook(lambda g: log.append(("x", plain(g))))
    x.register_hook(lambda g: g + 1)
    (y * y).sum().backward()
    return x.grad


def once_for_the_sum(library: Any, log: Any) -> Any:
    x = leaf(1, 2, library=library)
    y = x * 1
    for each in (x, y):
        each.register_hook(lambda g: log.append(plain(g)))
    (y * y + y + x + x * x).sum().backward()
    return x.grad


def before_and_after_writes(library: Any, log: Any) -> Any:
    x = leaf(1, 2, library=library)
    y = x * 1
    y.register_hook(lambda g: log.append(("before", plain(g))))
    y.retain_grad()
    y.mul_(3)
    y.register_hook(lambda g: log.append(("after", plain(g))))
    (y * 5).sum().backward()
    return [x.grad, y.grad]


def retained(library: Any, log: Any) -> Any:
    x = leaf(1, 2, library=library)
    y = x * 3
    y.register_hook(lambda g: g * 10)
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    for _ in range(2):
        (y * 2).sum().backward(retain_graph=True)
        log.append(plain(y.grad))
    log.append(y.retains_grad)
    log.append(x.retains_grad)
    x.retain_grad()
    log.append(x.retains_grad)
    return [x.grad, y.grad]


def accumulated(library: Any, log: Any) -> Any:
    x, w = leaf(1, 2, library=library), leaf(3, 4, library=library)
    x.register_hook(lambda g: log.append(("hook", plain(x.grad), plain(g))))
    x.register_post_accumulate_grad_hook(lambda p: log.append(("post", p is x, plain(p.grad))))
    w.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
    for _ in range(2):
        (x * w).sum().backward()
        log.append(w.grad is None)
    grad_of_x = library.autograd.grad((x * w).sum(), x)[0]
    log.append(plain(grad_of_x))
    return x.grad


def of_nodes(library: Any, log: Any) -> Any:
    x, w = leaf(1, 2, library=library), leaf(3, 4, library=library)
    y = x * w
    z = y.exp()
    node = y.grad_fn
    z.grad_fn.register_prehook(lambda outs: log.append(("exp pre", plain(outs))))
    z.grad_fn.register_hook(lambda ins, outs: log.append(("exp", len(ins), plain(outs))))
    node.register_prehook(lambda outs: tuple(g * 0 + 1 for g in outs))
    node.register_prehook(lambda outs: log.append(("mul pre", plain(outs))))
    node.register_hook(lambda ins, outs: log.append(("mul", plain(ins), plain(outs))))
    node.register_hook(lambda ins, outs: (ins[0] * 2, ins[1] * 3))
    node.register_hook(lambda ins, outs: log.append(("mul again", plain(ins), plain(outs))))
    y.register_hook(lambda g: log.append("tensor first"))
    z.sum().backward()
    return [x.grad, w.grad]


def of_accumulation(library: Any, log: Any) -> Any:
    x = leaf(1, 2, library=library)
    y = x * 3
    node = y.grad_fn.next_functions[0][0]
    node.register_prehook(lambda outs: log.append(("pre", plain(x.grad), plain(outs))))
    node.register_hook(lambda ins, outs: log.append(("post", plain(x.grad), len(ins), plain(outs))))
    x.register_hook(lambda g: log.append("tensor"))
    x.register_post_accumulate_grad_hook(lambda p: log.append("accumulated"))
    y.sum().backward()
    return x.grad


def of_several_outputs(library: Any, log: Any) -> Any:
    class Two(library.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            log.append(("backward", plain(a), plain(b)))
            return 2 * a + 3 * b

    x = leaf(1, 2, library=library)
    a, b = Two.apply(x)
    a.register_hook(lambda g: log.append(("a", plain(g))))
    b.register_hook(lambda g: log.append(("b", plain(g))))
    a.grad_fn.register_prehook(lambda outs: log.append(("pre", [g is None for g in outs])))
    (a + b).sum().backward()
    return x.grad


def removed(library: Any, log: Any) -> Any:
    x = leaf(1, 2, library=library)
    y = x * 3
    handles = [y.register_hook(lambda g, k=k: log.append((k, plain(g)))) for k in range(3)]
    once = x.register_hook(lambda g: (once.remove(), g * 5)[1])
    with x.register_post_accumulate_grad_hook(lambda p: log.append("inside")):
        handles[1].remove()
        y.sum().backward(retain_graph=True)
    handles[1].remove()
    handles[0].remove()
    y.sum().backward()
    return x.grad


def through_recorded_passes(library: Any, log: Any) -> Any:
    x = leaf(1, 2, library=library)
    y = x * x
    y.register_hook(lambda g: (log.append(g.requires_grad), g * x)[1])
    (first,) = library.autograd.grad((y * y).sum(), x, create_graph=True)
    first.register_hook(lambda g: log.append(("first", plain(g))))
    first.sum().backward()
    return [first, x.grad]


def captured(library: Any, log: Any) -> Any:
    x = leaf(1, 2, library=library)
    y = x * 3
    z = y * y
    y.register_hook(lambda g: g * 2)
    x.register_hook(lambda g: g + 1)
    x.register_post_accumulate_grad_hook(lambda p: log.append("never"))
    (of_y,) = library.autograd.grad(z.sum(), y, retain_graph=True)
    return [*library.autograd.grad(z.sum(), x), of_y, x.grad]


@pytest.mark.parity
@pytest.mark.parametrize(
    "program",
    [
        replacing,
        once_for_the_sum,
        before_and_after_writes,
        retained,
        accumulated,
        of_nodes,
        of_accumulation,
        of_several_outputs,
        removed,
        through_recorded_passes,
        captured,
    ],
)
def test_as_pytorch(program: Callable[[Any, Any], Any]) -> None:
    torch = pytest.importorskip("torch")
    mine: list[Any] = []
    theirs: list[Any] = []
    result, expected = program(tensor, mine), program(torch, theirs)
    assert mine == theirs
    assert plain(result) == plain(expected)
    assert mine or program is captured


# Places and life


def test_hooks_of_tensors_on_devices(device: drv.Device) -> None:
    x = leaf(1, 2, device="cuda")
    y = x * 3
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    x.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(10))
    (y * y).sum().backward()
    assert y.grad.tolist() == [12, 24]
    assert x.grad.tolist() == [360, 720]


def test_a_step_of_the_optimizer_in_the_hook() -> None:
    x = leaf(1, 2)

    def step(p: Any) -> None:
        with tensor.no_grad():
            p.sub_(p.grad)
        p.grad = None

    x.register_post_accumulate_grad_hook(step)
    for expected in ([-1, -2], [1, 2]):
        (x * x).sum().backward()
        assert x.tolist() == expected
        assert x.grad is None


def test_hooks_keep_no_graph() -> None:
    gc.disable()
    try:
        x = leaf(1)
        y = x * 2
        handle = y.register_hook(print)
        y.retain_grad()
        node_handle = y.grad_fn.register_hook(print)
        died = weakref.ref(y), weakref.ref(y.grad_fn)
        del y
        assert died[0]() is None
        assert died[1]() is None
        handle.remove()
        node_handle.remove()
    finally:
        gc.enable()


def test_a_failing_hook_leaves_everything_usable() -> None:
    x = leaf(1, 2)
    y = x * 3

    def fail(g: Any) -> Any:
        raise KeyError("in the hook")

    for register in (y.register_hook, y.grad_fn.register_prehook, x.register_post_accumulate_grad_hook):
        with register(fail), pytest.raises(KeyError, match="in the hook"):
            y.sum().backward(retain_graph=True)
        x.grad = None
    assert tensor.is_grad_enabled()
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_a_pass_inside_a_hook() -> None:
    x, w = leaf(1, 2), leaf(3, 4)
    y = x * 3

    def nested(g: Any) -> Any:
        with tensor.enable_grad():
            (w * w).sum().backward()
        return g + w.grad

    y.register_hook(nested)
    y.sum().backward()
    assert w.grad.tolist() == [6, 8]
    assert x.grad.tolist() == [21, 27]


def test_hooks_are_registered_while_a_pass_runs() -> None:
    x = leaf(1)
    y = x * 2
    seen: list[str] = []
    y.register_hook(lambda g: y.register_hook(lambda g: seen.append("new")) and None)
    y.backward(retain_graph=True)
    assert seen == []
    y.backward()
    assert seen == ["new"]


# Errors


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (lambda g: 3, TypeError, "hook 'hook' returned int: expected a Tensor, or None"),
        (lambda g: g[:1], RuntimeError, r"changed the size of value: \[1\] instead of \[2\]"),
        (
            lambda g: g.double(),
            RuntimeError,
            r"changed the type of value: tensor.float64 instead of tensor.float32",
        ),
    ],
)
def test_wrong_gradients(given: Any, error: type[Exception], message: str) -> None:
    def hook(*args: Any) -> Any:
        return given(args[0])

    def pre(outs: Any) -> Any:
        return (given(outs[0]),)

    def hook_of_node(ins: Any, outs: Any) -> Any:
        return given(ins[0]), None

    x = leaf(1, 2)
    y = x * 3
    for register, function in (
        (x.register_hook, hook),
        (y.register_hook, hook),
        (y.grad_fn.register_prehook, pre),
        (y.grad_fn.register_hook, hook_of_node),
    ):
        text = message.replace("'hook'", f"'{function.__name__}'")
        with register(function), pytest.raises(error, match=text):
            y.sum().backward(retain_graph=True)
    assert x.grad is None


def test_wrong_devices(device: drv.Device) -> None:
    x = leaf(1, 2, device="cuda")
    x.register_hook(lambda g: g.cpu())
    with pytest.raises(RuntimeError, match=r"changed the device of value: .*cpu.* instead of .*cuda"):
        (x * 2).sum().backward()


def test_wrong_numbers_of_gradients() -> None:
    y = leaf(1, 2) * leaf(3, 4)
    with (
        y.grad_fn.register_hook(lambda ins, outs: ins[:1]),
        pytest.raises(RuntimeError, match="incorrect number of values: got 1, expected 2"),
    ):
        y.sum().backward(retain_graph=True)
    with (
        y.grad_fn.register_prehook(lambda outs: (*outs, None)),
        pytest.raises(RuntimeError, match="incorrect number of values: got 2, expected 1"),
    ):
        y.sum().backward()


def test_where_no_hook_can_be() -> None:
    x = leaf(1)
    without = tensor.ones(1)
    for register in (without.register_hook, without.register_post_accumulate_grad_hook):
        with pytest.raises(
            RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"
        ):
            register(print)
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"):
        without.retain_grad()
    with pytest.raises(RuntimeError, match="post accumulate grad hooks cannot be registered on non-leaf"):
        (x * 2).register_post_accumulate_grad_hook(print)
    for register in (x.register_hook, (x * 2).register_hook, (x * 2).grad_fn.register_hook):
        with pytest.raises(TypeError, match="a hook must be callable, got int"):
            register(3)


def test_hooks_see_no_gradients_that_are_none() -> None:
    class Two(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            return 2 * a + 3 * b

    a, b = Two.apply(leaf(1, 2))
    seen: list[Any] = []
    a.register_hook(lambda g: seen.append(plain(g)))
    b.register_hook(seen.append)
    a.sum().backward()
    assert seen == [[1, 1]]


def test_hooks_of_an_edge() -> None:
    x = leaf(1, 2)
    seen: list[Any] = []
    node = get_gradient_edge(x).node
    node.register_prehook(lambda outs: seen.append(plain(outs)))
    (x * 2).sum().backward()
    assert seen == [[[2, 2]]]
    assert grad((x * 3).sum(), get_gradient_edge(x))[0].tolist() == [3, 3]
