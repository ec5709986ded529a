// The order that elements are sorted in, as unsigned integers that compare alike.
//
// Elements are moved as bits. `Order::key` turns bits around so that unsigned comparison is PyTorch's order:
// numbers ascend, -0.0 equals 0.0, every NaN is equal to the others and larger than numbers. The key is never
// stored, so that zeros keep their signs and NaNs their payloads. Descending order inverts keys, and so stays
// stable.

#pragma once

// One type or another.
template <bool Condition, class A, class B>
struct Either {
    typedef A Type;
};
template <class A, class B>
struct Either<false, A, B> {
    typedef B Type;
};

// Infinity: the bits of positive infinity for a floating type, 0 for integers.
template <class Bits_, Bits_ Infinity, bool Signed, bool Descending>
struct Order {
    typedef Bits_ Bits;
    static constexpr bool floating = Infinity != 0;
    static constexpr Bits sign = static_cast<Bits>(Bits(1) << (8 * sizeof(Bits) - 1));
    static constexpr Bits nan_key = static_cast<Bits>(Descending ? 0 : ~Bits(0));

    // A key at the top of at least 32 bits, in which arithmetic is quicker than in fewer.
    typedef typename Either<sizeof(Bits) == 8, unsigned long long, unsigned>::Type Word;
    static constexpr int bits = 8 * sizeof(Word), above = bits - 8 * sizeof(Bits);

    static __device__ Word high_key(Bits x) {
        constexpr Word top = Word(1) << (bits - 1), infinity = static_cast<Word>(Infinity) << above;
        const Word word = static_cast<Word>(x) << above;
        if constexpr (floating) {
            // The middle, and the size added to it or taken away: nothing, for both zeros.
            const Word size = word & ~top, negative = static_cast<Word>(-static_cast<Word>(word >> (bits - 1)));
            bool nan;
            if constexpr (infinity == 0x7f800000) nan = __uint_as_float(word) != __uint_as_float(word);
            else nan = size > infinity;
            if (nan) return static_cast<Word>(nan_key) << above;
            return Descending ? ~top - ((size ^ negative) - negative) : top + ((size ^ negative) - negative);
        } else {
            return (Signed ? word ^ top : word) ^ (Descending ? static_cast<Word>(static_cast<Bits>(~Bits(0))) << above : 0);
        }
    }
    static __device__ Bits key(Bits x) { return static_cast<Bits>(high_key(x) >> above); }
    // Eight bits of the key, the lowest ones for 0.
    static __device__ unsigned digit(Bits x, int byte) {
        const Word key = high_key(x);
        if constexpr (sizeof(Word) == 8) return static_cast<unsigned>(key >> 8 * byte) & 255;
        return __byte_perm(static_cast<unsigned>(key), 0, 0x4440 + byte + above / 8);
    }
};
