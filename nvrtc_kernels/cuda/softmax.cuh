// Softmax and log-softmax along the middle dimension of contiguous (outer, n, inner) arrays, and their derivatives,
// each in one kernel. W is the type that is computed in: float for half precision.
//
// rows     inner = 1, n up to some thousands: a team has a row in registers (rows.cuh), which is read once;
// long     inner = 1, longer: a block has a row and reads it twice, the first time for the largest element and the
//          sum together, which is rescaled for each pack by the largest element so far;
// columns  inner > 1: a thread has a line, and neighbouring threads have neighbouring lines.
//
// What the variants `rows` and `columns` read may be computed, and their results be gone on with: see fused_rows.cuh.

#pragma once
#include "exponentials.cuh"
#include "rows.cuh"

// exp(x) for results of type T, to a digit more than T has.
template <class T, class W>
__device__ inline W exponential(W x) {
    if constexpr (sizeof(T) == 2) return quick_exponential(x);
    return exp(x);
}

// What exp(x - largest) are multiplied with, or what is taken from x - largest.
template <bool Log, class W>
__device__ inline W softmax_scale(W sum) {
    if constexpr (Log) return log(sum);
    return W(1) / sum;
}
template <bool Log, class T, class W>
__device__ inline W softmax_of(W x, W largest, W scale) {
    if constexpr (Log) return (x - largest) - scale;
    return exponential<T>(x - largest) * scale;
}

// `total` is the sum of the gradients, times the results for softmax.
template <bool Log, class W>
__device__ inline W softmax_gradient(W grad, W result, W total) {
    if constexpr (Log) return grad - exp(result) * total;
    return (grad - total) * result;
}

// Largest element so far, and the sum of exp(x - largest), for results of type T. An infinity makes NaN, as subtracting it
// would.
template <class T, class W>
struct Exponents {
    W largest = -W(__int_as_float(0x7f800000)), sum = 0;

    template <int N>
    __device__ void add(const W (&x)[N]) {
        const W none = -W(__int_as_float(0x7f800000));
        W high = largest;
#pragma unroll
        for (int i = 0; i < N; ++i) high = larger_number(high, x[i]);
        // Nothing but -inf so far is as far from 0 as from itself, but is no NaN yet.
        const W from = high == none ? W(0) : high;
        sum *= exp(largest - from);
#pragma unroll
        for (int i = 0; i < N; ++i) sum += exponential<T>(x[i] - from);
        largest = high;
    }
    __device__ void add(W x) {
        const W one[1] = {x};
        add(one);
    }
    // The sum as it is for the largest element of all.
    __device__ W sum_for(W all) const { return largest == all ? sum : sum * exp(largest - all); }
};

template <bool Log, class W, int Threads, int Along, int Packs, int Width, class In, class Out>
__device__ void softmax_rows(long long rows, int n, In in, Out out) {
    const RowTeam<Threads, Along> team;
    const W none = -W(__int_as_float(0x7f800000));
    RowPart<W, Along, Packs, Width> part;
    part.load(in + team.row * n, team.row < rows ? n : 0, team.rank, none);
    W largest = none;
#pragma unroll
    for (int i = 0; i < Packs * Width; ++i) largest = Larger()(part.items[i], largest);
    largest = team.all(largest, Larger());
    W sum = 0;
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
        // What is behind the end of the row is nothing, even where the row is all -inf.
        if ((p * Along + team.rank) * Width < n) {
#pragma unroll
            for (int i = p * Width; i < (p + 1) * Width; ++i) {
                const W x = part.items[i] - largest, exponent = exponential<typename ElementOf<Out>::Type>(x);
                sum += exponent;
                part.items[i] = Log ? x : exponent;
            }
        }
    }
    const W scale = softmax_scale<Log>(team.all(sum, Plus()));
    if (team.row >= rows) return;
#pragma unroll
    for (int i = 0; i < Packs * Width; ++i) part.items[i] = Log ? part.items[i] - scale : part.items[i] * scale;
    part.store(out + team.row * n, n, team.rank);
}

template <bool Log, class W, int Threads, int Width, class In, class Out>
__device__ void softmax_long(long long rows, long long n, const In* in, Out* out) {
    const RowTeam<Threads, Threads> team;
    const RaggedRow<Width> row(team.row * n, n, is_aligned<Width>(in) && is_aligned<Width>(out));
    in += team.row * n;
    out += team.row * n;
    const auto load = [&](auto width, long long at) { return pack_of<width.value>(in + at); };
    Exponents<Out, W> own;
    over_row<Threads, 4>(row, team.rank, load, [&](auto width, auto count, const auto& packs, long long, int) {
        W x[count.value * width.value];
        widen(x, packs);
        own.add(x);
    });
    const W largest = team.all(own.largest, Larger());
    const W scale = softmax_scale<Log>(team.all(own.sum_for(largest), Plus()));
    over_row<Threads, 4>(row, team.rank, load, [&](auto width, auto count, const auto& packs, long long at, int step) {
        Pack<Out, width.value> results[count.value];
        W x[count.value * width.value];
        widen(x, packs);
#pragma unroll
        for (int i = 0; i < count.value * width.value; ++i)
            results[i / width.value].items[i % width.value] = to_element<Out>(softmax_of<Log, Out>(x[i], largest, scale));
        store_packs(out + at, step, results);
    });
}

template <bool Log, class W, class In, class Out>
__device__ void softmax_columns(long long lines, long long n, long long inner, In in, Out out) {
    typedef typename ElementOf<Out>::Type Element;
    const long long line = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (line >= lines) return;
    const long long start = line / inner * n * inner + line % inner;
    Exponents<Element, W> own;
    for (long long i = 0; i < n; ++i) own.add(W(to_compute(pack_of<1>(in + (start + i * inner)).items[0])));
    const W scale = softmax_scale<Log>(own.sum);
    for (long long i = 0; i < n; ++i) {
        const long long at = start + i * inner;
        const W result = softmax_of<Log, Element>(W(to_compute(element_of(in, at))), own.largest, scale);
        const Pack<Element, 1> pack[1] = {{to_element<Element>(result)}};
        store_packs(out + at, 0, pack);
    }
}

template <bool Log, class W, int Threads, int Along, int Packs, int Width, class Grad, class Result, class Out>
__device__ void softmax_rows_backward(long long rows, int n, Grad grad, const Result* result, Out out) {
    const RowTeam<Threads, Along> team;
    const int length = team.row < rows ? n : 0;
    RowPart<W, Along, Packs, Width> grads, results;
    grads.load(grad + team.row * n, length, team.rank, W(0));
    results.load(result + team.row * n, length, team.rank, W(0));
    W total = 0;
#pragma unroll
    for (int i = 0; i < Packs * Width; ++i) total += Log ? grads.items[i] : grads.items[i] * results.items[i];
    total = team.all(total, Plus());
#pragma unroll
    for (int i = 0; i < Packs * Width; ++i)
        grads.items[i] = softmax_gradient<Log>(grads.items[i], results.items[i], total);
    grads.store(out + team.row * n, length, team.rank);
}

template <class Grad, class Result, int Width>
struct GradientPacks {
    Pack<Grad, Width> grad;
    Pack<Result, Width> result;
};

template <bool Log, class W, int Threads, int Width, class Grad, class Result, class Out>
__device__ void softmax_long_backward(
    long long rows, long long n, const Grad* grad, const Result* result, Out* out) {
    const RowTeam<Threads, Threads> team;
    const bool aligned = is_aligned<Width>(grad) && is_aligned<Width>(result) && is_aligned<Width>(out);
    const RaggedRow<Width> row(team.row * n, n, aligned);
    grad += team.row * n;
    result += team.row * n;
    out += team.row * n;
    const auto load = [&](auto width, long long at) {
        return GradientPacks<Grad, Result, width.value>{pack_of<width.value>(grad + at), pack_of<width.value>(result + at)};
    };
    W total = 0;
    over_row<Threads, 2>(row, team.rank, load, [&](auto width, auto count, const auto& packs, long long, int) {
#pragma unroll
        for (int i = 0; i < count.value * width.value; ++i) {
            const auto& pack = packs[i / width.value];
            const W g = to_compute(pack.grad.items[i % width.value]);
            total += Log ? g : g * W(to_compute(pack.result.items[i % width.value]));
        }
    });
    total = team.all(total, Plus());
    over_row<Threads, 2>(row, team.rank, load, [&](auto width, auto count, const auto& packs, long long at, int step) {
        Pack<Out, width.value> results[count.value];
#pragma unroll
        for (int i = 0; i < count.value * width.value; ++i) {
            const auto& pack = packs[i / width.value];
            const W g = to_compute(pack.grad.items[i % width.value]), y = to_compute(pack.result.items[i % width.value]);
            results[i / width.value].items[i % width.value] = to_element<Out>(softmax_gradient<Log>(g, y, total));
        }
        store_packs(out + at, step, results);
    });
}

template <bool Log, class W, class Grad, class Result, class Out>
__device__ void softmax_columns_backward(
    long long lines, long long n, long long inner, Grad grad, const Result* result, Out out) {
    typedef typename ElementOf<Out>::Type Element;
    const long long line = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (line >= lines) return;
    const long long start = line / inner * n * inner + line % inner;
    W total = 0;
    for (long long i = 0; i < n; ++i) {
        const long long at = start + i * inner;
        const W g = to_compute(pack_of<1>(grad + at).items[0]);
        total += Log ? g : g * W(to_compute(result[at]));
    }
    for (long long i = 0; i < n; ++i) {
        const long long at = start + i * inner;
        const W g = to_compute(element_of(grad, at));
        const Pack<Element, 1> pack[1] = {{to_element<Element>(softmax_gradient<Log>(g, W(to_compute(result[at])), total))}};
        store_packs(out + at, 0, pack);
    }
}
