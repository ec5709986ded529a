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
template <>
constexpr bool is_bfloat<BFloat16> = true;

// Sets all bits of those elements of the pair `x` that have the relation to theirs of `y`.
#define COMPARE_PAIRS(RELATION, result, x, y) \
    if constexpr (is_bfloat<Float>) { \
        asm("set." RELATION ".u32.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(x), "r"(y)); \
    } else { \
        asm("set." RELATION ".u32.f16x2 %0, %1, %2;" : "=r"(result) : "r"(x), "r"(y)); \
    }

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
    typedef Float Element;
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
#if __CUDA_ARCH__ >= 900
    static constexpr bool compares_pairs = true;
#else
    static constexpr bool compares_pairs = !is_bfloat<Float>;
#endif
    static __device__ unsigned int up_to_of_pairs(unsigned int x, unsigned int limit) {
        if constexpr (!compares_pairs) {
            return each_of_pairs(x, limit, [](Value a, Value b) { return is_up_to(a, b); });
        } else {
            unsigned int result;
            if constexpr (Descending) {
                COMPARE_PAIRS("geu", result, x, limit)
            } else {
                COMPARE_PAIRS("leu", result, x, limit)
            }
            return result;
        }
    }
    static __device__ unsigned int equal_of_pairs(unsigned int x, unsigned int y) {
        if constexpr (!compares_pairs) {
            return each_of_pairs(x, y, [](Value a, Value b) { return a == b || (a != a && b != b); });
        } else {
            unsigned int equal, x_numbers, y_numbers;
            COMPARE_PAIRS("eq", x_numbers, x, x)
            COMPARE_PAIRS("eq", y_numbers, y, y)
            COMPARE_PAIRS("eq", equal, x, y)
            return equal | ~(x_numbers | y_numbers);
        }
    }
    template <class Relation>
    static __device__ unsigned int each_of_pairs(unsigned int x, unsigned int y, const Relation& relation) {
        const bool low = relation(value(static_cast<Bits>(x)), value(static_cast<Bits>(y)));
        const bool high = relation(value(static_cast<Bits>(x >> 16)), value(static_cast<Bits>(y >> 16)));
        return (low ? 0xffffu : 0u) | (high ? 0xffff0000u : 0u);
    }
    // As that of sort_order.cuh; a sum with 0 has no negative zero.
    static __device__ Key key(Value x) {
        const int bits = x == x ? __float_as_int(x + 0.0f) : 0x7fffffff;
        const Key rising = bits ^ (bits >> 31 | 0x80000000);
        return Descending ? ~rising : rising;
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

// What is compared at once: one element, or two neighbours of half precision. Comparisons give masks; `flag << j` is the bit, or
// the two, that say something of the j-th of a pack.
template <class Ordered>
struct Single {
    typedef typename Ordered::Bits Word;
    typedef typename Ordered::Value Value;
    typedef Value Type;
    static constexpr int elements = 1;
    static constexpr unsigned flag = 1;
    static __device__ Type of_word(Word x) { return Ordered::value(x); }
    static __device__ Type of_value(Value x) { return x; }
    static __device__ Type last() { return Ordered::last(); }
    static __device__ Type first(Type a, Type b) { return Ordered::first(a, b); }
    static __device__ Value first_value(Type x) { return x; }
    static __device__ unsigned up_to(Type x, Type limit) { return Ordered::is_up_to(x, limit) ? ~0u : 0; }
    static __device__ unsigned equal(Type x, Type y) { return Ordered::key(x) == Ordered::key(y) ? ~0u : 0; }
    template <class Takes>
    static __device__ unsigned which(Type x, const Takes& takes) { return takes(x) ? ~0u : 0; }
    static __device__ unsigned either(unsigned bits) { return bits; }
    static __device__ unsigned element_of(unsigned bit) { return bit; }
    static __device__ unsigned bit_of(unsigned element) { return element; }
};

template <class Ordered>
struct Pair {
    typedef unsigned int Word;
    typedef typename Ordered::Value Value;
    typedef unsigned int Type;
    static constexpr int elements = 2;
    static constexpr unsigned flag = 0x10001;
    static __device__ Type of_word(Word x) { return x; }
    static __device__ Type of_value(Value x) {
        const auto element = to_element<typename Ordered::Element>(x);
        unsigned short bits;
        memcpy(&bits, &element, sizeof(bits));
        return bits * flag;
    }
    static __device__ Type last() { return of_value(Ordered::last()); }
    static __device__ Type first(Type a, Type b) { return Ordered::first_of_pairs(a, b); }
    static __device__ Value low(Type x) { return Ordered::value(static_cast<typename Ordered::Bits>(x)); }
    static __device__ Value high(Type x) { return Ordered::value(static_cast<typename Ordered::Bits>(x >> 16)); }
    static __device__ Value first_value(Type x) { return Ordered::first(low(x), high(x)); }
    static __device__ unsigned up_to(Type x, Type limit) { return Ordered::up_to_of_pairs(x, limit); }
    static __device__ unsigned equal(Type x, Type y) { return Ordered::equal_of_pairs(x, y); }
    template <class Takes>
    static __device__ unsigned which(Type x, const Takes& takes) {
        return (takes(low(x)) ? 0xffffu : 0) | (takes(high(x)) ? 0xffff0000u : 0);
    }
    static __device__ unsigned either(unsigned bits) { return (bits | bits >> 16) & 0xffff; }
    static __device__ unsigned element_of(unsigned bit) { return bit % 16 * 2 + bit / 16; }
    static __device__ unsigned bit_of(unsigned element) { return element / 2 + element % 2 * 16; }
};

// A row, as its lanes go over it: pack i of a lane is one of the 32 that lie together.
template <class Ordered, int Width>
struct PackedRow {
    typedef typename Ordered::Bits Bits;
    typedef typename Ordered::Key Key;
    typedef typename Ordered::Value Value;
    typedef typename Either<has_pairs<Ordered> && Width % 2 == 0, Pair<Ordered>, Single<Ordered>>::Type Lot;
    typedef typename Lot::Type Type;
    static constexpr int lots = Width / Lot::elements;
    const Bits* row;
    unsigned n;

    __device__ static unsigned at(unsigned i) { return (i * 32 + threadIdx.x % 32) * Width; }
    __device__ unsigned packs() const { return (n + 32 * Width - 1) / (32 * Width); }
    __device__ void load(unsigned i, Type (&values)[lots]) const {
        if (at(i) < n) {
            typedef Pack<typename Lot::Word, lots> Words;
            const Words pack = *reinterpret_cast<const Words*>(row + at(i));
#pragma unroll
            for (int j = 0; j < lots; ++j) values[j] = Lot::of_word(pack.items[j]);
        } else {
#pragma unroll
            for (int j = 0; j < lots; ++j) values[j] = Lot::last();
        }
    }
    __device__ Type first_of_pack(unsigned i) const {
        Type values[lots];
        load(i, values);
        Type result = values[0];
#pragma unroll
        for (int j = 1; j < lots; ++j) result = Lot::first(result, values[j]);
        return result;
    }
    // Which elements of pack i of this lane are those that the mask `takes(values)` says, as bits.
    template <class Takes>
    __device__ unsigned taken(unsigned i, const Takes& takes) const {
        Type values[lots];
        load(i, values);
        unsigned bits = 0;
#pragma unroll
        for (int j = 0; j < lots; ++j) bits |= takes(values[j]) & Lot::flag << j;
        return at(i) < n ? bits : 0;
    }
    // The mask of those that come before a key.
    __device__ static unsigned comes_before(Type values, Key key) {
        return Lot::which(values, [&](Value value) { return Ordered::key(value) < key; });
    }
    // How many elements of the row come before a key.
    __device__ unsigned before(Key key) const {
        unsigned result = 0;
        for (unsigned i = 0; i < packs(); ++i)
            result += __popc(taken(i, [&](Type values) { return comes_before(values, key); }));
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
    Rank() = default;
    __device__ Rank(Key key, unsigned position) : key(key), position(position) {}
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

// The same of half precision and fewer than 2^13 positions: as floats, keys differ in the upper 19 bits.
struct ShortRank {
    unsigned both;
    ShortRank() = default;
    __device__ ShortRank(unsigned key, unsigned position) : both((key & ~0x1fffu) | position) {}
    __device__ bool operator<(const ShortRank& other) const { return both < other.both; }
};

// Positions that a warp has collected, in any order, up to what there is room for. Lanes have their ranks from votes: atomics
// would meet in one bank where many elements are taken.
template <class Rank>
struct Collection {
    Pack<Rank, 4> ranks[FIRST_MOST / 4];
    unsigned positions[FIRST_MOST];

    // One more of each lane that `has` one; how many there are then.
    __device__ unsigned add(unsigned count, bool has, unsigned position) {
        const unsigned lanes = __ballot_sync(~0u, has), at = count + __popc(lanes & ((1u << threadIdx.x % 32) - 1));
        if (has && at < FIRST_MOST) positions[at] = position;
        return count + __popc(lanes);
    }

    // Of a lane's `packs` the elements that `takes(values)` says.
    template <class Row, class Takes>
    __device__ unsigned add_packs(const Row& row, unsigned packs, const Takes& takes) {
        unsigned count = 0, elements = 0, start = 0;
        while (count <= FIRST_MOST && __any_sync(~0u, packs | elements)) {
            if (elements == 0 && packs != 0) {
                const unsigned i = __ffs(packs) - 1;
                packs &= packs - 1;
                start = row.at(i);
                elements = row.taken(i, takes);
            }
            count = add(count, elements != 0, start + Row::Lot::element_of(__ffs(elements) - 1));
            elements &= elements - 1;
        }
        return count;
    }

    // Of all packs.
    template <class Row, class Takes>
    __device__ unsigned add_row(const Row& row, const Takes& takes) {
        unsigned count = 0;
        for (unsigned i = 0; i < row.packs() && count <= FIRST_MOST; ++i) {
            unsigned elements = row.taken(i, takes);
            while (__any_sync(~0u, elements)) {
                count = add(count, elements != 0, row.at(i) + Row::Lot::element_of(__ffs(elements) - 1));
                elements &= elements - 1;
            }
        }
        return count;
    }

    // In addition to the first `count` the first elements of the row that are equal to others, up to `end`: there are so many.
    template <int Width, class Row>
    __device__ void add_equal(const Row& row, unsigned count, unsigned end, typename Row::Type others) {
        const unsigned lane = threadIdx.x % 32;
#pragma unroll 1
        for (unsigned i = 0; count < end; ++i) {
            const unsigned equal = row.taken(i, [&](typename Row::Type values) { return Row::Lot::equal(values, others); });
            // How many the lanes up to this one have.
            unsigned up_to = __popc(equal);
#pragma unroll
            for (unsigned by = 1; by < 32; by *= 2) {
                const unsigned lower = __shfl_up_sync(~0u, up_to, by);
                if (lane >= by) up_to += lower;
            }
            unsigned own = count + up_to - __popc(equal);
            count += __shfl_sync(~0u, up_to, 31);
#pragma unroll
            for (int j = 0; j < Width; ++j) {
                const bool has = equal >> Row::Lot::bit_of(j) & 1;
                if (has && own < end) positions[own] = row.at(i) + j;
                own += has;
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

__device__ inline unsigned sum_of_lanes(unsigned own) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(~0u, own);
#else
#pragma unroll
    for (int by = 16; by; by /= 2) own += __shfl_xor_sync(~0u, own, by);
    return own;
#endif
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
    typedef typename Row::Lot Lot;
    typedef typename Row::Type Type;
    typedef typename Either<has_pairs<Ordered> && Packs != 0, ShortRank, Rank<Key>>::Type Ranked;
    static_assert(32 * Width * Packs <= 1 << 13, "positions of short ranks have 13 bits");
    __shared__ Collection<Ranked> collections[FIRST_WARPS];
    const unsigned lane = threadIdx.x % 32;
    // So the compiler knows that lanes stay together.
    const unsigned warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    Collection<Ranked>& own = collections[warp];
    // Packs of this lane that are not behind the end of the row.
    unsigned there = 0;
#pragma unroll
    for (int i = 0; i < Packs; ++i) there |= (Row::at(i) < n) << i;
    for (long long r = static_cast<long long>(blockIdx.x) * FIRST_WARPS + warp; r < rows;
         r += static_cast<long long>(gridDim.x) * FIRST_WARPS) {
        const Row row{in + r * n, n};
        Type firsts[Packs ? Packs : 1], first = Lot::last();
        if constexpr (Packs != 0) {
#pragma unroll
            for (int i = 0; i < Packs; ++i) firsts[i] = row.first_of_pack(i);
#pragma unroll
            for (int i = 0; i < Packs; ++i) first = Lot::first(first, firsts[i]);
        } else {
#pragma unroll 4
            for (unsigned i = 0; i < row.packs(); ++i) first = Lot::first(first, row.first_of_pack(i));
        }
        const Key key = Ordered::key(Lot::first_value(first)), limit = __shfl_sync(~0u, sorted_lanes(key), count - 1);
        const Type last = Lot::of_value(Ordered::of_key(limit));
        const auto up_to_limit = [&](Type values) { return Lot::up_to(values, last); };
        __syncwarp();  // what was collected before has been read
        unsigned collected = 0;
        if constexpr (Packs != 0) {
            unsigned packs = 0;
#pragma unroll
            for (int i = 0; i < Packs; ++i) packs |= up_to_limit(firsts[i]) & Lot::flag << i;
            packs = Lot::either(packs) & there;
            // Each of them has such an element: there is no need to collect what is too much.
            collected = sum_of_lanes(__popc(packs));
            if (collected <= FIRST_MOST) collected = own.add_packs(row, packs, up_to_limit);
        } else {
            collected = own.add_row(row, up_to_limit);
        }
        // Whether what is collected is in order.
        bool in_order = false;
        if (collected > FIRST_MOST) {
            // The limit is the key of that rank, unless too many come before.
            Key exact = limit;
            unsigned before = __any_sync(~0u, key < exact) ? row.before(exact) : 0;
            if (before >= count) {
                exact = key_of_rank<Key>(count, [&](Key trial) { return row.before(trial); });
                before = row.before(exact);
            }
            __syncwarp();
            if (before) own.add_row(row, [&](Type values) { return Row::comes_before(values, exact); });
            own.template add_equal<Width>(row, before, count, Lot::of_value(Ordered::of_key(exact)));
            collected = count;
            in_order = before == 0;
        }
        __syncwarp();
        if (!in_order) {
            // Ranks are read four at a time: those behind the end are larger than all others.
            for (unsigned i = lane; i < (collected + 3 & ~3u); i += 32) {
                Ranked rank(~Key(0), ~0u);
                if (i < collected) {
                    const unsigned position = own.positions[i];
                    rank = Ranked(Ordered::key(Ordered::value(row.row[position])), position);
                }
                own.ranks[i / 4].items[i % 4] = rank;
            }
            __syncwarp();
        }
        for (unsigned i = lane; i < collected; i += 32) {
            const unsigned position = own.positions[i];
            unsigned rank = in_order ? i : 0;
            if (!in_order) {
                const Ranked mine = own.ranks[i / 4].items[i % 4];
#pragma unroll 2
                for (unsigned other = 0; other < collected; other += 4) {
                    const Pack<Ranked, 4> four = own.ranks[other / 4];
#pragma unroll
                    for (int k = 0; k < 4; ++k) rank += four.items[k] < mine;
                }
            }
            if (rank < count) {
                values[r * count + rank] = row.row[position];
                indices[r * count + rank] = position;
            }
        }
    }
}
