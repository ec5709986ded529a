// What reductions are made of. A reducer of values V, whose positions are counted by Index, has
//
//   State                     what has been gathered so far
//   start()                   the state of nothing
//   take(state, value, position) one more value
//
// and where several values are less work at once than one after the other
//
//   packs                     true
//   take_pack(state, values, at) an array of them, the i-th at position at(i), which grows with i and from call to call
//   combine(a, b)             two states, in any order: of several threads, warps, blocks
//
// and where states of lanes are less work at once than two by two
//
//   lanes                     true
//   combine_lanes<Width>(state)  those of `Width` neighbouring lanes, for the first of them; called by whole warps
//
// What is written at the end is an expression of the final state (nvrtc_kernels/reducers.py). Sums, products and
// counts of integers are kept in 64 bits, which wrap around; half precision has become float before.

#pragma once
#include "elements.cuh"
#include "exponentials.cuh"

// A state of another lane, word by word.
template <class State>
__device__ inline State shuffle_down(const State& state, int by, int width) {
    constexpr int words = (sizeof(State) + 3) / 4;
    unsigned int word[words] = {};
    memcpy(word, &state, sizeof(State));
#pragma unroll
    for (int i = 0; i < words; ++i) word[i] = __shfl_down_sync(~0u, word[i], by, width);
    State result;
    memcpy(&result, word, sizeof(State));
    return result;
}

template <class T> struct Accumulator { typedef T type; };
template <> struct Accumulator<bool> { typedef long long type; };
template <> struct Accumulator<unsigned char> { typedef long long type; };
template <> struct Accumulator<signed char> { typedef long long type; };
template <> struct Accumulator<short> { typedef long long type; };
template <> struct Accumulator<int> { typedef long long type; };
template <> struct Accumulator<unsigned int> { typedef long long type; };

template <class T> struct RealPart { typedef T type; };
template <class T> struct RealPart<Complex<T>> { typedef T type; };

template <class T> __device__ inline T plus(T a, T b) { return a + b; }
template <class T> __device__ inline Complex<T> plus(Complex<T> a, Complex<T> b) { return {a.re + b.re, a.im + b.im}; }
template <class T> __device__ inline T minus(T a, T b) { return a - b; }
template <class T> __device__ inline Complex<T> minus(Complex<T> a, Complex<T> b) { return {a.re - b.re, a.im - b.im}; }
template <class T> __device__ inline T times(T a, T b) { return a * b; }
template <class T> __device__ inline Complex<T> times(Complex<T> a, Complex<T> b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class T, class R> __device__ inline T scaled(T a, R by) { return a * by; }
template <class T, class R> __device__ inline Complex<T> scaled(Complex<T> a, R by) { return {a.re * by, a.im * by}; }
template <class T, class N> __device__ inline T over(T a, N count) { return a / static_cast<T>(count); }
template <class N> __device__ inline double over(long long a, N count) { return a / static_cast<double>(count); }
template <class T, class N> __device__ inline Complex<T> over(Complex<T> a, N count) {
    return {a.re / static_cast<T>(count), a.im / static_cast<T>(count)};
}
// The real part of conj(a) * b; of a and itself, the square of its magnitude.
template <class T> __device__ inline T real_product(T a, T b) { return a * b; }
template <class T> __device__ inline T real_product(Complex<T> a, Complex<T> b) { return a.re * b.re + a.im * b.im; }
template <class T> __device__ inline T magnitude(T a) { return a < T(0) ? -a : a == T(0) ? T(0) : a; }
template <class T> __device__ inline T magnitude(Complex<T> a) { return hypot(a.re, a.im); }
template <class T> __device__ inline bool truth(T a) { return a != T(0); }
template <class T> __device__ inline bool truth(Complex<T> a) { return a.re != T(0) || a.im != T(0); }
template <class T> __device__ inline bool is_nan(T a) { return a != a; }
template <class T> __device__ inline bool is_nan(Complex<T> a) { return a.re != a.re || a.im != a.im; }
template <class T> __device__ inline T nan_to_zero(T a) { return is_nan(a) ? to_element<T>(0) : a; }

// The ends of a type's range; infinite for floating point.
template <class T>
struct Range {
    static __device__ T high() { return static_cast<T>((1ull << (8 * sizeof(T) - 1)) - 1); }
    static __device__ T low() { return static_cast<T>(-high() - 1); }
};
template <class T>
struct UnsignedRange {
    static __device__ T high() { return static_cast<T>(~0ull); }
    static __device__ T low() { return 0; }
};
template <> struct Range<bool> : UnsignedRange<bool> {};
template <> struct Range<unsigned char> : UnsignedRange<unsigned char> {};
template <> struct Range<unsigned int> : UnsignedRange<unsigned int> {};
template <>
struct Range<float> {
    static __device__ float high() { return __int_as_float(0x7f800000); }
    static __device__ float low() { return -high(); }
};
template <>
struct Range<double> {
    static __device__ double high() { return __longlong_as_double(0x7ff0000000000000); }
    static __device__ double low() { return -high(); }
};

template <class V, class Index>
struct Sum {
    typedef typename Accumulator<V>::type State;
    static __device__ State start() { return to_element<State>(0); }
    static __device__ void take(State& state, V value, Index) { state = plus(state, to_element<State>(value)); }
    static __device__ State combine(State a, State b) { return plus(a, b); }
};

template <class V, class Index>
struct Product {
    typedef typename Accumulator<V>::type State;
    static __device__ State start() { return to_element<State>(1); }
    static __device__ void take(State& state, V value, Index) { state = times(state, to_element<State>(value)); }
    static __device__ State combine(State a, State b) { return times(a, b); }
};

// A sum of the values that are numbers, and how many they are.
template <class V, class Index>
struct CountedSum {
    typedef typename Accumulator<V>::type Total;
    struct State {
        Total sum;
        long long count;
    };
    static __device__ State start() { return {to_element<Total>(0), 0}; }
    static __device__ void take(State& state, V value, Index) {
        state.sum = plus(state.sum, to_element<Total>(nan_to_zero(value)));
        state.count += !is_nan(value);
    }
    static __device__ State combine(State a, State b) { return {plus(a.sum, b.sum), a.count + b.count}; }
};

// Several sums at once: the expression is `several(x, y, ...)`, all of one floating point type.
template <class T, int N>
struct Several {
    T item[N];
    __device__ T operator[](int i) const { return item[i]; }
};
template <class T, class... More>
__device__ inline Several<T, 1 + sizeof...(More)> several(T first, More... more) { return {{first, static_cast<T>(more)...}}; }

template <class V, class Index>
struct Sums {
    typedef V State;
    static constexpr int count = sizeof(State::item) / sizeof(State::item[0]);
    static __device__ State start() { return {}; }
    static __device__ void take(State& state, V value, Index) { state = combine(state, value); }
    static __device__ State combine(State a, State b) {
#pragma unroll
        for (int i = 0; i < count; ++i) a.item[i] = plus(a.item[i], b.item[i]);
        return a;
    }
};

template <class V, class Index>
struct Any {
    typedef bool State;
    static __device__ State start() { return false; }
    static __device__ void take(State& state, V value, Index) { state = state || truth(value); }
    static __device__ State combine(State a, State b) { return a || b; }
};

template <class V, class Index>
struct All {
    typedef bool State;
    static __device__ State start() { return true; }
    static __device__ void take(State& state, V value, Index) { state = state && truth(value); }
    static __device__ State combine(State a, State b) { return a && b; }
};

// The largest or the smallest. NaN is beyond either end.
template <class T> __device__ inline T higher(T a, T b) { return b > a || is_nan(b) ? b : a; }
template <class T> __device__ inline T lower(T a, T b) { return b < a || is_nan(b) ? b : a; }
#if __CUDA_ARCH__ >= 800
template <>
__device__ inline float higher(float a, float b) {
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}
template <>
__device__ inline float lower(float a, float b) {
    float result;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}
#endif

template <class V, class Index>
struct Largest {
    typedef V State;
    static __device__ State start() { return Range<V>::low(); }
    static __device__ void take(State& state, V value, Index) { state = higher(state, value); }
    static __device__ State combine(State a, State b) { return higher(a, b); }
};

template <class V, class Index>
struct Smallest {
    typedef V State;
    static __device__ State start() { return Range<V>::high(); }
    static __device__ void take(State& state, V value, Index) { state = lower(state, value); }
    static __device__ State combine(State a, State b) { return lower(a, b); }
};

template <class V, class Index>
struct Extremes {
    struct State {
        V low, high;
    };
    static __device__ State start() { return {Range<V>::high(), Range<V>::low()}; }
    static __device__ void take(State& state, V value, Index) { state = combine(state, {value, value}); }
    static __device__ State combine(State a, State b) { return {lower(a.low, b.low), higher(a.high, b.high)}; }
};

// Every lane has the result; called by whole warps.
template <int Width, class Index>
__device__ inline Index lowest_of_lanes(Index index) {
#if __CUDA_ARCH__ >= 800
    if constexpr (Width == 32 && sizeof(Index) == 4) return __reduce_min_sync(~0u, index);
#endif
#pragma unroll
    for (int by = Width / 2; by; by /= 2) index = min(index, __shfl_xor_sync(~0u, index, by));
    return index;
}

// The largest or the smallest and its position: the first among equals. The first NaN wins over every number.
template <class V, class Index, bool Up>
struct Placed {
    struct State {
        V value;
        Index index;
    };
    static __device__ State start() { return {Up ? Range<V>::low() : Range<V>::high(), Range<Index>::high()}; }
    static __device__ void take(State& state, V value, Index position) { state = combine(state, {value, position}); }
    static __device__ State combine(State a, State b) {
        const bool nan_a = is_nan(a.value), nan_b = is_nan(b.value);
        const bool equal = nan_a || nan_b ? nan_a && nan_b : a.value == b.value;
        const bool beyond = nan_b || (!nan_a && (Up ? b.value > a.value : b.value < a.value));
        return (equal ? b.index < a.index : beyond) ? b : a;
    }
    // The value first, of which lanes need to know no position, and then the first position that has it.
    static constexpr bool lanes = true;
    template <int Width>
    static __device__ State combine_lanes(State state) {
        V best = state.value;
#pragma unroll
        for (int by = Width / 2; by; by /= 2) {
            const V other = __shfl_xor_sync(~0u, best, by);
            best = Up ? higher(best, other) : lower(best, other);
        }
        const bool has_best = is_nan(best) ? is_nan(state.value) : state.value == best;
        const Index first = lowest_of_lanes<Width>(has_best ? state.index : Range<Index>::high());
        const int before = threadIdx.x % 32 / Width * Width;
        const unsigned int having = __ballot_sync(~0u, has_best && state.index == first) >> before;
        return {static_cast<V>(__shfl_sync(~0u, state.value, before + __ffs(having) - 1)), first};
    }
    // Few packs have a value that is further out than all before: only then is it looked for where it stands.
    static constexpr bool packs = true;
    template <int N, class At>
    static __device__ void take_pack(State& state, const V (&values)[N], const At& at) {
        V best = values[0];
#pragma unroll
        for (int i = 1; i < N; ++i) best = Up ? higher(best, values[i]) : lower(best, values[i]);
        if (is_nan(best)) {
            if (is_nan(state.value)) return;
#pragma unroll
            for (int i = N - 1; i >= 0; --i) {
                if (is_nan(values[i])) state = {values[i], at(i)};
            }
        } else if ((Up ? best > state.value : best < state.value) || state.index == Range<Index>::high()) {
            int first = N - 1;
            // Of zeros, which are equal, the first one's sign.
            V value = values[N - 1];
#pragma unroll
            for (int i = N - 1; i >= 0; --i) {
                first = values[i] == best ? i : first;
                value = values[i] == best ? values[i] : value;
            }
            state = {value, at(first)};
        }
    }
};
template <class V, class Index> struct LargestPlace : Placed<V, Index, true> {};
template <class V, class Index> struct SmallestPlace : Placed<V, Index, false> {};

// Mean and sum of squared distances from it, after Welford; states are combined after Chan, Golub and LeVeque.
// Neither loses digits to a mean that is large against the deviation. Floating point and complex values.
template <class V, class Index>
struct Moments {
    typedef typename RealPart<V>::type Real;
    struct State {
        V mean;
        Real squares, count;

        __device__ V center() const { return over(mean, count > 0 ? Real(1) : Real(0)); }
        __device__ Real variance(long long all, double correction) const {
            const double degrees = static_cast<double>(all) - correction;
            return squares / static_cast<Real>(degrees > 0 ? degrees : 0);
        }
    };
    static __device__ State start() { return {to_element<V>(0), Real(0), Real(0)}; }
    static __device__ void take(State& state, V value, Index) {
        state.count += 1;
        const V away = minus(value, state.mean);
        state.mean = plus(state.mean, scaled(away, inverse(state.count)));
        state.squares += real_product(away, minus(value, state.mean));
    }
    // Of as many values: their shares are a half, and nothing is divided.
    static __device__ State combine_alike(State a, V mean, Real squares) {
        const V away = minus(mean, a.mean);
        const Real between = real_product(away, away) * a.count * Real(0.5);
        return {plus(a.mean, scaled(away, Real(0.5))), a.squares + squares + between, a.count + a.count};
    }
    static __device__ State combine(State a, State b) {
        if (a.count == b.count) return combine_alike(a, b.mean, b.squares);
        if (b.count == 0) return a;
        if (a.count == 0) return b;
        const Real count = a.count + b.count, share = b.count * inverse(count);
        const V away = minus(b.mean, a.mean);
        const Real between = real_product(away, away) * a.count * share;
        return {plus(a.mean, scaled(away, share)), a.squares + b.squares + between, count};
    }
    // Lanes that share a row mostly have as many values.
    static constexpr bool lanes = true;
    template <int Width>
    static __device__ State combine_lanes(State state) {
        if (__all_sync(~0u, state.count == __shfl_sync(~0u, state.count, 0))) {
#pragma unroll
            for (int by = Width / 2; by; by /= 2)
                state = combine_alike(state, shuffle_down(state.mean, by, Width), shuffle_down(state.squares, by, Width));
        } else {
#pragma unroll
            for (int by = Width / 2; by; by /= 2) state = combine(state, shuffle_down(state, by, Width));
        }
        return state;
    }
    // In two passes over the values. The mean comes from four sums, so that it is off by few roundings: the sum of squares
    // grows by the square of what it is off.
    static constexpr bool packs = true;
    template <int N, class At>
    static __device__ void take_pack(State& state, const V (&values)[N], const At&) {
        V sum[4] = {};
        Real squares[2] = {};
#pragma unroll
        for (int i = 0; i < N; ++i) sum[i % 4] = plus(sum[i % 4], values[i]);
        const V mean = scaled(plus(plus(sum[0], sum[1]), plus(sum[2], sum[3])), Real(1) / N);
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const V away = minus(values[i], mean);
            squares[i % 2] += real_product(away, away);
        }
        state = combine(state, {mean, squares[0] + squares[1], Real(N)});
    }

private:
    // Means that are off by a rounding more are moved by the next value, or by a rounding of their distance; the division
    // proper would cost more than the rest of the step.
    static __device__ float inverse(float count) { return __fdividef(1.0f, count); }
    static __device__ double inverse(double count) { return 1 / count; }
};

// log(sum(exp(value))) in one pass: the sum is of exp(value - high), and is scaled when a higher value comes.
template <class V, class Index, bool Quick = false>
struct LogSumExp {
    struct State {
        V high, sum;
        __device__ V value() const { return high + log(sum); }
    };
    static __device__ State start() { return {Range<V>::low(), V(0)}; }
    static __device__ void take(State& state, V value, Index) { state = combine(state, {value, V(1)}); }
    static __device__ State combine(State a, State b) {
        // Equal infinities are no distance apart.
        const V above = b.high == a.high ? V(0) : b.high - a.high;
        const V factor = exp(-magnitude(above));
        return above > 0 ? State{b.high, b.sum + a.sum * factor} : State{a.high, a.sum + b.sum * factor};
    }
    // The sum is scaled once for all of them. From an infinity differences would be NaN: powers of the values themselves are
    // 0 for -inf, and an infinite sum for inf, as it is to be.
    static constexpr bool packs = true;
    template <int N, class At>
    static __device__ void take_pack(State& state, const V (&values)[N], const At&) {
        V high = values[0], sum[2] = {V(0), V(0)};
#pragma unroll
        for (int i = 1; i < N; ++i) high = larger_number(high, values[i]);
        high = larger_number(high, state.high);
        const V from = fabs(high) == Range<V>::high() ? V(0) : high;
#pragma unroll
        for (int i = 0; i < N; ++i) sum[i % 2] += power(values[i], from);
        state.sum = state.sum * power(state.high, from) + (sum[0] + sum[1]);
        state.high = high;
    }

private:
    // exp(x - from)
    static __device__ V power(V x, V from) {
        if constexpr (Quick) return power_of_two(fmaf(x, TO_TWO, -from * TO_TWO));
        return exp(x - from);
    }
};

// The same to a digit more than half precision has.
template <class V, class Index>
using QuickLogSumExp = LogSumExp<V, Index, true>;
