"""Integer operators and intrinsics, each an expression of ``a``, ``b``, ``c`` beside its meaning in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.drv.simulator.kernels.conftest import Launch


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def unsigned(value: int, bits: int = 32) -> int:
    return value & ((1 << bits) - 1)


def quotient(a: int, b: int) -> int:
    """Division that truncates; what C leaves undefined is not asked."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return a - b * quotient(a, b)


def reversed_bits(value: int, bits: int) -> int:
    return int(f"{unsigned(value, bits):0{bits}b}"[::-1], 2)


def first_set(value: int) -> int:
    return (value & -value).bit_length()


def parts(value: int, width: int, *, sign: bool) -> list[int]:
    """The fields of a 32-bit word, lowest first."""
    fields = [(value >> at) & ((1 << width) - 1) for at in range(0, 32, width)]
    return [signed(field, width) for field in fields] if sign else fields


def joined(fields: list[int], width: int) -> int:
    return sum(unsigned(field, width) << (width * at) for at, field in enumerate(fields))


def by_part(function: Callable[[int, int], int], width: int, *, sign: bool) -> Callable[..., int]:
    return lambda a, b, c: joined(
        [function(x, y) for x, y in zip(parts(a, width, sign=sign), parts(b, width, sign=sign), strict=True)],
        width,
    )


def permuted_bytes(a: int, b: int, selector: int) -> int:
    pool = unsigned(a).to_bytes(4, "little") + unsigned(b).to_bytes(4, "little")
    return int.from_bytes(bytes(pool[(selector >> (4 * at)) & 7] for at in range(4)), "little")


def funnel_left(low: int, high: int, shift: int) -> int:
    return unsigned(((unsigned(high) << 32 | unsigned(low)) << shift) >> 32)


def funnel_right(low: int, high: int, shift: int) -> int:
    return unsigned((unsigned(high) << 32 | unsigned(low)) >> shift)


def dot(a: list[int], b: list[int]) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


INT: dict[str, Callable[[int, int, int], int]] = {
    "a + b": lambda a, b, c: a + b,
    "a - b * c": lambda a, b, c: a - b * c,
    "a * b": lambda a, b, c: a * b,
    "a / (b | 1)": lambda a, b, c: 0 if (a, b | 1) == (-(2**31), -1) else quotient(a, b | 1),
    "a % (b | 1)": lambda a, b, c: 0 if (b | 1) == -1 else remainder(a, b | 1),
    "a / 7": lambda a, b, c: quotient(a, 7),
    "a % 1000": lambda a, b, c: remainder(a, 1000),
    "a / 16": lambda a, b, c: quotient(a, 16),
    "a & b | c ^ ~a": lambda a, b, c: a & b | c ^ ~a,
    "a >> (b & 31)": lambda a, b, c: a >> (b & 31),
    "a << (b & 31)": lambda a, b, c: a << (b & 31),
    "a < b": lambda a, b, c: a < b,
    "a == b || b >= c": lambda a, b, c: a == b or b >= c,
    "a > b ? b : c": lambda a, b, c: b if a > b else c,
    "min(a, max(b, c))": lambda a, b, c: min(a, max(b, c)),
    "abs(a >> 1)": lambda a, b, c: abs(a >> 1),
    "(int)(char)a + (short)b": lambda a, b, c: signed(a, 8) + signed(b, 16),
    "__mulhi(a, b)": lambda a, b, c: a * b >> 32,
    "__mul24(a, b)": lambda a, b, c: signed(a, 24) * signed(b, 24),
    "__hadd(a, b)": lambda a, b, c: (a + b) >> 1,
    "__rhadd(a, b)": lambda a, b, c: (a + b + 1) >> 1,
    "(int)__sad(a, b, c)": lambda a, b, c: abs(a - b) + c,
    "__clz(a)": lambda a, b, c: 32 - unsigned(a).bit_length(),
    "__ffs(a)": lambda a, b, c: first_set(unsigned(a)),
    "__popc(a ^ b)": lambda a, b, c: unsigned(a ^ b).bit_count(),
    "__dp4a(a, b, c)": lambda a, b, c: dot(parts(a, 8, sign=True), parts(b, 8, sign=True)) + c,
    "__dp2a_lo(a, b, c)": lambda a, b, c: dot(parts(a, 16, sign=True), parts(b, 8, sign=True)[:2]) + c,
    "__dp2a_hi(a, b, c)": lambda a, b, c: dot(parts(a, 16, sign=True), parts(b, 8, sign=True)[2:]) + c,
    "__vimax3_s32(a, b, c)": lambda a, b, c: max(a, b, c),
    "__vimin3_s32_relu(a, b, c)": lambda a, b, c: max(min(a, b, c), 0),
    "__viaddmax_s32(a, b, c)": lambda a, b, c: max(signed(a + b), c),
    "__viaddmin_s32_relu(a, b, c)": lambda a, b, c: max(min(signed(a + b), c), 0),
}
UNSIGNED: dict[str, Callable[[int, int, int], int]] = {
    "a + b * c": lambda a, b, c: a + b * c,
    "a / (b | 1)": lambda a, b, c: a // (b | 1),
    "a % (b | 1)": lambda a, b, c: a % (b | 1),
    "a / 10": lambda a, b, c: a // 10,
    "a % 641": lambda a, b, c: a % 641,
    "a / 0x80000001u": lambda a, b, c: a // 0x80000001,
    "a >> (b & 31)": lambda a, b, c: a >> (b & 31),
    "a < b": lambda a, b, c: a < b,
    "min(a, b) ^ max(b, c)": lambda a, b, c: min(a, b) ^ max(b, c),
    "__umulhi(a, b)": lambda a, b, c: a * b >> 32,
    "__umul24(a, b)": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "__uhadd(a, b)": lambda a, b, c: (a + b) >> 1,
    "__urhadd(a, b)": lambda a, b, c: (a + b + 1) >> 1,
    "__usad(a, b, c)": lambda a, b, c: abs(a - b) + c,
    "__brev(a)": lambda a, b, c: reversed_bits(a, 32),
    "__byte_perm(a, b, c & 0x7777)": permuted_bytes,
    "__funnelshift_l(a, b, c)": lambda a, b, c: funnel_left(a, b, c & 31),
    "__funnelshift_r(a, b, c)": lambda a, b, c: funnel_right(a, b, c & 31),
    "__funnelshift_lc(a, b, c & 63)": lambda a, b, c: funnel_left(a, b, min(c & 63, 32)),
    "__funnelshift_rc(a, b, c & 63)": lambda a, b, c: funnel_right(a, b, min(c & 63, 32)),
    "a << (c & 31) | a >> (-c & 31)": lambda a, b, c: funnel_left(a, a, c & 31) | (a >> (-c & 31)),
    "__dp4a(a, b, c)": lambda a, b, c: dot(parts(a, 8, sign=False), parts(b, 8, sign=False)) + c,
    "__dp2a_lo(a, b, c)": lambda a, b, c: dot(parts(a, 16, sign=False), parts(b, 8, sign=False)[:2]) + c,
    "__vadd4(a, b)": by_part(lambda x, y: x + y, 8, sign=False),
    "__vsub2(a, b)": by_part(lambda x, y: x - y, 16, sign=False),
    "__vabsdiffu4(a, b)": by_part(lambda x, y: abs(x - y), 8, sign=False),
    "__vmaxs2(a, b)": by_part(max, 16, sign=True),
    "__vminu4(a, b)": by_part(min, 8, sign=False),
    "__vcmpgtu4(a, b)": by_part(lambda x, y: 255 * (x > y), 8, sign=False),
    "__vcmpeq2(a, b)": by_part(lambda x, y: 65535 * (x == y), 16, sign=False),
    "__vaddus4(a, b)": by_part(lambda x, y: min(x + y, 255), 8, sign=False),
    "__vaddss2(a, b)": by_part(lambda x, y: max(min(x + y, 32767), -32768), 16, sign=True),
    "__vavgu4(a, b)": by_part(lambda x, y: (x + y + 1) // 2, 8, sign=False),
    "__vsadu4(a, b)": lambda a, b, c: sum(
        abs(x - y) for x, y in zip(parts(a, 8, sign=False), parts(b, 8, sign=False), strict=True)
    ),
    "__vneg4(a)": by_part(lambda x, y: -x, 8, sign=True),
}
LONG: dict[str, Callable[[int, int, int], int]] = {
    "a + b - c": lambda a, b, c: a + b - c,
    "a * b": lambda a, b, c: a * b,
    "a / (b | 1)": lambda a, b, c: 0 if (a, b | 1) == (-(2**63), -1) else quotient(a, b | 1),
    "a % (b | 1)": lambda a, b, c: 0 if (b | 1) == -1 else remainder(a, b | 1),
    "a / 1000000007ll": lambda a, b, c: quotient(a, 1000000007),
    "a % 12": lambda a, b, c: remainder(a, 12),
    "a >> (b & 63)": lambda a, b, c: a >> (b & 63),
    "a << (b & 63)": lambda a, b, c: a << (b & 63),
    "a < b": lambda a, b, c: a < b,
    "min(a, max(b, c))": lambda a, b, c: min(a, max(b, c)),
    "llabs(a >> 1)": lambda a, b, c: abs(a >> 1),
    "(long long)(int)a * (int)b": lambda a, b, c: signed(a) * signed(b),
    "(long long)(unsigned)a * (unsigned)b + c": lambda a, b, c: unsigned(a) * unsigned(b) + c,
    "__mul64hi(a, b)": lambda a, b, c: a * b >> 64,
    "__clzll(a)": lambda a, b, c: 64 - unsigned(a, 64).bit_length(),
    "__ffsll(a)": lambda a, b, c: first_set(unsigned(a, 64)),
    "__popcll(a)": lambda a, b, c: unsigned(a, 64).bit_count(),
    "(long long)((__int128)a * b >> 64)": lambda a, b, c: a * b >> 64,
    "(long long)(((__int128)a * b + c) >> 37)": lambda a, b, c: (a * b + c) >> 37,
    "(long long)((__int128)a * b / (c | 1))": lambda a, b, c: quotient(a * b, c | 1),
    "(long long)(((__int128)a << 50) % (b | 1))": lambda a, b, c: remainder(a << 50, b | 1),
    "(__int128)a * b < (__int128)b * c": lambda a, b, c: a * b < b * c,
}
UNSIGNED_LONG: dict[str, Callable[[int, int, int], int]] = {
    "a / (b | 1)": lambda a, b, c: a // (b | 1),
    "a % (b | 1)": lambda a, b, c: a % (b | 1),
    "a / (b >> 40 | 1)": lambda a, b, c: a // (b >> 40 | 1),
    "a / 10": lambda a, b, c: a // 10,
    "a % 0xfffffffbull": lambda a, b, c: a % 0xFFFFFFFB,
    "a >> (b & 63)": lambda a, b, c: a >> (b & 63),
    "a > b": lambda a, b, c: a > b,
    "__umul64hi(a, b)": lambda a, b, c: a * b >> 64,
    "__brevll(a)": lambda a, b, c: reversed_bits(a, 64),
    "a << (c & 63) | a >> (-c & 63)": lambda a, b, c: (a << (c & 63)) | (a >> (-c & 63)),
    "(unsigned long long)(((unsigned __int128)a << 64 | b) >> (c & 127))": (
        lambda a, b, c: (a << 64 | b) >> (c & 127)
    ),
    "(unsigned long long)(((unsigned __int128)a << 64 | b) / (c | 1))": lambda a, b, c: (
        (a << 64 | b) // (c | 1)
    ),
    "(unsigned long long)(((unsigned __int128)a << 64 | b) % (c | 1))": lambda a, b, c: (
        (a << 64 | b) % (c | 1)
    ),
}
TABLES = {
    "int": (INT, np.int32),
    "unsigned": (UNSIGNED, np.uint32),
    "long long": (LONG, np.int64),
    "unsigned long long": (UNSIGNED_LONG, np.uint64),
}


def source(type_: str) -> str:
    lines = "\n".join(f"    out[{row} * n + i] = {text};" for row, text in enumerate(TABLES[type_][0]))
    return f"""
extern "C" __global__ void evaluate(const {type_}* as, const {type_}* bs, const {type_}* cs, {type_}* out, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    {type_} a = as[i], b = bs[i], c = cs[i];
{lines}
}}
"""


def interesting(dtype: type[np.integer], n: int) -> np.ndarray:
    """Triples (3, n) of every magnitude, extremes among them."""
    info = np.iinfo(dtype)
    random = np.random.default_rng(info.bits)
    wide = random.integers(info.min, info.max, (3, n), dtype=dtype, endpoint=True)
    values = wide >> random.integers(0, info.bits, (3, n)).astype(dtype)
    corners = np.array([0, 1, 2, info.max, info.max - 1, info.min, info.min + 1, info.max // 2], dtype)
    pairs = np.stack(np.meshgrid(corners, corners, indexing="ij")).reshape(2, -1)
    values[:2, : pairs.shape[1]] = pairs
    values[2, :4] = corners[:4]
    return values.astype(dtype)


@pytest.mark.parametrize("type_", TABLES)
def test_expressions(launch: Launch, type_: str) -> None:
    table, dtype = TABLES[type_]
    n = 400
    a, b, c = interesting(dtype, n)
    out = np.zeros((len(table), n), dtype)
    launch(source(type_), 4, 100, a, b, c, out, np.int32(n), name="evaluate", options=("--device-int128",))
    bits = np.iinfo(dtype).bits
    for text, row, meaning in zip(table, out, table.values(), strict=True):
        expected = [
            unsigned(int(meaning(*triple)), bits)
            for triple in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
        ]
        overflows = "/" in text or "%" in text
        actual = row.view(np.uint32 if bits == 32 else np.uint64)
        defined = np.ones(n, bool)
        if overflows and np.iinfo(dtype).min < 0:
            # The most negative number divided by -1 is undefined.
            defined = ~((a == np.iinfo(dtype).min) & ((b | 1) == -1))
        np.testing.assert_array_equal(actual[defined], np.array(expected, actual.dtype)[defined], text)


def test_division_by_zero_goes_on(launch: Launch) -> None:
    """What the quotient is, CUDA leaves open; that nothing else suffers, it does not."""
    text = """
extern "C" __global__ void divide(const int* a, const long long* b, int* quotients, long long* remainders, int* done) {
    quotients[threadIdx.x] = 100 / a[threadIdx.x];
    remainders[threadIdx.x] = 100 % b[threadIdx.x];
    done[threadIdx.x] = 1;
}"""
    a, b = np.array([0, 7, 0, -3], np.int32), np.array([9, 0, 0, -7])
    quotients, remainders, done = np.zeros(4, np.int32), np.zeros(4, np.int64), np.zeros(4, np.int32)
    launch(text, 1, 4, a, b, quotients, remainders, done)
    assert quotients[1] == 14
    assert quotients[3] == -33
    assert remainders[0] == 1
    assert remainders[3] == 2
    assert done.all()
