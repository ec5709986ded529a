// Products of integer matrices: C[b] = A[b] @ B[b] (bools: any of the ands), accumulated in 64 bits.
//
// Any strides. A block computes a tile of 16 x 16 of C; tiles of A and B go through shared memory, so that each
// element is read from global memory once per 16 rows or columns. cuBLAS has no product of 64-bit integers.

#pragma once
#include "elements.cuh"

struct MatrixStrides {
    long long batch, row, column;
};

template <class T>
__device__ inline void integer_product(
    long long m, long long n, long long k, MatrixStrides ca, MatrixStrides cb, MatrixStrides cc, const T* a, const T* b,
    T* c) {
    constexpr int Tile = 16;
    __shared__ long long left[Tile][Tile + 1], right[Tile][Tile + 1];
    a += blockIdx.z * ca.batch;
    b += blockIdx.z * cb.batch;
    c += blockIdx.z * cc.batch;
    const int x = threadIdx.x, y = threadIdx.y;
    for (long long top = static_cast<long long>(blockIdx.y) * Tile; top < m; top += static_cast<long long>(gridDim.y) * Tile) {
        const long long row = top + y, column = static_cast<long long>(blockIdx.x) * Tile + x;
        unsigned long long sum = 0;
        for (long long start = 0; start < k; start += Tile) {
            left[y][x] = row < m && start + x < k ? static_cast<long long>(a[row * ca.row + (start + x) * ca.column]) : 0;
            right[y][x] =
                column < n && start + y < k ? static_cast<long long>(b[(start + y) * cb.row + column * cb.column]) : 0;
            __syncthreads();
#pragma unroll
            for (int i = 0; i < Tile; ++i) {
                sum += static_cast<unsigned long long>(left[y][i]) * static_cast<unsigned long long>(right[i][x]);
            }
            __syncthreads();
        }
        if (row < m && column < n) c[row * cc.row + column * cc.column] = to_element<T>(static_cast<long long>(sum));
    }
}
