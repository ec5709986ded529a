// Counters in shared memory.

#pragma once

// One more in a counter, by its address in shared memory: of a generic address the compiler takes three instructions.
__device__ inline void count_in_shared_at(unsigned address) {
    asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(address) : "memory");
}
