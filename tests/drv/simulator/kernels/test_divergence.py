"""Control flow in which the threads of a warp part and meet again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drv.simulator.kernels.conftest import Launch, few_examples

SOURCE = r"""
extern "C" __global__ void collatz(const unsigned* in, int* steps, unsigned long long* peak, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long value = in[i], top = value;
    int count = 0;
    while (value > 1) {
        value = value % 2 ? 3 * value + 1 : value / 2;
        if (value > top) top = value;
        ++count;
    }
    steps[i] = count;
    peak[i] = top;
}

extern "C" __global__ void mandelbrot(int* out, int width, int height, float scale, int limit) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height) return;
    float cx = (px - width * 0.7f) * scale, cy = (py - height * 0.5f) * scale;
    float x = 0, y = 0;
    int k = 0;
    for (; k < limit; ++k) {
        float xx = x * x, yy = y * y;
        if (xx + yy > 4.0f) break;
        y = 2.0f * x * y + cy;
        x = xx - yy + cx;
    }
    out[py * width + px] = k;
}

extern "C" __global__ void nested_loops(const int* in, int* out) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, seed = in[t], sum = 0;
    for (int i = 0; i < seed % 7; ++i) {
        if (i == 5) break;
        for (int j = i; j < 9; ++j) {
            if ((i + j + seed) % 3 == 0) continue;
            if (j > seed % 11) break;
            int k = 0;
            do {
                sum += i * 100 + j * 10 + k;
                if (sum % 13 == 0) goto next;
            } while (++k < (seed >> 3) % 4);
        }
        sum += 1000;
    next:
        if (sum > 20000) return;
        out[t] = sum;
    }
}

extern "C" __global__ void big_switch(const int* in, int* out) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, x = in[t], y = t;
    switch (x) {
        case 0: y = y + 3; break;
        case 1: y = y * 5; break;
        case 2: y = y - 7;              // falls through
        case 3: y = y ^ 0x55; break;
        case 4: y = y << 3; break;
        case 5: y = -y; break;
        case 6: y = ~y; break;
        case 7: y = y * y; break;
        case 8: y = y / 3; break;
        case 9: y = y % 5; break;
        case 10: for (int i = 0; i < 5; ++i) y += i * y; break;
        case 11: if (y & 1) { y = 1; break; } y = 2;
        case 12: y += 100; break;
        case 13: out[t] = -99; return;
        case 1000: y = 42; break;
        case -5: y = 43; break;
        default: y = x;
    }
    out[t] = y;
}

// An interpreter of a small stack machine: a switch in a loop.
extern "C" __global__ void stack_machine(const int* program, const int* start, int* out) {
    int stack[16], top = 0, at = start[threadIdx.x], acc = threadIdx.x;
    for (;;) {
        switch (program[at++]) {
            case 0: stack[top++] = program[at++]; break;
            case 1: stack[top++] = acc; break;
            case 2: { int b = stack[--top], a = stack[--top]; stack[top++] = a + b; break; }
            case 3: { int b = stack[--top], a = stack[--top]; stack[top++] = a * b; break; }
            case 4: { int b = stack[--top], a = stack[--top]; stack[top++] = a - b; break; }
            case 5: acc = stack[--top]; break;
            case 6: if (stack[--top] > 0) at = program[at]; else ++at; break;
            case 7: stack[top] = stack[top - 1]; ++top; break;
            default: out[threadIdx.x] = acc; return;
        }
    }
}

extern "C" __global__ void early_return(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (in[i] < 0) { out[i] = -1; return; }
    if (in[i] == 0) return;
    float root = in[i];
    for (int k = 0; k < 40; ++k) {
        float next = 0.5f * (root + in[i] / root);
        if (next == root) { out[i] = root; return; }
        root = next;
    }
    out[i] = root;
}

extern "C" __global__ void binary_search(const float* sorted, int n, const float* keys, int* out, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        int low = 0, high = n;
        while (low < high) {
            int middle = low + (high - low) / 2;
            if (sorted[middle] < keys[i]) low = middle + 1;
            else high = middle;
        }
        out[i] = low;
    }
}

// Irreducible: two gotos enter one loop at different places.
extern "C" __global__ void two_entries(const int* in, unsigned* out) {
    int x = in[threadIdx.x];
    unsigned trace = 0;
    if (x & 1) goto second;
first:
    trace = trace * 3 + 1;
    x -= 2;
    if (x < -20) goto done;
second:
    trace = trace * 3 + 2;
    x -= 1;
    if (x > 0) goto first;
    if (x > -9 && (trace & 1)) goto second;
done:
    out[threadIdx.x] = trace;
}

extern "C" __global__ void gcds(const unsigned* a, const unsigned* b, unsigned* out) {
    unsigned x = a[threadIdx.x], y = b[threadIdx.x];
    while (y != 0) { unsigned r = x % y; x = y; y = r; }
    out[threadIdx.x] = x;
}

extern "C" __global__ void short_circuit(const int* p, int n, int* out) {
    int i = threadIdx.x;
    bool yes = (i < n && p[i] > 3 && p[p[i] % n] % 2 == 0) || (i >= n && i % 5 == 0);
    out[i] = yes ? (i & 1 ? 10 : 20) : (i > 40 ? 30 : 40);
}

// Bits of the counter choose the way each time round.
extern "C" __global__ void many_paths(unsigned* state, int rounds) {
    unsigned s = state[threadIdx.x];
    for (int r = 0; r < rounds; ++r) {
        if (s & 1) {
            if (s & 2) s = s * 3 + 1;
            else if (s & 4) s ^= s >> 3;
            else s += 0x9e3779b9u;
        } else {
            unsigned k = s & 7;
            while (k--) { s = (s << 1) | (s >> 31); if (s % 5 == 0) break; }
            s += 7;
        }
    }
    state[threadIdx.x] = s;
}
"""


@few_examples
@given(n=st.integers(1, 700), start=st.integers(1, 10**6))
def test_collatz(launch: Launch, n: int, start: int) -> None:
    values = np.arange(start, start + n, dtype=np.uint32)
    steps, peak = np.zeros(n, np.int32), np.zeros(n, np.uint64)
    launch(SOURCE, -(-n // 128), 128, values, steps, peak, np.int32(n), name="collatz")
    for i in range(0, n, 37):
        value, count, top = int(values[i]), 0, int(values[i])
        while value > 1:
            value = 3 * value + 1 if value % 2 else value // 2
            top, count = max(top, value), count + 1
        assert (steps[i], peak[i]) == (count, top)


def test_mandelbrot(launch: Launch) -> None:
    width, height, limit, scale = 50, 37, 60, np.float32(0.06)
    out = np.zeros((height, width), np.int32)
    launch(
        SOURCE, (4, 5), (16, 8), out, np.int32(width), np.int32(height), scale, np.int32(limit),
        name="mandelbrot", options=("-fmad=false",),
    )  # fmt: skip
    f = np.float32
    cx = (np.arange(width, dtype=f) - f(width) * f(0.7)) * scale
    cy = ((np.arange(height, dtype=f) - f(height) * f(0.5)) * scale)[:, None]
    x, y = np.zeros((2, height, width), f)
    expected = np.full((height, width), limit)
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(limit):
            xx, yy = x * x, y * y
            expected[(xx + yy > 4) & (expected == limit)] = k
            x, y = xx - yy + cx, f(2) * x * y + cy
    np.testing.assert_array_equal(out, expected)


def nested_loops(seed: int) -> int:
    out, total = -1, 0
    for i in range(seed % 7):
        if i == 5:
            break
        jumped = False
        for j in range(i, 9):
            if (i + j + seed) % 3 == 0:
                continue
            if j > seed % 11:
                break
            k = 0
            while True:
                total += i * 100 + j * 10 + k
                if total % 13 == 0:
                    jumped = True
                    break
                k += 1
                if k >= (seed >> 3) % 4:
                    break
            if jumped:
                break
        if not jumped:
            total += 1000
        if total > 20000:
            return out
        out = total
    return out


def test_nested_loops(launch: Launch) -> None:
    seeds = np.random.default_rng(0).integers(0, 1000, 384).astype(np.int32)
    out = np.full(384, -1, np.int32)
    launch(SOURCE, 3, 128, seeds, out, name="nested_loops")
    assert out.tolist() == [nested_loops(int(seed)) for seed in seeds]


def big_switch(x: int, t: int) -> int:
    def c_divide(a: int, b: int) -> int:
        return int(a / b)

    simple = {
        0: t + 3, 1: t * 5, 2: (t - 7) ^ 0x55, 3: t ^ 0x55, 4: t << 3, 5: -t, 6: ~t, 7: t * t, 8: c_divide(t, 3),
        9: t % 5, 10: t * 1 * 2 * 3 * 4 * 5, 11: 1 if t & 1 else 102, 12: t + 100, 13: -99, 1000: 42, -5: 43,
    }  # fmt: skip
    return simple.get(x, x)


def test_big_switch(launch: Launch) -> None:
    cases = np.random.default_rng(0).choice([*range(-2, 17), 1000, -5, 2**31 - 1], 512).astype(np.int32)
    out = np.zeros(512, np.int32)
    launch(SOURCE, 2, 256, cases, out, name="big_switch")
    assert out.tolist() == [big_switch(int(x), t) for t, x in enumerate(cases)]


def test_stack_machine(launch: Launch) -> None:
    halt, push, load, add, multiply, subtract, store, jump, double = 9, 0, 1, 2, 3, 4, 5, 6, 7
    squares = [load, double, multiply, store, halt]
    # acc counts down to zero by twos, leaving the sum of the counts on the stack.
    total = [push, 0, load, add, load, push, 2, subtract, store, load, jump, len(squares) + 2, store, halt]
    constant = [push, 7, push, 5, subtract, push, 21, multiply, store, halt]
    program = np.array(squares + total + constant, np.int32)
    starts = np.array([0, len(squares), len(squares) + len(total)])
    which = np.random.default_rng(0).integers(0, 3, 96)
    out = np.zeros(96, np.int32)
    launch(SOURCE, 1, 96, program, starts[which].astype(np.int32), out, name="stack_machine")
    expected = [(t * t, sum(range(t, 0, -2)), 42)[w] for t, w in enumerate(which)]
    assert out.tolist() == expected


def test_early_return(launch: Launch) -> None:
    values = np.random.default_rng(0).integers(-5, 30, 500).astype(np.float32)
    out = np.full(500, 9.0, np.float32)
    launch(SOURCE, 4, 128, values, out, np.int32(500), name="early_return")
    positive = values > 0
    assert (out[values < 0] == -1).all()
    assert (out[values == 0] == 9).all()
    np.testing.assert_allclose(out[positive], np.sqrt(values[positive]), rtol=2e-7)


@few_examples
@given(n=st.integers(0, 300), count=st.integers(1, 500))
def test_binary_search(launch: Launch, n: int, count: int) -> None:
    random = np.random.default_rng(count)
    table = np.sort(random.integers(0, 100, n)).astype(np.float32)
    keys = random.integers(-2, 103, count).astype(np.float32)
    out = np.zeros(count, np.int32)
    padded = np.append(table, np.float32(0))
    launch(SOURCE, 2, 96, padded, np.int32(n), keys, out, np.int32(count), name="binary_search")
    np.testing.assert_array_equal(out, np.searchsorted(table, keys))


def test_loop_with_two_entries(launch: Launch) -> None:
    values = np.arange(-12, 40, dtype=np.int32)
    out = np.zeros(len(values), np.uint32)
    launch(SOURCE, 1, len(values), values, out, name="two_entries")

    def walk(x: int) -> int:
        trace, at_first = 0, not x & 1
        while True:
            if at_first:
                trace, x = trace * 3 + 1, x - 2
                if x < -20:
                    return trace
            trace, x = trace * 3 + 2, x - 1
            at_first = x > 0
            if not at_first and not (x > -9 and trace & 1):
                return trace

    assert out.tolist() == [walk(int(x)) % 2**32 for x in values]


def test_greatest_common_divisors(launch: Launch) -> None:
    a, b = np.random.default_rng(0).integers(0, 2**32, (2, 200)).astype(np.uint32)
    b[::5], a[::7] = 0, 0
    out = np.zeros_like(a)
    launch(SOURCE, 1, 200, a, b, out, name="gcds")
    np.testing.assert_array_equal(out, np.gcd(a, b))


@pytest.mark.parametrize("n", [1, 33, 60])
def test_short_circuit_guards_reads(launch: Launch, n: int) -> None:
    values = np.random.default_rng(n).integers(0, 9, n).astype(np.int32)
    out = np.zeros(96, np.int32)
    launch(SOURCE, 1, 96, values, np.int32(n), out, name="short_circuit")
    for i in range(96):
        if i < n:
            yes = values[i] > 3 and values[values[i] % n] % 2 == 0
        else:
            yes = i % 5 == 0
        assert out[i] == ((10 if i & 1 else 20) if yes else (30 if i > 40 else 40))


@few_examples
@given(seed=st.integers(0, 10**6), rounds=st.integers(0, 30))
def test_many_paths(launch: Launch, seed: int, rounds: int) -> None:
    state = np.random.default_rng(seed).integers(0, 2**32, 64).astype(np.uint32)
    expected = []
    for s in state.tolist():
        for _ in range(rounds):
            if s & 1:
                s = s * 3 + 1 if s & 2 else s ^ s >> 3 if s & 4 else s + 0x9E3779B9
            else:
                for _ in range(s & 7):
                    s = (s << 1 | s >> 31) % 2**32
                    if s % 5 == 0:
                        break
                s += 7
            s %= 2**32
        expected.append(s)
    launch(SOURCE, 1, 64, state, np.int32(rounds), name="many_paths")
    assert state.tolist() == expected
