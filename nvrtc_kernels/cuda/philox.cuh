// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
//
// The counter is (block, call), the key is the seed; one counter gives four words. `tensor.operations.random.philox` is
// the same generator on NumPy arrays: word i of a call is output i % 4 of block i / 4 on both.

#pragma once

// A call that is captured into a CUDA graph has the top bit set in its number, which counts the graph's own calls, and the
// address of a PhiloxReplay in place of the seed: where the generator stands at this replay.

struct PhiloxReplay {
    unsigned long long seed, first_call, epoch;
};

// Every kernel that takes a seed and a call begins with this.
__device__ inline void find_call(unsigned long long& seed, unsigned long long& call) {
    if (call >> 63) {
        const PhiloxReplay* replay = reinterpret_cast<const PhiloxReplay*>(seed);
        seed = replay->seed;
        call = replay->first_call + (call & ~(1ull << 63));
    }
}

struct Words4 {
    unsigned word[4];
};

__device__ inline Words4 philox(unsigned long long seed, unsigned long long call, unsigned long long block) {
    unsigned a = static_cast<unsigned>(block), b = static_cast<unsigned>(block >> 32);
    unsigned c = static_cast<unsigned>(call), d = static_cast<unsigned>(call >> 32);
    unsigned key0 = static_cast<unsigned>(seed), key1 = static_cast<unsigned>(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const unsigned low0 = 0xD2511F53u * a, high0 = __umulhi(0xD2511F53u, a);
        const unsigned low1 = 0xCD9E8D57u * c, high1 = __umulhi(0xCD9E8D57u, c);
        a = high1 ^ b ^ key0;
        b = low1;
        c = high0 ^ d ^ key1;
        d = low0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return {{a, b, c, d}};
}
