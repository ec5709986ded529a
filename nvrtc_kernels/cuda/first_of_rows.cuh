// The first few elements of the sorted rows of a contiguous (rows, n) array, in order.
//
// A warp has a row. First each lane finds the least key of its own elements: the key that is the
// `count`-th among those of the lanes is no less than the `count`-th of the row. So what is wanted is among the elements up to
// it, which are few unless many are equal, and are collected and put in order. If they are too many, the exact key is found, and
// the first ones that are equal to it are taken.

#pragma once
#include "rows.cuh"
#include "sort_order.cuh"

constexpr int FIRST_THREADS = 256, FIRST_WARPS = FIRST_THREADS / 32, FIRST_MOST = 64;

// Keys of small elements are those of 32 bits whose upper ones they are: registers have no fewer.
template <class Order>
struct Wide : Order {
    typedef typename Order::Bits Bits;
    typedef Bits Key;
    __device__ static Key wide_key(Bits x) { return Order::key(x); }
};
template <class Small, Small Infinity, bool Signed, bool Descending>
struct WideOrder {
    typedef Small Bits;
    typedef unsigned int Key;
    static constexpr int shift = 32 - 8 * sizeof(Small);
    __device__ static Key wide_key(Small x) {
        return Order<Key, static_cast<Key>(Infinity) << shift, Signed, Descending>::key(static_cast<Key>(x) << shift);
    }
};
template <unsigned char Infinity, bool Signed, bool Descending>
struct Wide<Order<unsigned char, Infinity, Signed, Descending>> : WideOrder<unsigned char, Infinity, Signed, Descending> {};
template <unsigned short Infinity, bool Signed, bool Descending>
struct Wide<Order<unsigned short, Infinity, Signed, Descending>>
    : WideOrder<unsigned short, Infinity, Signed, Descending> {};

// The keys of a row, as its lanes go over them. Short rows are read once, and kept in `Packs` packs of a lane; of longer ones,
// where `Packs` is 0, every pass reads them.
template <class Order, int Width, int Packs>
struct RowKeys {
    typedef typename Order::Bits Bits;
    typedef typename Order::Key Key;
    const Bits* row;
    unsigned n;
    Key keys[Packs ? Packs : 1][Width];

    __device__ RowKeys(const Bits* row, unsigned n) : row(row), n(n) {
        if constexpr (Packs != 0) {
            Pack<Bits, Width> packs[Packs];
#pragma unroll
            for (int i = 0; i < Packs; ++i)
                if (at(i) < n) packs[i] = *reinterpret_cast<const Pack<Bits, Width>*>(row + at(i));
#pragma unroll
            for (int i = 0; i < Packs; ++i)
#pragma unroll
                for (int j = 0; j < Width; ++j)
                    keys[i][j] = at(i) < n ? Order::wide_key(packs[i].items[j]) : ~Key(0);
        }
    }
    __device__ static unsigned at(int i) { return (i * 32 + threadIdx.x % 32) * Width; }

    // `take(key, position)` for this lane's elements.
    template <class Take>
    __device__ void each(const Take& take) const {
        if constexpr (Packs != 0) {
#pragma unroll
            for (int i = 0; i < Packs; ++i)
#pragma unroll
                for (int j = 0; j < Width; ++j)
                    if (i * 32 * Width < n) take(keys[i][j], at(i) + j);
        } else {
            for (unsigned from = at(0); from < n; from += 32 * Width) {
                const Pack<Bits, Width> pack = *reinterpret_cast<const Pack<Bits, Width>*>(row + from);
#pragma unroll
                for (int j = 0; j < Width; ++j) take(Order::wide_key(pack.items[j]), from + j);
            }
        }
    }
    // `go_on = take(keys, position of the first)` for packs of all lanes together, in the order of the row, until it is false. This reads the row.
    template <class Take>
    __device__ void in_order(const Take& take) const {
        bool go_on = true;
#pragma unroll 1
        for (int i = 0; go_on && i * 32 * Width < n; ++i) {
            Key own[Width];
            Pack<Bits, Width> pack{};
            if (at(i) < n) pack = *reinterpret_cast<const Pack<Bits, Width>*>(row + at(i));
#pragma unroll
            for (int j = 0; j < Width; ++j) own[j] = Order::wide_key(pack.items[j]);
            go_on = take(own, at(i));
        }
    }
    // How many elements `holds(key, position)` says true of, in the whole row.
    template <class Condition>
    __device__ unsigned count(const Condition& holds) const {
        unsigned result = 0;
        each([&](Key key, unsigned position) { result += position < n && holds(key, position); });
#pragma unroll
        for (int by = 16; by; by /= 2) result += __shfl_xor_sync(~0u, result, by);
        return result;
    }
};

// The largest number of which `below(number)` are fewer than `count`; `highest` is its highest bit.
template <class Number, class Below>
__device__ inline Number number_by_bits(Number highest, unsigned count, const Below& below) {
    Number result = 0;
#pragma unroll 1
    for (Number bit = highest; bit; bit >>= 1)
        if (below(static_cast<Number>(result | bit)) < count) result |= bit;
    return result;
}

// What a warp has collected, in any order.
template <class Key>
struct Collection {
    Key keys[FIRST_MOST];
    unsigned positions[FIRST_MOST], count;

    // What `is_taken(key, position)` says, as much as there is room for; how much there is.
    template <class Row, class Condition>
    __device__ unsigned collect(const Row& row, const Condition& is_taken) {
        __syncwarp();  // what was collected before has been read
        if (threadIdx.x % 32 == 0) count = 0;
        __syncwarp();
        row.each([&](Key key, unsigned position) {
            if (!is_taken(key, position) || position >= row.n) return;
            const unsigned at = atomicAdd(&count, 1u);
            if (at < FIRST_MOST) {
                keys[at] = key;
                positions[at] = position;
            }
        });
        __syncwarp();
        return count;
    }
    // In addition the first `most` elements of the row that are equal to `equal`, of which there are so many.
    template <int Width, class Row>
    __device__ void add_first(const Row& row, unsigned most, Key equal) {
        const unsigned before = (1u << threadIdx.x % 32) - 1;
        unsigned first = count, end = count + most;
        __syncwarp();
        row.in_order([&](const Key (&keys_of)[Width], unsigned position) {
            unsigned own = first, all = 0;
            bool same[Width];
#pragma unroll
            for (int j = 0; j < Width; ++j) {
                same[j] = position + j < row.n && keys_of[j] == equal;
                const unsigned lanes = __ballot_sync(~0u, same[j]);
                own += __popc(lanes & before);
                all += __popc(lanes);
            }
#pragma unroll
            for (int j = 0; j < Width; ++j) {
                if (same[j] && own < end) {
                    keys[own] = equal;
                    positions[own] = position + j;
                }
                own += same[j];
            }
            first += all;
            return first < end;
        });
        __syncwarp();
    }
};

// `count` is at most 32, and every lane has an element.
template <class KeyOrder, int Width, int Packs>
__device__ void first_of_rows(
    long long rows, unsigned n, unsigned count, const typename KeyOrder::Bits* in, typename KeyOrder::Bits* values,
    long long* indices) {
    typedef Wide<KeyOrder> Order;
    typedef typename Order::Key Key;
    __shared__ Collection<Key> collections[FIRST_WARPS];
    const unsigned lane = threadIdx.x % 32;
    Collection<Key>& own = collections[threadIdx.x / 32];
    for (long long r = static_cast<long long>(blockIdx.x) * FIRST_WARPS + threadIdx.x / 32; r < rows;
         r += static_cast<long long>(gridDim.x) * FIRST_WARPS) {
        const RowKeys<Order, Width, Packs> row(in + r * n, n);
        Key least = ~Key(0);
        row.each([&](Key key, unsigned) { least = min(key, least); });
        // In the order of the lanes.
#pragma unroll
        for (unsigned size = 2; size <= 32; size *= 2) {
#pragma unroll
            for (unsigned step = size / 2; step; step /= 2) {
                const Key other = __shfl_xor_sync(~0u, least, step);
                const bool lower = ((lane & size) == 0) == ((lane & step) == 0);
                least = lower ? min(least, other) : max(least, other);
            }
        }
        const Key limit = __shfl_sync(~0u, least, count - 1);
        unsigned collected = own.collect(row, [&](Key key, unsigned) { return key <= limit; });
        if (collected > FIRST_MOST) {
            // The limit is the key of that rank, unless too many are less.
            Key exact = limit;
            unsigned less = row.count([&](Key key, unsigned) { return key < exact; });
            if (less >= count) {
                exact = number_by_bits<Key>(Key(1) << (8 * sizeof(Key) - 1), count, [&](Key trial) {
                    return row.count([&](Key key, unsigned) { return key < trial; });
                });
            }
            less = own.collect(row, [&](Key key, unsigned) { return key < exact; });
            own.template add_first<Width>(row, count - less, exact);
            collected = count;
        }
        for (unsigned i = lane; i < collected; i += 32) {
            const Key key = own.keys[i];
            const unsigned position = own.positions[i];
            unsigned rank = 0;
            for (unsigned other = 0; other < collected; ++other)
                rank += own.keys[other] < key || (own.keys[other] == key && own.positions[other] < position);
            if (rank < count) {
                values[r * count + rank] = row.row[position];
                indices[r * count + rank] = position;
            }
        }
    }
}
