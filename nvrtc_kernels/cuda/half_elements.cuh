// Half precision for elements.cuh: arithmetic is done in float. From double it is rounded once; an integer
// of 8 bytes goes through float, as in PyTorch.

#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "elements.cuh"

__device__ inline float to_compute(__half x) { return __half2float(x); }
__device__ inline float to_compute(__nv_bfloat16 x) { return __bfloat162float(x); }

// A bfloat16 is the upper half of a float: two that share a word take an instruction each, where the compiler would first
// take the word apart.
template <int N>
__device__ inline void to_compute(const __nv_bfloat16* x, float* values) {
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
struct ToElement<__half> {
    template <class W>
    static __device__ __half from(W x) { return __float2half_rn(static_cast<float>(x)); }
    static __device__ __half from(double x) { return __double2half(x); }
    template <class W>
    static __device__ __half from(Complex<W> x) { return from(x.re); }
};

template <>
struct ToElement<__nv_bfloat16> {
    template <class W>
    static __device__ __nv_bfloat16 from(W x) { return __float2bfloat16_rn(static_cast<float>(x)); }
    static __device__ __nv_bfloat16 from(double x) { return __double2bfloat16(x); }
    template <class W>
    static __device__ __nv_bfloat16 from(Complex<W> x) { return from(x.re); }
};
