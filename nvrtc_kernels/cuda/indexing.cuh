// Where the elements are that index tensors choose.
//
// A kernel of this family walks over the elements that are chosen, in the shape that the result of reading
// them has. For each, `Geometry` gives an offset into every operand: 0 is the plain one (the output of a read,
// the values of a write), 1 is the indexed tensor as far as it is not indexed (stride 0 in the dimensions
// that index tensors stand for), 2 and up are the index tensors. A lookup then adds what the indices say:
//
//   Dimensions  each index tensor indexes a dimension of its own (t[i, :, j], index_select, gather, scatter)
//   Flattened   one index tensor counts elements in row-major order, whatever the strides (take, put)
//
// An index outside the dimension is printed and fails an assertion, in the words of `Bounds`, made for the
// operation.

#pragma once
#include "checked_index.cuh"
#include "pointwise.cuh"

template <int Count, bool Wrap, class Index>
struct Dimensions {
    static constexpr int count = Count;
    Index size[Count], step[Count];  // of the dimension that each index tensor indexes

    template <class Bounds>
    __device__ Index offset(const long long (&index)[Count]) const {
        Index result = 0;
#pragma unroll
        for (int k = 0; k < Count; ++k) result += checked<Bounds, Wrap>(index[k], size[k], k) * step[k];
        return result;
    }
};

template <int Rank, bool Wrap, class Index>
struct Flattened {
    static constexpr int count = 1;
    Index total, size[Rank], step[Rank];

    template <class Bounds>
    __device__ Index offset(const long long (&index)[1]) const {
        Index rest = checked<Bounds, Wrap>(index[0], total, 0), result = 0;
#pragma unroll
        for (int d = Rank - 1; d >= 0; --d) {
            const Index outer = d ? rest / size[d] : 0;
            result += (rest - outer * size[d]) * step[d];
            rest = outer;
        }
        return result;
    }
};

// Offsets of element `at` of the walk into every operand.
template <int Rank, int Operands, class Index>
__device__ inline void offsets_of(const Geometry<Rank, Operands, Index>& geometry, Index at, Index (&offset)[Operands]) {
#pragma unroll
    for (int k = 0; k < Operands; ++k) offset[k] = 0;
#pragma unroll
    for (int d = Rank - 1; d >= 0; --d) {
        const Index outer = d ? at / geometry.size[d] : 0;
        const Index coordinate = at - outer * geometry.size[d];
#pragma unroll
        for (int k = 0; k < Operands; ++k) offset[k] += coordinate * geometry.stride[k][d];
        at = outer;
    }
}

// `Unroll` elements of the walk, `step` apart. All their indices are loaded before the first is looked up, so
// that a thread waits once for memory and not for each.
template <class Bounds, int Unroll, class Index>
struct Chosen {
    Index plain[Unroll], indexed[Unroll];
    int many = 0;  // elements that there are; the last step has fewer

    template <int Rank, class Lookup, class I>
    __device__ Chosen(
        const Geometry<Rank, 2 + Lookup::count, Index>& walk, const Lookup& lookup, Index count, Index first, Index step,
        const I* const (&index)[Lookup::count]) {
        long long value[Unroll][Lookup::count];
#pragma unroll
        for (int u = 0; u < Unroll; ++u) {
            const Index at = first + u * step;
            if (at < count) {
                Index offset[2 + Lookup::count];
                offsets_of(walk, at, offset);
                plain[u] = offset[0];
                indexed[u] = offset[1];
#pragma unroll
                for (int k = 0; k < Lookup::count; ++k) value[u][k] = index[k][offset[2 + k]];
                many = u + 1;
            }
        }
#pragma unroll
        for (int u = 0; u < Unroll; ++u) {
            if (u < many) indexed[u] += lookup.template offset<Bounds>(value[u]);
        }
    }
};
