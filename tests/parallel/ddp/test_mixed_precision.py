"""Modules that compute in another dtype than their parameters have, and groups that a mesh names."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import nn
import parallel
import tensor
from parallel import DistributedDataParallel
from parallel.fsdp import MixedPrecision
from tensor.utils.checkpoint import checkpoint
from tests.parallel.thread_ranks import run_threads

pytestmark = pytest.mark.simulator_only

BF16 = tensor.bfloat16


class Net(nn.Module):
    """A weight that another module uses, too, a module with parameters of its own around others, and a checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 6)
        self.inner = nn.ModuleDict({"linear": nn.Linear(6, 6), "norm": nn.BatchNorm1d(6)})
        self.scale = nn.Parameter(tensor.ones(6))
        self.frozen = nn.Linear(6, 6).requires_grad_(False)
        self.head = nn.Linear(6, 5, bias=False)
        self.head.weight = self.embed.weight
        with tensor.no_grad():
            for number, each in enumerate(self.parameters()):
                each.copy_((tensor.arange(each.numel()).reshape(each.shape) + number).sin())

    def forward(self, numbers: tensor.Tensor, shift: tensor.Tensor) -> Any:
        x = self.embed(numbers) + shift
        # The parameter that this module has is used outside of what is checkpointed, too.
        x = checkpoint(self.inner["linear"], x * self.scale, use_reentrant=False)
        x = self.frozen(self.inner["norm"](x))
        return x @ self.embed.weight.t() + self.head(x)


def _batch(rank: int) -> tuple[tensor.Tensor, tensor.Tensor]:
    return tensor.arange(4) + rank % 2, tensor.arange(24.0).reshape(4, 6).cos() / (rank + 1)


def _loss(outputs: tensor.Tensor) -> tensor.Tensor:
    return outputs.float().square().mean()


def _check_same(net: nn.Module, parameters: dict[str, Any]) -> None:
    assert [id(each) for each in net.parameters()] == [id(each) for each in parameters.values()]


def _trained(rank: int, size: int, device: str) -> Any:
    net = Net().to(device)
    config = MixedPrecision(param_dtype=BF16, buffer_dtype=tensor.float32)
    ddp = DistributedDataParallel(net, mixed_precision=config)
    parameters = dict(net.named_parameters())
    numbers, shift = (each.to(device) for each in _batch(rank))
    outputs = ddp(numbers, shift)
    assert outputs.dtype is BF16
    _check_same(net, parameters)
    with ddp.no_sync():
        _loss(outputs).backward()
    _check_same(net, parameters)
    assert all(each.dtype is tensor.float32 for each in parameters.values())
    with pytest.raises(RuntimeError, match="can only be called once"):
        ddp.register_comm_hook(None, parallel.ddp_comm_hooks.default_hooks.allreduce_hook)
    # What fails leaves the parameters where they were.
    with pytest.raises((RuntimeError, TypeError)):
        ddp(numbers, shift[:, :3])
    with pytest.raises((RuntimeError, TypeError)):
        net.inner["linear"](shift[:, :3])
    _check_same(net, parameters)
    # A part by itself computes so, too, as when a checkpoint runs it.
    assert net.inner["linear"](shift.to(BF16)).dtype is BF16
    twin = copy.deepcopy(ddp)
    _loss(twin(numbers, shift)).backward()
    return {
        name: (each.grad.cpu(), other.grad.cpu())
        for (name, each), other in zip(net.named_parameters(), twin.module.parameters(), strict=True)
        if each.grad is not None and other.grad is not None
    }


@pytest.mark.parametrize(("device", "options"), [("cpu", {}), ("cuda", {"schedule": "random"})])
def test_gradients_are_those_of_a_module_of_the_dtype(device: str, options: dict[str, Any]) -> None:
    expected: dict[str, tensor.Tensor] = {}
    for rank in range(2):
        net = Net().to(BF16)
        net.inner["norm"].float()
        numbers, shift = _batch(rank)
        with tensor.no_grad():
            for name, buffer in net.inner["norm"].named_buffers():
                assert buffer.dtype in (tensor.float32, tensor.int64), name
        net.inner["norm"].weight.data = net.inner["norm"].weight.data.to(BF16)
        net.inner["norm"].bias.data = net.inner["norm"].bias.data.to(BF16)
        _loss(net(numbers, shift.to(BF16))).backward()
        for name, each in net.named_parameters():
            if each.grad is not None:
                expected[name] = expected.get(name, 0) + each.grad.float() / 2
    for results in run_threads(_trained, 2, device, **{"device": device, **options}):
        assert results.keys() == expected.keys() and "scale" in results
        for name, (first, second) in results.items():
            assert first.dtype is second.dtype is tensor.float32
            scale = expected[name].abs().max().item()
            assert (first - expected[name]).abs().max().item() < 0.03 * scale, name
            assert (second - expected[name]).abs().max().item() < 0.03 * scale, name


def _on_mesh(rank: int, size: int) -> Any:
    mesh = parallel.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model = nn.Linear(1, 1, bias=False)
    with tensor.no_grad():
        model.weight.fill_(1.0)
    ddp = DistributedDataParallel(model, device_mesh=mesh["replicate"])
    ddp(tensor.full((1, 1), float(rank))).sum().backward()
    with pytest.raises(RuntimeError, match="Only 1D device mesh is supported"):
        DistributedDataParallel(model, device_mesh=mesh)
    with pytest.raises(RuntimeError, match="both process_group and device_mesh"):
        DistributedDataParallel(
            model, device_mesh=mesh["replicate"], process_group=mesh["replicate"].get_group()
        )
    assert model.weight.grad is not None
    return model.weight.grad.item()


def test_ranks_of_a_mesh() -> None:
    assert run_threads(_on_mesh, 4) == [1.0, 2.0, 1.0, 2.0]
