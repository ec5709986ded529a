// What forward and backward of attention on tensor cores have in common: where sequences lie, which keys a query sees, how rows
// come to shared memory and results from registers.

#pragma once
#include "attention.cuh"
#include "exponentials.cuh"
#include "fragments.cuh"

template <class Team, class T, int Width, int Own, int Keys, int Piece, int Rank>
struct CopiedTiles;
template <class Team, class T, int Piece, int Rank>
struct CopiedRows;
template <class Team>
struct CopiedArrivals;

// What a team reads operands from, and how, where its threads copy.
template <class Team>
struct Copying {
    template <class T>
    using Source = T;
    template <class T, int Width, int Own, int Keys, int Piece, int Rank>
    using Tiles = CopiedTiles<Team, T, Width, Own, Keys, Piece, Rank>;
    // The same for backward: rows of an operand's matrix, and how the block is told that they have arrived.
    template <class T, int Piece, int Rank>
    using Rows = CopiedRows<Team, T, Piece, Rank>;
    typedef CopiedArrivals<Team> Arrivals;
};

// Who multiplies: a block's four warps, each its own rows, by `mma.sync`. The other way is Warpgroups
// (warpgroup_attention.cuh), which has the same members.
struct Warps : Copying<Warps> {
    static constexpr int count = 4, threads = 128;
    // Rows of operands in shared memory.
    template <class T, int Width, int Rows>
    using Tile = SharedRows<T, Width>;
    // `Groups` times 16 rows of each warp that are the left operand of many products, from row `warp * Groups * 16` on.
    template <class T, int Width, int Rows, int Parts, int Groups, int Held>
    using Left = LeftRows<T, Width, Parts, Groups, Held>;

    // What this thread has copied is there for products behind the next barrier.
    static __device__ void show() {}
};

// Strides of `Count` operands over the dimensions of their matrices, and between rows; in elements. The first four are
// queries, keys, values and results; then come gradients of these, those of results first.
template <int Rank, int Count>
struct AttentionOperands {
    long long sizes[Rank];
    long long strides[Count][Rank];
    long long row[Count];
    int positions, keys;
    int groups;         // matrices of queries that share one of keys
    int width, values;  // of rows; at most the kernel's own
    int before, after;  // keys that a query sees beside that of its own position
    int descending;     // whether blocks of the last rows come first, as they see most

    // Elements to the first one of a matrix of each operand.
    __device__ void find(long long matrix, long long (&at)[Count]) const {
#pragma unroll
        for (int i = 0; i < Count; ++i) at[i] = 0;
#pragma unroll
        for (int d = Rank - 1; d >= 0; --d) {
            const long long index = d ? matrix % sizes[d] : matrix;
            matrix /= sizes[d];
#pragma unroll
            for (int i = 0; i < Count; ++i) at[i] += index * strides[i][d];
        }
    }
};

enum AttentionOperand { QUERY, KEY, VALUE, RESULT, GRAD, GRAD_QUERY, GRAD_KEY, GRAD_VALUE };

// A matrix's rows of queries and of keys. Those of all matrices are numbered through.
struct Sequence {
    long long first_query, first_key, number;
    int positions, keys;
    int shift;  // position of the key that belongs to the first query

    // What is added to an operand's address.
    template <int Rank, int Count>
    __device__ long long rows(const AttentionOperands<Rank, Count>& operands, AttentionOperand operand) const {
        const bool of_keys = operand == KEY || operand == VALUE || operand == GRAD_KEY || operand == GRAD_VALUE;
        return (of_keys ? first_key : first_query) * operands.row[operand];
    }
};

// Matrices of one length.
struct EqualLengths {
    static constexpr bool has_begin = false;

    template <int Rank, int Count>
    __device__ Sequence of(const AttentionOperands<Rank, Count>& operands, long long matrix) const {
        return {0, 0, matrix * operands.positions, operands.positions, operands.keys, 0};
    }
};

// Sequences one behind the other: `queries[i]` and `keys[i]` are the first rows of the i-th, whose last query belongs to its
// last key. Matrices are `heads` of each.
struct PackedSequences {
    static constexpr bool has_begin = true;
    const int *queries, *keys;
    long long heads, all_queries;

    template <int Rank, int Count>
    __device__ Sequence of(const AttentionOperands<Rank, Count>&, long long matrix) const {
        const int i = static_cast<int>(matrix / heads);
        const int first = queries[i], first_key = keys[i];
        const int positions = queries[i + 1] - first, count = keys[i + 1] - first_key;
        return {first, first_key, matrix % heads * all_queries + first, positions, count, count - positions};
    }
};

// The keys that a query sees, from the first to before the last; and the queries that see a key. Sizes, and `before` and `after`, are
// at most 2^29.
struct Window {
    int positions, keys, shift, before, after;

    template <int Rank, int Count>
    __device__ Window(const AttentionOperands<Rank, Count>& operands, const Sequence& sequence)
        : positions(sequence.positions), keys(sequence.keys), shift(sequence.shift), before(operands.before),
          after(operands.after) {}

    __device__ int begin(int position) const { return max(0, position + shift - before); }
    __device__ int end(int position) const { return min(keys, max(0, position + shift + after + 1)); }
    __device__ int first_query(int key) const { return max(0, key - shift - after); }
    __device__ int end_of_queries(int key) const { return min(positions, max(0, key - shift + before + 1)); }
};

template <class M>
constexpr bool is_masked = true;
template <>
constexpr bool is_masked<NoMask> = false;

template <class D>
constexpr bool is_dropping = true;
template <>
constexpr bool is_dropping<NoDropout> = false;

// `Rows` rows to shared memory, `Piece` elements at a time, zeros behind `count` rows and behind the width. What a thread
// copies lies in one column, at the same distance from row to row.
template <int Threads, int Rows, int Piece, class T, class Tile>
__device__ inline void fetch_tile(const Tile& to, const T* from, long long row_stride, int count, int width) {
    constexpr int per_chunk = Tile::per_chunk, pieces = Tile::chunks * per_chunk / Piece;
    if constexpr (pieces > Threads || Piece * sizeof(T) < 4) {
        fetch_rows<Rows, Piece, Threads>(to, from, row_stride, 0, count, width);
    } else {
        constexpr int step = Threads / pieces;
        static_assert(Rows % step == 0, "all threads copy as much");
        const int row = threadIdx.x / pieces, column = threadIdx.x % pieces * Piece;
        const int left = column < width ? count - row : 0;
        const T* element = from + row * row_stride + column;
#pragma unroll 8
        for (int i = 0; i < Rows; i += step) {
            copy_async<Piece * sizeof(T)>(to.at(row + i, column / per_chunk) + column % per_chunk, i < left ? element : from, i < left);
            element += step * row_stride;
        }
    }
}

// The queries of a block of forward, its keys and its values in shared memory, which all threads copy: the next keys while exponentials
// and the product with the values are computed, the values while the scores are.
template <class Team, class T, int Width, int Own, int Keys, int Piece, int Rank>
struct CopiedTiles {
    typedef typename Team::template Tile<T, Width, Keys> Tile;
    const AttentionOperands<Rank, 4>& operands;
    T* memory;
    const T *query, *key, *value;
    int positions, all;

    template <class S>
    __device__ CopiedTiles(
        const AttentionOperands<Rank, 4>& of, const Sequence& sequence, S, T* shared_memory, const T* queries, const T* keys,
        const T* values)
        : operands(of), memory(shared_memory), positions(sequence.positions), all(sequence.keys) {
        long long at[4];
        operands.find(blockIdx.y, at);
        query = queries + at[QUERY] + sequence.rows(operands, QUERY);
        key = keys + at[KEY] + sequence.rows(operands, KEY);
        value = values + at[VALUE] + sequence.rows(operands, VALUE);
    }
    __device__ typename Team::template Tile<T, Width, Own> queries() const { return {memory}; }
    __device__ Tile keys() const { return {memory + Own * Width}; }
    __device__ Tile values() const { return {memory + (Own + Keys) * Width}; }

    __device__ void fetch(const Tile& to, const T* from, AttentionOperand operand, int start, int width) const {
        const long long row = operands.row[operand];
        fetch_tile<Team::threads, Keys, Piece>(to, from + start * row, row, all - start, width);
    }
    __device__ void begin(int first, int start) const {
        const long long row = operands.row[QUERY];
        fetch_tile<Team::threads, Own, Piece>(queries(), query + first * row, row, positions - first, operands.width);
        fetch(keys(), key, KEY, start, operands.width);
        commit_copies();
    }
    __device__ void await_queries() const { arrive<0>(); }
    // The tile from `start` on is next to be multiplied; those up to `end` follow.
    __device__ void turn(int start, int) const {
        fetch(values(), value, VALUE, start, operands.values);
        commit_copies();
    }
    __device__ void keys_were_read(int start, int end) const {
        __syncthreads();  // by every warp
        if (start + Keys < end) fetch(keys(), key, KEY, start + Keys, operands.width);
        commit_copies();
    }
    __device__ void await_values() const { arrive<1>(); }
    // By every warp, when the next keys have arrived.
    __device__ void values_were_read() const { arrive<0>(); }

private:
    template <int Left>
    static __device__ void arrive() {
        await_copies<Left>();
        Team::show();
        __syncthreads();  // what all threads have copied has arrived
    }
};

// Rows of a matrix of an operand of backward, `at` elements behind the operand's first one, which all threads copy.
template <class Team, class T, int Piece, int Rank>
struct CopiedRows {
    const T* from;
    long long row;
    int width;

    __device__ CopiedRows(
        const T* operand_rows, const AttentionOperands<Rank, 8>& operands, const Sequence& sequence, AttentionOperand operand,
        long long, long long at, int of_width)
        : from(operand_rows + at + sequence.rows(operands, operand)), row(operands.row[operand]), width(of_width) {}

    // From `start` on; zeros behind the next `left` ones.
    template <int Rows, class Tile>
    __device__ void copy(const Tile& to, int start, int left, CopiedArrivals<Team>&, int) const {
        fetch_tile<Team::threads, Rows, Piece>(to, from + start * row, row, left, width);
    }
};

// Copies of all threads: those of a tile are a group.
template <class Team>
struct CopiedArrivals {
    // Whether a block's own rows arrive before its first tile.
    static constexpr bool apart = false;
    static constexpr int OWN = 2;

    __device__ explicit CopiedArrivals(void*) {}
    __device__ void expect(int, int) {}
    // What has been copied, by all threads, has arrived: in a buffer, or the block's own rows.
    __device__ void await(int) {
        await_copies<0>();
        Team::show();
        __syncthreads();
    }
};

// Two rows of each sixteen are this thread's: the first one of `Groups` times 16 that belong to a warp is `first`.
template <class T, int Width, int Piece, int Groups>
__device__ inline void store_rows(
    T* to, long long row_stride, int first, int end, int width, const float (&from)[Groups][Width / 8][4], float scale) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < Groups * 2; ++r) {
        const int row = first + lane / 4 + r * 8;
        if (row >= end) continue;
#pragma unroll
        for (int i = 0; i < Width / 8; ++i) {
            const int at = i * 8 + lane % 4 * 2;
            const float first_sum = from[r / 2][i][r % 2 * 2] * scale, second_sum = from[r / 2][i][r % 2 * 2 + 1] * scale;
            T* const slot = to + row * row_stride + at;
            if constexpr (Piece > 1 && sizeof(T) == 2) {
                if (at < width) *reinterpret_cast<unsigned int*>(slot) = packed<T>(first_sum, second_sum);
            } else if constexpr (Piece > 1) {
                if (at < width) *reinterpret_cast<Pack<T, 2>*>(slot) = {first_sum, second_sum};
            } else {
                if (at < width) slot[0] = to_element<T>(first_sum);
                if (at + 1 < width) slot[1] = to_element<T>(second_sum);
            }
        }
    }
}
