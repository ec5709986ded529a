// Division with rounding, remainders and signs, for integers and floating point, as PyTorch defines them.
//
// An integer divided by zero gives zero (PyTorch leaves it open on CUDA); only the smallest integer by -1
// does not fit, and wraps. Floating point follows the quotient that is exact after the remainder has been
// taken away, so that floor_quotient(a, b) * b + floor_modulus(a, b) is a.

#pragma once

template <class T> struct IsFloat { static const bool value = false; };
template <> struct IsFloat<float> { static const bool value = true; };
template <> struct IsFloat<double> { static const bool value = true; };

template <bool Float>
struct Division {
    template <class T>
    static __device__ bool is_minus_one(T b) { return T(-1) < T(0) && b == T(-1); }
    template <class T>
    static __device__ T truncated(T a, T b) { return b == 0 ? T(0) : is_minus_one(b) ? T(0 - a) : T(a / b); }
    template <class T>
    static __device__ T rest(T a, T b) { return b == 0 || is_minus_one(b) ? T(0) : T(a % b); }
    template <class T>
    static __device__ T floored(T a, T b) {
        const T quotient = truncated(a, b), left = rest(a, b);
        return left != 0 && (left < 0) != (b < 0) ? T(quotient - 1) : quotient;
    }
};

template <>
struct Division<true> {
    template <class T>
    static __device__ T truncated(T a, T b) { return trunc(a / b); }
    template <class T>
    static __device__ T rest(T a, T b) { return fmod(a, b); }
    template <class T>
    static __device__ T floored(T a, T b) {
        if (b == 0) return a / b;
        const T left = fmod(a, b);
        T quotient = (a - left) / b;
        if (left != 0 && (left < 0) != (b < 0)) quotient -= T(1);
        if (quotient == 0) return copysign(T(0), a / b);
        const T whole = floor(quotient);
        return quotient - whole > T(0.5) ? whole + T(1) : whole;
    }
};

template <class T>
__device__ inline T floor_quotient(T a, T b) { return Division<IsFloat<T>::value>::floored(a, b); }
template <class T>
__device__ inline T trunc_quotient(T a, T b) { return Division<IsFloat<T>::value>::truncated(a, b); }
template <class T>
__device__ inline T trunc_modulus(T a, T b) { return Division<IsFloat<T>::value>::rest(a, b); }
template <class T>
__device__ inline T floor_modulus(T a, T b) {
    const T left = trunc_modulus(a, b);
    return left != 0 && (left < 0) != (b < 0) ? T(left + b) : left;
}

// The whole power of an integer; a negative exponent gives the reciprocal without its fraction.
template <class T>
__device__ inline T integer_power(T a, T b) {
    if (b < 0) return a == T(1) ? T(1) : a == T(-1) ? T(b & 1 ? -1 : 1) : T(0);
    T result = 1;
    for (; b; b >>= 1, a *= a) {
        if (b & 1) result *= a;
    }
    return result;
}

// The larger and the smaller of two; NaN where one of them is.
template <class T>
__device__ inline T larger(T a, T b) { return a != a || a > b ? a : b; }
template <class T>
__device__ inline T smaller(T a, T b) { return a != a || a < b ? a : b; }

// Where the fraction w of the way from a to b is, exact at both ends.
template <class T>
__device__ inline T between(T a, T b, T w) { return fabs(w) < T(0.5) ? a + w * (b - a) : b - (b - a) * (T(1) - w); }

// The greatest common divisor by Euclid's algorithm, and the least common multiple. Of the most negative number
// the size does not fit, and wraps.
template <class T>
__device__ inline T greatest_divisor(T a, T b) {
    while (b != 0) {
        const T left = Division<false>::rest(a, b);
        a = b;
        b = left;
    }
    return a < 0 ? T(0 - a) : a;
}
template <class T>
__device__ inline T least_multiple(T a, T b) {
    if (a == 0 || b == 0) return 0;
    const T first = a < 0 ? T(0 - a) : a, second = b < 0 ? T(0 - b) : b;
    return T(Division<false>::truncated(first, greatest_divisor(a, b)) * second);
}

// The parts of a number: fraction(a) in [1/2, 1) times 2^exponent(a), whose exponent is 0 where a is not finite.
template <class T>
__device__ inline T fraction(T a) {
    int exponent;
    return isfinite(a) ? frexp(a, &exponent) : a;
}
template <class T>
__device__ inline int exponent(T a) {
    int exponent = 0;
    if (isfinite(a)) frexp(a, &exponent);
    return exponent;
}
