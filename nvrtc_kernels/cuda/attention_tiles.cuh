// What forward and backward of attention on tensor cores have in common: where matrices lie, how their rows come to shared
// memory, and products of tiles, whose results stay in the registers of a warp.

#pragma once
#include "attention.cuh"
#include "exponentials.cuh"
#include "tensor_cores.cuh"

constexpr int ATTENTION_THREADS = 128;

// Strides of `Count` operands over the dimensions of their matrices, and between rows; in elements. The first four are
// queries, keys, values and results; then come gradients of these, those of results first.
template <int Rank, int Count>
struct AttentionOperands {
    long long sizes[Rank];
    long long strides[Count][Rank];
    long long row[Count];
    long long positions;
    int keys;
    int groups;         // matrices of queries that share one of keys
    int width, values;  // of rows; at most the kernel's own
    int causal;
    int unused;

    // Elements to the first one of a matrix of each operand.
    __device__ void find(long long matrix, long long (&at)[Count]) const {
#pragma unroll
        for (int i = 0; i < Count; ++i) at[i] = 0;
#pragma unroll
        for (int d = Rank - 1; d >= 0; --d) {
            const long long index = d ? matrix % sizes[d] : matrix;
            matrix /= sizes[d];
#pragma unroll
            for (int i = 0; i < Count; ++i) at[i] += index * strides[i][d];
        }
    }
};

enum AttentionOperand { QUERY, KEY, VALUE, RESULT, GRAD, GRAD_QUERY, GRAD_KEY, GRAD_VALUE };

template <class M>
constexpr bool is_masked = true;
template <>
constexpr bool is_masked<NoMask> = false;

template <class D>
constexpr bool is_dropping = true;
template <>
constexpr bool is_dropping<NoDropout> = false;

// to = left @ right^T for `Groups` times 16 rows of `left` from row `first` on, and `Blocks` times 8 rows of `right`.
template <class T, int Width, int Groups, int Blocks>
__device__ inline void multiply_rows(
    float (&to)[Groups][Blocks][4], const SharedRows<T, Width>& left, int first, const SharedRows<T, Width>& right) {
#pragma unroll
    for (int i = 0; i < Groups * Blocks * 4; ++i) to[i / 4 / Blocks][i / 4 % Blocks][i % 4] = 0;
    accumulate_rows(to, left, first, right);
}

// to += left @ right: results of a product, rounded, are the left operand of the next one as they lie in registers.
template <class T, int Width, int Groups, int Blocks>
__device__ inline void multiply_results(
    float (&to)[Groups][Width / 8][4], const float (&left)[Groups][Blocks][4], const SharedRows<T, Width>& right) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < Blocks / 2; ++k) {
        unsigned int a[Groups][4];
#pragma unroll
        for (int g = 0; g < Groups; ++g) {
            const float(&even)[4] = left[g][2 * k], (&odd)[4] = left[g][2 * k + 1];
            a[g][0] = packed<T>(even[0], even[1]);
            a[g][1] = packed<T>(even[2], even[3]);
            a[g][2] = packed<T>(odd[0], odd[1]);
            a[g][3] = packed<T>(odd[2], odd[3]);
        }
#pragma unroll
        for (int i = 0; i < Width / 8; i += 2) {
            unsigned int b[4];
            load_transposed(b, right.at(k * 16 + lane % 16, i + lane / 16));
#pragma unroll
            for (int g = 0; g < Groups; ++g) {
                multiply_add<T>(to[g][i], a[g], b[0], b[1]);
                multiply_add<T>(to[g][i + 1], a[g], b[2], b[3]);
            }
        }
    }
}

// Two rows of each sixteen are this thread's: the first one of `Groups` times 16 that belong to a warp is `first`.
template <class T, int Width, int Piece, int Groups>
__device__ inline void store_rows(
    T* to, long long row_stride, long long first, long long end, int width, const float (&from)[Groups][Width / 8][4],
    float scale) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < Groups * 2; ++r) {
        const long long row = first + lane / 4 + r * 8;
        if (row >= end) continue;
#pragma unroll
        for (int i = 0; i < Width / 8; ++i) {
            const int at = i * 8 + lane % 4 * 2;
            const float first_sum = from[r / 2][i][r % 2 * 2] * scale, second_sum = from[r / 2][i][r % 2 * 2 + 1] * scale;
            T* const slot = to + row * row_stride + at;
            if constexpr (Piece > 1) {
                if (at < width) *reinterpret_cast<unsigned int*>(slot) = packed<T>(first_sum, second_sum);
            } else {
                if (at < width) slot[0] = to_element<T>(first_sum);
                if (at + 1 < width) slot[1] = to_element<T>(second_sum);
            }
        }
    }
}
