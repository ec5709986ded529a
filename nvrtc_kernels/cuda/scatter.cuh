// Writing where index tensors say: out[lookup(indices at position)] = in[position], or one number in all positions.
//
// Elements are moved as words of their size, or wider ones where neighbours stay neighbours, as in gather.cuh. Of
// threads that write the same word one wins. That is no race: stores are relaxed, not plain, which costs
// nothing on the device and says that they may meet.

#pragma once
#include "indexing.cuh"

__device__ inline void store_relaxed(unsigned char* at, unsigned char word) {
    asm volatile("st.relaxed.gpu.global.u8 [%0], %1;" ::"l"(__cvta_generic_to_global(at)), "h"(static_cast<unsigned short>(word)));
}
__device__ inline void store_relaxed(unsigned short* at, unsigned short word) {
    asm volatile("st.relaxed.gpu.global.u16 [%0], %1;" ::"l"(__cvta_generic_to_global(at)), "h"(word));
}
__device__ inline void store_relaxed(unsigned int* at, unsigned int word) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(at)), "r"(word));
}
__device__ inline void store_relaxed(unsigned long long* at, unsigned long long word) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(at)), "l"(word));
}
__device__ inline void store_relaxed(Pack<unsigned long long, 2>* at, Pack<unsigned long long, 2> word) {
    asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(at)), "l"(word.item[0]),
                 "l"(word.item[1]));
}

template <class Bounds, int Unroll, int Rank, class Lookup, class Index, class Word, class I>
__device__ inline void scatter_words(
    const Geometry<Rank, 2 + Lookup::count, Index>& walk, const Lookup& lookup, Index count, Word* out, const Word* in,
    const I* const (&index)[Lookup::count]) {
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
#pragma unroll 1
    for (Index first = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; first < count; first += step * Unroll) {
        const Chosen<Bounds, Unroll, Index> chosen(walk, lookup, count, first, step, index);
        Word word[Unroll];
#pragma unroll
        for (int u = 0; u < Unroll; ++u) {
            if (u < chosen.many) word[u] = in[chosen.plain[u]];
        }
#pragma unroll
        for (int u = 0; u < Unroll; ++u) {
            if (u < chosen.many) store_relaxed(out + chosen.indexed[u], word[u]);
        }
    }
}

template <class Bounds, int Unroll, int Rank, class Lookup, class Index, class Word, class I>
__device__ inline void fill_words(
    const Geometry<Rank, 2 + Lookup::count, Index>& walk, const Lookup& lookup, Index count, Word* out, Word word,
    const I* const (&index)[Lookup::count]) {
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
#pragma unroll 1
    for (Index first = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; first < count; first += step * Unroll) {
        const Chosen<Bounds, Unroll, Index> chosen(walk, lookup, count, first, step, index);
#pragma unroll
        for (int u = 0; u < Unroll; ++u) {
            if (u < chosen.many) store_relaxed(out + chosen.indexed[u], word);
        }
    }
}
