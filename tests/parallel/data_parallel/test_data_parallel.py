"""DataParallel: what comes out, what is kept, and what is refused."""

from __future__ import annotations

import gc
import inspect
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import drv
import nn
import parallel
import tensor
from nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from parallel import DataParallel, data_parallel
from tensor import cuda
from tests.parallel.simulated import install

pytestmark = pytest.mark.simulator_only


@pytest.fixture
def three_lazy() -> None:
    install(3, schedule="lazy", peers="none")


class Seen(nn.Module):
    """Keeps what it was called with."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(tensor.ones(2))
        self.register_buffer("calls", tensor.zeros(()))
        self.count = 0
        self.seen: list[Any] = []

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        self.count += 1
        self.seen.append((threading.current_thread(), cuda.current_device(), args, kwargs))
        return self.weight * args[0] if args else self.weight * kwargs["x"]


def network() -> nn.Module:
    tensor.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def test_outputs_and_gradients_are_those_of_one_device(three: None) -> None:
    one, many = network().cuda(), DataParallel(network().cuda())
    for source in ("cpu", "cuda:0", "cuda:2"):
        x = tensor.randn(7, 4).to(source)
        argument = [x.clone().requires_grad_() for _ in range(2)]
        expected, y = one(argument[0].to("cuda:0")), many(argument[1])
        assert y.device.index == 0
        assert tensor.allclose(y, expected, atol=1e-6)
        expected.square().sum().backward()
        y.square().sum().backward()
        assert tensor.allclose(argument[1].grad, argument[0].grad, atol=1e-6)
    for a, b in zip(one.parameters(), many.parameters(), strict=True):
        assert tensor.allclose(a.grad, b.grad, atol=1e-5)


def test_functional_form(three_lazy: None) -> None:
    net = network().cuda()
    x = tensor.randn(7, 4)
    y = data_parallel(net, x)
    assert tensor.allclose(y, net(x.cuda()), atol=1e-6)
    assert data_parallel(net, (x,), [0, 1], -1).device.type == "cpu"
    assert data_parallel(net, x, [0]).device.index == 0
    seen = Seen().cuda()
    assert data_parallel(seen, None, module_kwargs={"x": tensor.ones(4, 2)}).shape == (4, 2)
    assert data_parallel(seen, tensor.ones(2, 4), dim=1, device_ids=[0, 1]).shape == (2, 4)
    net.to("cuda:1")
    with pytest.raises(
        RuntimeError, match=r"on device cuda:0 \(device_ids\[0\]\) but found one .* device: cuda:1"
    ):
        data_parallel(net, x)
    assert data_parallel(net, x, [1, 2]).device.index == 1


def test_one_thread_for_each_device(three_lazy: None) -> None:
    net = Seen().cuda()
    assert DataParallel(net)(tensor.ones(7, 2)).shape == (7, 2)
    assert len({thread for thread, *_ in net.seen} | {threading.current_thread()}) == 4
    assert sorted((device, args[0].device.index, len(args[0])) for _, device, args, _ in net.seen) == [
        (0, 0, 3),
        (1, 1, 3),
        (2, 2, 1),
    ]
    assert threading.active_count() == 1 or all(
        not each.name.startswith("replica") for each in threading.enumerate()
    )


def test_what_stays_and_what_is_lost(three: None) -> None:
    net = Seen().cuda()
    many = DataParallel(net)
    for _ in range(3):
        many(tensor.ones(6, 2))
    assert net.calls.item() == 3
    assert net.count == 0
    assert len(net.seen) == 9


def test_fewer_samples_than_devices(three_lazy: None) -> None:
    net = Seen().cuda()
    many = DataParallel(net)
    assert many(tensor.ones(2, 2)).shape == (2, 2)
    assert [len(net.seen), net.calls.item()] == [2, 1]
    assert many(tensor.ones(1, 2)).shape == (1, 2)
    assert len(net.seen) == 3
    assert many(tensor.ones(4, 2)).shape == (4, 2)
    assert len(net.seen) == 5
    assert many(tensor.ones(0, 2)).shape == (0, 2)


def test_output_device_and_dim(three_lazy: None) -> None:
    x = tensor.randn(2, 5)
    for output, expected in (
        (-1, "cpu"),
        ("cpu", "cpu"),
        (1, "cuda:1"),
        ("cuda:2", "cuda:2"),
        (None, "cuda:0"),
    ):
        many = DataParallel(nn.Tanh(), output_device=output, dim=1)
        y = many(x)
        assert str(y.device) == expected
        np.testing.assert_allclose(y.cpu().numpy(), np.tanh(x.numpy()), rtol=1e-6)
    leaf = x.clone().requires_grad_()
    DataParallel(nn.Tanh(), output_device=-1)(leaf).sum().backward()
    assert leaf.grad.shape == x.shape


def test_keyword_arguments(two: None) -> None:
    net = Seen().cuda()
    shared = object()
    assert DataParallel(net)(x=tensor.ones(4, 2), other=shared, several=[tensor.zeros(4), 3]).shape == (4, 2)
    for _, device, args, kwargs in net.seen:
        assert args == ()
        assert kwargs["other"] is shared
        assert kwargs["x"].device.index == kwargs["several"][0].device.index == device
        assert kwargs["several"][1] == 3


def test_no_arguments(two: None) -> None:
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(tensor.ones(2))

        def forward(self) -> tensor.Tensor:
            return self.weight * 2

    assert DataParallel(Constant().cuda())().tolist() == [2, 2]


def test_scalars_are_gathered_with_a_warning(three_lazy: None) -> None:
    class Loss(nn.Module):
        def forward(self, x: tensor.Tensor) -> tensor.Tensor:
            return x.mean()

    with pytest.warns(UserWarning, match="all input tensors were scalars") as caught:
        y = DataParallel(Loss())(tensor.arange(6.0))
    assert caught[0].filename == __file__
    assert y.tolist() == [0.5, 2.5, 4.5]


def test_hooks_run_once_in_each_replica(two: None) -> None:
    net = network().cuda()
    calls: list[tuple[str, int]] = []
    net[0].register_forward_pre_hook(lambda module, args: calls.append(("before", args[0].device.index)))
    net[0].register_forward_hook(lambda module, args, output: calls.append(("after", len(output))))
    net[2].register_full_backward_hook(lambda module, into, out: calls.append(("back", out[0].device.index)))
    DataParallel(net)(tensor.randn(5, 4)).sum().backward()
    assert sorted(calls) == [
        ("after", 2),
        ("after", 3),
        ("back", 0),
        ("back", 1),
        ("before", 0),
        ("before", 1),
    ]


def test_hooks_on_parameters_see_the_sum(two: None) -> None:
    net = nn.Linear(2, 1, bias=False).cuda()
    seen: list[Any] = []
    net.weight.register_hook(lambda grad: seen.append(grad.tolist()))
    DataParallel(net)(tensor.ones(5, 2)).sum().backward()
    assert seen == [[[5, 5]]]


def test_exceptions(two: None) -> None:
    class Fails(nn.Module):
        def forward(self, x: tensor.Tensor) -> tensor.Tensor:
            if x.device.index == 1:
                raise LookupError("not here")
            return x

    with pytest.raises(LookupError, match=r"^Caught LookupError in replica 1 on device 1.[\s\S]*not here"):
        DataParallel(Fails())(tensor.ones(4))


def test_out_of_memory_on_one_device() -> None:
    install(2, memory="1GiB/64MiB")

    class Hungry(nn.Module):
        size = 1 << 20

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(tensor.ones(()))

        def forward(self, x: tensor.Tensor) -> tensor.Tensor:
            room = tensor.empty(self.size, device=x.device)
            return x * self.weight * (2 if room.numel() else 1)

    net = Hungry().cuda()
    with pytest.warns(UserWarning, match="imbalance"):
        many = DataParallel(net)
    many(tensor.ones(2))
    before = [cuda.memory_allocated(i) for i in range(2)]
    net.size = 32 << 20
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(
            cuda.OutOfMemoryError, match=r"^Caught OutOfMemoryError in replica 1 on device 1\."
        ):
            many(tensor.ones(2))
        # No cycle of references keeps what the replicas had.
        assert [cuda.memory_allocated(i) for i in range(2)] == before
    finally:
        gc.enable()
    net.size = 1 << 20
    assert many(tensor.ones(2)).tolist() == [2, 2]
    assert [cuda.memory_allocated(i) for i in range(2)] == before


def test_modes_of_the_caller(two: None) -> None:
    many = DataParallel(network().cuda())
    x = tensor.randn(4, 4)
    with tensor.no_grad():
        assert not many(x).requires_grad
    with tensor.inference_mode():
        y = many(x)
    assert y.is_inference()
    with tensor.autocast("cuda", dtype=tensor.bfloat16):
        assert many(x).dtype is tensor.bfloat16
    many.eval()
    assert not many.module[0].training
    assert many(x).requires_grad


def test_streams_of_the_caller(three: None) -> None:
    one, many = network().cuda(), DataParallel(network().cuda())
    sides = [cuda.Stream(i) for i in range(3)]
    for side in sides:
        side.wait_stream(cuda.default_stream(side.device))
    x = tensor.randn(9, 4).pin_memory()
    with sides[0], sides[1], sides[2]:
        y = many(x)
        y.sum().backward()
    cuda.default_stream(0).wait_stream(sides[0])
    expected = one(x.cuda())
    expected.sum().backward()
    assert tensor.allclose(y, expected, atol=1e-6)
    for a, b in zip(one.parameters(), many.parameters(), strict=True):
        assert tensor.allclose(a.grad, b.grad, atol=1e-5)


def test_placement_is_checked(two: None) -> None:
    net = network().cuda()
    many = DataParallel(net)
    net[2].to("cuda:1")
    with pytest.raises(
        RuntimeError, match=r"on device cuda:0 \(device_ids\[0\]\) but found one .* device: cuda:1"
    ):
        many(tensor.ones(2, 4))
    with pytest.raises(RuntimeError, match="found one of them on device: cpu"):
        DataParallel(network())(tensor.ones(2, 4))
    buffered = nn.BatchNorm1d(4).cuda()
    buffered.running_mean = buffered.running_mean.cpu()
    with pytest.raises(RuntimeError, match="found one of them on device: cpu"):
        DataParallel(buffered)(tensor.ones(2, 4))


def test_device_ids(three_lazy: None) -> None:
    net = network().to("cuda:2")
    many = DataParallel(net, ["cuda:2", tensor.device("cuda:0")])
    assert many.device_ids == [2, 0]
    assert many.output_device == 2
    assert many(tensor.randn(4, 4)).device.index == 2
    with pytest.raises(RuntimeError, match="no available devices"):
        DataParallel(net, [])
    with pytest.raises(RuntimeError, match=r"different devices, got \[1, 1\]"):
        DataParallel(net, [1, 1])
    with pytest.raises(ValueError, match="Expected a cuda device"):
        DataParallel(net, ["cpu"])


def test_one_device_adds_nothing(two: None) -> None:
    net = Seen()
    many = DataParallel(net, [1])
    assert net.weight.device.index == 1
    y = many(tensor.ones(3, 2))
    assert y.grad_fn.name() == "MulBackward0"
    assert [net.count, net.calls.item()] == [1, 1]
    assert net.seen[0][0] is threading.current_thread()


def test_without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "is_available", lambda: False)
    net = nn.Identity()
    many = DataParallel(net)
    x = tensor.ones(2, 2)
    assert many(x) is x
    assert many.device_ids == []
    assert data_parallel(net, x) is data_parallel(net, (x,)) is x
    assert not drv.is_initialized()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"memory": "2GiB/1GiB"}, "memory of device 0"),
        ({"multiprocessors": "64/132"}, "multiprocessors of device 1"),
    ],
)
def test_imbalance_is_warned_of(options: dict[str, str], what: str) -> None:
    install(2, **options)
    low, high = (1, 0) if "memory" in options else (0, 1)
    with pytest.warns(UserWarning, match=f"device {low} has less than 75% of the {what}") as caught:
        DataParallel(nn.Tanh())
    assert f"device {high}" in str(caught[0].message)
    assert caught[0].filename == __file__


def test_balance_is_not_warned_of() -> None:
    install(3, memory="1GiB/800MiB/1GiB", multiprocessors="100/132/132")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DataParallel(nn.Tanh())


def test_state_dict_and_text(two: None) -> None:
    many = DataParallel(nn.Linear(2, 2).cuda())
    assert list(many.state_dict()) == ["module.weight", "module.bias"]
    assert repr(many).startswith("DataParallel(\n  (module): Linear(")
    again = DataParallel(nn.Linear(2, 2).cuda())
    again.load_state_dict(many.state_dict())
    assert tensor.equal(again.module.weight, many.module.weight)


def test_steps_can_be_overridden(two: None) -> None:
    class Listed(DataParallel):
        def gather(self, outputs: Any, output_device: Any) -> Any:
            return list(outputs)

    outputs = Listed(network().cuda())(tensor.randn(4, 4))
    assert [each.device.index for each in outputs] == [0, 1]


def test_packed_sequences_with_total_length(three_lazy: None) -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.GRU(2, 3, batch_first=True)

        def forward(self, padded: tensor.Tensor, lengths: tensor.Tensor) -> tensor.Tensor:
            packed = pack_padded_sequence(padded, lengths.cpu(), batch_first=True, enforce_sorted=False)
            output, _ = self.rnn(packed)
            return pad_packed_sequence(output, batch_first=True, total_length=padded.size(1))[0]

    net = Recurrent().cuda()
    padded, lengths = tensor.randn(5, 6, 2), tensor.tensor([2, 1, 6, 3, 4])
    expected = net(padded.cuda(), lengths)
    y = DataParallel(net)(padded, lengths)
    assert y.shape == (5, 6, 3)
    assert tensor.allclose(y, expected, atol=1e-6)
    y.sum().backward()
    assert net.rnn.weight_hh_l0.grad is not None


@pytest.mark.parity
def test_arguments_are_named_as_in_pytorch() -> None:
    torch = pytest.importorskip("torch")
    ours = [parallel.DataParallel, parallel.data_parallel, parallel.replicate, parallel.parallel_apply]
    ours += [getattr(parallel.comm, name) for name in parallel.comm.__all__]
    theirs = torch.nn.parallel
    for each in ours:
        where = theirs.comm if each.__module__ == "parallel.comm" else theirs
        expected = inspect.signature(getattr(where, each.__name__)).parameters.values()
        result = inspect.signature(each).parameters.values()
        assert [(x.name, x.default) for x in result] == [(x.name, x.default) for x in expected], each
    assert set(theirs.comm.__dict__) >= set(parallel.comm.__all__)


def test_second_derivatives(two: None) -> None:
    one, many = network().cuda(), DataParallel(network().cuda())
    x = tensor.randn(4, 4)
    for net in (one, many):
        argument = x.cuda().requires_grad_()
        (first,) = tensor.autograd.grad(net(argument).square().sum(), argument, create_graph=True)
        first.square().sum().backward()
    for a, b in zip(one.parameters(), many.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            assert tensor.allclose(a.grad, b.grad, atol=1e-4)


def test_memory_does_not_grow(two: None) -> None:
    many = DataParallel(network().cuda())
    used = []
    for _ in range(4):
        many(tensor.randn(4, 4)).sum().backward()
        many.zero_grad()
        used.append([cuda.memory_allocated(i) for i in range(2)])
    # By then each device has the workspaces of matrix products, and nothing but the parameters on the first one.
    assert used[-1] == used[-2]
    assert used[-1][0] - used[-1][1] == sum(-(-each.nbytes // 512) * 512 for each in many.parameters())


def test_lazy_modules_are_refused(two: None) -> None:
    many = DataParallel(nn.LazyLinear(3).cuda())
    with pytest.raises(RuntimeError, match="uninitialized parameters can't be used with `DataParallel`"):
        many(tensor.ones(4, 2))
