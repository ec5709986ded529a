// Signals, images and volumes at other sizes. Interpolation is linear and goes dimension by dimension: along each, the
// result is a band matrix times the input, with a row of a few neighbouring weights for each element of the result.
// The host makes these rows, so that one kernel serves all modes; and it serves their derivative with the transposed
// matrices, where each element of the input gathers what came of it: nothing is added atomically.
//
// A thread has a position of the result. It reads the rows of that position once, short ones into registers, and goes
// over several planes (images lie one after the other) with them: neighbouring threads write neighbouring elements,
// and have loads from several planes in flight. Where all rows are short, it has N neighbouring positions along the last
// dimension, and a window of input that holds the weights of all: `interpolate_windows`.

#pragma once
#include "elements.cuh"

struct Axis {
    int input_size, output_size, rows;
};
struct Axes {
    Axis axis[3];
};

// A row of the identity.
struct Same {
    static constexpr int most = 1, count = 1;
    int first;
    __device__ Same(const Axis&, int i, const int*, const void*) : first(i) {}
    __device__ static float weight(int) { return 1.0f; }
};

// A row of at most MOST weights.
template <int MOST, class Sum>
struct Few {
    static constexpr int most = MOST;
    int first, count;
    Sum values[MOST];
    __device__ Few(const Axis& axis, int i, const int* rows, const Sum* weights) {
        const int* const begin = rows + axis.rows + axis.output_size + i;
        first = begin[-axis.output_size];
        count = begin[1] - begin[0];
        weights += begin[0];
#pragma unroll
        for (int k = 0; k < MOST; ++k) values[k] = k < count ? weights[k] : Sum(0);
    }
    __device__ Sum weight(int k) const { return values[k]; }
};

// A row of any length.
template <class Sum>
struct Many {
    static constexpr int most = 0;
    int first, count;
    const Sum* values;
    __device__ Many(const Axis& axis, int i, const int* rows, const Sum* weights) {
        const int* const begin = rows + axis.rows + axis.output_size + i;
        first = begin[-axis.output_size];
        count = begin[1] - begin[0];
        values = weights + begin[0];
    }
    __device__ Sum weight(int k) const { return values[k]; }
};

// visit(k) for each weight of a row; the loop is unrolled where its length is known, and not at all in code that seldom runs.
template <class Row, class Visit>
__device__ inline void for_weights(const Row& row, Visit visit) {
    if constexpr (Row::most > 0) {
#pragma unroll
        for (int k = 0; k < Row::most; ++k)
            if (k < row.count) visit(k);
    } else if constexpr (Row::most < 0) {
#pragma unroll 1
        for (int k = 0; k < row.count; ++k) visit(k);
    } else {
        for (int k = 0; k < row.count; ++k) visit(k);
    }
}

// A sum as an element; bytes are rounded to the nearest one, and cannot leave their range.
template <class T, class Sum>
__device__ inline T rounded(Sum x) {
    return to_element<T>(x);
}
template <>
__device__ inline unsigned char rounded<unsigned char, float>(float x) {
    return static_cast<unsigned char>(fminf(fmaxf(rintf(x), 0.0f), 255.0f));
}

// One element of the result; `corner` is the first element that it depends on.
template <class Z, class Y, class X, class Index, class Sum, class T>
__device__ inline void sum_rows(const Z& z, const Y& y, const X& x, Index height, Index width, const T* corner, Sum& sum) {
    sum = Sum(0);
    for_weights(z, [&](int k) {
        Sum flat(0);
        for_weights(y, [&](int j) {
            const T* const start = corner + (static_cast<Index>(k) * height + j) * width;
            Sum straight(0);
            for_weights(x, [&](int i) { straight += x.weight(i) * static_cast<Sum>(to_compute(start[i])); });
            flat += y.weight(j) * straight;
        });
        sum += z.weight(k) * flat;
    });
}

template <class Z, class Y, class X, class Index, class Sum, class T>
__device__ void interpolate(
    const Axes& axes, Index planes, Index groups, const int* rows, const Sum* weights, const T* in, T* out) {
    const Axis &depth = axes.axis[0], &height = axes.axis[1], &width = axes.axis[2];
    const Index positions = static_cast<Index>(depth.output_size) * height.output_size * width.output_size;
    const Index area = static_cast<Index>(depth.input_size) * height.input_size * width.input_size;
    const long long count = static_cast<long long>(groups) * positions;
    for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
         i += static_cast<long long>(gridDim.x) * blockDim.x) {
        const Index position = static_cast<Index>(i) % positions, group = static_cast<Index>(i) / positions;
        const Index line = position / width.output_size;
        const Z z(depth, static_cast<int>(line / height.output_size), rows, weights);
        const Y y(height, static_cast<int>(line % height.output_size), rows, weights);
        const X x(width, static_cast<int>(position % width.output_size), rows, weights);
        const Index first = (static_cast<Index>(z.first) * height.input_size + y.first) * width.input_size + x.first;
#pragma unroll 4
        for (Index plane = group; plane < planes; plane += groups) {
            Sum sum;
            sum_rows(
                z, y, x, static_cast<Index>(height.input_size), static_cast<Index>(width.input_size),
                in + plane * area + first, sum);
            out[plane * positions + position] = rounded<T>(sum);
        }
    }
}

// A row of SIZE weights from `first` on, which is moved so far back that they are all in the input; weights that the row
// lacks are 0.
template <int SIZE, class Sum>
struct Window {
    static constexpr int size = SIZE;
    int first;
    Sum values[SIZE];
    __device__ Window() {}
    __device__ Window(const Axis& axis, int i, const int* rows, const Sum* weights)
        : Window(axis, i, rows, weights, rows[axis.rows + i]) {}
    // The same from another column on.
    __device__ Window(const Axis& axis, int i, const int* rows, const Sum* weights, int from)
        : first(min(from, axis.input_size - SIZE)) {
        const int* const begin = rows + axis.rows + axis.output_size + i;
        const int missing = begin[-axis.output_size] - first, count = begin[1] - begin[0];
        weights += begin[0] - missing;
#pragma unroll
        for (int k = 0; k < SIZE; ++k) values[k] = missing <= k && k < missing + count ? weights[k] : Sum(0);
    }
};
// Of a dimension that stays as it is: N neighbouring rows of the identity.
template <int N, class Sum>
struct SameWindow {
    static constexpr int size = N;
    int first;
    Sum values[N];
    __device__ SameWindow() {}
    __device__ SameWindow(const Axis& axis, int i, const int* rows, const Sum* weights)
        : SameWindow(axis, i, rows, weights, i) {}
    __device__ SameWindow(const Axis&, int i, const int*, const Sum*, int from) : first(from) {
#pragma unroll
        for (int k = 0; k < N; ++k) values[k] = k == i - from ? Sum(1) : Sum(0);
    }
};

// A row of any axis: one that stays as it is has no table.
template <class Sum>
struct AnyRow {
    static constexpr int most = -1;
    int first, count;
    const Sum* values;
    __device__ AnyRow(const Axis& axis, int i, const int* rows, const Sum* weights) : first(i), count(1), values(nullptr) {
        if (axis.rows < 0) return;
        const Many<Sum> row(axis, i, rows, weights);
        first = row.first, count = row.count, values = row.values;
    }
    __device__ Sum weight(int k) const { return values ? values[k] : Sum(1); }
};

// N neighbouring elements of several planes, as `interpolate` computes them.
template <int N, class Index, class Sum, class T>
__device__ inline void sum_positions(
    const Axes& axes, int at_z, int at_y, int at_x, Index planes, Index group, Index groups, const int* rows,
    const Sum* weights, const T* in, T* out) {
    const Axis &depth = axes.axis[0], &height = axes.axis[1], &width = axes.axis[2];
    const long long area = static_cast<long long>(height.input_size) * width.input_size * depth.input_size;
    const AnyRow<Sum> z(depth, at_z, rows, weights), y(height, at_y, rows, weights);
#pragma unroll 1
    for (int n = 0; n < N; ++n) {
        const AnyRow<Sum> x(width, at_x + n, rows, weights);
        const long long first = (static_cast<long long>(z.first) * height.input_size + y.first) * width.input_size + x.first;
        const long long position = (static_cast<long long>(at_z) * height.output_size + at_y) * width.output_size + at_x + n;
        const long long positions = static_cast<long long>(depth.output_size) * height.output_size * width.output_size;
#pragma unroll 1
        for (long long plane = group; plane < planes; plane += groups) {
            Sum sum;
            sum_rows<AnyRow<Sum>, AnyRow<Sum>, AnyRow<Sum>, long long>(
                z, y, x, height.input_size, width.input_size, in + plane * area + first, sum);
            out[plane * positions + position] = rounded<T>(sum);
        }
    }
}

template <class T, int N>
struct alignas(sizeof(T) * N) Neighbours {
    T item[N];
};

// As `interpolate`, for windows: no load depends on a row's length, columns are summed along the other dimensions once for
// all N positions, and these are stored as one. Weights of 0 make NaN of what is infinite: such a sum is computed anew.
template <int N, class Z, class Y, class X, class Index, class Sum, class T>
__device__ void interpolate_windows(
    const Axes& axes, Index planes, Index groups, const int* rows, const Sum* weights, const T* in, T* out) {
    const Axis &depth = axes.axis[0], &height = axes.axis[1], &width = axes.axis[2];
    const Index pieces = width.output_size / N;
    const Index positions = static_cast<Index>(depth.output_size) * height.output_size * pieces;
    const Index row = width.input_size, flat = static_cast<Index>(height.input_size) * row;
    const Index area = depth.input_size * flat;
    const long long count = static_cast<long long>(groups) * positions;
    for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
         i += static_cast<long long>(gridDim.x) * blockDim.x) {
        const Index position = static_cast<Index>(i) % positions, group = static_cast<Index>(i) / positions;
        const Index line = position / pieces;
        const int at_z = static_cast<int>(line / height.output_size), at_y = static_cast<int>(line % height.output_size);
        const int at_x = static_cast<int>(position % pieces) * N;
        const Z z(depth, at_z, rows, weights);
        const Y y(height, at_y, rows, weights);
        X x[N];
        x[0] = X(width, at_x, rows, weights);
#pragma unroll
        for (int n = 1; n < N; ++n) x[n] = X(width, at_x + n, rows, weights, x[0].first);
        const T* corner = in + group * area + z.first * flat + y.first * row + x[0].first;
        Neighbours<T, N>* target = reinterpret_cast<Neighbours<T, N>*>(out) + group * positions + position;
        bool lost = false;
#pragma unroll 4
        for (Index plane = group; plane < planes; plane += groups) {
            Sum sums[N];
#pragma unroll
            for (int c = 0; c < X::size; ++c) {
                Sum column;
#pragma unroll
                for (int k = 0; k < Z::size; ++k) {
                    Sum straight;
#pragma unroll
                    for (int j = 0; j < Y::size; ++j) {
                        const Sum term = y.values[j] * static_cast<Sum>(to_compute(corner[k * flat + j * row + c]));
                        straight = j ? straight + term : term;
                    }
                    column = k ? column + z.values[k] * straight : z.values[k] * straight;
                }
#pragma unroll
                for (int n = 0; n < N; ++n) sums[n] = c ? sums[n] + x[n].values[c] * column : x[n].values[c] * column;
            }
            Neighbours<T, N> result;
#pragma unroll
            for (int n = 0; n < N; ++n) {
                lost |= sums[n] != sums[n];
                result.item[n] = rounded<T>(sums[n]);
            }
            *target = result;
            corner += static_cast<long long>(groups) * area;
            target += static_cast<long long>(groups) * positions;
        }
        if (lost) sum_positions<N>(axes, at_z, at_y, at_x, planes, group, groups, rows, weights, in, out);
    }
}
