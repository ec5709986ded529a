// Softmax and log-softmax along the middle dimension of contiguous (outer, n, inner) arrays, and their derivatives,
// each in one kernel. W is the type that is computed in: float for half precision.
//
// rows     inner = 1, n up to some thousands: a team has a row in registers (rows.cuh), which is read once;
// long     inner = 1, longer: a block has a row and reads it twice, the first time for the largest element and the
//          sum together, which is rescaled whenever a larger element comes;
// columns  inner > 1: a thread has a line, and neighbouring threads have neighbouring lines.

#pragma once
#include "rows.cuh"

template <bool Log, class W>
__device__ inline W softmax_of(W x, W largest, W sum) {
    if constexpr (Log) return (x - largest) - log(sum);
    return exp(x - largest) / sum;
}

// `total` is the sum of the gradients, times the results for softmax.
template <bool Log, class W>
__device__ inline W softmax_gradient(W grad, W result, W total) {
    if constexpr (Log) return grad - exp(result) * total;
    return (grad - total) * result;
}

// Largest element so far, and the sum of exp(x - largest).
template <class W>
struct Exponents {
    W largest, sum;

    __device__ void add(W x) {
        if (x > largest) {
            sum = sum * exp(largest - x) + exp(x - x);  // an infinity makes NaN, as subtracting it would
            largest = x;
        } else {
            sum += x == largest ? W(1) : exp(x - largest);
        }
    }
};

template <bool Log, class W, int Threads, int Along, int Packs, int Width, class In, class Out>
__device__ void softmax_rows(long long rows, int n, const In* in, Out* out) {
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
            for (int i = p * Width; i < (p + 1) * Width; ++i) sum += exp(part.items[i] - largest);
        }
    }
    sum = team.all(sum, Plus());
    if (team.row >= rows) return;
#pragma unroll
    for (int i = 0; i < Packs * Width; ++i) part.items[i] = softmax_of<Log>(part.items[i], largest, sum);
    part.store(out + team.row * n, n, team.rank);
}

template <bool Log, class W, int Threads, class In, class Out>
__device__ void softmax_long(long long rows, long long n, const In* in, Out* out) {
    const RowTeam<Threads, Threads> team;
    in += team.row * n;
    out += team.row * n;
    Exponents<W> own{-W(__int_as_float(0x7f800000)), W(0)};
    for (long long i = team.rank; i < n; i += Threads) own.add(to_compute(in[i]));
    const W largest = team.all(own.largest, Larger());
    const W sum = team.all(own.largest == largest ? own.sum : own.sum * exp(own.largest - largest), Plus());
    for (long long i = team.rank; i < n; i += Threads)
        out[i] = to_element<Out>(softmax_of<Log>(W(to_compute(in[i])), largest, sum));
}

template <bool Log, class W, class In, class Out>
__device__ void softmax_columns(long long lines, long long n, long long inner, const In* in, Out* out) {
    const long long line = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (line >= lines) return;
    const long long start = line / inner * n * inner + line % inner;
    Exponents<W> own{-W(__int_as_float(0x7f800000)), W(0)};
    for (long long i = 0; i < n; ++i) own.add(to_compute(in[start + i * inner]));
    for (long long i = 0; i < n; ++i) {
        const long long at = start + i * inner;
        out[at] = to_element<Out>(softmax_of<Log>(W(to_compute(in[at])), own.largest, own.sum));
    }
}

template <bool Log, class W, int Threads, int Along, int Packs, int Width, class Grad, class Result, class Out>
__device__ void softmax_rows_backward(long long rows, int n, const Grad* grad, const Result* result, Out* out) {
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

template <bool Log, class W, int Threads, class Grad, class Result, class Out>
__device__ void softmax_long_backward(
    long long rows, long long n, const Grad* grad, const Result* result, Out* out) {
    const RowTeam<Threads, Threads> team;
    const long long start = team.row * n;
    W total = 0;
    for (long long i = team.rank; i < n; i += Threads)
        total += Log ? W(to_compute(grad[start + i])) : W(to_compute(grad[start + i])) * W(to_compute(result[start + i]));
    total = team.all(total, Plus());
    for (long long i = start + team.rank; i < start + n; i += Threads)
        out[i] = to_element<Out>(softmax_gradient<Log>(W(to_compute(grad[i])), W(to_compute(result[i])), total));
}

template <bool Log, class W, class Grad, class Result, class Out>
__device__ void softmax_columns_backward(
    long long lines, long long n, long long inner, const Grad* grad, const Result* result, Out* out) {
    const long long line = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (line >= lines) return;
    const long long start = line / inner * n * inner + line % inner;
    W total = 0;
    for (long long i = 0; i < n; ++i) {
        const long long at = start + i * inner;
        total += Log ? W(to_compute(grad[at])) : W(to_compute(grad[at])) * W(to_compute(result[at]));
    }
    for (long long i = 0; i < n; ++i) {
        const long long at = start + i * inner;
        out[at] = to_element<Out>(softmax_gradient<Log>(W(to_compute(grad[at])), W(to_compute(result[at])), total));
    }
}
