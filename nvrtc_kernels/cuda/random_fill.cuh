// Fill memory with random numbers: element i of the target, in row-major order, has words i * w to
// (i + 1) * w of the call, w words per element. One thread computes the four words of a block at a time, of as many blocks
// as make 16 bytes, and stores what they make.
//
//   flat       contiguous targets; a thread's numbers go out in one store where the address allows it
//   strided    any strides, up to `Rank` collapsed dimensions
//   bernoulli  each element has a probability of its own, of any floating type and strides

#pragma once
#include "distributions.cuh"
#include "philox.cuh"
#include "pointwise.cuh"

// Blocks of words whose numbers, of `bytes` a block, a thread stores as one: 16 bytes if it can be.
constexpr int packed_blocks(int bytes) { return bytes < 16 ? 16 / bytes : 1; }

// A distribution whose table, if it has one, the block has copied to shared memory. All threads of a block make one.
template <class Distribution>
__device__ inline Distribution with_shared_table(Word64 first, Word64 second) {
    Distribution distribution(first, second);
    if constexpr (Distribution::segments > 0) {
        __shared__ Segment segments[Distribution::segments];
        for (int i = threadIdx.x; i < Distribution::segments; i += blockDim.x) segments[i] = distribution.normal.table[i];
        __syncthreads();
        distribution.normal.table = segments;
    }
    return distribution;
}

template <class T, class Distribution>
__global__ void fill_flat(T* out, Word64 count, Word64 seed, Word64 call, Word64 first, Word64 second) {
    find_call(seed, call);
    constexpr int each = 4 / Distribution::words, blocks = packed_blocks(sizeof(T) * each), per = each * blocks;
    const Distribution distribution = with_shared_table<Distribution>(first, second);
    const Word64 step = static_cast<Word64>(gridDim.x) * blockDim.x, thread = static_cast<Word64>(blockIdx.x) * blockDim.x + threadIdx.x;
    const Word64 packs = reinterpret_cast<Word64>(out) % (sizeof(T) * per) == 0 ? count / per : 0;
    for (Word64 at = thread; at < packs; at += step) {
        Pack<T, per> pack;
#pragma unroll
        for (int b = 0; b < blocks; ++b) {
            const Words4 words = philox(seed, call, at * blocks + b);
#pragma unroll
            for (int i = 0; i < each; ++i) pack.item[b * each + i] = distribution(words.word + i * Distribution::words);
        }
        *reinterpret_cast<Pack<T, per>*>(out + at * per) = pack;
    }
    for (Word64 block = packs * blocks + thread; block * each < count; block += step) {
        const Words4 words = philox(seed, call, block);
#pragma unroll
        for (int i = 0; i < each; ++i)
            if (block * each + i < count) out[block * each + i] = distribution(words.word + i * Distribution::words);
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
    const Distribution distribution = with_shared_table<Distribution>(first, second);
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
