// Signals, images and volumes at other sizes. Interpolation is linear and goes dimension by dimension: along each, the
// result is a band matrix times the input, with a row of a few neighbouring weights for each element of the result.
// The host makes these rows, so that one kernel serves all modes; and it serves their derivative with the transposed
// matrices, where each element of the input gathers what came of it: nothing is added atomically.
//
// A thread has a position of the result. It reads the rows of that position once, short ones into registers, and goes
// over several planes (images lie one after the other) with them: neighbouring threads write neighbouring elements,
// and have loads from several planes in flight.

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

// visit(k) for each weight of a row; the loop is unrolled where its length is known.
template <class Row, class Visit>
__device__ inline void for_weights(const Row& row, Visit visit) {
    if constexpr (Row::most > 0) {
#pragma unroll
        for (int k = 0; k < Row::most; ++k)
            if (k < row.count) visit(k);
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
            const T* const corner = in + plane * area + first;
            Sum sum(0);
            for_weights(z, [&](int k) {
                Sum flat(0);
                for_weights(y, [&](int j) {
                    const T* const start = corner + (static_cast<Index>(k) * height.input_size + j) * width.input_size;
                    Sum straight(0);
                    for_weights(x, [&](int i) { straight += x.weight(i) * static_cast<Sum>(to_compute(start[i])); });
                    flat += y.weight(j) * straight;
                });
                sum += z.weight(k) * flat;
            });
            out[plane * positions + position] = rounded<T>(sum);
        }
    }
}
