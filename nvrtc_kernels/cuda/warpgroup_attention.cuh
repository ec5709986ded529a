// Attention by products of warpgroups (warpgroup_products.cuh): what the kernels of fused_attention.cuh and
// fused_attention_backward.cuh ask of a team. Operands of a product are read from shared memory once for 64 rows, which four
// warps read each for themselves otherwise; and weights, and slopes, go from one product to the next in registers.

#pragma once
#include "fragments.cuh"
#include "warpgroup_products.cuh"

// `Rows` rows of `Width` elements of half precision. A line has 64 of them: those of all rows' first 64 elements come before
// those of the next ones.
template <class T, int Width, int Rows>
struct SharedLines {
    static_assert(sizeof(T) == 2 && Width % 64 == 0 && Rows % 8 == 0, "lines have 128 bytes, and are permuted by eights");
    static constexpr int chunks = Width / 8, per_chunk = 8;
    T* memory;

    __device__ T* at(int row, int chunk) const {
        return memory + (chunk / 8 * Rows + row) * 64 + (chunk % 8 ^ row % 8) * per_chunk;
    }
    // The factor whose rows are these, from `row` on, a multiple of eight; and from the k-th 16 elements of each.
    __device__ unsigned long long factor(int row) const { return product_factor(memory + row * 64); }
    static __device__ int aside(int k) { return k / 4 * Rows * 8 + k % 4 * 2; }
    // The factor whose columns are these rows; and from the k-th 16 rows on.
    __device__ unsigned long long factor_across(int row) const { return product_factor(memory + row * 64, Rows * 128); }
    static __device__ int down(int k) { return k * 16 * 8; }
};

// The 64 rows of a warpgroup, of which each warp has 16, that are the left factor of many products: the warp's own ones start
// with `first`.
template <class T, int Width, int Rows>
struct LeftLines {
    unsigned long long factor;

    __device__ LeftLines(const SharedLines<T, Width, Rows>& from, int first) : factor(from.factor(first / 64 * 64)) {}
    __device__ void hold() {}
};

// `Count` warpgroups, of which each has 64 rows.
template <int Count>
struct Warpgroups : Copying<Warpgroups<Count>> {
    static constexpr int count = Count * 4, threads = Count * 128;
    template <class T, int Width, int Rows>
    using Tile = SharedLines<T, Width, Rows>;
    template <class T, int Width, int Rows, int Parts, int Groups, int Held>
    using Left = LeftLines<T, Width, Rows>;

    static __device__ void show() { show_to_products(); }
};

template <class T, int Width, int Own, int Rows, int Blocks>
__device__ inline void queue_rows(
    float (&to)[1][Blocks][4], const LeftLines<T, Width, Own>& left, const SharedLines<T, Width, Rows>& right, int row) {
    const unsigned long long factor = right.factor(row);
    multiply_factors<T, false, false, false>(to[0], left.factor, factor);
#pragma unroll
    for (int k = 1; k < Width / 16; ++k)
        multiply_factors<T, false, false>(
            to[0], left.factor + SharedLines<T, Width, Own>::aside(k), factor + right.aside(k));
}

template <class T, int Width, int Rows, int Blocks>
__device__ inline void queue_results(
    float (&to)[1][Width / 8][4], const Fragment<T, 1> (&left)[Blocks], const SharedLines<T, Width, Rows>& right, int row) {
    const unsigned long long factor = right.factor_across(row);
#pragma unroll
    for (int k = 0; k < Blocks; ++k) multiply_rows<T, Width / 8, true>(to[0], left[k].parts[0], factor + right.down(k));
}

// Results as the left factor of the next product.
template <class T, int Blocks>
__device__ inline void take_all_results(Fragment<T, 1> (&to)[Blocks / 2], const float (&from)[1][Blocks][4]) {
#pragma unroll
    for (int k = 0; k < Blocks / 2; ++k) take_results(to[k], from[0], k);
}

// to = left @ right^T, for `Blocks` times 8 rows of `right` from `row` on, a multiple of eight.
template <class T, int Width, int Own, int Rows, int Blocks>
__device__ inline void multiply_rows(
    float (&to)[1][Blocks][4], const LeftLines<T, Width, Own>& left, const SharedLines<T, Width, Rows>& right, int row) {
    begin_products();
    queue_rows(to, left, right, row);
    commit_products();
    await_products<0>();
}

template <class T, int Width, int Own, int Rows, int Blocks>
__device__ inline void multiply_two(
    float (&to)[1][Blocks][4], const LeftLines<T, Width, Own>& left, const SharedLines<T, Width, Rows>& right,
    float (&other_to)[1][Blocks][4], const LeftLines<T, Width, Own>& other_left,
    const SharedLines<T, Width, Rows>& other_right, int row) {
    begin_products();
    queue_rows(to, left, right, row);
    queue_rows(other_to, other_left, other_right, row);
    commit_products();
    await_products<0>();
}

// to += left @ right, for as many rows of `right` from `row` on as `left` has columns.
template <int Parts, class T, int Width, int Rows, int Blocks>
__device__ inline void multiply_results(
    float (&to)[1][Width / 8][4], const float (&left)[1][Blocks][4], const SharedLines<T, Width, Rows>& right, int row) {
    Fragment<T, 1> fragments[Blocks / 2];
    take_all_results(fragments, left);
    begin_products();
    queue_results(to, fragments, right, row);
    commit_products();
    await_products<0>();
}

template <int Parts, class T, int Width, int Rows, int Blocks>
__device__ inline void multiply_two_results(
    float (&to)[1][Width / 8][4], const float (&left)[1][Blocks][4], const SharedLines<T, Width, Rows>& right,
    float (&other_to)[1][Width / 8][4], const float (&other_left)[1][Blocks][4],
    const SharedLines<T, Width, Rows>& other_right, int row) {
    Fragment<T, 1> fragments[Blocks / 2], other_fragments[Blocks / 2];
    take_all_results(fragments, left);
    take_all_results(other_fragments, other_left);
    begin_products();
    queue_results(to, fragments, right, row);
    queue_results(other_to, other_fragments, other_right, row);
    commit_products();
    await_products<0>();
}
