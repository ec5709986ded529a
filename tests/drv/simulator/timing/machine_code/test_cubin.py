"""Cubins that NVIDIA's linker makes, read in Python: what it reports of them itself is found in them."""

from __future__ import annotations

import re
from typing import Any

import pytest

import drv
from drv.simulator.timing.machine_code.assembling import assemble, available
from drv.simulator.timing.machine_code.cubin import CubinError, read_cubin
from drv.simulator.timing.machine_code.instructions import hardware_pipe, multiply_adds, ptx_pipe

pytestmark = pytest.mark.skipif(not available(), reason="nvJitLink is not installed (extra profile)")

SOURCE = r"""
extern "C" __global__ void small(float *x) { x[threadIdx.x] += 1; }

extern "C" __global__ void shares(float *x)
{
    __shared__ float held[300];
    held[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = held[255 - threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(1024, 2) spills(float *x, int n)
{
    float a[64];
    #pragma unroll
    for (int i = 0; i < 64; i++)
        a[i] = x[i * 1024 + threadIdx.x];
    for (int k = 0; k < n; k++) {
        #pragma unroll
        for (int i = 0; i < 64; i++)
            a[i] = a[i] * a[(i + 7) % 64] + k;
    }
    #pragma unroll
    for (int i = 0; i < 64; i++)
        x[i * 1024 + threadIdx.x] = a[i];
}
"""


def linked(ptx: bytes, architecture: str) -> tuple[bytes, str]:
    """The cubin, and what the linker says of it."""
    from cuda.bindings import nvjitlink

    handle = nvjitlink.create(3, [f"-arch={architecture}", "-lineinfo", "-verbose"])
    nvjitlink.add_data(handle, nvjitlink.InputType.PTX, ptx, len(ptx), "x")
    nvjitlink.complete(handle)
    image = bytearray(nvjitlink.get_linked_cubin_size(handle))
    nvjitlink.get_linked_cubin(handle, image)
    log = bytearray(nvjitlink.get_info_log_size(handle))
    nvjitlink.get_info_log(handle, log)
    nvjitlink.destroy(handle)
    return bytes(image), log.decode()


@pytest.mark.parametrize("capability", ["75", "80", "89", "90"])
def test_registers_and_shared_memory_are_those_that_the_linker_reports(capability: str) -> None:
    program = drv.compile_program(SOURCE, f"compute_{capability}", line_info=True)
    image, log = linked(program.image, f"sm_{capability}")
    kernels = read_cubin(image, program.image.decode())
    for name in ("small", "shares", "spills"):
        part = log[log.index(f"Compiling entry function '{name}'") :]
        used = re.search(r"Used (\d+) registers", part)
        assert used is not None
        assert kernels[name].registers == int(used[1])
    assert (kernels["small"].shared, kernels["shares"].shared) == (0, 1200)
    assert kernels["small"].spills == 0
    assert (kernels["spills"].spills > 0) == (kernels["spills"].frame > 0)
    assert kernels["spills"].registers <= 64


def test_instructions_are_told_by_the_line_of_the_ptx() -> None:
    program = drv.compile_program(SOURCE, "compute_90", line_info=True)
    kernel = assemble(program.image, (9, 0))["shares"]
    lines = program.image.decode().splitlines()
    by_text: dict[str, list[str]] = {}
    for line, opcodes in kernel.opcodes.items():
        by_text[lines[line - 1].split()[0]] = [hardware_pipe(each) for each in opcodes]
    assert by_text["ld.global.f32"] == ["memory"]
    assert by_text["st.shared.f32"] == ["memory"]
    assert by_text["bar.sync"] == ["control"]
    assert sum(kernel.by_line.values()) <= kernel.instructions <= sum(kernel.by_line.values()) + 4


APART = r"""
extern "C" __global__ void apart(float *x, int n)
{
    for (int i = threadIdx.x / 32; i < n; i += 4) {
        float own = x[i * 32 + threadIdx.x % 32];
        for (int by = 16; by; by /= 2)
            own += __shfl_xor_sync(~0u, own, by);
        x[i * 32 + threadIdx.x % 32] = own;
    }
}
"""


def test_copies_of_shuffles_for_lanes_that_are_apart_are_left_out() -> None:
    program = drv.compile_program(APART, "compute_90", line_info=True)
    kernel = assemble(program.image, (9, 0))["apart"]
    lines = program.image.decode().splitlines()
    shuffles = [
        sum(count for opcode, count in opcodes.items() if hardware_pipe(opcode) == "shuffle")
        for line, opcodes in kernel.opcodes.items()
        if lines[line - 1].split()[0].startswith("shfl")
    ]
    # The compiler may unroll the outer loop; without the copies all lines have their shuffle as often.
    assert len(shuffles) >= 5
    assert set(shuffles) == {1}
    # The copies are in the code all the same.
    assert kernel.instructions >= sum(kernel.by_line.values()) + 5


#: PTX of one instruction, and the pipe of what it becomes.
ONE = [
    ("add.f32 %f1, %f2, %f3;", "fma"),
    ("fma.rn.f32 %f1, %f2, %f3, %f2;", "fma"),
    ("min.s32 %r1, %r2, %r3;", "alu"),
    ("xor.b32 %r1, %r2, %r3;", "alu"),
    ("mad.lo.s32 %r1, %r2, %r3, %r2;", "int_mul"),
    ("fma.rn.f64 %d1, %d2, %d3, %d2;", "double"),
    ("add.f64 %d1, %d2, %d3;", "double"),
    ("ex2.approx.ftz.f32 %f1, %f2;", "special"),
    ("rcp.approx.ftz.f32 %f1, %f2;", "special"),
    ("popc.b32 %r1, %r2;", "special"),
    ("cvt.rni.s32.f32 %r1, %f2;", "conversion"),
    ("shfl.sync.bfly.b32 %r1, %r2, 1, 31, -1;", "shuffle"),
    ("fma.rn.f16x2 %r1, %r2, %r3, %r2;", "half"),
    ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f4,%f5,%f6}, {%r2,%r3,%r2,%r3}, {%r2,%r3}, {%f2,%f3,%f2,%f3};", "tensor"),
]  # fmt: skip


@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (9, 0)])
def test_pipes_of_the_hardwares_opcodes_are_found_by_assembling_one_instruction(
    capability: tuple[int, int],
) -> None:
    """The table of opcodes is nobody's documentation: this is what it rests on."""
    text = [".version 8.4", f".target sm_{capability[0]}{capability[1]}", ".address_size 64"]
    for number, (instruction, _) in enumerate(ONE):
        text += [
            f".visible .entry k{number}(.param .u64 p) {{",
            ".reg .f32 %f<9>; .reg .b32 %r<9>; .reg .f64 %d<9>; .reg .b64 %a<9>;",
            "ld.param.u64 %a2, [p];",
            # Of what all threads have, the assembler makes less.
            "mov.u32 %r8, %tid.x;",
            "mad.wide.u32 %a1, %r8, 64, %a2;",
            "ld.global.v2.f32 {%f2, %f3}, [%a1+16];",
            "ld.global.v2.b32 {%r2, %r3}, [%a1+32];",
            "ld.global.v2.f64 {%d2, %d3}, [%a1+48];",
            instruction,
        ]
        if "%f1" in instruction:
            text.append("st.global.f32 [%a1], %f1;")
        text.append("st.global.f64 [%a1], %d1;" if "%d1" in instruction else "st.global.b32 [%a1+4], %r1;")
        text += ["ret;", "}"]
    kernels = assemble("\n".join(text).encode(), capability)
    for number, (instruction, pipe) in enumerate(ONE):
        start = text.index(f".visible .entry k{number}(.param .u64 p) {{")
        line = text.index(instruction, start) + 1
        pipes = {hardware_pipe(opcode) for opcode in kernels[f"k{number}"].opcodes[line]}
        assert pipe in pipes, instruction
        assert ptx_pipe(instruction.split()[0]) == pipe


def test_what_is_no_cubin_says_so() -> None:
    with pytest.raises(CubinError, match="expected an ELF file"):
        read_cubin(b"// PTX")
    program = drv.compile_program(SOURCE, "sm_90")
    with pytest.raises(CubinError, match="too early or is damaged"):
        read_cubin(program.image[:200])


def test_ptx_that_cannot_be_assembled_gives_nothing() -> None:
    assert assemble(b".version 99.0\n.target sm_90\n", (9, 0)) == {}
    assert assemble(b"nonsense", (9, 0)) == {}


def test_code_for_one_architecture_alone_is_assembled_for_it() -> None:
    source = """
    extern "C" __global__ void waits() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
    """
    assert "waits" in assemble(drv.compile_program(source, "compute_90a").image, (9, 0))
    assert assemble(drv.compile_program(source, "compute_90").image, (9, 0)) == {}


def test_a_kernel_of_the_real_compiler_reads_the_same() -> None:
    program: Any = drv.compile_program(SOURCE, "sm_90", line_info=True)
    kernels = read_cubin(program.image)
    assert kernels["shares"].shared == 1200
    assert kernels["small"].registers >= 4


@pytest.mark.parametrize(
    ("opcode", "count"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 2048),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 2048),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 2048),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", 4096),
        ("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16", 64 * 128 * 16 / 4 * 0.62),
        ("fma.rn.f32", 0),
    ],
)
def test_multiply_adds_of_matrix_instructions(opcode: str, count: float) -> None:
    assert multiply_adds(opcode) == pytest.approx(count)
