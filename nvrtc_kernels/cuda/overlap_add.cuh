// Windows of signals added up where they overlap: out[s][t] = sum over windows w of frames[s][w][t - w * step].
//
// frames are (signals, windows, size), of which each window is contiguous; out is (signals, extent). A thread has an
// element of the result and adds up the at most size / step + 1 windows that reach it, in their order: nothing is added
// atomically, and neighbouring threads read neighbouring elements of the same windows.

#pragma once
#include "reducers.cuh"

template <class Sum, class Index, class T>
__device__ void overlap_add(
    Index signals, Index windows, Index size, Index step, Index extent, Index signal_step, Index window_step,
    const T* frames, T* out) {
    const Index threads = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < signals * extent; i += threads) {
        const Index signal = i / extent, at = i % extent;
        const Index first = at < size ? 0 : (at - size) / step + 1;
        const Index beyond = at / step + 1 < windows ? at / step + 1 : windows;
        const T* own = frames + signal * signal_step + at;
        Sum sum{};
        for (Index w = first; w < beyond; ++w) sum = plus(sum, Sum(to_compute(own[w * (window_step - step)])));
        out[i] = to_element<T>(sum);
    }
}
