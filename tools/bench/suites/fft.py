"""Fourier transforms: of one and two dimensions, batched, with the plan cached and made anew.

With a GPU: on the device, timed by events, against PyTorch and CuPy, which call cuFFT too. Without: the CPU forms,
against PyTorch's on as many threads; and the host time of transforms on a simulated device that runs
nothing (``execute=off``), against PyTorch's CPU calls on as few elements.

Rates count 5 n log2(n) operations for a complex transform of n elements and half of that for a real one, as is usual.
"""

from __future__ import annotations

import importlib.util
from math import log2, prod
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.bench.measure import Row, host_rows, libraries, on_gpu, work_times

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

#: What is to be reached of PyTorch's speed on a GPU.
REACH = 0.98
#: Elements of an array on a GPU and on the CPU.
ON_GPU, ON_CPU = 1 << 25, 1 << 20
#: Calls in one timed call of the host's part, so that the timing loop costs nothing.
CALLS = 8


class Case(NamedTuple):
    """A function of ``fft`` over the last dimensions of an array with given sizes there, or over the first one."""

    name: str
    function: str
    sizes: tuple[int, ...]
    double: bool = False
    first: bool = False

    @property
    def real(self) -> bool:
        """Whether the input is real."""
        return self.function.startswith("rfft")

    def shape(self, elements: int) -> tuple[int, ...]:
        """Shape of the input with about so many elements."""
        count = max(elements // prod(self.sizes), 1)
        return (*self.sizes, count) if self.first else (count, *self.sizes)

    def operations(self, elements: int) -> float:
        """Operations that are counted."""
        size, shape = prod(self.sizes), self.shape(elements)
        halved = 0.5 if "rfft" in self.function else 1.0
        return halved * 5 * prod(shape) * log2(size)


def _cases(large: int) -> list[Case]:
    side = 1 << (large.bit_length() - 1) // 2
    return [
        Case("fft, 256", "fft", (256,)),
        Case("fft, 1024", "fft", (1024,)),
        Case("fft, 1024, double", "fft", (1024,), double=True),
        Case("fft, 1000", "fft", (1000,)),
        Case("fft, 1009 (prime)", "fft", (1009,)),
        Case("fft, 1024, over columns", "fft", (1024,), first=True),
        Case(f"fft, {large}", "fft", (large,)),
        Case("rfft, 1024", "rfft", (1024,)),
        Case("irfft, 1024", "irfft", (1024,)),
        Case("fft2, 256 x 256", "fft2", (256, 256)),
        Case(f"fft2, {side} x {side}", "fft2", (side, side)),
        Case("rfft2, 256 x 256", "rfft2", (256, 256)),
        Case("irfft2, 256 x 256", "irfft2", (256, 256)),
        Case("fftn, 64 x 64 x 64", "fftn", (64, 64, 64)),
    ]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the suite."""
    parser.add_argument("--elements", type=int, default=0, help="elements of an array")


def rows(only: str, options: argparse.Namespace) -> Iterator[Row]:
    """Measure the rows whose name contains ``only``."""
    gpu = on_gpu()
    device = "cuda" if gpu else "cpu"
    elements = options.elements or (ON_GPU if gpu else ON_CPU)
    contenders = libraries(device, one_thread=False)
    for case in _cases(elements):
        if only not in case.name:
            continue
        calls = {name: _transform(library, case, device, elements) for name, library in contenders.items()}
        if gpu and importlib.util.find_spec("cupy"):
            import cupy

            calls["cupy"] = _transform_of_cupy(cupy, case, elements)
        times = work_times(calls, contenders)
        rates = {name: case.operations(elements) / time for name, time in times.items()}
        peers = [rate for name, rate in rates.items() if name.startswith("torch")]
        reach = REACH * max(peers) if peers and gpu else None
        yield Row(case.name, "GFLOP/s", rates, better="higher", reach=reach)
    yield from host_rows(only, contenders, _small, CALLS)


def _transform(lib: Any, case: Case, device: str, elements: int) -> Callable[[], object]:
    shape = case.shape(elements)
    dtype = lib.float64 if case.double else lib.float32
    x = lib.randn(*shape, device=device, dtype=dtype)
    if case.function.startswith("ir"):
        x = lib.fft.rfftn(x, dim=tuple(range(-len(case.sizes), 0)))
    elif not case.real:
        x = lib.complex(x, x)
    function = getattr(lib.fft, case.function)
    if case.function == "fftn":
        return lambda: function(x, dim=(-3, -2, -1))
    return (lambda: function(x, dim=0)) if case.first else lambda: function(x)


def _transform_of_cupy(cupy: Any, case: Case, elements: int) -> Callable[[], object]:
    x = cupy.random.standard_normal(case.shape(elements), dtype="float64" if case.double else "float32")
    axes = (0,) if case.first else tuple(range(-len(case.sizes), 0))
    if case.function.startswith("ir"):
        x = cupy.fft.rfftn(x, axes=axes)
    elif not case.real:
        x = x + 1j * x
    name = case.function.removesuffix("2").removesuffix("n") + "n"
    function = getattr(cupy.fft, name)
    return lambda: function(x, axes=axes)


def _small(lib: Any, device: str) -> dict[str, Callable[[], object]]:
    x = lib.ones(4, 16, device=device)
    z = lib.complex(x, x)
    signal, window = lib.ones(64, device=device), lib.ones(16, device=device)
    calls: dict[str, Callable[[], object]] = {
        "fft": lambda: lib.fft.fft(z),
        "ifft": lambda: lib.fft.ifft(z),
        "rfft": lambda: lib.fft.rfft(x),
        "fft2": lambda: lib.fft.fft2(z),
        "rfft2": lambda: lib.fft.rfft2(x),
        "stft": lambda: lib.stft(signal, 16, window=window, center=False, return_complex=True),
    }
    if device == "cuda":
        cache = lib.backends.cuda.cufft_plan_cache

        def planned_anew() -> None:
            cache.clear()
            lib.fft.fft(z)

        calls["fft, plan not cached"] = planned_anew
    return calls
