"""Compiling CUDA C++ with NVRTC."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import drv
from drv import compile_program, compiler

if TYPE_CHECKING:
    from pathlib import Path

SCALE = "__global__ void scale(float* x, float a) { x[threadIdx.x] *= a; }"


def test_ptx_and_cubin() -> None:
    ptx = compile_program(SCALE, "compute_90")
    assert b".entry" in ptx.image
    assert ptx.architecture == "compute_90"
    assert compile_program(SCALE, "sm_90").image.startswith(b"\x7fELF")


def test_name_expressions_give_mangled_names() -> None:
    source = "template <class T> __global__ void fill(T* x, T v) { *x = v; } namespace a { __global__ void b() {} }"
    program = compile_program(source, "compute_90", name_expressions=["fill<float>", "fill<double>", "a::b"])
    assert program.names == {
        "fill<float>": "_Z4fillIfEvPT_S0_",
        "fill<double>": "_Z4fillIdEvPT_S0_",
        "a::b": "_ZN1a1bEv",
    }
    for name in program.names.values():
        assert name.encode() in program.image


def test_line_information_names_the_file() -> None:
    assert b'"scale.cu"' in compile_program(SCALE, "compute_90", name="scale.cu", line_info=True).image
    assert b"scale.cu" not in compile_program(SCALE, "compute_90", name="scale.cu").image


def test_headers_by_text_by_directory_and_from_cuda(tmp_path: Path) -> None:

    (tmp_path / "two.h").write_text("#define TWO 2\n", encoding="utf-8")
    source = (
        '#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include "one.h"\n#include "two.h"\n'
        "__global__ void k(__half* x) { *x = __float2half(ONE + TWO + THREE); }"
    )
    program = compile_program(
        source,
        "compute_90",
        headers={"one.h": "#define ONE 1\n"},
        include_dirs=[str(tmp_path)],
        options=["-DTHREE=3"],
    )
    assert b"_Z1kP6__half" in program.image


def test_error_holds_the_log_and_quotes_the_lines() -> None:
    source = "__global__ void k(int* x)\n{\n  *x = unknown_thing;\n}\n"
    with pytest.raises(drv.CompileError) as caught:
        compile_program(source, "compute_90", name="broken.cu")
    error = caught.value
    assert 'identifier "unknown_thing" is undefined' in error.log
    assert error.log in str(error)
    assert "broken.cu:3:   *x = unknown_thing;" in str(error)
    assert "NVRTC" in str(error)
    assert error.source == source
    assert error.status == "NVRTC_ERROR_COMPILATION"


def test_warnings_are_kept() -> None:
    log = compile_program("__global__ void k() { int unused; }", "compute_90").log
    assert "unused" in log


def test_missing_cuda_headers_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "cuda_include_dirs", lambda: ())
    with pytest.raises(drv.CompileError, match="pip install nvidia-cuda-runtime"):
        compile_program("#include <cuda_fp16.h>\n", "compute_90")


def test_bad_options() -> None:
    with pytest.raises(drv.InvalidValueError, match="-no-such-option"):
        compile_program(SCALE, "compute_90", options=["-no-such-option"])
    with pytest.raises(drv.InvalidValueError, match="follows from the device"):
        compile_program(SCALE, "compute_90", options=["-arch=compute_75"])


def test_unknown_name_expression() -> None:
    with pytest.raises(drv.CompileError, match="nothing_here"):
        compile_program(SCALE, "compute_90", name_expressions=["nothing_here"])


@pytest.mark.simulator_only
@pytest.mark.parametrize(
    ("capability", "architecture"),
    [("7.5", "compute_75"), ("9.0", "compute_90"), ("9.9", "compute_90"), ("99.0", "compute_121")],
)
def test_simulated_devices_get_ptx_that_the_compiler_can_make(capability: str, architecture: str) -> None:
    drv.simulator.install(capability=capability)
    result = compiler.architecture_of(drv.Device(0))
    if capability == "99.0":
        assert int(result.removeprefix("compute_")) >= 121
    else:
        assert result == architecture


@pytest.mark.simulator_only
def test_device_older_than_the_compiler() -> None:
    drv.simulator.install(capability="5.2")
    with pytest.raises(drv.InvalidValueError, match=r"compute capability 5\.2.*and newer"):
        compiler.architecture_of(drv.Device(0))


class _Gpu:
    """As much of a device as the choice of an architecture looks at."""

    ordinal = 0

    class runtime:  # noqa: N801
        simulated = False

    def __init__(self, *capability: int) -> None:
        self.compute_capability = capability


@pytest.mark.parametrize(
    ("capability", "architecture"),
    [((9, 0), "sm_90"), ((8, 7), "sm_87"), ((8, 8), "sm_88"), ((9, 5), "sm_90"), ((11, 9), "sm_110")],
)
def test_gpus_get_a_cubin_of_their_family(capability: tuple[int, int], architecture: str) -> None:
    assert compiler.architecture_of(_Gpu(*capability)) == architecture  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("capability", "architecture"), [((9, 0), "sm_90a"), ((8, 0), "sm_80"), ((9, 5), "sm_90")]
)
def test_code_for_one_architecture_alone(capability: tuple[int, int], architecture: str) -> None:
    assert compiler.architecture_of(_Gpu(*capability), only=True) == architecture  # type: ignore[arg-type]


def test_a_gpu_newer_than_the_compiler_gets_ptx() -> None:
    assert compiler.architecture_of(_Gpu(99, 0)).startswith("compute_")  # type: ignore[arg-type]
