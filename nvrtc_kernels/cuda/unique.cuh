// Runs of equal elements: their values, which run each element is in, and how long they are.
//
// The input is contiguous, and sorted where equal elements anywhere are to count as one. A run begins where an
// element differs from the one before it (NaN differs from everything). Chunks are counted first (count_runs),
// then every block adds up the runs before its own (write_runs), as compaction does.

#pragma once
#include "scan.cuh"

template <class T>
__device__ inline bool begins_run(const T* in, long long at) {
    return at == 0 || to_compute(in[at]) != to_compute(in[at - 1]);
}

template <class Shape, class T>
__device__ inline void count_runs(long long n, long long piece, const T* in, long long* totals) {
    const Team<Add<long long>, Shape> team;
    const long long first = blockIdx.x * piece, end = min(first + piece, n);
    long long own = 0, total;
#pragma unroll 4
    for (long long at = first + threadIdx.x; at < end; at += blockDim.x) own += begins_run(in, at);
    team.scan(own, total);
    if (threadIdx.x == 0) totals[blockIdx.x] = total;
}

// `positions` has where sorted elements come from, if that is not where they are. `starts`, `inverse` and `positions`
// may be null.
template <class Shape, class T>
__device__ inline void write_runs(
    long long n, long long piece, const long long* totals, const T* in, const long long* positions, long long* number,
    T* values, long long* inverse, long long* starts) {
    const Team<Add<long long>, Shape> team;
    long long own = 0, total, carry;
    for (int chunk = threadIdx.x; chunk < blockIdx.x; chunk += blockDim.x) own += totals[chunk];
    team.scan(own, carry);
    const long long first = blockIdx.x * piece, end = min(first + piece, n);
    for (long long tile = first; tile < end; tile += Shape::tile) {
        const long long at = tile + threadIdx.x;
        const bool begins = at < end && begins_run(in, at);
        const long long run = carry + team.scan(begins, total) + begins - 1;
        carry += total;
        if (begins) {
            values[run] = in[at];
            if (starts) starts[run] = at;
        }
        if (inverse && at < end) inverse[positions ? positions[at] : at] = run;
    }
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) *number = carry;
}

__device__ inline void measure_runs(long long n, const long long* number, const long long* starts, long long* counts) {
    const long long step = static_cast<long long>(gridDim.x) * blockDim.x, runs = *number;
    for (long long run = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; run < runs; run += step) {
        counts[run] = (run + 1 < runs ? starts[run + 1] : n) - starts[run];
    }
}
