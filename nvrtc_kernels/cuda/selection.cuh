// Selection from long rows of a contiguous (rows, n) array, without sorting them: the element of a given rank,
// or all up to it.
//
// The key of the wanted rank is found 8 bits at a time from the top (radix select, as in Alabi, Blanchard,
// Gordon and Steinbach, "Fast k-selection algorithms for graphics processing units", 2012): select_count
// counts the next digit of the elements that share the digits known so far, select_digit goes to the digit
// that holds the rank. Counts are sums of integers, so the order of the atomic additions does not show.
// Rows are cut into chunks for several blocks, as for sorting.

#pragma once
#include "sort.cuh"

// Of each row: the digits known so far, and the wanted rank among the elements that share them.
template <class Bits>
struct Selected {
    Bits key;
    unsigned rank;
};

template <class Bits>
__device__ inline void select_start(
    long long rows, unsigned n, unsigned rank, Selected<Bits>* selected, unsigned* counts, unsigned* nans,
    long long* positions) {
    const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
    for (long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; at < rows * radix; at += step) {
        counts[at] = 0;
        if (at < rows) {
            selected[at].key = 0;
            selected[at].rank = rank;
            if (nans) nans[at] = 0;
            if (positions) positions[at] = n;
        }
    }
}

// A chunk of a row: what block `job` works on.
struct Chunk {
    long long row;
    unsigned first, end, number;
    __device__ Chunk(const Chunks& c, long long job) {
        row = job / c.chunks;
        number = job - row * c.chunks;
        first = number * c.piece;
        end = min(c.n - first, c.piece) + first;
    }
};

template <class Order>
__device__ inline void count_nans(Chunks c, const typename Order::Bits* in, unsigned* nans) {
    typedef TeamShape<256, 1, 1, false> Shape;
    const Team<Add<unsigned>, Shape> team;
    for (long long job = blockIdx.x; job < c.rows * c.chunks; job += gridDim.x) {
        const Chunk chunk(c, job);
        const auto* line = in + chunk.row * c.n;
        unsigned found = 0;
#pragma unroll 4
        for (unsigned at = chunk.first + threadIdx.x; at < chunk.end; at += blockDim.x) {
            found += Order::key(line[at]) == Order::nan_key;
        }
        unsigned total;
        team.scan(found, total);
        if (total && threadIdx.x == 0) atomicAdd(nans + chunk.row, total);
    }
}

template <class Order>
__device__ inline void select_count(
    Chunks c, int shift, const typename Order::Bits* in, const Selected<typename Order::Bits>* selected,
    unsigned* counts) {
    typedef typename Order::Bits Bits;
    __shared__ unsigned seen[radix];
    const Bits known = shift + 8 < 8 * sizeof(Bits) ? static_cast<Bits>(~0ull << (shift + 8)) : Bits(0);
    for (long long job = blockIdx.x; job < c.rows * c.chunks; job += gridDim.x) {
        const Chunk chunk(c, job);
        const Bits* line = in + chunk.row * c.n;
        const Bits wanted = selected[chunk.row].key;
        seen[threadIdx.x] = 0;
        __syncthreads();
#pragma unroll 4
        for (unsigned at = chunk.first + threadIdx.x; at < chunk.end; at += blockDim.x) {
            const Bits key = Order::key(line[at]);
            if (((key ^ wanted) & known) == 0) atomicAdd(seen + (static_cast<unsigned>(key >> shift) & (radix - 1)), 1u);
        }
        __syncthreads();
        if (seen[threadIdx.x]) atomicAdd(counts + chunk.row * radix + threadIdx.x, seen[threadIdx.x]);
    }
}

// Goes to the digit that has the rank, and clears the counts for the next. `nans`, in the first pass of a
// median, tells how many there are, on which the rank depends.
template <class Order, bool SkipNan>
__device__ inline void select_digit(
    Chunks c, int shift, const unsigned* nans, unsigned* counts, Selected<typename Order::Bits>* selected) {
    typedef typename Order::Bits Bits;
    typedef TeamShape<radix, 1, 1, false> Shape;
    const Team<Add<unsigned>, Shape> team;
    for (long long row = blockIdx.x; row < c.rows; row += gridDim.x) {
        const unsigned rank = nans ? median_rank<Order>(SkipNan, c.n, c.n - nans[row]) : selected[row].rank;
        const unsigned own = counts[row * radix + threadIdx.x];
        counts[row * radix + threadIdx.x] = 0;
        unsigned total;
        const unsigned before = team.scan(own, total);  // every thread has read the rank by then
        if (before <= rank && rank - before < own) {
            selected[row].key |= static_cast<Bits>(static_cast<Bits>(threadIdx.x) << shift);
            selected[row].rank = rank - before;
        }
    }
}

// The first element of each row with the selected key.
template <class Order>
__device__ inline void find_selected(
    Chunks c, const typename Order::Bits* in, const Selected<typename Order::Bits>* selected, long long* positions) {
    for (long long job = blockIdx.x; job < c.rows * c.chunks; job += gridDim.x) {
        const Chunk chunk(c, job);
        const auto* line = in + chunk.row * c.n;
        const auto wanted = selected[chunk.row].key;
        for (unsigned at = chunk.first + threadIdx.x; at < chunk.end; at += blockDim.x) {
            if (Order::key(line[at]) == wanted) {
                atomicMin(positions + chunk.row, static_cast<long long>(at));
                break;
            }
        }
    }
}

template <class Bits>
__device__ inline void take_selected(long long rows, unsigned n, const Bits* in, const long long* positions, Bits* values) {
    const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
    for (long long row = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; row < rows; row += step) {
        values[row] = in[row * n + positions[row]];
    }
}

// All elements up to the selected rank, in the order they have in the row, but the smaller ones before those
// equal to the selected one. Two counts travel in one number: smaller ones above, equal ones below.

template <class Order>
__device__ inline unsigned long long rank_step(typename Order::Bits x, typename Order::Bits wanted) {
    const auto key = Order::key(x);
    return key < wanted ? 1ull << 32 : key == wanted;
}

template <class Order>
__device__ inline void count_selected(
    Chunks c, const typename Order::Bits* in, const Selected<typename Order::Bits>* selected,
    unsigned long long* totals) {
    typedef TeamShape<256, 1, 1, false> Shape;
    const Team<Add<unsigned long long>, Shape> team;
    for (long long job = blockIdx.x; job < c.rows * c.chunks; job += gridDim.x) {
        const Chunk chunk(c, job);
        const auto* line = in + chunk.row * c.n;
        const auto wanted = selected[chunk.row].key;
        unsigned long long own = 0, total;
#pragma unroll 4
        for (unsigned at = chunk.first + threadIdx.x; at < chunk.end; at += blockDim.x) {
            own += rank_step<Order>(line[at], wanted);
        }
        team.scan(own, total);
        if (threadIdx.x == 0) totals[job] = total;
    }
}

template <class Order, int Items>
__device__ inline void take_all_selected(
    Chunks c, unsigned k, const typename Order::Bits* in, const Selected<typename Order::Bits>* selected,
    const unsigned long long* totals, typename Order::Bits* values, long long* positions) {
    typedef typename Order::Bits Bits;
    typedef TeamShape<256, 1, Items, false> Shape;
    const Team<Add<unsigned long long>, Shape> team;
    for (long long job = blockIdx.x; job < c.rows * c.chunks; job += gridDim.x) {
        const Chunk chunk(c, job);
        const Bits* line = in + chunk.row * c.n;
        const Bits wanted = selected[chunk.row].key;
        const unsigned equal = selected[chunk.row].rank + 1, smaller = k - equal;
        unsigned long long own = 0, carry, total;
        for (unsigned before = threadIdx.x; before < chunk.number; before += blockDim.x) {
            own += totals[chunk.row * c.chunks + before];
        }
        team.scan(own, carry);
        for (unsigned tile = chunk.first; tile < chunk.end; tile += Shape::tile) {
            const unsigned at = tile + threadIdx.x * Items;
            Bits x[Items];
            unsigned long long step[Items];
            own = 0;
#pragma unroll
            for (int i = 0; i < Items; ++i) {
                x[i] = at + i < chunk.end ? line[at + i] : Bits(0);
                step[i] = at + i < chunk.end ? rank_step<Order>(x[i], wanted) : 0;
                own += step[i];
            }
            unsigned long long rank = carry + team.scan(own, total);
            carry += total;
#pragma unroll
            for (int i = 0; i < Items; ++i) {
                const unsigned below = rank >> 32, ties = static_cast<unsigned>(rank);
                if (step[i] > 1 || (step[i] == 1 && ties < equal)) {
                    const long long to = chunk.row * k + (step[i] > 1 ? below : smaller + ties);
                    values[to] = x[i];
                    positions[to] = at + i;
                }
                rank += step[i];
            }
        }
    }
}
