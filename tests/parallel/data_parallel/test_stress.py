"""Many threads at once, which the interpreter switches as often as it can: each computes what it would compute alone.

Kernels are compiled, plans made, memory allocated and given back, graphs recorded and run, modules replicated, all by threads that
begin together with nothing cached. What a thread has to compute follows from its number; the reference is computed before, by one
thread.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import drv
import nn
import parallel
import tensor
from tests.parallel.threads import together

pytestmark = pytest.mark.simulator_only

_NIGHTLY = pytest.mark.nightly
#: Seed, threads, and tasks of each.
SIZES = [
    pytest.param(1, 4, 6, id="short"),
    *(pytest.param(seed, 8, 40, id=f"long-{seed}", marks=_NIGHTLY) for seed in range(2, 5)),
]


@pytest.fixture(autouse=True)
def _impatient_threads() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


def _values(numbers: random.Random, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(numbers.randrange(1 << 30)).standard_normal(shape).astype(np.float32)


def _pointwise(numbers: random.Random, device: str) -> list[Any]:
    """Plans of shapes that few threads share."""
    rows, columns = numbers.randrange(1, 9), numbers.randrange(1, 70)
    x, y = (tensor.tensor(_values(numbers, rows, columns), device=device) for _ in range(2))
    operation = numbers.choice(["add", "mul", "sub", "maximum", "atan2"])
    result = getattr(x, operation)(y)
    return [result, result.t().contiguous(), result[:, ::2] * 2]


def _reductions(numbers: random.Random, device: str) -> list[Any]:
    x = tensor.tensor(_values(numbers, numbers.randrange(1, 6), numbers.randrange(1, 90)), device=device)
    return [x.sum(numbers.randrange(2)), x.amax(), x.softmax(-1), x.cumsum(0)]


def _training(numbers: random.Random, device: str) -> list[Any]:
    """Steps of a model of the thread's own, on a stream of its own."""
    width = numbers.choice([3, 5, 8])
    model = nn.Sequential(nn.Linear(width, 7), nn.Tanh(), nn.Linear(7, 1))
    with tensor.no_grad():
        for each in model.parameters():
            each.copy_(tensor.tensor(_values(numbers, *each.shape)))
    model.to(device)
    optimizer = nn.optim.AdamW(model.parameters(), lr=0.1)
    x = tensor.tensor(_values(numbers, 4, width), device=device)
    stream = tensor.cuda.Stream(device)
    stream.wait_stream(tensor.cuda.current_stream(device))
    with tensor.cuda.stream(stream):
        for _ in range(2):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    tensor.cuda.current_stream(device).wait_stream(stream)
    return list(model.parameters())


def _memory(numbers: random.Random, device: str) -> list[Any]:
    """Blocks of many sizes, given back in another order, and the cache emptied."""
    blocks = [
        tensor.full((numbers.randrange(1, 3000),), float(number), device=device) for number in range(12)
    ]
    numbers.shuffle(blocks)
    sums = []
    while blocks:
        sums.append(blocks.pop().sum())
        if numbers.random() < 0.2:
            tensor.cuda.empty_cache()
        if numbers.random() < 0.2:
            tensor.cuda.memory_stats(device)
    return sums


def _replicas(numbers: random.Random, device: str) -> list[Any]:
    """A model on both devices, whose replicas compute in threads of their own."""
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.BatchNorm1d(6), nn.Linear(6, 2))
    with tensor.no_grad():
        for each in model.parameters():
            each.copy_(tensor.tensor(_values(numbers, *each.shape)))
    replicated = parallel.DataParallel(model.to("cuda:0"), [0, 1])
    x = tensor.tensor(_values(numbers, 6, 4), device="cuda:0", requires_grad=True)
    output = replicated(x)
    output.square().sum().backward()
    return [output, x.grad, *(each.grad for each in model.parameters())]


def _second_derivatives(numbers: random.Random, device: str) -> list[Any]:
    x = tensor.tensor(_values(numbers, 5), device=device, requires_grad=True)
    (first,) = tensor.autograd.grad((x.exp() * x).sum(), x, create_graph=True)
    (second,) = tensor.autograd.grad(first.square().sum(), x)
    return [first, second]


TASKS: list[Callable[[random.Random, str], list[Any]]] = [
    _pointwise,
    _reductions,
    _training,
    _memory,
    _replicas,
    _second_derivatives,
]


def _computed(seed: int, tasks: int) -> list[list[Any]]:
    """What a thread computes: every task once, and then any."""
    numbers = random.Random(seed)
    device = f"cuda:{seed % 2}"
    chosen = numbers.sample(TASKS, len(TASKS))
    chosen += [numbers.choice(TASKS) for _ in range(tasks - len(TASKS))]
    with tensor.cuda.device(device):
        return [[each.detach().cpu().numpy() for each in task(numbers, device)] for task in chosen]


@pytest.mark.parametrize(("seed", "threads", "tasks"), SIZES)
def test_threads_compute_what_they_would_alone(
    seed: int, threads: int, tasks: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    with drv.simulator.installed(devices=2):
        expected = [_computed(seed * 100 + number, tasks) for number in range(threads)]
    if threads > 4:
        # Kernels are compiled once more, by whichever thread comes first, and not read from the disk.
        monkeypatch.setenv("GRAPHROOT_CACHE_DIR", str(tmp_path))
    drv.simulator.install(devices=2, check="race", schedule="random", seed=seed)
    sys.setswitchinterval(1e-6)
    results = together(lambda number: _computed(seed * 100 + number, tasks), threads)
    for device in range(2):
        tensor.cuda.synchronize(device)
    assert not drv.simulator.findings()
    for one, other in zip(results, expected, strict=True):
        for arrays, references in zip(one, other, strict=True):
            for array, reference in zip(arrays, references, strict=True):
                np.testing.assert_allclose(array, reference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("threads", "rounds"), [(4, 10), pytest.param(16, 200, marks=_NIGHTLY)])
def test_gradients_of_one_parameter_from_many_threads(device: str, threads: int, rounds: int) -> None:
    drv.simulator.install(devices=1, check="race")
    weight = tensor.zeros(3, device=device, requires_grad=True)
    (weight * 1.0).sum().backward()
    sys.setswitchinterval(1e-6)

    def add(number: int) -> None:
        for _ in range(rounds):
            (weight * float(number + 1)).sum().backward()

    together(add, threads)
    assert weight.grad is not None
    assert weight.grad.tolist() == [1.0 + rounds * threads * (threads + 1) / 2] * 3
