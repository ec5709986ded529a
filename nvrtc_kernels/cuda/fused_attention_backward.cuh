// Gradients of scaled dot-product attention with no scores in memory: T. Dao, "FlashAttention-2", 2023, in two kernels that
// each make the weights again from the logarithm of their row's sum, so that no two blocks add to one number: the
// same results every time.
//
//     weights = exp(scores - logarithm)     slopes = weights * (grad @ values^T - mean)     mean = sum(grad * result)
//     grad_query = slopes @ keys            grad_key = slopes^T @ queries                   grad_value = weights^T @ grad
//
// The first kernel has queries in its blocks, goes over the keys, and writes what the second one needs of a row beside the
// row itself: the logarithm, of two, and the mean. The second has keys in its blocks and goes over the queries of all
// matrices that share them; there rows of a product are keys, so that transposed weights and slopes are left operands as they
// lie in registers. While some rows are multiplied, the next ones travel to the other buffer in shared memory. What
// bounds both is reading from there: as many fragments of the block's own rows as fit stay in registers, beside the sums, and
// products are made of few of the others at a time, so that weights and slopes leave room. Where sums of both gradients leave
// none, the second kernel runs for each of them. Where there are few blocks, both are one launch: blocks of keys then compute
// the means of rows themselves, from the results.

#pragma once
#include "attention_tiles.cuh"

// Of a row of scores: the logarithm to base 2 of the sum of exponentials, infinity where nothing is seen, and the sum of
// gradient times result.
struct alignas(8) RowStatistics {
    float logarithm, mean;
};

// Of the rows of a block, `Groups` times 16 for a warp of `Team`: `HeldQuery` (or key) and `HeldGrad` (or value) fragments of each
// sixteen in registers. Of the others `Rows` come to shared memory at a time, and `Step` to one product. Where they are `Paired`,
// two warps share their rows.
template <class Team_, int Groups_, int Rows_, int Step_, int HeldFirst_, int HeldSecond_, bool Paired_>
struct BackwardTile {
    typedef Team_ Team;
    static constexpr int Groups = Groups_, Rows = Rows_, Step = Step_, HeldFirst = HeldFirst_, HeldSecond = HeldSecond_;
    static constexpr bool Paired = Paired_;
    static constexpr int rows = Groups * Team::count * (Paired ? 8 : 16);
};

// What the rows of a tile's operands are read from.
template <class Tile, class T>
using SourceOf = typename Tile::Team::template Source<T>;

// The tile of two buffers of `Rows` rows of two operands behind the block's own rows of two.
template <class Team, class T, int Width, int Own, int Rows>
struct BackwardMemory {
    typedef typename Team::template Tile<T, Width, Own> OwnTile;
    typedef typename Team::template Tile<T, Width, Rows> Tile;
    T* memory;

    __device__ OwnTile own_first() const { return {memory}; }
    __device__ OwnTile own_second() const { return {memory + Own * Width}; }
    __device__ Tile first(int buffer) const { return {memory + (2 * Own + buffer * 2 * Rows) * Width}; }
    __device__ Tile second(int buffer) const { return {memory + (2 * Own + (buffer * 2 + 1) * Rows) * Width}; }
    __device__ T* behind() const { return memory + (2 * Own + 4 * Rows) * Width; }
};

// Shared memory: queries and gradients of the block's rows; two buffers of keys and values.
template <class T, int Width, int Parts, int Piece, class Tile, int Rank, class S, class M, class D>
__device__ void attend_backward_queries(
    const AttentionOperands<Rank, 8>& operands, int block, int all_blocks, float scale, S sequences, M mask, D dropout,
    const SourceOf<Tile, T>* query, const SourceOf<Tile, T>* key, const SourceOf<Tile, T>* value, const T* result,
    const SourceOf<Tile, T>* grad, const float* logarithms, RowStatistics* statistics, T* grad_query) {
    typedef typename Tile::Team Team;
    typedef typename Team::template Rows<T, Piece, Rank> Source;
    typedef typename Team::Arrivals Arrivals;
    constexpr int groups = Tile::Groups, rows = Tile::rows, keys = Tile::Rows, blocks = Tile::Step / 8;
    extern __shared__ __align__(1024) uint4 shared_memory[];
    const BackwardMemory<Team, T, Width, rows, keys> shared{reinterpret_cast<T*>(shared_memory)};
    const float infinite = __int_as_float(0x7f800000);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    const Sequence sequence = sequences.of(operands, blockIdx.y);
    const Window window(operands, sequence);
    const int first = (operands.descending ? all_blocks - 1 - block : block) * rows;
    if (first >= sequence.positions) return;
    long long at[8];
    operands.find(blockIdx.y, at);
    result += at[RESULT] + sequence.rows(operands, RESULT);
    const Source query_rows(query, operands, sequence, QUERY, blockIdx.y, at[QUERY], operands.width);
    const Source key_rows(key, operands, sequence, KEY, blockIdx.y, at[KEY], operands.width);
    const Source value_rows(value, operands, sequence, VALUE, blockIdx.y, at[VALUE], operands.values);
    const Source grad_rows(grad, operands, sequence, GRAD, blockIdx.y, at[GRAD], operands.values);
    Arrivals arrivals(shared.behind());
    const int last = first + rows - 1, end = window.end(last), begin = S::has_begin ? window.begin(first) / keys * keys : 0;
    const auto fetch = [&](int start, int buffer) {
        const int left = sequence.keys - start;
        arrivals.expect(buffer, 2 * keys * Width * sizeof(T));
        key_rows.template copy<keys>(shared.first(buffer), start, left, arrivals, buffer);
        value_rows.template copy<keys>(shared.second(buffer), start, left, arrivals, buffer);
        commit_copies();
    };
    const int own_rows = sequence.positions - first;
    arrivals.expect(Arrivals::OWN, 2 * rows * Width * sizeof(T));
    query_rows.template copy<rows>(shared.own_first(), first, own_rows, arrivals, Arrivals::OWN);
    grad_rows.template copy<rows>(shared.own_second(), first, own_rows, arrivals, Arrivals::OWN);
    // Without sums only the means are computed, for which own rows do.
    if (grad_query) {
        fetch(begin, 0);
    } else {
        commit_copies();
    }

    // Of the warp's rows this thread has two of each sixteen, eight apart.
    const int warp_row = warp * groups * 16, own = first + warp_row + lane / 4;
    M masks[groups * 2];
    D drops[groups * 2];
    int begins[groups * 2], ends[groups * 2];
    float logs[groups * 2], means[groups * 2];
#pragma unroll
    for (int r = 0; r < groups * 2; ++r) {
        const int position = min(own + r * 8, sequence.positions - 1);
        masks[r] = mask;
        drops[r] = dropout;
        masks[r].at(sequence.number + position, 0);
        drops[r].at(sequence.number + position);
        begins[r] = S::has_begin ? window.begin(position) : 0;
        ends[r] = window.end(position);
        const float logarithm = logarithms[sequence.number + position];
        logs[r] = logarithm == -infinite ? infinite : logarithm * TO_TWO;
    }
    // Every row of the block sees these keys.
    const int certain_begin = S::has_begin ? window.begin(last) : 0, certain_end = window.end(first);

    arrivals.await(Arrivals::OWN);
#pragma unroll
    for (int r = 0; r < groups * 2; ++r) {
        const int position = own + r * 8;
        float sum = 0;
        if (position < sequence.positions) {
            constexpr int per_chunk = 16 / sizeof(T);
            const T* const own_result = result + position * operands.row[RESULT];
            for (int column = lane % 4 * Piece; column < operands.values; column += 4 * Piece) {
                typedef Pack<T, Piece> Elements;
                const Elements a = *reinterpret_cast<const Elements*>(own_result + column);
                const Elements b = *reinterpret_cast<const Elements*>(
                    shared.own_second().at(warp_row + lane / 4 + r * 8, column / per_chunk) + column % per_chunk);
#pragma unroll
                for (int i = 0; i < Piece; ++i) sum += to_compute(a.items[i]) * to_compute(b.items[i]);
            }
        }
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        means[r] = sum;
        if (statistics && lane % 4 == 0 && position < sequence.positions)
            statistics[sequence.number + position] = {logs[r], sum};
    }
    if (!grad_query) return;

    typename Team::template Left<T, Width, rows, Parts, groups, Tile::HeldFirst> queries(shared.own_first(), warp_row);
    typename Team::template Left<T, Width, rows, Parts, groups, Tile::HeldSecond> grads(shared.own_second(), warp_row);
    queries.hold();
    grads.hold();
    float output[groups][Width / 8][4];
#pragma unroll
    for (int i = 0; i < groups * Width / 2; ++i) output[i / (Width / 2)][i % (Width / 2) / 4][i % 4] = 0;
    for (int tile = begin, buffer = 0; tile < end; tile += keys, buffer ^= 1) {
        // These keys have arrived, and every warp has read those before.
        if (Arrivals::apart || tile != begin) arrivals.await(buffer);
        if (tile + keys < end) fetch(tile + keys, buffer ^ 1);
#pragma unroll 1
        for (int row = 0; row < keys; row += Tile::Step) {
            const int start = tile + row;
            float weights[groups][blocks][4], slopes[groups][blocks][4];
            multiply_two(weights, queries, shared.first(buffer), slopes, grads, shared.second(buffer), row);
#pragma unroll
            for (int r = 0; r < groups * 2; ++r) {
#pragma unroll
                for (int n = 0; n < blocks; ++n) {
                    float factors[4];
                    drops[r].factors(start + n * 8 + lane % 4 / 2 * 4, factors);
#pragma unroll
                    for (int j = 0; j < 2; ++j) {
                        float& slope = slopes[r / 2][n][r % 2 * 2 + j];
                        const float factor = lane % 2 ? factors[2 + j] : factors[j];
                        float x = weights[r / 2][n][r % 2 * 2 + j];
                        if constexpr (is_masked<M>) {
                            const int at = start + n * 8 + lane % 4 * 2 + j;
                            x = at < ends[r] ? masks[r](x * scale, at) * TO_TWO : -infinite;
                        } else {
                            x *= scale * TO_TWO;
                        }
                        slope = power_of_two(x - logs[r]) * (slope * factor - means[r]);
                    }
                }
            }
            // Only the first and last tiles have keys that a row does not see.
            if (start + Tile::Step > certain_end || (S::has_begin && start < certain_begin)) {
#pragma unroll
                for (int i = 0; i < groups * blocks * 4; ++i) {
                    const int r = i / 4 / blocks * 2 + i % 4 / 2, n = i / 4 % blocks;
                    const int at = start + n * 8 + lane % 4 * 2 + i % 2;
                    if (at >= ends[r] || (S::has_begin && at < begins[r])) slopes[r / 2][n][i % 4] = 0;
                }
            }
            multiply_results<Parts>(output, slopes, shared.first(buffer), row);
        }
    }
    grad_query += at[GRAD_QUERY] + sequence.rows(operands, GRAD_QUERY);
    store_rows<T, Width, Piece>(
        grad_query, operands.row[GRAD_QUERY], first + warp_row, sequence.positions, operands.width, output, scale);
}

// The rows that blocks of keys go over: queries of all matrices that share the keys, with their gradients, `Rows` at a time.
// Shared memory: keys and values of the block's rows; two buffers of queries, gradients and statistics, and of the addresses
// of their rows of a mask; where there are no `statistics`, two of results.
template <class Team, class T, int Width, int Piece, int Own, int Rows, bool Statistics, int Rank, class S, class M>
struct QueryTiles {
    typedef typename Team::template Source<T> Source;
    typedef BackwardMemory<Team, T, Width, Own, Rows> Memory;
    typedef typename Memory::Tile Tile;
    typedef typename M::Row MaskRow;
    const AttentionOperands<Rank, 8>& operands;
    S sequences;
    M mask;
    const Source* query;
    const T* result;
    const Source* grad;
    const float* logarithms;
    const RowStatistics* statistics;
    long long matrix;
    Sequence sequence;
    Memory shared;
    typename Team::Arrivals& arrivals;
    int begin, end;
    // Of the tile that is there.
    int group, start, buffer;

    __device__ RowStatistics* statistics_of(int some) const { return reinterpret_cast<RowStatistics*>(shared.behind()) + some * Rows; }
    __device__ MaskRow* mask_rows(int some) const { return reinterpret_cast<MaskRow*>(statistics_of(2)) + some * Rows; }
    __device__ Tile results(int some) const {
        return {reinterpret_cast<T*>(mask_rows(2)) + some * Rows * Width};
    }
    __device__ Tile queries() const { return shared.first(buffer); }
    __device__ Tile grads() const { return shared.second(buffer); }
    __device__ bool there() const { return group < operands.groups; }

    __device__ void begin_at(int first_row, int last_row) {
        begin = first_row / Rows * Rows;
        end = last_row;
        group = begin < end ? 0 : operands.groups;
        start = begin;
        buffer = 0;
        if (there()) fetch(group, start, buffer);
    }
    __device__ void fetch(int of_group, int at, int into) const {
        long long here[8];
        operands.find(matrix + of_group, here);
        const int left = sequence.positions - at;
        const auto rows_of = [&](const Tile& to, const auto* from, AttentionOperand operand, int width) {
            const typename Team::template Rows<T, Piece, Rank> source(
                from, operands, sequence, operand, matrix + of_group, here[operand], width);
            source.template copy<Rows>(to, at, left, arrivals, into);
        };
        arrivals.expect(into, 2 * Rows * Width * sizeof(T));
        rows_of(shared.first(into), query, QUERY, operands.width);
        rows_of(shared.second(into), grad, GRAD, operands.values);
        if constexpr (!Statistics) rows_of(results(into), result, RESULT, operands.values);
        if (threadIdx.x < Rows) {
            const int own = threadIdx.x;
            const long long number = sequences.of(operands, matrix + of_group).number + at + (own < left ? own : 0);
            RowStatistics* const to = statistics_of(into) + own;
            if (own >= left) {
                // Whatever a mask adds, nothing weighs in a row behind the last one.
                *to = {__int_as_float(0x7f800000), 0};
            } else if constexpr (Statistics) {
                copy_async<sizeof(RowStatistics)>(to, statistics + number, true);
            } else {
                copy_async<sizeof(float)>(&to->logarithm, logarithms + number, true);
            }
            if constexpr (is_masked<M>) {
                M own_mask = mask;
                own_mask.at(number, 0);
                mask_rows(into)[own] = own_mask.row;
            }
        }
        commit_copies();
    }
    // Waits for the tile, and sends for the next one, which is `next_group`'s from `next` on.
    __device__ void await(int& next_group, int& next) const {
        arrivals.await(buffer);  // these queries have arrived, and every warp has read those before
        next_group = group;
        next = start + Rows;
        if (next >= end) {
            next = begin;
            ++next_group;
        }
        if (next_group < operands.groups) fetch(next_group, next, buffer ^ 1);
        if constexpr (!Statistics) {
            // Four threads have a row.
            static_assert(Team::threads >= 4 * Rows, "each row has its threads");
            const int row = threadIdx.x / 4, lane = threadIdx.x % 32;
            float sum = 0;
            for (int chunk = lane % 4; row < Rows && chunk < Tile::chunks; chunk += 4) {
                constexpr int count = Tile::per_chunk;
                typedef Pack<T, count> Elements;
                const Elements a = *reinterpret_cast<const Elements*>(results(buffer).at(row, chunk));
                const Elements b = *reinterpret_cast<const Elements*>(grads().at(row, chunk));
#pragma unroll
                for (int i = 0; i < count; ++i) sum += to_compute(a.items[i]) * to_compute(b.items[i]);
            }
            sum += __shfl_xor_sync(~0u, sum, 1);
            sum += __shfl_xor_sync(~0u, sum, 2);
            if (lane % 4 == 0 && row < Rows) {
                RowStatistics& own_row = statistics_of(buffer)[row];
                const float infinite = __int_as_float(0x7f800000), logarithm = own_row.logarithm;
                own_row = {logarithm == -infinite ? infinite : logarithm * TO_TWO, sum};
            }
            __syncthreads();
        }
    }
    __device__ void go_on(int next_group, int next) {
        group = next_group;
        start = next;
        buffer ^= 1;
    }
    // The exponent of 2 of a weight, but for the row's logarithm, from its product.
    __device__ float exponent(float x, float scale, int row, int key) const {
        if constexpr (is_masked<M>) {
            M own_mask = mask;
            own_mask.row = mask_rows(buffer)[row];
            return own_mask(x * scale, min(key, sequence.keys - 1)) * TO_TWO;
        } else {
            return x * (scale * TO_TWO);
        }
    }
};

// Marks of dropout for a warp's weights of `Groups` times 16 keys from `key` on, and `Blocks` times 8 queries from the row of number
// `number` on: bit 4 i of word j is set where the j-th of the thread's weights in tile i is not dropped. Four neighbouring keys of a
// query take the words of one counter. The threads that have them, 4 lanes apart, have them for two queries and in two rows:
// each makes the words for one of these.
template <int Groups, int Blocks>
__device__ inline void draw_marks(unsigned int (&marks)[4], const AttentionDropout& dropout, long long number, int key) {
    static_assert(Groups * Blocks <= 8, "a word has the marks of all");
    const int lane = threadIdx.x % 32, turn = lane / 4 % 4;
    unsigned int own = 0;
#pragma unroll
    for (int i = 0; i < Groups * Blocks; ++i)
        own |= dropout.kept(number + i % Blocks * 8 + lane % 4 * 2 + turn % 2, key + i / Blocks * 16 + turn / 2 * 8 + lane / 16 * 4)
               << i * 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) marks[i] = __shfl_sync(~0u, own, (lane & ~12) | i * 4) >> turn;
}

// Zeros where queries from `start` on do not see keys from `own` on, of which a thread has those of its lane.
template <class S, int Groups, int Blocks>
__device__ inline void hide(float (&of)[Groups][Blocks][4], const Window& window, int start, int own) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < Groups * Blocks * 4; ++i) {
        const int g = i / 4 / Blocks, n = i / 4 % Blocks, j = i % 4;
        const int key = own + lane / 4 + g * 16 + j / 2 * 8, position = start + n * 8 + lane % 4 * 2 + j % 2;
        if (key >= window.end(position) || (S::has_begin && key < window.begin(position))) of[g][n][j] = 0;
    }
}

template <class T, int Width, int Parts, int Piece, class Tile, bool OfKey, bool OfValue, bool Statistics, int Rank, class S,
          class M, class D>
__device__ void attend_backward_keys(
    const AttentionOperands<Rank, 8>& operands, int block, float scale, S sequences, M mask, D dropout,
    const SourceOf<Tile, T>* query, const SourceOf<Tile, T>* key, const SourceOf<Tile, T>* value, const T* result,
    const SourceOf<Tile, T>* grad, const float* logarithms, const RowStatistics* statistics, T* grad_key, T* grad_value) {
    // Two warps share their keys where each has the sums of one gradient: one has the weights, which the other one takes from it.
    constexpr bool paired = Tile::Paired;
    static_assert(!paired || (OfKey && OfValue), "the two warps have a gradient each");
    typedef typename Tile::Team Team;
    constexpr int groups = Tile::Groups, rows = Tile::rows, count = Tile::Rows, blocks = Tile::Step / 8;
    extern __shared__ __align__(1024) uint4 shared_memory[];
    const long long matrix = static_cast<long long>(blockIdx.y) * operands.groups;
    const Sequence sequence = sequences.of(operands, matrix);
    const Window window(operands, sequence);
    const int first = block * rows, last = first + rows - 1;
    if (first >= sequence.keys) return;
    long long at[8];
    operands.find(matrix, at);
    dropout.at(0);

    typedef BackwardMemory<Team, T, Width, rows, count> Memory;
    const Memory shared{reinterpret_cast<T*>(shared_memory)};
    typedef typename Team::Arrivals Arrivals;
    // Behind statistics and addresses of masks.
    Arrivals arrivals(reinterpret_cast<unsigned long long*>(shared.behind()) + 4 * count);
    const auto fetch_own = [&](const typename Memory::OwnTile& to, const SourceOf<Tile, T>* from, AttentionOperand operand, int width) {
        const typename Team::template Rows<T, Piece, Rank> source(from, operands, sequence, operand, matrix, at[operand], width);
        source.template copy<rows>(to, first, sequence.keys - first, arrivals, Arrivals::OWN);
    };
    arrivals.expect(Arrivals::OWN, (OfKey ? 2 : 1) * rows * Width * sizeof(T));
    fetch_own(shared.own_first(), key, KEY, operands.width);
    if constexpr (OfKey) fetch_own(shared.own_second(), value, VALUE, operands.values);
    commit_copies();
    QueryTiles<Team, T, Width, Piece, rows, count, Statistics, Rank, S, M> tiles{
        operands, sequences, mask, query, result, grad, logarithms, statistics, matrix, sequence, shared, arrivals};
    tiles.begin_at(window.first_query(first), S::has_begin ? window.end_of_queries(last) : sequence.positions);
    arrivals.await(Arrivals::OWN);

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const auto is_cut = [&](int start) {
        return start < window.first_query(last) || (S::has_begin && start + Tile::Step > window.end_of_queries(first));
    };
    const auto store = [&](T* to, AttentionOperand operand, int from, int width, const float(&sums)[groups][Width / 8][4], float factor) {
        to += at[operand] + sequence.rows(operands, operand);
        store_rows<T, Width, Piece>(to, operands.row[operand], from, sequence.keys, width, sums, factor);
    };
    float sums[groups][Width / 8][4];
#pragma unroll
    for (int i = 0; i < groups * Width / 2; ++i) sums[i / (Width / 2)][i % (Width / 2) / 4][i % 4] = 0;
    int next_group, next;
    if constexpr (paired) {
        static_assert(Tile::Step == count, "weights change hands once for a tile");
        const bool has_weights = warp % 2 == 0;
        const int warp_row = warp / 2 * groups * 16, own = first + warp_row;
        // What a thread needs of the weights is what the same lane has: 16 bytes of all lanes lie together.
        Pack<unsigned int, 4>* const weights_of_pair =
            reinterpret_cast<Pack<unsigned int, 4>*>(tiles.results(Statistics ? 0 : 2).memory) + warp / 2 * groups * blocks * 16 + lane;
        typename Team::template Left<T, Width, rows, Parts, groups, Tile::HeldFirst> lefts(has_weights ? shared.own_first() : shared.own_second(), warp_row);
        lefts.hold();
        for (; tiles.there(); tiles.go_on(next_group, next)) {
            tiles.await(next_group, next);
            const typename Memory::Tile queries = tiles.queries(), grads = tiles.grads();
            const RowStatistics* const row_statistics = tiles.statistics_of(tiles.buffer) + lane % 4 * 2;
            float products[groups][blocks][4];
            multiply_rows(products, lefts, has_weights ? queries : grads, 0);
            if (has_weights) {
                unsigned int marks[4];
                if constexpr (is_dropping<D>)
                    draw_marks<groups, blocks>(marks, dropout, (matrix + tiles.group) * operands.positions + tiles.start, own);
#pragma unroll
                for (int i = 0; i < groups * blocks * 4; ++i) {
                    const int g = i / 4 / blocks, n = i / 4 % blocks, j = i % 4;
                    float& x = products[g][n][j];
                    x = tiles.exponent(x, scale, n * 8 + lane % 4 * 2 + j % 2, own + lane / 4 + g * 16 + j / 2 * 8);
                    x = power_of_two(x - row_statistics[n * 8 + j % 2].logarithm);
                }
                if (is_cut(tiles.start)) hide<S>(products, window, tiles.start, own);
#pragma unroll
                for (int i = 0; i < groups * blocks / 2; ++i) {
                    Pack<unsigned int, 4> pack;
#pragma unroll
                    for (int part = 0; part < 4; ++part) {
                        const int t = i * 2 + part / 2, j = part % 2 * 2;
                        float pair[2];
#pragma unroll
                        for (int k = 0; k < 2; ++k) {
                            float& x = products[t / blocks][t % blocks][j + k];
                            pair[k] = x;
                            if constexpr (is_dropping<D>) {
                                // What is dropped has a sign.
                                const bool stays = marks[j + k] >> t * 4 & 1;
                                pair[k] = stays ? x : -x;
                                x = stays ? x * static_cast<float>(dropout.scale) : 0.0f;
                            }
                        }
                        pack.items[part] = packed<T>(pair[0], pair[1]);
                    }
                    weights_of_pair[i * 32] = pack;
                }
            }
            __syncthreads();  // the weights are there
            if (!has_weights) {
#pragma unroll
                for (int i = 0; i < groups * blocks / 2; ++i) {
                    const Pack<unsigned int, 4> pack = weights_of_pair[i * 32];
#pragma unroll
                    for (int part = 0; part < 4; ++part) {
                        const int t = i * 2 + part / 2, j = part % 2 * 2;
                        const Pack<T, 2> pair = *reinterpret_cast<const Pack<T, 2>*>(&pack.items[part]);
#pragma unroll
                        for (int k = 0; k < 2; ++k) {
                            float& x = products[t / blocks][t % blocks][j + k];
                            const float weight = to_compute(pair.items[k]), mean = row_statistics[t % blocks * 8 + k].mean;
                            if constexpr (is_dropping<D>) {
                                const bool stays = pack.items[part] >> (k * 16 + 15) & 1 ? false : true;
                                x = fabsf(weight) * ((stays ? x * static_cast<float>(dropout.scale) : 0.0f) - mean);
                            } else {
                                x = weight * (x - mean);
                            }
                        }
                    }
                }
            }
            multiply_results<Parts>(sums, products, has_weights ? grads : queries, 0);
        }
        if (has_weights) {
            store(grad_value, GRAD_VALUE, own, operands.values, sums, 1);
        } else {
            store(grad_key, GRAD_KEY, own, operands.width, sums, scale);
        }
    } else {
        const int warp_row = warp * groups * 16, own = first + warp_row;
        float value_sums[groups][Width / 8][4];
#pragma unroll
        for (int i = 0; i < groups * Width / 2; ++i) value_sums[i / (Width / 2)][i % (Width / 2) / 4][i % 4] = 0;
        typename Team::template Left<T, Width, rows, Parts, groups, Tile::HeldFirst> keys(shared.own_first(), warp_row);
        typename Team::template Left<T, Width, rows, Parts, groups, OfKey ? Tile::HeldSecond : 0> values(
            shared.own_second(), warp_row);
        keys.hold();
        values.hold();
        for (; tiles.there(); tiles.go_on(next_group, next)) {
            tiles.await(next_group, next);
#pragma unroll 1
            for (int row = 0; row < count; row += Tile::Step) {
                const int start = tiles.start + row;
                // For each key, the weights of these queries.
                float weights[groups][blocks][4], slopes[groups][blocks][4];
                if constexpr (OfKey) {
                    multiply_two(weights, keys, tiles.queries(), slopes, values, tiles.grads(), row);
                } else {
                    multiply_rows(weights, keys, tiles.queries(), row);
                }
                unsigned int marks[4];
                if constexpr (is_dropping<D>)
                    draw_marks<groups, blocks>(marks, dropout, (matrix + tiles.group) * operands.positions + start, own);
#pragma unroll
                for (int n = 0; n < blocks; ++n) {
                    const int column = row + n * 8 + lane % 4 * 2;
                    const Pack<RowStatistics, 2> pair =
                        *reinterpret_cast<const Pack<RowStatistics, 2>*>(tiles.statistics_of(tiles.buffer) + column);
#pragma unroll
                    for (int i = 0; i < groups * 4; ++i) {
                        const int g = i / 4, j = i % 4;
                        const RowStatistics& statistic = pair.items[j % 2];
                        float &weight = weights[g][n][j], &slope = slopes[g][n][j];
                        const float x = tiles.exponent(weight, scale, column + j % 2, own + lane / 4 + g * 16 + j / 2 * 8);
                        weight = power_of_two(x - statistic.logarithm);
                        float factor = 1;
                        if constexpr (is_dropping<D>)
                            factor = marks[j] >> (g * blocks + n) * 4 & 1 ? static_cast<float>(dropout.scale) : 0.0f;
                        if constexpr (OfKey) slope = weight * (slope * factor - statistic.mean);
                        weight *= factor;
                    }
                }
                if (is_cut(start)) {
                    hide<S>(weights, window, start, own);
                    if constexpr (OfKey) hide<S>(slopes, window, start, own);
                }
                if constexpr (OfKey && OfValue) {
                    multiply_two_results<Parts>(value_sums, weights, tiles.grads(), sums, slopes, tiles.queries(), row);
                } else if constexpr (OfValue) {
                    multiply_results<Parts>(value_sums, weights, tiles.grads(), row);
                } else {
                    multiply_results<Parts>(sums, slopes, tiles.queries(), row);
                }
            }
        }
        if constexpr (OfKey) store(grad_key, GRAD_KEY, own, operands.width, sums, scale);
        if constexpr (OfValue) store(grad_value, GRAD_VALUE, own, operands.values, value_sums, 1);
    }
}

// Both in one launch, for `blocks` blocks of queries and further ones of keys.
template <class T, int Width, int Parts, int Piece, class QueryTile, class KeyTile, bool OfKey, bool OfValue, int Rank, class S,
          class M, class D>
__device__ void attend_backward(
    const AttentionOperands<Rank, 8>& operands, int blocks, float scale, S sequences, M mask, D dropout, const T* query,
    const T* key, const T* value, const T* result, const T* grad, const float* logarithms, T* grad_query, T* grad_key,
    T* grad_value) {
    const int block = blockIdx.x;
    if (block < blocks) {
        attend_backward_queries<T, Width, Parts, Piece, QueryTile, Rank>(operands, block, blocks, scale, sequences, mask, dropout,
            query, key, value, result, grad, logarithms, nullptr, grad_query);
    } else if (blockIdx.y * operands.groups < gridDim.y) {
        attend_backward_keys<T, Width, Parts, Piece, KeyTile, OfKey, OfValue, false, Rank>(operands, block - blocks, scale,
            sequences, mask, dropout, query, key, value, result, grad, logarithms, nullptr, grad_key, grad_value);
    }
}
