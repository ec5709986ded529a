// Softmax of scaled dot-product attention, block by block, and its derivative.
//
// A block is some rows of the scores of some matrices, over a range of keys: scores[row][key] = query . key, which a
// product made, in rows that start `stride` elements apart. Neither scores nor weights outlast their block. What is
// kept of a row is the logarithm of its sum of exponentials alone, and where its keys come in several blocks that is
// also all that passes from one to the next (the recurrence of Dao et al., "FlashAttention", 2022, with normalised
// partial results):
//
//     new = log(exp(old) + sum(exp(scores)))        result = result * exp(old - new) + exp(scores - new) @ values
//
// The gradient makes the weights again from that number, element by element. Dropout keeps no mask either: rows of
// words (philox.cuh) stand for rows of weights, padded to multiples of four, so that a thread's four weights take
// the four words of one counter.
//
// A team of threads (rows.cuh) has a row of the block, in packs of four keys.

#pragma once
#include "philox.cuh"
#include "rows.cuh"

typedef unsigned long long Count;

// Which rows and keys a block is made of. Rows of all matrices are numbered through: matrix m has
// first + m * step, ..., and a row's position in its sequence is its number modulo `positions`.
struct AttentionBlock {
    long long rows;       // of all matrices of the block
    long long in_matrix;  // rows of each
    long long first, step;
    long long positions;
    long long first_key;
    int keys;
    int stride;
    int causal;
    int unused;

    __device__ long long number(long long row) const { return first + row / in_matrix * step + row % in_matrix; }

    // How many of the block's keys a row may see.
    __device__ int seen(long long number) const {
        if (!causal) return keys;
        const long long left = number % positions + 1 - first_key;
        return left < 0 ? 0 : left < keys ? static_cast<int>(left) : keys;
    }
};

struct NoMask {
    typedef const void* Row;
    __device__ void at(long long, long long) {}
    template <class W>
    __device__ W operator()(W score, int) const { return score; }
};

// Strides over as few dimensions as the rows' numbers have to be taken apart into, and over the keys.
template <int Rank, class T>
struct Mask {
    typedef const T* Row;
    long long sizes[Rank], strides[Rank], key_stride;
    Row row;

    __device__ void at(long long number, long long first_key) {
        row += first_key * key_stride;
#pragma unroll
        for (int d = Rank - 1; d > 0; --d) {
            row += number % sizes[d] * strides[d];
            number /= sizes[d];
        }
        row += number * strides[0];
    }
    template <class W>
    __device__ W operator()(W score, int key) const {
        return masked(score, row[key * key_stride]);
    }

private:
    template <class W>
    static __device__ W masked(W score, bool seen) { return seen ? score : -W(__int_as_float(0x7f800000)); }
    template <class W, class X>
    static __device__ W masked(W score, X added) { return score + static_cast<W>(to_compute(added)); }
};

struct NoDropout {
    __device__ void at(long long) {}
    template <class W>
    __device__ void factors(long long, W* factor) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) factor[i] = 1;
    }
};

struct AttentionDropout {
    Count seed, call;
    Count below;   // words under this keep their weight; at most 2^32
    Count blocks;  // of words of a row
    double scale;
    Count row;

    __device__ void at(long long number) {
        find_call(seed, call);
        row = number * blocks;
    }
    template <class W>
    __device__ void factors(long long key, W* factor) const {
        const Words4 words = philox(seed, call, row + key / 4);
#pragma unroll
        for (int i = 0; i < 4; ++i) factor[i] = words.word[i] < below ? static_cast<W>(scale) : W(0);
    }
    // Bits of four neighbouring weights of any row, set where they are kept. After `at`.
    __device__ unsigned kept(Count number, Count key) const {
        const Words4 words = philox(seed, call, number * blocks + key / 4);
        unsigned marks = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) marks |= (words.word[i] < below ? 1u : 0u) << i;
        return marks;
    }
};

template <class W>
__device__ inline void load4(const W* row, int at, int end, W* items) {
    if (at + 4 <= end) {
        const Pack<W, 4> pack = *reinterpret_cast<const Pack<W, 4>*>(row + at);
#pragma unroll
        for (int i = 0; i < 4; ++i) items[i] = pack.items[i];
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) items[i] = at + i < end ? row[at + i] : W(0);
    }
}

template <class T, class W>
__device__ inline void store4(T* row, int at, const W* items) {
    Pack<T, 4> pack;
#pragma unroll
    for (int i = 0; i < 4; ++i) pack.items[i] = to_element<T>(items[i]);
    *reinterpret_cast<Pack<T, 4>*>(row + at) = pack;
}

// Weights of a block, which may replace its scores, and the logarithms of the sums. `result` is null for the first
// keys of a row; afterwards it is rows of `width` elements, `result_step` between matrices, that the earlier keys
// made and that are scaled here, so that the product can add to them.
template <class W, int Threads, int Along, int Packs, class M, class D, class T>
__device__ void attention_weights(
    AttentionBlock block, W scale, M mask, D dropout, const W* scores, T* weights, W* logarithms, W* result,
    long long result_step, long long width) {
    const RowTeam<Threads, Along> team;
    const W none = -W(__int_as_float(0x7f800000));
    const bool there = team.row < block.rows;
    const long long number = there ? block.number(team.row) : 0;
    const int end = there ? block.seen(number) : 0;
    mask.at(number, block.first_key);
    dropout.at(number);
    scores += team.row * block.stride;
    W items[Packs * 4];
    W largest = none;
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
        const int at = (p * Along + team.rank) * 4;
        load4(scores, at, end, items + p * 4);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            W& x = items[p * 4 + i];
            x = at + i < end ? mask(x * scale, at + i) : none;
            largest = Larger()(x, largest);
        }
    }
    largest = team.all(largest, Larger());
    // Where all is masked there is nothing to subtract.
    const W shift = largest == none ? W(0) : largest;
    W sum = 0;
#pragma unroll
    for (int i = 0; i < Packs * 4; ++i) {
        items[i] = exp(items[i] - shift);
        sum += items[i];
    }
    sum = team.all(sum, Plus());
    W logarithm = largest == none ? none : largest + log(sum);
    W factor = sum == W(0) ? W(0) : 1 / sum;
    if (result) {
        // One thread reads what one thread writes.
        const W old = team.all(there && team.rank == 0 ? logarithms[number] : none, Larger());
        const W own = logarithm;
        const W high = Larger()(old, own);
        logarithm = high == none ? none : high + log(exp(old - high) + exp(own - high));
        factor = own == none ? W(0) : exp(shift - logarithm);
        const W kept = old == none ? W(0) : exp(old - logarithm);
        if (there) {
            W* row = result + team.row / block.in_matrix * result_step + team.row % block.in_matrix * width;
            for (long long i = team.rank; i < width; i += Along) row[i] *= kept;
        }
    }
    if (!there) return;
    if (team.rank == 0) logarithms[number] = logarithm;
    weights += team.row * block.stride;
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
        const int at = (p * Along + team.rank) * 4;
        if (at >= block.keys) return;
        W factors[4];
        dropout.factors(block.first_key + at, factors);
#pragma unroll
        for (int i = 0; i < 4; ++i) factors[i] *= items[p * 4 + i] * factor;
        store4(weights, at, factors);
    }
}

// From scores and the gradients of the weights: the weights, as the product with the values took them, and the
// gradients of the masked scores. `along` has the sum of result times gradient of each row. Outputs may replace inputs.
template <class W, int Threads, int Along, class M, class D, class T>
__device__ void attention_gradients(
    AttentionBlock block, W scale, M mask, D dropout, const W* scores, const W* grads, const W* logarithms, const W* along,
    T* weights, T* score_grads) {
    const RowTeam<Threads, Along> team;
    if (team.row >= block.rows) return;
    const W none = -W(__int_as_float(0x7f800000));
    const long long number = block.number(team.row), start = team.row * block.stride;
    const int end = block.seen(number);
    const W logarithm = logarithms[number], mean = along[number];
    mask.at(number, block.first_key);
    dropout.at(number);
    for (int at = team.rank * 4; at < block.keys; at += Along * 4) {
        W items[4], slopes[4], factors[4];
        load4(scores + start, at, end, items);
        load4(grads + start, at, end, slopes);
        dropout.factors(block.first_key + at, factors);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const bool seen = at + i < end && logarithm != none;
            const W weight = seen ? exp(mask(items[i] * scale, at + i) - logarithm) : W(0);
            items[i] = weight * factors[i];
            slopes[i] = seen ? weight * (factors[i] * slopes[i] - mean) : W(0);
        }
        store4(weights + start, at, items);
        store4(score_grads + start, at, slopes);
    }
}

// Sums of the products of two contiguous (rows, width) arrays along their rows.
template <class W, int Threads, int Along, class T>
__device__ void attention_row_products(long long rows, long long width, const T* a, const T* b, W* sums) {
    const RowTeam<Threads, Along> team;
    W sum = 0;
    if (team.row < rows)
        for (long long i = team.row * width + team.rank; i < (team.row + 1) * width; i += Along)
            sum += W(to_compute(a[i])) * W(to_compute(b[i]));
    sum = team.all(sum, Plus());
    if (team.row < rows && team.rank == 0) sums[team.row] = sum;
}
