"""Finding and binding NVIDIA's libraries."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import drv
from drv.bindings import cublas, cudnn, cufft, libraries, nccl, prototypes


@pytest.mark.parametrize(
    ("name", "extra"), [("cublas", "gpu"), ("cudnn", "cudnn"), ("cufft", "gpu"), ("nccl", "gpu")]
)
def test_a_missing_library_names_the_extra(name: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda import pathfinder

    def missing(_: str) -> Any:
        raise pathfinder.DynamicLibNotFoundError("not found")

    monkeypatch.setattr(pathfinder, "load_nvidia_dynamic_lib", missing)
    with pytest.raises(
        drv.LibraryNotInstalledError, match=rf"{name} \(nvidia-{name}.*\).*'graphroot\[{extra}\]'"
    ):
        libraries.bind(name)
    with pytest.raises(ImportError):
        libraries.open_library(name)


def test_a_library_without_the_functions_is_too_old() -> None:
    with pytest.raises(
        drv.LibraryNotInstalledError, match=r"no function cublasCreate_v2: it is too old.*graphroot\[gpu\]"
    ):
        cublas.bind(ctypes.CDLL(None))
    with pytest.raises(
        drv.LibraryNotInstalledError, match=r"no function cudnnGetVersion.*graphroot\[cudnn\]"
    ):
        cudnn.bind(ctypes.CDLL(None))
    with pytest.raises(drv.LibraryNotInstalledError, match="no function cufftCreate"):
        cufft.bind(ctypes.CDLL(None))
    with pytest.raises(drv.LibraryNotInstalledError, match="no function ncclGetVersion"):
        nccl.bind(ctypes.CDLL(None))


@pytest.mark.simulator_only
def test_nccl_needs_real_devices(device: drv.Device) -> None:
    with pytest.raises(drv.NotSupportedError, match="real GPUs.*simulated.*'gloo'"):
        device.runtime.library("nccl")


_STUB = """
#include <stddef.h>
typedef struct { char internal[128]; } Id;
typedef struct { size_t size; unsigned magic, version; int blocking; } Config;
int answer = 0;
int ncclGetUniqueId(Id* id) { for (int i = 0; i < 128; ++i) id->internal[i] = i; return answer; }
int ncclCommInitRankConfig(size_t* comm, int size, Id id, int rank, Config* config)
{
    int known = config->size >= sizeof(Config) && config->magic == 0xcafebeef && config->version >= 22700;
    *comm = 10000 * size + 1000 * rank + id.internal[127] + known - config->blocking;
    return answer;
}
const char* ncclGetLastError(void* comm) { return "the stub was told to"; }
"""


def test_structs_are_passed_and_only_failures_raise(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    others = (name for name in prototypes.prototypes(nccl.Nccl) if f"{name}(" not in _STUB)
    source = _STUB + "".join(f"int {name}() {{ return answer; }}\n" for name in others)
    (tmp_path / "stub.c").write_text(source, encoding="utf-8")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", tmp_path / "stub.so", tmp_path / "stub.c"],
        check=True,
        timeout=60,
    )
    library = ctypes.CDLL(str(tmp_path / "stub.so"))
    answer = ctypes.c_int.in_dll(library, "answer")
    bound = nccl.bind(library)
    unique_id = nccl.UniqueId.from_bytes(bytes(bound.ncclGetUniqueId()))
    assert bytes(unique_id) == bytes(range(128))
    assert bound.ncclCommInitRankConfig(4, unique_id, 3, nccl.Config(blocking=False)) == 43128
    answer.value = nccl.ncclResult_t.ncclInProgress
    assert bound.ncclCommInitRankConfig(4, unique_id, 3, nccl.Config(name="group")) == 43127
    bound.ncclCommDestroy(1)
    answer.value = nccl.ncclResult_t.ncclRemoteError
    with pytest.raises(
        drv.CudaError,
        match=r"ncclCommInitRankConfig\(nranks=2, commId=UniqueId\(0001020304050607...\), rank=0, config=Config"
        r"\(blocking=True, name='x'\)\) failed: ncclRemoteError: .* \(the stub was told to\)",
    ):
        bound.ncclCommInitRankConfig(2, unique_id, 0, nccl.Config(name="x"))
    # NCCL keeps the address of a name.
    field = nccl.Config.commName.offset
    first, second = (nccl.Config(name="kept") for _ in range(2))
    assert bytes(first)[field : field + 8] == bytes(second)[field : field + 8]
    with pytest.raises(drv.InvalidValueError, match="has 128 bytes, 3 were given"):
        nccl.UniqueId.from_bytes(b"abc")


def test_unknown_libraries() -> None:
    for use in (libraries.bind, libraries.open_library):
        with pytest.raises(
            drv.InvalidValueError,
            match="no library 'cusolver': expected one of cublas, cublasLt, cudnn, cufft, nccl",
        ):
            use("cusolver")


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
        (
            nccl.failure,
            1,
            drv.CudaError,
            "f() failed: ncclUnhandledCudaError: a call of CUDA failed. Run again",
        ),
        (nccl.failure, 4, drv.InvalidValueError, "ncclInvalidArgument"),
        (nccl.failure, 99, drv.CudaError, "ncclResult_t 99: unknown result"),
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
    for answer in nccl.ncclResult_t:
        assert answer.name in str(nccl.failure(answer, "f()"))
    assert "more" in str(cufft.failure(1, "f()", "more"))
