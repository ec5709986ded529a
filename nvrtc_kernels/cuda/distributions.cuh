// Random words to numbers of a distribution, bit for bit as `tensor.random.transforms` does it.
//
// Only operations that every IEEE machine rounds alike, in the same order as there; compile with
// --fmad=false, so that no multiplication is fused with an addition. The single and double forms are one
// template over the number type; `Number<T>` holds what differs.
//
// Source of the normal quantile: M. Wichura, Algorithm AS 241, Applied Statistics 37 (1988).

#pragma once

template <class T>
struct Number;

template <>
struct Number<float> {
    static constexpr int words = 1;  // random words per number
    static constexpr int terms = 6;  // of the logarithm's series
    static __device__ float root(float x) { return sqrtf(x); }
    static __device__ void split(float x, float& mantissa, int& exponent) { mantissa = frexpf(x, &exponent); }

    static __device__ float uniform(const unsigned* w) { return static_cast<float>(w[0] >> 8) * 5.9604644775390625e-8f; }
    static __device__ bool negative(const unsigned* w) { return w[0] >> 31; }
    static __device__ float tail(const unsigned* w) {
        return fminf((static_cast<float>(w[0] & 0x7FFFFFFFu) + 0.5f) * 2.3283064365386963e-10f, 0.49999997f);
    }

    static constexpr int centre_up = 4, centre_down = 4, near_up = 4, near_down = 3, far_up = 4, far_down = 3;
    static constexpr float coefficients[] = {
        3.3871327179f, 50.434271938f, 159.29113202f, 59.109374720f,  //
        1.0f, 17.895169469f, 78.757757664f, 67.187563600f,           //
        1.4234372777f, 2.7568153900f, 1.3067284816f, 0.17023821103f, //
        1.0f, 0.73700164250f, 0.12021132975f,                        //
        6.6579051150f, 3.0812263860f, 0.42868294337f, 0.017337203997f,
        1.0f, 0.24197894225f, 0.012258202635f};
};

template <>
struct Number<double> {
    static constexpr int words = 2;
    static constexpr int terms = 13;
    static __device__ double root(double x) { return sqrt(x); }
    static __device__ void split(double x, double& mantissa, int& exponent) { mantissa = frexp(x, &exponent); }

    static __device__ unsigned long long joined(const unsigned* w) {
        return w[0] | static_cast<unsigned long long>(w[1]) << 32;
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

template <class T>
__device__ inline T uniform(const unsigned* words) { return Number<T>::uniform(words); }

template <class T>
__device__ inline T normal(const unsigned* words) {
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
