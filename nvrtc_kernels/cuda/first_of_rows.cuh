// The first few elements of the sorted rows of a contiguous (rows, n) array, in order.
//
// A warp has a row, and a lane the packs of it that the lane reads. First each lane finds which of its elements comes first:
// the one that is the `count`-th among those of the lanes is no earlier than the `count`-th of the row. So what is asked for
// is among the elements up to it, which are few unless many are equal. Packs of short rows are remembered by their first
// element, and only those that have such elements are read once more, to collect them and put them in order. If they are too
// many, the exact key is computed, and the first ones that are equal to it are taken.

#pragma once
#include "rows.cuh"
#include "sort_order.cuh"

constexpr int FIRST_THREADS = 256, FIRST_WARPS = FIRST_THREADS / 32, FIRST_MOST = 64;

// Elements in an order, as values that are quick to compare, and as keys. Here a value is a key, of at least 32 bits:
// registers have no fewer.
template <class KeyOrder, class Key_>
struct OrderedKeys {
    typedef typename KeyOrder::Bits Bits;
    typedef Key_ Key;
    typedef Key_ Value;
    static __device__ Value value(Bits x) { return KeyOrder::key(x); }
    static __device__ Value last() { return ~Key(0); }
    static __device__ Value first(Value a, Value b) { return min(a, b); }
    static __device__ bool is_up_to(Value x, Value limit) { return x <= limit; }
    static __device__ Key key(Value x) { return x; }
    static __device__ Value of_key(Key key) { return key; }
};

template <class T>
constexpr bool is_bfloat = false;
#ifdef __CUDA_BF16_TYPES_EXIST__
template <>
constexpr bool is_bfloat<__nv_bfloat16> = true;
#endif

// Numbers of up to 32 bits are compared as floats, which takes one instruction where a key takes eight.
template <class Float, class Bits_, bool Descending>
struct OrderedFloats {
    typedef Bits_ Bits;
    typedef unsigned int Key;
    typedef float Value;
    static __device__ Value value(Bits x) {
        Float element;
        memcpy(&element, &x, sizeof(x));
        return to_compute(element);
    }
    static __device__ Value last() { return __int_as_float(Descending ? 0xff800000 : 0x7fffffff); }
    // NaN is the largest number: the first one in descending order, and the last one in ascending order.
    static __device__ Value first(Value a, Value b) {
        if constexpr (!Descending) return fminf(a, b);
#if __CUDA_ARCH__ >= 800
        float result;
        asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
        return result;
#else
        return a != a || a > b ? a : b;
#endif
    }
    // True of NaNs that come later too.
    static __device__ bool is_up_to(Value x, Value limit) { return Descending ? !(x < limit) : !(x > limit); }
    // The same of two elements of half precision at once.
    static constexpr bool pairs = sizeof(Bits) == 2;
    static __device__ unsigned int first_of_pairs(unsigned int a, unsigned int b) {
        unsigned int result;
        if constexpr (is_bfloat<Float> && Descending) {
            asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
        } else if constexpr (is_bfloat<Float>) {
            asm("min.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
        } else if constexpr (Descending) {
            asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
        } else {
            asm("min.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
        }
        return result;
    }
    static __device__ Key key(Value x) {
        return Order<Key, 0x7f800000, false, Descending>::key(static_cast<Key>(__float_as_int(x)));
    }
    static __device__ Value of_key(Key key) {
        if constexpr (Descending) key = ~key;
        return __int_as_float(key >> 31 ? key & 0x7fffffff : ~key);
    }
};

// Whether the first one of elements is found two at a time, of half precision.
template <class Ordered, class = void>
constexpr bool has_pairs = false;
#if __CUDA_ARCH__ >= 800
template <class Ordered>
constexpr bool has_pairs<Ordered, decltype(void(Ordered::pairs))> = Ordered::pairs;
#endif

// A row, as its lanes go over it: pack i of a lane is one of the 32 that lie together.
template <class Ordered, int Width>
struct PackedRow {
    typedef typename Ordered::Bits Bits;
    typedef typename Ordered::Value Value;
    typedef typename Ordered::Key Key;
    const Bits* row;
    unsigned n;

    __device__ static unsigned at(unsigned i) { return (i * 32 + threadIdx.x % 32) * Width; }
    __device__ unsigned packs() const { return (n + 32 * Width - 1) / (32 * Width); }
    __device__ void load(unsigned i, Value (&values)[Width]) const {
        if (at(i) < n) {
            const Pack<Bits, Width> pack = *reinterpret_cast<const Pack<Bits, Width>*>(row + at(i));
#pragma unroll
            for (int j = 0; j < Width; ++j) values[j] = Ordered::value(pack.items[j]);
        } else {
#pragma unroll
            for (int j = 0; j < Width; ++j) values[j] = Ordered::last();
        }
    }
    __device__ Value first_of_pack(unsigned i) const {
        if constexpr (has_pairs<Ordered> && Width % 2 == 0) {
            if (at(i) >= n) return Ordered::last();
            const Pack<unsigned int, Width / 2> pack = *reinterpret_cast<const Pack<unsigned int, Width / 2>*>(row + at(i));
            unsigned int pair = pack.items[0];
#pragma unroll
            for (int j = 1; j < Width / 2; ++j) pair = Ordered::first_of_pairs(pair, pack.items[j]);
            return Ordered::first(Ordered::value(static_cast<Bits>(pair)), Ordered::value(static_cast<Bits>(pair >> 16)));
        } else {
            Value values[Width];
            load(i, values);
            Value result = values[0];
#pragma unroll
            for (int j = 1; j < Width; ++j) result = Ordered::first(result, values[j]);
            return result;
        }
    }
    // How many elements of the row come before a key.
    __device__ unsigned before(Key key) const {
        unsigned result = 0;
        for (unsigned i = 0; i < packs(); ++i) {
            Value values[Width];
            load(i, values);
#pragma unroll
            for (int j = 0; j < Width; ++j) result += at(i) < n && Ordered::key(values[j]) < key;
        }
#pragma unroll
        for (int by = 16; by; by /= 2) result += __shfl_xor_sync(~0u, result, by);
        return result;
    }
};

// The largest key of which `before(key)` are fewer than `count`.
template <class Key, class Before>
__device__ inline Key key_of_rank(unsigned count, const Before& before) {
    Key result = 0;
#pragma unroll 1
    for (Key bit = Key(1) << (8 * sizeof(Key) - 1); bit; bit >>= 1)
        if (before(static_cast<Key>(result | bit)) < count) result |= bit;
    return result;
}

// A key, and the position that tells equal ones apart: in one number where both have room.
template <class Key>
struct Rank {
    Key key;
    unsigned position;
    __device__ bool operator<(const Rank& other) const {
        return key < other.key || (key == other.key && position < other.position);
    }
};
template <>
struct Rank<unsigned int> {
    unsigned long long both;
    Rank() = default;
    __device__ Rank(unsigned key, unsigned position) : both(static_cast<unsigned long long>(key) << 32 | position) {}
    __device__ bool operator<(const Rank& other) const { return both < other.both; }
};

// Positions that a warp has collected, in any order, up to what there is room for. Lanes have their ranks from votes: atomics
// would meet in one bank where many elements are taken.
template <class Key>
struct Collection {
    Rank<Key> ranks[FIRST_MOST];
    unsigned positions[FIRST_MOST];

    // One more of each lane that `has` one; how many there are then.
    __device__ unsigned add(unsigned count, bool has, unsigned position) {
        const unsigned lanes = __ballot_sync(~0u, has), at = count + __popc(lanes & ((1u << threadIdx.x % 32) - 1));
        if (has && at < FIRST_MOST) positions[at] = position;
        return count + __popc(lanes);
    }

    // Of a lane's `packs` the elements that `takes(value)` says.
    template <class Ordered, int Width, class Takes>
    __device__ unsigned add_packs(const PackedRow<Ordered, Width>& row, unsigned packs, const Takes& takes) {
        unsigned count = 0, elements = 0, start = 0;
        while (count <= FIRST_MOST && __any_sync(~0u, packs | elements)) {
            if (elements == 0 && packs != 0) {
                const unsigned i = __ffs(packs) - 1;
                packs &= packs - 1;
                start = row.at(i);
                elements = taken(row, i, takes);
            }
            count = add(count, elements != 0, start + __ffs(elements) - 1);
            elements &= elements - 1;
        }
        return count;
    }

    // Of all packs.
    template <class Ordered, int Width, class Takes>
    __device__ unsigned add_row(const PackedRow<Ordered, Width>& row, const Takes& takes) {
        unsigned count = 0;
        for (unsigned i = 0; i < row.packs() && count <= FIRST_MOST; ++i) {
            unsigned elements = taken(row, i, takes);
            while (__any_sync(~0u, elements)) {
                count = add(count, elements != 0, row.at(i) + __ffs(elements) - 1);
                elements &= elements - 1;
            }
        }
        return count;
    }

    // Of pack i of this lane, as bits.
    template <class Ordered, int Width, class Takes>
    __device__ static unsigned taken(const PackedRow<Ordered, Width>& row, unsigned i, const Takes& takes) {
        typename Ordered::Value values[Width];
        row.load(i, values);
        unsigned bits = 0;
#pragma unroll
        for (int j = 0; j < Width; ++j)
            if (takes(values[j])) bits |= 1u << j;
        return row.at(i) < row.n ? bits : 0;
    }

    // In addition to the first `count` the first elements of the row with key `equal`, up to `end`: there are so many.
    template <class Ordered, int Width>
    __device__ void add_equal(const PackedRow<Ordered, Width>& row, unsigned count, unsigned end, Key equal) {
        const unsigned before = (1u << threadIdx.x % 32) - 1;
#pragma unroll 1
        for (unsigned i = 0; count < end; ++i) {
            typename Ordered::Value values[Width];
            row.load(i, values);
            unsigned own = count;
            bool same[Width];
#pragma unroll
            for (int j = 0; j < Width; ++j) {
                same[j] = row.at(i) < row.n && Ordered::key(values[j]) == equal;
                const unsigned lanes = __ballot_sync(~0u, same[j]);
                own += __popc(lanes & before);
                count += __popc(lanes);
            }
#pragma unroll
            for (int j = 0; j < Width; ++j) {
                if (same[j] && own < end) positions[own] = row.at(i) + j;
                own += same[j];
            }
        }
    }
};

// The keys of lanes in order. Where keys are to fall on the way, those that are complemented rise, so that the lower lane of
// each two always takes the smaller one.
template <class Key>
__device__ inline Key sorted_lanes(Key own) {
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned size = 2; size <= 32; size *= 2) {
        const Key complement = lane & size ? ~Key(0) : Key(0);
        own ^= complement;
#pragma unroll
        for (unsigned step = size / 2; step; step /= 2) {
            const Key other = __shfl_xor_sync(~0u, own, step);
            const bool lower = (lane & step) == 0;
            own = (own < other) == lower ? own : other;
        }
        own ^= complement;
    }
    return own;
}

// `count` is at most 32, and every lane has an element. `Packs` are those of a lane, where there are few enough to remember,
// and otherwise 0.
template <class Ordered, int Width, int Packs>
__device__ void first_of_rows(
    long long rows, unsigned n, unsigned count, const typename Ordered::Bits* in, typename Ordered::Bits* values,
    long long* indices) {
    typedef typename Ordered::Key Key;
    typedef typename Ordered::Value Value;
    typedef PackedRow<Ordered, Width> Row;
    __shared__ Collection<Key> collections[FIRST_WARPS];
    const unsigned lane = threadIdx.x % 32;
    // So the compiler knows that lanes stay together.
    const unsigned warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    Collection<Key>& own = collections[warp];
    for (long long r = static_cast<long long>(blockIdx.x) * FIRST_WARPS + warp; r < rows;
         r += static_cast<long long>(gridDim.x) * FIRST_WARPS) {
        const Row row{in + r * n, n};
        Value firsts[Packs ? Packs : 1], first = Ordered::last();
        if constexpr (Packs != 0) {
#pragma unroll
            for (int i = 0; i < Packs; ++i) firsts[i] = row.first_of_pack(i);
#pragma unroll
            for (int i = 0; i < Packs; ++i) first = Ordered::first(first, firsts[i]);
        } else {
#pragma unroll 4
            for (unsigned i = 0; i < row.packs(); ++i) first = Ordered::first(first, row.first_of_pack(i));
        }
        const Key key = Ordered::key(first), limit = __shfl_sync(~0u, sorted_lanes(key), count - 1);
        const Value last = Ordered::of_key(limit);
        const auto is_up_to_limit = [&](Value value) { return Ordered::is_up_to(value, last); };
        __syncwarp();  // what was collected before has been read
        unsigned collected = 0;
        if constexpr (Packs != 0) {
            unsigned packs = 0;
#pragma unroll
            for (int i = 0; i < Packs; ++i)
                if (is_up_to_limit(firsts[i]) && Row::at(i) < n) packs |= 1u << i;
            collected = own.add_packs(row, packs, is_up_to_limit);
        } else {
            collected = own.add_row(row, is_up_to_limit);
        }
        if (collected > FIRST_MOST) {
            // The limit is the key of that rank, unless too many come before.
            Key exact = limit;
            unsigned before = __any_sync(~0u, key < exact) ? row.before(exact) : 0;
            if (before >= count) {
                exact = key_of_rank<Key>(count, [&](Key trial) { return row.before(trial); });
                before = row.before(exact);
            }
            __syncwarp();
            if (before) own.add_row(row, [&](Value value) { return Ordered::key(value) < exact; });
            own.add_equal(row, before, count, exact);
            collected = count;
        }
        __syncwarp();
        for (unsigned i = lane; i < collected; i += 32) {
            const unsigned position = own.positions[i];
            own.ranks[i] = Rank<Key>{Ordered::key(Ordered::value(row.row[position])), position};
        }
        __syncwarp();
        for (unsigned i = lane; i < collected; i += 32) {
            const Rank<Key> mine = own.ranks[i];
            const unsigned position = own.positions[i];
            unsigned rank = 0;
#pragma unroll 4
            for (unsigned other = 0; other < collected; ++other) rank += own.ranks[other] < mine;
            if (rank < count) {
                values[r * count + rank] = row.row[position];
                indices[r * count + rank] = position;
            }
        }
    }
}
