"""Functions and modules whose forward and backward passes are replays."""

from __future__ import annotations

from typing import Any

import pytest

import drv
import nn
import tensor
from tensor import cuda
from tests.tensor.cuda.test_cuda_graph import schedules  # noqa: F401

pytestmark = pytest.mark.simulator_only


@pytest.fixture
def lazy() -> None:
    drv.simulator.install(schedule="lazy", check="race")


def network(dropout: float = 0.3) -> Any:
    tensor.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(dropout), nn.Linear(16, 4)).cuda()


def trained(model: Any, head: Any, steps: int = 4) -> tuple[list[float], list[Any]]:
    """Losses, and parameters, of a training whose model may replay."""
    optimizer = nn.optim.AdamW([*model.parameters(), *head.parameters()], lr=1e-2)
    tensor.manual_seed(2)
    losses = []
    for number in range(steps):
        x = tensor.linspace(-1, 1 + number, 40, device="cuda").view(5, 8)
        optimizer.zero_grad()
        # Only a part of it is a graph, with other operations around.
        loss = head((model(x * 2) + 1).relu()).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [each.detach().cpu() for each in (*model.parameters(), *head.parameters())]


@pytest.mark.sampled(4)
def test_training_a_module_that_replays_equals_eager_training(schedules: None) -> None:  # noqa: F811
    expected = trained(network(), nn.Linear(4, 1).cuda())
    model = network()
    head = nn.Linear(4, 1).cuda()
    assert cuda.make_graphed_callables(model, (tensor.zeros(5, 8, device="cuda"),)) is model
    head = nn.Linear(4, 1).cuda()
    tensor.manual_seed(1)
    model.load_state_dict(network().state_dict())
    head = nn.Linear(4, 1).cuda()
    losses, parameters = trained(model, head)
    assert losses == expected[0]
    assert all(tensor.equal(a, b) for a, b in zip(parameters, expected[1], strict=True))


@pytest.mark.sampled(4)
def test_several_callables_in_order(schedules: None) -> None:  # noqa: F811
    first, last = network(), nn.Linear(4, 2).cuda()

    def middle(x: Any, scale: Any) -> tuple[Any, Any]:
        return x * scale, (x > 0).sum()

    scale = tensor.full((4,), 3.0, device="cuda", requires_grad=True)
    sample = tensor.zeros(5, 8, device="cuda")

    def run(a: Any, b: Any, c: Any, x: Any) -> list[Any]:
        tensor.manual_seed(4)
        for each in (*first.parameters(), *last.parameters(), scale):
            each.grad = None
        y, count = b(a(x), scale)
        assert not count.requires_grad
        loss = c(y).sum()
        loss.backward()
        grads = [each.grad.clone() for each in (*first.parameters(), *last.parameters(), scale)]
        return [loss.detach().clone(), count.clone(), *grads]

    x = tensor.linspace(-1, 1, 40, device="cuda").view(5, 8)
    expected = [run(first, middle, last, x * k) for k in (1, 2)]
    hidden = tensor.zeros(5, 4, device="cuda", requires_grad=True)
    a, b, c = cuda.make_graphed_callables(
        (first, middle, last),
        (
            (sample,),
            (hidden, tensor.ones(4, device="cuda", requires_grad=True)),
            (hidden.clone().detach().requires_grad_(),),
        ),
    )
    for number, k in enumerate((1, 2)):
        result = run(a, b, c, x * k)
        assert all(tensor.equal(p, q) for p, q in zip(result, expected[number], strict=True))


def test_gradients_accumulate(lazy: None) -> None:
    model, other = network(0.0), network(0.0)
    x = tensor.linspace(-1, 1, 40, device="cuda").view(5, 8)
    cuda.make_graphed_callables(model, (tensor.zeros(5, 8, device="cuda"),))
    for each in (model, other):
        for k in (1, 2, 3):
            each(x * k).sum().backward()
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        assert tensor.equal(p.grad, q.grad)


def test_in_the_other_mode_a_module_runs_as_it_did(lazy: None) -> None:
    model = network(0.5)
    cuda.make_graphed_callables(model, (tensor.zeros(5, 8, device="cuda"),))
    x = tensor.ones(5, 8, device="cuda")
    assert model(x).grad_fn.name().startswith("_Replay")
    model.eval()
    assert model(tensor.ones(3, 8, device="cuda")).shape == (3, 4)
    model.train()
    assert model(x).shape == (5, 4)


def test_unused_arguments(lazy: None) -> None:
    x, unused = (tensor.ones(3, device="cuda", requires_grad=True) for _ in range(2))

    def double(x: Any, unused: Any) -> Any:
        return x * 2

    with pytest.raises(RuntimeError):
        cuda.make_graphed_callables(double, (x, unused))
    graphed = cuda.make_graphed_callables(double, (x, unused), allow_unused_input=True)
    graphed(x, unused).sum().backward()
    assert x.grad.tolist() == [2] * 3
    assert unused.grad is None


def test_what_cannot_be_graphed_is_refused(lazy: None) -> None:
    x = tensor.zeros(5, 8, device="cuda")
    model = network()
    handle = model.register_forward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="must not have hooks yet"):
        cuda.make_graphed_callables(model, (x,))
    handle.remove()
    model.register_buffer("wrong", tensor.zeros(2, device="cuda", requires_grad=True))
    with pytest.raises(RuntimeError, match="only parameters may be trainable"):
        cuda.make_graphed_callables(model, (x,))
    with tensor.autocast("cuda"), pytest.raises(RuntimeError, match="cache_enabled=False"):
        cuda.make_graphed_callables(network(), (x,))
    with pytest.raises(TypeError, match="must contain only Tensors"):
        cuda.make_graphed_callables(network(), (3,))
    with pytest.raises(RuntimeError, match="sample_args for 1"):
        cuda.make_graphed_callables((network(), network()), ((x,),))
    with pytest.raises(TypeError, match="gives tensors only"):
        cuda.make_graphed_callables(lambda x: 3, (x,))
    with pytest.raises(drv.CaptureError, match="Called by"):
        cuda.make_graphed_callables(lambda x: x[x > 0], (x,))
    graphed = cuda.make_graphed_callables(network(), (x,))
    with pytest.raises(RuntimeError, match=r"captured with a tensor of shape \[5, 8\]"):
        graphed(tensor.zeros(4, 8, device="cuda"))
    with pytest.raises(TypeError, match="called as it was captured"):
        graphed(x, x)


def test_under_autocast(lazy: None) -> None:
    model, other = network(0.0), network(0.0)
    x = tensor.linspace(-1, 1, 40, device="cuda").view(5, 8)
    with tensor.autocast("cuda", dtype=tensor.bfloat16, cache_enabled=False):
        cuda.make_graphed_callables(model, (tensor.zeros_like(x),))
        results = [each(x) for each in (model, other)]
    assert results[0].dtype is tensor.bfloat16
    assert tensor.equal(*results)
