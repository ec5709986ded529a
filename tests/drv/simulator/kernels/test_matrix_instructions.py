"""Matrix instructions: ``mma.sync`` in every shape and type, ``ldmatrix``, ``stmatrix``, ``movmatrix`` and ``wmma``.

A product comes out right only where the elements of all fragments stand in the lanes that the PTX ISA names: ``ldmatrix``
brings them there, or the kernel does by the formulas of the ISA.
"""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import drv
from tests.drv.simulator.kernels.conftest import Launch

DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32, "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8, "s32": np.int32,
}  # fmt: skip
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
CTYPES = {"f16": "__half", "f32": "float", "f64": "double", "s32": "int"}
CONSTRAINTS = {"f32": "f", "f64": "d", "s32": "r", "f16": "r"}


def asm(opcode: str, *operands: tuple[str, str, list[str]]) -> str:
    """An ``asm`` statement: operands are ``("=" or "", constraint, C expressions)``, results first."""
    number, texts = 0, []
    for _, _, items in operands:
        texts.append("{" + ", ".join(f"%{number + i}" for i in range(len(items))) + "}")
        number += len(items)
    lists = [
        ", ".join(
            f'"{kind}{constraint}"({item})'
            for kind, constraint, items in operands
            if kind == direction
            for item in items
        )
        for direction in ("=", "")
    ]
    return f'asm volatile("{opcode} {", ".join(texts)};" : {lists[0]} : {lists[1]} : "memory");'


def names(lead: str, count: int) -> list[str]:
    return [f"{lead}[{i}]" for i in range(count)]


def product_kernel(shape: str, types: tuple[str, str, str, str], modifiers: str = "", tail: str = "") -> str:
    """A kernel of one warp: ``ldmatrix`` brings rows of a and columns of b, 16 bytes at a time, then ``mma``."""
    d, a, b, c = types
    m, n, k = dimensions(shape)
    row_bytes = k * BITS[a] // 8
    tiles = row_bytes // 16
    a_registers, b_registers = m // 8 * tiles, tiles
    c_count = m * n // 32
    c_registers = c_count // 2 if c == "f16" else c_count
    rows = f"lane % 8 + lane / 8 % {m // 8} * 8"
    kind = CTYPES[c]
    return f"""
#include <cuda_fp16.h>
extern "C" __global__ void product(const uint4* a, const uint4* b, const {kind}* c, {CTYPES[d]}* d) {{
    __shared__ uint4 left[{m * tiles}], right[{n * tiles}];
    int lane = threadIdx.x;
    for (int i = lane; i < {m * tiles}; i += 32) left[i] = a[i];
    for (int i = lane; i < {n * tiles}; i += 32) right[i] = b[i];
    __syncthreads();
    unsigned fa[{a_registers}], fb[{b_registers}];
    unsigned from = __cvta_generic_to_shared(left + ({rows}) * {tiles} + lane / {m} % {tiles});
    {
        asm(f"ldmatrix.sync.aligned.m8n8.x{a_registers}.shared.b16", ("=", "r", names("fa", a_registers)))
        .replace("};", f"}}, [%{a_registers}];")
        .replace(': "memory"', '"r"(from) : "memory"')
    }
    from = __cvta_generic_to_shared(right + lane % 8 * {tiles} + lane / 8 % {tiles});
    {
        asm(f"ldmatrix.sync.aligned.m8n8.x{b_registers}.shared.b16", ("=", "r", names("fb", b_registers)))
        .replace("};", f"}}, [%{b_registers}];")
        .replace(': "memory"', '"r"(from) : "memory"')
    }
    {kind} fc[{c_count}];
    {CTYPES[d]} fd[{c_count}];
    for (int i = 0; i < {c_count}; ++i)
        fc[i] = c[(lane / 4 + i / 2 * 8) * {n} + lane % 4 * 2 + i % 2];
    {"unsigned" if c == "f16" else kind}* rc = ({"unsigned" if c == "f16" else kind}*)fc;
    {"unsigned" if d == "f16" else CTYPES[d]}* rd = ({"unsigned" if d == "f16" else CTYPES[d]}*)fd;
    {
        asm(
            f"mma.sync.aligned.{shape}.row.col{modifiers}.{d}.{a}.{b}.{c}{tail}",
            ("=", CONSTRAINTS[d], names("rd", c_registers)),
            ("", "r", names("fa", a_registers)),
            ("", "r", names("fb", b_registers)),
            ("", CONSTRAINTS[c], names("rc", c_registers)),
        )
    }
    for (int i = 0; i < {c_count}; ++i)
        d[(lane / 4 + i / 2 * 8) * {n} + lane % 4 * 2 + i % 2] = fd[i];
}}
"""


def dimensions(shape: str) -> tuple[int, int, int]:
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


def floats(random: np.random.Generator, ptx_type: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of many magnitudes, so that sums round."""
    spread = 3 if ptx_type in ("e4m3", "f16") else 6
    values = np.ldexp(random.uniform(-2, 2, shape), random.integers(-spread, spread, shape))
    return values.astype(np.float32).astype(DTYPES[ptx_type])


def check_sum(result: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    """Every element is within half an ulp of ``a @ b + c``, but for what float64 loses; exactly computed."""
    a, b, c64 = a.astype(np.float64), b.astype(np.float64), c.astype(np.float64)
    for row, column in np.ndindex(result.shape):
        terms = [*(a[row] * b[:, column]).tolist(), float(c64[row, column])]
        exact = math.fsum(terms)
        size = math.fsum(map(abs, terms))
        ulp = float(np.spacing(np.abs(np.array(exact).astype(result.dtype)), dtype=result.dtype))
        assert abs(float(result[row, column]) - exact) <= ulp / 2 + len(terms) * 2.0**-52 * size


FLOAT_FORMS = [
    *((shape, ("f32", "f16", "f16", "f32")) for shape in ("m16n8k8", "m16n8k16")),
    *((shape, ("f16", "f16", "f16", "f16")) for shape in ("m16n8k8", "m16n8k16")),
    *((shape, ("f32", "bf16", "bf16", "f32")) for shape in ("m16n8k8", "m16n8k16")),
    *((shape, ("f32", "tf32", "tf32", "f32")) for shape in ("m16n8k4", "m16n8k8")),
    *((shape, ("f32", "e4m3", "e5m2", "f32")) for shape in ("m16n8k16", "m16n8k32")),
    *((shape, ("f16", "e5m2", "e4m3", "f16")) for shape in ("m16n8k16", "m16n8k32")),
    ("m16n8k32", ("f32", "e5m2", "e5m2", "f32")),
    ("m16n8k32", ("f32", "e4m3", "e4m3", "f32")),
]


@pytest.mark.parametrize(
    ("shape", "types"), FLOAT_FORMS, ids=lambda each: each if isinstance(each, str) else ".".join(each)
)
@pytest.mark.simulator_only
def test_products_of_floats(launch: Launch, shape: str, types: tuple[str, str, str, str]) -> None:
    m, n, k = dimensions(shape)
    random = np.random.default_rng(0)
    a, b = floats(random, types[1], (m, k)), floats(random, types[2], (n, k))
    c = floats(random, types[3], (m, n))
    d = np.zeros((m, n), DTYPES[types[0]])
    launch(product_kernel(shape, types), 1, 32, a.view(np.uint8), b.view(np.uint8), c, d)
    if types[1] == "tf32":
        a, b = ((each.view(np.uint32) & 0xFFFFE000).view(np.float32) for each in (a, b))
    check_sum(d, a, b.T, c)


def pack(values: np.ndarray, bits: int) -> np.ndarray:
    """Rows of small integers as bytes, the first element lowest."""
    if bits == 8:
        return np.ascontiguousarray(values).astype(np.int64).astype(np.uint8)
    if bits == 1:
        return np.packbits(values.astype(np.uint8), axis=1, bitorder="little")
    low, high = (values[:, part::2].astype(np.int64) & 15 for part in (0, 1))
    return (low | high << 4).astype(np.uint8)


INTEGER_FORMS = [
    *(
        (shape, types)
        for shape in ("m8n8k16", "m16n8k16", "m16n8k32")
        for types in ("s8 s8", "u8 s8", "u8 u8")
    ),
    *(
        (shape, types)
        for shape in ("m8n8k32", "m16n8k32", "m16n8k64")
        for types in ("s4 s4", "s4 u4", "u4 u4")
    ),
]


@pytest.mark.parametrize(("shape", "types"), INTEGER_FORMS)
@pytest.mark.parametrize("saturates", [False, True])
@pytest.mark.sampled(4)
def test_products_of_integers(launch: Launch, shape: str, types: str, saturates: bool) -> None:
    m, n, k = dimensions(shape)
    left, right = types.split()
    random = np.random.default_rng(1)

    def draw(ptx_type: str, rows: int) -> np.ndarray:
        bits = int(ptx_type[1:])
        low = -(1 << bits - 1) if ptx_type[0] == "s" else 0
        return random.integers(low, low + (1 << bits), (rows, k))

    a, b = draw(left, m), draw(right, n)
    c = random.integers(-(2**31), 2**31, (m, n)).astype(np.int32)
    c[0] = 2**31 - 1
    c[1] = -(2**31)
    d = np.zeros_like(c)
    bits = BITS[left]
    source = product_kernel(shape, ("s32", left, right, "s32"), ".satfinite" if saturates else "")
    launch(source, 1, 32, pack(a, bits), pack(b, bits), c, d)
    expected = a @ b.T + c.astype(np.int64)
    if saturates:
        expected = expected.clip(-(2**31), 2**31 - 1)
    assert (d == expected.astype(np.int32)).all()


@pytest.mark.parametrize("shape", ["m8n8k128", "m16n8k128", "m16n8k256"])
@pytest.mark.parametrize("operation", ["and", "xor"])
def test_products_of_bits(launch: Launch, shape: str, operation: str) -> None:
    m, n, k = dimensions(shape)
    random = np.random.default_rng(2)
    a, b = random.integers(0, 2, (m, k)), random.integers(0, 2, (n, k))
    c = random.integers(-100, 100, (m, n)).astype(np.int32)
    d = np.zeros_like(c)
    source = product_kernel(shape, ("s32", "b1", "b1", "s32"), tail=f".{operation}.popc")
    launch(source, 1, 32, pack(a, 1), pack(b, 1), c, d)
    combined = a[:, None] & b if operation == "and" else a[:, None] ^ b
    assert (d == combined.sum(axis=2) + c).all()


@pytest.mark.parametrize("shape", ["m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"])
def test_products_of_doubles_round_once_a_step(launch: Launch, shape: str) -> None:
    m, n, k = dimensions(shape)
    na, nb, nc = m * k // 32, k * n // 32, m * n // 32
    high = m // 8
    source = f"""
extern "C" __global__ void product(const double* a, const double* b, const double* c, double* d) {{
    int group = threadIdx.x >> 2, member = threadIdx.x & 3;
    double fa[{na}], fb[{nb}], fc[{nc}], fd[{nc}];
    for (int i = 0; i < {na}; ++i) fa[i] = a[(group + i % {high} * 8) * {k} + i / {high} * 4 + member];
    for (int i = 0; i < {nb}; ++i) fb[i] = b[(i * 4 + member) * {n} + group];
    for (int i = 0; i < {nc}; ++i) fc[i] = c[(group + i / 2 * 8) * {n} + member * 2 + i % 2];
    {
        asm(
            f"mma.sync.aligned.{shape}.row.col.f64.f64.f64.f64",
            ("=", "d", names("fd", nc)),
            ("", "d", names("fa", na)),
            ("", "d", names("fb", nb)),
            ("", "d", names("fc", nc)),
        )
    }
    for (int i = 0; i < {nc}; ++i) d[(group + i / 2 * 8) * {n} + member * 2 + i % 2] = fd[i];
}}
"""
    random = np.random.default_rng(3)
    a, b, c = (random.standard_normal(each) for each in ((m, k), (k, n), (m, n)))
    d = np.zeros((m, n))
    launch(source, 1, 32, a, b, c, d)
    for row, column in np.ndindex(d.shape):
        total = c[row, column]
        for step in range(k):
            total = float(Fraction(a[row, step]) * Fraction(b[step, column]) + Fraction(total))
        assert d[row, column] == total


@pytest.mark.parametrize("layouts", ["row.col", "row.row", "col.col", "col.row"])
@pytest.mark.parametrize("kind", ["f16", "f32"])
def test_four_products_of_quad_pairs(launch: Launch, layouts: str, kind: str) -> None:
    """``m8n8k4`` of 16-bit floats: lanes 4 i to 4 i + 3 and those 16 further make a product of their own."""
    a_layout, b_layout = layouts.split(".")
    registers = 4 if kind == "f16" else 8
    source = f"""
#include <cuda_fp16.h>
extern "C" __global__ void product(const __half* a, const __half* b, const {CTYPES[kind]}* c, {
        CTYPES[kind]
    }* d) {{
    int lane = threadIdx.x, pair = lane % 16 / 4, high = lane / 16 * 4;
    a += pair * 32; b += pair * 32; c += pair * 64; d += pair * 64;
    __half fa[4], fb[4];
    {CTYPES[kind]} fc[8], fd[8];
    for (int i = 0; i < 4; ++i) {{
        fa[i] = {"a[(lane % 4 + high) * 4 + i]" if a_layout == "row" else "a[(i + high) * 4 + lane % 4]"};
        fb[i] = {"b[i * 8 + lane % 4 + high]" if b_layout == "col" else "b[lane % 4 * 8 + i + high]"};
    }}
    #define AT(i) {
        "((lane % 4 + high) * 8 + i)"
        if kind == "f16"
        else "(((lane & 1) + (i & 2) + high) * 8 + (i & 4) + (lane & 2) + (i & 1))"
    }
    for (int i = 0; i < 8; ++i) fc[i] = c[AT(i)];
    unsigned *ra = (unsigned*)fa, *rb = (unsigned*)fb;
    {"unsigned" if kind == "f16" else "float"} *rc = ({"unsigned" if kind == "f16" else "float"}*)fc, *rd = ({
        "unsigned" if kind == "f16" else "float"
    }*)fd;
    {
        asm(
            f"mma.sync.aligned.m8n8k4.{layouts}.{kind}.f16.f16.{kind}",
            ("=", CONSTRAINTS[kind], names("rd", registers)),
            ("", "r", names("ra", 2)),
            ("", "r", names("rb", 2)),
            ("", CONSTRAINTS[kind], names("rc", registers)),
        )
    }
    for (int i = 0; i < 8; ++i) d[AT(i)] = fd[i];
}}
"""
    random = np.random.default_rng(4)
    a, b = floats(random, "f16", (4, 8, 4)), floats(random, "f16", (4, 4, 8))
    c = floats(random, kind, (4, 8, 8))
    d = np.zeros_like(c)
    launch(source, 1, 32, a, b, c, d)
    for each in range(4):
        check_sum(d[each], a[each], b[each], c[each])


WMMA = [
    *((shape, ab, cd) for shape in ("m16n16k16", "m32n8k16", "m8n32k16") for ab, cd in (
        ("f16", "f32 f32"), ("f16", "f16 f32"), ("f16", "f32 f16"), ("f16", "f16 f16"), ("bf16", "f32 f32"),
        ("s8", "s32 s32"), ("u8", "s32 s32"))),
    ("m16n16k8", "tf32", "f32 f32"),
    ("m8n8k4", "f64", "f64 f64"),
]  # fmt: skip


def _wmma_registers(which: str, shape: str, ptx_type: str) -> int:
    """Registers of a fragment, as the PTX ISA lists them."""
    m, n, k = dimensions(shape)
    if which in "cd":
        return m * n // 32 // (2 if ptx_type == "f16" else 1)
    if ptx_type == "f16":
        return 8
    count = (m if which == "a" else n) * k // 32
    return (
        max(count * {"bf16": 16, "s8": 8, "u8": 8, "tf32": 32, "f64": 64}[ptx_type] // 32, 1)
        if ptx_type != "f64"
        else count
    )


@pytest.mark.parametrize(("shape", "factors", "sums"), WMMA)
@pytest.mark.parametrize("layouts", ["row.col.row", "col.row.col"])
@pytest.mark.sampled(4)
def test_wmma(launch: Launch, shape: str, factors: str, sums: str, layouts: str) -> None:
    m, n, k = dimensions(shape)
    a_layout, b_layout, c_layout = layouts.split(".")
    d_type, c_type = sums.split()
    register = {"f64": "double", "f32": "float", "s32": "int"}
    constraint = {"f64": "d", "f32": "f"}
    counts = {
        which: _wmma_registers(which, shape, ptx_type)
        for which, ptx_type in zip("abcd", (factors, factors, c_type, d_type), strict=True)
    }
    types = dict(zip("abcd", (factors, factors, c_type, d_type), strict=True))
    stride = {"a": (k if a_layout == "row" else m), "b": (n if b_layout == "row" else k)}
    stride |= dict.fromkeys("cd", n if c_layout == "row" else m)
    # Rows and columns lie further apart than they are long.
    stride = {which: length + 16 for which, length in stride.items()}
    lines = []
    for which in "abc":
        layout = {"a": a_layout, "b": b_layout, "c": c_layout}[which]
        kind, count = types[which], counts[which]
        text = asm(
            f"wmma.load.{which}.sync.aligned.{layout}.{shape}.global.{kind}",
            ("=", constraint.get(kind, "r"), names(f"f{which}", count)),
        )
        lines.append(f"{register.get(kind, 'unsigned')} f{which}[{count}];")
        lines.append(
            text.replace("};", f"}}, [%{count}], %{count + 1};").replace(
                ': "memory"', f'"l"({which}), "r"({stride[which]}) : "memory"'
            )
        )
    lines.append(f"{register.get(d_type, 'unsigned')} fd[{counts['d']}];")
    opcode = f"wmma.mma.sync.aligned.{a_layout}.{b_layout}.{shape}."
    opcode += f"{d_type}.{c_type}" if factors == "f16" else f"{d_type}.{factors}.{factors}.{c_type}"
    operands = [
        (which, constraint.get(types[which], "r"), names(f"f{which}", counts[which])) for which in "dabc"
    ]
    lines.append(
        asm(
            opcode + (".rn" if factors == "f64" else ""),
            *(("=" if which == "d" else "", kind, items) for which, kind, items in operands),
        )
    )
    stored = ", ".join(f"%{2 + i}" for i in range(counts["d"]))
    inputs = ", ".join(f'"{constraint.get(d_type, "r")}"({item})' for item in names("fd", counts["d"]))
    lines.append(
        f'asm volatile("wmma.store.d.sync.aligned.{c_layout}.{shape}.global.{d_type} [%0], {{{stored}}}, %1;" '
        f':: "l"(d), "r"({stride["d"]}), {inputs} : "memory");'
    )
    body = "\n    ".join(lines)
    source = (
        'extern "C" __global__ void product(const void* a, const void* b, const void* c, void* d) {\n    '
        + body
        + "\n}\n"
    )
    random = np.random.default_rng(5)
    integers = factors in ("s8", "u8")

    def draw(ptx_type: str, rows: int, columns: int) -> np.ndarray:
        if integers:
            info = np.iinfo(DTYPES[ptx_type])
            return random.integers(max(info.min, -1000), min(info.max, 1000), (rows, columns)).astype(
                DTYPES[ptx_type]
            )
        return floats(random, ptx_type, (rows, columns))

    values = {"a": draw(factors, m, k), "b": draw(factors, k, n), "c": draw(c_type, m, n)}
    values["d"] = np.zeros((m, n), DTYPES[d_type])
    arrays = {}
    for which, layout in zip("abcd", (a_layout, b_layout, c_layout, c_layout), strict=True):
        lines_of = values[which] if layout == "row" else values[which].T
        arrays[which] = np.zeros((lines_of.shape[0], stride[which]), lines_of.dtype)
        arrays[which][:, : lines_of.shape[1]] = lines_of
    raw = {which: array.view(np.uint8) for which, array in arrays.items()}
    launch(source, 1, 32, raw["a"], raw["b"], raw["c"], raw["d"])
    result = arrays["d"][:, : n if c_layout == "row" else m]
    result = result if c_layout == "row" else result.T
    a, b, c = values["a"], values["b"], values["c"]
    if integers:
        assert (result == a.astype(np.int64) @ b + c).all()
        return
    if factors == "tf32":
        a, b = ((each.view(np.uint32) & 0xFFFFE000).view(np.float32) for each in (a, b))
    check_sum(result, a, b, c) if factors != "f64" else np.testing.assert_allclose(
        result, a @ b + c, rtol=1e-13, atol=1e-13
    )


@pytest.mark.parametrize(("ptx_type", "shape"), [("s4", "m8n8k32"), ("u4", "m8n8k32"), ("b1", "m8n8k128")])
def test_wmma_of_small_integers(launch: Launch, ptx_type: str, shape: str) -> None:
    m, n, k = dimensions(shape)
    operation = "xor.popc." if ptx_type == "b1" else ""
    source = f"""
extern "C" __global__ void product(const void* a, const void* b, int* d) {{
    unsigned fa, fb; int fd[2];
    asm volatile("wmma.load.a.sync.aligned.row.{shape}.{ptx_type} {{%0}}, [%1], %2;" : "=r"(fa) : "l"(a), "r"({k}));
    asm volatile("wmma.load.b.sync.aligned.col.{shape}.{ptx_type} {{%0}}, [%1], %2;" : "=r"(fb) : "l"(b), "r"({k}));
    asm volatile("wmma.mma.{operation}sync.aligned.row.col.{shape}.s32.{ptx_type}.{ptx_type}.s32 {{%0, %1}}, {{%2}}, {{%3}}, {{%4, %4}};"
        : "=r"(fd[0]), "=r"(fd[1]) : "r"(fa), "r"(fb), "r"(7));
    asm volatile("wmma.store.d.sync.aligned.row.{shape}.s32 [%0], {{%1, %2}}, 8;" :: "l"(d), "r"(fd[0]), "r"(fd[1]) : "memory");
}}
"""
    random = np.random.default_rng(6)
    bits = int(ptx_type[1:])
    low = -8 if ptx_type == "s4" else 0
    a, b = (random.integers(low, low + (1 << bits), (rows, k)) for rows in (m, n))
    d = np.zeros((m, n), np.int32)
    launch(source, 1, 32, pack(a, bits), pack(b, bits), d)
    expected = (a[:, None] ^ b).sum(axis=2) if ptx_type == "b1" else a @ b.T
    assert (d == expected + 7).all()


TRANSPOSES = r"""
extern "C" __global__ void by_ldmatrix(const uint4* in, uint4* out) {
    __shared__ uint4 rows[32];
    int lane = threadIdx.x;
    rows[lane] = in[lane];
    __syncthreads();
    unsigned r[4], at = __cvta_generic_to_shared(rows + lane);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
    __syncthreads();
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
        :: "r"(at), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
    __syncthreads();
    out[lane] = rows[lane];
}
extern "C" __global__ void by_stmatrix(const uint4* in, uint4* out) {
    __shared__ uint4 rows[32];
    int lane = threadIdx.x;
    rows[lane] = in[lane];
    __syncthreads();
    unsigned at = __cvta_generic_to_shared(rows + lane % 16);
    for (int half = 0; half < 2; ++half) {
        unsigned r[2];
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared::cta.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(at + half * 256) : "memory");
        __syncthreads();
        asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" :: "r"(at + half * 256), "r"(r[0]), "r"(r[1]) : "memory");
        __syncthreads();
    }
    out[lane] = rows[lane];
}
extern "C" __global__ void by_movmatrix(const uint4* in, uint4* out) {
    for (int i = 0; i < 4; ++i) {
        unsigned word = ((const unsigned*)in)[i * 32 + threadIdx.x];
        asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(word) : "r"(word));
        ((unsigned*)out)[i * 32 + threadIdx.x] = word;
    }
}
"""


@pytest.mark.parametrize("name", ["by_ldmatrix", "by_stmatrix", "by_movmatrix"])
def test_transposed_matrices(launch: Launch, name: str) -> None:
    values = np.arange(256, dtype=np.uint16).reshape(4, 8, 8) * 7
    out = np.zeros_like(values)
    launch(TRANSPOSES, 1, 32, values, out, name=name)
    assert (out == values.swapaxes(1, 2)).all()


TILED = r"""
#include <cuda_fp16.h>
extern "C" __global__ void tiled(const __half* a, const __half* b, float* c, int m, int n, int k) {
    // A block of 4 warps makes 32 by 32 elements, each warp 16 by 16; b is (k, n), transposed as it is loaded.
    __shared__ __align__(16) __half left[32][24], right[16][40];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int row = blockIdx.y * 32, column = blockIdx.x * 32;
    float sum[2][4] = {};
    for (int step = 0; step < k; step += 16) {
        for (int i = threadIdx.x; i < 512; i += 128) {
            left[i / 16][i % 16] = a[(row + i / 16) * k + step + i % 16];
            right[i / 32][i % 32] = b[(step + i / 32) * n + column + i % 32];
        }
        __syncthreads();
        unsigned fa[4], fb[4];
        unsigned at = __cvta_generic_to_shared(&left[warp / 2 * 16 + lane % 16][lane / 16 * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
            : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3]) : "r"(at) : "memory");
        at = __cvta_generic_to_shared(&right[lane % 16][warp % 2 * 16 + lane / 16 * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
            : "=r"(fb[0]), "=r"(fb[1]), "=r"(fb[2]), "=r"(fb[3]) : "r"(at) : "memory");
        for (int half = 0; half < 2; ++half)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                : "+f"(sum[half][0]), "+f"(sum[half][1]), "+f"(sum[half][2]), "+f"(sum[half][3])
                : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[half * 2]), "r"(fb[half * 2 + 1]));
        __syncthreads();
    }
    for (int half = 0; half < 2; ++half)
        for (int i = 0; i < 4; ++i)
            c[(row + warp / 2 * 16 + lane / 4 + i / 2 * 8) * n + column + warp % 2 * 16 + half * 8 + lane % 4 * 2 + i % 2] = sum[half][i];
}
"""


def test_tiled_product_of_many_blocks(launch: Launch) -> None:
    m, n, k = 64, 96, 80
    random = np.random.default_rng(7)
    a, b = (
        random.standard_normal((m, k)).astype(np.float16),
        random.standard_normal((k, n)).astype(np.float16),
    )
    c = np.zeros((m, n), np.float32)
    launch(TILED, (n // 32, m // 32), 128, a, b, c, np.int32(m), np.int32(n), np.int32(k))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    assert (np.abs(c - exact) <= k // 16 * 2.0**-24 * size).all()


def test_infinities_and_subnormals(launch: Launch) -> None:
    a, b = np.zeros((16, 16), np.float16), np.zeros((8, 16), np.float16)
    a[:, 0] = 1
    a[0, 0], a[1, 0], a[1, 1], a[2, 0], a[3, 0] = np.inf, np.inf, -np.inf, 2**-24, 65504
    b[:, 0] = b[:, 1] = 1
    b[1] = 0
    b[2, 0] = 65504
    c = np.zeros((16, 8), np.float32)
    d = np.zeros_like(c)
    launch(product_kernel("m16n8k16", ("f32", "f16", "f16", "f32")), 1, 32, a, b, c, d)
    assert d[0, 0] == np.inf
    assert np.isnan(d[0, 1])
    assert np.isnan(d[1, 0])
    assert d[2, 0] == np.float32(2**-24)
    assert d[3, 2] == np.float32(65504) * np.float32(65504)
    half = np.zeros((16, 8), np.float16)
    launch(product_kernel("m16n8k16", ("f16", "f16", "f16", "f16")), 1, 32, a, b, half, half)
    assert half[3, 2] == np.inf
    assert half[2, 0] == np.float16(2**-24)


PARTS = r"""
extern "C" __global__ void parts(unsigned* out) {
    unsigned word = threadIdx.x;
    if (threadIdx.x < LIMIT)
        asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(word) : "r"(word));
    out[threadIdx.x] = word;
}
"""


@pytest.mark.simulator_only
@pytest.mark.parametrize(
    ("threads", "limit", "message"),
    [
        (40, 64, r"8 of the 32 threads of a warp(.|\n)*thread \(32, 0, 0\)"),
        (32, 16, "wait for other lanes of their warp"),
    ],
)
def test_part_of_a_warp_is_refused(launch: Launch, threads: int, limit: int, message: str) -> None:
    source = PARTS.replace("out[", "__syncthreads(); out[")
    with pytest.raises(drv.CudaError, match=message):
        launch(source, 1, threads, np.zeros(threads, np.uint32), options=(f"-DLIMIT={limit}",))


@pytest.mark.simulator_only
def test_half_a_warp_of_whole_ones_may_run(launch: Launch) -> None:
    out = np.zeros(64, np.uint32)
    launch(PARTS, 1, 64, out, options=("-DLIMIT=32",))
    words = np.arange(32, dtype=np.uint32).view(np.uint16).reshape(8, 8)
    assert (out[:32] == np.ascontiguousarray(words.T).view(np.uint32).ravel()).all()
    assert (out[32:] == np.arange(32, 64)).all()
