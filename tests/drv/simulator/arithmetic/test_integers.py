"""Integer arithmetic, carries, logic and bit instructions against Python integers, lane by lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drv.simulator.arithmetic import DTYPES, resolve
from tests.drv.simulator.arithmetic.lanes import random_lanes

INTEGERS = ("u16", "u32", "u64", "s16", "s32", "s64")
Reference = Callable[..., Any]


def wrap(value: int, t: str) -> int:
    """Return ``value`` as type ``t`` holds it."""
    bits = int(t[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if t[0] == "s" and value >> (bits - 1) else value


def unsigned(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def clip(value: int) -> int:
    return min(max(value, -(1 << 31)), (1 << 31) - 1)


def quotient(a: int, b: int) -> int:
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return a - b * quotient(a, b) if b else -1


def leading(value: int, t: str) -> int:
    bits = int(t[1:])
    return (~value if value < 0 else unsigned(value, bits)).bit_length() - 1


def extract(a: int, position: int, length: int, t: str) -> int:
    bits = int(t[1:])
    position, length = position & 255, length & 255
    pattern = unsigned(a, bits)
    sign = pattern >> min(position + length - 1, bits - 1) & 1 if t[0] == "s" and length else 0
    chosen = [
        pattern >> (position + i) & 1 if i < length and position + i < bits else sign for i in range(bits)
    ]
    return wrap(sum(bit << i for i, bit in enumerate(chosen)), t)


def insert(a: int, b: int, position: int, length: int, bits: int) -> int:
    position, length = position & 255, length & 255
    for i in range(length):
        if position + i < bits:
            b = b & ~(1 << position + i) | (a >> i & 1) << position + i
    return b


def find_nth(mask: int, base: int, offset: int) -> int:
    if base > 31:
        return -1
    if offset == 0:
        return base if mask >> base & 1 else -1
    result = 0
    for position in range(base, 32) if offset > 0 else range(base, -1, -1):
        result += mask >> position & 1
        if result == abs(offset):
            return position
    return -1


def permuted(a: int, b: int, selector: int) -> int:
    source = (b << 32 | a).to_bytes(8, "little")
    result = 0
    for i in range(4):
        choice = selector >> 4 * i & 15
        byte = source[choice & 7]
        result |= (0xFF * (byte >> 7) if choice & 8 else byte) << 8 * i
    return result


def parts(value: int, t: str, bits: int) -> list[int]:
    return [wrap(value >> i, f"{t[0]}{bits}") for i in range(0, 32, bits)]


def _references() -> dict[str, Reference]:
    known: dict[str, Reference] = {}
    for t in INTEGERS:
        bits = int(t[1:])
        known |= {
            f"add.{t}": lambda a, b: a + b,
            f"sub.{t}": lambda a, b: a - b,
            f"mul.lo.{t}": lambda a, b: a * b,
            f"mad.lo.{t}": lambda a, b, c: a * b + c,
            f"mul.hi.{t}": lambda a, b, bits=bits: a * b >> bits,
            f"mad.hi.{t}": lambda a, b, c, bits=bits: (a * b >> bits) + c,
            f"div.{t}": quotient,
            f"rem.{t}": remainder,
            f"min.{t}": min,
            f"max.{t}": max,
            f"sad.{t}": lambda a, b, c: c + abs(a - b),
        }
        if bits < 64:
            known |= {f"mul.wide.{t}": lambda a, b: a * b, f"mad.wide.{t}": lambda a, b, c: a * b + c}
        if t[0] == "s":
            known |= {
                f"abs.{t}": abs,
                f"neg.{t}": lambda a: -a,
                f"min.relu.{t}": lambda a, b: max(min(a, b), 0),
                f"max.relu.{t}": lambda a, b: max(a, b, 0),
            }
        known[f"shr.{t}"] = lambda a, n: a >> min(n, 64)
    for bits in (16, 32, 64):
        b = f"b{bits}"
        known |= {
            f"and.{b}": lambda a, b: a & b,
            f"or.{b}": lambda a, b: a | b,
            f"xor.{b}": lambda a, b: a ^ b,
            f"not.{b}": lambda a: ~a,
            f"cnot.{b}": lambda a: int(a == 0),
            f"shl.{b}": lambda a, n: a << n if n < 64 else 0,
            f"shr.{b}": lambda a, n: a >> n,
        }
    for bits in (32, 64):
        known |= {
            f"popc.b{bits}": lambda a: a.bit_count(),
            f"clz.b{bits}": lambda a, bits=bits: bits - a.bit_length(),
            f"brev.b{bits}": lambda a, bits=bits: int(f"{a:0{bits}b}"[::-1], 2),
            f"bfi.b{bits}": lambda a, b, p, n, bits=bits: insert(a, b, p, n, bits),
        }
        for t in (f"u{bits}", f"s{bits}"):
            known |= {
                f"bfind.{t}": lambda a, t=t: leading(a, t),
                f"bfind.shiftamt.{t}": lambda a, t=t: (
                    int(t[1:]) - 1 - leading(a, t) if leading(a, t) >= 0 else -1
                ),
                f"bfe.{t}": lambda a, p, n, t=t: extract(a, p, n, t),
            }
    known |= {
        "add.sat.s32": lambda a, b: clip(a + b),
        "sub.sat.s32": lambda a, b: clip(a - b),
        "mad.hi.sat.s32": lambda a, b, c: clip((a * b >> 32) + c),
        "fns.b32": find_nth,
        "prmt.b32": permuted,
        "bmsk.clamp.b32": lambda p, n: (1 << min(n, 32)) - 1 << p if p < 32 else 0,
        "bmsk.wrap.b32": lambda p, n: (1 << (n & 31)) - 1 << (p & 31),
        "szext.clamp.u32": lambda a, n: a & (1 << min(n, 32)) - 1,
        "szext.wrap.u32": lambda a, n: a & (1 << (n & 31)) - 1,
        "szext.clamp.s32": lambda a, n: wrap(a, f"s{min(n, 32)}") if n else 0,
        "szext.wrap.s32": lambda a, n: wrap(a, f"s{n & 31}") if n & 31 else 0,
        "lop3.b32": lambda a, b, c, lut: sum(
            (lut >> (4 * (a >> i & 1) + 2 * (b >> i & 1) + (c >> i & 1)) & 1) << i for i in range(32)
        ),
    }
    for mode in ("wrap", "clamp"):

        def amount(n: int, mode: str = mode) -> int:
            return n & 31 if mode == "wrap" else min(n, 32)

        known[f"shf.l.{mode}.b32"] = lambda a, b, n, amount=amount: (b << 32 | a) << amount(n) >> 32
        known[f"shf.r.{mode}.b32"] = lambda a, b, n, amount=amount: (b << 32 | a) >> amount(n)
    for t in ("u32", "s32"):
        small = f"{t[0]}24"
        known |= {
            f"mul24.lo.{t}": lambda a, b, s=small: wrap(a, s) * wrap(b, s),
            f"mul24.hi.{t}": lambda a, b, s=small: wrap(a, s) * wrap(b, s) >> 16,
            f"mad24.lo.{t}": lambda a, b, c, s=small: wrap(a, s) * wrap(b, s) + c,
            f"mad24.hi.{t}": lambda a, b, c, s=small: (wrap(a, s) * wrap(b, s) >> 16) + c,
        }
        for u in ("u32", "s32"):
            known[f"vabsdiff4.u32.{t}.{u}"] = lambda a, b, c, t=t, u=u: sum(
                (abs(x - y) & 255) << 8 * i
                for i, (x, y) in enumerate(zip(parts(a, t, 8), parts(b, u, 8), strict=True))
            )
            known[f"vabsdiff4.u32.{t}.{u}.add"] = lambda a, b, c, t=t, u=u: (
                c + sum(abs(x - y) for x, y in zip(parts(a, t, 8), parts(b, u, 8), strict=True))
            )
            known[f"dp4a.{t}.{u}"] = lambda a, b, c, t=t, u=u: (
                c + sum(x * y for x, y in zip(parts(a, t, 8), parts(b, u, 8), strict=True))
            )
            known[f"dp2a.lo.{t}.{u}"] = lambda a, b, c, t=t, u=u: (
                c + sum(x * y for x, y in zip(parts(a, t, 16), parts(b, u, 8)[:2], strict=True))
            )
            known[f"dp2a.hi.{t}.{u}"] = lambda a, b, c, t=t, u=u: (
                c + sum(x * y for x, y in zip(parts(a, t, 16), parts(b, u, 8)[2:], strict=True))
            )
    return known


REFERENCES = _references()


@pytest.mark.parametrize("opcode", sorted(REFERENCES))
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_one_result(opcode: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    operation = resolve(opcode)
    operands = [random_lanes(t, 60, rng) for t in operation.operands]
    if opcode.startswith(_WITH_AMOUNT):
        operands[-1] = np.where(rng.random(60) < 0.7, operands[-1] % 70, operands[-1]).astype(
            operands[-1].dtype
        )
    if opcode.startswith(("bfe.", "bfi.")):
        operands[-2] = np.where(rng.random(60) < 0.7, operands[-2] % 70, operands[-2]).astype(np.uint32)
    if opcode.startswith("lop3"):
        operands[-1] = operands[-1][:1]
    with np.errstate(all="ignore"):
        results = operation.function(*operands)
    lanes = zip(*(np.broadcast_to(operand, 60).tolist() for operand in operands), strict=True)
    expected = [wrap(REFERENCES[opcode](*values), operation.results[0].replace("b", "u")) for values in lanes]
    assert results.tolist() == expected


_WITH_AMOUNT = ("shl.", "shr.", "shf.", "bfe.", "bfi.", "bmsk.", "szext.", "fns.")


@pytest.mark.parametrize("lut", range(256))
def test_every_truth_table(lut: int) -> None:
    a, b, c = (np.array([pattern], np.uint32) for pattern in (0xF0, 0xCC, 0xAA))
    lookup = resolve("lop3.b32").function
    assert lookup(a, b, c, np.array([lut], np.uint32))[0] & 0xFF == lut
    assert lookup(a, b.repeat(3), c, np.array([lut], np.uint32)).shape == (3,)
    result, predicate = resolve("lop3.and.b32").function(
        a, b, c, np.array([lut], np.uint32), np.array([True, False])
    )
    assert predicate.tolist() == [bool(result[0]), False]


@given(selector=st.integers(0, 2**32 - 1))
def test_permutations_with_one_selector_for_all_lanes(selector: int) -> None:
    a, b = np.array([0xF3827160, 0x12345678], np.uint32), np.array([0x04F58697], np.uint32)
    given_bytes = resolve("prmt.b32").function(a, b, np.array([selector], np.uint32))
    assert given_bytes.tolist() == [permuted(x, 0x04F58697, selector) for x in a.tolist()]


@pytest.mark.parametrize("t", ["u32", "s32", "u64", "s64"])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_numbers_of_several_words(t: str, seed: int) -> None:
    """Sums, differences and products of three-word numbers, as compilers write them."""
    rng = np.random.default_rng(seed)
    bits = int(t[1:])
    a, b = ([random_lanes(t, 50, rng) for _ in range(3)] for _ in range(2))
    for base, sign in (("add", 1), ("sub", -1)):
        low, flag = resolve(f"{base}.cc.{t}").function(a[0], b[0])
        middle, flag = resolve(f"{base}c.cc.{t}").function(a[1], b[1], flag)
        high = resolve(f"{base}c.{t}").function(a[2], b[2], flag)
        for lane in range(50):
            whole = [sum(unsigned(int(w[lane]), bits) << i * bits for i, w in enumerate(x)) for x in (a, b)]
            total = unsigned(whole[0] + sign * whole[1], 3 * bits)
            given_words = [unsigned(int(w[lane]), bits) for w in (low, middle, high)]
            assert sum(w << i * bits for i, w in enumerate(given_words)) == total
    if t[0] == "u":
        low, flag = resolve(f"mad.lo.cc.{t}").function(a[0], b[0], a[1])
        high, flag = resolve(f"madc.hi.cc.{t}").function(a[0], b[0], a[2], flag)
        top = resolve(f"addc.{t}").function(b[2], np.zeros(1, DTYPES[t]), flag)
        for lane in range(50):
            x, y = int(a[0][lane]), int(b[0][lane])
            total = x * y + int(a[1][lane]) + (int(a[2][lane]) << bits) + (int(b[2][lane]) << 2 * bits)
            words = [int(w[lane]) for w in (low, high, top)]
            assert sum(w << i * bits for i, w in enumerate(words)) == unsigned(total, 3 * bits)


@pytest.mark.parametrize("mode", ["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"])
def test_permutation_modes(mode: str) -> None:
    a, b = np.array([0x33221100], np.uint32), np.array([0x77665544], np.uint32)
    given_bytes = [
        f"{resolve(f'prmt.b32.{mode}').function(a, b, np.array([i], np.uint32))[0]:08x}" for i in range(4)
    ]
    assert (
        given_bytes
        == {
            "f4e": ["33221100", "44332211", "55443322", "66554433"],
            "b4e": ["55667700", "66770011", "77001122", "00112233"],
            "rc8": ["00000000", "11111111", "22222222", "33333333"],
            "ecl": ["33221100", "33221111", "33222222", "33333333"],
            "ecr": ["00000000", "11111100", "22221100", "33221100"],
            "rc16": ["11001100", "33223322", "11001100", "33223322"],
        }[mode]
    )


def test_division_by_zero_gives_all_ones() -> None:
    for t in INTEGERS:
        a, zero = np.array([5, 0], DTYPES[t]), np.zeros(1, DTYPES[t])
        with np.errstate(all="ignore"):
            for base in ("div", "rem"):
                assert (resolve(f"{base}.{t}").function(a, zero) == ~zero).all()


@pytest.mark.parametrize("t", INTEGERS)
def test_division_of_many_lanes_by_one_number(t: str) -> None:
    rng = np.random.default_rng(3)
    lanes = random_lanes(t, 99, rng)
    info = np.iinfo(DTYPES[t])
    divisors = [1, 3, int(info.max), int(info.min), wrap(-1, t), wrap(-7, t)]
    for a in (lanes, lanes & int(info.max), np.array([info.min], DTYPES[t])):
        for b in filter(None, divisors):
            for base, reference in (("div", quotient), ("rem", remainder)):
                with np.errstate(all="ignore"):
                    results = resolve(f"{base}.{t}").function(a, np.array([b], DTYPES[t]))
                assert results.tolist() == [wrap(reference(each, b), t) for each in a.tolist()], (base, b)


@pytest.mark.parametrize(("t", "part"), [("u16x2", "u16"), ("s16x2", "s16")])
def test_packed_halfwords(t: str, part: str) -> None:
    rng = np.random.default_rng(2)
    a, b = random_lanes(t, 99, rng), random_lanes(t, 99, rng)
    for base in ("add", "min", "max"):
        halves = resolve(f"{base}.{part}").function(a.view(DTYPES[part]), b.view(DTYPES[part]))
        assert resolve(f"{base}.{t}").function(a, b).tobytes() == halves.tobytes()
