// Float8 for elements.cuh: bytes that are widened to float, and rounded from it to nearest, ties to even.
//
// Float8E4M3 has 3 bits of fraction, no infinity, and one NaN for each sign: what is too large becomes 448. Float8E5M2
// is the upper half of a Half: what is too large becomes infinite. Arithmetic on the bits, which every GPU has, gives
// what PyTorch gives on both devices; every other type goes through float.

#pragma once

template <int Fraction, unsigned char Largest, int Tag>
struct Float8 {
    unsigned char bits;
};
// What numbers that are too large become is 448 in the one type, infinity in the other.
typedef Float8<3, 0x7e, 0> Float8E4M3;
typedef Float8<2, 0x7c, 1> Float8E5M2;

template <int Fraction, unsigned char Largest, int Tag>
__device__ inline float to_compute(Float8<Fraction, Largest, Tag> x) {
    // The bits where float has its exponent and fraction are a number too small by the difference of the biases.
    const int bias = (1 << (6 - Fraction)) - 1;
    const unsigned int sign = (x.bits & 0x80u) << 24;
    const unsigned int magnitude = x.bits & 0x7fu;
    const bool nan = Fraction == 3 ? magnitude == 0x7f : magnitude > Largest;
    const bool infinite = Fraction != 3 && magnitude == Largest;
    if (nan || infinite) {
        const unsigned int fraction = (magnitude & ((1u << Fraction) - 1)) << (23 - Fraction);
        // Quiet, but for the one NaN of Float8E4M3, whose fraction PyTorch keeps as it is.
        return __uint_as_float(sign | 0x7f800000u | fraction | (nan && Fraction != 3 ? 0x400000u : 0u));
    }
    const float scale = __uint_as_float(static_cast<unsigned int>(127 + 127 - bias) << 23);
    const float value = __uint_as_float(magnitude << (23 - Fraction)) * scale;
    return __uint_as_float(__float_as_uint(value) | sign);
}

template <int Fraction, unsigned char Largest, int Tag>
struct ToElement<Float8<Fraction, Largest, Tag>> {
    typedef Float8<Fraction, Largest, Tag> Result;

    static __device__ Result from(float x) {
        const int bias = (1 << (6 - Fraction)) - 1;
        const unsigned int bits = __float_as_uint(x), magnitude = bits & 0x7fffffffu;
        const unsigned char sign = static_cast<unsigned char>(bits >> 24 & 0x80u);
        if (magnitude > 0x7f800000u) return {static_cast<unsigned char>(sign | 0x7f)};
        unsigned int rounded;
        if (magnitude < static_cast<unsigned int>(127 + 1 - bias) << 23) {
            // Below the normal numbers: adding a number whose last bit is the last one here has the hardware round.
            const unsigned int unit = static_cast<unsigned int>(127 + 1 - bias + 23 - Fraction) << 23;
            rounded = __float_as_uint(__uint_as_float(magnitude) + __uint_as_float(unit)) - unit;
        } else {
            const unsigned int odd = magnitude >> (23 - Fraction) & 1u;
            const unsigned int shifted = magnitude - (static_cast<unsigned int>(127 - bias) << 23);
            rounded = shifted + odd + (1u << (22 - Fraction)) - 1 >> (23 - Fraction);
        }
        return {static_cast<unsigned char>(sign | (rounded < Largest ? rounded : Largest))};
    }
    template <class W>
    static __device__ Result from(W x) { return from(static_cast<float>(x)); }
    template <class W>
    static __device__ Result from(Complex<W> x) { return from(static_cast<float>(x.re)); }
};
