"""Replicas: what they share with the module, and where their gradients go."""

from __future__ import annotations

from typing import Any

import pytest

import nn
import tensor
from parallel.data_parallel.replication import replicate
from tests.parallel.simulated import MACHINES, install

pytestmark = pytest.mark.simulator_only


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(tensor.ones(3))
        self.frozen = nn.Parameter(tensor.ones(2), requires_grad=False)
        self.register_parameter("missing", None)
        self.register_buffer("count", tensor.zeros(2))
        self.register_buffer("nothing", None)
        self.note = ["shared"]

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        return x * self.weight


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Part()
        self.second = Part()
        self.again = self.first
        self.second.weight = self.first.weight
        self.none = None
        self.add_module("no_child", None)
        self.list = nn.ParameterList([tensor.ones(2), tensor.ones(1)])
        self.table = nn.ParameterDict({"key": tensor.ones(2)})


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> None:
    install(3, **request.param)


def test_tree_of_replicas(machine: None) -> None:
    net = Net().cuda()
    replicas = replicate(net, (0, 1, 2))
    for number, replica in enumerate(replicas):
        assert type(replica) is Net
        assert replica is not net
        assert replica.first is replica.again
        assert replica.first is not net.first
        assert replica.first.weight is replica.second.weight
        assert replica.no_child is None and replica.first.missing is None and replica.first.nothing is None
        assert replica.first.note is net.first.note
        assert not list(replica.parameters())
        assert {each.device.index for each in replica.buffers()} == {number}
        assert replica.list[1].device.index == replica.table["key"].device.index == number
        assert len(replica.list) == 2
        assert not replica.first.weight.is_leaf
        assert replica.first.weight.grad_fn.name() == "BroadcastBackward"
        assert not replica.first.frozen.requires_grad
        assert replica.first._former_parameters["weight"] is replica.first.weight
        assert replica._is_replica
    assert replicas[0].first.weight.data_ptr() == net.first.weight.data_ptr()
    assert replicas[0].first.count is net.first.count
    assert len(list(net.parameters())) == 6


def test_gradients_are_summed_into_the_module(machine: None) -> None:
    net = Net().cuda()
    replicas = replicate(net, (0, 1, 2))
    total = tensor.zeros((), device=0)
    for number, replica in enumerate(replicas):
        x = tensor.arange(3.0, device=number)
        total = total + (replica.second(replica.first(x)).sum() * (number + 1)).to(0)
    total.backward()
    # d/dw of sum(x w^2), with weights 1 + 2 + 3.
    assert net.first.weight.grad.tolist() == [0, 12, 24]
    assert net.list[0].grad is None
    assert net.first.frozen.grad is None


def test_what_stays_and_what_is_lost(machine: None) -> None:
    net = Part().cuda()
    replicas = replicate(net, (0, 1, 2))
    for number, replica in enumerate(replicas, 1):
        with tensor.no_grad():
            replica.weight.add_(number)
        replica.count.add_(number)
        replica.note = ["its own"]
        replica.extra = 1
    assert net.weight.tolist() == [2, 2, 2]
    assert net.count.tolist() == [1, 1]
    assert net.note == ["shared"]
    assert not hasattr(net, "extra")
    assert replicas[2].count.tolist() == [3, 3]
    replicas[0].count = replicas[0].count + 1
    assert net.count.tolist() == [1, 1]


def test_without_recording(machine: None) -> None:
    net = Part().cuda()
    for replicas in (replicate(net, (0, 1), detach=True), tensor.no_grad()(replicate)(net, (0, 1))):
        assert replicas[1].weight.grad_fn is None
        assert replicas[1].weight.tolist() == [1, 1, 1]
    assert tensor.is_grad_enabled()


def test_writing_a_buffer_is_no_change_of_what_travelled_with_it() -> None:
    install(2)
    net = nn.ModuleList([nn.BatchNorm1d(3), nn.BatchNorm1d(3).eval()]).cuda()
    replica = replicate(net, (0, 1))[1]
    x = tensor.randn(4, 3, device=1)
    replica[1](replica[0](x) + replica[0](x)).sum().backward()
    assert net[0].weight.grad is not None


def test_errors() -> None:
    install(2)
    net = nn.Linear(2, 2).cuda()
    net.bias = nn.Parameter(net.bias.detach().to("cuda:1"))
    with pytest.raises(RuntimeError, match="on cuda:0, the first of the devices, but found one on cuda:1"):
        replicate(net, (0, 1))
    with pytest.raises(RuntimeError, match="uninitialized parameters can't be used with `DataParallel`"):
        replicate(nn.LazyLinear(3).cuda(), (0, 1))


@pytest.mark.filterwarnings("ignore:.*weight_norm.*deprecated:FutureWarning")
def test_modules_that_compute_their_weights() -> None:
    install(2)
    result: list[Any] = [
        nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)),
        nn.utils.parametrizations.orthogonal(nn.Linear(3, 3)),
        nn.utils.weight_norm(nn.Linear(3, 3)),
        nn.utils.spectral_norm(nn.Linear(3, 3)),
        nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)),
    ]
    for net in result:
        net.cuda().eval()
        x = tensor.randn(2, 3)
        expected = net(x.cuda()).tolist()
        for number, replica in enumerate(replicate(net, (0, 1))):
            y = replica(x.to(f"cuda:{number}"))
            assert tensor.allclose(y.cpu(), tensor.tensor(expected), atol=1e-5), net
            y.sum().backward()
        assert all(each.grad is not None for each in net.parameters())


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_recurrent_modules(kind: Any) -> None:
    install(2)
    net = kind(3, 4, 2, bidirectional=True).cuda()
    x = tensor.randn(5, 2, 3)
    expected = net(x.cuda())[0]
    replica = replicate(net, (0, 1))[1]
    y = replica(x.to("cuda:1"))[0]
    assert tensor.allclose(y.cpu(), expected.cpu(), atol=1e-5)
    y.sum().backward()
    assert all(each.grad is not None for each in net.parameters())
