"""Steps that CUDA graphs replay: counts, rates and flags on the device, equal to eager steps bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import drv
import nn
import tensor
from nn import optim
from tensor import cuda
from tests.tensor.cuda.test_cuda_graph import schedules  # noqa: F401
from tests.tensor.driver_calls import counted
from tests.thinning import thinned

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.simulator_only

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "Adam": lambda p: optim.Adam(p, lr=1e-2, capturable=True),
    "AdamW": lambda p: optim.AdamW(p, lr=tensor.tensor(1e-2, device="cuda"), capturable=True, amsgrad=True),
    "Adamax": lambda p: optim.Adamax(p, capturable=True),
    "NAdam": lambda p: optim.NAdam(p, capturable=True, weight_decay=0.1, decoupled_weight_decay=True),
    "RAdam": lambda p: optim.RAdam(p, capturable=True),
    "RMSprop": lambda p: optim.RMSprop(p, capturable=True, momentum=0.5, centered=True),
    "Rprop": lambda p: optim.Rprop(p, capturable=True),
    "ASGD": lambda p: optim.ASGD(p, capturable=True, lr=0.1, t0=2),
    "Adadelta": lambda p: optim.Adadelta(p, capturable=True),
    "SGD": lambda p: optim.SGD(p, lr=tensor.tensor(0.1, device="cuda"), momentum=0.9),
}


@pytest.fixture
def lazy() -> None:
    drv.simulator.install(schedule="lazy", check="race")


def parameters(device: str = "cuda") -> list[Any]:
    tensor.manual_seed(0)
    shapes = (5, 7), (300,)
    return [tensor.randn(shape).to(device).requires_grad_() for shape in shapes]


def warmed_up(work: Callable[[], Any], times: int = 1) -> None:
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        for _ in range(times):
            work()
    cuda.current_stream().wait_stream(side)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.sampled(4)
def test_replays_equal_eager_steps_and_those_of_the_host(name: str) -> None:
    drv.simulator.install(schedule="lazy", check="full")
    make = OPTIMIZERS[name]
    replayed, eager, host = parameters(), parameters(), parameters("cpu")
    optimizers = [make(each) for each in (replayed, eager, host)]
    gradients = [tensor.randn_like(each) for each in host]
    for each in (replayed, eager, host):
        for parameter, gradient in zip(each, gradients, strict=True):
            parameter.grad = gradient.to(parameter.device, copy=True)
    warmed_up(optimizers[0].step)
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        optimizers[0].step()
    optimizers[1].step()
    optimizers[2].step()
    for k in range(1, 8):
        for each in (replayed, eager, host):
            for parameter, gradient in zip(each, gradients, strict=True):
                parameter.grad.copy_(gradient * (1 + 0.1 * k))
        g.replay()
        optimizers[1].step()
        optimizers[2].step()
    for a, b, c in zip(replayed, eager, host, strict=True):
        assert tensor.equal(a, b)
        assert tensor.allclose(a.cpu(), c, rtol=1e-5, atol=1e-6)
    for state, other in zip(*(each.state.values() for each in optimizers[:2]), strict=True):
        for key, value in state.items():
            assert value.is_cuda
            assert tensor.equal(value, other[key])
        assert "step" not in state or state["step"].item() == 8


def test_a_rate_on_the_device_is_read_at_each_replay(schedules: None) -> None:  # noqa: F811
    x = tensor.ones(4, device="cuda", requires_grad=True)
    x.grad = tensor.ones(4, device="cuda")
    optimizer = optim.SGD([x], lr=tensor.tensor(1.0, device="cuda"))
    scheduler = optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        optimizer.step()
    optimizer.step()
    for _ in range(2):
        scheduler.step()
        g.replay()
    assert x.tolist() == [1 - 1 - 0.5 - 0.25] * 4


def test_steps_that_would_be_the_same_at_every_replay_are_refused(lazy: None) -> None:
    x = tensor.ones(4, device="cuda", requires_grad=True)
    x.grad = tensor.ones(4, device="cuda")
    for make, match in (
        (optim.Adam, "pass capturable=True"),
        (optim.Adagrad, "step outside of the graph"),
        (lambda p: optim.Adam(p, capturable=True), "take a step before the capture"),
        (lambda p: optim.SGD(p, momentum=0.9), "take a step before the capture"),
    ):
        optimizer = make([x])
        with pytest.raises(drv.CaptureError, match=match) as caught, cuda.graph(cuda.CUDAGraph()):
            optimizer.step()
        assert __file__ in str(caught.value), "it does not name the place"
        optimizer.step()
    assert x.isfinite().all()


def test_counts_move_with_the_option(lazy: None) -> None:
    x = tensor.ones(4, device="cuda", requires_grad=True)
    x.grad = tensor.ones(4, device="cuda")
    plain = optim.Adam([x])
    plain.step()
    other = optim.Adam([x], capturable=True)
    other.load_state_dict(plain.state_dict())
    other.param_groups[0]["capturable"] = True
    other.step()
    assert other.state[x]["step"].is_cuda
    assert other.state[x]["step"].item() == 2
    plain.load_state_dict(other.state_dict())
    plain.param_groups[0]["capturable"] = False
    plain.step()
    assert not plain.state[x]["step"].is_cuda
    assert plain.state[x]["step"].item() == 3


def test_parameters_on_both_machines(lazy: None) -> None:
    there, here = (tensor.ones(4, device=each, requires_grad=True) for each in ("cuda", "cpu"))
    optimizer = optim.Adam([there, here], capturable=True)
    for _ in range(3):
        for each in (there, here):
            each.grad = tensor.full_like(each, 2.0)
        optimizer.step()
    assert tensor.allclose(there.cpu(), here)
    assert optimizer.state[there]["step"].is_cuda
    assert not optimizer.state[here]["step"].is_cuda


def test_a_capturable_step_is_two_launches_and_waits_for_nothing(lazy: None) -> None:
    xs = [tensor.ones(4, device="cuda", requires_grad=True) for _ in range(30)]
    for each in xs:
        each.grad = tensor.ones(4, device="cuda")
    optimizer = optim.AdamW(xs, lr=tensor.tensor(1e-3, device="cuda"), capturable=True)
    with counted() as calls:
        optimizer.step()
        calls.clear()
        optimizer.step()
    assert calls["cuLaunchKernel"] == 2
    assert sum(n for name, n in calls.items() if name[2].isupper()) == 2


def model() -> Any:
    tensor.manual_seed(1)
    return nn.Sequential(
        nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 4)
    ).cuda()


@pytest.mark.parametrize(
    ("name", "make", "scales"),
    thinned(
        [
            (name, make, scales)
            for name, make in (
                ("AdamW", OPTIMIZERS["AdamW"]),
                ("SGD", lambda p: optim.SGD(p, lr=0.05, momentum=0.9, fused=True)),
            )
            for scales in (False, True)
        ],
        lambda name, make, scales: scales == (name == "AdamW"),
        lambda name, make, scales: f"{name} {'scaled' if scales else 'plain'}",
    ),
)
@pytest.mark.sampled(100)
def test_a_whole_training_step_replayed_equals_eager_training(
    schedules: None,  # noqa: F811
    name: str,
    make: Callable[[Any], Any],
    scales: bool,
) -> None:
    """Forward under autocast, backward, clipping, optimizer and scaler, bit for bit, an overflow included."""
    results = []
    for replays in (False, True):
        network = model()
        optimizer = make(network.parameters())
        scaler = cuda.amp.GradScaler(init_scale=16.0, growth_interval=2, enabled=scales)
        x, y = tensor.zeros(6, 8, device="cuda"), tensor.tensor([0, 1, 2, 3, 0, 1], device="cuda")

        def step() -> Any:
            optimizer.zero_grad(set_to_none=True)  # noqa: B023
            with tensor.autocast("cuda", dtype=tensor.float16, cache_enabled=False, enabled=scales):
                loss = nn.functional.cross_entropy(network(x).float(), y)  # noqa: B023
            scaler.scale(loss).backward()  # noqa: B023
            scaler.unscale_(optimizer)  # noqa: B023
            nn.utils.clip_grad_norm_(network.parameters(), 0.5)  # noqa: B023
            scaler.step(optimizer)  # noqa: B023
            scaler.update()  # noqa: B023
            return loss.detach()

        tensor.manual_seed(3)
        x.copy_(tensor.linspace(-1, 1, 48).view(6, 8))
        warmed_up(step, 2)
        g = cuda.CUDAGraph()
        if replays:
            with cuda.graph(g):
                loss = step()
        losses, factors = [], []
        for number in range(6):
            x.copy_(tensor.linspace(-1, 1 + number, 48).view(6, 8))
            if number == 2 and scales:
                x[0, 0] = float("inf")
            if replays:
                g.replay()
            else:
                loss = step()
            losses.append(str(loss.item()))
            factors.append(scaler.get_scale())
        results.append((losses, factors, [each.detach().cpu() for each in network.parameters()]))
        if scales:
            assert factors[2] < factors[1]
            assert scaler.state_dict()["scale"] == factors[-1]
    assert results[0][:2] == results[1][:2]
    assert all(tensor.equal(a, b) for a, b in zip(results[0][2], results[1][2], strict=True))
    assert all(each.isfinite().all() for each in results[0][2])


def test_a_scaler_on_the_device_equals_one_on_the_host(lazy: None) -> None:
    scales: list[list[float]] = []
    for options in ({}, {"fused": True}):
        x = tensor.ones(4, device="cuda", requires_grad=True)
        optimizer = optim.SGD([x], lr=0.1, **options)
        scaler = cuda.amp.GradScaler(init_scale=8.0, growth_interval=2)
        seen = []
        for number in range(8):
            optimizer.zero_grad()
            scaler.scale((x * (float("inf") if number in (1, 5) else 1.0)).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            seen += [scaler.get_scale(), float(scaler.state_dict()["_growth_tracker"]), x[0].item()]
        scaler.update(32.0)
        seen.append(scaler.get_scale())
        scaler.load_state_dict({**scaler.state_dict(), "scale": 4.0, "_growth_tracker": 1})
        seen.append(scaler.get_scale())
        scales.append(seen)
    assert scales[0] == scales[1]


def test_a_scaler_that_is_on_the_host_is_refused_in_a_capture(lazy: None) -> None:
    x = tensor.ones(4, device="cuda", requires_grad=True)
    scaler = cuda.amp.GradScaler()
    with (
        pytest.raises(drv.CaptureError, match="Take a step before the capture") as caught,
        cuda.graph(cuda.CUDAGraph()),
    ):
        scaler.scale(x.sum())
    assert __file__ in str(caught.value), "it does not name the place"
