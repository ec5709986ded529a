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

    static __device__ Bits key(Bits x) {
        if constexpr (floating) {
            // Twice the size, less 1: zeros are larger than everything then, and NaNs than infinity.
            const Bits size = static_cast<Bits>(static_cast<Bits>(x << 1) - 1);
            if (size >= static_cast<Bits>(Infinity << 1)) x = size == static_cast<Bits>(~Bits(0)) ? sign : static_cast<Bits>(~Bits(0));
            else x = static_cast<Bits>(x & sign ? ~x : x | sign);
        } else if constexpr (Signed) {
            x ^= sign;
        }
        return static_cast<Bits>(Descending ? ~x : x);
    }
};
