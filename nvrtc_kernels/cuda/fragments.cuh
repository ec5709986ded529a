// Fragments of operands that products share: 16-bit numbers as they are, float32 as TF32, or as the sum of two numbers of
// TF32, whose products together have nearly float32's error (H. Ootomo and R. Yokota, "Recovering single precision accuracy from
// tensor cores", 2022).

#pragma once
#include "tensor_cores.cuh"

__device__ inline unsigned int nearest_tf32(float x) {
    unsigned int result;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(x));
    return result;
}

// The operand of one multiply_add in `Parts` parts, the largest first.
template <class T, int Parts>
struct Fragment {
    static_assert(Parts == 1 || (Parts == 2 && sizeof(T) == 4), "only float32 has a rest");
    unsigned int parts[Parts][4];

    __device__ void take(const unsigned int (&bits)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if constexpr (sizeof(T) == 2) {
                parts[0][i] = bits[i];
            } else {
                const float x = __uint_as_float(bits[i]);
                parts[0][i] = nearest_tf32(x);
                if constexpr (Parts == 2) parts[1][i] = nearest_tf32(x - __uint_as_float(parts[0][i]));
            }
        }
    }
};

// Two neighbouring blocks += left @ right; small terms are added first.
template <class T, int Parts>
__device__ inline void multiply_fragments(
    float (&first)[4], float (&second)[4], const Fragment<T, Parts>& left, const Fragment<T, Parts>& right) {
    const auto add = [&](const unsigned int(&a)[4], const unsigned int(&b)[4]) {
        multiply_add<T>(first, a, b[0], b[1]);
        multiply_add<T>(second, a, b[2], b[3]);
    };
    if constexpr (Parts == 2) {
        add(left.parts[1], right.parts[0]);
        add(left.parts[0], right.parts[1]);
    }
    add(left.parts[0], right.parts[0]);
}

// The left operand of the next product from results of one as they lie in registers. Of float32 columns come in another
// order, in which multiply_results takes rows of the right operand.
template <class T, int Parts, int Blocks>
__device__ inline void take_results(Fragment<T, Parts>& to, const float (&from)[Blocks][4], int step) {
    if constexpr (sizeof(T) == 2) {
        const float(&even)[4] = from[2 * step], (&odd)[4] = from[2 * step + 1];
        to.take({packed<T>(even[0], even[1]), packed<T>(even[2], even[3]), packed<T>(odd[0], odd[1]), packed<T>(odd[2], odd[3])});
    } else {
        const float(&block)[4] = from[step];
        to.take({__float_as_uint(block[0]), __float_as_uint(block[2]), __float_as_uint(block[1]), __float_as_uint(block[3])});
    }
}

// A lane's own row and chunk of what it reads of shared rows: others lie at distances that are the same for all lanes but for
// the permutation of chunks.
template <class T, int Width>
struct LaneRows {
    unsigned int row_address, own_chunk;

    __device__ LaneRows(const SharedRows<T, Width>& rows, int row, int chunk)
        : row_address(shared_address(rows.memory) + row * Width * sizeof(T)),
          own_chunk((rows.at(row, chunk) - rows.memory - row * Width) * sizeof(T)) {}

    // `down` rows, a multiple of 8, and `aside` chunks, an even number, from the own ones.
    __device__ unsigned int at(int down, int aside) const {
        return row_address + (own_chunk ^ aside % 8 * 16) + down * Width * sizeof(T) + aside / 8 * 128;
    }
};

__device__ inline void load_matrices(unsigned int (&to)[4], unsigned int address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}
__device__ inline void load_transposed(unsigned int (&to)[4], unsigned int address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

// `Groups` times 16 rows in shared memory that are the left operand of many products: the first `Held` fragments of each stay in
// registers.
template <class T, int Width, int Parts, int Groups, int Held>
struct LeftRows {
    static constexpr int steps = Width * sizeof(T) / 32;
    LaneRows<T, Width> rows;
    Fragment<T, Parts> held[Groups][Held > 0 ? Held : 1];

    __device__ LeftRows(const SharedRows<T, Width>& from, int first)
        : rows(from, first + threadIdx.x % 16, threadIdx.x % 32 / 16) {}

    // Once the rows have arrived.
    __device__ void hold() {
#pragma unroll
        for (int g = 0; g < Groups; ++g) {
#pragma unroll
            for (int step = 0; step < Held; ++step) read(held[g][step], g, step);
        }
    }
    __device__ void load(Fragment<T, Parts> (&to)[Groups], int step) const {
#pragma unroll
        for (int g = 0; g < Groups; ++g) {
            if (step < Held) {
                to[g] = held[g][step < Held ? step : 0];
            } else {
                read(to[g], g, step);
            }
        }
    }

private:
    __device__ void read(Fragment<T, Parts>& to, int g, int step) const {
        unsigned int bits[4];
        load_matrices(bits, rows.at(g * 16, step * 2));
        to.take(bits);
    }
};

// to = left @ right^T, for `Blocks` times 8 rows of `right` from `row` on.
template <class T, int Width, int Parts, int Groups, int Held, int Blocks>
__device__ inline void multiply_rows(
    float (&to)[Groups][Blocks][4], const LeftRows<T, Width, Parts, Groups, Held>& left, const SharedRows<T, Width>& right, int row) {
    const int lane = threadIdx.x % 32;
    const LaneRows<T, Width> rights(right, row + lane % 8 + lane / 16 * 8, lane / 8 % 2);
#pragma unroll
    for (int i = 0; i < Groups * Blocks * 4; ++i) to[i / 4 / Blocks][i / 4 % Blocks][i % 4] = 0;
#pragma unroll
    for (int k = 0; k < left.steps; ++k) {
        Fragment<T, Parts> a[Groups];
        left.load(a, k);
#pragma unroll
        for (int n = 0; n < Blocks; n += 2) {
            unsigned int bits[4];
            load_matrices(bits, rights.at(n * 8, k * 2));
            Fragment<T, Parts> b;
            b.take(bits);
#pragma unroll
            for (int g = 0; g < Groups; ++g) multiply_fragments(to[g][n], to[g][n + 1], a[g], b);
        }
    }
}

// to += left @ right, for as many rows of `right` from `row` on as `left` has columns: results of a product, rounded as operands
// are, are the left operand of the next one.
template <int Parts, class T, int Width, int Groups, int Blocks>
__device__ inline void multiply_results(
    float (&to)[Groups][Width / 8][4], const float (&left)[Groups][Blocks][4], const SharedRows<T, Width>& right, int row) {
    constexpr int deep = 32 / sizeof(T);
    const int lane = threadIdx.x % 32;
    const LaneRows<T, Width> rights(right, row + lane % 16, lane / 16);
#pragma unroll
    for (int k = 0; k < Blocks * 8 / deep; ++k) {
        Fragment<T, Parts> a[Groups];
#pragma unroll
        for (int g = 0; g < Groups; ++g) take_results(a[g], left[g], k);
#pragma unroll
        for (int i = 0; i < Width / 8; i += 2) {
            unsigned int bits[4];
            if constexpr (sizeof(T) == 2) {
                load_transposed(bits, rights.at(k * deep, i));
            } else {
                // No instruction transposes these: a thread has neighbouring rows, so that the banks differ.
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const int column = (i + j / 2) * 8 + lane / 4;
                    bits[j] = __float_as_uint(right.at(row + k * deep + lane % 4 * 2 + j % 2, column / 4)[column % 4]);
                }
            }
            Fragment<T, Parts> b;
            b.take(bits);
#pragma unroll
            for (int g = 0; g < Groups; ++g) multiply_fragments(to[g][i], to[g][i + 1], a[g], b);
        }
    }
}

// Both products of rows of the same numbers.
template <class T, int Width, int Parts, int Groups, int Held, int OtherHeld, int Blocks>
__device__ inline void multiply_two(
    float (&to)[Groups][Blocks][4], const LeftRows<T, Width, Parts, Groups, Held>& left, const SharedRows<T, Width>& right,
    float (&other_to)[Groups][Blocks][4], const LeftRows<T, Width, Parts, Groups, OtherHeld>& other_left,
    const SharedRows<T, Width>& other_right, int row) {
    multiply_rows(to, left, right, row);
    multiply_rows(other_to, other_left, other_right, row);
}
template <int Parts, class T, int Width, int Groups, int Blocks>
__device__ inline void multiply_two_results(
    float (&to)[Groups][Width / 8][4], const float (&left)[Groups][Blocks][4], const SharedRows<T, Width>& right,
    float (&other_to)[Groups][Width / 8][4], const float (&other_left)[Groups][Blocks][4],
    const SharedRows<T, Width>& other_right, int row) {
    multiply_results<Parts>(to, left, right, row);
    multiply_results<Parts>(other_to, other_left, other_right, row);
}
