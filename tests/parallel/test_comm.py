"""Broadcasts and sums between devices, and how copies overlap: values, derivatives, order of streams, and errors."""

from __future__ import annotations

import numpy as np
import pytest
from cuda.bindings.driver import CUresult

import drv
import tensor
from parallel import comm
from parallel.data_parallel.scattering import copy_stream
from tensor import cuda
from tensor.core.devices.state import cuda_state

from .simulated import equal, install, values

pytestmark = pytest.mark.simulator_only


# broadcast


def test_broadcast(three: None) -> None:
    for source in ("cpu", "cuda:0", "cuda:1"):
        x = values(3, 50).to(source)
        copies = comm.broadcast(x, ["cuda:0", 1, tensor.device("cuda:2")])
        assert isinstance(copies, tuple)
        assert [each.device.index for each in copies] == [0, 1, 2]
        for each in copies:
            equal(each, values(3, 50))
        if source != "cpu":
            assert copies[x.device.index] is x


@pytest.mark.parametrize("count", [500, 1 << 18])
def test_what_was_broadcast_may_be_written_at_once(three: None, count: int) -> None:
    x = tensor.full((count,), 3.0, device="cuda:0")
    copies = comm.broadcast(x, (0, 1, 2))
    x.fill_(7)
    copies[1].mul_(2)
    equal(copies[1], np.full(count, 6))
    equal(copies[2], np.full(count, 3))
    total = comm.reduce_add(copies, 0)
    copies[1].zero_()
    copies[2].zero_()
    equal(total, np.full(count, 16))


def test_broadcast_out(three: None) -> None:
    x = values(40).to("cuda:1")
    out = [tensor.zeros(40, device=f"cuda:{i}") for i in range(3)]
    result = comm.broadcast(x, out=out)
    assert all(a is b for a, b in zip(result, out, strict=True))
    for each in out:
        equal(each, values(40))


def test_devices_that_cannot_be_peers_copy_through_the_host(two: None) -> None:
    drv.simulator.inject().fail_call(1, "cuCtxEnablePeerAccess", CUresult.CUDA_ERROR_TOO_MANY_PEERS)
    there = comm.broadcast(tensor.arange(4.0, device="cuda:0"), (0, 1))[1]
    assert there.device.index == 1
    equal(there, np.arange(4.0))


def test_other_errors_of_the_connection_are_raised_and_it_is_made_by_the_next_copy(two: None) -> None:
    drv.simulator.inject().fail_call(1, "cuCtxEnablePeerAccess")
    x = tensor.arange(4.0, device="cuda:0")
    with pytest.raises(drv.CudaError, match="cuCtxEnablePeerAccess"):
        comm.broadcast(x, (0, 1))
    equal(comm.broadcast(x, (0, 1))[1], np.arange(4.0))


def test_derivative_of_broadcast_is_the_sum(three: None) -> None:
    x = values(5).to("cuda:0").requires_grad_()
    copies = comm.broadcast(x, (0, 1, 2))
    assert copies[1].grad_fn.name() == "BroadcastBackward"
    sum((each * (i + 1)).sum().to("cuda:0") for i, each in enumerate(copies)).backward()
    equal(x.grad, np.full(5, 6))


def test_derivative_of_broadcast_from_the_host(two: None) -> None:
    x = values(5).requires_grad_()
    first, second = comm.broadcast(x, (0, 1))
    (first.sum().cpu() + 2 * second.sum().cpu()).backward()
    equal(x.grad, np.full(5, 3))


def test_broadcast_differentiates_twice(two: None) -> None:
    x = values(4).to("cuda:0").requires_grad_()
    _, copy = comm.broadcast(x, (0, 1))
    (first,) = tensor.autograd.grad((copy**3).sum(), x, create_graph=True)
    (second,) = tensor.autograd.grad(first.sum(), x)
    equal(second, 6 * values(4))


def test_broadcast_errors(two: None) -> None:
    x = values(3).cuda()
    with pytest.raises(RuntimeError, match="exactly one of 'devices' and 'out'"):
        comm.broadcast(x)
    with pytest.raises(RuntimeError, match="exactly one of 'devices' and 'out'"):
        comm.broadcast(x, (0,), out=[x])
    with pytest.raises(RuntimeError, match=r"out\[0\] has shape \[4\]"):
        comm.broadcast(x, out=[values(4).cuda()])
    with pytest.raises(RuntimeError, match=r"out\[0\] is on cpu"):
        comm.broadcast(x, out=[values(3)])
    with pytest.raises(ValueError, match="at least one device"):
        comm.broadcast(x, [])
    with pytest.raises(ValueError, match="Expected a cuda device"):
        comm.broadcast(x, ["cpu"])
    with pytest.raises(TypeError, match="expects a Tensor, got int"):
        comm.broadcast(3, (0, 1))  # type: ignore[arg-type]


# broadcast_coalesced


def several(device: str = "cuda:0") -> list[tensor.Tensor]:
    """Types, shapes, strides and sizes of all kinds, between them tensors larger than a buffer of 256 bytes."""
    result = [
        values(3),
        values(7, 11),
        values(4, 3, 2, 2).to(memory_format=tensor.channels_last),
        tensor.arange(5),
        values(2, 0),
        tensor.tensor(2.5),
        tensor.tensor([True, False, True]),
        values(6, 10)[:, ::2],
        tensor.tensor([1 + 2j, 3 - 1j]),
        values(9).half(),
        tensor.tensor(7),
        values(5).to(tensor.bfloat16),
    ]
    return (
        [each.to(device) for each in result[:7]]
        + [values(6, 10).to(device)[:, ::2]]
        + [each.to(device) for each in result[8:]]
    )


@pytest.mark.parametrize("buffer_size", [1, 256])
def test_broadcast_coalesced(three: None, buffer_size: int) -> None:
    argument = several()
    result = comm.broadcast_coalesced(argument, (0, 1, 2), buffer_size)
    assert all(a is b for a, b in zip(result[0], argument, strict=True))
    for number, column in enumerate(result[1:], 1):
        for x, original in zip(column, argument, strict=True):
            assert x.device.index == number
            assert x.dtype is original.dtype
            assert x._version == 0
            equal(x, original)
    assert result[1][2].is_contiguous(memory_format=tensor.channels_last)


def test_copies_that_travelled_together_are_written_apart(three: None) -> None:
    argument = [tensor.full((n,), float(n), device="cuda:0") for n in (1, 2, 3)]
    _, *others = comm.broadcast_coalesced(argument, (0, 1, 2))
    for each in argument:
        each.zero_()
    others[0][1].add_(1)
    assert [each._version for each in others[0]] == [0, 1, 0]
    equal(others[0][1], [3, 3])
    for n, x in zip((1, 2, 3), others[1], strict=True):
        equal(x, np.full(n, n))
    equal(others[0][2], [3, 3, 3])


def test_copies_are_few(two: None) -> None:
    argument = [tensor.ones(10, device="cuda:0") for _ in range(40)] + [
        tensor.ones(3, dtype=tensor.int64, device="cuda:0")
    ] * 5
    driver = drv.runtime().driver
    calls, former = [], driver.cuMemcpyPeerAsync
    driver.cuMemcpyPeerAsync = lambda *arguments: (calls.append(arguments[4]), former(*arguments))[1]
    try:
        _, result = comm.broadcast_coalesced(argument, (0, 1))
        assert len(calls) == 2
        comm.reduce_add_coalesced([argument, result], 0)
        assert len(calls) == 4
    finally:
        del driver.cuMemcpyPeerAsync


def test_derivatives_of_coalesced(three: None) -> None:
    argument = [values(3).cuda().requires_grad_(), values(2, 2).cuda(), values(4).cuda().requires_grad_()]
    result = comm.broadcast_coalesced(argument, (0, 1, 2))
    loss = (
        (result[0][0] * 2).sum()
        + (result[1][0] * result[1][1].sum() * 3).sum().to(0)
        + result[2][0].sum().to(0)
    )
    assert not result[1][1].requires_grad
    # Nothing has come from the last one: it has no gradient, as without copies.
    loss.backward()
    equal(argument[0].grad, np.full(3, 2 + 18 + 1))
    assert argument[2].grad is None


def test_broadcast_coalesced_errors(two: None) -> None:
    x = values(3).cuda()
    with pytest.raises(RuntimeError, match=r"devices\[0\], cuda:1, but tensors\[0\] is on cuda:0"):
        comm.broadcast_coalesced([x], (1, 0))
    with pytest.raises(RuntimeError, match="positive buffer_size"):
        comm.broadcast_coalesced([x], (0, 1), 0)
    with pytest.raises(RuntimeError, match=r"tensors\[0\] is on cpu"):
        comm.broadcast_coalesced([values(3)], (0, 1))


# reduce_add


def test_reduce_add(three: None) -> None:
    argument = [values(3, 50).to(f"cuda:{i}") + i for i in range(3)]
    result = comm.reduce_add(argument, "cuda:1")
    for each in argument:
        each.zero_()
    assert result.device.index == 1
    equal(result, 3 * values(3, 50) + 3)
    with cuda.device(2):
        assert comm.reduce_add(argument).device.index == 2
    assert comm.reduce_add(argument[1:2], 1) is argument[1]


def test_reduce_add_of_other_strides_and_types(three: None) -> None:
    a = values(3, 4).cuda()
    b = values(4, 3).to("cuda:1").t()
    equal(comm.reduce_add([a, b], 0), values(3, 4) + values(4, 3).t())
    halves = [
        tensor.tensor([x], dtype=tensor.float16, device=f"cuda:{i}") for i, x in enumerate([2048, 1, 1])
    ]
    equal(comm.reduce_add(halves, 0), np.array([2050], np.float16))
    whole = [tensor.tensor([1 + 2j], device=f"cuda:{i}") for i in range(3)]
    equal(comm.reduce_add(whole, 0), np.array([3 + 6j], np.complex64))


def test_more_summands_than_a_launch_adds(two: None) -> None:
    argument = [values(7).to(f"cuda:{i % 2}") for i in range(40)]
    equal(comm.reduce_add(argument, 0), 40 * values(7))


def test_derivative_of_reduce_add_is_the_broadcast(three: None) -> None:
    argument = [values(4).to(f"cuda:{i}").requires_grad_() for i in range(3)]
    result = comm.reduce_add(argument, 0)
    (result * values(4).cuda()).sum().backward()
    for i, each in enumerate(argument):
        assert each.grad.device.index == i
        equal(each.grad, values(4))


@pytest.mark.parametrize("buffer_size", [256, 10485760])
def test_reduce_add_coalesced(three: None, buffer_size: int) -> None:
    argument = [[x for x in several(f"cuda:{i}") if x.dtype is not tensor.bool] for i in range(3)]
    result = comm.reduce_add_coalesced(argument, 0, buffer_size)
    for x, original in zip(result, argument[0], strict=True):
        assert x.dtype is original.dtype
        equal(x, original * 3)
        assert x._storage.nbytes() == x.numel() * x.element_size()


def test_reduce_add_errors(two: None) -> None:
    a, b = values(3).cuda(), values(3).to("cuda:1")
    with pytest.raises(RuntimeError, match="destination cuda:0, but they are on cuda:1"):
        comm.reduce_add([b], 0)
    with pytest.raises(ValueError, match=r"input 1 has invalid size: got \[4\], but expected \[3\]"):
        comm.reduce_add([a, values(4).cuda()], 0)
    with pytest.raises(ValueError, match="input 1 has another type"):
        comm.reduce_add([a, b.double()], 0)
    with pytest.raises(RuntimeError, match="input 1 is on cpu"):
        comm.reduce_add([a, values(3)], 0)
    with pytest.raises(RuntimeError, match="empty list"):
        comm.reduce_add([])
    with pytest.raises(ValueError, match="as many tensors from every device, but got 1, 2"):
        comm.reduce_add_coalesced([[a], [b, b]])
    with pytest.raises(RuntimeError, match=r"inputs\[0\] on one device, but they are on cuda:0 and cuda:1"):
        comm.reduce_add_coalesced([[a, b], [b, b]])
    assert comm.reduce_add_coalesced([[], []]) == ()


# Streams


def test_exchange_on_side_streams(three: None) -> None:
    sides = [cuda.Stream(i) for i in range(3)]
    x = values(6, 400).pin_memory()
    with sides[0], sides[1], sides[2]:
        parts = comm.scatter(x, (0, 1, 2))
        joined = comm.gather([part * 2 for part in parts], 0, 0)
        copies = comm.broadcast(joined, (0, 1, 2))
        total = comm.reduce_add(copies, 1)
        back = comm.gather([total], 0, "cpu")
    equal(back, 6 * values(6, 400))


def test_copies_run_beside_other_work() -> None:
    # Nothing runs before something waits for it; what is on the default stream of the receiver is no part of that.
    install(2, schedule="lazy")
    done: list[str] = []
    x = values(4, 300)
    sources = [x, x.pin_memory(), values(2, 1 << 15), x.cuda()]
    tensors = [values(n).cuda() for n in (3, 5)]
    cuda.synchronize(0)
    cuda.default_stream(1).native.add_callback(done.append, "other work")
    # Freed memory is asked for, which lets the simulated device go on.
    kept = []
    for source in sources:
        kept.append(parts := comm.scatter(source, (0, 1)))
        copy_stream(cuda_state(1)).synchronize()
        assert not done
    cuda.synchronize(0)
    assert not done
    # Packed tensors are the copy's own: their device goes on.
    copies = comm.broadcast_coalesced(tensors, (0, 1))
    tensors[0].add_(1)
    cuda.synchronize(0)
    assert not done
    equal(parts[1], x[2:])
    assert done
    equal(copies[1][0], values(3))


def test_nothing_is_left_unwritten_and_read() -> None:
    install(2, check="full")
    result = comm.broadcast_coalesced([values(3).cuda(), values(5).cuda()], (0, 1))
    equal(comm.reduce_add_coalesced(result, 0)[1], 2 * values(5))
    assert not drv.simulator.findings()
