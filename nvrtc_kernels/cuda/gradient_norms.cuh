// Norm of the elements of many tensors, as if they were one vector.
//
// Two kernels: `squares_of_tensors` adds the squares of a chunk of one tensor in each block, for up to
// `Tensors` tensors in one launch (see `Table`), and leaves a partial sum for each chunk; `norm_of_partials`
// adds these up in one block and takes the root. Every sum is taken in an order that depends on the sizes alone,
// and as a tree, so that results are the same in every run and lose little. Half precision is squared in float.
// All gradients are read once, and nothing as large as they are is written.

#pragma once

#include "optimizer_steps.cuh"

template <class W>
__device__ inline W sum_of_block(W x) {
    __shared__ W of_warp[32];
#pragma unroll
    for (int by = 16; by; by /= 2) x += __shfl_down_sync(~0u, x, by);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
    __syncthreads();
    x = threadIdx.x < blockDim.x / 32 ? of_warp[threadIdx.x] : W(0);
    if (threadIdx.x < 32) {
#pragma unroll
        for (int by = 16; by; by /= 2) x += __shfl_down_sync(~0u, x, by);
    }
    return x;  // of thread 0
}

template <class T, int Chunk, int Width, class W, int Tensors>
__device__ inline void squares_of_tensors(const Table<1, Tensors>& table, unsigned int tensors, W* partial) {
    const unsigned int mine = tensor_of_block(table, tensors);
    const long long start = static_cast<long long>(blockIdx.x - table.first[mine]) * Chunk;
    const long long left = table.count[mine] - start;
    const T* elements = static_cast<const T*>(table.address[mine][0]) + start;
    W sum = 0;
    if (left >= Chunk && reinterpret_cast<unsigned long long>(elements) % (sizeof(T) * Width) == 0) {
        constexpr int packs = Chunk / Width;
#pragma unroll 4
        for (int at = threadIdx.x; at < packs; at += blockDim.x) {
            const Pack<T, Width> pack = reinterpret_cast<const Pack<T, Width>*>(elements)[at];
#pragma unroll
            for (int i = 0; i < Width; ++i) {
                const W x = to_compute(pack.item[i]);
                sum += x * x;
            }
        }
    } else {
        const int end = left < Chunk ? static_cast<int>(left) : Chunk;
        for (int at = threadIdx.x; at < end; at += blockDim.x) {
            const W x = to_compute(elements[at]);
            sum += x * x;
        }
    }
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__device__ inline float root(float x) { return sqrtf(x); }
__device__ inline double root(double x) { return sqrt(x); }

template <class W>
__device__ inline void norm_of_partials(const W* partial, long long count, W* norm) {
    W sum = 0;
    for (long long at = threadIdx.x; at < count; at += blockDim.x) sum += partial[at];
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) *norm = root(sum);
}
