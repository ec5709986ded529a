"""Tensors scattered to devices and gathered from them: values, derivatives, order of streams, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from parallel import comm
from tensor import cuda
from tests.parallel.simulated import equal, values

pytestmark = pytest.mark.simulator_only


# scatter


@pytest.mark.parametrize("source", ["cpu", "pinned", "cuda:1"])
def test_scatter(three: None, source: str) -> None:
    x = values(5, 7, 4)
    x = x.pin_memory() if source == "pinned" else x.to(source)
    for dim in (0, 1, -1):
        parts = comm.scatter(x, (0, 1, 2), dim=dim)
        expected = values(5, 7, 4).chunk(3, dim)
        assert len(parts) == len(expected)
        for number, (part, each) in enumerate(zip(parts, expected, strict=True)):
            assert part.device.index == number
            equal(part, each)


def test_scatter_of_much_goes_through_pinned_memory(three: None) -> None:
    x = values(3, 1 << 15)
    parts = comm.scatter(x, (0, 1, 2))
    x.zero_()
    for part, each in zip(parts, values(3, 1 << 15).split(1), strict=True):
        equal(part, each)
    across = comm.scatter(values(2, 1 << 16).pin_memory(), (0, 1), dim=1)
    equal(across[1], values(2, 1 << 16)[:, 1 << 15 :])


def test_what_was_scattered_may_be_written_at_once(three: None) -> None:
    x = tensor.full((6, 300), 3.0, device="cuda:0")
    parts = comm.scatter(x, (0, 1, 2))
    x.fill_(7)
    for part in parts[1:]:
        equal(part, np.full((2, 300), 3))


def test_memory_of_what_was_scattered_is_not_used_too_early(three: None) -> None:
    for _ in range(4):
        parts = comm.scatter(tensor.full((6, 1000), 2.0).pin_memory(), (0, 1, 2))
        sums = [part.sum() for part in parts]
        del parts
        assert [each.item() for each in sums] == [4000] * 3


def test_scatter_with_sizes(three: None) -> None:
    x = values(6, 2).cuda().requires_grad_()
    parts = comm.scatter(x, (1, 0), chunk_sizes=[4, 2])
    assert [part.shape[0] for part in parts] == [4, 2]
    assert parts[1].data_ptr() == x.data_ptr() + 32
    assert parts[0].grad_fn.name() == "ScatterBackward"
    (parts[0] * 3).sum().backward()
    equal(x.grad, np.repeat([3, 0], [8, 4]).reshape(6, 2))


def test_derivative_of_scatter_is_gather(three: None) -> None:
    for source in ("cpu", "cuda:1"):
        x = values(2, 7).to(source).requires_grad_()
        parts = comm.scatter(x, (0, 1, 2), dim=1)
        sum((part * part).sum().cpu() for part in parts).backward()
        assert x.grad.device == x.device
        equal(x.grad, 2 * values(2, 7))


def test_scatter_differentiates_twice(two: None) -> None:
    x = values(4, 2).requires_grad_()
    parts = comm.scatter(x, (0, 1))
    (first,) = tensor.autograd.grad(sum((part**3).sum().cpu() for part in parts), x, create_graph=True)
    (second,) = tensor.autograd.grad(first.sum(), x)
    equal(second, 6 * values(4, 2))


def test_scatter_on_streams_of_the_caller(three: None) -> None:
    x = values(4, 600).pin_memory()
    streams = [None, cuda.Stream(1)]
    parts = comm.scatter(x, (0, 1), streams=streams)
    cuda.current_stream(1).wait_stream(streams[1])
    parts[1].record_stream(cuda.current_stream(1))
    equal(cuda_sum(parts), values(4, 600).sum().numpy())


def cuda_sum(parts: Any) -> tensor.Tensor:
    return sum(part.sum().cpu() for part in parts)


def test_scatter_out(three: None) -> None:
    x = values(5, 2)
    out = [tensor.zeros(n, 2, device=f"cuda:{i}") for i, n in enumerate((2, 2, 1))]
    result = comm.scatter(x, out=out)
    assert result[0] is out[0]
    equal(comm.gather(result, destination=-1), x)
    side = cuda.Stream(1)
    comm.scatter(x.pin_memory() + 1, out=out, streams=[None, side, None])
    cuda.current_stream(1).wait_stream(side)
    equal(comm.gather(out, destination="cpu"), x + 1)


def test_scatter_errors(two: None) -> None:
    x = values(4, 2).cuda()
    with pytest.raises(RuntimeError, match="exactly one of 'devices' and 'out'"):
        comm.scatter(x)
    with pytest.raises(RuntimeError, match="at least one dimension"):
        comm.scatter(tensor.tensor(1.0), (0, 1))
    with pytest.raises(
        RuntimeError, match=r"2 chunk_sizes, one for each device, that sum to 4, .* got \[3, 2\]"
    ):
        comm.scatter(x, (0, 1), [3, 2])
    with pytest.raises(RuntimeError, match="'chunk_sizes' must not be given"):
        comm.scatter(x, chunk_sizes=[4], out=[x])
    with pytest.raises(RuntimeError, match="sum to 4, but they sum to 2"):
        comm.scatter(x, out=[x[:2]])
    with pytest.raises(RuntimeError, match=r"out\[0\] with the shape .* got \[3\]"):
        comm.scatter(x, out=[values(3).cuda()])
    with pytest.raises(RuntimeError, match="a stream or None for each of 2 chunks, got 1"):
        comm.scatter(x, (0, 1), streams=[None])
    with pytest.raises(IndexError):
        comm.scatter(x, (0, 1), dim=2)


# gather


@pytest.mark.parametrize("destination", ["cpu", "cuda:2"])
def test_gather(three: None, destination: str) -> None:
    for dim, sizes in ((0, [2, 2, 1]), (1, [3, 3, 1]), (-1, [1, 2, 1])):
        pieces = values(5, 7, 4).split(sizes, dim)
        argument = [piece.to(f"cuda:{i}") for i, piece in enumerate(pieces)]
        result = comm.gather(argument, dim, destination)
        for each in argument:
            each.zero_()
        assert str(result.device) == destination
        equal(result, values(5, 7, 4))


def test_gather_keeps_channels_last(two: None) -> None:
    argument = [values(2, 3, 4, 5).to(f"cuda:{i}").to(memory_format=tensor.channels_last) for i in range(2)]
    for destination in ("cuda:0", "cpu"):
        result = comm.gather(argument, destination=destination)
        assert result.is_contiguous(memory_format=tensor.channels_last)
        equal(result, tensor.cat([values(2, 3, 4, 5)] * 2))
    argument[1] = argument[1].contiguous()
    assert comm.gather(argument, destination=0).is_contiguous()
    across = [values(3, 2).to(f"cuda:{i}").t() for i in range(2)]
    result = comm.gather(across, destination=0)
    assert result.is_contiguous()
    equal(result, tensor.cat([values(3, 2).t()] * 2))


def test_gather_out_and_default_destination(three: None) -> None:
    argument = [values(2, 3).to(f"cuda:{i}") for i in range(3)]
    out = tensor.zeros(6, 3, device="cuda:1")
    assert comm.gather(argument, out=out) is out
    equal(out, tensor.cat([values(2, 3)] * 3))
    with cuda.device(2):
        assert comm.gather(argument).device.index == 2


@pytest.mark.parametrize("destination", ["cpu", "cuda:1"])
def test_derivative_of_gather_is_scatter(three: None, destination: str) -> None:
    argument = [values(n, 2).to(f"cuda:{i}").requires_grad_() for i, n in enumerate((2, 3, 1))]
    result = comm.gather(argument, 0, destination)
    assert result.grad_fn.name() == "GatherBackward"
    (result * values(6, 2).to(destination)).sum().backward()
    for each, expected in zip(argument, values(6, 2).split([2, 3, 1]), strict=True):
        assert each.grad.device == each.device
        equal(each.grad, expected)


def test_gather_errors(two: None) -> None:
    a, b = values(3, 2).cuda(), values(3, 3).to("cuda:1")
    with pytest.raises(RuntimeError, match=r"shape \[3, 2\] and tensors\[1\] \[3, 3\]"):
        comm.gather([a, b])
    with pytest.raises(RuntimeError, match=r"tensors\[1\] is on cpu"):
        comm.gather([a, values(3, 2)])
    with pytest.raises(RuntimeError, match="empty list"):
        comm.gather([])
    with pytest.raises(RuntimeError, match=r"tensors\[0\] has none"):
        comm.gather([tensor.tensor(1.0, device="cuda")])
    with pytest.raises(RuntimeError, match=r"out of shape \[6, 2\], got \[3, 2\]"):
        comm.gather([a, a], out=a)
    with pytest.raises(RuntimeError, match="one of 'destination' and 'out'"):
        comm.gather([a], destination=0, out=a)
