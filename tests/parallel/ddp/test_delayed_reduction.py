"""Parameters whose gradients are averaged all at once, when that of another one is computed."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import nn
import tensor
from parallel import DistributedDataParallel
from tests.parallel.thread_ranks import run_threads

pytestmark = pytest.mark.simulator_only


def _net(rank: int) -> nn.Sequential:
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    with tensor.no_grad():
        for number, each in enumerate(net.parameters()):
            each.copy_((tensor.arange(each.numel()).reshape(each.shape) + number).sin() + rank)
    return net


def _trained(rank: int, size: int, device: str) -> Any:
    # Those of rank 0 count.
    net = _net(rank).to(device)
    delayed = [(name, each) for name, each in net.named_parameters() if not name.startswith("0.")]
    ddp = DistributedDataParallel(
        net, delay_all_reduce_named_params=delayed, param_to_hook_all_reduce=net[0].weight
    )
    assert all(name.startswith("0.") for name in ddp.reducer.names)
    x = tensor.arange(6.0, device=device).reshape(2, 3) * (rank + 1)
    with ddp.no_sync():
        ddp(x).square().mean().backward()
    ddp(x + 1).square().mean().backward()
    twin = copy.deepcopy(ddp)
    twin.zero_grad()
    twin(x).square().mean().backward()
    for wrong, message in [
        ({"param_to_hook_all_reduce": net[0].weight}, "need to be set at the same time"),
        (
            {
                "delay_all_reduce_named_params": [("1.bias", net[2].bias)],
                "param_to_hook_all_reduce": net[0].bias,
            },
            "has the name '1.bias', which is not that of this parameter",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            DistributedDataParallel(net, **wrong)
    models: list[Any] = [net, twin]
    return [[each.grad.tolist() for each in model.parameters()] for model in models]


@pytest.mark.parametrize(("device", "options"), [("cpu", {}), ("cuda", {"schedule": "random"})])
def test_gradients_are_means(device: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor.backends.cuda.matmul, "allow_tf32", False)
    net, twin = _net(0), _net(0)
    for rank in range(2):
        x = tensor.arange(6.0).reshape(2, 3) * (rank + 1)
        ((net(x).square().mean() + net(x + 1).square().mean()) / 2).backward()
        (twin(x).square().mean() / 2).backward()
    expected = [
        [each.grad.numpy() for each in model.parameters() if each.grad is not None] for model in (net, twin)
    ]
    for results in run_threads(_trained, 2, device, **{"device": device, **options}):
        for model, other in zip(results, expected, strict=True):
            for value, each in zip(model, other, strict=True):
                assert tensor.tensor(value).allclose(tensor.tensor(each), rtol=1e-5)
