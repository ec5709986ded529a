// The gradient of a table whose rows were looked up: row r is the sum of the rows of `grads` whose index is r.
//
// A block has a row of the table. Its warps look through the indices, each through a part of them, and leave the
// positions of those that name the row in shared memory, in order. Then they share these out: warp w takes every
// WARPS-th of them from the w-th on, lanes have columns, and the parts of a sum are added in the order of the warps.
// So every run gives the same, each row is written once, rows that no index names with zeros, and half precision is
// rounded once. `skipped` is a row that gets no gradient.

#pragma once

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
