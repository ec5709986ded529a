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

// The part beyond |x| is bell * t times a polynomial in t = 1 / (1 + 0.3 |x|), which was fitted for |x| up to 14.5. Everything
// is without a branch, for processors that compute several elements at a time.

// In float32: relative errors of a few 2^-24, as the square's rounding, which exp would make larger, is made up for.
struct Normal {
    float bell, below;  // exp(-x^2 / 2), and the part below x

    __device__ explicit Normal(float x) {
        constexpr float factor = -0.5f * TO_TWO, rest_of_factor = -9.62981495e-9f, LOG_TWO = 0.693147181f;
        const float size = fminf(fabsf(x), 16.0f), square = size * size, power = square * factor;
        float error = fmaf(square, factor, -power);
        error = fmaf(square, rest_of_factor, error);
        error = fmaf(fmaf(size, size, -square), factor, error);
        bell = power_of_two(power);
        bell = fmaf(bell, error * LOG_TWO, bell);
        const float t = __fdividef(1.0f, fmaf(0.3f, size, 1.0f));
        float tail = -0.0206235517f;
        tail = fmaf(tail, t, 0.112436064f);
        tail = fmaf(tail, t, -0.228214651f);
        tail = fmaf(tail, t, 0.191785932f);
        tail = fmaf(tail, t, -0.0794246346f);
        tail = fmaf(tail, t, 0.0961574391f);
        tail = fmaf(tail, t, 0.0783894435f);
        tail = fmaf(tail, t, 0.110235468f);
        tail = fmaf(tail, t, 0.119571812f);
        tail = fmaf(tail, t, 0.119686693f);
        tail *= bell * t;
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
