// Element types and conversions between them.
//
// `wide(x)` is the value in a type that C++ arithmetic works on: half precision becomes float, everything
// else stays. `narrow<T>(x)` converts such a value to the element type T as PyTorch converts it:
//   - to bool: whether it is not zero (NaN is true);
//   - from floating point to an integer: towards zero, through long long for types narrower than 32 bits,
//     so that -1.0 becomes 255 as uint8;
//   - from complex to real: the real part; from real to complex: the imaginary part is zero.
// half_elements.cuh adds the half precision types, whose headers take as long to compile as a small kernel.

#pragma once

template <class T>
struct alignas(2 * sizeof(T)) Complex {
    T re, im;
};
typedef Complex<float> complex64;
typedef Complex<double> complex128;

template <class T>
__device__ inline T wide(T x) { return x; }

template <class T>
struct Narrow {
    template <class W>
    static __device__ T from(W x) { return static_cast<T>(x); }
    template <class W>
    static __device__ T from(Complex<W> x) { return from(x.re); }
};

template <>
struct Narrow<bool> {
    template <class W>
    static __device__ bool from(W x) { return x != W(0); }
    template <class W>
    static __device__ bool from(Complex<W> x) { return x.re != W(0) || x.im != W(0); }
};

template <class T>
struct NarrowSmall {
    template <class W>
    static __device__ T from(W x) { return static_cast<T>(static_cast<long long>(x)); }
    template <class W>
    static __device__ T from(Complex<W> x) { return from(x.re); }
};
template <> struct Narrow<unsigned char> : NarrowSmall<unsigned char> {};
template <> struct Narrow<signed char> : NarrowSmall<signed char> {};
template <> struct Narrow<short> : NarrowSmall<short> {};

template <class T>
struct Narrow<Complex<T>> {
    template <class W>
    static __device__ Complex<T> from(W x) { return {static_cast<T>(x), T(0)}; }
    template <class W>
    static __device__ Complex<T> from(Complex<W> x) { return {static_cast<T>(x.re), static_cast<T>(x.im)}; }
};

template <class T, class W>
__device__ inline T narrow(W x) { return Narrow<T>::from(x); }
