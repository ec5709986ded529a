// Half precision for elements.cuh: arithmetic is done in float. From double it is rounded once; an integer
// of 8 bytes goes through float, as in PyTorch.
//
// Kernels convert such elements and compute nothing with them, so the two types are bits with conversions. CUDA's own headers,
// with all of arithmetic, take as long to compile as a small kernel. Where the compiler decides how often it repeats a loop's
// body, an instruction in braces counts as CUDA's conversions do: without them, bodies are repeated half as often.

#pragma once

struct Half {
    unsigned short bits;
};
// The upper half of a float.
struct BFloat16 {
    unsigned short bits;
};

__device__ inline float to_compute(Half x) {
    float result;
    asm("{cvt.f32.f16 %0, %1;}" : "=f"(result) : "h"(x.bits));
    return result;
}
__device__ inline float to_compute(BFloat16 x) {
    float result;
#if __CUDA_ARCH__ >= 900
    asm("{cvt.f32.bf16 %0, %1;}" : "=f"(result) : "h"(x.bits));
#else
    asm("{mov.b32 %0, {0, %1};}" : "=f"(result) : "h"(x.bits));
#endif
    return result;
}

// Two that share a word take an instruction each, where the compiler would first take the word apart.
template <int N>
__device__ inline void to_compute(const BFloat16* x, float* values) {
#pragma unroll
    for (int i = 0; i + 1 < N; i += 2) {
        unsigned word;
        memcpy(&word, x + i, sizeof(word));
        values[i] = __uint_as_float(word << 16);
        values[i + 1] = __uint_as_float(word & 0xffff0000u);
    }
    if constexpr (N % 2) values[N - 1] = to_compute(x[N - 1]);
}

template <>
struct ToElement<Half> {
    static __device__ Half from(float x) {
        Half result;
        asm("{cvt.rn.f16.f32 %0, %1;}" : "=h"(result.bits) : "f"(x));
        return result;
    }
    static __device__ Half from(double x) {
        Half result;
        asm("{cvt.rn.f16.f64 %0, %1;}" : "=h"(result.bits) : "d"(x));
        return result;
    }
    template <class W>
    static __device__ Half from(W x) { return from(static_cast<float>(x)); }
    template <class W>
    static __device__ Half from(Complex<W> x) { return from(x.re); }
};

template <>
struct ToElement<BFloat16> {
    static __device__ BFloat16 from(float x) {
        BFloat16 result;
#if __CUDA_ARCH__ >= 800
        asm("{cvt.rn.bf16.f32 %0, %1;}" : "=h"(result.bits) : "f"(x));
#else
        const unsigned int word = __float_as_uint(x);
        result.bits = x == x ? word + 0x7fffu + (word >> 16 & 1u) >> 16 : 0x7fffu;
#endif
        return result;
    }
    static __device__ BFloat16 from(double x) {
#if __CUDA_ARCH__ >= 900
        BFloat16 result;
        asm("{cvt.rn.bf16.f64 %0, %1;}" : "=h"(result.bits) : "d"(x));
        return result;
#else
        // An odd last bit stands for what the first of two roundings leaves out.
        const float towards_zero = __double2float_rz(x);
        return from(__uint_as_float(__float_as_uint(towards_zero) | (towards_zero != x)));
#endif
    }
    template <class W>
    static __device__ BFloat16 from(W x) { return from(static_cast<float>(x)); }
    template <class W>
    static __device__ BFloat16 from(Complex<W> x) { return from(x.re); }
};
