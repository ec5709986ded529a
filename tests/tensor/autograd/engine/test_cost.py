"""What graphs and backward passes cost: no recursion, memory that is linear and given back at once."""

from __future__ import annotations

import gc
import sys
import tracemalloc
import weakref
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

import drv
import tensor
from tensor import cuda
from tensor.autograd import Function, grad

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Far more than Python's stack, or C's, has room for.
MANY = 100_000


@contextmanager
def uncollected() -> Iterator[None]:
    """A block without the collector of cycles, in which it has nothing left over from before."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.fixture
def unexecuted() -> None:
    """A simulated device that runs nothing: what is looked at is memory."""
    drv.simulator.install(memory="8GiB", execute=False, check="off")


def leaf(*values: float, device: str = "cpu") -> Any:
    return tensor.tensor(values, dtype=tensor.float32, device=device, requires_grad=True)


# Long graphs


def chain(x: Any, length: int) -> Any:
    factor = tensor.ones((), device=x.device)
    for _ in range(length):
        x = x * factor
    return x


def test_a_long_chain_is_built_run_and_freed_without_recursion() -> None:
    with uncollected():
        limit = sys.getrecursionlimit()
        x = tensor.ones((), requires_grad=True)
        y = chain(x, MANY)
        node = weakref.ref(y.grad_fn)
        y.backward(retain_graph=True)
        assert x.grad.item() == 1
        (again,) = grad(y, x)
        assert again.item() == 1
        assert sys.getrecursionlimit() == limit
        del y
        assert node() is None


def test_a_long_chain_of_functions() -> None:
    class Same(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient

    x = tensor.ones((), requires_grad=True)
    y = x
    for _ in range(MANY // 20):
        y = Same.apply(y)
    y.backward()
    assert x.grad.item() == 1


def test_a_long_chain_of_writes_in_place() -> None:
    x = tensor.ones((), requires_grad=True)
    y = x.clone()
    for _ in range(MANY // 10):
        y.mul_(1.0)
    y.backward()
    assert x.grad.item() == 1


def test_a_long_chain_that_was_never_run_backward_is_freed() -> None:
    with uncollected():
        y = chain(tensor.ones((), requires_grad=True), MANY // 2)
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None


def test_a_long_graph_on_a_device(device: drv.Device) -> None:
    x = tensor.ones((), device="cuda", requires_grad=True)
    y = chain(x, 500)
    y.backward()
    assert x.grad.item() == 1


def test_gradients_of_one_tensor_are_counted_not_stacked() -> None:
    x = tensor.ones((), requires_grad=True)
    total = x * 0.0
    for _ in range(MANY // 10):
        total = total + x
    total.backward()
    assert x.grad.item() == MANY // 10


def test_a_doubling_graph_is_walked_once_per_node() -> None:
    x = tensor.ones((), dtype=tensor.float64, requires_grad=True)
    y = x
    for _ in range(200):
        y = y + y
    y.backward()
    assert x.grad.item() == 2.0**200


def memory_of(length: int) -> tuple[int, int]:
    """Bytes that a chain takes, and those that its pass takes in addition at most."""
    x = tensor.ones((), requires_grad=True)
    chain(x, 10).backward()
    tracemalloc.start()
    try:
        start = tracemalloc.get_traced_memory()[0]
        y = chain(x, length)
        built = tracemalloc.get_traced_memory()[0] - start
        tracemalloc.reset_peak()
        y.backward()
        return built, tracemalloc.get_traced_memory()[1] - start - built
    finally:
        tracemalloc.stop()


def test_memory_is_linear_in_the_length() -> None:
    with uncollected():
        short, long = memory_of(1000), memory_of(8000)
    assert 6 < long[0] / short[0] < 9
    # Hash tables grow by doubling.
    assert long[1] / short[1] < 18
    assert sum(long) / 8000 < 1200


# Without the collector of cycles


@pytest.mark.simulator_only
def test_training_without_the_collector_leaves_memory_flat(unexecuted: None) -> None:
    weights = [tensor.ones(8, 8, device="cuda", requires_grad=True) for _ in range(2)]
    x = tensor.ones(4, 8, device="cuda")

    def step() -> None:
        y = x
        for weight in weights:
            y = (y @ weight).tanh()
        (y * y).mean().backward()
        with tensor.no_grad():
            for weight in weights:
                weight.sub_(weight.grad, alpha=0.01)
                weight.grad = None

    def figures() -> dict[str, int]:
        result = cuda.memory_stats()
        return {key: result[key] for key in result if key.endswith(("current", "peak"))}

    with uncollected():
        for _ in range(3):
            step()
        cuda.reset_peak_memory_stats()
        step()
        before, objects = figures(), len(gc.get_objects())
        assert before["allocation.all.peak"] > before["allocation.all.current"] >= 3
        for _ in range(1000):
            step()
        assert figures() == before
        assert len(gc.get_objects()) <= objects + 20
        # None of it in every step.
        assert gc.collect() < 100


def made_graph(kind: str) -> Any:
    """A loss, of a graph of each kind of node."""
    x = leaf(1, 2, 3)
    if kind == "plain":
        return (x * x).exp().sum()
    if kind == "view":
        return (x.view(3, 1).t() * x[1:].sum()).sum()
    if kind == "in place":
        y = x.clone()
        y[1:].mul_(2.0)
        return (y.exp_() * y).sum()
    if kind == "hooks":
        y = x * 2.0
        y.register_hook(lambda gradient: gradient * 2.0)
        y.retain_grad()
        return y.sum()
    if kind == "leaf hooks":
        x.register_hook(lambda gradient: gradient * 2.0)
        x.register_post_accumulate_grad_hook(lambda x: None)
        return (x * x).sum()
    if kind == "double":
        (first,) = grad((x * x * x).sum(), x, create_graph=True)
        return first.sum()

    class Twice(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x * 2.0
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            x, y = ctx.saved_tensors
            return gradient * 2.0 + 0.0 * (x + y)

    return Twice.apply(x).sum()


@pytest.mark.parametrize("run", [False, True])
@pytest.mark.parametrize("kind", ["plain", "view", "in place", "hooks", "leaf hooks", "double", "function"])
def test_graphs_need_no_collector(kind: str, run: bool) -> None:
    with uncollected():
        loss = made_graph(kind)
        nodes = [weakref.ref(loss.grad_fn)]
        for above in loss.grad_fn.next_functions:
            nodes.append(weakref.ref(above[0]))
        del above
        if run:
            loss.backward()
        del loss
        assert [node() for node in nodes] == [None] * len(nodes)


def test_a_pass_that_fails_leaves_no_cycle() -> None:
    class Failing(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            raise ZeroDivisionError

    with uncollected():
        y = (Failing.apply(leaf(1, 2, 3)) * 2.0).sum()
        node = weakref.ref(y.grad_fn)
        with suppress(ZeroDivisionError):
            y.backward()
        del y
        assert node() is None


@pytest.mark.parametrize("registers", ["register_hook", "grad_fn.register_hook", "grad_fn.register_prehook"])
def test_a_cycle_through_a_hook_is_collected(registers: str) -> None:
    with uncollected():
        y = leaf(1, 2, 3) * 2.0
        z = y.exp()
        node = weakref.ref(y.grad_fn)
        register: Any = y
        for name in registers.split("."):
            register = getattr(register, name)
        # The hook refers to a tensor whose graph has the hook.
        register(lambda *gradients, tensor=z: None)
        z.sum().backward()
        del y, z, register
        assert node() is not None
        gc.collect()
        assert node() is None


# Memory of a pass


def peak_over(start: int) -> int:
    return cuda.max_memory_allocated() - start


@pytest.mark.simulator_only
def test_a_deep_network_takes_its_activations_parameters_and_gradients(unexecuted: None) -> None:
    layers, width, batch = 24, 128, 512
    # The workspace of cuBLAS is there.
    tensor.zeros(2, 2, device="cuda") @ tensor.zeros(2, 2, device="cuda")
    start = cuda.memory_allocated()
    weights = [tensor.zeros(width, width, device="cuda", requires_grad=True) for _ in range(layers)]
    biases = [tensor.zeros(width, device="cuda", requires_grad=True) for _ in range(layers)]
    parameters = cuda.memory_allocated() - start
    x = tensor.zeros(batch, width, device="cuda")
    for _ in range(3):
        before = cuda.memory_allocated()
        cuda.reset_peak_memory_stats()
        y = x
        for weight, bias in zip(weights, biases, strict=True):
            y = (y @ weight + bias).tanh()
        loss = (y * y).mean()
        del y
        activations = cuda.memory_allocated() - before
        # One per layer, and what the loss keeps.
        assert activations <= (layers + 3) * batch * width * 4
        loss.backward()
        assert cuda.max_memory_allocated() - start <= 1.1 * (activations + 2 * parameters)
        for each in (*weights, *biases):
            each.grad = None


@pytest.mark.simulator_only
@pytest.mark.parametrize("retain_graph", [False, True])
def test_gradients_are_freed_as_soon_as_they_were_used(unexecuted: None, retain_graph: bool) -> None:
    size, steps = 1 << 20, 40
    x = tensor.zeros(size // 4, device="cuda", requires_grad=True)
    y = x
    for _ in range(steps):
        y = y.exp() + x
    gradient = tensor.zeros(size // 4, device="cuda")
    start = cuda.memory_allocated()
    cuda.reset_peak_memory_stats()
    y.backward(gradient, retain_graph=retain_graph)
    # The gradient of x, the one that arrives and the one that leaves.
    assert peak_over(start) <= 3 * size
    if not retain_graph:
        del y
        # What the exponentials kept is gone, and for the sum there is the gradient.
        assert cuda.memory_allocated() == start - steps * size


@pytest.mark.simulator_only
def test_gradients_are_added_up_in_place(unexecuted: None) -> None:
    x = tensor.zeros(1000, device="cuda", requires_grad=True)

    def allocations_of(uses: int) -> int:
        y = x.exp()
        total = y * 1.0
        for _ in range(uses - 1):
            total = total + y * 1.0
        gradient = tensor.zeros(1000, device="cuda")
        before = cuda.memory_stats()["allocation.all.allocated"]
        total.backward(gradient)
        return cuda.memory_stats()["allocation.all.allocated"] - before

    allocations_of(1)
    held = x.grad.data_ptr()
    # One for each product, and the gradient of the exponential: none for the sums.
    assert allocations_of(8) == 8 + 1
    assert x.grad.data_ptr() == held


# Memory that others hold is left alone


@pytest.mark.parametrize("gradient", ["given", "hook", "view"])
def test_what_others_hold_is_not_added_to(gradient: str, device_name: str) -> None:
    x = leaf(1, 2, 3, device=device_name)
    argument = tensor.ones(3, device=device_name)
    kept = [argument]
    y = x.view_as(x)
    if gradient == "hook":
        y.register_hook(lambda arrived: kept.append(arrived * 1.0) or kept[-1])
    elif gradient == "view":
        y.register_hook(lambda arrived: kept.append((arrived * 1.0).view(3)) or kept[-1][:])
    for _ in range(3):
        y.backward(argument, retain_graph=True)
    assert [each.tolist() for each in kept] == [[1.0] * 3] * len(kept)
    assert x.grad.tolist() == [3.0] * 3


def test_leaves_that_get_one_gradient_do_not_share_it(device_name: str) -> None:
    a, b = leaf(1, 2, device=device_name), leaf(3, 4, device=device_name)
    (a + b).sum().backward()
    assert a.grad.data_ptr() != b.grad.data_ptr()
    a.grad.zero_()
    assert b.grad.tolist() == [1, 1]


def test_sums_leave_alone_what_hooks_keep(device_name: str) -> None:
    x = leaf(1, 2, 3, device=device_name)
    y = x * 1.0
    kept: list[Any] = []
    parts = [y * float(factor) for factor in range(1, 4)]
    for part in parts:
        part.grad_fn.register_hook(lambda inputs, outputs: kept.append(inputs[0]))
    (parts[0] + parts[1] + parts[2]).backward(tensor.ones(3, device=device_name))
    assert sorted(each.tolist() for each in kept) == [[1.0] * 3, [2.0] * 3, [3.0] * 3]
    assert x.grad.tolist() == [6.0] * 3
