// How many elements fall in each bin, or the sum of their weights.
//
//   count_in_shared   few bins: every block counts in shared memory and adds its counts to the output at the
//                     end, so that blocks meet only once for each bin
//   count_in_global   many bins: every element is added to the output, where two seldom meet
//   weigh             sums of weights: floating point additions in the order in which threads happen to come,
//                     so the last bits differ from run to run
//
// A functor tells the bin of an element, or -1.

#pragma once
#include "scan.cuh"

// The element's value is its bin.
struct ValueBin {
    long long bins;
    template <class X>
    __device__ long long operator()(X x) const {
        const long long bin = static_cast<long long>(x);
        assert(0 <= bin && bin < bins);
        return bin;
    }
};

// Bins of equal width from low to high, both included; NaN is in none.
template <class T>
struct RangeBin {
    long long bins;
    T low, high;
    template <class X>
    __device__ long long operator()(X x) const {
        const T value = static_cast<T>(x);
        if (!(value >= low && value <= high)) return -1;
        const long long bin = static_cast<long long>((value - low) * static_cast<T>(bins) / (high - low));
        return bin < bins ? bin : bins - 1;
    }
};

template <class T>
__device__ inline void clear_bins(long long bins, T* out) {
    const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
    for (long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; at < bins; at += step) out[at] = 0;
}

template <int Rank, class Index, class Bin, class In>
__device__ inline void count_in_shared(
    const Geometry<Rank, 1, Index>& geometry, Index count, const Bin& bin_of, const In* in, unsigned long long* out) {
    extern __shared__ unsigned seen[];
    for (int bin = threadIdx.x; bin < bin_of.bins; bin += blockDim.x) seen[bin] = 0;
    __syncthreads();
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
#pragma unroll 4
    for (Index at = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += step) {
        const long long bin = bin_of(to_compute(in[element_offset(geometry, at)]));
        if (bin >= 0) atomicAdd(seen + bin, 1u);
    }
    __syncthreads();
    for (int bin = threadIdx.x; bin < bin_of.bins; bin += blockDim.x) {
        if (seen[bin]) atomicAdd(out + bin, static_cast<unsigned long long>(seen[bin]));
    }
}

template <int Rank, class Index, class Bin, class In>
__device__ inline void count_in_global(
    const Geometry<Rank, 1, Index>& geometry, Index count, const Bin& bin_of, const In* in, unsigned long long* out) {
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index at = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += step) {
        const long long bin = bin_of(to_compute(in[element_offset(geometry, at)]));
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
