// Random words to numbers of a distribution, bit for bit as `tensor.random` does it on the CPU
// (elementary.py, transforms.py, distributions.py: the same names, the same order of operations).
//
// Only operations that every IEEE machine rounds alike, in the same order as there; compile with
// --fmad=false, so that no multiplication is fused with an addition. The single and double forms are one
// template over the number type; `Number<T>` holds what differs.
//
// Normal quantile: for double M. Wichura, Algorithm AS 241, Applied Statistics 37 (1988); for float the table of
// nvrtc_kernels/normal_quantile.py, whose text NORMAL_SEGMENTS the program defines, so that all lanes of a warp go one way.

#pragma once
#include "elements.cuh"

typedef unsigned long long Word64;

template <class T>
struct Number;

template <>
struct Number<float> {
    static constexpr int words = 1;  // random words per number
    static constexpr int terms = 6;  // of the logarithm's series
    static constexpr int exponential_terms = 8, circular_terms = 6;
    static constexpr float lowest = -110.0f, highest = 100.0f, log2_high = 0.693359375f, log2_low = -2.12194440e-4f;
    static __device__ float nearest(float x) { return rintf(x); }
    static __device__ float up(float x) { return ceilf(x); }
    static __device__ float power_of_two(int exponent) { return __int_as_float((exponent + 127) << 23); }
    static __device__ float open(const unsigned* w) {
        return fminf((static_cast<float>(w[0]) + 0.5f) * 2.3283064365386963e-10f, 0.99999994f);
    }
    static __device__ float root(float x) { return sqrtf(x); }
    static __device__ void split(float x, float& mantissa, int& exponent) { mantissa = frexpf(x, &exponent); }

    static __device__ float uniform(const unsigned* w) { return static_cast<float>(w[0] >> 8) * 5.9604644775390625e-8f; }
    static __device__ bool negative(const unsigned* w) { return w[0] >> 31; }
    static __device__ float tail(const unsigned* w) {
        return fminf((static_cast<float>(w[0] & 0x7FFFFFFFu) + 0.5f) * 2.3283064365386963e-10f, 0.49999997f);
    }
};

template <>
struct Number<double> {
    static constexpr int words = 2;
    static constexpr int terms = 13;
    static constexpr int exponential_terms = 14, circular_terms = 10;
    static constexpr double lowest = -760.0, highest = 720.0, log2_high = 0.6931471803691238,
                            log2_low = 1.9082149292705877e-10;
    static __device__ double nearest(double x) { return rint(x); }
    static __device__ double up(double x) { return ceil(x); }
    static __device__ double power_of_two(int exponent) {
        return __longlong_as_double(static_cast<long long>(exponent + 1023) << 52);
    }
    static __device__ double open(const unsigned* w) {
        return fmin((static_cast<double>(joined(w)) + 0.5) * 5.421010862427522e-20, 0.9999999999999999);
    }
    static __device__ double root(double x) { return sqrt(x); }
    static __device__ void split(double x, double& mantissa, int& exponent) { mantissa = frexp(x, &exponent); }

    static __device__ Word64 joined(const unsigned* w) {
        return w[0] | static_cast<Word64>(w[1]) << 32;
    }
    static __device__ double uniform(const unsigned* w) {
        return static_cast<double>(joined(w) >> 11) * 1.1102230246251565e-16;
    }
    static __device__ bool negative(const unsigned* w) { return w[1] >> 31; }
    static __device__ double tail(const unsigned* w) {
        const double magnitude = static_cast<double>(joined(w) & 0x7FFFFFFFFFFFFFFFull);
        return fmin((magnitude + 0.5) * 5.421010862427522e-20, 0.49999999999999994);
    }

    static constexpr int centre_up = 8, centre_down = 8, near_up = 8, near_down = 8, far_up = 8, far_down = 8;
    static constexpr double coefficients[] = {
        3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125,
        45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727,  //
        1.0, 42.313330701600911252, 687.18700749205790830, 5394.1960214247511077,
        21213.794301586595867, 39307.895800092710610, 28729.085735721942674, 5226.4952788528545610,  //
        1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
        1.27045825245236838258, 0.241780725177450611770, 0.0227238449892691845833, 7.74545014278341407640e-4,  //
        1.0, 2.05319162663775882187, 1.67638483018380384940, 0.689767334985100004550,
        0.148103976427480074590, 0.0151986665636164571966, 5.47593808499534494600e-4, 1.05075007164441684324e-9,  //
        6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 0.296560571828504891230,
        0.0265321895265761230930, 0.00124266094738807843860, 2.71155556874348757815e-5, 2.01033439929228813265e-7,  //
        1.0, 0.599832206555887937690, 0.136929880922735805310, 0.0148753612908506148525,
        7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15};
};

template <class T>
__device__ inline T polynomial(T x, const T* coefficients, int count) {
    T result = coefficients[count - 1];
#pragma unroll
    for (int i = count - 2; i >= 0; --i) result = result * x + coefficients[i];
    return result;
}

template <class T, int Count>
__device__ inline T polynomial(T x, const T (&coefficients)[Count]) {
    return polynomial(x, coefficients, Count);
}

template <class T>
__device__ inline T logarithm(T x) {
    T mantissa;
    int exponent;
    Number<T>::split(x, mantissa, exponent);
    if (mantissa < T(0.70710678118654752)) {
        mantissa *= T(2);
        exponent -= 1;
    }
    const T s = (mantissa - T(1)) / (mantissa + T(1)), square = s * s;
    constexpr int terms = Number<T>::terms;
    T series = T(1.0 / (2 * terms - 1));
#pragma unroll
    for (int term = terms - 2; term >= 0; --term) series = series * square + T(1.0 / (2 * term + 1));
    const T part = s * series;
    return static_cast<T>(exponent) * T(0.69314718055994531) + (part + part);
}

constexpr double inverse_factorial(int n) {
    double product = 1;
    for (int i = 2; i <= n; ++i) product *= i;
    return 1.0 / product;
}

// Of any number but NaN. Cody and Waite's reduction, Taylor's series, the power of two in two steps.
template <class T>
__device__ inline T exponential(T x) {
    typedef Number<T> N;
    x = x < N::lowest ? N::lowest : x > N::highest ? N::highest : x;
    const T k = N::nearest(x * T(1.4426950408889634));
    const T r = x - k * N::log2_high - k * N::log2_low;
    T series = T(inverse_factorial(N::exponential_terms - 1));
#pragma unroll
    for (int term = N::exponential_terms - 2; term >= 0; --term) series = series * r + T(inverse_factorial(term));
    const int power = static_cast<int>(k), half = power >> 1;
    return series * N::power_of_two(half) * N::power_of_two(power - half);
}

// cot(pi x) of x in (0, 0.5).
template <class T>
__device__ inline T cotangent_pi(T x) {
    constexpr int terms = Number<T>::circular_terms;
    const bool upper = x > T(0.25);
    const T z = (upper ? T(0.5) - x : x) * T(3.14159265358979324), square = -(z * z);
    T sine = T(inverse_factorial(2 * terms - 1)), cosine = T(inverse_factorial(2 * terms - 2));
#pragma unroll
    for (int term = terms - 2; term >= 0; --term) {
        sine = sine * square + T(inverse_factorial(2 * term + 1));
        cosine = cosine * square + T(inverse_factorial(2 * term));
    }
    sine *= z;
    return upper ? sine / cosine : cosine / sine;
}

// Where the normal quantile comes from: nothing but the code for double.
template <class T>
struct NormalQuantile {
    static constexpr int segments = 0;
    __device__ T operator()(const unsigned* words) const {
        typedef Number<T> N;
        const T tail = N::tail(words), q = T(0.5) - tail;
        const T* centre = N::coefficients;
        const T* near = centre + N::centre_up + N::centre_down;
        const T* far = near + N::near_up + N::near_down;
        T result;
        if (q > T(0.425)) {
            T r = N::root(-logarithm(tail));
            if (r > T(5)) {
                r -= T(5);
                result = polynomial(r, far, N::far_up) / polynomial(r, far + N::far_up, N::far_down);
            } else {
                r -= T(1.6);
                result = polynomial(r, near, N::near_up) / polynomial(r, near + N::near_up, N::near_down);
            }
        } else {
            const T r = T(0.180625) - q * q;
            result = q * polynomial(r, centre, N::centre_up) / polynomial(r, centre + N::centre_up, N::centre_down);
        }
        return N::negative(words) ? -result : result;
    }
};

// Half of the value, and the slope, of the quantile in the middle of a segment.
struct alignas(8) Segment {
    float half, slope;
};

#ifdef NORMAL_SEGMENTS
static __device__ const Segment normal_segments[] = {NORMAL_SEGMENTS};

template <>
struct NormalQuantile<float> {
    static constexpr int segments = sizeof(normal_segments) / sizeof(Segment);
    const Segment* table = normal_segments;
    __device__ float operator()(const unsigned* words) const {
        // Twice the distance from the nearer end, in units of 2^-32, and the middle of its segment.
        const float number = __uint2float_rn(words[0] * 2 + 1);
        unsigned middle = __float_as_uint(number) + 0x20000u & 0xFFFC0000u;
        // Hides from the compiler that bits are 0, for which it would take a further instruction to clear them once more.
        asm("" : "+r"(middle));
        // A segment is 1 << 3 bytes: the offset is a shift that is added to the address in one instruction.
        const char* const start = reinterpret_cast<const char*>(table) + (middle >> 15);
        const Segment segment = reinterpret_cast<const Segment*>(start)[-(127 << 5)];
        const float step = segment.slope * (number - __uint_as_float(middle));
        // Twice a number is exact: the fused addition has the bits of a separate one.
        const float result = fmaf(segment.half, 2.0f, (segment.half * step + 1.0f) * step);
        // The sign bit of the number, which is positive, is that of the word.
        return __uint_as_float(__float_as_uint(result) ^ (words[0] & 0x80000000u));
    }
};
#endif

// Distributions: functors from words to elements of type T. Two 64-bit parameters each, doubles by their bits.

template <class T> struct Compute { typedef double type; };
template <> struct Compute<float> { typedef float type; };
template <> struct Compute<Half> { typedef float type; };
template <> struct Compute<BFloat16> { typedef float type; };

// `words` of an element, and `segments` of the table that it is looked up in.
template <class T>
struct Continuous {
    typedef typename Compute<T>::type Real;
    static constexpr int words = Number<Real>::words, segments = 0;
    Real first, second;
    __device__ Continuous(Word64 a, Word64 b)
        : first(static_cast<Real>(__longlong_as_double(a))), second(static_cast<Real>(__longlong_as_double(b))) {}
};

// A uniform number with as many bits as T holds, so that rounding moves none to the end of the range.
template <class T>
__device__ inline typename Compute<T>::type fraction(const unsigned* w, T*) {
    return Number<typename Compute<T>::type>::uniform(w);
}
__device__ inline float fraction(const unsigned* w, Half*) { return static_cast<float>(w[0] >> 21) * 4.8828125e-4f; }
__device__ inline float fraction(const unsigned* w, BFloat16*) {
    return static_cast<float>(w[0] >> 24) * 3.90625e-3f;
}

template <class T>
struct Uniform : Continuous<T> {
    using Continuous<T>::Continuous;
    __device__ T operator()(const unsigned* w) const {
        const T value = to_element<T>(fraction(w, static_cast<T*>(nullptr)) * (this->second - this->first) + this->first);
        return to_compute(value) < this->second ? value : to_element<T>(this->first);
    }
};

template <class T>
struct Normal : Continuous<T> {
    using Continuous<T>::Continuous;
    typedef NormalQuantile<typename Compute<T>::type> Quantile;
    static constexpr int segments = Quantile::segments;
    Quantile normal;
    __device__ T operator()(const unsigned* w) const { return to_element<T>(normal(w) * this->second + this->first); }
};

template <class T>
struct LogNormal : Continuous<T> {
    using Continuous<T>::Continuous;
    typedef typename Compute<T>::type Real;
    typedef NormalQuantile<Real> Quantile;
    static constexpr int segments = Quantile::segments;
    Quantile normal;
    __device__ T operator()(const unsigned* w) const {
        return to_element<T>(exponential<Real>(normal(w) * this->second + this->first));
    }
};

template <class T>
struct Exponential : Continuous<T> {
    using Continuous<T>::Continuous;
    typedef typename Compute<T>::type Real;
    __device__ T operator()(const unsigned* w) const {
        return to_element<T>(-logarithm<Real>(Number<Real>::open(w)) / this->first);
    }
};

template <class T>
struct Cauchy : Continuous<T> {
    using Continuous<T>::Continuous;
    typedef typename Compute<T>::type Real;
    __device__ T operator()(const unsigned* w) const {
        const Real value = cotangent_pi<Real>(Number<Real>::tail(w));
        return to_element<T>((Number<Real>::negative(w) ? -value : value) * this->second + this->first);
    }
};

__device__ inline float bounded(float trials, float*) { return trials; }
__device__ inline float bounded(float trials, Half*) { return trials; }
__device__ inline float bounded(float trials, BFloat16*) { return trials; }
__device__ inline double bounded(double trials, double*) { return trials; }
template <class T>
__device__ inline long long bounded(double trials, T*) {
    return static_cast<long long>(fmin(trials, 9223372036854774784.0));
}

template <class T>
struct Geometric : Continuous<T> {
    using Continuous<T>::Continuous;
    typedef typename Compute<T>::type Real;
    __device__ T operator()(const unsigned* w) const {
        const Real trials = Number<Real>::up(logarithm<Real>(Number<Real>::open(w)) / this->first);
        return to_element<T>(bounded(trials, static_cast<T*>(nullptr)));
    }
};

template <class T>
struct Bernoulli {
    static constexpr int words = 1, segments = 0;
    Word64 threshold;
    __device__ Bernoulli(Word64 threshold, Word64) : threshold(threshold) {}
    __device__ T operator()(const unsigned* w) const { return to_element<T>(w[0] < threshold ? 1 : 0); }
};

// Integers in [low, low + range) for ranges up to 2**32, by a 64-bit product.
template <class T>
struct Integers {
    static constexpr int words = 2, segments = 0;
    Word64 range, low;
    __device__ Integers(Word64 range, Word64 low) : range(range), low(low) {}
    __device__ T operator()(const unsigned* w) const {
        const Word64 offset = (w[1] * range + (w[0] * range >> 32)) >> 32;
        return to_element<T>(static_cast<long long>(low + offset));
    }
};

// The same for any range, by a 128-bit product; 0 stands for 2**64.
template <class T>
struct WideIntegers {
    static constexpr int words = 4, segments = 0;
    Word64 range, low;
    __device__ WideIntegers(Word64 range, Word64 low) : range(range), low(low) {}
    __device__ T operator()(const unsigned* w) const {
        const Word64 x0 = Number<double>::joined(w), x1 = Number<double>::joined(w + 2);
        Word64 offset = x1;
        if (range) {
            const Word64 carried = __umul64hi(x0, range);
            offset = __umul64hi(x1, range) + (x1 * range + carried < carried);
        }
        return to_element<T>(static_cast<long long>(low + offset));
    }
};
