// Arithmetic and elementary functions of Complex<float> and Complex<double>.
//
// Results are those of NumPy to a few units in the last place of the larger part, without overflow where the
// result has none. Branch cuts and signs of zeros are those of C99: the formulas with products of square
// roots are W. Kahan's ("Branch cuts for complex elementary functions", 1987), division is R. L. Smith's.

#pragma once
#include "elements.cuh"

template <class T> struct Real { typedef T type; };  // a type that is not deduced: 2 * z works

template <class T>
__device__ inline Complex<T> operator+(Complex<T> a, Complex<T> b) { return {a.re + b.re, a.im + b.im}; }
template <class T>
__device__ inline Complex<T> operator-(Complex<T> a, Complex<T> b) { return {a.re - b.re, a.im - b.im}; }
template <class T>
__device__ inline Complex<T> operator-(Complex<T> a) { return {-a.re, -a.im}; }
template <class T>
__device__ inline Complex<T> operator*(Complex<T> a, Complex<T> b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class T>
__device__ inline Complex<T> operator*(typename Real<T>::type a, Complex<T> b) { return {a * b.re, a * b.im}; }
template <class T>
__device__ inline Complex<T> operator/(Complex<T> a, typename Real<T>::type b) { return {a.re / b, a.im / b}; }
template <class T>
__device__ inline Complex<T> operator/(Complex<T> a, Complex<T> b) {
    if (fabs(b.re) >= fabs(b.im)) {
        if (b.re == 0 && b.im == 0) return {a.re / fabs(b.re), a.im / fabs(b.re)};
        const T ratio = b.im / b.re, scale = T(1) / (b.re + b.im * ratio);
        return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
    }
    const T ratio = b.re / b.im, scale = T(1) / (b.im + b.re * ratio);
    return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
}
template <class T>
__device__ inline bool operator==(Complex<T> a, Complex<T> b) { return a.re == b.re && a.im == b.im; }
template <class T>
__device__ inline bool operator!=(Complex<T> a, Complex<T> b) { return !(a == b); }

template <class T>
__device__ inline Complex<T> conj(Complex<T> a) { return {a.re, -a.im}; }
template <class T>
__device__ inline bool isnan(Complex<T> a) { return isnan(a.re) || isnan(a.im); }
template <class T>
__device__ inline T abs(Complex<T> a) { return hypot(a.re, a.im); }
template <class T>
__device__ inline T arg(Complex<T> a) { return atan2(a.im, a.re); }
template <class T>
__device__ inline Complex<T> times_i(Complex<T> a) { return {-a.im, a.re}; }
template <class T>
__device__ inline Complex<T> by_i(Complex<T> a) { return {a.im, -a.re}; }
template <class T>
__device__ inline Complex<T> reciprocal(Complex<T> a) { return Complex<T>{T(1), T(0)} / a; }
template <class T>
__device__ inline Complex<T> polar(T length, T angle) { return {length * cos(angle), length * sin(angle)}; }

// a / |a|, and 0 for 0.
template <class T>
__device__ inline Complex<T> sgn(Complex<T> a) {
    const T length = abs(a);
    return length == 0 ? Complex<T>{T(0), T(0)} : a / length;
}

template <class T>
__device__ inline Complex<T> exp(Complex<T> a) {
    const T length = exp(a.re);
    if (a.im == 0) return {length, a.im};
    if (length == 0 && !isfinite(a.im)) return {T(0), T(0)};
    if (isinf(length) && isfinite(a.re)) {  // the result may be finite: twice the root
        const T root = exp(a.re / 2);
        return {root * cos(a.im) * root, root * sin(a.im) * root};
    }
    return {length * cos(a.im), length * sin(a.im)};
}

template <class T>
__device__ inline Complex<T> log(Complex<T> a) {
    const T length = abs(a);
    T real = log(length);
    if (length > T(0.5) && length < T(2)) {  // near 1 the square of the length is exact where it matters
        const T large = fmax(fabs(a.re), fabs(a.im)), small = fmin(fabs(a.re), fabs(a.im));
        real = log1p((large - 1) * (large + 1) + small * small) / 2;
    }
    return {real, arg(a)};
}
template <class T>
__device__ inline Complex<T> log_to_base(Complex<T> a, T of_base) {
    const Complex<T> natural = log(a);
    return {natural.re / of_base, natural.im / of_base};
}
template <class T>
__device__ inline Complex<T> log2(Complex<T> a) { return log_to_base(a, T(0.6931471805599453)); }
template <class T>
__device__ inline Complex<T> log10(Complex<T> a) { return log_to_base(a, T(2.302585092994046)); }
template <class T>
__device__ inline Complex<T> log1p(Complex<T> a) {
    const T large = fmax(fabs(a.re), fabs(a.im));
    if (large > T(0.5)) return log(Complex<T>{a.re + 1, a.im});
    return {log1p(a.re * (a.re + 2) + a.im * a.im) / 2, atan2(a.im, a.re + 1)};
}
template <class T>
__device__ inline Complex<T> expm1(Complex<T> a) {
    const T half = sin(a.im / 2), grown = expm1(a.re);
    return {grown * cos(a.im) - 2 * half * half, (grown + 1) * sin(a.im)};
}
template <class T>
__device__ inline Complex<T> exp2(Complex<T> a) {
    return exp(Complex<T>{a.re * T(0.6931471805599453), a.im * T(0.6931471805599453)});
}

template <class T>
__device__ inline Complex<T> sqrt(Complex<T> a) {
    if (a.re == 0 && a.im == 0) return {T(0), a.im};
    if (isinf(a.im)) return {fabs(a.im), a.im};
    if (isinf(a.re)) {
        const T other = isnan(a.im) ? a.im : T(0);
        return a.re > 0 ? Complex<T>{a.re, isnan(a.im) ? a.im : copysign(T(0), a.im)}
                        : Complex<T>{other, isnan(a.im) ? a.re : copysign(a.re, a.im)};
    }
    // A quarter, so that the length does not overflow; four times the parts where they are tiny.
    const bool tiny = fmax(fabs(a.re), fabs(a.im)) < T(1e-30);
    const T scale = tiny ? T(1ll << 40) : T(0.25), back = tiny ? T(1.0 / (1 << 20)) : T(2);
    const T re = a.re * scale, im = a.im * scale;
    const T larger = sqrt((fabs(re) + hypot(re, im)) / 2) * back;
    const T other = fabs(a.im) / (2 * larger);
    return a.re >= 0 ? Complex<T>{larger, copysign(other, a.im)} : Complex<T>{other, copysign(larger, a.im)};
}
template <class T>
__device__ inline Complex<T> rsqrt(Complex<T> a) { return reciprocal(sqrt(a)); }

template <class T>
__device__ inline Complex<T> pow(Complex<T> a, Complex<T> b) {
    if (b.re == 0 && b.im == 0) return {T(1), T(0)};
    if (a.re == 0 && a.im == 0) {
        // |0^b| = 0^Re(b); the angle is that of no direction.
        if (b.re > 0) return {T(0), T(0)};
        if (b.re < 0) return {T(1) / T(0), T(nan(""))};
        return {T(nan("")), T(nan(""))};
    }
    if (b.im == 0 && b.re == T(int(b.re)) && fabs(b.re) <= 100) {  // exact where the powers are
        Complex<T> result = {T(1), T(0)}, square = a;
        for (int left = int(fabs(b.re)); left; left >>= 1) {
            if (left & 1) result = result * square;
            square = square * square;
        }
        return b.re < 0 ? reciprocal(result) : result;
    }
    return exp(b * log(a));
}

template <class T>
__device__ inline Complex<T> sinh(Complex<T> a) {
    if (a.im == 0) return {sinh(a.re), a.im};
    return {sinh(a.re) * cos(a.im), cosh(a.re) * sin(a.im)};
}
template <class T>
__device__ inline Complex<T> cosh(Complex<T> a) {
    if (a.im == 0) return {cosh(a.re), a.re * a.im};
    return {cosh(a.re) * cos(a.im), sinh(a.re) * sin(a.im)};
}
template <class T>
__device__ inline Complex<T> tanh(Complex<T> a) {
    if (fabs(a.re) > T(22)) {
        const T small = exp(-2 * fabs(a.re));
        return {copysign(T(1), a.re), isfinite(a.im) ? 4 * sin(a.im) * cos(a.im) * small : copysign(T(0), a.im)};
    }
    const T slope = tan(a.im), beta = 1 + slope * slope, s = sinh(a.re), rho = sqrt(1 + s * s);
    if (isinf(slope)) return {rho / s, 1 / slope};
    const T divisor = 1 + beta * s * s;
    return {beta * rho * s / divisor, slope / divisor};
}
template <class T>
__device__ inline Complex<T> sin(Complex<T> a) { return by_i(sinh(times_i(a))); }
template <class T>
__device__ inline Complex<T> cos(Complex<T> a) { return cosh(times_i(a)); }
template <class T>
__device__ inline Complex<T> tan(Complex<T> a) { return by_i(tanh(times_i(a))); }

template <class T>
__device__ inline Complex<T> asin(Complex<T> a) {
    const Complex<T> below = sqrt(Complex<T>{1 - a.re, -a.im}), above = sqrt(Complex<T>{1 + a.re, a.im});
    return {atan2(a.re, below.re * above.re - below.im * above.im),
            asinh(below.re * above.im - below.im * above.re)};
}
template <class T>
__device__ inline Complex<T> acos(Complex<T> a) {
    const Complex<T> below = sqrt(Complex<T>{1 - a.re, -a.im}), above = sqrt(Complex<T>{1 + a.re, a.im});
    return {2 * atan2(below.re, above.re), asinh(above.re * below.im - above.im * below.re)};
}
template <class T>
__device__ inline Complex<T> acosh(Complex<T> a) {
    const Complex<T> below = sqrt(Complex<T>{a.re - 1, a.im}), above = sqrt(Complex<T>{a.re + 1, a.im});
    return {asinh(below.re * above.re + below.im * above.im), 2 * atan2(below.im, above.re)};
}
template <class T>
__device__ inline Complex<T> atanh(Complex<T> a) {
    if (fmax(fabs(a.re), fabs(a.im)) > T(1e9)) {  // 1 / a and a right angle; squares would overflow
        const Complex<T> far = reciprocal(a);
        return {far.re, copysign(T(1.5707963267948966), a.im)};
    }
    const T size = fabs(a.re), distance = (1 - size) * (1 - size) + a.im * a.im;
    const T across = (1 - a.re) * (1 + a.re) - a.im * a.im;
    return {copysign(log1p(4 * size / distance) / 4, a.re), atan2(2 * a.im, across) / 2};
}
template <class T>
__device__ inline Complex<T> asinh(Complex<T> a) { return by_i(asin(times_i(a))); }
template <class T>
__device__ inline Complex<T> atan(Complex<T> a) { return by_i(atanh(times_i(a))); }
