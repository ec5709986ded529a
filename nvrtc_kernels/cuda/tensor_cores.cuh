// Products of half precision on tensor cores, and how their operands come to shared memory and to registers: compute
// capability 8.0 and later. Fragments lie as the PTX documentation says ("Matrix fragments for mma.m16n8k16").

#pragma once
#include "half_elements.cuh"
#include "rows.cuh"

__device__ inline unsigned int shared_address(const void* pointer) {
    return static_cast<unsigned int>(__cvta_generic_to_shared(pointer));
}

// 4, 8 or 16 bytes from global to shared memory, asynchronously; zeros where `there` is false, and nothing is read.
template <int Bytes>
__device__ inline void copy_async(void* to, const void* from, bool there) {
    const int bytes = there ? Bytes : 0;
    if constexpr (Bytes == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
                     : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)), "l"(from), "n"(Bytes),
                     "r"(bytes)
                     : "memory");
    }
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until all but the latest `Left` groups of this thread have arrived.
template <int Left>
__device__ inline void await_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}

// Four matrices of 8 x 8 elements, of which each thread names a row.
__device__ inline void load_matrices(unsigned int (&to)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}
__device__ inline void load_transposed(unsigned int (&to)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// c += a @ b of 16 x 16 by 16 x 8.
template <class T>
__device__ void multiply_add(float (&c)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1);
template <>
__device__ inline void multiply_add<__half>(
    float (&c)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ inline void multiply_add<__nv_bfloat16>(
    float (&c)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two numbers as a register of a fragment, the first one in the lower half.
template <class T>
__device__ inline unsigned int packed(float first, float second) {
    Pack<T, 2> pack;
    pack.items[0] = to_element<T>(first);
    pack.items[1] = to_element<T>(second);
    return *reinterpret_cast<const unsigned int*>(&pack);
}

// Rows of `Width` elements in shared memory, whose chunks of 16 bytes are permuted so that eight rows of one chunk lie in
// different banks.
template <class T, int Width>
struct SharedRows {
    static constexpr int chunks = Width * sizeof(T) / 16;
    static constexpr int per_chunk = 16 / sizeof(T);
    T* memory;

    __device__ T* at(int row, int chunk) const {
        constexpr int rows_in_line = chunks < 8 ? 8 / chunks : 1;
        const int mixed = chunk ^ (row / rows_in_line & (chunks < 8 ? chunks - 1 : 7));
        return memory + row * Width + mixed * per_chunk;
    }
};
