"""Operations on CPU tensors, forward and backward, beside PyTorch's: what training and preparing data on the CPU spends.

The limits are those of the project's goals: no row over 3 times PyTorch's time, the activations and norms that every
model has at most 1.5 times, bfloat16, for which NumPy has no loops, at most 4 times. PyTorch computes with one thread,
unless ``--threads`` says otherwise; so does BLAS here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_limits

from tools.bench.measure import OURS, Row, host_times, libraries

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping

#: Elements of most rows.
ELEMENTS = 1_000_000
#: Times of PyTorch's that a row may take: by default, for what every model has, and for bfloat16.
REACH, COMMON, HALF = 3.0, 1.5, 4.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the suite."""
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch and BLAS (default: 1)")
    parser.add_argument(
        "--elements", type=int, default=ELEMENTS, help=f"elements of most rows (default: {ELEMENTS:,})"
    )


def rows(only: str, options: argparse.Namespace) -> Iterator[Row]:
    """Measure the rows whose name contains ``only``."""
    contenders = libraries("cpu")
    threads = {name: library.get_num_threads() for name, library in contenders.items()}
    try:
        for library in contenders.values():
            library.set_num_threads(options.threads)
        with threadpool_limits(options.threads):
            yield from _rows(only, contenders, options.elements)
    finally:
        for name, library in contenders.items():
            library.set_num_threads(threads[name])


def _rows(only: str, contenders: Mapping[str, Any], elements: int) -> Iterator[Row]:
    calls = {name: _calls(library, elements) for name, library in contenders.items()}
    for row, (_, reach) in calls[OURS].items():
        if only not in row:
            continue
        times = host_times({name: each[row][0] for name, each in calls.items()})
        # A limit is a number of nanoseconds, so it needs PyTorch's.
        limit = next((reach * time for name, time in times.items() if name != OURS), None)
        yield Row(row, "ns", times, reach=limit)


def _calls(lib: Any, elements: int) -> dict[str, tuple[Callable[[], object], float]]:
    """By the names of the rows: what is timed, and how often PyTorch's time it may take."""
    functional = lib.nn.functional
    lib.manual_seed(0)
    side = max(int(elements**0.5), 8)
    x = lib.randn(elements)
    y = lib.randn(elements)
    fractions, near_1 = lib.rand(elements), 1 + 1e-4 * y
    matrix = lib.randn(side, side)
    recorded, recorded_matrix = x.clone().requires_grad_(), matrix.clone().requires_grad_()
    ones, ones_matrix = lib.ones(elements), lib.ones(side, side)
    halves = x.to(lib.bfloat16), y.to(lib.bfloat16)
    weight, bias = lib.ones(side), lib.zeros(side)
    integers = lib.randint(0, elements, (elements,))
    images = lib.randn(4, 16, 32, 32)
    kernel, depthwise = lib.randn(16, 16, 3, 3), lib.randn(16, 1, 3, 3)
    classes = lib.randint(0, side, (side,))

    def both(function: Callable[[Any], Any], of: Any, ones: Any) -> Callable[[], object]:
        def run() -> None:
            of.grad = None
            function(of).backward(ones)

        return run

    result: dict[str, tuple[Callable[[], object], float]] = {
        "add": (lambda: x + y, REACH),
        "mul by a number": (lambda: x * 2.0, REACH),
        "add, bfloat16": (lambda: halves[0] + halves[1], HALF),
        "mul, bfloat16": (lambda: halves[0] * halves[1], HALF),
        "cast to bfloat16": (lambda: x.to(lib.bfloat16), REACH),
        "cast from bfloat16": (lambda: halves[0].to(lib.float32), REACH),
        "clamp": (lambda: x.clamp(-1, 1), REACH),
        "where": (lambda: lib.where(x > 0, x, y), REACH),
        "exp": (lambda: lib.exp(x), REACH),
        "erf": (lambda: lib.erf(x), COMMON),
        "erfinv": (lambda: lib.erfinv(fractions), REACH),
        "logit": (lambda: lib.logit(fractions), REACH),
        "logaddexp2": (lambda: lib.logaddexp2(x, y), REACH),
        "i1": (lambda: lib.special.i1(x), REACH),
        "lgamma": (lambda: lib.lgamma(x), REACH),
        "sum": (lambda: x.sum(), REACH),
        "sum of columns": (lambda: matrix.sum(0), REACH),
        "max of rows": (lambda: matrix.max(1), REACH),
        "sum, bfloat16": (lambda: halves[0].sum(), HALF),
        "std": (lambda: x.std(), REACH),
        "norm": (lambda: x.norm(), REACH),
        "prod": (lambda: near_1.prod(), REACH),
        "median": (lambda: x.median(), REACH),
        "median of rows": (lambda: matrix.median(1), REACH),
        "cumsum": (lambda: x.cumsum(0), COMMON),
        "cumsum of rows": (lambda: matrix.cumsum(1), COMMON),
        "cumsum of columns": (lambda: matrix.cumsum(0), COMMON),
        "topk 10": (lambda: x.topk(10), REACH),
        "topk 10 of rows": (lambda: matrix.topk(10, 1), REACH),
        "sort": (lambda: x.sort(), REACH),
        "linspace": (lambda: lib.linspace(0, 1, elements), REACH),
        "randn": (lambda: lib.randn(elements), REACH),
        "rand": (lambda: lib.rand(elements), REACH),
        "dropout": (lambda: functional.dropout(x, 0.5), REACH),
        "index by a tensor": (lambda: x[integers], REACH),
        "index rows": (lambda: matrix[classes], REACH),
        "softmax": (lambda: functional.softmax(matrix, 1), REACH),
        "cross_entropy": (lambda: functional.cross_entropy(matrix, classes), REACH),
        "layer_norm": (lambda: functional.layer_norm(matrix, (side,), weight, bias), COMMON),
        "conv2d 3x3": (lambda: functional.conv2d(images, kernel, padding=1), REACH),
        "conv2d depthwise 3x3": (lambda: functional.conv2d(images, depthwise, padding=1, groups=16), REACH),
        "max_pool2d": (lambda: functional.max_pool2d(images, 2), REACH),
        "avg_pool2d": (lambda: functional.avg_pool2d(images, 2), REACH),
    }
    for name in ("relu", "sigmoid", "tanh", "gelu", "silu"):
        function = getattr(functional, name)
        reach = COMMON if name in ("relu", "sigmoid", "gelu") else REACH
        result[name] = (partial(function, x), reach)
        result[f"{name}, forward and backward"] = (both(function, recorded, ones), reach)
    result["softmax, forward and backward"] = (
        both(lambda a: functional.softmax(a, 1), recorded_matrix, ones_matrix),
        REACH,
    )
    result["layer_norm, forward and backward"] = (
        both(lambda a: functional.layer_norm(a, (side,), weight, bias), recorded_matrix, ones_matrix),
        COMMON,
    )
    return result
