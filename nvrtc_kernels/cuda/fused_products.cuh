// Products of half precision on tensor cores whose results go on into pointwise operations before they are stored, for matrices that
// are so small that a launch counts: the operations would be another one, and read what the product wrote.
//
//     out = chain(left @ right + bias)        left is (rows, depth), right (depth, columns) or (columns, depth)
//
// A block computes 64 x 64 elements in float32 from tiles of 64 rows or columns of 64 elements, which come by asynchronous copies
// ahead of their use. Sums, rounded as the product by itself rounds them, go through shared memory, from where threads take
// 16 bytes of neighbours each, as the chain reads and writes them.

#pragma once
#include "fused_rows.cuh"
#include "tensor_cores.cuh"

constexpr int PRODUCT_THREADS = 128, PRODUCT_TILE = 64, PRODUCT_DEPTH = 64, PRODUCT_STAGES = 4;

template <class T, bool Transposed, int Piece, class Chain>
__device__ void multiply_and_go_on(
    int rows, int columns, int depth, const T* left, const T* right, const T* bias, Chain chain) {
    constexpr int groups = 2, blocks = 4, stage = 2 * PRODUCT_TILE * PRODUCT_DEPTH, per_chunk = 16 / sizeof(T);
    typedef SharedRows<T, PRODUCT_DEPTH> Tile;
    static_assert(PRODUCT_TILE == PRODUCT_DEPTH, "both forms of the right operand are tiles of one form");
    extern __shared__ uint4 shared_memory[];
    T* const memory = reinterpret_cast<T*>(shared_memory);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int first_row = blockIdx.y * PRODUCT_TILE, first_column = blockIdx.x * PRODUCT_TILE;
    const auto lefts = [&](int step) { return Tile{memory + step % PRODUCT_STAGES * stage}; };
    const auto rights = [&](int step) { return Tile{memory + step % PRODUCT_STAGES * stage + stage / 2}; };
    const int steps = (depth + PRODUCT_DEPTH - 1) / PRODUCT_DEPTH;
    const auto fetch = [&](int step) {
        if (step < steps) {
            const int at = step * PRODUCT_DEPTH;
            fetch_rows<PRODUCT_TILE, Piece, PRODUCT_THREADS>(lefts(step), left + at, depth, first_row, rows, depth - at);
            if constexpr (Transposed) {
                fetch_rows<PRODUCT_TILE, Piece, PRODUCT_THREADS>(
                    rights(step), right + at, depth, first_column, columns, depth - at);
            } else {
                fetch_rows<PRODUCT_DEPTH, Piece, PRODUCT_THREADS>(
                    rights(step), right + first_column, columns, at, depth, columns - first_column);
            }
        }
        commit_copies();
    };
#pragma unroll
    for (int step = 0; step < PRODUCT_STAGES - 1; ++step) fetch(step);

    float sums[groups][blocks][4];
#pragma unroll
    for (int i = 0; i < groups * blocks * 4; ++i) sums[i / 4 / blocks][i / 4 % blocks][i % 4] = 0;
    const int own_row = warp / 2 * 32, own_column = warp % 2 * 32;
    for (int step = 0; step < steps; ++step) {
        await_copies<PRODUCT_STAGES - 2>();
        __syncthreads();  // this tile has arrived, and every warp has read the one whose place the next one takes
        fetch(step + PRODUCT_STAGES - 1);
        if constexpr (Transposed) {
            accumulate_rows(sums, lefts(step), own_row, Tile{rights(step).memory + own_column * PRODUCT_DEPTH});
        } else {
#pragma unroll
            for (int k = 0; k < PRODUCT_DEPTH / 16; ++k) {
                unsigned int a[groups][4];
#pragma unroll
                for (int g = 0; g < groups; ++g)
                    load_matrices(a[g], lefts(step).at(own_row + g * 16 + lane % 16, k * 2 + lane / 16));
#pragma unroll
                for (int n = 0; n < blocks; n += 2) {
                    unsigned int b[4];
                    load_columns(b, rights(step), k * 16, own_column + n * 8, false);
#pragma unroll
                    for (int g = 0; g < groups; ++g) {
                        multiply_add<T>(sums[g][n], a[g], b[0], b[1]);
                        multiply_add<T>(sums[g][n + 1], a[g], b[2], b[3]);
                    }
                }
            }
        }
    }
    await_copies<0>();
    __syncthreads();  // the tiles have been read

    const Tile results{memory};
#pragma unroll
    for (int n = 0; n < blocks; ++n) {
        const int column = own_column + n * 8 + lane % 4 * 2;
        float added[2] = {0, 0};
        if (bias != nullptr) {
#pragma unroll
            for (int j = 0; j < 2; ++j)
                if (first_column + column + j < columns) added[j] = to_compute(bias[first_column + column + j]);
        }
#pragma unroll
        for (int r = 0; r < groups * 2; ++r) {
            const float* const pair = sums[r / 2][n] + r % 2 * 2;
            *reinterpret_cast<unsigned int*>(results.at(own_row + r * 8 + lane / 4, column / per_chunk) + column % per_chunk) =
                packed<T>(pair[0] + added[0], pair[1] + added[1]);
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = threadIdx.x; i < PRODUCT_TILE * PRODUCT_TILE / per_chunk; i += PRODUCT_THREADS) {
        const int row = i / (PRODUCT_TILE / per_chunk), chunk = i % (PRODUCT_TILE / per_chunk);
        const int column = first_column + chunk * per_chunk;
        if (first_row + row >= rows || column >= columns) continue;
        const Pack<T, per_chunk> pack = *reinterpret_cast<const Pack<T, per_chunk>*>(results.at(row, chunk));
        float items[per_chunk];
#pragma unroll
        for (int k = 0; k < per_chunk; ++k) items[k] = to_compute(pack.items[k]);
        (chain + static_cast<long long>(first_row + row) * columns).template store<per_chunk>(column, items);
    }
}
