// Activation functions with parts in common: value, slope (first derivative) and curvature (second).

#pragma once

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
template <class T>
__device__ inline T gelu_slope(T x) { return normal_distribution(x) + x * normal_density(x); }
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
