"""``autograd.graph``: hooks on what is saved, on several gradients, and edges."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest

import tensor
from tensor.autograd import backward, grad
from tensor.autograd.graph import (
    Node,
    disable_saved_tensors_hooks,
    get_gradient_edge,
    increment_version,
    register_multi_grad_hook,
    saved_tensors_hooks,
)


def leaf(*values: float, device: str = "cpu") -> Any:
    return tensor.tensor(values, dtype=tensor.float32, device=device, requires_grad=True)


def ones(x: Any) -> Any:
    return tensor.ones(x.shape, device=x.device)


# Hooks on what is saved


def test_what_is_saved_goes_through_the_hooks() -> None:
    packed, unpacked = [], []

    def pack(x: Any) -> Any:
        assert not x.requires_grad
        assert not tensor.is_grad_enabled()
        packed.append(x.tolist())
        return x.tolist()

    def unpack(values: Any) -> Any:
        unpacked.append(values)
        return tensor.tensor(values)

    x, y = leaf(1, 2), leaf(3, 4)
    with saved_tensors_hooks(pack, unpack):
        z = x * y
    assert sorted(packed) == [[1, 2], [3, 4]]
    assert unpacked == []
    z.backward(ones(z))
    assert sorted(unpacked) == sorted(packed)
    assert x.grad.tolist() == [3, 4]
    assert y.grad.tolist() == [1, 2]


def test_the_innermost_pair_counts_and_ends_with_its_block() -> None:
    seen: list[str] = []

    def hooks(name: str) -> saved_tensors_hooks:
        return saved_tensors_hooks(lambda x: (seen.append(name), x)[1], lambda x: x)

    x = leaf(1)
    with hooks("outer"):
        with hooks("inner"):
            x.exp()
        x.exp()
    x.exp()
    assert seen == ["inner", "outer"]
    in_thread = threading.Thread(target=lambda: x.exp())
    with hooks("mine"):
        in_thread.start()
        in_thread.join()
    assert seen == ["inner", "outer"]


@pytest.mark.parametrize("operation", [lambda x, w: x * w, lambda x, w: (x * w).exp()])
def test_second_derivatives_through_packed_tensors(operation: Any) -> None:
    def program() -> list[Any]:
        x, w = leaf(1, 2), leaf(3, 4)
        y = operation(x * 1, w * 1)
        first = grad(y * y, (x, w), ones(y), create_graph=True)
        (first[0] * first[1]).backward(ones(y))
        return [each.tolist() for each in (*first, x.grad, w.grad)]

    plain = program()
    with saved_tensors_hooks(lambda x: x.tolist(), tensor.tensor):
        assert program() == plain


def test_pack_hooks_must_not_write() -> None:
    x = leaf(1).clone()
    with saved_tensors_hooks(lambda t: t.add_(1), lambda t: t), pytest.raises(RuntimeError, match="in place"):
        x.exp() * x


def test_unpack_hooks_must_give_tensors() -> None:
    x = leaf(1)
    with saved_tensors_hooks(lambda t: t, lambda t: 5):
        y = x.exp()
    with pytest.raises(TypeError, match="unpack_hook expected to be a Tensor but got result of type int"):
        y.backward()


def test_hooks_can_be_disabled() -> None:
    hooks = saved_tensors_hooks(lambda t: t, lambda t: t)
    with disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="not here"), hooks:
            pass
        with disable_saved_tensors_hooks("nor here"), pytest.raises(RuntimeError, match="nor here"), hooks:
            pass
        with pytest.raises(RuntimeError, match="not here"), hooks:
            pass
    with hooks, pytest.raises(RuntimeError, match="too late"), disable_saved_tensors_hooks("too late"):
        pass
    with hooks:
        assert leaf(1).exp().requires_grad


# Versions


def test_increment_version() -> None:
    x, w = leaf(1).clone(), leaf(2).clone()
    y = x * w
    before = x._version
    increment_version([x])
    assert x._version == before + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
    with pytest.raises(TypeError, match="got int"):
        increment_version([3])


# Edges


def test_edges_in_place_of_tensors() -> None:
    x = leaf(1, 2)
    y = x * 3
    z = y.exp()
    edge = get_gradient_edge(y)
    assert edge.node is y.grad_fn
    assert edge.output_nr == 0
    assert isinstance(edge.node, Node)
    (by_tensor,) = grad(z, y, ones(z), retain_graph=True)
    (by_edge,) = grad(z, edge, ones(z), retain_graph=True)
    assert by_edge.tolist() == by_tensor.tolist()
    backward(get_gradient_edge(z), ones(z), retain_graph=True)
    assert x.grad.tolist() == (3 * by_tensor).tolist()
    x.grad = None
    backward(z, ones(z), inputs=[get_gradient_edge(x)])
    assert x.grad.tolist() == (3 * by_tensor).tolist()
    assert type(get_gradient_edge(x).node).__name__ == "AccumulateGrad"
    assert get_gradient_edge(x).node.variable is x
    with pytest.raises(RuntimeError, match="does not require gradients"):
        get_gradient_edge(x.detach())


# Hooks on several gradients


def test_all_gradients() -> None:
    a, b, c = leaf(1), leaf(2), leaf(3)
    calls: list[Any] = []
    with register_multi_grad_hook([a, b, c], calls.append):
        (a * b).backward()
        assert [None if g is None else g.item() for g in calls[-1]] == [2, 1, None]
        (a * b * c).backward()
        assert [g.item() for g in calls[-1]] == [6, 3, 2]
        (a * b * c).backward(inputs=[b])
        assert [None if g is None else g.item() for g in calls[-1]] == [None, 3, None]
        assert len(calls) == 3
    (a * b).backward()
    assert len(calls) == 3


def test_any_gradient() -> None:
    a, b = leaf(1), leaf(2)
    mid = a * b
    calls: list[Any] = []
    register_multi_grad_hook([a, b, mid], calls.append, mode="any")
    for _ in range(2):
        mid.exp().backward(retain_graph=True)
    assert len(calls) == 2
    with pytest.raises(ValueError, match="'all', 'any'"):
        register_multi_grad_hook([a], calls.append, mode="some")
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        register_multi_grad_hook([a.detach()], calls.append)


def test_all_gradients_keep_no_graph() -> None:
    a, b = leaf(1), leaf(2)
    gc.disable()
    try:
        mid = a * b
        handle = register_multi_grad_hook([a, mid], print)
        died = weakref.ref(mid.grad_fn)
        del mid
        assert died() is None
        handle.remove()
    finally:
        gc.enable()
