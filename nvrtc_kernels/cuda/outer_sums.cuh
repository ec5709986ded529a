// Sums of outer products of the rows of two matrices of half precision, as gradients of weights are, of many pairs in one launch:
//
//     out = grad^T @ rows,  of (outputs, inputs)          sums = sum of the rows of grad,  where they are asked for
//
// Of a small model each such product keeps few multiprocessors busy, and takes hardly longer than its launch; the blocks of
// many are one grid. A block finds its product in the table, computes 128 x 128 elements of it on tensor cores, in float32, and
// goes over the rows 32 at a time, which come by asynchronous copies, three tiles ahead. Blocks of the first columns sum up the
// rows of grad on the way, as a product with ones. No two blocks add to one number: the same results every time.

#pragma once
#include "tensor_cores.cuh"

constexpr int OUTER_THREADS = 128, OUTER_TILE = 128, OUTER_DEPTH = 32, OUTER_STAGES = 4;

struct OuterSum {
    void* out;
    void* sums;
    const void* grad;
    const void* rows;
    int outputs, inputs, count;
    int first;  // of its blocks
};

template <int Capacity>
struct OuterSums {
    OuterSum products[Capacity];

    __device__ const OuterSum& of_block(int block, int count) const {
        int low = 0;
        for (int high = count; high - low > 1;) {
            const int middle = (low + high) / 2;
            if (products[middle].first <= block)
                low = middle;
            else
                high = middle;
        }
        return products[low];
    }
};

// Two ones as a register of a fragment.
template <class T>
__device__ inline unsigned int packed_ones() {
    return packed<T>(1.0f, 1.0f);
}

template <class T, class Out, int Piece, int Capacity>
__device__ void sum_outer_products(const OuterSums<Capacity>& table, int count) {
    constexpr int groups = 4, blocks = 8, stage = 2 * OUTER_TILE * OUTER_DEPTH;
    typedef SharedRows<T, OUTER_TILE> Tile;
    extern __shared__ uint4 shared_memory[];
    T* const memory = reinterpret_cast<T*>(shared_memory);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    const OuterSum& product = table.of_block(blockIdx.x, count);
    const int outputs = product.outputs, inputs = product.inputs, end = product.count;
    const int block = blockIdx.x - product.first, across = (inputs + OUTER_TILE - 1) / OUTER_TILE;
    const int first_output = block / across * OUTER_TILE, first_input = block % across * OUTER_TILE;
    const T* const grad = static_cast<const T*>(product.grad) + first_output;
    const T* const rows = static_cast<const T*>(product.rows) + first_input;
    const auto grads = [&](int step) { return Tile{memory + step % OUTER_STAGES * stage}; };
    const auto seen = [&](int step) { return Tile{memory + step % OUTER_STAGES * stage + OUTER_TILE * OUTER_DEPTH}; };
    const int steps = (end + OUTER_DEPTH - 1) / OUTER_DEPTH;
    const auto fetch = [&](int step) {
        if (step < steps) {
            fetch_rows<OUTER_DEPTH, Piece, OUTER_THREADS>(
                grads(step), grad, outputs, step * OUTER_DEPTH, end, outputs - first_output);
            fetch_rows<OUTER_DEPTH, Piece, OUTER_THREADS>(
                seen(step), rows, inputs, step * OUTER_DEPTH, end, inputs - first_input);
        }
        commit_copies();
    };
#pragma unroll
    for (int step = 0; step < OUTER_STAGES - 1; ++step) fetch(step);

    float to[groups][blocks][4], sums[groups][4];
#pragma unroll
    for (int i = 0; i < groups * blocks * 4; ++i) to[i / 4 / blocks][i / 4 % blocks][i % 4] = 0;
#pragma unroll
    for (int i = 0; i < groups * 4; ++i) sums[i / 4][i % 4] = 0;
    const int own_output = warp / 2 * 64, own_input = warp % 2 * 64;
    Out* const sums_to = static_cast<Out*>(product.sums);
    const bool sums_up = sums_to && !first_input && !own_input;
    const unsigned int ones = packed_ones<T>();
    for (int step = 0; step < steps; ++step) {
        await_copies<OUTER_STAGES - 2>();
        __syncthreads();  // this tile has arrived, and every warp has read the one whose place the next one takes
        fetch(step + OUTER_STAGES - 1);
#pragma unroll
        for (int row = 0; row < OUTER_DEPTH; row += 16) {
            unsigned int a[groups][4];
#pragma unroll
            for (int g = 0; g < groups; ++g) load_columns(a[g], grads(step), row, own_output + g * 16, true);
            if (sums_up) {
#pragma unroll
                for (int g = 0; g < groups; ++g) multiply_add<T>(sums[g], a[g], ones, ones);
            }
#pragma unroll
            for (int n = 0; n < blocks; n += 2) {
                unsigned int b[4];
                load_columns(b, seen(step), row, own_input + n * 8, false);
#pragma unroll
                for (int g = 0; g < groups; ++g) {
                    multiply_add<T>(to[g][n], a[g], b[0], b[1]);
                    multiply_add<T>(to[g][n + 1], a[g], b[2], b[3]);
                }
            }
        }
    }
    await_copies<0>();

    Out* const out = static_cast<Out*>(product.out);
#pragma unroll
    for (int r = 0; r < groups * 2; ++r) {
        const int output = first_output + own_output + r * 8 + lane / 4;
        if (output >= outputs) continue;
        if (sums_up && lane % 4 == 0) sums_to[output] = to_element<Out>(sums[r / 2][r % 2 * 2]);
        Out* const line = out + static_cast<long long>(output) * inputs;
#pragma unroll
        for (int n = 0; n < blocks; ++n) {
            const int input = first_input + own_input + n * 8 + lane % 4 * 2;
            Pack<Out, 2> pair;
            pair.items[0] = to_element<Out>(to[r / 2][n][r % 2 * 2]);
            pair.items[1] = to_element<Out>(to[r / 2][n][r % 2 * 2 + 1]);
            if constexpr (Piece > 1) {
                if (input < inputs) *reinterpret_cast<Pack<Out, 2>*>(line + input) = pair;
            } else {
                if (input < inputs) line[input] = pair.items[0];
                if (input + 1 < inputs) line[input + 1] = pair.items[1];
            }
        }
    }
}
