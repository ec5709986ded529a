// Products of half precision, and of float32 rounded to TF32, on tensor cores, and how their operands come to shared memory
// and to registers: compute capability 8.0 and later. Fragments lie as the PTX documentation says ("Matrix fragments for
// mma.m16n8k16", and for mma.m16n8k8 of TF32, whose operands are as many bytes).

#pragma once
#include "elements.cuh"
#include "rows.cuh"

__device__ inline unsigned int shared_address(const void* pointer) {
    return static_cast<unsigned int>(__cvta_generic_to_shared(pointer));
}

// 4, 8 or 16 bytes from global to shared memory, asynchronously; zeros where `there` is false, and nothing is read. 16 bytes go
// past level 1 unless they are `ReadAgain`.
template <int Bytes, bool ReadAgain = false>
__device__ inline void copy_async(void* to, const void* from, bool there) {
    const int bytes = there ? Bytes : 0;
    if constexpr (Bytes == 16 && !ReadAgain) {
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

// 16 aligned bytes to shared memory by one instruction, as which the compiler does not always see them.
__device__ inline void store_words(void* to, unsigned int a, unsigned int b, unsigned int c, unsigned int d) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(to)), "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
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

// c += a @ b of 16 x 16 by 16 x 8; of float32, whose lowest 13 bits are ignored, of 16 x 8 by 8 x 8.
template <class T>
__device__ void multiply_add(float (&c)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1);
template <>
__device__ inline void multiply_add<Half>(
    float (&c)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ inline void multiply_add<BFloat16>(
    float (&c)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ inline void multiply_add<float>(
    float (&c)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A register of a fragment as tensor cores are to see it: float32 to the nearest TF32.
template <class T>
__device__ inline void round_operands(unsigned int (&fragment)[4]) {
    if constexpr (sizeof(T) == 4) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(fragment[i]) : "f"(__uint_as_float(fragment[i])));
    }
}

// Two numbers as a register of a fragment, the first one in the lower half.
template <class T>
__device__ unsigned int packed(float first, float second);
template <>
__device__ inline unsigned int packed<Half>(float first, float second) {
    unsigned int result;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(second), "f"(first));
    return result;
}
template <>
__device__ inline unsigned int packed<BFloat16>(float first, float second) {
    unsigned int result;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(second), "f"(first));
    return result;
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

// `Rows` rows of a matrix of half precision, from `first` on, to shared memory, by a block of so many threads: `Piece` elements at
// a time, zeros behind row `end` and behind the width. A single element is no asynchronous copy's.
template <int Rows, int Piece, int Threads, class T, class Tile>
__device__ inline void fetch_rows(
    const Tile& to, const T* from, long long row_stride, long long first, long long end, int width) {
    constexpr int per_chunk = Tile::per_chunk, pieces = Tile::chunks * per_chunk / Piece;
#pragma unroll 8
    for (int i = threadIdx.x; i < Rows * pieces; i += Threads) {
        const int row = i / pieces, column = i % pieces * Piece;
        const bool there = first + row < end && column < width;
        T* const slot = to.at(row, column / per_chunk) + column % per_chunk;
        const T* const element = there ? from + (first + row) * row_stride + column : from;
        if constexpr (Piece == 1) {
            *slot = there ? *element : to_element<T>(0.0f);
        } else {
            copy_async<Piece * sizeof(T)>(slot, element, there);
        }
    }
}

// to += left @ right^T for `Groups` times 16 rows of `left` from row `first` on, and `Blocks` times 8 rows of `right`.
template <class T, int Width, int Groups, int Blocks>
__device__ inline void accumulate_rows(
    float (&to)[Groups][Blocks][4], const SharedRows<T, Width>& left, int first, const SharedRows<T, Width>& right) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < SharedRows<T, Width>::chunks / 2; ++k) {
        unsigned int a[Groups][4];
#pragma unroll
        for (int g = 0; g < Groups; ++g) {
            load_matrices(a[g], left.at(first + g * 16 + lane % 16, k * 2 + lane / 16));
            round_operands<T>(a[g]);
        }
#pragma unroll
        for (int n = 0; n < Blocks; n += 2) {
            unsigned int b[4];
            load_matrices(b, right.at(n * 8 + lane % 8 + lane / 16 * 8, k * 2 + lane / 8 % 2));
            round_operands<T>(b);
#pragma unroll
            for (int g = 0; g < Groups; ++g) {
                multiply_add<T>(to[g][n], a[g], b[0], b[1]);
                multiply_add<T>(to[g][n + 1], a[g], b[2], b[3]);
            }
        }
    }
}

// The fragments of a left operand, 16 columns of a matrix from `column` on, and of a right one, which lie the other way
// round: its 16 columns are two blocks. Each takes the rows of one multiply_add from `row` on: 16, or 8 of float32, which
// no instruction transposes. There a thread has neighbouring rows, in both operands, so that the banks differ.
template <class T, int Width>
__device__ inline void load_columns(
    unsigned int (&to)[4], const SharedRows<T, Width>& from, int row, int column, bool left) {
    const int lane = threadIdx.x % 32;
    if constexpr (sizeof(T) == 2) {
        const int down = left ? lane / 16 * 8 : lane / 8 % 2 * 8, aside = left ? lane / 8 % 2 : lane / 16;
        load_transposed(to, from.at(row + lane % 8 + down, column / 8 + aside));
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int down = left ? i / 2 : i % 2, at = column + lane / 4 + (left ? i % 2 : i / 2) * 8;
            to[i] = __float_as_uint(from.at(row + lane % 4 * 2 + down, at / 4)[at % 4]);
        }
        round_operands<T>(to);
    }
}

// to += left^T @ right for the rows of one multiply_add from `row` on: `Groups` times 16 columns of `left` from `first` on, and
// `Blocks` times 8 of `right` from `second` on.
template <class T, int Left, int Right, int Groups, int Blocks>
__device__ inline void accumulate_columns(
    float (&to)[Groups][Blocks][4], const SharedRows<T, Left>& left, int first, const SharedRows<T, Right>& right,
    int second, int row) {
    unsigned int a[Groups][4];
#pragma unroll
    for (int g = 0; g < Groups; ++g) load_columns(a[g], left, row, first + g * 16, true);
#pragma unroll
    for (int n = 0; n < Blocks; n += 2) {
        unsigned int b[4];
        load_columns(b, right, row, second + n * 8, false);
#pragma unroll
        for (int g = 0; g < Groups; ++g) {
            multiply_add<T>(to[g][n], a[g], b[0], b[1]);
            multiply_add<T>(to[g][n + 1], a[g], b[2], b[3]);
        }
    }
}
