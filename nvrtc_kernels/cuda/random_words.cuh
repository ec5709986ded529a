// Random words by their number in a call, for kernels that compute several operations: see philox.cuh.

#pragma once
#include "philox.cuh"

typedef unsigned long long Number;

// Word `number` of a call.
__device__ inline unsigned int random_word(Number seed, Number call, Number number) {
    const Words4 words = philox(seed, call, number >> 2);
    const unsigned int component = number & 3;
    return component == 0 ? words.word[0] : component == 1 ? words.word[1] : component == 2 ? words.word[2] : words.word[3];
}
