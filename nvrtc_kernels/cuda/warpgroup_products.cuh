// Products of warpgroups on Hopper's tensor cores (`wgmma`; compute capability 9.0 and no other): four warps multiply 64 rows by
// up to 256 columns, the right factor straight from shared memory, the left one from there or from registers.
//
// Factors in shared memory are lines of 128 bytes whose chunks of 16 bytes are permuted as SharedRows does it, which is the
// hardware's swizzle of 128 bytes where the address of the first is a multiple of 1024. A line is what a row (of the right
// factor: a column) has along the dimension that is added up over; of half precision it may also lie across, and be one step
// of that dimension with 64 rows.

#pragma once
#include "tensor_cores.cuh"

// What threads or cp.async have written to shared memory is there for products after this and a barrier.
__device__ inline void show_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Before the first product, and after their registers have been touched.
__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until all but the latest `Left` groups of products are done.
template <int Left>
__device__ inline void await_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Left) : "memory");
}

// A factor in shared memory. Where lines lie across, `next` is how many bytes behind each other blocks of 64 rows start.
__device__ inline unsigned long long product_factor(const void* first, int next = 0) {
    constexpr unsigned long long eight_lines = 1024 / 16, swizzle_of_128_bytes = 1;
    return (shared_address(first) & 0x3ffff) >> 4 | static_cast<unsigned long long>(next >> 4) << 16 | eight_lines << 32 |
           swizzle_of_128_bytes << 62;
}

// Registers of `sums[n]`, those of 8 columns, and of the next ones: the first two of a thread are neighbours in row lane / 4 of
// the 16 of its warp, the others are in the row 8 below.
#define SUMS_8(n) "+f"(sums[n][0]), "+f"(sums[n][1]), "+f"(sums[n][2]), "+f"(sums[n][3])
#define SUMS_32(n) SUMS_8(n), SUMS_8(n + 1), SUMS_8(n + 2), SUMS_8(n + 3)
#define SUMS_64 SUMS_32(0), SUMS_32(4)
#define SUMS_128 SUMS_64, SUMS_32(8), SUMS_32(12)
#define SUMS_192 SUMS_128, SUMS_32(16), SUMS_32(20)
// What comes behind so many columns' registers is numbered from half of them on.
#define NAMES_64 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_128 \
    NAMES_64 ", " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_192 \
    NAMES_128 ", " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"

#define ADD_PRODUCT(SHAPE, TYPES, NAMES, ADDS, OPERANDS) \
    "{\n.reg .pred adds;\nsetp.ne.b32 adds, " ADDS ", 0;\n" \
    "wgmma.mma_async.sync.aligned." SHAPE ".f32." TYPES " {" NAMES "}, " OPERANDS ";\n}"
#define PRODUCT_OF_FACTORS(COLUMNS, TYPES, OPERANDS, ADDS) \
    asm volatile(ADD_PRODUCT("m64n" #COLUMNS "k16", TYPES, NAMES_##COLUMNS, ADDS, OPERANDS) \
                 : SUMS_##COLUMNS \
                 : "l"(left), "l"(right), "n"(LeftAcross), "n"(RightAcross), "n"(Adds) \
                 : "memory")
#define PRODUCT_OF_ROWS(SHAPE, COLUMNS, TYPES, OPERANDS) \
    asm volatile(ADD_PRODUCT(SHAPE, TYPES, NAMES_##COLUMNS, "1", OPERANDS) \
                 : SUMS_##COLUMNS \
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "n"(RightAcross) \
                 : "memory")

template <class T>
constexpr bool is_half = false;
template <>
constexpr bool is_half<Half> = true;

// sums += left @ right for 16 steps of half precision; without `Adds`, sums = left @ right.
template <class T, bool LeftAcross, bool RightAcross, bool Adds = true, int Blocks>
__device__ inline void multiply_factors(float (&sums)[Blocks][4], unsigned long long left, unsigned long long right) {
    static_assert(Blocks == 8 || Blocks == 16 || Blocks == 24);
    constexpr bool half = is_half<T>;
    if constexpr (half && Blocks == 8) {
        PRODUCT_OF_FACTORS(64, "f16.f16", "%32, %33, adds, 1, 1, %34, %35", "%36");
    } else if constexpr (half && Blocks == 16) {
        PRODUCT_OF_FACTORS(128, "f16.f16", "%64, %65, adds, 1, 1, %66, %67", "%68");
    } else if constexpr (half) {
        PRODUCT_OF_FACTORS(192, "f16.f16", "%96, %97, adds, 1, 1, %98, %99", "%100");
    } else if constexpr (Blocks == 8) {
        PRODUCT_OF_FACTORS(64, "bf16.bf16", "%32, %33, adds, 1, 1, %34, %35", "%36");
    } else if constexpr (Blocks == 16) {
        PRODUCT_OF_FACTORS(128, "bf16.bf16", "%64, %65, adds, 1, 1, %66, %67", "%68");
    } else {
        PRODUCT_OF_FACTORS(192, "bf16.bf16", "%96, %97, adds, 1, 1, %98, %99", "%100");
    }
}

// sums += left @ right for 16 steps of half precision or 8 of TF32, where each warp has its 16 rows of the left factor in
// registers, as mma has them.
template <class T, int Blocks, bool RightAcross = false>
__device__ inline void multiply_rows(float (&sums)[Blocks][4], const unsigned int (&left)[4], unsigned long long right) {
    static_assert((Blocks == 8 || Blocks == 16) && !(RightAcross && sizeof(T) == 4));
    constexpr bool half = is_half<T>;
    if constexpr (sizeof(T) == 4 && Blocks == 8) {
        PRODUCT_OF_ROWS("m64n64k8", 64, "tf32.tf32", "{%32, %33, %34, %35}, %36, adds, 1, 1");
    } else if constexpr (sizeof(T) == 4) {
        PRODUCT_OF_ROWS("m64n128k8", 128, "tf32.tf32", "{%64, %65, %66, %67}, %68, adds, 1, 1");
    } else if constexpr (half && Blocks == 8) {
        PRODUCT_OF_ROWS("m64n64k16", 64, "f16.f16", "{%32, %33, %34, %35}, %36, adds, 1, 1, %37");
    } else if constexpr (half) {
        PRODUCT_OF_ROWS("m64n128k16", 128, "f16.f16", "{%64, %65, %66, %67}, %68, adds, 1, 1, %69");
    } else if constexpr (Blocks == 8) {
        PRODUCT_OF_ROWS("m64n64k16", 64, "bf16.bf16", "{%32, %33, %34, %35}, %36, adds, 1, 1, %37");
    } else {
        PRODUCT_OF_ROWS("m64n128k16", 128, "bf16.bf16", "{%64, %65, %66, %67}, %68, adds, 1, 1, %69");
    }
}

#undef PRODUCT_OF_ROWS
#undef PRODUCT_OF_FACTORS
#undef ADD_PRODUCT
#undef NAMES_192
#undef NAMES_128
#undef NAMES_64
#undef SUMS_192
#undef SUMS_128
#undef SUMS_64
#undef SUMS_32
#undef SUMS_8

// Four matrices of 8 x 8 elements of half precision to rows in shared memory, of which each thread names one; `Across` for
// their columns.
template <bool Across>
__device__ inline void store_matrices(void* row, const unsigned int (&from)[4]) {
    if constexpr (Across) {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
                     "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
                     : "memory");
    } else {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
                     "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
                     : "memory");
    }
}
