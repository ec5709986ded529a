// The first node of a CUDA graph that draws random numbers: one thread sets where the generator stands at this replay, which
// the kernels of the graph read (philox.cuh).
//
// The generator goes on as far from the last replay's first call as it did from the one before, so that nothing is written by the
// host; unless it is somewhere else, which the host tells by a new epoch among the node's parameters.

#pragma once
#include "philox.cuh"

extern "C" __global__ void begin_replay(
    PhiloxReplay* replay, unsigned long long epoch, unsigned long long seed, unsigned long long first_call,
    unsigned long long advance) {
    if (replay->epoch == epoch) {
        replay->first_call += advance;
    } else {
        *replay = PhiloxReplay{seed, first_call, epoch};
    }
}
