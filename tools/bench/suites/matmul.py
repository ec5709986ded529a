"""Matrix products: square, skinny and batched ones, of all types.

With a GPU: on the device, timed by events, against PyTorch and CuPy, which call cuBLAS too. Without: the CPU forms,
which are NumPy's, against PyTorch's; and the host time of products on a simulated device that runs nothing
(``execute=off``), against PyTorch's CPU calls on matrices as small.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any, NamedTuple

from nn import functional
from tools.bench.measure import Row, host_rows, libraries, on_gpu, work_times

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping

#: What is to be reached of PyTorch's speed on a GPU.
REACH = 0.98
#: Calls in one timed call of the host's part, so that the timing loop costs nothing.
CALLS = 16


class Case(NamedTuple):
    """``batch`` products of ``(m, k)`` and ``(k, n)`` matrices; ``batch`` 0 is a single one without that dimension."""

    name: str
    kind: str
    batch: int
    m: int
    n: int
    k: int

    @property
    def dtype(self) -> str:
        """Name of the elements' type."""
        return "float32" if self.kind == "tf32" else self.kind

    @property
    def operations(self) -> int:
        """Additions and multiplications."""
        return (8 if self.kind.startswith("complex") else 2) * max(self.batch, 1) * self.m * self.n * self.k


def _cases(on_gpu: bool) -> list[Case]:
    large, skinny, small, count = (8192, 8192, 256, 512) if on_gpu else (768, 1024, 64, 128)
    dtypes = ["float32", "tf32", "float16", "bfloat16", "float64", "complex64"]
    if not on_gpu:
        dtypes = ["float32", "float64", "complex64"]
    result = [Case(f"{kind}, square", kind, 0, large, large, large) for kind in dtypes]
    for kind in dtypes[:4] if on_gpu else dtypes[:2]:
        result += [
            Case(f"{kind}, 16 rows", kind, 0, 16, skinny, skinny),
            Case(f"{kind}, 16 columns", kind, 0, skinny, 16, skinny),
            Case(f"{kind}, inner size 16", kind, 0, skinny, skinny, 16),
            Case(f"{kind}, batch of {count}", kind, count, small, small, small),
            Case(f"{kind}, batch of {count * 8} small", kind, count * 8, small // 4, small // 4, small // 4),
        ]
    return result


def rows(only: str, options: argparse.Namespace) -> Iterator[Row]:
    """Measure the rows whose name contains ``only``."""
    gpu = on_gpu()
    device = "cuda" if gpu else "cpu"
    contenders = libraries(device, one_thread=False)
    for case in _cases(gpu):
        if only not in case.name:
            continue
        calls = {name: _product(library, case, device) for name, library in contenders.items()}
        if gpu and importlib.util.find_spec("cupy") and case.kind not in ("tf32", "bfloat16"):
            import cupy

            calls["cupy"] = _product_of_cupy(cupy, case)
        times = work_times(calls, contenders)
        rates = {name: case.operations / time for name, time in times.items()}
        yield Row(case.name, "GFLOP/s", rates, better="higher", reach=_reach(rates) if gpu else None)
    if not gpu:
        yield from host_rows(only, contenders, _small, CALLS)


def _reach(rates: Mapping[str, float]) -> float | None:
    peers = [rate for name, rate in rates.items() if name.startswith("torch")]
    return REACH * max(peers) if peers else None


def _product(lib: Any, case: Case, device: str) -> Callable[[], object]:
    dtype = getattr(lib, case.dtype)
    lead = (case.batch,) if case.batch else ()
    a = lib.randn(*lead, case.m, case.k, device=device).to(dtype)
    b = lib.randn(*lead, case.k, case.n, device=device).to(dtype)
    out = lib.empty(*lead, case.m, case.n, device=device, dtype=dtype)
    matmul, setting = lib.matmul, lib.backends.cuda.matmul
    tf32 = case.kind == "tf32"

    def call() -> None:
        setting.allow_tf32 = tf32
        matmul(a, b, out=out)

    return call


def _product_of_cupy(cupy: Any, case: Case) -> Callable[[], object]:
    lead = (case.batch,) if case.batch else ()
    a = cupy.random.standard_normal((*lead, case.m, case.k), dtype="float32").astype(case.dtype)
    b = cupy.random.standard_normal((*lead, case.k, case.n), dtype="float32").astype(case.dtype)
    out = cupy.empty((*lead, case.m, case.n), case.dtype)
    return lambda: cupy.matmul(a, b, out=out)


def _small(lib: Any, device: str) -> dict[str, Callable[[], object]]:
    a, b = lib.ones(4, 4, device=device), lib.ones(4, 4, device=device)
    many, vector = lib.ones(2, 4, 4, device=device), lib.ones(4, device=device)
    linear = lib.nn.functional.linear if hasattr(lib, "nn") else functional.linear
    return {
        "mm": lambda: lib.mm(a, b),
        "mm, transposed": lambda: lib.mm(a.t(), b),
        "mv": lambda: lib.mv(a, vector),
        "bmm": lambda: lib.bmm(many, many),
        "addmm": lambda: lib.addmm(vector, a, b),
        "linear": lambda: linear(a, b, vector),
        "einsum": lambda: lib.einsum("ij,jk->ik", a, b),
    }
