"""Programs with streams as users write them, each correct, and wrong where a line that it needs is left out.

A program is a generator function: what it is called with names the line to leave out (none: correct), and it gives pairs of
a result and what that should be, both of which the host can read when the program is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import nn
import tensor
from nn import functional, optim
from parallel import DataParallel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Results = Iterator[tuple[Any, Any]]

cuda = tensor.cuda


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def prefetcher(without: str) -> Results:
    """Batches are copied to the device on a stream of their own while the batch before is worked on."""
    batches = [numbers(16, 16, seed=seed) for seed in range(6)]
    pinned = [tensor.from_numpy(batch).pin_memory() for batch in batches]
    weight = tensor.from_numpy(numbers(16, 16, seed=9)).cuda()
    copies = cuda.Stream()
    sums = []

    def fetch(index: int) -> tensor.Tensor:
        with cuda.stream(copies):
            return pinned[index].to("cuda", non_blocking=True)

    ahead = fetch(0)
    for index in range(len(batches)):
        x = ahead
        if without != "wait":
            cuda.current_stream().wait_stream(copies)
        if without != "record_stream":
            x.record_stream(cuda.current_stream())
        if index + 1 < len(batches):
            ahead = fetch(index + 1)
        sums.append((x @ weight).sum())
        del x
    for total, batch in zip(sums, batches, strict=True):
        yield total.item(), (batch @ numbers(16, 16, seed=9)).sum()


def staging_buffers(without: str) -> Results:
    """Two pinned buffers are filled in turn by the host; an event tells when the copy out of one is done."""
    data = [numbers(64, seed=seed) for seed in range(6)]
    buffers = [tensor.zeros(64).pin_memory() for _ in range(2)]
    events = [cuda.Event(), cuda.Event()]
    copies = cuda.Stream()
    out = tensor.zeros(6, 64, device="cuda")
    if without != "initial wait":
        copies.wait_stream(cuda.current_stream())
    for turn, values in enumerate(data):
        buffer, event = buffers[turn % 2], events[turn % 2]
        if turn >= 2 and without != "event before the buffer is filled again":
            event.synchronize()
        buffer.copy_(tensor.from_numpy(values))
        with cuda.stream(copies):
            out[turn].copy_(buffer, non_blocking=True)
            event.record()
    cuda.current_stream().wait_stream(copies)
    yield out.cpu().numpy(), np.stack(data)


def results_to_the_host(without: str) -> Results:
    """Results go to pinned memory on a side stream, and the host reads them behind an event."""
    x = tensor.from_numpy(numbers(32, 32)).cuda()
    side, done = cuda.Stream(), cuda.Event()
    host = tensor.empty(32, 32).pin_memory()
    y = x * 3 + 1
    if without != "wait before the copy":
        side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        host.copy_(y, non_blocking=True)
        done.record()
    if without != "record_stream":
        y.record_stream(side)
    del y
    scratch = x * 0 - 7
    if without != "synchronisation before the host reads":
        done.synchronize()
    yield host.sum().item(), (numbers(32, 32) * 3 + 1).sum()
    yield scratch.sum().item(), -7 * 32 * 32


def backward_on_a_side_stream(without: str) -> Results:
    """Forward and backward run on a side stream, and the optimizer on the default stream."""
    start = numbers(8, 8, seed=3)
    weight = tensor.from_numpy(start.copy()).cuda().requires_grad_()
    x = tensor.from_numpy(numbers(4, 8)).cuda()
    optimizer = optim.SGD([weight], lr=0.5)
    side = cuda.Stream()
    expected = start.copy()
    for _ in range(3):
        if without != "wait before forward":
            side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            optimizer.zero_grad()
            (x @ weight).sum().backward()
        if without != "wait before the step":
            cuda.current_stream().wait_stream(side)
        weight.grad.record_stream(cuda.current_stream())
        optimizer.step()
        expected -= 0.5 * numbers(4, 8).sum(0)[:, None]
    yield weight.detach().cpu().numpy(), np.broadcast_to(expected, (8, 8))


def fork_and_join(without: str) -> Results:
    """Slices of one tensor are worked on by four streams."""
    data = numbers(4, 256)
    x = tensor.from_numpy(data).cuda()
    streams = [cuda.Stream() for _ in range(4)]
    begin = cuda.current_stream().record_event()
    for row, stream in enumerate(streams):
        with cuda.stream(stream):
            if without != "wait after the fork":
                stream.wait_event(begin)
            x[row].mul_(row + 1)
    for stream in streams:
        if without != "wait at the join":
            cuda.current_stream().wait_stream(stream)
    total = x.sum(0)
    yield total.cpu().numpy(), (data * np.arange(1, 5)[:, None]).sum(0)


def spectrum_on_a_side_stream(without: str) -> Results:
    """A filter in the frequency domain: transforms on a side stream, the products on the default stream."""
    data = numbers(4, 64)
    x = tensor.from_numpy(data).cuda()
    window = tensor.ones(33, device="cuda")
    window[16:] = 0.0
    side = cuda.Stream()
    if without != "wait before the transform":
        side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        spectrum = tensor.fft.rfft(x)
    if without != "wait before the product":
        cuda.current_stream().wait_stream(side)
    spectrum.record_stream(cuda.current_stream())
    filtered = spectrum * window
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        result = tensor.fft.irfft(filtered, n=64)
    filtered.record_stream(side)
    cuda.current_stream().wait_stream(side)
    low = np.fft.rfft(data)
    low[:, 16:] = 0
    yield result.cpu().numpy(), np.fft.irfft(low, n=64)


def gradient_accumulation(without: str) -> Results:
    """Gradients of four micro-batches are added up, and copied to the host on a side stream to be logged."""
    model = nn.Linear(8, 1, bias=False).cuda()
    with tensor.no_grad():
        model.weight.fill_(1.0)
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    log, side = tensor.zeros(1, 8).pin_memory(), cuda.Stream()
    micro = [numbers(4, 8, seed=seed) for seed in range(4)]
    optimizer.zero_grad(set_to_none=False)
    for batch in micro:
        functional.mse_loss(
            model(tensor.from_numpy(batch).cuda()), tensor.zeros(4, 1, device="cuda")
        ).backward()
    if without != "wait before the gradients are logged":
        side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        log.copy_(model.weight.grad, non_blocking=True)
    if without != "wait before the gradients are cleared":
        cuda.current_stream().wait_stream(side)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    cuda.synchronize()
    gradient = sum(2 * (batch.sum(1, keepdims=True) * batch).mean(0, keepdims=True) for batch in micro)
    yield log.numpy(), gradient
    yield model.weight.detach().cpu().numpy(), 1 - gradient


def pipeline_of_two_devices(without: str) -> Results:
    """Each micro-batch goes through a stage on the first device, and then through one on the second."""
    micro = [numbers(8, 8, seed=seed) for seed in range(3)]
    weights = [tensor.from_numpy(numbers(8, 8, seed=20 + stage)).to(f"cuda:{stage}") for stage in range(2)]
    streams = [cuda.Stream(device=stage) for stage in range(2)]
    for stage, stream in enumerate(streams):
        stream.wait_stream(cuda.current_stream(stage))
    results = []
    for batch in micro:
        with cuda.stream(streams[0]):
            hidden = tensor.from_numpy(batch).cuda() @ weights[0]
        with cuda.device(1), cuda.stream(streams[1]):
            received = tensor.empty(8, 8, device="cuda:1")
            empty = streams[1].record_event()
        with cuda.stream(streams[0]):
            streams[0].wait_event(empty)
            received.copy_(hidden, non_blocking=True)
            ready = streams[0].record_event()
        with cuda.device(1), cuda.stream(streams[1]):
            if without != "event between the stages":
                streams[1].wait_event(ready)
            results.append(received @ weights[1])
    cuda.synchronize(0)
    cuda.synchronize(1)
    hosts = [tensor.empty(8, 8).pin_memory() for _ in results]
    with cuda.device(1):
        for host, result in zip(hosts, results, strict=True):
            host.copy_(result, non_blocking=True)
        cuda.current_stream(1).synchronize()
    for host, batch in zip(hosts, micro, strict=True):
        yield host.numpy(), batch @ numbers(8, 8, seed=20) @ numbers(8, 8, seed=21)


def data_parallel_training(without: str) -> Results:
    """Two replicas of a model, inputs from a stream of their own, and a step of the optimizer."""
    model = nn.Linear(4, 2, bias=False).cuda()
    with tensor.no_grad():
        model.weight.fill_(0.5)
    replicated = DataParallel(model, device_ids=[0, 1])
    optimizer = optim.SGD(model.parameters(), lr=0.25)
    inputs, expected = cuda.Stream(), np.full((2, 4), 0.5, np.float32)
    for step in range(2):
        batch = numbers(6, 4, seed=step)
        with cuda.stream(inputs):
            x = tensor.from_numpy(batch).pin_memory().to("cuda", non_blocking=True)
        if without != "wait for the inputs":
            cuda.current_stream().wait_stream(inputs)
        x.record_stream(cuda.current_stream())
        optimizer.zero_grad()
        replicated(x).sum().backward()
        optimizer.step()
        expected = expected - 0.25 * batch.sum(0)
    yield model.weight.detach().cpu().numpy(), expected


_NORMALISE = r"""
extern "C" __global__ void normalise(const float* x, float* y, float* total, int columns)
{
    __shared__ float part[4];
    const float* row = x + blockIdx.x * columns;
    float largest = row[0];
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        largest = fmaxf(largest, row[i]);
    for (int offset = 16; offset > 0; offset /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, offset));
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = largest;
    FIRST
    for (int warp = 0; warp < 4; warp++)
        largest = fmaxf(largest, part[warp]);
    SECOND
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        sum += row[i] - largest;
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, offset);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = part[0] + part[1] + part[2] + part[3];
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        y[blockIdx.x * columns + i] = row[i] - largest;
    if (threadIdx.x == 0)
        ADD;
}
"""


def raw_kernel(without: str) -> Results:
    """A kernel of the user's own, whose warps meet in shared memory twice, and whose blocks add to one total."""
    lines = {
        "FIRST": "" if without == "first barrier" else "__syncthreads();",
        "SECOND": "" if without == "barrier before shared memory is used again" else "__syncthreads();",
        "ADD": "*total += sum" if without == "atomic" else "atomicAdd(total, sum)",
    }
    source = _NORMALISE
    for word, line in lines.items():
        source = source.replace(word, line)
    kernel = cuda.RawKernel(source, "normalise")
    data = numbers(6, 200)
    x = tensor.from_numpy(data).cuda()
    y = tensor.empty_like(x)
    total = (
        tensor.empty(1, device="cuda") if without == "zero of the total" else tensor.zeros(1, device="cuda")
    )
    kernel(6, 128, (x, y, total, np.int32(200)))
    below = data - data.max(1, keepdims=True)
    yield y.cpu().numpy(), below
    yield total.item(), below.sum()


#: Each program, and the lines that it may be left without: one wrong program each.
PROGRAMS: dict[Callable[[str], Results], tuple[str, ...]] = {
    prefetcher: ("wait", "record_stream"),
    staging_buffers: ("initial wait", "event before the buffer is filled again"),
    results_to_the_host: ("wait before the copy", "record_stream", "synchronisation before the host reads"),
    backward_on_a_side_stream: ("wait before forward", "wait before the step"),
    fork_and_join: ("wait after the fork", "wait at the join"),
    spectrum_on_a_side_stream: ("wait before the transform", "wait before the product"),
    gradient_accumulation: ("wait before the gradients are logged", "wait before the gradients are cleared"),
    pipeline_of_two_devices: ("event between the stages",),
    data_parallel_training: ("wait for the inputs",),
    raw_kernel: (
        "first barrier",
        "barrier before shared memory is used again",
        "atomic",
        "zero of the total",
    ),
}
