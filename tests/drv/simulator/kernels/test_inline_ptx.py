"""Kernels with PTX in ``asm``: what programmers reach for where C++ has no word."""

from __future__ import annotations

import numpy as np

from tests.drv.simulator.kernels.conftest import Launch

SOURCE = r"""
// 256-bit integers: carries go from word to word.
extern "C" __global__ void add_256(const unsigned* a, const unsigned* b, unsigned* sum, unsigned* difference, unsigned* carry) {
    a += 8 * threadIdx.x; b += 8 * threadIdx.x; sum += 8 * threadIdx.x; difference += 8 * threadIdx.x;
    unsigned r[8], c;
    asm("add.cc.u32 %0, %9, %17;\n\t"
        "addc.cc.u32 %1, %10, %18;\n\t"
        "addc.cc.u32 %2, %11, %19;\n\t"
        "addc.cc.u32 %3, %12, %20;\n\t"
        "addc.cc.u32 %4, %13, %21;\n\t"
        "addc.cc.u32 %5, %14, %22;\n\t"
        "addc.cc.u32 %6, %15, %23;\n\t"
        "addc.cc.u32 %7, %16, %24;\n\t"
        "addc.u32 %8, 0, 0;"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]), "=r"(c)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]),
          "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(b[4]), "r"(b[5]), "r"(b[6]), "r"(b[7]));
    for (int i = 0; i < 8; ++i) sum[i] = r[i];
    carry[threadIdx.x] = c;
    asm("sub.cc.u32 %0, %8, %16;\n\t"
        "subc.cc.u32 %1, %9, %17;\n\t"
        "subc.cc.u32 %2, %10, %18;\n\t"
        "subc.cc.u32 %3, %11, %19;\n\t"
        "subc.cc.u32 %4, %12, %20;\n\t"
        "subc.cc.u32 %5, %13, %21;\n\t"
        "subc.cc.u32 %6, %14, %22;\n\t"
        "subc.u32 %7, %15, %23;"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]),
          "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(b[4]), "r"(b[5]), "r"(b[6]), "r"(b[7]));
    for (int i = 0; i < 8; ++i) difference[i] = r[i];
}

// 64 x 64 bits to 128 with 32-bit multiply-adds.
extern "C" __global__ void multiply_128(const uint2* a, const uint2* b, uint4* out) {
    uint2 x = a[threadIdx.x], y = b[threadIdx.x];
    uint4 r;
    asm("{\n\t"
        "mul.lo.u32 %0, %4, %6;\n\t"
        "mul.hi.u32 %1, %4, %6;\n\t"
        "mad.lo.cc.u32 %1, %4, %7, %1;\n\t"
        "madc.hi.u32 %2, %4, %7, 0;\n\t"
        "mad.lo.cc.u32 %1, %5, %6, %1;\n\t"
        "madc.hi.cc.u32 %2, %5, %6, %2;\n\t"
        "madc.hi.u32 %3, %5, %7, 0;\n\t"
        "mad.lo.cc.u32 %2, %5, %7, %2;\n\t"
        "addc.u32 %3, %3, 0;\n\t"
        "}"
        : "=&r"(r.x), "=&r"(r.y), "=&r"(r.z), "=&r"(r.w)
        : "r"(x.x), "r"(x.y), "r"(y.x), "r"(y.y));
    out[threadIdx.x] = r;
}

extern "C" __global__ void bit_operations(const unsigned* a, const unsigned* b, unsigned* out, int n) {
    int i = threadIdx.x;
    unsigned x = a[i], y = b[i], r[8];
    asm("bfe.u32 %0, %1, 5, 11;" : "=r"(r[0]) : "r"(x));
    asm("bfe.s32 %0, %1, %2, 9;" : "=r"(r[1]) : "r"(x), "r"(y & 31));
    asm("bfi.b32 %0, %1, %2, 7, 13;" : "=r"(r[2]) : "r"(x), "r"(y));
    asm("lop3.b32 %0, %1, %2, %3, 0xE8;" : "=r"(r[3]) : "r"(x), "r"(y), "r"(x >> 7 ^ y << 3));
    asm("prmt.b32 %0, %1, %2, 0x3517;" : "=r"(r[4]) : "r"(x), "r"(y));
    asm("bfind.u32 %0, %1;" : "=r"(r[5]) : "r"(x >> (y & 31)));
    asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(r[6]) : "r"(x), "r"(y), "r"(x & 31));
    asm("{ .reg .pred p, q; setp.gt.and.u32 p|q, %1, %2, 1; selp.u32 %0, 3, 5, p; @q add.u32 %0, %0, 10; }"
        : "=r"(r[7]) : "r"(x), "r"(y));
    for (int k = 0; k < 8; ++k) out[k * n + i] = r[k];
}

extern "C" __global__ void selections(const float* a, const int* b, float* out, int* sad) {
    int i = threadIdx.x;
    float r;
    asm("{\n\t .reg .pred p;\n\t .reg .f32 t;\n\t setp.lt.f32 p, %1, 0f00000000;\n\t"
        " @p neg.f32 t, %1;\n\t @!p mul.f32 t, %1, 0f40400000;\n\t selp.f32 %0, t, 0f3F800000, p;\n\t"
        " @!p add.f32 %0, t, 0f00000000;\n\t}"
        : "=f"(r) : "f"(a[i]));
    out[i] = r;
    int s;
    asm("slct.s32.s32 %0, 7, -7, %1;" : "=r"(s) : "r"(b[i]));
    asm("sad.s32 %0, %1, %2, %3;" : "=r"(sad[i]) : "r"(b[i]), "r"(s), "r"(100));
}

extern "C" __global__ void loads_and_stores(const float* in, float* out) {
    float a, b, c, d;
    const float* p = in + 4 * threadIdx.x;
    asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(p));
    float* q = out + 2 * threadIdx.x;
    asm volatile("st.global.cs.v2.f32 [%0], {%1, %2};" ::"l"(q), "f"(a + b), "f"(c * d) : "memory");
    asm volatile("red.global.add.f32 [%0], %1;" ::"l"(out + 128), "f"(1.0f) : "memory");
    unsigned old;
    asm volatile("atom.global.relaxed.gpu.inc.u32 %0, [%1], 9;" : "=r"(old) : "l"(out + 129) : "memory");
    if (old > 9) out[0] = -1;
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    asm volatile("prefetch.global.L2 [%0];" ::"l"(in));
}

extern "C" __global__ void loop_with_labels(const unsigned* in, unsigned* out) {
    unsigned count, x = in[threadIdx.x];
    asm volatile("{\n\t"
        ".reg .pred p;\n\t"
        ".reg .u32 v;\n\t"
        "mov.u32 v, %1;\n\t"
        "mov.u32 %0, 0;\n\t"
        "AGAIN:\n\t"
        "setp.eq.u32 p, v, 0;\n\t"
        "@p bra DONE;\n\t"
        "sub.u32 %0, %0, -1;\n\t"
        "shr.u32 v, v, 1;\n\t"
        "bra.uni AGAIN;\n\t"
        "DONE:\n\t"
        "}" : "=&r"(count) : "r"(x));
    out[threadIdx.x] = count;
}

extern "C" __global__ void special_registers(unsigned long long* out) {
    unsigned sm, nsm, warp, nwarp, grid, shared;
    unsigned long long ticks, timer;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    asm volatile("mov.u32 %0, %%nsmid;" : "=r"(nsm));
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
    asm volatile("mov.u32 %0, %%nwarpid;" : "=r"(nwarp));
    asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(shared));
    asm volatile("mov.u32 %0, %%nctaid.x;" : "=r"(grid));
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(ticks));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(timer));
    long long later = clock64();
    __nanosleep(20);
    if (threadIdx.x == 0) {
        out[0] = sm < nsm;
        out[1] = warp < nwarp;
        out[2] = shared;
        out[3] = grid;
        out[4] = later >= (long long)ticks;
        out[5] = timer > 0;
        out[6] = clock() != 0x7fffffff;
    }
}

// The instruction behind __vadd4's relatives, and 8-bit saturation of several values at once.
extern "C" __global__ void packing(const int* a, const int* b, unsigned* out) {
    unsigned r;
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a[threadIdx.x]), "r"(b[threadIdx.x]), "r"(0xabcd));
    out[threadIdx.x] = r;
}
"""


def big(words: np.ndarray) -> list[int]:
    return [int.from_bytes(row.tobytes(), "little") for row in words]


def test_256_bit_addition(launch: Launch) -> None:
    a, b = np.random.default_rng(0).integers(0, 2**32, (2, 50, 8)).astype(np.uint32)
    a[:10], b[0] = 0xFFFFFFFF, [1, 0, 0, 0, 0, 0, 0, 0]
    total, difference, carry = np.zeros_like(a), np.zeros_like(a), np.zeros(50, np.uint32)
    launch(SOURCE, 1, 50, a, b, total, difference, carry, name="add_256")
    sums = [x + y for x, y in zip(big(a), big(b), strict=True)]
    assert big(total) == [s % 2**256 for s in sums]
    assert carry.tolist() == [s >> 256 for s in sums]
    assert big(difference) == [(x - y) % 2**256 for x, y in zip(big(a), big(b), strict=True)]


def test_128_bit_product(launch: Launch) -> None:
    a, b = np.random.default_rng(0).integers(0, 2**32, (2, 64, 2)).astype(np.uint32)
    a[:4], b[:4] = 0xFFFFFFFF, 0xFFFFFFFF
    out = np.zeros((64, 4), np.uint32)
    launch(SOURCE, 1, 64, a, b, out, name="multiply_128")
    assert big(out) == [x * y for x, y in zip(big(a), big(b), strict=True)]


def test_bit_operations(launch: Launch) -> None:
    x, y = np.random.default_rng(0).integers(0, 2**32, (2, 128)).astype(np.uint32)
    x[0] = 0
    out = np.zeros((8, 128), np.uint32)
    launch(SOURCE, 1, 128, x, y, out, np.int32(128), name="bit_operations")
    np.testing.assert_array_equal(out[0], x >> 5 & 0x7FF)
    # Bits beyond the word repeat its sign.
    wide, at = x.view(np.int32).astype(np.int64), y & 31
    signed_fields = (wide >> at & 0x1FF ^ 0x100) - 0x100
    np.testing.assert_array_equal(out[1].view(np.int32), signed_fields)
    field = np.uint32(0x1FFF << 7)
    np.testing.assert_array_equal(out[2], y & ~field | x << 7 & field)
    z = x >> 7 ^ y << 3
    np.testing.assert_array_equal(out[3], x & y | y & z | x & z)
    pool = np.stack([x, y], axis=1).view(np.uint8).reshape(-1, 8)
    np.testing.assert_array_equal(out[4], pool[:, [7, 1, 5, 3]].copy().view(np.uint32)[:, 0])
    shifted = (x >> (y & 31)).tolist()
    assert out[5].tolist() == [s.bit_length() - 1 if s else 0xFFFFFFFF for s in shifted]
    assert out[6].tolist() == [
        ((q << 32 | p) >> (p & 31)) % 2**32 for p, q in zip(x.tolist(), y.tolist(), strict=True)
    ]
    np.testing.assert_array_equal(out[7], np.where(x > y, 3, 15))


def test_predicated_instructions(launch: Launch) -> None:
    a = np.array([-2.5, 0, 3, -0.0, 7], np.float32)
    b = np.array([-9, 0, 5, 2**31 - 1, -1], np.int32)
    out, sad = np.zeros(5, np.float32), np.zeros(5, np.int32)
    launch(SOURCE, 1, 5, a, b, out, sad, name="selections")
    np.testing.assert_array_equal(out, np.where(a < 0, -a, 3 * a))
    wide = b.astype(np.int64)
    np.testing.assert_array_equal(sad, (np.abs(wide - np.where(b >= 0, 7, -7)) + 100).astype(np.int32))


def test_loads_and_stores(launch: Launch) -> None:
    values = np.random.default_rng(0).integers(0, 9, (64, 4)).astype(np.float32)
    out = np.zeros(130, np.float32)
    launch(SOURCE, 1, 64, values, out, name="loads_and_stores")
    a, b, c, d = values.T
    np.testing.assert_array_equal(out[:128].reshape(-1, 2), np.stack([a + b, c * d], axis=1))
    assert out[128] == 64
    assert out[129:].view(np.uint32)[0] == 64 % 10


def test_labels(launch: Launch) -> None:
    values = (
        np.random.default_rng(0).integers(0, 2**31, 96).astype(np.uint32)
        >> np.arange(96, dtype=np.uint32) % 32
    )
    out = np.zeros_like(values)
    launch(SOURCE, 1, 96, values, out, name="loop_with_labels")
    assert out.tolist() == [value.bit_length() for value in values.tolist()]


def test_special_registers(launch: Launch) -> None:
    out = np.zeros(7, np.uint64)
    launch(SOURCE, 3, 64, out, name="special_registers", shared=1024)
    assert out.tolist() == [1, 1, 1024, 3, 1, 1, 1]


def test_saturating_pack(launch: Launch) -> None:
    a, b = np.array([-5, 300, 17, 255], np.int32), np.array([1, 2, 500, -1], np.int32)
    out = np.zeros(4, np.uint32)
    launch(SOURCE, 1, 4, a, b, out, name="packing")
    expected = np.clip(a, 0, 255) << 8 | np.clip(b, 0, 255) | np.int64(0xABCD << 16)
    np.testing.assert_array_equal(out, expected.astype(np.uint32))
