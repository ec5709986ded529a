// Scaled dot-product attention in one kernel, with no scores in memory: T. Dao, "FlashAttention-2", 2023.
//
// A block of threads has 64 queries of a matrix, or 128; each of its four warps has 16 of them, or twice as many, for
// which it reads keys and values once, with their running largest score, sum of exponentials and result in registers. It goes
// over the keys 64 at a time, or 32: scores = queries @ keys^T by tensor cores, exponentials in registers, which are the
// left operand of the next product as they are, result += weights @ values. The next keys travel to shared memory while
// exponentials and the second product are computed, the values while the scores are. Operands are read by their strides;
// elements of a row are neighbours. Float32 goes through tensor cores in `Parts` parts (fragments.cuh).

#pragma once
#include "attention_tiles.cuh"

// A warp has `Groups` times 16 queries, of which `Held` fragments each are in registers and the others in shared memory; it takes
// `Keys` keys at a time. Queries, keys and values are what the team's tiles are copied from.
template <class Team, class T, int Width, int Parts, int Piece, int Groups, int Keys, int Held, int Rank, class S, class M, class D>
__device__ void attend(
    const AttentionOperands<Rank, 4>& operands, float scale, S sequences, M mask, D dropout,
    const typename Team::template Source<T>* query, const typename Team::template Source<T>* key,
    const typename Team::template Source<T>* value, T* result, float* logarithms) {
    constexpr int wide = Width / 8, blocks = Keys / 8, rows = Groups * Team::count * 16;
    extern __shared__ __align__(1024) uint4 shared_memory[];
    const float none = -__int_as_float(0x7f800000);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    const Sequence sequence = sequences.of(operands, blockIdx.y);
    const Window window(operands, sequence);
    const int first = (operands.descending ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * rows;
    if (first >= sequence.positions) return;
    const int last = first + rows - 1, end = window.end(last);
    const int begin = S::has_begin ? window.begin(first) / Keys * Keys : 0;
    typename Team::template Tiles<T, Width, rows, Keys, Piece, Rank> tiles(
        operands, sequence, sequences, reinterpret_cast<T*>(shared_memory), query, key, value);
    tiles.begin(first, begin);

    // Of the warp's rows this thread has two of each sixteen, eight apart.
    const int own = first + warp * Groups * 16 + lane / 4;
    M masks[Groups * 2];
    D drops[Groups * 2];
    int begins[Groups * 2], ends[Groups * 2];
#pragma unroll
    for (int r = 0; r < Groups * 2; ++r) {
        const int position = min(own + r * 8, sequence.positions - 1);
        masks[r] = mask;
        drops[r] = dropout;
        masks[r].at(sequence.number + position, 0);
        drops[r].at(sequence.number + position);
        begins[r] = S::has_begin ? window.begin(position) : 0;
        ends[r] = window.end(position);
    }
    // Every row of the block sees these keys.
    const int certain_begin = S::has_begin ? window.begin(last) : 0, certain_end = window.end(first);
    float largest[Groups * 2], sums[Groups * 2];
    float output[Groups][wide][4];
#pragma unroll
    for (int r = 0; r < Groups * 2; ++r) {
        largest[r] = none;
        sums[r] = 0;
    }
#pragma unroll
    for (int i = 0; i < Groups * wide * 4; ++i) output[i / 4 / wide][i / 4 % wide][i % 4] = 0;

    tiles.await_queries();
    typename Team::template Left<T, Width, rows, Parts, Groups, Held> lefts(tiles.queries(), warp * Groups * 16);
    lefts.hold();

    for (int start = begin; start < end; start += Keys) {
        tiles.turn(start, end);
        float scores[Groups][blocks][4];
        multiply_rows(scores, lefts, tiles.keys(), 0);
        tiles.keys_were_read(start, end);

        // Scores as exponents of 2. Only the first and last tiles have keys that a row does not see.
        const auto over_scores = [&](auto function) {
#pragma unroll
            for (int i = 0; i < Groups * blocks * 4; ++i) {
                const int n = i / 4 % blocks, j = i % 4;
                function(scores[i / 4 / blocks][n][j], start + n * 8 + lane % 4 * 2 + j % 2, i / 4 / blocks * 2 + j / 2);
            }
        };
        const auto is_seen = [&](int at, int r) { return (!S::has_begin || at >= begins[r]) && at < ends[r]; };
        if constexpr (is_masked<M>) {
            over_scores([&](float& x, int at, int r) { x = is_seen(at, r) ? masks[r](x * scale, at) * TO_TWO : none; });
        } else {
            over_scores([&](float& x, int, int) { x *= scale * TO_TWO; });
            if (start + Keys > certain_end || (S::has_begin && start < certain_begin))
                over_scores([&](float& x, int at, int r) { x = is_seen(at, r) ? x : none; });
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

        tiles.await_values();
        multiply_results<Parts>(output, scores, tiles.values(), 0);
        tiles.values_were_read();
    }

#pragma unroll
    for (int r = 0; r < Groups * 2; ++r) {
        float sum = sums[r];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        const int position = own + r * 8;
        if (position < sequence.positions && lane % 4 == 0)
            logarithms[sequence.number + position] = sum == 0.0f ? none : largest[r] / TO_TWO + logf(sum);
        const float factor = sum == 0.0f ? 0.0f : 1 / sum;
#pragma unroll
        for (int i = 0; i < wide; ++i) {
            output[r / 2][i][r % 2 * 2] *= factor;
            output[r / 2][i][r % 2 * 2 + 1] *= factor;
        }
    }
    long long at[4];
    operands.find(blockIdx.y, at);
    result += at[RESULT] + sequence.rows(operands, RESULT);
    store_rows<T, Width, Piece>(
        result, operands.row[RESULT], first + warp * Groups * 16, sequence.positions, operands.values, output, 1);
}
