"""``save_on_cpu``: what the graph saves waits in host memory, and comes back in time."""

from __future__ import annotations

from typing import Any

import pytest

import drv
import tensor
from tensor import cuda
from tensor.autograd import grad
from tensor.autograd.graph import save_on_cpu, saved_tensors_hooks

SCHEDULES = [
    {"schedule": "eager"},
    {"schedule": "lazy"},
    *({"schedule": "random", "seed": seed} for seed in range(4)),
]


def leaf(*values: float, device: str = "cpu") -> Any:
    return tensor.tensor(values, dtype=tensor.float32, device=device, requires_grad=True)


def ones(x: Any) -> Any:
    return tensor.ones(x.shape, device=x.device)


# In host memory


@pytest.mark.parametrize("pin_memory", [False, True])
def test_save_on_cpu(device: drv.Device, pin_memory: bool) -> None:
    x, w = leaf(1, 2, 3, device="cuda"), leaf(4, 5, 6, device="cuda")
    kept = []
    with save_on_cpu(pin_memory=pin_memory) as hooks:
        pack = hooks.pack_hook
        y = (x * w).exp()
        kept.append(pack(y.detach()))
    assert kept[0].tensor.device.type == "cpu"
    assert kept[0].tensor.is_pinned() == pin_memory
    y.backward(ones(y))
    expected = (x * w).exp() * w
    assert x.grad.tolist() == expected.tolist()


def test_save_on_cpu_frees_device_memory(device: drv.Device) -> None:
    def peak(**options: Any) -> int:
        x = tensor.ones(1 << 16, device="cuda", requires_grad=True)
        start = cuda.memory_allocated()
        with save_on_cpu(**options) if options else saved_tensors_hooks(lambda t: t, lambda t: t):
            y = x
            for _ in range(8):
                y = y.exp().log()
        used = cuda.memory_allocated() - start
        y.backward(ones(y))
        return used

    assert peak() > 8 * (1 << 18)
    assert peak(pin_memory=True) <= 1 << 18
    assert peak(pin_memory=False) <= 1 << 18


def test_save_on_cpu_of_strided_and_half_tensors(device: drv.Device) -> None:
    x = tensor.arange(12, dtype=tensor.float16, device="cuda").reshape(3, 4).t().requires_grad_()
    with save_on_cpu(pin_memory=True):
        y = x[1:] * x[1:]
    y.backward(tensor.ones(3, 3, dtype=tensor.float16, device="cuda"))
    assert x.grad.tolist() == [[0, 0, 0], *(2 * x[1:].detach()).tolist()]


def test_save_on_cpu_leaves_cpu_tensors_where_they_are_and_checks_them() -> None:
    x = leaf(1, 2).clone()
    with save_on_cpu(pin_memory=True):
        y = x * x
    assert not y.grad_fn.saved[0].packed.tensor.is_pinned()
    x.add_(1)
    with pytest.raises(
        RuntimeError, match=r"saved under save_on_cpu\(\), is at version 1; expected version 0"
    ):
        y.backward(ones(y))


# On streams


def chain(x: Any, steps: int) -> Any:
    """Activations whose memory is free, but for the graph's copies, as soon as the next one has been made."""
    for _ in range(steps):
        x = (x * 1.5).sin()
    return x


def expected_gradient(steps: int) -> list[float]:
    x = leaf(1, 2, 3)
    chain(x, steps).sum().backward()
    return x.grad.tolist()


@pytest.mark.simulator_only
@pytest.mark.parametrize("options", SCHEDULES, ids=str)
@pytest.mark.parametrize("pin_memory", [False, True])
def test_on_a_side_stream(options: Any, pin_memory: bool) -> None:
    drv.simulator.install(check="race", **options)
    x = leaf(1, 2, 3, device="cuda")
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side), save_on_cpu(pin_memory=pin_memory):
        loss = chain(x, 4).sum()
    # Memory that the activations had is used again, on both streams.
    with cuda.stream(side):
        tensor.full((64,), 7.0, device="cuda")
    tensor.full((64,), 9.0, device="cuda")
    loss.backward()
    assert x.grad.tolist() == pytest.approx(expected_gradient(4), rel=1e-5)
    cuda.synchronize()


@pytest.mark.simulator_only
@pytest.mark.parametrize("options", SCHEDULES, ids=str)
@pytest.mark.sampled(4)
def test_pinned_memory_is_used_again_in_the_next_step(options: Any) -> None:
    drv.simulator.install(check="race", **options)
    x = leaf(1, 2, 3, device="cuda")
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    for _ in range(3):
        x.grad = None
        with save_on_cpu(pin_memory=True), cuda.stream(side):
            chain(x, 3).sum().backward()
            first = x.grad.clone()
        with save_on_cpu(pin_memory=True):
            loss = chain(x, 3).sum()
            cuda.current_stream().wait_stream(side)
            loss.backward()
        side.wait_stream(cuda.current_stream())
    cuda.synchronize()
    expected = expected_gradient(3)
    assert first.tolist() == pytest.approx(expected, rel=1e-5)
    assert x.grad.tolist() == pytest.approx([2 * each for each in expected], rel=1e-5)


@pytest.mark.simulator_only
@pytest.mark.parametrize("options", SCHEDULES, ids=str)
def test_brought_back_on_another_stream(options: Any) -> None:
    drv.simulator.install(check="race", **options)
    hooks = save_on_cpu(pin_memory=True)
    one, other = cuda.Stream(), cuda.Stream()
    with cuda.stream(one):
        x = tensor.arange(100.0, device="cuda")
        kept = hooks.pack_hook(x)
        del x
        tensor.zeros(100, device="cuda")
    with cuda.stream(other):
        back = hooks.unpack_hook(kept)
        total = back.sum()
    # The pinned block may be used again only when it has been read.
    del kept
    tensor.full((100,), 5.0, pin_memory=True)
    other.synchronize()
    assert total.item() == 4950


@pytest.mark.simulator_only
@pytest.mark.parametrize("options", SCHEDULES, ids=str)
def test_memory_of_another_stream_is_not_used_again_before_the_copy(options: Any) -> None:
    drv.simulator.install(check="race", **options)
    hooks = save_on_cpu(pin_memory=True)
    x = tensor.arange(100.0, device="cuda")
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        kept = hooks.pack_hook(x)
    del x
    tensor.zeros(100, device="cuda")
    side.synchronize()
    with cuda.stream(side):
        assert hooks.unpack_hook(kept).tolist() == list(range(100))


@pytest.mark.simulator_only
def test_the_host_waits_for_no_copy() -> None:
    drv.simulator.install(schedule="lazy", check="race")
    x = leaf(1, 2, 3, device="cuda")
    with save_on_cpu(pin_memory=True):
        y = chain(x, 4)
    y.backward(ones(y))
    # Nothing has made the host wait, so that under this schedule nothing has run.
    assert not cuda.current_stream().query()
    cuda.synchronize()
    assert x.grad.tolist() == pytest.approx(expected_gradient(4), rel=1e-5)


@pytest.mark.parametrize("pin_memory", [False, True])
def test_second_derivatives(device: drv.Device, pin_memory: bool) -> None:
    def program() -> list[float]:
        x = leaf(1, 2, 3, device="cuda")
        (first,) = grad((x * x * x).sum(), x, create_graph=True)
        (second,) = grad(first.sum(), x)
        return second.tolist()

    with save_on_cpu(pin_memory=pin_memory):
        assert program() == [6, 12, 18]
