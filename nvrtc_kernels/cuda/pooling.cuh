// Pooling of images, which lie one after the other ("planes"), and its derivatives. A thread has an element of what
// is written and looks at all that it depends on: nothing is added atomically, and sums are the same in every run.
// Windows are regular (windows.cuh), or adaptive: output i of n covers the inputs from floor(i * size / n) up to
// ceil((i + 1) * size / n); or of one size at random positions (B. Graham, "Fractional Max-Pooling", 2014).

#pragma once
#include "windows.cuh"

struct Range {
    int first, end, step;
};

struct Regular {
    Windows w;
    __device__ int size(int axis) const { return w.size[axis]; }
    __device__ int out(int axis) const { return w.out[axis]; }
    // The inputs of output i that are inside of the image.
    __device__ Range inputs(int axis, int i) const {
        int first = i * w.stride[axis] - w.padding[axis];
        const int end = min(first + (w.kernel[axis] - 1) * w.dilation[axis] + 1, w.size[axis]);
        if (first < 0) first += (-first + w.dilation[axis] - 1) / w.dilation[axis] * w.dilation[axis];
        return {first, end, w.dilation[axis]};
    }
    // The outputs whose windows may hold input `at`; not all of them need to, where windows are dilated.
    __device__ Range outputs(int axis, int at) const {
        const int reach = (w.kernel[axis] - 1) * w.dilation[axis], from = at + w.padding[axis] - reach;
        const int first = from > 0 ? (from + w.stride[axis] - 1) / w.stride[axis] : 0;
        return {first, min((at + w.padding[axis]) / w.stride[axis] + 1, w.out[axis]), 1};
    }
    // Elements of a window that count, the padding included, which may end beyond the image.
    __device__ int padded(int axis, int i) const {
        const int first = i * w.stride[axis] - w.padding[axis];
        return min(first + w.kernel[axis], w.size[axis] + w.padding[axis]) - first;
    }
};

struct Adaptive {
    int sizes[3], outs[3];
    __device__ int size(int axis) const { return sizes[axis]; }
    __device__ int out(int axis) const { return outs[axis]; }
    __device__ static int start(long long i, int size, int out) { return static_cast<int>(i * size / out); }
    __device__ static int stop(long long i, int size, int out) {
        return static_cast<int>(((i + 1) * size + out - 1) / out);
    }
    __device__ Range inputs(int axis, int i) const {
        return {start(i, sizes[axis], outs[axis]), stop(i, sizes[axis], outs[axis]), 1};
    }
    __device__ Range outputs(int axis, int at) const {
        return {start(at, outs[axis], sizes[axis]), stop(at, outs[axis], sizes[axis]), 1};
    }
    __device__ int padded(int axis, int i) const {
        const Range range = inputs(axis, i);
        return range.end - range.first;
    }
};

// Windows of one size whose steps are nearly of one size: each plane has a share of a step for each axis.
struct Fractional {
    int sizes[3], outs[3], kernel[3];
    __device__ int size(int axis) const { return sizes[axis]; }
    __device__ int out(int axis) const { return outs[axis]; }
    __device__ double step(int axis) const {
        return static_cast<double>(sizes[axis] - kernel[axis]) / (outs[axis] - 1);
    }
    // Where window i starts; the last one ends with the image.
    template <class Share>
    __device__ int start(int axis, int i, Share share) const {
        if (i == outs[axis] - 1) return sizes[axis] - kernel[axis];
        const Share by = static_cast<Share>(step(axis));
        return static_cast<int>((static_cast<Share>(i) + share) * by) - static_cast<int>(share * by);
    }
    // The outputs whose windows may hold input `at`, whatever the share: window i starts less than 1 from i * step.
    __device__ Range outputs(int axis, int at) const {
        if (outs[axis] == 1 || sizes[axis] == kernel[axis]) return {0, outs[axis], 1};
        const double by = step(axis);
        return {max(static_cast<int>((at - kernel[axis]) / by) - 1, 0),
                min(static_cast<int>((at + 1) / by) + 2, outs[axis]), 1};
    }
};

struct Position {
    int at[3];
    template <class Size>
    __device__ Position(int flat, Size size) : at{flat / size(2) / size(1), flat / size(2) % size(1), flat % size(2)} {}
};

template <class Pool>
__device__ inline Position output_position(const Pool& pool, int flat) {
    return Position(flat, [&](int axis) { return pool.out(axis); });
}
template <class Pool>
__device__ inline Position input_position(const Pool& pool, int flat) {
    return Position(flat, [&](int axis) { return pool.size(axis); });
}

template <class Pool, class Visit>
__device__ inline void for_inputs(const Pool& pool, int flat, Visit visit) {
    const Position position = output_position(pool, flat);
    const Range z = pool.inputs(0, position.at[0]), y = pool.inputs(1, position.at[1]), x = pool.inputs(2, position.at[2]);
    for (int i = z.first; i < z.end; i += z.step)
        for (int j = y.first; j < y.end; j += y.step)
            for (int k = x.first; k < x.end; k += x.step) visit((i * pool.size(1) + j) * pool.size(2) + k);
}

template <class Pool, class Visit>
__device__ inline void for_outputs(const Pool& pool, int flat, Visit visit) {
    const Position position = input_position(pool, flat);
    const Range z = pool.outputs(0, position.at[0]), y = pool.outputs(1, position.at[1]), x = pool.outputs(2, position.at[2]);
    for (int i = z.first; i < z.end; ++i)
        for (int j = y.first; j < y.end; ++j)
            for (int k = x.first; k < x.end; ++k) visit((i * pool.out(1) + j) * pool.out(2) + k);
}

// What a sum over the window of an output is divided by; 0 in `fixed`: by the elements that count.
template <class Pool>
__device__ inline int divisor(const Pool& pool, int flat, bool with_padding, int fixed) {
    if (fixed) return fixed;
    const Position position = output_position(pool, flat);
    int count = 1;
    for (int axis = 0; axis < 3; ++axis) {
        const Range range = pool.inputs(axis, position.at[axis]);
        count *= with_padding ? pool.padded(axis, position.at[axis]) : range.end - range.first;
    }
    return count;
}

#define EACH(i, count)                                                                                     \
    for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < (count);         \
         i += static_cast<long long>(gridDim.x) * blockDim.x)

// The largest element of each window and where it stands: the first of equal ones, and the last NaN.
template <class Pool, class T>
__device__ void max_pool(const Pool& pool, long long planes, const T* in, T* out, long long* positions) {
    const int outs = pool.out(0) * pool.out(1) * pool.out(2);
    const long long area = static_cast<long long>(pool.size(0)) * pool.size(1) * pool.size(2);
    EACH(i, planes * outs) {
        const T* plane = in + i / outs * area;
        int best = -1;
        T value{};
        for_inputs(pool, static_cast<int>(i % outs), [&](int at) {
            const T x = plane[at];
            if (best < 0 || to_compute(x) > to_compute(value) || to_compute(x) != to_compute(x)) {
                best = at;
                value = x;
            }
        });
        out[i] = value;
        if (positions) positions[i] = best;
    }
}

// The same for windows at random positions. Images give the share for their width first, volumes that for their depth.
template <class Share, class T, class S>
__device__ void fractional_max_pool(
    const Fractional& pool, long long planes, int rank, const T* in, const S* shares, T* out, long long* positions) {
    const int outs = pool.out(0) * pool.out(1) * pool.out(2);
    const long long area = static_cast<long long>(pool.size(0)) * pool.size(1) * pool.size(2);
    EACH(i, planes * outs) {
        const S* own = shares + i / outs * rank;
        const T* plane = in + i / outs * area;
        const Position position = output_position(pool, static_cast<int>(i % outs));
        int first[3];
        for (int axis = 0; axis < 3; ++axis) {
            const Share share = rank == 3 ? Share(to_compute(own[axis])) : axis ? Share(to_compute(own[2 - axis])) : Share(0);
            first[axis] = pool.start(axis, position.at[axis], share);
        }
        int best = -1;
        T value{};
        for (int z = first[0]; z < first[0] + pool.kernel[0]; ++z)
            for (int y = first[1]; y < first[1] + pool.kernel[1]; ++y)
                for (int x = first[2]; x < first[2] + pool.kernel[2]; ++x) {
                    const int at = (z * pool.size(1) + y) * pool.size(2) + x;
                    const T found = plane[at];
                    if (best < 0 || to_compute(found) > to_compute(value) || to_compute(found) != to_compute(found)) {
                        best = at;
                        value = found;
                    }
                }
        out[i] = value;
        positions[i] = best;
    }
}

template <class Sum, class Pool, class T>
__device__ void max_pool_backward(
    const Pool& pool, long long planes, const T* grad, const long long* positions, T* out) {
    const int outs = pool.out(0) * pool.out(1) * pool.out(2);
    const long long area = static_cast<long long>(pool.size(0)) * pool.size(1) * pool.size(2);
    EACH(i, planes * area) {
        const long long start = i / area * outs, at = i % area;
        Sum sum{};
        for_outputs(pool, static_cast<int>(at), [&](int position) {
            if (positions[start + position] == at) sum += to_compute(grad[start + position]);
        });
        out[i] = to_element<T>(sum);
    }
}

template <class Sum, class Pool, class T>
__device__ void avg_pool(const Pool& pool, long long planes, int with_padding, int fixed, const T* in, T* out) {
    const int outs = pool.out(0) * pool.out(1) * pool.out(2);
    const long long area = static_cast<long long>(pool.size(0)) * pool.size(1) * pool.size(2);
    EACH(i, planes * outs) {
        const T* plane = in + i / outs * area;
        const int position = static_cast<int>(i % outs);
        Sum sum{};
        for_inputs(pool, position, [&](int at) { sum += to_compute(plane[at]); });
        out[i] = to_element<T>(sum / static_cast<Sum>(divisor(pool, position, with_padding, fixed)));
    }
}

template <class Sum, class Pool, class T>
__device__ void avg_pool_backward(
    const Pool& pool, long long planes, int with_padding, int fixed, const T* grad, T* out) {
    const int outs = pool.out(0) * pool.out(1) * pool.out(2);
    const long long area = static_cast<long long>(pool.size(0)) * pool.size(1) * pool.size(2);
    EACH(i, planes * area) {
        const long long start = i / area * outs;
        Sum sum{};
        for_outputs(pool, static_cast<int>(i % area), [&](int position) {
            sum += to_compute(grad[start + position]) / static_cast<Sum>(divisor(pool, position, with_padding, fixed));
        });
        out[i] = to_element<T>(sum);
    }
}
