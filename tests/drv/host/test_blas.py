"""Products that threads share, and BLAS, which has one thread."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from drv.host import blas
from drv.host import threads as host_threads

_RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "_BLOCK", 1 << 10)
    monkeypatch.setattr(blas, "_ROWS", 4)
    monkeypatch.setattr(blas._Blas, "single", True)
    # Small products have another order.
    monkeypatch.setattr(blas._Blas, "ordered", False)


def threads(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_threads, "thread_count", lambda: count)
    monkeypatch.setattr(host_threads, "_threads", host_threads._Threads())


def values(*shape: int, dtype: str) -> Any:
    return (_RNG.standard_normal(shape) * 9).astype(dtype)


SHAPES = [
    ((40, 30), (30, 20)),
    ((7, 30), (30, 90)),
    ((1, 200), (200, 99)),
    ((9, 20, 15), (9, 15, 12)),
    ((2, 50, 15), (2, 15, 12)),
    ((50, 20, 15), (15, 12)),
    ((50, 20, 15), (1, 15, 12)),
    ((20, 15), (40, 15, 12)),
    ((3, 1, 20, 15), (5, 15, 12)),
    ((2000, 3), (3, 2)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int64"])
@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_products(
    a: tuple[int, ...], b: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, right = values(*a, dtype=dtype), values(*b, dtype=dtype)
    expected = left @ right
    results = []
    for count in (1, 3):
        threads(count, monkeypatch)
        results.append(blas.multiply(left, right))
        out = np.empty_like(expected)
        assert blas.multiply(left, right, out) is out
        results.append(out)
    for result in results:
        assert result.dtype == expected.dtype and result.shape == expected.shape
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)
        # The same bits for every number of threads.
        np.testing.assert_array_equal(result, results[0])


def test_strided_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    threads(3, monkeypatch)
    a, b = values(60, 80, dtype="float64"), values(90, 80, dtype="float64")
    np.testing.assert_allclose(blas.multiply(a[::2], b.T), a[::2] @ b.T)
    np.testing.assert_allclose(blas.multiply(a.T, b[:60]), a.T @ b[:60])
    np.testing.assert_allclose(blas.multiply(a, a.T), a @ a.T)


@pytest.mark.parametrize(
    ("a", "b", "blocks"),
    # Blocks of at least 4 rows or columns, and 1024 multiplications.
    [
        ((4, 4), (4, 4), 0),
        ((16, 16), (16, 16), 4),
        ((4, 32), (32, 32), 4),
        ((100, 8, 8), (8, 8), 50),
        ((6, 1000), (1000, 2), 1),
    ],
)
def test_how_many_blocks(
    a: tuple[int, ...], b: tuple[int, ...], blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(
        blas, "share", lambda work, count: (seen.append(count), [work(each) for each in range(count)])
    )
    left, right = values(*a, dtype="float32"), values(*b, dtype="float32")
    np.testing.assert_allclose(blas.multiply(left, right), left @ right, rtol=1e-4, atol=1e-3)
    assert sum(seen) == blocks


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("sizes", [(700, 300, 900), (900, 513, 700), (1100, 1700, 130)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_products_have_the_same_bits_wherever_they_are_cut(
    sizes: tuple[int, int, int], turned: bool, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blas, "_BLOCK", 1 << 24)
    monkeypatch.setattr(blas, "_ROWS", 128)
    monkeypatch.setattr(blas._Blas, "single", None)
    blas.single_threaded()
    rows, depth, columns = sizes
    left, right = values(rows, depth, dtype=dtype), values(depth, columns, dtype=dtype)
    if turned:
        left, right = np.ascontiguousarray(left.T).T, np.ascontiguousarray(right.T).T
    results = []
    for count in (1, 2, 3, 8):
        threads(count, monkeypatch)
        monkeypatch.setattr(blas, "thread_count", lambda count=count: count)
        results.append(blas.multiply(left, right))
    for result in results:
        np.testing.assert_array_equal(result, results[0])


_ON_THREADS = """
import numpy
from drv.host import blas, threads
random = numpy.random.default_rng(0)
for dtype in ("float32", "float64"):
    for rows, depth, columns in ((700, 301, 901), (901, 513, 700), (1101, 1700, 131)):
        left, right = (random.standard_normal(each).astype(dtype) for each in ((rows, depth), (depth, columns)))
        results = []
        for count in (1, 2, 3, 8):
            threads.set_thread_count(count)
            results.append(blas.multiply(left, right))
        for result in results:
            numpy.testing.assert_array_equal(result, results[0])
"""


@pytest.mark.parametrize("processor", ["Haswell", "Sandybridge"])
def test_large_products_have_the_same_bits_on_other_processors(processor: str) -> None:
    """The kernels of OpenBLAS differ; where the processor has not what they need, it takes its own."""
    environment = {name: text for name, text in os.environ.items() if name not in blas._VARIABLES}
    done = subprocess.run(
        [sys.executable, "-c", _ON_THREADS],
        env=environment | {"OPENBLAS_CORETYPE": processor},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="matmul"):
        blas.multiply(np.ones((100, 100)), np.ones((99, 100)))
    with pytest.raises(ValueError, match="broadcast"):
        blas.multiply(np.ones((3, 100, 100)), np.ones((2, 100, 100)))
    with pytest.raises(ValueError, match="mismatch|broadcast"):
        blas.multiply(np.ones((100, 100)), np.full((100, 100), 2.0), np.empty((100, 99)))


_COUNTS = """
import threading, numpy, tensor
from threadpoolctl import ThreadpoolController
libraries = ThreadpoolController().select(user_api="blas").lib_controllers
def threads():
    return max([each.num_threads for each in libraries if "scipy.libs" not in each.filepath], default=1)
a = tensor.ones(64, 64)
a @ a
print(threads(), threading.active_count(), end=" ")
tensor.set_num_threads(2)
b = tensor.ones(700, 700)
b @ tensor.ones(700, 700)
print(threads(), threading.active_count())
"""


_SIMULATED = """
import drv, threading
from threadpoolctl import ThreadpoolController
libraries = ThreadpoolController().select(user_api="blas").lib_controllers
with drv.simulator.installed():
    drv.runtime().library("cublas")
    print(max([each.num_threads for each in libraries if "scipy.libs" not in each.filepath], default=1))
"""


def test_threads_of_a_simulated_library() -> None:
    environment = {name: text for name, text in os.environ.items() if name not in blas._VARIABLES}
    done = subprocess.run(
        [sys.executable, "-c", _SIMULATED],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stdout == "1\n", done.stderr


@pytest.mark.parametrize(("variable", "expected"), [("", "1 1 1 2"), ("OPENBLAS_NUM_THREADS", "3 1 3 1")])
def test_threads_of_a_process(variable: str, expected: str) -> None:
    environment = {name: text for name, text in os.environ.items() if name not in blas._VARIABLES}
    environment.pop("OMP_NUM_THREADS", None)
    if variable:
        if (os.cpu_count() or 1) < 3:
            expected = expected.replace("3", str(os.cpu_count()))
        environment[variable] = "3"
    done = subprocess.run(
        [sys.executable, "-c", _COUNTS],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stdout.strip() == expected, done.stderr


@pytest.mark.parametrize("ordered", [False, True])
def test_columns_at_once(ordered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only of what OpenBLAS would pack, and where it has kernels that do not."""
    monkeypatch.setattr(blas._Blas, "single", True)
    monkeypatch.setattr(blas._Blas, "ordered", ordered)
    monkeypatch.setattr(blas.mkl, "multiplies", lambda dtype, multiplications: False)
    assert blas.columns_at_once(32, 256, 1024) == (64 if ordered else 1024)
    # Few multiplications as they are, and so many that 64 columns are too many.
    assert blas.columns_at_once(3, 20, 80) == 80
    assert blas.columns_at_once(64, 512, 2048) == 2048
    # Another library packs less.
    monkeypatch.setattr(blas.mkl, "multiplies", lambda dtype, multiplications: True)
    assert blas.columns_at_once(32, 256, 1024) == 1024
