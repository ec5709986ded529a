// Bulk copies of tensors (`cp.async.bulk.tensor`; compute capability 9.0 and later): one thread asks for a box of a tensor, which
// a tensor map describes, and a barrier in shared memory (`mbarrier`) counts the bytes that have come.
//
// A phase of a barrier ends when as many threads have arrived as it was made for, and all bytes have come that they said to
// expect; the next phase begins. Threads wait for a phase by its parity: the first one has 0.

#pragma once
#include "tensor_cores.cuh"

// What the driver makes (drv.TensorMap): a parameter by value, `const __grid_constant__`.
struct alignas(64) TensorMap {
    unsigned long long words[16];
};

struct Barrier {
    unsigned long long state;

    // By one thread, and `show` and a barrier of the block before others use it.
    __device__ void make(int arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(arrivals) : "memory");
    }
    // Barriers that this thread has made are there for copies.
    static __device__ void show() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
    __device__ void arrive() {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
    }
    __device__ void arrive_and_expect(int bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)), "r"(bytes) : "memory");
    }
    __device__ void await(int parity) {
        asm volatile(
            "{\n.reg .pred over;\nwaiting:\nmbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n@!over bra waiting;\n}" ::"r"(
                shared_address(this)),
            "r"(parity)
            : "memory");
    }
};

// A box from the coordinates on, innermost first: `column`, `row`, and of the outer dimensions those in `outer`, last first. What is
// outside the tensor is zeros, and counts as bytes that have come.
template <int Outer>
__device__ inline void copy_box(void* to, const TensorMap* tensor, Barrier* told, int column, int row, const int (&outer)[Outer]) {
    static_assert(Outer >= 1 && Outer <= 3, "maps have up to five dimensions");
    const unsigned int into = shared_address(to), barrier = shared_address(told);
    if constexpr (Outer == 1) {
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(into),
            "l"(tensor), "r"(column), "r"(row), "r"(outer[0]), "r"(barrier)
            : "memory");
    } else if constexpr (Outer == 2) {
        asm volatile(
            "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(
                into),
            "l"(tensor), "r"(column), "r"(row), "r"(outer[1]), "r"(outer[0]), "r"(barrier)
            : "memory");
    } else {
        asm volatile(
            "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(
                into),
            "l"(tensor), "r"(column), "r"(row), "r"(outer[2]), "r"(outer[1]), "r"(outer[0]), "r"(barrier)
            : "memory");
    }
}
