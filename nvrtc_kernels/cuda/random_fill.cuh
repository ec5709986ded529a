// Fill memory with random numbers: element i of the target, in row-major order, has words i * w to
// (i + 1) * w of the call, w words per element. One thread computes the four words of a block at a time and
// stores what they make.
//
//   flat       contiguous targets; the numbers of a block go out in one store where the address allows it
//   strided    any strides, up to `Rank` collapsed dimensions
//   bernoulli  each element has a probability of its own, of any floating type and strides

#pragma once
#include "distributions.cuh"
#include "philox.cuh"
#include "pointwise.cuh"

template <class T, class Distribution>
__global__ void fill_flat(T* out, Word64 count, Word64 seed, Word64 call, Word64 first, Word64 second) {
    find_call(seed, call);
    constexpr int per = 4 / Distribution::words;
    const Distribution distribution(first, second);
    const bool aligned = reinterpret_cast<Word64>(out) % (sizeof(T) * per) == 0;
    const Word64 step = static_cast<Word64>(gridDim.x) * blockDim.x;
    for (Word64 block = static_cast<Word64>(blockIdx.x) * blockDim.x + threadIdx.x; block * per < count; block += step) {
        const Words4 words = philox(seed, call, block);
        Pack<T, per> pack;
#pragma unroll
        for (int i = 0; i < per; ++i) pack.item[i] = distribution(words.word + i * Distribution::words);
        if (aligned && (block + 1) * per <= count) {
            *reinterpret_cast<Pack<T, per>*>(out + block * per) = pack;
        } else {
#pragma unroll
            for (int i = 0; i < per; ++i)
                if (block * per + i < count) out[block * per + i] = pack.item[i];
        }
    }
}

// Offset of element `at` of an operand.
template <int Rank, int Operands>
__device__ inline long long element_offset(const Geometry<Rank, Operands, long long>& geometry, int operand, Word64 at) {
    long long offset = 0;
#pragma unroll
    for (int d = Rank - 1; d >= 0; --d) {
        const Word64 size = geometry.size[d], outer = d ? at / size : 0;
        offset += static_cast<long long>(at - outer * size) * geometry.stride[operand][d];
        at = outer;
    }
    return offset;
}

template <class T, class Distribution, int Rank>
__global__ void fill_strided(
    T* out, Word64 count, Word64 seed, Word64 call, Word64 first, Word64 second, Geometry<Rank, 1, long long> geometry) {
    find_call(seed, call);
    constexpr int per = 4 / Distribution::words;
    const Distribution distribution(first, second);
    const Word64 step = static_cast<Word64>(gridDim.x) * blockDim.x;
    for (Word64 block = static_cast<Word64>(blockIdx.x) * blockDim.x + threadIdx.x; block * per < count; block += step) {
        const Words4 words = philox(seed, call, block);
#pragma unroll
        for (int i = 0; i < per; ++i) {
            const Word64 at = block * per + i;
            if (at < count) out[element_offset(geometry, 0, at)] = distribution(words.word + i * Distribution::words);
        }
    }
}

template <class T, class P, int Rank>
__global__ void fill_bernoulli(
    T* out, const P* probability, Word64 count, Word64 seed, Word64 call, Geometry<Rank, 2, long long> geometry) {
    find_call(seed, call);
    const Word64 step = static_cast<Word64>(gridDim.x) * blockDim.x;
    for (Word64 block = static_cast<Word64>(blockIdx.x) * blockDim.x + threadIdx.x; block * 4 < count; block += step) {
        const Words4 words = philox(seed, call, block);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const Word64 at = block * 4 + i;
            if (at >= count) break;
            const double p = to_compute(probability[element_offset(geometry, 1, at)]);
            assert(0 <= p && p <= 1);
            const Bernoulli<T> distribution(static_cast<Word64>(ceil(p * 4294967296.0)), 0);
            out[element_offset(geometry, 0, at)] = distribution(words.word + i);
        }
    }
}
