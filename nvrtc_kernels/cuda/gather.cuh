// Reading what index tensors choose: out[position] = in[lookup(indices at position)].
//
// Elements are moved as words of their size, so that all types of a size share a kernel. Where neighbours in
// memory stay neighbours (rows of an embedding), words are up to 16 bytes wide and an index is read once for
// each of them. A thread has `Unroll` words in flight; neighbouring threads write neighbouring words.

#pragma once
#include "indexing.cuh"

template <class Bounds, int Unroll, int Rank, class Lookup, class Index, class Word, class I>
__device__ inline void gather_words(
    const Geometry<Rank, 2 + Lookup::count, Index>& walk, const Lookup& lookup, Index count, Word* out, const Word* in,
    const I* const (&index)[Lookup::count]) {
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
#pragma unroll 1
    for (Index first = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; first < count; first += step * Unroll) {
        const Chosen<Bounds, Unroll, Index> chosen(walk, lookup, count, first, step, index);
        Word word[Unroll];
#pragma unroll
        for (int u = 0; u < Unroll; ++u) {
            if (u < chosen.many) word[u] = in[chosen.indexed[u]];
        }
#pragma unroll
        for (int u = 0; u < Unroll; ++u) {
            if (u < chosen.many) out[chosen.plain[u]] = word[u];
        }
    }
}
