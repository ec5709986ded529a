"""``utils.checkpoint``: the same gradients, without the activations."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

import drv
import tensor
from tensor import cuda
from tensor.autograd import grad
from tensor.utils import forward_state
from tensor.utils.checkpoint import (
    checkpoint,
    checkpoint_sequential,
)

from .functions import Counted, leaf, plainly, wave

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def gradients(call: Callable[..., Any], *, device: str = "cpu") -> list[Any]:
    x, w = leaf(1, 2, 3, device=device), leaf(0.5, -1, 2, device=device)
    out = call(wave, x * 1, w)
    (out * out).sum().backward()
    return [out.tolist(), x.grad.tolist(), w.grad.tolist()]


@pytest.fixture(params=[False, True], ids=["non-reentrant", "reentrant"])
def use_reentrant(request: pytest.FixtureRequest) -> bool:
    return request.param


# Both ways


def test_gradients(device_name: str, use_reentrant: bool) -> None:
    counted = Counted(wave)
    result = gradients(
        lambda _, *args: checkpoint(counted, *args, use_reentrant=use_reentrant), device=device_name
    )
    assert result == gradients(plainly, device=device_name)
    assert counted.calls == 2


def test_nested(use_reentrant: bool) -> None:
    def twice(inner: Any, *args: Any) -> Any:
        x, w = args
        middle = checkpoint(
            lambda x, w: checkpoint(inner, x, w, use_reentrant=use_reentrant) * w,
            x,
            w,
            use_reentrant=use_reentrant,
        )
        return checkpoint(inner, middle, w, use_reentrant=use_reentrant)

    def plain_twice(inner: Any, x: Any, w: Any) -> Any:
        return inner(inner(x, w) * w, w)

    assert gradients(twice) == gradients(plain_twice)


def test_several_outputs_and_arguments_that_are_no_tensors(use_reentrant: bool) -> None:
    def function(x: Any, factor: float, flag: Any) -> Any:
        assert flag is None
        return x * factor, "text", x.detach(), x.exp()

    x = leaf(1, 2)
    first, text, plain, last = checkpoint(function, x, 3.0, None, use_reentrant=use_reentrant)
    assert text == "text"
    assert not plain.requires_grad or use_reentrant
    (first.sum() + last.sum()).backward()
    assert x.grad.tolist() == pytest.approx((3 + x.exp()).tolist())


def test_an_unused_output(use_reentrant: bool) -> None:
    x = leaf(1, 2)
    first, _ = checkpoint(lambda x: (x * x, x.exp()), x, use_reentrant=use_reentrant)
    first.sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_random_numbers_come_again(device_name: str, use_reentrant: bool) -> None:
    def noisy(x: Any) -> Any:
        mask = tensor.rand(x.shape, device=x.device) + tensor.rand(x.shape).to(x.device)
        return (x * mask).exp()

    tensor.manual_seed(3)
    x = leaf(1, 2, 3, device=device_name)
    checkpoint(noisy, x, use_reentrant=use_reentrant).sum().backward()
    after = tensor.rand(2).tolist(), tensor.rand(2, device=device_name).tolist()
    tensor.manual_seed(3)
    y = leaf(1, 2, 3, device=device_name)
    noisy(y).sum().backward()
    assert x.grad.tolist() == y.grad.tolist()
    assert after == (tensor.rand(2).tolist(), tensor.rand(2, device=device_name).tolist())


def test_random_numbers_go_on_if_wanted(use_reentrant: bool) -> None:
    drawn: list[Any] = []

    def noisy(x: Any) -> Any:
        drawn.append(tensor.rand(2).tolist())
        return x.exp()

    for preserve in (True, False):
        drawn.clear()
        x = leaf(1, 2)
        checkpoint(noisy, x, use_reentrant=use_reentrant, preserve_rng_state=preserve).sum().backward()
        assert (drawn[0] == drawn[1]) is preserve


@pytest.mark.simulator_only
def test_random_numbers_of_devices_that_were_unknown(
    use_reentrant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHROOT_DRIVER", "simulator")
    x = leaf(1)
    y = checkpoint(lambda x: (x * tensor.rand(1, device="cuda").cpu()).exp(), x, use_reentrant=use_reentrant)
    with pytest.raises(
        RuntimeError, match=r"call tensor.cuda.init\(\) earlier, or pass preserve_rng_state=False"
    ):
        y.backward()


def test_memory(device: drv.Device, use_reentrant: bool) -> None:
    def deep(x: Any) -> Any:
        for _ in range(10):
            x = x.sin()
        return x

    def used(call: Callable[..., Any]) -> int:
        x = tensor.ones(1 << 16, device="cuda", requires_grad=True)
        before = cuda.memory_allocated()
        y = call(deep, x)
        held = cuda.memory_allocated() - before
        y.sum().backward()
        assert x.grad[0].item() != 0
        return held

    size = 1 << 18
    assert used(plainly) == 10 * size
    assert used(lambda *args: checkpoint(*args, use_reentrant=use_reentrant)) == size


def test_nothing_is_recorded_without_need(use_reentrant: bool) -> None:
    counted = Counted(lambda x: x.exp())
    with tensor.no_grad():
        assert not checkpoint(counted, leaf(1), use_reentrant=use_reentrant).requires_grad
    assert counted.calls == 1


def test_errors_of_the_function_pass(use_reentrant: bool) -> None:
    def failing(x: Any) -> Any:
        if counted.calls == 2:
            raise KeyError("not again")
        return x.exp()

    counted = Counted(failing)
    y = checkpoint(counted, leaf(1), use_reentrant=use_reentrant)
    with pytest.raises(KeyError, match="not again"):
        y.backward()


def test_arguments_must_not_be_written(use_reentrant: bool) -> None:
    x = leaf(1, 2).clone()
    y = checkpoint(lambda x: x.exp(), x, use_reentrant=use_reentrant)
    x.mul_(2)
    name = (
        "CheckpointFunctionBackward" if use_reentrant else r"the arguments of a function under checkpoint\(\)"
    )
    with pytest.raises(RuntimeError, match=rf"modified by an inplace operation.*needed by {name}"):
        y.sum().backward()


@pytest.mark.simulator_only
@pytest.mark.parametrize(
    "options",
    [{"schedule": "eager"}, {"schedule": "lazy"}, *({"schedule": "random", "seed": s} for s in range(3))],
    ids=str,
)
def test_streams_are_those_of_the_first_run(options: Any, use_reentrant: bool) -> None:
    drv.simulator.install(check="race", **options)
    outer, inner = cuda.Stream(), cuda.Stream()

    def two_streams(x: Any, w: Any) -> Any:
        mine = cuda.current_stream()
        inner.wait_stream(mine)
        with cuda.stream(inner):
            left = (x * w).sin()
        right = (x + w).exp()
        mine.wait_stream(inner)
        left.record_stream(mine)
        return (left * right).cos()

    def program(call: Callable[..., Any]) -> list[Any]:
        x, w = leaf(1, 2, 3, device="cuda"), leaf(0.5, -1, 2, device="cuda")
        outer.wait_stream(cuda.current_stream())
        with cuda.stream(outer):
            loss = call(two_streams, x * 1, w).sum()
        loss.backward()
        return [x.grad.tolist(), w.grad.tolist()]

    seen: list[Any] = []

    def checked(function: Any, *args: Any) -> Any:
        def with_streams(*args: Any) -> Any:
            seen.append(cuda.current_stream())
            return function(*args)

        return checkpoint(with_streams, *args, use_reentrant=use_reentrant)

    assert program(checked) == program(plainly)
    assert seen == [outer, outer]
    cuda.synchronize()


def test_the_current_device_is_that_of_the_first_run(
    two_devices: tuple[drv.Device, drv.Device], use_reentrant: bool
) -> None:
    x = leaf(1, 2, device="cuda:0")

    def function(x: Any) -> Any:
        seen.append(cuda.current_device())
        return x.exp().to("cuda").sin()

    seen: list[int] = []
    with cuda.device(1):
        y = checkpoint(function, x, use_reentrant=use_reentrant)
    assert y.device.index == 1
    y.sum().backward()
    assert seen == [1, 1]
    assert cuda.current_device() == 0
    expected = x.detach().exp() * x.detach().exp().cos()
    assert x.grad.tolist() == pytest.approx(expected.tolist(), rel=1e-5)


def test_other_state_is_noted(use_reentrant: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"now": "first"}

    def note() -> Any:
        noted = state["now"]

        @contextlib.contextmanager
        def again() -> Iterator[None]:
            before, state["now"] = state["now"], noted
            try:
                yield
            finally:
                state["now"] = before

        return again

    monkeypatch.setattr(forward_state, "_notes", {})
    forward_state.register("mine", note)
    seen: list[str] = []
    y = checkpoint(lambda x: (seen.append(state["now"]), x.exp())[1], leaf(1), use_reentrant=use_reentrant)
    state["now"] = "later"
    y.backward()
    assert seen == ["first", "first"]
    assert state["now"] == "later"


# Sequences


@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_sequences(segments: int, use_reentrant: bool) -> None:
    steps = [Counted(lambda x, k=k: (x * k).sin()) for k in range(1, 6)]
    x = leaf(1, 2)
    y = checkpoint_sequential(steps, segments, x, use_reentrant=use_reentrant)
    y.sum().backward()
    other = leaf(1, 2)
    expected = other
    for step in steps:
        expected = step.function(expected)
    expected.sum().backward()
    assert x.grad.tolist() == other.grad.tolist()
    last = len(steps) - len(steps) // segments * (segments - 1)
    assert [step.calls for step in steps] == [2] * (len(steps) - last) + [1] * last


def test_sequences_of_modules() -> None:
    class Sequential:
        def children(self) -> Any:
            return iter([lambda x: x * 2, lambda x: x.exp()])

    x = leaf(1)
    checkpoint_sequential(Sequential(), 2, x).backward()
    assert x.grad.tolist() == pytest.approx((2 * (x.detach() * 2).exp()).tolist())
    with pytest.raises(ValueError, match="cannot make 3 segments of 2 functions"):
        checkpoint_sequential(Sequential(), 3, x)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: other"):
        checkpoint_sequential(Sequential(), 2, x, other=1)


# With re-entrance


def test_reentrant_needs_a_whole_pass() -> None:
    x = leaf(1)
    for run in (
        lambda y: grad(y, x),
        lambda y: y.backward(inputs=[x]),
    ):
        y = checkpoint(lambda x: x.exp(), x, use_reentrant=True)
        with pytest.raises(
            RuntimeError, match=r"incompatible with .grad\(\) or passing an `inputs` parameter"
        ):
            run(y)


def test_reentrant_wants_gradients() -> None:
    w = leaf(2)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        assert not checkpoint(lambda x: x * w, leaf(1).detach(), use_reentrant=True).requires_grad
    y = checkpoint(lambda x: x.detach() * 2, leaf(1), use_reentrant=True)
    with pytest.raises(RuntimeError, match="none of output has requires_grad=True"):
        y.backward()


def test_reentrant_has_no_second_derivative() -> None:
    y = checkpoint(lambda x: x.exp(), leaf(1), use_reentrant=True)
    y.backward(create_graph=True)
    x = leaf(1)
    checkpoint(lambda x: x.exp(), x, use_reentrant=True).backward(create_graph=True)
    assert not x.grad.requires_grad


# As PyTorch


@pytest.mark.parity
def test_as_pytorch(use_reentrant: bool) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch.utils.checkpoint")

    def program(library: Any) -> list[Any]:
        x = library.tensor([0.3, 0.7, -0.2], dtype=library.float64, requires_grad=True)
        w = library.tensor([0.5, -1.0, 2.0], dtype=library.float64, requires_grad=True)

        def function(x: Any, w: Any) -> Any:
            y = x * w
            y[1:].mul_(w[:2].detach())
            return y.sin(), y * w

        first, second = library.utils.checkpoint.checkpoint(function, x, w, use_reentrant=use_reentrant)
        (first * second).sum().backward()
        return [x.grad.tolist(), w.grad.tolist()]

    ours, theirs = program(tensor), program(torch)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == pytest.approx(other, rel=1e-12)
