"""``wgmma``: every type, the layouts of factors in shared memory, registers, groups; products that are used too early."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import drv

from .programs import SCHEDULES, compiled, line_of, raced_lines, run, swizzled

pytestmark = pytest.mark.simulator_only

DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8, "f32": np.float32, "s32": np.int32,
}  # fmt: skip
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}
SPANS = {0: 16, 1: 128, 2: 64, 3: 32}
#: Modes of descriptors as tensor maps number the same swizzles.
SWIZZLES = {0: 0, 1: 3, 2: 2, 3: 1}
CTYPES = {"f16": ("__half", "r", 2), "f32": ("float", "f", 1), "s32": ("int", "r", 1)}


class Layout:
    """Where a factor of ``lines`` rows (or columns) and ``k`` steps lies: an image of shared memory, and a descriptor."""

    def __init__(self, lines: int, k_bytes: int, mode: int, *, transposed: bool) -> None:
        self.lines, self.mode, self.transposed = lines, mode, transposed
        span = SPANS[mode]
        cores = lines // 8
        if not transposed:
            # Rows of 16 bytes: a core matrix of 8 rows, then the second 16 bytes; or rows as long as the span.
            self.leading, self.stride = (128, 256) if mode == 0 else (16, 8 * span)
            self.bytes = cores * self.stride
        elif mode == 0:
            # Cores of 8 steps of k with 8 lines each; along k first.
            self.leading, self.stride = 128, 128 * (k_bytes // 16)
            self.bytes = cores * self.stride
        else:
            # Rows of a span of lines for each step of k; 8 steps, then the next 8, then further lines.
            self.stride = 8 * span
            self.leading = self.stride * (k_bytes // 16)
            self.bytes = -(-lines * 2 // span) * self.leading

    def offset(self, line: int, byte: int) -> int:
        """Offset of a byte of a row, before it is swizzled; of transposed factors of the 16-bit element ``byte // 2``."""
        span = SPANS[self.mode]
        if not self.transposed:
            return (
                line // 8 * self.stride
                + line % 8 * span
                + (byte // 16 * (self.leading if self.mode == 0 else 16) + byte % 16)
            )
        step, part = divmod(byte, 2)
        if self.mode == 0:
            return line // 8 * self.stride + step // 8 * self.leading + step % 8 * 16 + line % 8 * 2 + part
        across, within = divmod(line * 2, span)
        return across * self.leading + step // 8 * self.stride + step % 8 * span + within + part

    def image(self, rows: np.ndarray) -> np.ndarray:
        """Bytes of shared memory of a factor whose rows are ``(lines, bytes)``."""
        flat = np.zeros(-(-self.bytes // 1024) * 1024, np.uint8)
        for line in range(self.lines):
            for byte in range(rows.shape[1]):
                flat[self.offset(line, byte)] = rows[line, byte]
        return swizzled(flat, SWIZZLES[self.mode])

    @property
    def descriptor(self) -> int:
        """All but the address."""
        return self.leading // 16 << 16 | self.stride // 16 << 32 | self.mode << 62


def source(
    n: int,
    types: tuple[str, str, str],
    tail: str,
    *,
    registers: bool = False,
    wait: str = "wait()",
    fence: str = "fence()",
    after: str = "",
) -> str:
    """A kernel that copies two images to shared memory and multiplies."""
    d, a, _ = types
    k = 256 // BITS[a]
    ctype, constraint, each = CTYPES[d]
    count = n // 2 // each
    held = ", ".join(f"%{i}" for i in range(count))
    outs = ", ".join(f'"+{constraint}"(r[{i}])' for i in range(count))
    left = "{" + ", ".join(f"%{count + 2 + i}" for i in range(4)) + "}" if registers else f"%{count}"
    first = "".join(f', "r"(fa[{i}])' for i in range(4)) if registers else ""
    shape = f"m64n{n}k{k}"
    kind = f".{d}.{'.'.join(types[1:])}" if a != "b1" else ".s32.b1.b1.and.popc"
    saturating = ".satfinite" if tail == "satfinite" else ""
    tail = "" if tail == "satfinite" else tail
    register = {"f16": "unsigned", "f32": "float", "s32": "int"}[d]
    return rf"""
#include <cuda_fp16.h>
typedef unsigned long long u64;
__device__ void fence() {{ asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }}
__device__ void wait() {{ asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }}
__device__ void multiply({register} (&r)[{count}], u64 left, u64 right, int adds, unsigned (&fa)[4]) {{
    asm volatile("{{\n.reg .pred p;\nsetp.ne.b32 p, %{count + 2 + (4 if registers else 0)}, 0;\n"
        "wgmma.mma_async.sync.aligned.{shape}{saturating}{kind} {{{held}}}, {left}, %{count + 1}, p{tail};\n}}"
        : {outs} : "l"(left), "l"(right){first}, "r"(adds) : "memory");
}}
extern "C" __global__ void products(const uint4* image, unsigned bytes, u64 left, u64 right, unsigned at, const {ctype}* c, {ctype}* out, int adds, const unsigned* fragments) {{
    extern __shared__ __align__(1024) uint4 cells[];
    for (int i = threadIdx.x; i < bytes / 16; i += blockDim.x) cells[i] = image[i];
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    {register} r[{count}];
    {ctype}* d = ({ctype}*)r;
    unsigned fa[4];
    for (int i = 0; i < 4; ++i) fa[i] = fragments[4 * threadIdx.x + i];
    int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    auto place = [&](int i) {{ return (16 * warp + lane / 4 + 8 * (i / 2 % 2)) * {n} + 8 * (i / 4) + lane % 4 * 2 + i % 2; }};
    for (int i = 0; i < {n // 2}; ++i) d[i] = c[place(i)];
    u64 base = __cvta_generic_to_shared(cells);
    {fence};
    multiply(r, left + (base >> 4), right + ((base + at) >> 4), adds, fa);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    {wait};
    for (int i = 0; i < {n // 2}; ++i) out[place(i)] = d[i];
    {after};
}}
"""


def draw(random: np.random.Generator, ptx_type: str, shape: tuple[int, int]) -> np.ndarray:
    """Values of a type; of single bits as 0 and 1."""
    if ptx_type == "b1":
        return random.integers(0, 2, shape).astype(np.uint8)
    if ptx_type in ("s8", "u8"):
        low = -128 if ptx_type == "s8" else 0
        return random.integers(low, low + 256, shape).astype(DTYPES[ptx_type])
    spread = 3 if ptx_type in ("e4m3", "e5m2", "f16") else 6
    values = np.ldexp(random.uniform(-2, 2, shape), random.integers(-spread, spread, shape))
    return values.astype(np.float32).astype(DTYPES[ptx_type])


def packed(values: np.ndarray, ptx_type: str) -> np.ndarray:
    """Rows as bytes."""
    if ptx_type == "b1":
        return np.packbits(values, axis=1, bitorder="little")
    return np.ascontiguousarray(values).view(np.uint8)


def fragments_of(values: np.ndarray, ptx_type: str) -> np.ndarray:
    """Registers ``(128, 4)`` of the first factor as the PTX ISA lays it out."""
    rows = packed(values, ptx_type).view(np.uint32)
    lanes = np.arange(128)
    row = lanes // 32 * 16 + lanes % 32 // 4
    return np.stack([rows[row + i % 2 * 8, lanes % 4 + i // 2 * 4] for i in range(4)], axis=1)


def multiply(
    n: int,
    types: tuple[str, str, str],
    tail: str,
    *,
    modes: tuple[int, int] = (1, 1),
    transposed: tuple[bool, bool] = (False, False),
    registers: bool = False,
    adds: bool = True,
    schedule: str = "eager",
    seed: int = 0,
    groups: int = 1,
    **changes: str,
) -> tuple:
    """The factors, the addend, the result, and what the checkers find."""
    d, a_type, b_type = types
    k = 256 // BITS[a_type]
    random = np.random.default_rng(n)
    a, b = draw(random, a_type, (64, k)), draw(random, b_type, (n, k))
    c = (random.integers(-(2**31), 2**31, (64, n)) if d == "s32" else draw(random, "f32", (64, n))).astype(
        DTYPES[d]
    )
    left = Layout(64, 32, modes[0], transposed=transposed[0])
    right = Layout(n, 32, modes[1], transposed=transposed[1])
    images = [left.image(packed(a, a_type)), right.image(packed(b, b_type))]
    image = np.concatenate(images)
    out = np.zeros((groups, 64, n), DTYPES[d])
    text = source(n, types, tail, registers=registers, **changes)
    if groups > 1:
        text = text.replace(
            "int warp = ", f"c += 0; out += threadIdx.x / 128 * {64 * n}; int warp = "
        ).replace("fragments[4 * threadIdx.x", "fragments[4 * (threadIdx.x % 128)")
    findings = run(
        text,
        "products",
        1,
        128 * groups,
        [
            image,
            image.size,
            np.uint64(left.descriptor),
            np.uint64(right.descriptor),
            images[0].size,
            c,
            out,
            int(adds),
            fragments_of(a, a_type),
        ],
        shared=image.size,
        schedule=schedule,
        seed=seed,
    )
    return a, b, c if adds else np.zeros_like(c), out[0] if groups == 1 else out, findings


def check(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    result: np.ndarray,
    types: tuple[str, str, str],
    signs: int = 1,
    *,
    saturates: bool = False,
) -> None:
    """Integers are equal; floats within half an ulp of the exact sum, but for what float64 loses."""
    if types[0] == "s32":
        left, right = (each.astype(np.int64) for each in (a, b))
        exact = left @ right.T + c.astype(np.int64)
        if saturates:
            exact = exact.clip(-(2**31), 2**31 - 1)
        assert (result == exact.astype(np.int32)).all()
        return
    if types[1] == "tf32":
        a, b = ((each.view(np.uint32) & 0xFFFFE000).view(np.float32) for each in (a, b))
    wide = [each.astype(np.float64) for each in (a, b, c)]
    exact = signs * (wide[0] @ wide[1].T) + wide[2]
    size = np.abs(wide[0]) @ np.abs(wide[1]).T + np.abs(wide[2])
    for row, column in np.random.default_rng(0).integers(0, result.shape, (400, 2)):
        total = math.fsum([*(signs * wide[0][row] * wide[1][column]).tolist(), float(wide[2][row, column])])
        ulp = float(np.spacing(np.abs(np.array(total).astype(result.dtype)), dtype=result.dtype))
        assert abs(float(result[row, column]) - total) <= ulp / 2 + 64 * 2.0**-52 * size[row, column]
    np.testing.assert_allclose(
        result.astype(np.float64), exact, rtol=2e-3 if types[0] == "f16" else 1e-6, atol=1e-5
    )


FLOATS = [
    ("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32"),
    ("f32", "e4m3", "e4m3"), ("f32", "e5m2", "e4m3"), ("f16", "e4m3", "e5m2"), ("f32", "e5m2", "e5m2"),
]  # fmt: skip


def tail_of(
    types: tuple[str, str, str], signs: tuple[int, int] = (1, 1), transposed: tuple[int, ...] = (0, 0)
) -> str:
    numbers = [*signs, *(transposed if types[1] in ("f16", "bf16") else ())]
    return "".join(f", {each}" for each in numbers)


@pytest.mark.parametrize("types", FLOATS, ids=".".join)
@pytest.mark.parametrize("n", [8, 72, 256])
@pytest.mark.sampled(4)
def test_floats(types: tuple[str, str, str], n: int) -> None:
    *values, findings = multiply(n, types, tail_of(types))
    assert findings == ()
    check(*values, types)


@pytest.mark.parametrize("types", FLOATS, ids=".".join)
def test_the_first_factor_in_registers(types: tuple[str, str, str]) -> None:
    *values, findings = multiply(24, types, tail_of(types, transposed=(0,)), registers=True)
    assert findings == ()
    check(*values, types)


@pytest.mark.parametrize(
    "types", [("s32", left, right) for left in ("s8", "u8") for right in ("s8", "u8")], ids=".".join
)
@pytest.mark.parametrize("saturates", [False, True])
@pytest.mark.parametrize("registers", [False, True])
@pytest.mark.sampled(4)
def test_integers(types: tuple[str, str, str], saturates: bool, registers: bool) -> None:
    *values, findings = multiply(32, types, "satfinite" if saturates else "", registers=registers)
    assert findings == ()
    check(*values, types, saturates=saturates)


def test_single_bits() -> None:
    types = ("s32", "b1", "b1")
    *values, findings = multiply(48, types, "")
    assert findings == ()
    check(*values, types)


@pytest.mark.parametrize("modes", [(0, 0), (1, 2), (2, 3), (3, 1), (0, 3)])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_layouts_of_factors(modes: tuple[int, int], transposed: tuple[bool, bool]) -> None:
    types = ("f32", "bf16", "bf16")
    # As many columns as rows of the longest span have.
    *values, findings = multiply(
        64, types, tail_of(types, transposed=tuple(map(int, transposed))), modes=modes, transposed=transposed
    )
    assert findings == ()
    check(*values, types)


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("types", [("f32", "tf32", "tf32"), ("s32", "u8", "s8")], ids=".".join)
def test_layouts_of_other_types(mode: int, types: tuple[str, str, str]) -> None:
    *values, findings = multiply(16, types, tail_of(types) if types[0] == "f32" else "", modes=(mode, mode))
    assert findings == ()
    check(*values, types)


@pytest.mark.parametrize("signs", [(-1, 1), (1, -1), (-1, -1)])
@pytest.mark.parametrize("registers", [False, True])
def test_factors_with_the_opposite_sign(signs: tuple[int, int], registers: bool) -> None:
    types = ("f32", "f16", "f16")
    *values, _ = multiply(
        16, types, tail_of(types, signs, (0,) if registers else (0, 0)), registers=registers
    )
    check(*values, types, signs[0] * signs[1])


def test_products_that_add_to_nothing() -> None:
    types = ("f32", "f16", "f16")
    *values, findings = multiply(16, types, tail_of(types), adds=False)
    assert findings == ()
    check(*values, types)


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_several_warpgroups_at_any_time(schedule: str, seed: int) -> None:
    types = ("f32", "f16", "f16")
    a, b, c, results, findings = multiply(16, types, tail_of(types), groups=2, schedule=schedule, seed=seed)
    assert findings == ()
    for result in results:
        check(a, b, c, result, types)


# Groups


CHAIN = r"""
#include <cuda_fp16.h>
typedef unsigned long long u64;
__device__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ void wait1() { asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); }
__device__ void wait0() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
__device__ void multiply(float (&d)[4], u64 a, u64 b) {
    asm volatile("{ .reg .pred p; setp.eq.b32 p, 0, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0; }"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory"); }
extern "C" __global__ void chain(float* out, int steps) {
    __shared__ __align__(1024) __half a[64 * 16], b[256];
    for (int i = threadIdx.x; i < 64 * 16; i += 128) a[i] = 1;
    b[threadIdx.x] = 1;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    u64 left = __cvta_generic_to_shared(a) >> 4 | 8ull << 16 | 16ull << 32;
    u64 right = __cvta_generic_to_shared(b) >> 4 | 8ull << 16 | 16ull << 32;
    float d[2][4] = {};
    float seen = 0;
    for (int step = 0; step < steps; ++step) {
        fence();
        multiply(d[0], left, right);
        multiply(d[0], left, right);
        commit();
        fence();
        multiply(d[1], left, right);
        commit();
        FIRST;
        seen += d[0][0];
        SECOND;
        BEFORE;
    }
    LAST;
    out[2 * threadIdx.x] = seen; out[2 * threadIdx.x + 1] = d[1][3];
}
"""
CHAIN_RIGHT = {"FIRST": "wait1()", "SECOND": "wait0()", "LAST": "", "BEFORE": ""}


def chain(**changes: str) -> str:
    text = CHAIN
    for word, new in (CHAIN_RIGHT | changes).items():
        text = text.replace(f"{word};", f"{new};")
    return text


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_waiting_for_the_first_of_two_groups(schedule: str, seed: int) -> None:
    out = np.zeros((128, 2), np.float32)
    assert run(chain(), "chain", 1, 128, [out, 3], schedule=schedule, seed=seed) == ()
    assert (out == [32 * (1 + 2 + 3), 48]).all()


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_groups_across_the_iterations_of_a_loop(schedule: str, seed: int) -> None:
    """Products stay under way over the end of the loop; each is waited for in the next iteration, or after all."""
    out = np.zeros((128, 2), np.float32)
    source = chain(SECOND="", LAST="wait0()")
    assert run(source, "chain", 1, 128, [out, 4], schedule=schedule, seed=seed) == ()
    assert (out == [32 * (1 + 2 + 3 + 4), 64]).all()


MULTIPLY = line_of(CHAIN, "wgmma.mma_async") - 1


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"FIRST": ""}, (MULTIPLY, line_of(CHAIN, "seen +="))),
        (
            {"FIRST": 'asm volatile("wgmma.wait_group.sync.aligned 2;" ::: "memory")'},
            (MULTIPLY, line_of(CHAIN, "seen +=")),
        ),
        ({"SECOND": ""}, (MULTIPLY, line_of(CHAIN, "out[2 *"))),
        ({"SECOND": "d[1][3] *= 2; wait0()"}, (MULTIPLY, line_of(CHAIN, "SECOND;"))),
    ],
    ids=["no wait", "a wait for too little", "results that are used", "a result that is changed"],
)
def test_registers_that_are_touched_too_early(changes: dict[str, str], lines: tuple[int, int]) -> None:
    for schedule, seed in SCHEDULES[:3]:
        out = np.zeros((128, 2), np.float32)
        findings = run(chain(**changes), "chain", 1, 128, [out, 2], schedule=schedule, seed=seed)
        early = [finding for finding in findings if finding.kind == "register race"]
        assert lines in raced_lines(tuple(early))
        assert "wgmma.wait_group" in str(early[0])
        if schedule == "lazy" and "SECOND" not in changes:
            assert (out[:, 0] != 96).any()


OVERWRITES = (
    CHAIN[: CHAIN.index("    float d[2][4]")].replace("void chain", "void overwrites")
    + r"""
    float d[4] = {};
    asm volatile("{ .reg .b32 a<4>; .reg .pred p; setp.eq.b32 p, 0, 0;\n"
        "mov.b32 a0, 0x3c003c00; mov.b32 a1, a0; mov.b32 a2, a0; mov.b32 a3, a0;\n"
        "wgmma.fence.sync.aligned;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, {a0, a1, a2, a3}, %4, p, 1, 1, 0;\n"
        "wgmma.commit_group.sync.aligned;\n"
        "BETWEEN\n"
        "wgmma.wait_group.sync.aligned 0;\n"
        "add.u32 a2, a2, 1; }"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(right) : "memory");
    out[2 * threadIdx.x] = d[0]; out[2 * threadIdx.x + 1] = d[3];
}
"""
)


@pytest.mark.parametrize(
    "between", ["", "xor.b32 a3, a0, a1;", "wgmma.wait_group.sync.aligned 1; add.u32 a0, a0, 1;"]
)
def test_registers_of_the_first_factor_that_are_overwritten(between: str) -> None:
    out = np.zeros((128, 2), np.float32)
    findings = run(OVERWRITES.replace("BETWEEN", between), "overwrites", 1, 128, [out, 1])
    assert (out == 16).all()
    assert bool(findings) is bool(between)
    for finding in findings:
        assert finding.kind == "register race"
        assert finding.second.action == "writes its registers"


def test_products_without_a_fence() -> None:
    types = ("f32", "f16", "f16")
    *values, findings = multiply(16, types, tail_of(types), fence="")
    check(*values, types)
    assert {finding.kind for finding in findings} == {"register race"}
    assert "Put wgmma.fence between" in str(findings[0])
    # A register that is changed after the fence.
    source_ = chain(BEFORE="fence(); d[0][1] += 1").replace(
        "fence();\n        multiply(d[0]", "multiply(d[0]"
    )
    findings = run(source_, "chain", 1, 128, [np.zeros((128, 2), np.float32), 2])
    assert (MULTIPLY, line_of(source_, "+= 1;")) in raced_lines(findings)


# Shared memory that products read


@pytest.mark.parametrize(
    ("changes", "line", "text"),
    [
        ({"FIRST": "a[threadIdx.x] = 2; wait1()"}, "a[threadIdx.x] = 2", "not known to be complete"),
        ({"SECOND": "wait0(); b[threadIdx.x] = 1; __syncthreads()"}, "wait0(); b[", "put fence.proxy.async"),
    ],
    ids=["overwritten before the wait", "written without a fence"],
)
def test_factors_in_shared_memory(changes: dict[str, str], line: str, text: str) -> None:
    source_ = chain(**changes)
    for schedule in ("eager", "lazy"):
        out = np.zeros((128, 2), np.float32)
        findings = run(source_, "chain", 1, 128, [out, 2], schedule=schedule)
        number = line_of(source_, line)
        assert any(number in pair for pair in raced_lines(findings))
        assert any(text in str(finding) for finding in findings)
        if schedule == "lazy" and "FIRST" in changes:
            assert (out != [96, 32]).any()


def test_part_of_a_warpgroup() -> None:
    for threads in (96, 160):
        with pytest.raises(drv.IllegalInstructionError, match="instruction of whole warpgroups"):
            run(chain(), "chain", 1, threads, [np.zeros((threads, 2), np.float32), 1])


@pytest.mark.parametrize(
    "opcode",
    [
        "wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16",
        "wgmma.mma_async.sync.aligned.m64n8k8.f32.f16.f16",
        "wgmma.mma_async.sync.aligned.m64n8k16.f16.bf16.bf16",
        "wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8",
    ],
)
def test_forms_that_do_not_exist(opcode: str) -> None:
    source_ = chain().replace("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", opcode)
    with pytest.raises(drv.IllegalInstructionError) as raised:
        run(source_, "chain", 1, 128, [np.zeros((128, 2), np.float32), 1])
    assert opcode in str(raised.value)
    assert "forms that are known: f16: m64nNk16 with results f16/f32" in str(raised.value)


def test_outside_shared_memory() -> None:
    source_ = chain().replace("16ull << 32;\n    u64 right", "4096ull << 32;\n    u64 right")
    with pytest.raises(drv.IllegalAddressError, match="outside the block's shared memory"):
        run(source_, "chain", 1, 128, [np.zeros((128, 2), np.float32), 1])
    assert compiled(source_)
