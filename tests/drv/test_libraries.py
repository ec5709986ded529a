"""Finding and binding NVIDIA's libraries."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

import drv
from drv import cublas, cufft, libraries


@pytest.mark.parametrize("name", ["cublas", "cufft"])
def test_a_missing_library_names_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda import pathfinder

    def missing(_: str) -> Any:
        raise pathfinder.DynamicLibNotFoundError("not found")

    monkeypatch.setattr(pathfinder, "load_nvidia_dynamic_lib", missing)
    with pytest.raises(drv.LibraryNotInstalledError, match=rf"{name} \(nvidia-{name}\).*'graphroot\[gpu\]'"):
        libraries.bind(name)
    with pytest.raises(ImportError):
        libraries.open_library(name)


def test_a_library_without_the_functions_is_too_old() -> None:
    with pytest.raises(
        drv.LibraryNotInstalledError, match=r"no function cublasCreate_v2: it is too old.*graphroot\[gpu\]"
    ):
        cublas.bind(ctypes.CDLL(None))
    with pytest.raises(drv.LibraryNotInstalledError, match="no function cufftCreate"):
        cufft.bind(ctypes.CDLL(None))


def test_unknown_libraries() -> None:
    for use in (libraries.bind, libraries.open_library):
        with pytest.raises(drv.InvalidValueError, match="no library 'nccl': expected one of cublas, cufft"):
            use("nccl")


@pytest.mark.parametrize(
    ("failure", "status", "kind", "text"),
    [
        (
            cublas.failure,
            3,
            drv.OutOfMemoryError,
            "f() failed: CUBLAS_STATUS_ALLOC_FAILED: the resource allocation failed",
        ),
        (cublas.failure, 7, drv.InvalidValueError, "CUBLAS_STATUS_INVALID_VALUE"),
        (cublas.failure, 13, drv.CudaError, "CUBLAS_STATUS_EXECUTION_FAILED"),
        (cublas.failure, 15, drv.NotSupportedError, "CUBLAS_STATUS_NOT_SUPPORTED"),
        (cublas.failure, 99, drv.CudaError, "f() failed: cublasStatus_t 99: unknown status"),
        (cufft.failure, 1, drv.InvalidHandleError, "CUFFT_INVALID_PLAN"),
        (cufft.failure, 2, drv.OutOfMemoryError, "CUFFT_ALLOC_FAILED"),
        (cufft.failure, 0x10, drv.NotSupportedError, "CUFFT_NOT_SUPPORTED"),
        (cufft.failure, 99, drv.CudaError, "cufftResult 99: unknown result"),
    ],
)
def test_statuses_become_exceptions(failure: Any, status: int, kind: type[drv.CudaError], text: str) -> None:
    error = failure(status, "f()")
    assert type(error) is kind
    assert text in str(error)
    assert error.call == "f()"
    assert error.status in str(error)


def test_every_status_has_a_text() -> None:
    for status in cublas.cublasStatus_t:
        assert status.name in str(cublas.failure(status, "f()"))
    for result in cufft.cufftResult:
        assert result.name in str(cufft.failure(result, "f()"))
    assert "more" in str(cufft.failure(1, "f()", "more"))
