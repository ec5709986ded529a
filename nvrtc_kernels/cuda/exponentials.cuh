// Exponentials for results that are rounded to half precision, and the largest of their arguments.

#pragma once

// By the hardware: relative errors of 2^-22.
__device__ inline float power_of_two(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
// exp(x) = 2^(x * TO_TWO)
constexpr float TO_TWO = 1.44269504f;

// exp(x): the product's error, |x| * 2^-24, vanishes in 2^-11 as that of the power does.
__device__ inline float quick_exponential(float x) { return power_of_two(x * TO_TWO); }

// NaN only of two.
template <class W>
__device__ inline W larger_number(W a, W b) { return b > a ? b : a; }
template <>
__device__ inline float larger_number(float a, float b) { return fmaxf(a, b); }
