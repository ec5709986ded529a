"""Products of matrices by oneMKL, where it is installed, and what happens where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

import nn
import tensor
from drv.environment import mkl_allowed
from drv.errors import InvalidValueError
from drv.host import blas, mkl, processors, threads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_RNG = np.random.default_rng(0)
_TYPES = {
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype(np.float16),
}

installed = pytest.mark.skipif(mkl.library() is None, reason="the extra mkl is not installed")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small products are the library's, too, of every dtype that it has on any processor."""
    monkeypatch.setattr(mkl, "_LEAST", 1)
    monkeypatch.setattr(mkl, "LEAST_OF_HALF", 1)
    monkeypatch.setattr(mkl, "vendor", lambda: "GenuineIntel")
    monkeypatch.setattr(mkl, "instruction_sets", lambda: {"avx512_bf16", "avx512_fp16"})
    mkl._function.cache_clear()
    yield
    mkl._function.cache_clear()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Dtypes of the products that the library did."""
    seen: list[str] = []
    plan = mkl.plan

    def counted(dtype: Any, *arguments: Any) -> Any:
        run = plan(dtype, *arguments)

        def counting(*addresses: Any) -> None:
            assert run is not None
            seen.append(dtype.name)
            run(*addresses)

        return run and counting

    monkeypatch.setattr(mkl, "plan", counted)
    return seen


def values(*shape: int, dtype: str) -> Any:
    return (_RNG.standard_normal(shape)).astype(_TYPES[dtype])


def laid_out(matrix: Any, how: str) -> Any:
    """The same elements: as they are, transposed in memory, or with gaps between rows."""
    if how == "transposed":
        return np.ascontiguousarray(matrix.swapaxes(-1, -2)).swapaxes(-1, -2)
    if how == "gaps":
        room = np.zeros((*matrix.shape[:-1], matrix.shape[-1] + 3), matrix.dtype)
        room[..., : matrix.shape[-1]] = matrix
        return room[..., : matrix.shape[-1]]
    return matrix


@installed
@pytest.mark.parametrize("of_b", ["rows", "transposed", "gaps"])
@pytest.mark.parametrize("of_a", ["rows", "transposed", "gaps"])
@pytest.mark.parametrize("dtype", list(_TYPES))
def test_products(dtype: str, of_a: str, of_b: str, calls: list[str]) -> None:
    for a, b in [
        ((7, 5), (5, 3)),
        ((1, 9), (9, 1)),
        ((33, 64), (64, 17)),
        ((4, 7, 5), (5, 3)),
        ((4, 7, 5), (4, 5, 3)),
        ((1, 4, 7, 5), (4, 5, 3)),
        ((2, 1, 6, 8), (3, 8, 5)),
    ]:
        left, right = laid_out(values(*a, dtype=dtype), of_a), laid_out(values(*b, dtype=dtype), of_b)
        expected = left.astype(np.float64) @ right.astype(np.float64)
        single = np.float64 if dtype == "float64" else np.float32
        tolerance = {"rtol": 1e-12, "atol": 1e-12} if dtype == "float64" else {"rtol": 1e-5, "atol": 1e-5}
        result = blas.product(left, right)
        assert result.dtype == single and result.shape == expected.shape
        np.testing.assert_allclose(result, expected, **tolerance)
        out = laid_out(np.full(expected.shape, np.nan, single), "gaps")
        assert blas.product(left, right, out) is out
        np.testing.assert_allclose(out, expected, **tolerance)
        np.testing.assert_array_equal(blas.multiply(left, right), result)
    assert set(calls) == {dtype}


@installed
def test_a_batch_is_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    run = mkl._run_batch

    def noted(*arguments: Any) -> bool:
        seen.append(run(*arguments))
        return seen[-1]

    monkeypatch.setattr(mkl, "_run_batch", noted)
    for dtype, a, b, together in [
        ("float32", (4, 7, 5), (4, 5, 3), True),
        ("float64", (1, 4, 7, 5), (4, 5, 3), True),
        # Each function takes one distance from matrix to matrix, and there is none for half precision.
        ("float32", (4, 7, 5), (5, 3), False),
        ("float32", (2, 4, 7, 5), (4, 5, 3), False),
        ("bfloat16", (4, 7, 5), (4, 5, 3), False),
    ]:
        left, right = values(*a, dtype=dtype), values(*b, dtype=dtype)
        expected = left.astype(np.float64) @ right.astype(np.float64)
        np.testing.assert_allclose(blas.product(left, right), expected, rtol=1e-4, atol=1e-5)
        assert seen.pop() is together
    assert not seen


@installed
def test_what_is_left_to_numpy(calls: list[str]) -> None:
    a = values(6, 6, dtype="float32")
    cases = {
        "gaps in both dimensions": (values(12, 12, dtype="float32")[::2, ::2], a),
        "stretched": (np.broadcast_to(a[0], (6, 6)), a),
        "its own transpose": (a, a.T),
        "integers": (np.arange(36).reshape(6, 6), np.arange(36).reshape(6, 6)),
        "two dtypes": (a, a.astype(np.float64)),
        "a vector": (a, a[0]),
    }
    for name, (left, right) in cases.items():
        np.testing.assert_allclose(
            blas.product(left, right), np.matmul(left, right), rtol=1e-5, atol=1e-5, err_msg=name
        )
    # NumPy takes what overlaps before it writes.
    expected, room = a @ a, a.copy()
    np.testing.assert_allclose(blas.product(room, a, room), expected, rtol=1e-5, atol=1e-5)
    turned = np.empty((6, 6), np.float32).T
    np.testing.assert_allclose(blas.product(a, a, turned), expected, rtol=1e-5, atol=1e-5)
    assert calls == []
    for left, right in [((3, 4), (5, 2)), ((2, 3, 4), (3, 4, 5))]:
        with pytest.raises(ValueError, match="matmul|broadcast"):
            blas.product(values(*left, dtype="float32"), values(*right, dtype="float32"))
    with pytest.raises(ValueError, match="matmul|broadcast"):
        blas.product(a, a, np.empty((6, 5), np.float32))


@installed
def test_alpha_and_beta() -> None:
    a, b, c = (values(*shape, dtype="float64") for shape in ((5, 4), (4, 3), (5, 3)))
    run = blas.plan(a.dtype, (5, 4, 3), ((5, 4), (4, 1)), ((4, 3), (3, 1)), 3)
    assert run is not None
    expected = 2 * a @ b - 3 * c
    run(a.ctypes.data, b.ctypes.data, c.ctypes.data, 2.0, -3.0)
    np.testing.assert_allclose(c, expected)
    # What is not added is not read.
    c[...] = np.nan
    run(a.ctypes.data, b.ctypes.data, c.ctypes.data)
    np.testing.assert_allclose(c, a @ b)


@installed
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("sizes", [(1500, 300, 400), (300, 290, 1600)])
def test_large_products_have_the_same_bits_for_any_number_of_threads(
    dtype: str, sizes: tuple[int, int, int], calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, depth, columns = sizes
    left, right = values(rows, depth, dtype=dtype), values(depth, columns, dtype=dtype)
    results = []
    for count in (1, 2, 3):
        for module in (blas, threads):
            monkeypatch.setattr(module, "thread_count", lambda count=count: count)
        monkeypatch.setattr(threads, "_threads", threads._Threads())
        calls.clear()
        results.append(blas.multiply(left, right))
        assert len(calls) > 1
    for result in results:
        np.testing.assert_array_equal(result, results[0])


@installed
def test_tensors_are_multiplied_by_it(calls: list[str]) -> None:
    tensor.manual_seed(0)
    for dtype, name in ((tensor.float32, "float32"), (tensor.bfloat16, "bfloat16")):
        x = tensor.randn(37, 29, dtype=dtype, requires_grad=True)
        layer = nn.Linear(29, 31, dtype=dtype)
        calls.clear()
        layer(x).sum().backward()
        assert calls == [name] * 3
        double = nn.Linear(29, 31, dtype=tensor.float64)
        double.load_state_dict({key: each.double() for key, each in layer.state_dict().items()})
        y = x.detach().double().requires_grad_()
        double(y).sum().backward()
        tolerance = 1e-4 if dtype is tensor.float32 else 4e-2
        assert x.grad is not None and layer.weight.grad is not None and y.grad is not None
        for got, expected in ((x.grad, y.grad), (layer.weight.grad, double.weight.grad)):
            assert tensor.allclose(got.double(), expected, rtol=tolerance, atol=tolerance)
    a, b, c = (tensor.randn(33, 33, dtype=tensor.float32) for _ in range(3))
    calls.clear()
    result = tensor.addmm(c, a, b, alpha=2, beta=0.5)
    assert calls == ["float32"]
    expected = (c.double() * 0.5 + 2 * (a.double() @ b.double())).float()
    assert tensor.allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_the_library_is_found_where_packages_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "lib"
    folder.mkdir()
    for name in ("libmkl_rt.so.2", "libmkl_rt.so.3", "libmkl_core.so.3"):
        (folder / name).write_bytes(b"not a library")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    monkeypatch.setattr(mkl.site, "getuserbase", lambda: str(tmp_path))
    assert [path.name for path in mkl._candidates()] == ["libmkl_rt.so.3", "libmkl_rt.so.2"]
    # What cannot be loaded is passed over.
    assert mkl.library.__wrapped__() is None


def test_turned_off() -> None:
    program = (
        "from drv.host import mkl; import tensor; print(mkl.library(), tensor.backends.mkl.is_available())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"GRAPHROOT_CPU_MKL": "off"},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert done.stdout == "None False\n"


def test_other_values_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHROOT_CPU_MKL", "yes")
    with pytest.raises(InvalidValueError, match="expected 'auto' or 'off'"):
        mkl_allowed()


def test_available() -> None:
    assert tensor.backends.mkl.is_available() is (mkl.library() is not None)


@installed
def test_verbose() -> None:
    program = (
        "import tensor\n"
        "a = tensor.randn(128, 128)\n"
        "a @ a\n"
        "with tensor.backends.mkl.verbose(tensor.backends.mkl.VERBOSE_ON):\n"
        "    a @ a\n"
        "a @ a\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stdout.count("SGEMM") == (processors.vendor() == "GenuineIntel")


def test_what_the_processor_is() -> None:
    assert isinstance(processors.vendor(), str)
    if processors.vendor() in ("GenuineIntel", "AuthenticAMD"):
        assert "sse2" in processors.instruction_sets()
