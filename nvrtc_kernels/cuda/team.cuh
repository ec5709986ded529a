// Scans over the threads of a block, and the operations that scans are made of.
//
// An operation has a `State` with an associative `combine(earlier, later)`, an `identity()`, `from(x, i)` for
// element x at position i, and `value(state)`. A team is the `Along` threads that share a line; teams of `Along`
// consecutive threads (rows) exchange by shuffles, teams that lie across warps (columns) in shared memory.

#pragma once

template <int Along, int Across, int Items, bool Columns>
struct TeamShape {
    static constexpr int along = Along, across = Across, items = Items, tile = Along * Items;
    static constexpr bool columns = Columns;
};

template <class T>
struct Found {  // a value and where it stands; -1: nothing yet
    T value;
    long long index;
};

template <class T>
__device__ inline T shuffle(T x, int lane, int width) { return __shfl_sync(~0u, x, lane, width); }
template <class T>
__device__ inline Complex<T> shuffle(Complex<T> x, int lane, int width) {
    return {shuffle(x.re, lane, width), shuffle(x.im, lane, width)};
}
template <class T>
__device__ inline Found<T> shuffle(Found<T> x, int lane, int width) {
    return {shuffle(x.value, lane, width), shuffle(x.index, lane, width)};
}

template <class T>
__device__ inline T shuffle_up(T x, int by, int width) { return __shfl_up_sync(~0u, x, by, width); }
template <class T>
__device__ inline Complex<T> shuffle_up(Complex<T> x, int by, int width) {
    return {shuffle_up(x.re, by, width), shuffle_up(x.im, by, width)};
}
template <class T>
__device__ inline Found<T> shuffle_up(Found<T> x, int by, int width) {
    return {shuffle_up(x.value, by, width), shuffle_up(x.index, by, width)};
}

// Elements are converted to Element first, as PyTorch does for a `dtype` argument, and then to the State.
template <class T, class Element = T>
struct Values {
    typedef T State;
    template <class X, class Index>
    static __device__ T from(X x, Index) { return convert(to_compute(to_element<Element>(to_compute(x)))); }
    static __device__ T value(T state) { return state; }

private:
    template <class W>
    static __device__ T convert(W x) { return to_element<T>(x); }
};

template <class T, class Element = T>
struct Add : Values<T, Element> {
    static __device__ T identity() { return to_element<T>(0); }
    static __device__ T combine(T a, T b) { return sum(a, b); }

private:
    template <class W>
    static __device__ W sum(W a, W b) { return a + b; }
    template <class W>
    static __device__ Complex<W> sum(Complex<W> a, Complex<W> b) { return {a.re + b.re, a.im + b.im}; }
};

template <class T, class Element = T>
struct Multiply : Values<T, Element> {
    static __device__ T identity() { return to_element<T>(1); }
    static __device__ T combine(T a, T b) { return product(a, b); }

private:
    template <class W>
    static __device__ W product(W a, W b) { return a * b; }
    template <class W>
    static __device__ Complex<W> product(Complex<W> a, Complex<W> b) {
        return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    }
};

// log(exp(a) + exp(b)) without overflow: the larger exponent is taken out.
template <class T, class Element = T>
struct LogAddExp : Values<T, Element> {
    static __device__ T identity() { return to_element<T>(-__int_as_float(0x7f800000)); }
    static __device__ T combine(T a, T b) { return sum(a, b); }

private:
    template <class W>
    static __device__ W sum(W a, W b) {
        if (isnan(a) || isnan(b)) return a + b;
        const W high = a > b ? a : b, low = a > b ? b : a;
        return high == low && isinf(high) ? high : high + log1p(exp(low - high));
    }
    template <class W>
    static __device__ Complex<W> sum(Complex<W> a, Complex<W> b) {
        if (isnan(a.re) || isnan(a.im) || isnan(b.re) || isnan(b.im)) return {a.re + b.re, a.im + b.im};
        const bool swap = a.re < b.re;
        const Complex<W> high = swap ? b : a, low = swap ? a : b;
        if (isinf(high.re)) return high;
        // The smaller is e^d of the larger: the logarithm of 1 + e^d is added.
        const W size = exp(low.re - high.re), x = size * cos(low.im - high.im), y = size * sin(low.im - high.im);
        return {high.re + log1p(x * (2 + x) + y * y) / 2, high.im + atan2(y, 1 + x)};
    }
};

// The largest (or smallest) value and its rank: the last among equals. A NaN wins over every number.
template <class T, bool Largest>
struct Best {
    typedef Found<T> State;
    static __device__ State identity() { return {T(0), -1}; }
    template <class X, class Index>
    static __device__ State from(X x, Index at) { return {static_cast<T>(to_compute(x)), at}; }
    static __device__ T value(State state) { return state.value; }
    static __device__ State combine(State a, State b) {
        if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
        const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
        if (a_nan || b_nan ? a_nan == b_nan : a.value == b.value) return a.index > b.index ? a : b;
        return a_nan || (!b_nan && (Largest ? a.value > b.value : a.value < b.value)) ? a : b;
    }
};

template <class Op, class Shape>
struct Team {
    typedef typename Op::State State;
    static constexpr int along = Shape::along, across = Shape::across;
    static constexpr int cells_needed = along == 1 ? 1 : Shape::columns ? along * across : along / 32 + 1;
    int rank, row;  // of this thread: in its line, and of its line in the block

    __device__ Team()
        : rank(Shape::columns ? threadIdx.x / across : threadIdx.x % along),
          row(Shape::columns ? threadIdx.x % across : threadIdx.x / along) {}

    // What the threads before this one have, combined, and what all of them have. Every thread of the block
    // takes part.
    __device__ State scan(State own, State& total) const {
        if constexpr (along == 1) {
            total = own;
            return Op::identity();
        } else if constexpr (Shape::columns) {
            __shared__ State cells[cells_needed];
            __syncthreads();  // the round before has been read
            cells[rank * across + row] = own;
            __syncthreads();
            State before = Op::identity();
            total = Op::identity();
#pragma unroll
            for (int i = 0; i < along; ++i) {
                if (i == rank) before = total;
                total = Op::combine(total, cells[i * across + row]);
            }
            return before;
        } else {
            constexpr int width = along < 32 ? along : 32;
            const int lane = rank % width;
            State through = own;
#pragma unroll
            for (int by = 1; by < width; by *= 2) {
                const State below = shuffle_up(through, by, width);
                if (lane >= by) through = Op::combine(below, through);
            }
            State before = shuffle_up(through, 1, width);
            if (lane == 0) before = Op::identity();
            total = shuffle(through, width - 1, width);
            if constexpr (along > 32) {
                __shared__ State cells[cells_needed];
                static_assert(across == 1, "a team of several warps is the whole block");
                __syncthreads();
                if (lane == 0) cells[rank / 32] = total;
                __syncthreads();
                State warps = Op::identity();
                total = Op::identity();
#pragma unroll
                for (int i = 0; i < along / 32; ++i) {
                    if (i == rank / 32) warps = total;
                    total = Op::combine(total, cells[i]);
                }
                before = Op::combine(warps, before);
            }
            return before;
        }
    }
};
