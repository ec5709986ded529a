// The gradient of a table whose rows were looked up: row r is the sum of the rows of `grads` whose index is r.
//
// A block has a row of the table. Its warps look through the indices, each through a part of them, and leave the
// positions of those that name the row in shared memory, in order. Then they share these out: warp w takes every
// WARPS-th of them from the w-th on, lanes have columns, and the parts of a sum are added in the order of the warps.
// So every run gives the same, each row is written once, rows that no index names with zeros, and half precision is
// rounded once. `skipped` is a row that gets no gradient.

#pragma once
#include "pointwise.cuh"

template <class W, int MOST, class T, class Index>
__device__ void gradient_of_row(long long columns, int count, long long skipped, const Index* indices, const T* grads, T* out) {
    constexpr int WARPS = 8, LANES = 32, OWN = 4, TILE = LANES * OWN;
    __shared__ unsigned short found[MOST], named[MOST];
    __shared__ int numbers[WARPS];
    __shared__ W parts[WARPS][TILE];
    const int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const long long row = blockIdx.x;

    const int share = (count + WARPS - 1) / WARPS, first = warp * share, last = min(first + share, count);
    int number = 0;
    for (int base = first; base < last; base += LANES) {
        const int at = base + lane;
        const bool mine = at < last && row != skipped && indices[at] == row;
        const unsigned mask = __ballot_sync(0xffffffffu, mine);
        if (mine) found[first + number + __popc(mask & ((1u << lane) - 1))] = at;
        number += __popc(mask);
    }
    if (lane == 0) numbers[warp] = number;
    __syncthreads();
    int before = 0, total = 0;
    for (int each = 0; each < WARPS; ++each) {
        before += each < warp ? numbers[each] : 0;
        total += numbers[each];
    }
    for (int at = lane; at < number; at += LANES) named[before + at] = found[first + at];
    __syncthreads();

    for (long long start = 0; start < columns; start += TILE) {
        W sums[OWN] = {};
#pragma unroll 4
        for (int at = warp; at < total; at += WARPS) {
            const T* from = grads + named[at] * columns + start + lane;
#pragma unroll
            for (int own = 0; own < OWN; ++own)
                if (start + lane + own * LANES < columns) sums[own] += W(to_compute(from[own * LANES]));
        }
        if (total > 1) {
#pragma unroll
            for (int own = 0; own < OWN; ++own) parts[warp][lane + own * LANES] = sums[own];
            __syncthreads();
            if (threadIdx.x < TILE && start + threadIdx.x < columns) {
                W sum = parts[0][threadIdx.x];
                for (int each = 1; each < min(total, WARPS); ++each) sum += parts[each][threadIdx.x];
                out[row * columns + start + threadIdx.x] = to_element<T>(sum);
            }
            __syncthreads();
        } else if (warp == 0) {
#pragma unroll
            for (int own = 0; own < OWN; ++own)
                if (start + lane + own * LANES < columns)
                    out[row * columns + start + lane + own * LANES] = to_element<T>(sums[own]);
        }
    }
}

// The same for more lookups, of which most rows have few. Lookups are filed first, in any order, each in a slot of its row,
// and counted. Then a warp has a row: it puts the positions in its slots in order and adds up. What has more lookups than
// slots is left to the warps of the block together, which look through all indices as above, a batch at a time.
constexpr int EMBEDDING_SLOTS = 16;

template <class Index>
__device__ void file_lookups(long long rows, int count, long long skipped, const Index* indices, int* counts, int* slots) {
    const int position = blockIdx.x * blockDim.x + threadIdx.x;
    if (position >= count) return;
    const long long row = indices[position];
    if (row == skipped || row < 0 || row >= rows) return;
    const int slot = atomicAdd(counts + row, 1);
    if (slot < EMBEDDING_SLOTS) slots[row * EMBEDDING_SLOTS + slot] = position;
}

// Positions of the first `count` lanes in ascending order.
__device__ inline int in_order(int position, int count) {
    int rank = 0, result = position;
    for (int other = 0; other < count; ++other) rank += __shfl_sync(~0u, position, other) < position;
    for (int other = 0; other < count; ++other) {
        const int theirs = __shfl_sync(~0u, position, other);
        if (__shfl_sync(~0u, rank, other) == threadIdx.x % 32) result = theirs;
    }
    return result;
}

template <class W, int WIDTH, class T>
__device__ inline void add_pack(W (&sums)[WIDTH], const T* from) {
    const Pack<T, WIDTH> pack = *reinterpret_cast<const Pack<T, WIDTH>*>(from);
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) sums[i] += W(to_compute(pack.item[i]));
}

template <class W, int WIDTH, class T>
__device__ inline void store_pack(T* to, const W (&sums)[WIDTH]) {
    Pack<T, WIDTH> pack;
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) pack.item[i] = to_element<T>(sums[i]);
    *reinterpret_cast<Pack<T, WIDTH>*>(to) = pack;
}

// A row with any number of lookups, by all warps of a block. `columns` is a multiple of WIDTH.
template <class W, int WIDTH, class T, class Index>
__device__ void gradient_of_long_row(
    long long row, long long columns, int count, const Index* indices, const T* grads, T* out) {
    // Two packs of a lane, for more loads on their way: a row that all lookups name is one block's work.
    constexpr int WARPS = 8, LANES = 32, BATCH = 512, OWN = 2, STEP = LANES * WIDTH, TILE = OWN * STEP;
    __shared__ int named[WARPS][BATCH];
    __shared__ W parts[WARPS][TILE];
    const int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const int share = (count + WARPS - 1) / WARPS, begin = warp * share, end = min(begin + share, count);
    for (long long start = 0; start < columns; start += TILE) {
        W sums[OWN][WIDTH] = {};
        for (int first = begin; first < end; first += BATCH) {
            int number = 0;
            __syncwarp();  // the batch before has been read
            for (int base = first; base < min(first + BATCH, end); base += LANES) {
                const bool mine = base + lane < min(first + BATCH, end) && indices[base + lane] == row;
                const unsigned mask = __ballot_sync(~0u, mine);
                if (mine) named[warp][number + __popc(mask & ((1u << lane) - 1))] = base + lane;
                number += __popc(mask);
            }
            __syncwarp();
#pragma unroll 8
            for (int at = 0; at < number; ++at) {
                const T* const from = grads + named[warp][at] * columns + start;
#pragma unroll
                for (int own = 0; own < OWN; ++own) {
                    const int column = own * STEP + lane * WIDTH;
                    // Lanes behind the end read what the others do.
                    add_pack(sums[own], from + (start + column < columns ? column : 0));
                }
            }
        }
#pragma unroll
        for (int i = 0; i < OWN * WIDTH; ++i)
            parts[warp][i / WIDTH * STEP + lane * WIDTH + i % WIDTH] = sums[i / WIDTH][i % WIDTH];
        __syncthreads();
        for (int at = threadIdx.x; at < TILE && start + at < columns; at += blockDim.x) {
            W sum = parts[0][at];
#pragma unroll
            for (int each = 1; each < WARPS; ++each) sum += parts[each][at];
            out[row * columns + start + at] = to_element<T>(sum);
        }
        __syncthreads();
    }
}

template <class W, int WIDTH, class T, class Index>
__device__ void gradient_of_rows(
    long long rows, long long columns, int lookups, const Index* indices, const T* grads, const int* counts,
    const int* slots, T* out) {
    constexpr int WARPS = 8, LANES = 32;
    const int lane = threadIdx.x % LANES;
    const long long row = static_cast<long long>(blockIdx.x) * WARPS + threadIdx.x / LANES;
    const int count = row < rows ? counts[row] : 0;
    if (row < rows && count <= EMBEDDING_SLOTS) {
        int position = lane < count ? slots[row * EMBEDDING_SLOTS + lane] : 0;
        if (count > 1) position = in_order(position, count);
        for (long long start = 0; start < columns; start += LANES * WIDTH) {
            const long long column = start + lane * WIDTH;
            W sums[WIDTH] = {};
            for (int at = 0; at < count; ++at) {
                const long long from = __shfl_sync(~0u, position, at);
                if (column < columns) add_pack(sums, grads + from * columns + column);
            }
            if (column < columns) store_pack(out + row * columns + column, sums);
        }
    }
    if (!__syncthreads_or(count > EMBEDDING_SLOTS)) return;
#pragma unroll 1
    for (int each = 0; each < WARPS; ++each) {
        const long long one = static_cast<long long>(blockIdx.x) * WARPS + each;
        if (one < rows && counts[one] > EMBEDDING_SLOTS)
            gradient_of_long_row<W, WIDTH>(one, columns, lookups, indices, grads, out);
    }
}
