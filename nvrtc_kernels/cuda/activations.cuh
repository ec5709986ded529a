// Activation functions with parts in common: value, slope (first derivative) and curvature (second).

#pragma once
#include "exponentials.cuh"

template <class T>
__device__ inline T logistic(T x) { return T(1) / (T(1) + exp(-x)); }

// x * logistic(x)
template <class T>
__device__ inline T silu_slope(T x) {
    const T s = logistic(x);
    return s * (1 + x * (1 - s));
}
template <class T>
__device__ inline T silu_curvature(T x) {
    const T s = logistic(x);
    return s * (1 - s) * (2 + x * (1 - 2 * s));
}

// x * tanh(log(1 + exp(x)))
template <class T>
__device__ inline T mish_factor(T x) { return tanh(log1p(exp(x))); }
template <class T>
__device__ inline T mish_slope(T x) {
    const T t = mish_factor(x);
    return t + x * logistic(x) * (1 - t * t);
}
template <class T>
__device__ inline T mish_curvature(T x) {
    const T t = mish_factor(x), s = logistic(x);
    return (1 - t * t) * s * (2 + x * (1 - s) - 2 * x * t * s);
}

// x times the normal distribution's part below x
template <class T>
__device__ inline T normal_distribution(T x) { return T(0.5) * erfc(x * T(-0.70710678118654752)); }
template <class T>
__device__ inline T normal_density(T x) { return T(0.39894228040143268) * exp(T(-0.5) * x * x); }

// The part beyond |x| is bell times a quotient of polynomials. Everything is without a branch, and in few steps, for processors that
// compute several elements at a time.

// In float32: relative errors of a few 2^-24. x^2 is 2 log(2) n, whose product with n's factor is exact, and a rest, so that the
// square's rounding, which the exponential would make larger, is none. Polynomials were fitted for the rest, and for |x| up to 14.
struct Normal {
    float bell, below;  // exp(-x^2 / 2), and the part below x

    __device__ explicit Normal(float x) {
        constexpr float WHOLE = 12582912.0f;  // in a sum with it, the low bits are an integer
        const float size = fminf(fabsf(x), 16.0f);
        const float shifted = fmaf(size * size, -0.5f * TO_TWO, WHOLE), n = shifted - WHOLE;
        const float rest = fmaf(n, 2.85721364e-6f, fmaf(size, size, n * 1.38629150f));
        float power = 2.15918717e-5f;
        power = fmaf(power, rest, -0.000261521229f);
        power = fmaf(power, rest, 0.00260426803f);
        power = fmaf(power, rest, -0.0208331514f);
        power = fmaf(power, rest, 0.124999985f);
        power = fmaf(power, rest, -0.5f);
        power = fmaf(power, rest, 1.0f);
        // 0 where the exponent would be under the least.
        bell = __int_as_float(max(__float_as_int(power) + (__float_as_int(shifted) << 23), 0));
        float numerator = 0.00407925108f, denominator = 0.0102250380f;
        numerator = fmaf(numerator, size, 0.0403831154f);
        denominator = fmaf(denominator, size, 0.101232253f);
        numerator = fmaf(numerator, size, 0.182492375f);
        denominator = fmaf(denominator, size, 0.467509955f);
        numerator = fmaf(numerator, size, 0.437290847f);
        denominator = fmaf(denominator, size, 1.19941556f);
        numerator = fmaf(numerator, size, 0.5f);
        denominator = fmaf(denominator, size, 1.67246664f);
        const float tail = __fdividef(bell * numerator, fmaf(denominator, size, 1.0f));
        below = x > 0.0f ? 1.0f - tail : tail;
    }
};

// For results of half precision, of which this is less work: relative errors of 2^-16.
struct QuickNormal {
    float bell, below;

    __device__ explicit QuickNormal(float x) {
        bell = power_of_two(x * x * (-0.5f * TO_TWO));
        const float t = __fdividef(1.0f, fmaf(0.3f, fabsf(x), 1.0f));
        float tail = -0.0767005980f;
        tail = fmaf(tail, t, 0.214848995f);
        tail = fmaf(tail, t, -0.0155976024f);
        tail = fmaf(tail, t, 0.143473402f);
        tail = fmaf(tail, t, 0.113922819f);
        tail = fmaf(tail, t, 0.120057419f);
        tail *= bell * t;
        below = x > 0.0f ? 1.0f - tail : tail;
    }
};

template <int size>
struct NormalFor {
    typedef Normal Type;
};
template <>
struct NormalFor<2> {
    typedef QuickNormal Type;
};

// For results of type Result.
template <class Result, class T>
__device__ inline T gelu(T x) {
    if constexpr (sizeof(T) == 4) return x * typename NormalFor<sizeof(Result)>::Type(x).below;
    return x * normal_distribution(x);
}
template <class Result, class T>
__device__ inline T gelu_slope(T x) {
    if constexpr (sizeof(T) == 4) {
        const typename NormalFor<sizeof(Result)>::Type normal(x);
        return fmaf(x, 0.39894228f * normal.bell, normal.below);
    }
    return normal_distribution(x) + x * normal_density(x);
}
template <class T>
__device__ inline T gelu_curvature(T x) { return normal_density(x) * (2 - x * x); }

// The same approximated: x * (1 + tanh(u)) / 2, where u = c * (x + 0.044715 * x^3). That is x * logistic(2 * u),
// which does not cancel for negative x.
template <class T>
__device__ inline T gelu_tanh_factor(T x) {
    return logistic(T(2 * 0.79788456080286536) * (x + T(0.044715) * x * x * x));
}
// Derivative of 2 * u.
template <class T>
__device__ inline T gelu_tanh_inner(T x) { return T(2 * 0.79788456080286536) * (1 + T(0.134145) * x * x); }
template <class T>
__device__ inline T gelu_tanh_slope(T x) {
    const T s = gelu_tanh_factor(x);
    return s + x * s * (1 - s) * gelu_tanh_inner(x);
}
template <class T>
__device__ inline T gelu_tanh_curvature(T x) {
    const T s = gelu_tanh_factor(x), v = gelu_tanh_inner(x);
    return s * (1 - s) * (2 * v + x * ((1 - 2 * s) * v * v + T(4 * 0.79788456080286536 * 0.134145) * x));
}
