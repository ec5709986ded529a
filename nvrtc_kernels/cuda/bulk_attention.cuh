// Attention whose rows come to shared memory by bulk copies (bulk_copies.cuh): what is asked of a team that
// warpgroup_attention.cuh does not say. One thread of the block asks for a tile, which takes the place of some twenty instructions
// of each thread; and warps need not meet in between. Each waits for the barrier of the tile that it reads, and arrives at
// another one when it has read it, so that a warpgroup may be up to a tile behind the other one: one of them multiplies while the
// other one computes exponentials.
//
// There are tensor maps of sequences of one length: rows behind the last one are zeros, as they are where threads copy them. Where
// sequences lie one behind the other, the next one's rows would come instead, and a weight of 0 times an infinite value is no
// number.

#pragma once
#include "bulk_copies.cuh"
#include "warpgroup_attention.cuh"

// Where a matrix of an operand is in its tensor map, whose outer dimensions are the operands'. One that is broadcast has size 1 there.
template <int Rank>
struct MappedMatrix {
    const TensorMap* tensor;
    int outer[Rank];

    template <int Count>
    __device__ MappedMatrix(
        const TensorMap* map, const AttentionOperands<Rank, Count>& operands, AttentionOperand operand, long long matrix)
        : tensor(map) {
#pragma unroll
        for (int d = Rank - 1; d >= 0; --d) {
            const long long index = d ? matrix % operands.sizes[d] : matrix;
            matrix /= operands.sizes[d];
            outer[d] = operands.strides[operand][d] ? static_cast<int>(index) : 0;
        }
    }
    // By one thread: a tile of rows from `row` on, in boxes of `BoxRows` rows.
    template <int BoxRows, class T, int Width, int Rows>
    __device__ void copy(const SharedLines<T, Width, Rows>& to, int row, Barrier* told) const {
#pragma unroll
        for (int column = 0; column < Width; column += 64)
#pragma unroll
            for (int i = 0; i < Rows; i += BoxRows)
                copy_box(to.memory + column * Rows + i * 64, tensor, told, column, row + i, outer);
    }
};

// The queries of a block of forward, and keys and values in two places by turns: while a tile of them is multiplied, the next one
// comes.
template <class Team, class T, int Width, int Own, int Keys, int Rank>
struct BulkTiles {
    typedef SharedLines<T, Width, Keys> Tile;
    static constexpr int own_bytes = Own * Width * sizeof(T), bytes = Keys * Width * sizeof(T);
    // Keys have arrived, values have arrived, both have been read.
    enum { KEYS = 0, VALUES = 2, READ = 4, COUNT = 6 };
    T* memory;
    MappedMatrix<Rank> query, key, value;
    // Of the tile that is multiplied: its number.
    int number;

    template <class S>
    __device__ BulkTiles(
        const AttentionOperands<Rank, 4>& operands, const Sequence&, S, T* shared_memory, const TensorMap* queries,
        const TensorMap* keys, const TensorMap* values)
        : memory(shared_memory), query(queries, operands, QUERY, blockIdx.y), key(keys, operands, KEY, blockIdx.y),
          value(values, operands, VALUE, blockIdx.y), number(0) {
        static_assert(!S::has_begin, "sequences have one length");
    }
    __device__ SharedLines<T, Width, Own> queries() const { return {memory}; }
    __device__ Tile keys_of(int stage) const { return {memory + (Own + stage * 2 * Keys) * Width}; }
    __device__ Tile values_of(int stage) const { return {memory + (Own + (stage * 2 + 1) * Keys) * Width}; }
    __device__ Tile keys() const { return keys_of(number % 2); }
    __device__ Tile values() const { return values_of(number % 2); }
    __device__ Barrier* barrier(int which) const { return reinterpret_cast<Barrier*>(memory + (Own + 4 * Keys) * Width) + which; }

    // By one thread. The queries come with the first keys.
    __device__ void fetch(int start, int stage, int first = -1) const {
        Barrier *const keys_arrive = barrier(KEYS + stage), *const values_arrive = barrier(VALUES + stage);
        keys_arrive->arrive_and_expect(first < 0 ? bytes : bytes + own_bytes);
        if (first >= 0) query.template copy<Own>(queries(), first, keys_arrive);
        key.template copy<Keys>(keys_of(stage), start, keys_arrive);
        values_arrive->arrive_and_expect(bytes);
        value.template copy<Keys>(values_of(stage), start, values_arrive);
    }
    __device__ void begin(int first, int start) const {
        if (threadIdx.x == 0) {
#pragma unroll
            for (int i = 0; i < COUNT; ++i) barrier(i)->make(i < READ ? 1 : Team::count);
            Barrier::show();
            fetch(start, 0, first);
        }
        __syncthreads();  // the barriers are there
    }
    __device__ void await_queries() const { barrier(KEYS)->await(0); }
    // The tile from `start` on is next to be multiplied; those up to `end` follow.
    __device__ void turn(int start, int end) const {
        if (threadIdx.x == 0 && start + Keys < end) {
            const int other = (number + 1) % 2;
            // Every warp has read what is there.
            if (number) barrier(READ + other)->await((number - 1) / 2 % 2);
            fetch(start + Keys, other);
        }
        barrier(KEYS + number % 2)->await(number / 2 % 2);
    }
    __device__ void keys_were_read(int, int) const {}
    __device__ void await_values() const { barrier(VALUES + number % 2)->await(number / 2 % 2); }
    __device__ void values_were_read() {
        if (threadIdx.x % 32 == 0) barrier(READ + number % 2)->arrive();
        ++number;
    }
};

// Of backward: barriers of the two buffers, and of the block's own rows, in shared memory. Warps meet when a tile has arrived, since
// threads copy what else they need of its rows; then all have read the one before.
struct BulkArrivals {
    static constexpr bool apart = true;
    enum { OWN = 2, COUNT = 3 };
    Barrier* barriers;
    // Bits: of which phase those that come next are.
    int parities;

    __device__ explicit BulkArrivals(void* memory) : barriers(reinterpret_cast<Barrier*>(memory)), parities(0) {
        if (threadIdx.x == 0) {
#pragma unroll
            for (int i = 0; i < COUNT; ++i) barriers[i].make(1);
            Barrier::show();
        }
        __syncthreads();  // the barriers are there
    }
    __device__ void expect(int which, int bytes) {
        if (threadIdx.x == 0) barriers[which].arrive_and_expect(bytes);
    }
    __device__ void await(int which) {
        barriers[which].await(parities >> which & 1);
        parities ^= 1 << which;
        await_copies<0>();
        __syncthreads();
    }
};

// Rows of a matrix of an operand of backward, in boxes of 64.
template <class T, int Rank>
struct BulkRows : MappedMatrix<Rank> {
    __device__ BulkRows(
        const TensorMap* map, const AttentionOperands<Rank, 8>& operands, const Sequence&, AttentionOperand operand,
        long long matrix, long long, int)
        : MappedMatrix<Rank>(map, operands, operand, matrix) {}

    template <int Rows, class Tile>
    __device__ void copy(const Tile& to, int start, int, BulkArrivals& arrivals, int which) const {
        if (threadIdx.x == 0) MappedMatrix<Rank>::template copy<64>(to, start, arrivals.barriers + which);
    }
};

// `Count` warpgroups, to which operands come by bulk copies.
template <int Count>
struct BulkWarpgroups : Warpgroups<Count> {
    template <class T>
    using Source = TensorMap;
    template <class T, int Width, int Own, int Keys, int Piece, int Rank>
    using Tiles = BulkTiles<BulkWarpgroups, T, Width, Own, Keys, Rank>;
    template <class T, int Piece, int Rank>
    using Rows = BulkRows<T, Rank>;
    typedef BulkArrivals Arrivals;
};
