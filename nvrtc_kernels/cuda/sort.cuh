// Stable sorts of the rows of a contiguous (rows, n) array, with the positions that elements come from.
//
//   sort_tile   rows of up to 2048 elements: a bitonic network in shared memory (Batcher, "Sorting networks
//               and their applications", 1968) over pairs of key and position, which makes it stable. A block
//               sorts as many rows at once as fit a tile of 1024 elements, so many short rows are one launch.
//               Steps whose partners stay in a warp's 64 elements wait for the warp only.
//   radix_*     longer rows: least significant digit first, 8 bits at a time (Merrill and Grimshaw, "High
//               performance and scalable radix sorting", 2011). A row is cut into chunks for several blocks:
//               radix_count counts digits in each, radix_offsets turns the counts into where each chunk's
//               elements of each digit go, and radix_scatter moves them. There a warp ranks equal digits by
//               matching lanes, and elements are put in order in shared memory first, so that what goes to
//               one digit is written by neighbouring threads.

#pragma once
#include "sort_order.cuh"
#include "team.cuh"

constexpr int radix = 256;

// Which ranks of a sorted row are wanted: `count` from `first` on, or one median.
enum class Pick { range, median, nan_median };

// Rank of the median of `n` sorted keys: the lower one. A NaN, if there is one, is the median; or else
// (nan_median) only numbers count.
template <class Order>
__device__ inline unsigned median_rank(bool skip_nan, unsigned n, unsigned numbers) {
    if (numbers == n || !Order::floating) return (n - 1) / 2;
    if (skip_nan) return numbers ? (numbers - 1) / 2 : 0;
    return numbers;
}

// `source`, where given, tells the position that is written for each position in the row.
template <class Order, int Size, Pick Which>
__device__ inline void sort_tile(
    long long rows, unsigned n, unsigned first, unsigned count, const typename Order::Bits* in,
    const long long* source, typename Order::Bits* values, long long* indices) {
    typedef typename Order::Bits Bits;
    constexpr int threads = 256, tile = Size < 1024 ? 1024 : Size, teams = tile / Size, each = tile / threads;
    __shared__ Bits keys[tile];
    __shared__ unsigned short positions[tile];
    for (long long top = static_cast<long long>(blockIdx.x) * teams; top < rows;
         top += static_cast<long long>(gridDim.x) * teams) {
        // Positions past the end of a row have the largest key and the largest positions, so they stay last.
#pragma unroll
        for (int i = 0; i < each; ++i) {
            const unsigned at = i * threads + threadIdx.x, position = at % Size;
            const long long row = top + at / Size;
            keys[at] = row < rows && position < n ? Order::key(in[row * n + position]) : static_cast<Bits>(~Bits(0));
            positions[at] = position;
        }
        __syncthreads();
#pragma unroll 1
        for (int size = 2; size <= Size; size *= 2) {
#pragma unroll 1
            for (int step = size / 2; step > 0; step /= 2) {
#pragma unroll
                for (int i = 0; i < each / 2; ++i) {
                    const int pair = i * threads + threadIdx.x;
                    const int low = 2 * pair - (pair & (step - 1)), high = low + step;
                    const Bits a = keys[low], b = keys[high];
                    const unsigned short p = positions[low], q = positions[high];
                    const bool ascending = size == Size || (low & size) == 0;
                    if ((a > b || (a == b && p > q)) == ascending) {
                        keys[low] = b;
                        keys[high] = a;
                        positions[low] = q;
                        positions[high] = p;
                    }
                }
                // The next step goes over half the distance, or over `size` where this was the last of its stage.
                if ((step > 1 ? step : size) <= 32) __syncwarp();
                else __syncthreads();
            }
        }
        __syncthreads();
        Bits value[each];
        long long to[each], position[each];
#pragma unroll
        for (int i = 0; i < each; ++i) {
            const unsigned at = i * threads + threadIdx.x;
            const unsigned rank = at % Size;
            const long long row = top + at / Size;
            unsigned start = first;
            if constexpr (Which != Pick::range) {
                unsigned low = 0, high = n;  // the first NaN
                if (Order::floating && row < rows && rank == 0) {
                    while (low < high) {
                        const unsigned middle = (low + high) / 2;
                        if (keys[at + middle] == Order::nan_key) high = middle;
                        else low = middle + 1;
                    }
                }
                start = median_rank<Order>(Which == Pick::nan_median, n, high);
                to[i] = row < rows && rank == 0 ? row : -1;
            } else {
                to[i] = row < rows && rank >= first && rank - first < count ? row * count + rank - first : -1;
                start = rank;
            }
            if (to[i] >= 0) {
                const long long from = row * n + positions[at - rank + start];
                value[i] = in[from];
                position[i] = source ? source[from] : from - row * n;
            }
        }
        __syncthreads();  // values may lie over the rows that have just been read
#pragma unroll
        for (int i = 0; i < each; ++i) {
            if (to[i] >= 0) {
                values[to[i]] = value[i];
                indices[to[i]] = position[i];
            }
        }
    }
}

// How rows are cut into chunks: block `row * chunks + chunk` takes `piece` elements of a row.
struct Chunks {
    long long rows;
    unsigned n, chunks, piece;
};

template <class Order>
__device__ inline unsigned digit_of(typename Order::Bits x, int shift) {
    return static_cast<unsigned>(Order::key(x) >> shift) & (radix - 1);
}

// counts[row][digit][chunk]
template <class Order>
__device__ inline void radix_count(Chunks c, int shift, const typename Order::Bits* in, unsigned* counts) {
    __shared__ unsigned seen[radix];
    for (long long job = blockIdx.x; job < c.rows * c.chunks; job += gridDim.x) {
        const long long row = job / c.chunks;
        const unsigned chunk = job - row * c.chunks, first = chunk * c.piece, end = min(c.n - first, c.piece) + first;
        seen[threadIdx.x] = 0;
        __syncthreads();
#pragma unroll 4
        for (unsigned at = first + threadIdx.x; at < end; at += blockDim.x) {
            atomicAdd(seen + digit_of<Order>(in[row * c.n + at], shift), 1u);
        }
        __syncthreads();
        counts[(row * radix + threadIdx.x) * c.chunks + chunk] = seen[threadIdx.x];
    }
}

// In place: for every digit and chunk, the elements of the row that go before.
template <class Shape>
__device__ inline void radix_offsets(Chunks c, unsigned* counts) {
    typedef Add<unsigned> Op;
    const Team<Op, Shape> team;
    const unsigned length = radix * c.chunks;  // a multiple of the tile
    for (long long row = blockIdx.x; row < c.rows; row += gridDim.x) {
        unsigned* line = counts + row * length;
        unsigned carry = 0, total;
        for (unsigned at = team.rank * Shape::items; at < length + team.rank * Shape::items; at += Shape::tile) {
            unsigned own[Shape::items], sum = 0;
#pragma unroll
            for (int i = 0; i < Shape::items; ++i) {
                own[i] = at + i < length ? line[at + i] : 0;
                sum += own[i];
            }
            unsigned before = carry + team.scan(sum, total);
            carry += total;
#pragma unroll
            for (int i = 0; i < Shape::items; ++i) {
                if (at + i < length) line[at + i] = before;
                before += own[i];
            }
        }
    }
}

// First: positions are counted, not read. Last: positions are written as int64, through `source` where given.
template <class Order, int Items, bool First, bool Last>
__device__ inline void radix_scatter(
    Chunks c, int shift, const unsigned* offsets, const typename Order::Bits* in, const unsigned* in_places,
    const long long* source, typename Order::Bits* out, void* out_places) {
    typedef typename Order::Bits Bits;
    constexpr int threads = 256, warps = threads / 32, tile = threads * Items;
    typedef TeamShape<threads, 1, 1, false> Shape;
    const Team<Add<unsigned>, Shape> team;
    __shared__ unsigned counters[warps][radix];  // of each warp: how many of a digit; then where its first goes
    __shared__ unsigned shift_of[radix];         // from the position in the ordered tile to the position in the row
    __shared__ Bits ordered[tile];
    __shared__ unsigned ordered_places[tile];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, own = threadIdx.x;
    for (long long job = blockIdx.x; job < c.rows * c.chunks; job += gridDim.x) {
        const long long row = job / c.chunks, base = row * c.n;
        const unsigned chunk = job - row * c.chunks, first = chunk * c.piece, end = min(c.n - first, c.piece) + first;
        unsigned next = offsets[(row * radix + own) * c.chunks + chunk];
        for (unsigned start = first; start < end; start += min(static_cast<unsigned>(tile), end - start)) {
            const unsigned here = min(static_cast<unsigned>(tile), end - start);
            Bits x[Items];
            unsigned position[Items], digit[Items], rank[Items];
#pragma unroll
            for (int i = 0; i < Items; ++i) {
                const unsigned at = (warp * Items + i) * 32 + lane;
                const bool real = at < here;
                x[i] = real ? in[base + start + at] : Bits(0);
                position[i] = First ? start + at : real ? in_places[base + start + at] : 0;
                digit[i] = real ? digit_of<Order>(x[i], shift) : radix;
            }
#pragma unroll
            for (int w = 0; w < warps; ++w) counters[w][own] = 0;
            __syncthreads();
#pragma unroll
            for (int i = 0; i < Items; ++i) {
                const unsigned peers = __match_any_sync(~0u, digit[i]);
                const int leader = __ffs(peers) - 1;
                unsigned before = 0;
                if (lane == leader && digit[i] < radix) {
                    before = counters[warp][digit[i]];
                    counters[warp][digit[i]] = before + __popc(peers);
                }
                rank[i] = __shfl_sync(~0u, before, leader) + __popc(peers & ((1u << lane) - 1));
                __syncwarp();
            }
            __syncthreads();
            unsigned total = 0, all;
#pragma unroll
            for (int w = 0; w < warps; ++w) total += counters[w][own];
            unsigned begin = team.scan(total, all);
            shift_of[own] = next - begin;
            next += total;
#pragma unroll
            for (int w = 0; w < warps; ++w) {
                const unsigned mine = counters[w][own];
                counters[w][own] = begin;
                begin += mine;
            }
            __syncthreads();
#pragma unroll
            for (int i = 0; i < Items; ++i) {
                if (digit[i] < radix) {
                    const unsigned to = counters[warp][digit[i]] + rank[i];
                    ordered[to] = x[i];
                    ordered_places[to] = position[i];
                }
            }
            __syncthreads();
            for (unsigned at = own; at < here; at += threads) {
                const Bits value = ordered[at];
                const unsigned from = ordered_places[at];
                const long long to = base + (shift_of[digit_of<Order>(value, shift)] + at);
                out[to] = value;
                if constexpr (Last) {
                    static_cast<long long*>(out_places)[to] = source ? source[base + from] : from;
                } else {
                    static_cast<unsigned*>(out_places)[to] = from;
                }
            }
            __syncthreads();
        }
    }
}
