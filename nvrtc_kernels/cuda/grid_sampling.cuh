// Images and volumes read at the points that a grid names, from -1 to 1 along each dimension, and the derivatives by
// the images and by the grid.
//
// A point lies between elements: along each dimension a few neighbours count, each with a weight and with the
// slope of its weight. A thread has a point of an item, works its neighbours out once and goes over channels with them.
// The derivative by the grid is a sum over the channels of one thread; that by the image is added up in memory
// atomically, in single precision for half types, so its last bits may differ from run to run.

#pragma once
#include "elements.cuh"

enum Padding { ZEROS, BORDER, REFLECTION };

struct Sampling {
    int channels, positions, size[3];
};

// Where something lies along a dimension, and how fast that changes with what the grid says.
template <class Sum>
struct Coordinate {
    Sum at, slope;
};

template <bool ALIGN, class Sum>
__device__ inline Coordinate<Sum> from_grid(Sum given, int size) {
    if (ALIGN) return {(given + Sum(1)) / Sum(2) * Sum(size - 1), Sum(size - 1) / Sum(2)};
    return {((given + Sum(1)) * Sum(size) - Sum(1)) / Sum(2), Sum(size) / Sum(2)};
}

// Back into the image, by reflections at its ends: the centres of the end elements with ALIGN, otherwise their edges.
template <bool ALIGN, class Sum>
__device__ inline Coordinate<Sum> reflected(Coordinate<Sum> x, int size) {
    const Sum low = ALIGN ? Sum(0) : Sum(-0.5), span = ALIGN ? Sum(size - 1) : Sum(size);
    if (span <= Sum(0)) return {Sum(0), Sum(0)};
    const Sum away = x.at - low, far = away < Sum(0) ? -away : away;
    const Sum flips = floor(far / span), extra = fmod(far, span);
    const bool odd = fmod(flips, Sum(2)) != Sum(0);
    return {(odd ? span - extra : extra) + low, (away < Sum(0)) != odd ? -x.slope : x.slope};
}

// To the nearest element of the image; NaN to the first.
template <class Sum>
__device__ inline Coordinate<Sum> clipped(Coordinate<Sum> x, int size) {
    if (!(x.at > Sum(0))) return {Sum(0), Sum(0)};
    if (x.at >= Sum(size - 1)) return {Sum(size - 1), Sum(0)};
    return x;
}

// What is left outside of numbers that an int can hold is outside of the image.
template <Padding PADDING, bool ALIGN, class Sum>
__device__ inline Coordinate<Sum> padded(Coordinate<Sum> x, int size) {
    if (PADDING == REFLECTION) x = reflected<ALIGN>(x, size);
    if (PADDING != ZEROS) return clipped(x, size);
    return x.at > Sum(-2147483648.0) && x.at < Sum(2147483520.0) ? x : Coordinate<Sum>{Sum(-100), x.slope};
}

// Elements along a dimension that count. `at` is -1 outside of the image.
template <int COUNT, class Sum>
struct Neighbours {
    static constexpr int count = COUNT;
    int at[COUNT];
    Sum weight[COUNT], slope[COUNT];
    __device__ void put(int k, int point, int size, Sum w, Sum s) {
        at[k] = point >= 0 && point < size ? point : -1;
        weight[k] = w;
        slope[k] = s;
    }
};

// The dimension that images lack.
template <class Sum>
struct One : Neighbours<1, Sum> {
    template <Padding PADDING, bool ALIGN>
    __device__ void find(Sum, int) { this->put(0, 0, 1, Sum(1), Sum(0)); }
};

template <class Sum>
struct Nearest : Neighbours<1, Sum> {
    template <Padding PADDING, bool ALIGN>
    __device__ void find(Sum given, int size) {
        const Coordinate<Sum> x = padded<PADDING, ALIGN>(from_grid<ALIGN>(given, size), size);
        this->put(0, static_cast<int>(rint(x.at)), size, Sum(1), Sum(0));
    }
};

template <class Sum>
struct Linear : Neighbours<2, Sum> {
    template <Padding PADDING, bool ALIGN>
    __device__ void find(Sum given, int size) {
        const Coordinate<Sum> x = padded<PADDING, ALIGN>(from_grid<ALIGN>(given, size), size);
        const Sum first = floor(x.at), part = x.at - first;
        this->put(0, static_cast<int>(first), size, Sum(1) - part, -x.slope);
        this->put(1, static_cast<int>(first) + 1, size, part, x.slope);
    }
};

// Padding moves each element that counts, and not the point between them.
template <class Sum>
struct Cubic : Neighbours<4, Sum> {
    template <Padding PADDING, bool ALIGN>
    __device__ void find(Sum given, int size) {
        const Coordinate<Sum> x = from_grid<ALIGN>(given, size);
        const Sum first = floor(x.at), part = x.at - first, a = Sum(-0.75);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const Coordinate<Sum> neighbour = padded<PADDING, ALIGN>(Coordinate<Sum>{first + Sum(k - 1), Sum(0)}, size);
            const Sum signed_distance = part - Sum(k - 1);
            const Sum distance = signed_distance < Sum(0) ? -signed_distance : signed_distance;
            Sum weight, slope;
            if (k == 1 || k == 2) {
                weight = ((a + Sum(2)) * distance - (a + Sum(3))) * distance * distance + Sum(1);
                slope = (Sum(3) * (a + Sum(2)) * distance - Sum(2) * (a + Sum(3))) * distance;
            } else {
                weight = ((a * distance - Sum(5) * a) * distance + Sum(8) * a) * distance - Sum(4) * a;
                slope = (Sum(3) * a * distance - Sum(10) * a) * distance + Sum(8) * a;
            }
            this->put(k, static_cast<int>(neighbour.at), size, weight, (k < 2 ? slope : -slope) * x.slope);
        }
    }
};

// The neighbours of a point, and visit(offset in the plane, weights and slopes along the dimensions) for each inside.
template <int RANK, class Z, class Y, class X>
struct Point {
    Z z;
    Y y;
    X x;

    template <Padding PADDING, bool ALIGN, class T>
    __device__ void find(const Sampling& s, const T* grid) {
        x.template find<PADDING, ALIGN>(to_compute(grid[0]), s.size[2]);
        y.template find<PADDING, ALIGN>(to_compute(grid[1]), s.size[1]);
        z.template find<PADDING, ALIGN>(to_compute(grid[RANK - 1]), s.size[0]);
    }

    template <class Offset, class Visit>
    __device__ void each(const Sampling& s, Visit visit) const {
#pragma unroll
        for (int k = 0; k < Z::count; ++k)
#pragma unroll
            for (int j = 0; j < Y::count; ++j)
#pragma unroll
                for (int i = 0; i < X::count; ++i)
                    if (z.at[k] >= 0 && y.at[j] >= 0 && x.at[i] >= 0)
                        visit((static_cast<Offset>(z.at[k]) * s.size[1] + y.at[j]) * s.size[2] + x.at[i], k, j, i);
    }
};

// visit(item, first channel, position) for all; threads share the channels of a position in `groups` groups.
template <class Visit>
__device__ inline void for_positions(const Sampling& s, long long items, int groups, Visit visit) {
    const long long count = items * groups * s.positions;
    for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
         i += static_cast<long long>(gridDim.x) * blockDim.x) {
        const long long row = i / s.positions;
        visit(row / groups, static_cast<int>(row % groups), static_cast<int>(i % s.positions));
    }
}

template <class Offset, int RANK, class Z, class Y, class X, Padding PADDING, bool ALIGN, class Sum, class T>
__device__ void grid_sample(const Sampling& s, long long items, int groups, const T* in, const T* grid, T* out) {
    const long long area = static_cast<long long>(s.size[0]) * s.size[1] * s.size[2];
    for_positions(s, items, groups, [&](long long item, int group, int position) {
        Point<RANK, Z, Y, X> point;
        point.template find<PADDING, ALIGN>(s, grid + (item * s.positions + position) * RANK);
        for (int channel = group; channel < s.channels; channel += groups) {
            const long long plane = item * s.channels + channel;
            Sum sum(0);
            point.template each<Offset>(s, [&](Offset offset, int k, int j, int i) {
                const Sum weight = point.z.weight[k] * point.y.weight[j] * point.x.weight[i];
                sum += weight * static_cast<Sum>(to_compute(in[plane * area + offset]));
            });
            out[plane * s.positions + position] = to_element<T>(sum);
        }
    });
}

template <
    class Offset, int RANK, class Z, class Y, class X, Padding PADDING, bool ALIGN, bool TO_IN, bool TO_GRID, class Sum,
    class T>
__device__ void grid_sample_backward(
    const Sampling& s, long long items, int groups, const T* grad, const T* in, const T* grid, Sum* grad_in,
    T* grad_grid) {
    const long long area = static_cast<long long>(s.size[0]) * s.size[1] * s.size[2];
    for_positions(s, items, groups, [&](long long item, int group, int position) {
        const long long at = (item * s.positions + position) * RANK;
        Point<RANK, Z, Y, X> point;
        point.template find<PADDING, ALIGN>(s, grid + at);
        Sum sums[3] = {};
        for (int channel = group; channel < s.channels; channel += groups) {
            const long long plane = item * s.channels + channel;
            const Sum given = to_compute(grad[plane * s.positions + position]);
            point.template each<Offset>(s, [&](Offset offset, int k, int j, int i) {
                const Sum a = point.z.weight[k], b = point.y.weight[j], c = point.x.weight[i];
                if (TO_IN) atomicAdd(grad_in + plane * area + offset, a * b * c * given);
                if (TO_GRID) {
                    const Sum value = given * static_cast<Sum>(to_compute(in[plane * area + offset]));
                    sums[0] += a * b * point.x.slope[i] * value;
                    sums[1] += a * point.y.slope[j] * c * value;
                    if (RANK == 3) sums[2] += point.z.slope[k] * b * c * value;
                }
            });
        }
        if (TO_GRID)
            for (int axis = 0; axis < RANK; ++axis) grad_grid[at + axis] = to_element<T>(sums[axis]);
    });
}
