// Scaled dot-product attention in one kernel, with no scores in memory: T. Dao, "FlashAttention-2", 2023.
//
// A block of threads has 64 queries of a matrix, or 128; each of its four warps has 16 of them, or twice as many, for
// which it reads keys and values once, with their running largest score, sum of exponentials and result in registers. It goes
// over the keys 64 at a time, or 32: scores = queries @ keys^T by tensor cores, exponentials in registers, which are the
// left operand of the next product as they are, result += weights @ values. The next keys travel to shared memory while
// exponentials and the second product are computed, the values while the scores are. Operands are read by their strides;
// elements of a row are neighbours.

#pragma once
#include "attention_tiles.cuh"

// A warp has `Groups` times 16 queries, of which `Held` fragments of 16 elements are in registers and the others in shared
// memory; it takes `Keys` keys at a time.
template <class T, int Width, int Piece, int Groups, int Keys, int Held, int Rank, class M, class D>
__device__ void attend(
    const AttentionOperands<Rank, 4>& operands, float scale, M mask, D dropout, const T* query, const T* key, const T* value,
    T* result, float* logarithms) {
    constexpr int deep = Width / 16, wide = Width / 8, blocks = Keys / 8, rows = Groups * 64;
    extern __shared__ uint4 shared_memory[];
    T* const memory = reinterpret_cast<T*>(shared_memory);
    const SharedRows<T, Width> queries{memory}, keys{memory + rows * Width}, values{keys.memory + Keys * Width};
    const float none = -__int_as_float(0x7f800000);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    const long long numbers = blockIdx.y * operands.positions;
    long long at[4];
    operands.find(blockIdx.y, at);
    query += at[QUERY];
    key += at[KEY];
    value += at[VALUE];
    result += at[RESULT];
    // The longest rows of a causal matrix first.
    const long long first = static_cast<long long>(operands.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * rows;
    const int all = operands.keys;
    const long long seen = first + rows;
    const int end = operands.causal && seen < all ? static_cast<int>(seen) : all;

    fetch_rows<rows, Piece, ATTENTION_THREADS>(queries, query, operands.row[QUERY], first, operands.positions, operands.width);
    fetch_rows<Keys, Piece, ATTENTION_THREADS>(keys, key, operands.row[KEY], 0, all, operands.width);
    commit_copies();

    // Of the warp's rows this thread has two of each sixteen, eight apart.
    const long long own = first + warp * Groups * 16 + lane / 4;
    M masks[Groups * 2];
    D drops[Groups * 2];
    int ends[Groups * 2];
#pragma unroll
    for (int r = 0; r < Groups * 2; ++r) {
        const long long position = own + r * 8 < operands.positions ? own + r * 8 : operands.positions - 1;
        masks[r] = mask;
        drops[r] = dropout;
        masks[r].at(numbers + position, 0);
        drops[r].at(numbers + position);
        ends[r] = operands.causal && position + 1 < all ? static_cast<int>(position) + 1 : all;
    }
    // Every row of the block sees the keys before this one.
    const long long certain = operands.causal && first + 1 < all ? first + 1 : all;
    float largest[Groups * 2], sums[Groups * 2];
    float output[Groups][wide][4];
#pragma unroll
    for (int r = 0; r < Groups * 2; ++r) {
        largest[r] = none;
        sums[r] = 0;
    }
#pragma unroll
    for (int i = 0; i < Groups * wide * 4; ++i) output[i / 4 / wide][i / 4 % wide][i % 4] = 0;

    await_copies<0>();
    __syncthreads();
    const auto load_queries = [&](unsigned int(&to)[4], int g, int k) {
        load_matrices(to, queries.at((warp * Groups + g) * 16 + lane % 16, k * 2 + lane / 16));
    };
    unsigned int held[Groups][Held][4];
#pragma unroll
    for (int i = 0; i < Groups * Held; ++i) load_queries(held[i / Held][i % Held], i / Held, i % Held);

    for (int start = 0; start < end; start += Keys) {
        fetch_rows<Keys, Piece, ATTENTION_THREADS>(values, value, operands.row[VALUE], start, all, operands.values);
        commit_copies();

        float scores[Groups][blocks][4];
#pragma unroll
        for (int i = 0; i < Groups * blocks * 4; ++i) scores[i / 4 / blocks][i / 4 % blocks][i % 4] = 0;
#pragma unroll
        for (int k = 0; k < deep; ++k) {
            unsigned int left[Groups][4];
#pragma unroll
            for (int g = 0; g < Groups; ++g) {
                if (k >= Held) load_queries(left[g], g, k);
#pragma unroll
                for (int i = 0; i < 4; ++i) left[g][i] = k < Held ? held[g][k < Held ? k : 0][i] : left[g][i];
            }
#pragma unroll
            for (int n = 0; n < blocks; n += 2) {
                unsigned int right[4];
                load_matrices(right, keys.at(n * 8 + lane % 8 + lane / 16 * 8, k * 2 + lane / 8 % 2));
#pragma unroll
                for (int g = 0; g < Groups; ++g) {
                    multiply_add<T>(scores[g][n], left[g], right[0], right[1]);
                    multiply_add<T>(scores[g][n + 1], left[g], right[2], right[3]);
                }
            }
        }
        __syncthreads();  // every warp has read the keys
        const bool more = start + Keys < end;
        if (more) fetch_rows<Keys, Piece, ATTENTION_THREADS>(keys, key, operands.row[KEY], start + Keys, all, operands.width);
        commit_copies();

        // Scores as exponents of 2. Only the last tiles have keys that a row does not see.
        const auto over_scores = [&](auto function) {
#pragma unroll
            for (int i = 0; i < Groups * blocks * 4; ++i) {
                const int n = i / 4 % blocks, j = i % 4;
                function(scores[i / 4 / blocks][n][j], start + n * 8 + lane % 4 * 2 + j % 2, i / 4 / blocks * 2 + j / 2);
            }
        };
        if constexpr (is_masked<M>) {
            over_scores([&](float& x, int at, int r) { x = at < ends[r] ? masks[r](x * scale, at) * TO_TWO : none; });
        } else {
            over_scores([&](float& x, int, int) { x *= scale * TO_TWO; });
            if (start + Keys > certain)
                over_scores([&](float& x, int at, int r) { x = at < ends[r] ? x : none; });
        }
#pragma unroll
        for (int r = 0; r < Groups * 2; ++r) {
            auto& own_scores = scores[r / 2];
            const int half = r % 2 * 2;
            float high = largest[r];
#pragma unroll
            for (int n = 0; n < blocks; ++n) high = fmaxf(high, fmaxf(own_scores[n][half], own_scores[n][half + 1]));
            high = fmaxf(high, __shfl_xor_sync(~0u, high, 1));
            high = fmaxf(high, __shfl_xor_sync(~0u, high, 2));
            // Where all is masked so far there is nothing to subtract.
            const float shift = high == none ? 0.0f : high;
            const float kept = power_of_two(largest[r] - shift);
            largest[r] = high;
            float sum = 0;
#pragma unroll
            for (int n = 0; n < blocks; ++n) {
                float factors[4];
                drops[r].factors(start + n * 8 + lane % 4 / 2 * 4, factors);
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    float& x = own_scores[n][half + j];
                    x = power_of_two(x - shift);
                    sum += x;
                    x *= lane % 2 ? factors[2 + j] : factors[j];
                }
            }
            sums[r] = sums[r] * kept + sum;
#pragma unroll
            for (int i = 0; i < wide; ++i) {
                output[r / 2][i][half] *= kept;
                output[r / 2][i][half + 1] *= kept;
            }
        }

        await_copies<1>();
        __syncthreads();  // the values of all threads have arrived
#pragma unroll
        for (int k = 0; k < Keys / 16; ++k) {
            unsigned int weights[Groups][4];
#pragma unroll
            for (int g = 0; g < Groups; ++g) {
                const float(&even)[4] = scores[g][2 * k], (&odd)[4] = scores[g][2 * k + 1];
                weights[g][0] = packed<T>(even[0], even[1]);
                weights[g][1] = packed<T>(even[2], even[3]);
                weights[g][2] = packed<T>(odd[0], odd[1]);
                weights[g][3] = packed<T>(odd[2], odd[3]);
            }
#pragma unroll
            for (int i = 0; i < wide; i += 2) {
                unsigned int right[4];
                load_transposed(right, values.at(k * 16 + lane % 16, i + lane / 16));
#pragma unroll
                for (int g = 0; g < Groups; ++g) {
                    multiply_add<T>(output[g][i], weights[g], right[0], right[1]);
                    multiply_add<T>(output[g][i + 1], weights[g], right[2], right[3]);
                }
            }
        }
        await_copies<0>();
        __syncthreads();  // the next keys have arrived, and every warp has read the values
    }

#pragma unroll
    for (int r = 0; r < Groups * 2; ++r) {
        float sum = sums[r];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        const long long position = own + r * 8;
        if (position < operands.positions && lane % 4 == 0)
            logarithms[numbers + position] = sum == 0.0f ? none : largest[r] / TO_TWO + logf(sum);
        const float factor = sum == 0.0f ? 0.0f : 1 / sum;
#pragma unroll
        for (int i = 0; i < wide; ++i) {
            output[r / 2][i][r % 2 * 2] *= factor;
            output[r / 2][i][r % 2 * 2 + 1] *= factor;
        }
    }
    store_rows<T, Width, Piece>(
        result, operands.row[RESULT], first + warp * Groups * 16, operands.positions, operands.values, output, 1);
}
