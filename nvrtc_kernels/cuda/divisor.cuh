// Division by numbers that are known before the launch: the host works out what to multiply and shift by instead.

#pragma once

template <class Count>
struct Divisor {
    Count size;
    __device__ Count quotient(Count n) const { return n / size; }
};
// n / size = n * multiplier >> 32 >> shift, for n below 2^31.
template <>
struct Divisor<unsigned int> {
    unsigned int size, multiplier, shift;
    __device__ unsigned int quotient(unsigned int n) const { return __umulhi(n, multiplier) >> shift; }
};
// The same where the size may also be 1, for which there is no multiplier.
__device__ inline unsigned int quotient(const Divisor<unsigned int>& by, unsigned int n) {
    return by.size == 1 ? n : by.quotient(n);
}
