// Combining values with the elements that index tensors choose, atomically: any number of values may meet at one.
//
// A thread loads several values and updates as many elements. What the device can do to memory in one
// instruction (sums, extremes of wide integers) is done so. The rest is compare and exchange: the new element
// is worked out from the old one and written if the old one is still there. 2-byte elements are exchanged
// alone, never their neighbours. Exchanges that would change nothing are left out, so that most updates of a
// maximum are one load.
//
// Sums and products of floating point numbers depend on the order in which threads come, in the last bits;
// everything else is the same in every run. Extremes see to it by having one zero and one NaN. Half precision
// is rounded at each addition.

#pragma once
#include "indexing.cuh"
#include "reducers.cuh"

// Where values come from.
template <class V>
struct Given {
    const V* values;
    template <class Index>
    __device__ V operator()(Index offset) const { return values[offset]; }
};
struct Ones {
    template <class Index>
    __device__ int operator()(Index) const { return 1; }
};

template <int Bytes> struct Cell;
template <> struct Cell<2> { typedef unsigned short type; };
template <> struct Cell<4> { typedef unsigned int type; };
template <> struct Cell<8> { typedef unsigned long long type; };

template <class To, class From>
__device__ inline To same_bits(From x) {
    static_assert(sizeof(To) == sizeof(From), "the same bits are as many");
    return *reinterpret_cast<To*>(&x);
}

template <class Reducer, class T>
__device__ inline void exchange(T* at, T value) {
    typedef typename Cell<sizeof(T)>::type Bits;
    Bits* cell = reinterpret_cast<Bits*>(at);
    Bits found = *const_cast<volatile Bits*>(cell);
    while (true) {
        typename Reducer::State state = Reducer::start();
        Reducer::take(state, to_compute(same_bits<T>(found)), 0);
        Reducer::take(state, to_compute(value), 0);
        const Bits wanted = same_bits<Bits>(to_element<T>(state));
        if (wanted == found) return;
        const Bits before = atomicCAS(cell, found, wanted);
        if (before == found) return;
        found = before;
    }
}

// Threads that meet write the same.
__device__ inline void set(bool* at, bool value) { *const_cast<volatile bool*>(at) = value; }

template <class T> struct ComputeType { typedef decltype(to_compute(T())) type; };

struct SumAt {
    template <class T>
    static __device__ void update(T* at, T value) { atomicAdd(at, value); }
    static __device__ void update(Half* at, Half value) {
        Half before;
        asm volatile("{atom.add.noftz.f16 %0, [%1], %2;}" : "=h"(before.bits) : "l"(at), "h"(value.bits) : "memory");
    }
    static __device__ void update(BFloat16* at, BFloat16 value) {
#if __CUDA_ARCH__ >= 900
        BFloat16 before;
        asm volatile("{atom.add.noftz.bf16 %0, [%1], %2;}" : "=h"(before.bits) : "l"(at), "h"(value.bits) : "memory");
#else
        BFloat16 found = {*const_cast<volatile unsigned short*>(&at->bits)};
        while (true) {
            const BFloat16 sum = to_element<BFloat16>(to_compute(found) + to_compute(value));
            const unsigned short before = atomicCAS(&at->bits, found.bits, sum.bits);
            if (before == found.bits) return;
            found.bits = before;
        }
#endif
    }
    template <class T>
    static __device__ void update(Complex<T>* at, Complex<T> value) {
        atomicAdd(&at->re, value.re);
        atomicAdd(&at->im, value.im);
    }
    static __device__ void update(bool* at, bool value) { if (value) set(at, true); }
    static __device__ void update(short* at, short value) { exchange<Sum<short, int>>(at, value); }
    static __device__ void update(long long* at, long long value) {
        atomicAdd(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(value));
    }
};

struct ProductAt {
    template <class T>
    static __device__ void update(T* at, T value) { exchange<Product<typename ComputeType<T>::type, int>>(at, value); }
    static __device__ void update(bool* at, bool value) { if (!value) set(at, false); }
};

template <class T>
__device__ inline T one_zero_and_nan(T value) {
    const auto x = to_compute(value);
    return to_element<T>(is_nan(x) ? static_cast<decltype(x + x)>(__int_as_float(0x7fffffff)) : x + static_cast<decltype(x + x)>(0));
}

struct LargestAt {
    template <class T>
    static __device__ void update(T* at, T value) {
        exchange<Largest<typename ComputeType<T>::type, int>>(at, one_zero_and_nan(value));
    }
    static __device__ void update(bool* at, bool value) { if (value) set(at, true); }
    static __device__ void update(short* at, short value) { exchange<Largest<short, int>>(at, value); }
    static __device__ void update(int* at, int value) { atomicMax(at, value); }
    static __device__ void update(long long* at, long long value) { atomicMax(at, value); }
};

struct SmallestAt {
    template <class T>
    static __device__ void update(T* at, T value) {
        exchange<Smallest<typename ComputeType<T>::type, int>>(at, one_zero_and_nan(value));
    }
    static __device__ void update(bool* at, bool value) { if (!value) set(at, false); }
    static __device__ void update(short* at, short value) { exchange<Smallest<short, int>>(at, value); }
    static __device__ void update(int* at, int value) { atomicMin(at, value); }
    static __device__ void update(long long* at, long long value) { atomicMin(at, value); }
};

template <class Way, class Bounds, int Unroll, int Rank, class Lookup, class Index, class Source, class T, class I>
__device__ inline void accumulate(
    const Geometry<Rank, 2 + Lookup::count, Index>& walk, const Lookup& lookup, Index count, T* target,
    const Source& source, const I* const (&index)[Lookup::count]) {
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
#pragma unroll 1
    for (Index first = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; first < count; first += step * Unroll) {
        const Chosen<Bounds, Unroll, Index> chosen(walk, lookup, count, first, step, index);
        T value[Unroll];
#pragma unroll
        for (int u = 0; u < Unroll; ++u) {
            if (u < chosen.many) value[u] = to_element<T>(to_compute(source(chosen.plain[u])));
        }
#pragma unroll
        for (int u = 0; u < Unroll; ++u) {
            if (u < chosen.many) Way::update(target + chosen.indexed[u], value[u]);
        }
    }
}
