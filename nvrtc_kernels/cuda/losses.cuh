// Losses of contiguous (outer, classes, inner) arrays whose target is a class for each of the outer * inner lines.
//
// cross entropy  log(sum(exp(x))) - x[target] of each line, in one kernel that reads a logit once: the sum is of
//                exp(x - largest), which is rescaled for each pack by the largest element so far. The largest element
//                and the logarithm of the sum are kept for the gradient, which is one kernel too; probabilities are not.
//   rows         inner = 1: a team of threads has a line, in packs of Width neighbouring logits, wherever it starts
//   columns      inner > 1: a thread has a line, and neighbouring threads have neighbouring lines
//                The gradient goes over memory in the same way
//                Logits may be computed as they are loaded, and gradients be gone on with: see fused_rows.cuh
// nll            -x[target] of each line, and its gradient, written among zeros
//
// A line whose target is `ignored` counts nothing. A target that is no class is printed and fails an assertion.
// Of each line the loss and what it weighs go out, to be summed by a reduction. Where nothing but their sums is asked for
// (`Summed`), each block of cross entropy adds those of its lines up, so that less is left for the reduction.

#pragma once
#include "softmax.cuh"

struct Classes {
    long long lines, classes, inner;
    long long ignored;

    // Where the elements of a line start; they are `inner` apart.
    __device__ long long start(long long line) const {
        return inner == 1 ? line * classes : line / inner * classes * inner + line % inner;
    }
    __device__ long long checked(long long target) const {
        if (target < 0 || target >= classes)
            printf("target %lld is out of bounds: there are %lld classes\n", target, classes);
        assert(target >= 0 && target < classes && "a target is no class");
        return target;
    }
};

template <class W, class V>
__device__ inline W weight_of(const V* weight, long long at) { return weight == nullptr ? W(1) : W(to_compute(weight[at])); }

// What is gathered over a line: exponents, and the sum of weight * (shift - x) in two parts.
template <class T, class W>
struct LogitSums {
    Exponents<T, W> exponents;
    W logits = 0, weights = 0;
};

// A line's loss, and what it weighs.
template <class W>
struct WeighedLoss {
    W value = 0, weight = 0;
};

template <bool Smooth, class W, class As, class In, class V>
__device__ inline WeighedLoss<W> loss_of_line(
    const Classes& sizes, long long line, long long target, const LogitSums<As, W>& sums, double smoothing, const In& in,
    const V* weight, W* kept) {
    const W largest = sums.exponents.largest, rest = log(sums.exponents.sum);
    kept[line] = largest;
    kept[sizes.lines + line] = rest;
    if (target == sizes.ignored) return {};
    target = sizes.checked(target);
    const W own = weight_of<W>(weight, target);
    W value = own * ((largest - W(to_compute(element_of(in, sizes.start(line) + target * sizes.inner)))) + rest);
    if constexpr (Smooth) {
        const W all = sums.weights * (largest + rest) - sums.logits;
        value = value * static_cast<W>(1 - smoothing) + all * static_cast<W>(smoothing / sizes.classes);
    }
    return {value, own};
}

// Stores the loss of each line, or the sum of those of a block. The first thread of `Along` has that of their line, and the
// others nothing; all threads of the block take part.
template <bool Summed, int Threads, int Along, class W, class Loss>
__device__ inline void store_loss(bool has, long long line, WeighedLoss<W> own, Loss* loss, W* weighs) {
    if constexpr (Summed) {
        line = blockIdx.x;
        has = threadIdx.x == 0;
        if constexpr (Along < Threads) {
            __shared__ WeighedLoss<W> of_warps[Threads / 32];
#pragma unroll
            for (int by = 16; by >= Along; by /= 2) {
                own.value += __shfl_xor_sync(~0u, own.value, by);
                own.weight += __shfl_xor_sync(~0u, own.weight, by);
            }
            if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = own;
            __syncthreads();
            if (has) {
                for (int i = 1; i < Threads / 32; ++i) {
                    own.value += of_warps[i].value;
                    own.weight += of_warps[i].weight;
                }
            }
        }
    }
    if (has) {
        loss[line] = to_element<Loss>(own.value);
        weighs[line] = own.weight;
    }
}

// Logits are of type In in memory, and computed with as those of type As: where a cast before is left out, that is float.
template <bool Smooth, bool Summed, class W, class As, int Threads, int Along, int Width, class In, class V, class Loss>
__device__ void cross_entropy_rows(
    Classes sizes, double smoothing, In in, const long long* target, const V* weight, Loss* loss, W* weighs,
    W* kept) {
    const RowTeam<Threads, Along> team;
    const bool has = team.row < sizes.lines;
    const long long start = team.row * sizes.classes;
    const RaggedRow<Width> row(start, has ? sizes.classes : 0, is_aligned<Width>(in));
    LogitSums<As, W> own;
    const auto load = [&](auto width, long long at) { return pack_of<width.value>(in + start + at); };
    over_row<Along, 4>(row, team.rank, load, [&](auto width, auto count, const auto& packs, long long at, int step) {
        W x[count.value * width.value];
        widen(x, packs);
        own.exponents.add(x);
        if constexpr (Smooth) {
#pragma unroll
            for (int i = 0; i < count.value * width.value; ++i) {
                const W by = weight_of<W>(weight, at + i / width.value * step + i % width.value);
                own.logits += by * x[i];
                own.weights += by;
            }
        }
    });
    const W largest = team.all(own.exponents.largest, Larger());
    own.exponents.sum = team.all(own.exponents.sum_for(largest), Plus());
    own.exponents.largest = largest;
    if constexpr (Smooth) {
        own.logits = team.all(own.logits, Plus());
        own.weights = team.all(own.weights, Plus());
    }
    const bool finishes = has && team.rank == 0;
    WeighedLoss<W> of_line;
    if (finishes) of_line = loss_of_line<Smooth>(sizes, team.row, target[team.row], own, smoothing, in, weight, kept);
    store_loss<Summed, Threads, Along>(finishes, team.row, of_line, loss, weighs);
}

template <bool Smooth, bool Summed, class W, class As, int Threads, class In, class V, class Loss>
__device__ void cross_entropy_columns(
    Classes sizes, double smoothing, In in, const long long* target, const V* weight, Loss* loss, W* weighs, W* kept) {
    const long long line = static_cast<long long>(blockIdx.x) * Threads + threadIdx.x;
    const bool has = line < sizes.lines;
    const In x = in + (has ? sizes.start(line) : 0);
    LogitSums<As, W> own;
    for (long long c = 0; has && c < sizes.classes; ++c) {
        const W value = to_compute(pack_of<1>(x + c * sizes.inner).items[0]);
        own.exponents.add(value);
        if constexpr (Smooth) {
            const W by = weight_of<W>(weight, c);
            own.logits += by * value;
            own.weights += by;
        }
    }
    WeighedLoss<W> of_line;
    if (has) of_line = loss_of_line<Smooth>(sizes, line, target[line], own, smoothing, in, weight, kept);
    store_loss<Summed, Threads, 1>(has, line, of_line, loss, weighs);
}

// The gradient of a line's loss: one for all lines (step 0), divided by what they weigh together, or one for each.
template <class W, class Grad>
struct LineGradient {
    const Grad* grad;
    const W* total;  // may be null
    int step;
    __device__ W operator()(long long line) const {
        const W given = to_compute(grad[line * step]);
        return total == nullptr ? given : given / *total;
    }
};

// What all elements of a line have in common in the gradient of cross entropy: an element's is
// by * (probability * sum - smoothed * weight), less by * sharp at the target.
template <bool Smooth, class W>
struct LineOfGradient {
    W by, sum, sharp, smoothed, largest, rest;
    long long goal;

    // `all` is the sum of the weights, where there are any and labels are smoothed.
    template <class Grad, class V>
    __device__ LineOfGradient(
        const Classes& sizes, long long line, double smoothing, const LineGradient<W, Grad>& grad,
        const long long* target, const V* weight, const W* all, const W* kept)
        : goal(target[line]) {
        if (goal == sizes.ignored) {
            goal = -1;
            return;
        }
        by = grad(line);
        largest = kept[line];
        rest = kept[sizes.lines + line];
        sum = sharp = weight_of<W>(weight, goal);
        if constexpr (Smooth) {
            sharp *= static_cast<W>(1 - smoothing);
            smoothed = static_cast<W>(smoothing / sizes.classes);
            sum = sharp + smoothed * (all == nullptr ? static_cast<W>(sizes.classes) : *all);
        }
    }

    template <class V>
    __device__ W operator()(W x, long long position, const V* weight) const {
        if (goal < 0) return W(0);
        W here = position == goal ? sharp : W(0);
        if constexpr (Smooth) here += smoothed * weight_of<W>(weight, position);
        return by * (exp((x - largest) - rest) * sum - here);
    }
};

template <bool Smooth, class W, int Threads, int Along, int Width, class Grad, class In, class V, class Out>
__device__ void cross_entropy_rows_backward(
    Classes sizes, double smoothing, LineGradient<W, Grad> grad, In in, const long long* target, const V* weight,
    const W* all, const W* kept, Out out) {
    typedef typename ElementOf<Out>::Type Element;
    const RowTeam<Threads, Along> team;
    if (team.row >= sizes.lines) return;
    const LineOfGradient<Smooth, W> line(sizes, team.row, smoothing, grad, target, weight, all, kept);
    const long long start = team.row * sizes.classes;
    const RaggedRow<Width> row(start, sizes.classes, is_aligned<Width>(in) && is_aligned<Width>(out));
    const auto load = [&](auto width, long long at) { return pack_of<width.value>(in + start + at); };
    over_row<Along, 2>(row, team.rank, load, [&](auto width, auto count, const auto& packs, long long at, int step) {
        Pack<Element, width.value> results[count.value];
        W x[count.value * width.value];
        widen(x, packs);
#pragma unroll
        for (int i = 0; i < count.value * width.value; ++i) {
            const long long position = at + i / width.value * step + i % width.value;
            results[i / width.value].items[i % width.value] = to_element<Element>(line(x[i], position, weight));
        }
        store_packs(out + start + at, step, results);
    });
}

template <bool Smooth, class W, class Grad, class In, class V, class Out>
__device__ void cross_entropy_columns_backward(
    Classes sizes, double smoothing, LineGradient<W, Grad> grad, In in, const long long* target, const V* weight,
    const W* all, const W* kept, Out out) {
    typedef typename ElementOf<Out>::Type Element;
    const long long number = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (number >= sizes.lines) return;
    const LineOfGradient<Smooth, W> line(sizes, number, smoothing, grad, target, weight, all, kept);
    long long at = sizes.start(number);
    for (long long c = 0; c < sizes.classes; ++c, at += sizes.inner) {
        const W x = to_compute(pack_of<1>(in + at).items[0]);
        const Pack<Element, 1> result[1] = {{to_element<Element>(line(x, c, weight))}};
        store_packs(out + at, 0, result);
    }
}

// All four as kernels with pointwise operations before and after them call them.
template <
    bool Smooth, bool Summed, class W, class As, int Threads, int Along, int, int Width, class In, class V, class Loss>
__device__ void cross_entropy_of_rows(
    long long rows, int n, long long ignored, double smoothing, In in, const long long* target, const V* weight,
    Loss* loss, W* weighs, W* kept) {
    const Classes sizes{rows, n, 1, ignored};
    cross_entropy_rows<Smooth, Summed, W, As, Threads, Along, Width>(
        sizes, smoothing, in, target, weight, loss, weighs, kept);
}

template <bool Smooth, class W, int Threads, int Along, int, int Width, class Grad, class In, class V, class Out>
__device__ void cross_entropy_of_rows_backward(
    long long rows, int n, long long ignored, double smoothing, const Grad* grad, const W* total, int step, In in,
    const long long* target, const V* weight, const W* all, const W* kept, Out out) {
    const LineGradient<W, Grad> gradient{grad, total, step};
    cross_entropy_rows_backward<Smooth, W, Threads, Along, Width>(
        Classes{rows, n, 1, ignored}, smoothing, gradient, in, target, weight, all, kept, out);
}

template <bool Smooth, bool Summed, class W, class As, int Threads, class In, class V, class Loss>
__device__ void cross_entropy_of_columns(
    long long lines, int n, long long inner, long long ignored, double smoothing, In in, const long long* target,
    const V* weight, Loss* loss, W* weighs, W* kept) {
    const Classes sizes{lines, n, inner, ignored};
    cross_entropy_columns<Smooth, Summed, W, As, Threads>(sizes, smoothing, in, target, weight, loss, weighs, kept);
}

template <bool Smooth, class W, class Grad, class In, class V, class Out>
__device__ void cross_entropy_of_columns_backward(
    long long lines, int n, long long inner, long long ignored, double smoothing, const Grad* grad, const W* total,
    int step, In in, const long long* target, const V* weight, const W* all, const W* kept, Out out) {
    const LineGradient<W, Grad> gradient{grad, total, step};
    cross_entropy_columns_backward<Smooth, W>(
        Classes{lines, n, inner, ignored}, smoothing, gradient, in, target, weight, all, kept, out);
}

template <class W, class In, class V, class Loss>
__device__ void nll_lines(Classes sizes, const In* in, const long long* target, const V* weight, Loss* loss, W* weighs) {
    const long long line = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (line >= sizes.lines) return;
    long long goal = target[line];
    W value = 0, own = 0;
    if (goal != sizes.ignored) {
        goal = sizes.checked(goal);
        own = weight_of<W>(weight, goal);
        value = -own * W(to_compute(in[sizes.start(line) + goal * sizes.inner]));
    }
    loss[line] = to_element<Loss>(value);
    weighs[line] = own;
}

// Of memory that is all zeros.
template <class W, class Grad, class V, class Out>
__device__ void nll_backward(
    Classes sizes, LineGradient<W, Grad> grad, const long long* target, const V* weight, Out* out) {
    const long long line = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (line >= sizes.lines) return;
    const long long goal = target[line];
    if (goal != sizes.ignored)
        out[sizes.start(line) + goal * sizes.inner] = to_element<Out>(-weight_of<W>(weight, goal) * grad(line));
}
