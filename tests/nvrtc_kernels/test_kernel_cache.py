"""Source in, loaded function out: in memory, on disk, in many threads and processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

import drv
from drv.disk_cache import DiskCache
from nvrtc_kernels import KernelCache, Program, kernel_cache

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Program(
    "template <class T> __global__ void set(T* x, T value) { *x = value; }",
    name="set.cu",
    name_expressions=("set<int>",),
)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Architectures that were really compiled for, in order."""
    seen: list[str] = []

    def counting(source: str, architecture: str, **options: object) -> drv.CompiledProgram:
        seen.append(architecture)
        return drv.compile_program(source, architecture, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(kernel_cache, "compile_program", counting)
    return seen


def test_a_function_is_compiled_and_loaded_once(
    device: drv.Device, tmp_path: Path, compilations: list[str]
) -> None:
    cache = KernelCache(DiskCache(tmp_path))
    function = cache.function(PROGRAM, "set<int>", device)
    assert cache.function(PROGRAM, "set<int>", device) is function
    assert cache.module(PROGRAM, device) is function.module
    assert (
        cache.function(Program(PROGRAM.source, "set.cu", name_expressions=("set<int>",)), "set<int>", device)
        is function
    )
    assert len(compilations) == 1
    again = KernelCache(DiskCache(tmp_path)).function(PROGRAM, "set<int>", device)
    assert again is not function
    assert again.name == function.name == "_Z3setIiEvPT_S0_"
    assert len(compilations) == 1, "the second came from disk"
    with pytest.raises(drv.NotFoundError, match="'reset'"):
        cache.function(PROGRAM, "reset", device)


@pytest.mark.simulator_only
def test_each_architecture_has_its_own(tmp_path: Path, compilations: list[str]) -> None:
    drv.simulator.install(devices=3, capability="9.0/8.0/9.0")
    cache = KernelCache(DiskCache(tmp_path))
    functions = [cache.function(PROGRAM, "set<int>", drv.Device(ordinal)) for ordinal in range(3)]
    assert compilations == ["compute_90", "compute_80"]
    assert [function.device.ordinal for function in functions] == [0, 1, 2]


def test_options_headers_and_compiler_are_part_of_the_key(
    device: drv.Device, tmp_path: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    header = tmp_path / "value.h"
    header.write_text("#define VALUE 1\n", encoding="utf-8")
    source = '#include "value.h"\n__global__ void k(int* x) { *x = VALUE; }'

    def compile_again(*options: str) -> int:
        program = Program(source, options=options, include_dirs=(str(tmp_path),))
        KernelCache(DiskCache(tmp_path / "cache")).compile(program, device)
        return len(compilations)

    assert [compile_again(), compile_again()] == [1, 1]
    assert [compile_again("-DX"), compile_again("-DX")] == [2, 2]
    header.write_text("#define VALUE 2\n", encoding="utf-8")
    assert [compile_again(), compile_again()] == [3, 3]
    monkeypatch.setattr(kernel_cache, "compiler_version", lambda: (99, 0))
    assert [compile_again(), compile_again()] == [4, 4]


def test_damaged_files_are_rebuilt(device: drv.Device, tmp_path: Path, compilations: list[str]) -> None:
    KernelCache(DiskCache(tmp_path)).compile(PROGRAM, device)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"not ours at all", whole + b"x"):
        path.write_bytes(damaged)
        KernelCache(DiskCache(tmp_path)).function(PROGRAM, "set<int>", device)
        assert path.read_bytes() == whole
    assert len(compilations) == 5


def test_an_unwritable_directory_works_and_warns_once(device: drv.Device, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = KernelCache(DiskCache(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="compiled kernels are not kept"):
        cache.function(PROGRAM, "set<int>", device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.compile(Program("__global__ void other() {}"), device)


def test_the_directory_follows_the_variable(
    device: drv.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHROOT_CACHE_DIR", str(tmp_path / "chosen"))
    KernelCache().compile(PROGRAM, device)
    assert len(list((tmp_path / "chosen").rglob("*.kernel"))) == 1


def test_threads_share_one_compilation(device: drv.Device, tmp_path: Path, compilations: list[str]) -> None:
    cache = KernelCache(DiskCache(tmp_path))
    start = threading.Barrier(8)
    result: list[drv.Function] = []

    def work() -> None:
        start.wait()
        result.append(cache.function(PROGRAM, "set<int>", device))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(function.module) for function in result}) == 1
    assert len(result) == 8
    assert len(compilations) == 1


def test_compile_errors_reach_the_user_and_are_not_kept(device: drv.Device, tmp_path: Path) -> None:
    cache = KernelCache(DiskCache(tmp_path))
    for _ in range(2):
        with pytest.raises(drv.CompileError, match="set_wrong"):
            cache.compile(Program("__global__ void k() { set_wrong(); }"), device)
    assert not list(tmp_path.iterdir())


WORKER = """
import sys, numpy as np, drv
from nvrtc_kernels import RawKernel
kernel = RawKernel(
    "__global__ void set(int* x, int value) { *x = value; } template <int N> __global__ void unused(int* x) { *x = N; }",
    "set",
)
memory, result = drv.DeviceMemory(4), np.zeros(1, np.int32)
print("ready", flush=True)
sys.stdin.readline()
kernel(1, 1, (memory, np.int32(41)))
drv.copy_to_host(result, memory)
print(result[0])
"""


def test_four_processes_start_together(tmp_path: Path) -> None:
    environment = {"GRAPHROOT_DRIVER": "simulator", **os.environ, "GRAPHROOT_CACHE_DIR": str(tmp_path)}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n", worker.communicate()[1]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
    answers = [(*worker.communicate(timeout=120), worker.returncode) for worker in workers]
    assert answers == [("41\n", "", 0)] * 4
    (entry,) = tmp_path.rglob("*.*")
    assert entry.suffix == ".kernel"
    assert DiskCache(entry.parent).load(entry.stem) is not None
