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
// lie in registers. Both take 32 rows at a time, or 16, while the next ones travel to the other buffer in shared memory.
// Where sums of both gradients are more than registers hold, the second kernel runs for each of them. Where there are few
// blocks, both are one launch: blocks of keys then compute the means of rows themselves, from the results.

#pragma once
#include "attention_tiles.cuh"

// Of a row of scores: the logarithm to base 2 of the sum of exponentials, infinity where nothing is seen, and the sum of
// gradient times result.
struct alignas(8) RowStatistics {
    float logarithm, mean;
};

// Shared memory: queries and gradients of `Groups` times 64 rows; two buffers of `Keys` keys and values.
template <class T, int Width, int Piece, int Groups, int Keys, int Rank, class M, class D>
__device__ void attend_backward_queries(
    const AttentionOperands<Rank, 8>& operands, int block, int all_blocks, float scale, M mask, D dropout, const T* query,
    const T* key, const T* value, const T* result, const T* grad, const float* logarithms, RowStatistics* statistics,
    T* grad_query) {
    constexpr int blocks = Keys / 8, rows = Groups * 64;
    extern __shared__ uint4 shared_memory[];
    T* const memory = reinterpret_cast<T*>(shared_memory);
    const SharedRows<T, Width> queries{memory}, grads{memory + rows * Width};
    const auto keys_of = [&](int buffer) { return SharedRows<T, Width>{memory + (2 * rows + buffer * 2 * Keys) * Width}; };
    const auto values_of = [&](int buffer) {
        return SharedRows<T, Width>{memory + (2 * rows + (buffer * 2 + 1) * Keys) * Width};
    };
    const float infinite = __int_as_float(0x7f800000);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    const long long numbers = blockIdx.y * operands.positions;
    long long at[8];
    operands.find(blockIdx.y, at);
    query += at[QUERY];
    key += at[KEY];
    value += at[VALUE];
    result += at[RESULT];
    grad += at[GRAD];
    // The longest rows of a causal matrix first.
    const long long first = static_cast<long long>(operands.causal ? all_blocks - 1 - block : block) * rows;
    const int all = operands.keys;
    const long long seen = first + rows;
    const int end = operands.causal && seen < all ? static_cast<int>(seen) : all;
    const auto fetch = [&](int start, int buffer) {
        fetch_rows<Keys, Piece, ATTENTION_THREADS>(keys_of(buffer), key, operands.row[KEY], start, all, operands.width);
        fetch_rows<Keys, Piece, ATTENTION_THREADS>(values_of(buffer), value, operands.row[VALUE], start, all, operands.values);
        commit_copies();
    };
    fetch_rows<rows, Piece, ATTENTION_THREADS>(queries, query, operands.row[QUERY], first, operands.positions, operands.width);
    fetch_rows<rows, Piece, ATTENTION_THREADS>(grads, grad, operands.row[GRAD], first, operands.positions, operands.values);
    fetch(0, 0);

    // Of the warp's rows this thread has two of each sixteen, eight apart.
    const int warp_row = warp * Groups * 16;
    const long long own = first + warp_row + lane / 4;
    M masks[Groups * 2];
    D drops[Groups * 2];
    int ends[Groups * 2];
    float logs[Groups * 2], means[Groups * 2];
#pragma unroll
    for (int r = 0; r < Groups * 2; ++r) {
        const long long position = own + r * 8 < operands.positions ? own + r * 8 : operands.positions - 1;
        masks[r] = mask;
        drops[r] = dropout;
        masks[r].at(numbers + position, 0);
        drops[r].at(numbers + position);
        ends[r] = operands.causal && position + 1 < all ? static_cast<int>(position) + 1 : all;
        const float logarithm = logarithms[numbers + position];
        logs[r] = logarithm == -infinite ? infinite : logarithm * TO_TWO;
    }
    // Every row of the block sees the keys before this one.
    const long long certain = operands.causal && first + 1 < all ? first + 1 : all;

    await_copies<0>();
    __syncthreads();
#pragma unroll
    for (int r = 0; r < Groups * 2; ++r) {
        const long long position = own + r * 8;
        float sum = 0;
        if (position < operands.positions) {
            const T* const own_result = result + position * operands.row[RESULT];
            for (int column = lane % 4 * Piece; column < operands.values; column += 4 * Piece) {
                typedef Pack<T, Piece> Elements;
                const Elements a = *reinterpret_cast<const Elements*>(own_result + column);
                const Elements b =
                    *reinterpret_cast<const Elements*>(grads.at(warp_row + lane / 4 + r * 8, column / 8) + column % 8);
#pragma unroll
                for (int i = 0; i < Piece; ++i) sum += to_compute(a.items[i]) * to_compute(b.items[i]);
            }
        }
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        means[r] = sum;
        if (statistics && lane % 4 == 0 && position < operands.positions) statistics[numbers + position] = {logs[r], sum};
    }
    if (!grad_query) return;

    float output[Groups][Width / 8][4];
#pragma unroll
    for (int i = 0; i < Groups * Width / 2; ++i) output[i / (Width / 2)][i % (Width / 2) / 4][i % 4] = 0;
    for (int start = 0, buffer = 0; start < end; start += Keys, buffer ^= 1) {
        if (start) {
            await_copies<0>();
            __syncthreads();  // these keys have arrived, and every warp has read those before
        }
        if (start + Keys < end) fetch(start + Keys, buffer ^ 1);
        float weights[Groups][blocks][4], slopes[Groups][blocks][4];
        multiply_rows(weights, queries, warp_row, keys_of(buffer));
        multiply_rows(slopes, grads, warp_row, values_of(buffer));
        const bool all_seen = start + Keys <= certain;
#pragma unroll
        for (int r = 0; r < Groups * 2; ++r) {
#pragma unroll
            for (int n = 0; n < blocks; ++n) {
                float factors[4];
                drops[r].factors(start + n * 8 + lane % 4 / 2 * 4, factors);
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    const int key_at = start + n * 8 + lane % 4 * 2 + j;
                    float& slope = slopes[r / 2][n][r % 2 * 2 + j];
                    const float factor = lane % 2 ? factors[2 + j] : factors[j];
                    float x = weights[r / 2][n][r % 2 * 2 + j];
                    if constexpr (is_masked<M>) {
                        x = key_at < ends[r] ? masks[r](x * scale, key_at) * TO_TWO : -infinite;
                    } else {
                        x *= scale * TO_TWO;
                    }
                    slope = power_of_two(x - logs[r]) * (slope * factor - means[r]);
                    if (is_masked<M> || !all_seen) slope = key_at < ends[r] && logs[r] != infinite ? slope : 0.0f;
                }
            }
        }
        multiply_results(output, slopes, keys_of(buffer));
    }
    store_rows<T, Width, Piece>(grad_query + at[GRAD_QUERY], operands.row[GRAD_QUERY], first + warp_row, operands.positions,
        operands.width, output, scale);
}

// Shared memory: keys and values of `Groups` times 64 rows; two buffers of `Queries` queries, gradients and statistics, and
// of the addresses of their rows of a mask; where there are no `statistics`, two of results.
template <class T, int Width, int Piece, int Groups, int Queries, bool OfKey, bool OfValue, bool Statistics, int Rank, class M,
          class D>
__device__ void attend_backward_keys(
    const AttentionOperands<Rank, 8>& operands, int block, float scale, M mask, D dropout, const T* query, const T* key,
    const T* value, const T* result, const T* grad, const float* logarithms, const RowStatistics* statistics, T* grad_key,
    T* grad_value) {
    constexpr int blocks = Queries / 8, rows = Groups * 64;
    static_assert(Groups * blocks <= 8, "a word has the marks of dropout of all");
    extern __shared__ uint4 shared_memory[];
    T* const memory = reinterpret_cast<T*>(shared_memory);
    const SharedRows<T, Width> keys{memory}, values{memory + rows * Width};
    const auto queries_of = [&](int buffer) {
        return SharedRows<T, Width>{memory + (2 * rows + buffer * 2 * Queries) * Width};
    };
    const auto grads_of = [&](int buffer) {
        return SharedRows<T, Width>{memory + (2 * rows + (buffer * 2 + 1) * Queries) * Width};
    };
    RowStatistics* const buffers = reinterpret_cast<RowStatistics*>(memory + (2 * rows + 4 * Queries) * Width);
    typedef typename M::Row MaskRow;
    MaskRow* const mask_rows = reinterpret_cast<MaskRow*>(buffers + 2 * Queries);
    const auto results_of = [&](int buffer) {
        return SharedRows<T, Width>{reinterpret_cast<T*>(mask_rows + 2 * Queries) + buffer * Queries * Width};
    };
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    const long long first = static_cast<long long>(block) * rows, matrix = static_cast<long long>(blockIdx.y) * operands.groups;
    long long at[8];
    operands.find(matrix, at);
    dropout.at(0);

    // Queries before the first key see none of these.
    const long long begin = operands.causal ? first / Queries * Queries : 0;
    const auto fetch = [&](int group, long long start, int buffer) {
        long long here[8];
        operands.find(matrix + group, here);
        const long long numbers = (matrix + group) * operands.positions + start;
        fetch_rows<Queries, Piece, ATTENTION_THREADS>(
            queries_of(buffer), query + here[QUERY], operands.row[QUERY], start, operands.positions, operands.width);
        fetch_rows<Queries, Piece, ATTENTION_THREADS>(
            grads_of(buffer), grad + here[GRAD], operands.row[GRAD], start, operands.positions, operands.values);
        if constexpr (!Statistics)
            fetch_rows<Queries, Piece, ATTENTION_THREADS>(results_of(buffer), result + here[RESULT], operands.row[RESULT], start,
                operands.positions, operands.values);
        if (threadIdx.x < Queries) {
            const bool there = start + threadIdx.x < operands.positions;
            const long long number = numbers + (there ? threadIdx.x : 0);
            RowStatistics* const to = buffers + buffer * Queries + threadIdx.x;
            if constexpr (Statistics) {
                copy_async<sizeof(RowStatistics)>(to, statistics + number, there);
            } else {
                copy_async<sizeof(float)>(&to->logarithm, logarithms + number, there);
            }
            if constexpr (is_masked<M>) {
                M own = mask;
                own.at(number, 0);
                mask_rows[buffer * Queries + threadIdx.x] = own.row;
            }
        }
        commit_copies();
    };

    float key_sums[Groups][Width / 8][4], value_sums[Groups][Width / 8][4];
#pragma unroll
    for (int i = 0; i < Groups * Width / 2; ++i) {
        key_sums[i / (Width / 2)][i % (Width / 2) / 4][i % 4] = 0;
        value_sums[i / (Width / 2)][i % (Width / 2) / 4][i % 4] = 0;
    }
    const int warp_row = warp * Groups * 16;
    const long long own = first + warp_row + lane / 4;
    int group = begin < operands.positions ? 0 : operands.groups;
    long long start = begin;
    if (group < operands.groups) {
        fetch_rows<rows, Piece, ATTENTION_THREADS>(keys, key + at[KEY], operands.row[KEY], first, operands.keys, operands.width);
        fetch_rows<rows, Piece, ATTENTION_THREADS>(values, value + at[VALUE], operands.row[VALUE], first, operands.keys, operands.values);
        fetch(group, start, 0);
    }
    for (int buffer = 0; group < operands.groups; buffer ^= 1) {
        await_copies<0>();
        __syncthreads();  // these queries have arrived, and every warp has read those before
        int next_group = group;
        long long next = start + Queries;
        if (next >= operands.positions) {
            next = begin;
            ++next_group;
        }
        if (next_group < operands.groups) fetch(next_group, next, buffer ^ 1);
        if constexpr (!Statistics) {
            // Four threads have a row.
            static_assert(ATTENTION_THREADS >= 4 * Queries, "each row has its threads");
            const int row = threadIdx.x / 4;
            float sum = 0;
            for (int chunk = lane % 4; row < Queries && chunk < Width / 8; chunk += 4) {
                typedef Pack<T, 8> Elements;
                const Elements a = *reinterpret_cast<const Elements*>(results_of(buffer).at(row, chunk));
                const Elements b = *reinterpret_cast<const Elements*>(grads_of(buffer).at(row, chunk));
#pragma unroll
                for (int i = 0; i < 8; ++i) sum += to_compute(a.items[i]) * to_compute(b.items[i]);
            }
            sum += __shfl_xor_sync(~0u, sum, 1);
            sum += __shfl_xor_sync(~0u, sum, 2);
            if (lane % 4 == 0 && row < Queries) {
                RowStatistics& own = buffers[buffer * Queries + row];
                const float infinite = __int_as_float(0x7f800000), logarithm = own.logarithm;
                own = {logarithm == -infinite ? infinite : logarithm * TO_TWO, sum};
            }
            __syncthreads();
        }

        // For each key, the weights of these queries.
        float weights[Groups][blocks][4], slopes[Groups][blocks][4];
        multiply_rows(weights, keys, warp_row, queries_of(buffer));
        if constexpr (OfKey) multiply_rows(slopes, values, warp_row, grads_of(buffer));

        // Four neighbouring keys of a query take the words of one counter. The threads that have them, 4 lanes apart, have
        // them for two queries and in two rows: each makes the words for one of these.
        unsigned int kept[4];
        const int turn = lane / 4 % 4;
        if constexpr (is_dropping<D>) {
            unsigned int marks = 0;
#pragma unroll
            for (int i = 0; i < Groups * blocks; ++i) {
                const long long key_at = first + warp_row + i / blocks * 16 + turn / 2 * 8 + lane / 16 * 4;
                const long long position = start + i % blocks * 8 + lane % 4 * 2 + turn % 2;
                marks |= dropout.kept((matrix + group) * operands.positions + position, key_at) << i * 4;
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) kept[i] = __shfl_sync(~0u, marks, (lane & ~12) | i * 4) >> turn;
        }
        const bool all_seen = !operands.causal || start >= first + rows - 1;
#pragma unroll
        for (int n = 0; n < blocks; ++n) {
            const int column = n * 8 + lane % 4 * 2;
            const Pack<RowStatistics, 2> pair =
                *reinterpret_cast<const Pack<RowStatistics, 2>*>(buffers + buffer * Queries + column);
#pragma unroll
            for (int i = 0; i < Groups * 4; ++i) {
                const int g = i / 4, j = i % 4;
                const long long key_at = own + g * 16 + j / 2 * 8;
                const RowStatistics& row = pair.items[j % 2];
                float &weight = weights[g][n][j], &slope = slopes[g][n][j];
                float x = weight;
                if constexpr (is_masked<M>) {
                    const int readable = key_at < operands.keys ? static_cast<int>(key_at) : operands.keys - 1;
                    M own_mask = mask;
                    own_mask.row = mask_rows[buffer * Queries + column + j % 2];
                    x = own_mask(x * scale, readable) * TO_TWO;
                } else {
                    x *= scale * TO_TWO;
                }
                weight = power_of_two(x - row.logarithm);
                float factor = 1;
                if constexpr (is_dropping<D>) factor = kept[j] >> (g * blocks + n) * 4 & 1 ? static_cast<float>(dropout.scale) : 0.0f;
                if constexpr (OfKey) slope = weight * (slope * factor - row.mean);
                weight *= factor;
                if (!all_seen && key_at > start + column + j % 2) {
                    weight = 0;
                    if constexpr (OfKey) slope = 0;
                }
            }
        }
        if constexpr (OfValue) multiply_results(value_sums, weights, grads_of(buffer));
        if constexpr (OfKey) multiply_results(key_sums, slopes, queries_of(buffer));
        group = next_group;
        start = next;
    }
    if constexpr (OfKey)
        store_rows<T, Width, Piece>(grad_key + at[GRAD_KEY], operands.row[GRAD_KEY], first + warp_row, operands.keys,
            operands.width, key_sums, scale);
    if constexpr (OfValue)
        store_rows<T, Width, Piece>(grad_value + at[GRAD_VALUE], operands.row[GRAD_VALUE], first + warp_row, operands.keys,
            operands.values, value_sums, 1);
}

// Both in one launch, for `blocks` blocks of queries and further ones of keys.
template <class T, int Width, int Piece, int Groups, int Rows, bool OfKey, bool OfValue, int Rank, class M, class D>
__device__ void attend_backward(
    const AttentionOperands<Rank, 8>& operands, int blocks, float scale, M mask, D dropout, const T* query, const T* key,
    const T* value, const T* result, const T* grad, const float* logarithms, T* grad_query, T* grad_key, T* grad_value) {
    const int block = blockIdx.x;
    if (block < blocks) {
        attend_backward_queries<T, Width, Piece, Groups, Rows, Rank>(operands, block, blocks, scale, mask, dropout, query, key,
            value, result, grad, logarithms, nullptr, grad_query);
    } else if (blockIdx.y * operands.groups < gridDim.y) {
        attend_backward_keys<T, Width, Piece, Groups, Rows, OfKey, OfValue, false, Rank>(operands, block - blocks, scale, mask,
            dropout, query, key, value, result, grad, logarithms, nullptr, grad_key, grad_value);
    }
}
