// Element types and conversions between them.
//
// `to_compute(x)` is the value in a type that C++ arithmetic works on: half precision becomes float, everything
// else stays. `to_element<T>(x)` converts such a value, or an element, to the element type T as PyTorch converts it:
//   - to bool: whether it is not zero (NaN is true);
//   - from floating point to an integer: towards zero, through long long for types narrower than 32 bits and
//     unsigned ones, so that -1.0 becomes 255 as uint8;
//   - from complex to real: the real part; from real to complex: the imaginary part is zero.
// half_elements.cuh has the types of half precision, float8_elements.cuh those of 8 bits.

#pragma once

template <class T>
struct alignas(2 * sizeof(T)) Complex {
    T re, im;
};
typedef Complex<float> complex64;
typedef Complex<double> complex128;

template <class T>
__device__ inline T to_compute(T x) { return x; }

// The same of N neighbouring elements, the first of which is aligned as a pack of them is.
template <int N, class T, class W>
__device__ inline void to_compute(const T* x, W* values) {
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = to_compute(x[i]);
}

template <class T>
struct ToElement {
    template <class W>
    static __device__ T from(W x) { return static_cast<T>(x); }
    template <class W>
    static __device__ T from(Complex<W> x) { return from(x.re); }
};

template <>
struct ToElement<bool> {
    template <class W>
    static __device__ bool from(W x) { return x != W(0); }
    template <class W>
    static __device__ bool from(Complex<W> x) { return x.re != W(0) || x.im != W(0); }
};

template <class T>
struct ToSmallInteger {
    template <class W>
    static __device__ T from(W x) { return static_cast<T>(static_cast<long long>(x)); }
    template <class W>
    static __device__ T from(Complex<W> x) { return from(x.re); }
};
template <> struct ToElement<unsigned char> : ToSmallInteger<unsigned char> {};
template <> struct ToElement<signed char> : ToSmallInteger<signed char> {};
template <> struct ToElement<short> : ToSmallInteger<short> {};
template <> struct ToElement<unsigned short> : ToSmallInteger<unsigned short> {};
template <> struct ToElement<unsigned int> : ToSmallInteger<unsigned int> {};

template <>
struct ToElement<unsigned long long> {
    typedef unsigned long long Word;
    template <class W>
    static __device__ Word from(W x) { return static_cast<Word>(x); }
    static __device__ Word from(double x) { return x < 0 ? static_cast<Word>(static_cast<long long>(x)) : static_cast<Word>(x); }
    static __device__ Word from(float x) { return x < 0 ? static_cast<Word>(static_cast<long long>(x)) : static_cast<Word>(x); }
    template <class W>
    static __device__ Word from(Complex<W> x) { return from(x.re); }
};

template <class T>
struct ToElement<Complex<T>> {
    template <class W>
    static __device__ Complex<T> from(W x) { return {static_cast<T>(x), T(0)}; }
    template <class W>
    static __device__ Complex<T> from(Complex<W> x) { return {static_cast<T>(x.re), static_cast<T>(x.im)}; }
};

#include "float8_elements.cuh"
#include "half_elements.cuh"

template <class T, class W>
__device__ inline T to_element(W x) { return ToElement<T>::from(to_compute(x)); }
