// Pooling by windows whose shape is known when the kernel is compiled, and whose outputs need not be counted to 64 bits.
//
// A thread has V neighbouring outputs of a row, as many as are written 16 bytes at a time, for which it reads what their
// windows hold of each row of the image at once: in whole packs where windows do not overlap and rows begin at a multiple of
// a pack, elsewhere element by element. Loops over a window are unrolled, and positions come from multiplications.

#pragma once
#include "divisor.cuh"
#include "rows.cuh"

struct PooledRows {
    // Groups of V outputs in a row, rows, and planes of rows in an image; all groups.
    Divisor<unsigned int> groups, height, depth;
    unsigned int count;
    int size[3], out[3];
};

// Largest elements and, where `Indexed`, where they stand: the first of equal ones, and the last NaN.
template <class T, int V, bool Indexed>
struct Largest {
    typedef T Element;
    T* out;
    long long* positions;
    T value[V];
    int best[V];
    __device__ Largest(T* out, long long* positions) : out(out), positions(positions) {
#pragma unroll
        for (int v = 0; v < V; ++v) best[v] = -1;
    }
    __device__ void take(int v, T x, int at) {
        if (best[v] < 0 || to_compute(x) > to_compute(value[v]) || to_compute(x) != to_compute(x)) {
            best[v] = at;
            value[v] = x;
        }
    }
    __device__ T result(int v) const { return value[v]; }
    template <bool Whole>
    __device__ void finish(long long at, int number) const {
        if constexpr (!Indexed) {
        } else if constexpr (Whole) {
            constexpr int Two = V % 2 ? 1 : 2;
#pragma unroll
            for (int v = 0; v < V; v += Two) {
                Pack<long long, Two> pack;
#pragma unroll
                for (int i = 0; i < Two; ++i) pack.items[i] = best[v + i];
                *reinterpret_cast<Pack<long long, Two>*>(positions + at + v) = pack;
            }
        } else {
#pragma unroll
            for (int v = 0; v < V; ++v)
                if (v < number) positions[at + v] = best[v];
        }
    }
};

// Sums divided by one number.
template <class Sum, class T, int V>
struct Mean {
    typedef T Element;
    T* out;
    Sum divisor, sum[V];
    __device__ Mean(T* out, int divisor) : out(out), divisor(static_cast<Sum>(divisor)), sum{} {}
    __device__ void take(int v, T x, int) { sum[v] += to_compute(x); }
    __device__ T result(int v) const { return to_element<T>(sum[v] / divisor); }
    template <bool>
    __device__ void finish(long long, int) const {}
};

// Elements of the widest pack of at most 16 bytes that `n` elements consist of.
template <class T>
constexpr int pack_of(int n) {
    int width = 16 / sizeof(T);
    while (n % width) width /= 2;
    return width;
}

template <class Shape, int V, bool Packs, class Window, class T>
__device__ inline void look_at(Window& window, const PooledRows& rows, const T* image, int z, int y, int x) {
    constexpr int Width = pack_of<T>(V * Shape::stride(2));
    constexpr int Span = (V - 1) * Shape::stride(2) + (Shape::kernel(2) - 1) * Shape::dilation(2) + 1;
    constexpr int Read = Packs ? V * Shape::stride(2) : Span;
    const int left = x * Shape::stride(2) - Shape::padding(2);
#pragma unroll
    for (int kd = 0; kd < Shape::kernel(0); ++kd) {
        const int depth = z * Shape::stride(0) - Shape::padding(0) + kd * Shape::dilation(0);
        if (static_cast<unsigned int>(depth) >= static_cast<unsigned int>(rows.size[0])) continue;
#pragma unroll
        for (int kh = 0; kh < Shape::kernel(1); ++kh) {
            const int line = y * Shape::stride(1) - Shape::padding(1) + kh * Shape::dilation(1);
            if (static_cast<unsigned int>(line) >= static_cast<unsigned int>(rows.size[1])) continue;
            const int start = (depth * rows.size[1] + line) * rows.size[2] + left;
            T values[Read];
            if constexpr (Packs) {
#pragma unroll
                for (int i = 0; i < Read; i += Width) {
                    const auto pack = *reinterpret_cast<const Pack<T, Width>*>(image + start + i);
#pragma unroll
                    for (int each = 0; each < Width; ++each) values[i + each] = pack.items[each];
                }
            } else {
#pragma unroll
                for (int i = 0; i < Read; ++i)
                    if (static_cast<unsigned int>(left + i) < static_cast<unsigned int>(rows.size[2])) values[i] = image[start + i];
            }
#pragma unroll
            for (int v = 0; v < V; ++v)
#pragma unroll
                for (int kw = 0; kw < Shape::kernel(2); ++kw) {
                    const int i = v * Shape::stride(2) + kw * Shape::dilation(2);
                    if (Packs || static_cast<unsigned int>(left + i) < static_cast<unsigned int>(rows.size[2]))
                        window.take(v, values[i], start + i);
                }
        }
    }
}

template <class Shape, int V, class Window, class T>
__device__ inline void pool_rows(const PooledRows& rows, const T* in, Window window) {
    constexpr int Width = pack_of<T>(V * Shape::stride(2));
    constexpr bool Apart = Shape::padding(2) == 0 && Shape::dilation(2) == 1 && Shape::kernel(2) <= Shape::stride(2);
    const unsigned int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= rows.count) return;
    const unsigned int row = quotient(rows.groups, n), above = quotient(rows.height, row), plane = quotient(rows.depth, above);
    const int x = (n - row * rows.groups.size) * V, y = row - above * rows.height.size, z = above - plane * rows.depth.size;
    const T* image = in + static_cast<long long>(plane) * rows.size[0] * rows.size[1] * rows.size[2];
    bool packs = false;
    if constexpr (Apart)
        packs = rows.size[2] % Width == 0 && (x + V) * Shape::stride(2) <= rows.size[2] &&
                reinterpret_cast<unsigned long long>(in) % (Width * sizeof(T)) == 0;
    if (packs) {
        look_at<Shape, V, Apart>(window, rows, image, z, y, x);
    } else {
        look_at<Shape, V, false>(window, rows, image, z, y, x);
    }
    const long long at = static_cast<long long>(row) * rows.out[2] + x;
    T* out = window.out + at;
    if (rows.out[2] % V == 0 && reinterpret_cast<unsigned long long>(out) % (V * sizeof(T)) == 0) {
        Pack<T, V> pack;
#pragma unroll
        for (int v = 0; v < V; ++v) pack.items[v] = window.result(v);
        *reinterpret_cast<Pack<T, V>*>(out) = pack;
        window.template finish<true>(at, V);
    } else {
        const int number = min(V, rows.out[2] - x);
#pragma unroll
        for (int v = 0; v < V; ++v)
            if (v < number) out[v] = window.result(v);
        window.template finish<false>(at, number);
    }
}

// Gradients of V neighbouring elements of a row of the image, whose windows are not dilated: from each output whose window may
// hold one of them, which are few, and read once for all V.

template <class Sum, class T>
struct ToLargest {
    typedef T Element;
    const T* grad;
    const long long* positions;
    // visit(index in the row, gradient) for what output `at` gives to elements of the plane from `start` on.
    template <class Visit>
    __device__ void give(long long at, int start, int, int, Visit visit) const {
        visit(static_cast<int>(positions[at]) - start, static_cast<Sum>(to_compute(grad[at])));
    }
};

template <class Sum, class T>
struct ToAll {
    typedef T Element;
    const T* grad;
    int divisor;
    template <class Visit>
    __device__ void give(long long at, int, int left, int kernel, Visit visit) const {
        const Sum each = static_cast<Sum>(to_compute(grad[at])) / static_cast<Sum>(divisor);
        for (int k = 0; k < kernel; ++k) visit(left + k, each);
    }
};

template <class Shape>
__device__ inline int first_window(int axis, int at) {
    const int from = at + Shape::padding(axis) - Shape::kernel(axis) + Shape::stride(axis);
    return from > 0 ? from / Shape::stride(axis) : 0;
}
template <class Shape>
__device__ inline int end_of_windows(const PooledRows& rows, int axis, int at) {
    return min((at + Shape::padding(axis)) / Shape::stride(axis) + 1, rows.out[axis]);
}

// Here `rows` has groups of V elements of the image.
template <class Shape, int V, class Sum, class Gradient, class T>
__device__ inline void unpool_rows(const PooledRows& rows, const Gradient& gradient, T* result) {
    const unsigned int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= rows.count) return;
    const unsigned int row = quotient(rows.groups, n), above = quotient(rows.height, row), plane = quotient(rows.depth, above);
    const int x = (n - row * rows.groups.size) * V, y = row - above * rows.height.size, z = above - plane * rows.depth.size;
    const long long first = static_cast<long long>(plane) * rows.out[0] * rows.out[1] * rows.out[2];
    const int start = (z * rows.size[1] + y) * rows.size[2] + x;
    Sum sums[V] = {};
    const int from = first_window<Shape>(2, x), end = end_of_windows<Shape>(rows, 2, min(x + V, rows.size[2]) - 1);
    for (int i = first_window<Shape>(0, z); i < end_of_windows<Shape>(rows, 0, z); ++i)
        for (int j = first_window<Shape>(1, y); j < end_of_windows<Shape>(rows, 1, y); ++j)
            for (int k = from; k < end; ++k)
                gradient.give(
                    first + (static_cast<long long>(i) * rows.out[1] + j) * rows.out[2] + k, start,
                    k * Shape::stride(2) - Shape::padding(2) - x, Shape::kernel(2), [&](int to, Sum value) {
#pragma unroll
                        for (int v = 0; v < V; ++v) sums[v] += v == to ? value : Sum(0);
                    });
    T* out = result + static_cast<long long>(row) * rows.size[2] + x;
    if (rows.size[2] % V == 0 && reinterpret_cast<unsigned long long>(out) % (V * sizeof(T)) == 0) {
        Pack<T, V> pack;
#pragma unroll
        for (int v = 0; v < V; ++v) pack.items[v] = to_element<T>(sums[v]);
        *reinterpret_cast<Pack<T, V>*>(out) = pack;
    } else {
#pragma unroll
        for (int v = 0; v < V; ++v)
            if (x + v < rows.size[2]) out[v] = to_element<T>(sums[v]);
    }
}
