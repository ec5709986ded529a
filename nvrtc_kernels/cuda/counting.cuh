// How many elements fall in each bin, or the sum of their weights.
//
//   count_in_shared   few bins: every block counts in shared memory and adds its counts to the output at the
//                     end, so that blocks meet only once for each bin. Counts lie there in several copies, which
//                     neighbouring threads take turns in, so that many equal elements do not wait for each other
//   count_in_global   many bins: every element is added to the output, where two seldom meet
//   weigh             sums of weights: floating point additions in the order in which threads happen to come,
//                     so the last bits differ from run to run
//
// A functor tells the bin of an element, or what it is given for elements that are in none.

#pragma once
#include "scan.cuh"
#include "shared_counters.cuh"

// The element's value is its bin.
struct ValueBin {
    long long bins;
    template <class X>
    __device__ long long operator()(X x, long long = -1) const {
        const long long bin = static_cast<long long>(x);
        assert(0 <= bin && bin < bins);
        return bin;
    }
};

// The same, with all other values in the last bin.
struct OpenBin {
    long long bins;
    template <class X>
    __device__ long long operator()(X x, long long = -1) const {
        const long long bin = static_cast<long long>(x);
        return 0 <= bin && bin < bins ? bin : bins - 1;
    }
};

// Bins of equal width from low to high, both included; NaN is in none. They are numbered by Number.
template <class T, class Number, bool QUICK = false>
struct RangeBin {
    Number bins;
    T low, high, width, inverse;
    __device__ RangeBin(Number bins, T low, T high) : bins(bins), low(low), high(high), width(high - low), inverse(1 / width) {}
    // x / width. The quotient that is improved once by what remains is the one that division rounds to, where the inverse is
    // rounded to nearest and the mantissa is not all ones (P. Markstein, "Computation of elementary functions on the IBM RISC
    // System/6000 processor", 1990).
    __device__ T quotient(T x) const {
        if constexpr (QUICK) {
            const T first = x * inverse;
            return fmaf(fmaf(-first, width, x), inverse, first);
        }
        return x / width;
    }
    template <class X>
    __device__ Number operator()(X x, Number outside) const {
        const T value = static_cast<T>(x);
        const Number bin = static_cast<Number>(quotient((value - low) * static_cast<T>(bins)));
        return value >= low && value <= high ? min(bin, bins - 1) : outside;
    }
};

// visit(bin_of) with the functor that is the quickest: one branch for all elements.
template <class Bin, class Visit>
__device__ inline void with_quickest(const Bin& bin_of, Visit visit) {
    visit(bin_of);
}
template <class Visit>
__device__ inline void with_quickest(const RangeBin<float, int>& bin_of, Visit visit) {
    const unsigned bits = __float_as_uint(bin_of.width), exponent = bits >> 23;
    if (exponent >= 32 && exponent < 224 && (bits & 0x7fffff) != 0x7fffff) {
        visit(RangeBin<float, int, true>(bin_of.bins, bin_of.low, bin_of.high));
    } else {
        visit(bin_of);
    }
}

template <class T>
__device__ inline void clear_bins(long long bins, T* out) {
    const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
    for (long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; at < bins; at += step) out[at] = 0;
}

// take(x) for the elements of a thread, in a type to compute with; it loads 16 bytes at once where they lie so.
template <int Rank, class Index, class In, class Take>
__device__ inline void count_all(const Geometry<Rank, 1, Index>& geometry, Index count, const In* in, Take take) {
    constexpr int width = 16 / sizeof(In);
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x, thread = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
    Index packed = 0;
    if constexpr (Rank == 1) {
        if (geometry.stride[0][0] == 1 && reinterpret_cast<unsigned long long>(in) % sizeof(Pack<In, width>) == 0) {
            const Index packs = count / width;
            packed = packs * width;
#pragma unroll 2
            for (Index at = thread; at < packs; at += step) {
                const Pack<In, width> pack = reinterpret_cast<const Pack<In, width>*>(in)[at];
                decltype(to_compute(In())) values[width];
                to_compute<width>(pack.item, values);
#pragma unroll
                for (int i = 0; i < width; ++i) take(values[i]);
            }
        }
    }
#pragma unroll 4
    for (Index at = packed + thread; at < count; at += step) take(to_compute(in[element_offset(geometry, at)]));
}

template <int Rank, class Index, class Bin, class In>
__device__ inline void count_in_shared(
    const Geometry<Rank, 1, Index>& geometry, Index count, const Bin& bin_of, const In* in, unsigned long long* out,
    int copies) {
    extern __shared__ unsigned seen[];
    const int bins = static_cast<int>(bin_of.bins), copy = threadIdx.x & (copies - 1);
    for (int at = threadIdx.x; at < (bins + 1) * copies; at += blockDim.x) seen[at] = 0;
    __syncthreads();
    const unsigned own = static_cast<unsigned>(__cvta_generic_to_shared(seen + copy));
    const int stride = copies * static_cast<int>(sizeof(unsigned));
    with_quickest(bin_of, [&](const auto& quickest) {
        count_all(geometry, count, in, [&](auto x) {
            // Elements that are in no bin count in one more, whose counts nobody reads: that takes no branch.
            const int bin = static_cast<int>(quickest(x, bins));
            count_in_shared_at(own + bin * stride);
        });
    });
    __syncthreads();
    for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) {
        unsigned long long sum = 0;
        // From another copy in each thread, as those of one lie in few banks.
        for (int i = 0; i < copies; ++i) sum += seen[bin * copies + ((i + copy) & (copies - 1))];
        if (sum) atomicAdd(out + bin, sum);
    }
}

template <int Rank, class Index, class Bin, class In>
__device__ inline void count_in_global(
    const Geometry<Rank, 1, Index>& geometry, Index count, const Bin& bin_of, const In* in, unsigned long long* out) {
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index at = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += step) {
        const long long bin = bin_of(to_compute(in[element_offset(geometry, at)]), -1);
        if (bin >= 0) atomicAdd(out + bin, 1ull);
    }
}

template <int Rank, class Index, class In, class Out>
__device__ inline void weigh(
    const Geometry<Rank, 2, Index>& geometry, Index count, const ValueBin& bin_of, const In* in, const Out* weights,
    Out* out) {
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index at = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += step) {
        Index offset[2] = {}, rest = at;
#pragma unroll
        for (int d = Rank - 1; d >= 0; --d) {
            const Index outer = d ? rest / geometry.size[d] : 0, coordinate = rest - outer * geometry.size[d];
            offset[0] += coordinate * geometry.stride[0][d];
            offset[1] += coordinate * geometry.stride[1][d];
            rest = outer;
        }
        atomicAdd(out + bin_of(in[offset[0]]), weights[offset[1]]);
    }
}
