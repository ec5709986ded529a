// Elements in another order (flip, roll), and the part of matrices on one side of a diagonal (tril, triu).
//
//   move_words  a thread works out where an element of the output comes from. Along a flipped dimension the
//               source runs backward; along a rolled one it jumps back by the dimension's size from position `turn`
//               on. So both are steps and a jump, in any number of dimensions at once, and neighbouring
//               dimensions that are walked as one are merged before.
//   keep_band   the strides of an invisible operand give each element its height over the main diagonal:
//               1 for a step down and -1 for one to the right (triu the other way round), 0 between matrices.
//               Elements below the bound become zero, and words that are all zero are not read at all.
//
// Elements are moved as words of their size, so that all types of a size share a kernel. Where neighbours in
// memory stay neighbours, be it in reverse, words hold several of them, up to 16 bytes. A thread has `Unroll`
// words in flight; neighbouring threads write neighbouring words. 32-bit offsets are unsigned and wrap around,
// so that negative steps need no wider type.

#pragma once
#include "indexing.cuh"

template <int Rank, class Index>
struct Moves {
    typedef Index Number;
    Index start;  // where the output's first element comes from, apart from jumps
    Index size[Rank], to[Rank], from[Rank], turn[Rank], jump[Rank];

    __device__ void locate(Index at, Index& target, Index& source) const {
        target = 0;
        source = start;
#pragma unroll
        for (int d = Rank - 1; d >= 0; --d) {
            const Index outer = d ? at / size[d] : 0;
            const Index coordinate = at - outer * size[d];
            target += coordinate * to[d];
            source += coordinate * from[d] + (coordinate >= turn[d] ? jump[d] : 0);
            at = outer;
        }
    }
};

struct Forward {
    template <class Word>
    static __device__ const Word& word(const Word& given) { return given; }
};

struct Backward {
    template <class T, int Width>
    static __device__ Pack<T, Width> word(const Pack<T, Width>& given) {
        Pack<T, Width> result;
#pragma unroll
        for (int i = 0; i < Width; ++i) result.item[i] = given.item[Width - 1 - i];
        return result;
    }
};

template <class Direction, int Unroll, int Rank, class Index, class Word>
__device__ inline void move_words(const Moves<Rank, Index>& moves, Index count, Word* out, const Word* in) {
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
#pragma unroll 1
    for (Index first = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; first < count; first += step * Unroll) {
        Index target[Unroll];
        Word word[Unroll];
#pragma unroll
        for (int u = 0; u < Unroll; ++u) {
            Index source;
            moves.locate(first + u * step, target[u], source);
            if (first + u * step < count) word[u] = in[source];
        }
#pragma unroll
        for (int u = 0; u < Unroll; ++u) {
            if (first + u * step < count) out[target[u]] = Direction::word(word[u]);
        }
    }
}

template <class Index>
struct Signed {
    typedef int Number;
};
template <>
struct Signed<long long> {
    typedef long long Number;
};

// Operands of the walk: output, input, height. `Slope` is the difference of the heights of neighbours in a word.
template <int Slope, int Unroll, int Rank, class Index, class T, int Width>
__device__ inline void keep_band(
    const Geometry<Rank, 3, Index>& walk, typename Signed<Index>::Number bound, Index count, Pack<T, Width>* out,
    const Pack<T, Width>* in) {
    typedef typename Signed<Index>::Number Height;
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
#pragma unroll 1
    for (Index first = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; first < count; first += step * Unroll) {
        Index target[Unroll];
        Height height[Unroll];
        Pack<T, Width> word[Unroll];
#pragma unroll
        for (int u = 0; u < Unroll; ++u) {
            Index offset[3];
            offsets_of(walk, first + u * step, offset);
            target[u] = offset[0];
            height[u] = static_cast<Height>(offset[2]);
            const Height top = height[u] + (Slope > 0 ? Width - 1 : 0);
            word[u] = Pack<T, Width>();
            if (first + u * step < count && top >= bound) word[u] = in[offset[1]];
        }
#pragma unroll
        for (int u = 0; u < Unroll; ++u) {
#pragma unroll
            for (int i = 0; i < Width; ++i) {
                if (height[u] + i * Slope < bound) word[u].item[i] = T();
            }
            if (first + u * step < count) out[target[u]] = word[u];
        }
    }
}
