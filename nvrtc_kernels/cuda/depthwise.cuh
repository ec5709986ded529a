// Convolutions of planes in row-major order where every channel has filters of its own, with kernels of a few elements.
//
//   depthwise_strips         A thread has a strip of `Rows` rows of `Width` neighbouring results, which it writes a row at a
//                            time. It goes over the rows of the image that they see, each of which it reads once, in accesses
//                            as wide as the strip, and adds up all results meanwhile. The gradient of the image is such a
//                            convolution too where windows are next to each other, with the weight turned round.
//   depthwise_weight_strips  The gradient of the weight: a block has a filter and some of the strips of all items, whose
//                            products its threads add up for all elements of the kernel at once; sum_strips adds up blocks.

#pragma once
#include "divisor.cuh"
#include "rows.cuh"

// What is known when kernels are compiled: of height and width.
template <int KernelY, int KernelX, int StrideY, int StrideX, int DilationY, int DilationX, int PaddingY, int PaddingX,
          int Rows, int Width, int Multiplier>
struct Strip {
    static constexpr int kernel_y = KernelY, kernel_x = KernelX, stride_y = StrideY, stride_x = StrideX;
    static constexpr int dilation_y = DilationY, dilation_x = DilationX, padding_y = PaddingY, padding_x = PaddingX;
    static constexpr int rows = Rows, width = Width, multiplier = Multiplier, elements = KernelY * KernelX;
    // Of the image, as a strip sees it.
    static constexpr int seen_rows = (Rows - 1) * StrideY + (KernelY - 1) * DilationY + 1;
    static constexpr int seen = (Width - 1) * StrideX + (KernelX - 1) * DilationX + 1;
};

struct Planes {
    Divisor<unsigned int> strips, groups, filters;  // strips of a row, groups of rows, and filters
    unsigned int count;                             // strips of all planes, or of a filter
    int height, width, out_height, out_width;

    // Where a strip begins, and its plane.
    __device__ unsigned int find(unsigned int i, int& y, int& x) const {
        const unsigned int row = quotient(strips, i), plane = quotient(groups, row);
        x = i - row * strips.size;
        y = row - plane * groups.size;
        return plane;
    }
};

__host__ __device__ constexpr int floor_quotient(int n, int by) { return n >= 0 ? n / by : -((by - 1 - n) / by); }

// What a strip sees of a row of the image: element i is `first` + i of the row, where `first` is `begin - S::padding_x` and
// `begin` a multiple of the width of accesses, as the length of rows is. Elements outside are 0.
template <class S, class Sum, class T>
__device__ inline void read_row(const T* row, int begin, int length, Sum (&to)[S::seen]) {
    constexpr int width = S::width, lowest = floor_quotient(-S::padding_x, width),
                  highest = floor_quotient(S::seen - 1 - S::padding_x, width);
#pragma unroll
    for (int chunk = lowest; chunk <= highest; ++chunk) {
        const int offset = chunk * width + S::padding_x;  // of the chunk from `first`
        const int from = offset < 0 ? -offset : 0, end = S::seen - offset < width ? S::seen - offset : width;
        const int at = begin + chunk * width;
        const bool inside = static_cast<unsigned>(at) < static_cast<unsigned>(length);
        if (end - from == 1) {
            to[offset + from] = inside ? Sum(to_compute(row[at + from])) : Sum(0);
        } else {
            Pack<T, width> pack;
            if (inside) pack = *reinterpret_cast<const Pack<T, width>*>(row + at);
#pragma unroll
            for (int j = 0; j < width; ++j)
                if (j >= from && j < end) to[offset + j] = inside ? Sum(to_compute(pack.items[j])) : Sum(0);
        }
    }
}

// `each(row, column, element, seen)` for every result of the strip at (y, x) and every element of the kernel, with what that sees.
template <class S, class Sum, class T, class Each>
__device__ inline void over_strip(const Planes& p, const T* plane, int y, int x, const Each& each) {
#pragma unroll
    for (int r = 0; r < S::seen_rows; ++r) {
        const int row = y * S::stride_y - S::padding_y + r;
        if (static_cast<unsigned>(row) >= static_cast<unsigned>(p.height)) continue;
        Sum seen[S::seen];
        read_row<S>(plane + static_cast<long long>(row) * p.width, x * S::stride_x, p.width, seen);
#pragma unroll
        for (int o = 0; o < S::rows; ++o) {
#pragma unroll
            for (int ky = 0; ky < S::kernel_y; ++ky) {
                if (o * S::stride_y + ky * S::dilation_y != r) continue;
#pragma unroll
                for (int kx = 0; kx < S::kernel_x; ++kx)
#pragma unroll
                    for (int j = 0; j < S::width; ++j)
                        each(o, j, ky * S::kernel_x + kx, seen[j * S::stride_x + kx * S::dilation_x]);
            }
        }
    }
}

template <class S, bool Turned, class Sum, class T>
__device__ void depthwise_strips(const Planes& p, const T* image, const T* weight, const T* bias, int bias_step, T* out) {
    const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.count) return;
    int y, x;
    const unsigned int plane = p.find(i, y, x), filter = plane - quotient(p.filters, plane) * p.filters.size;
    x *= S::width;
    y *= S::rows;
    image += static_cast<long long>(plane / S::multiplier) * p.height * p.width;
    weight += filter * S::elements;
    Sum factors[S::elements];
#pragma unroll
    for (int k = 0; k < S::elements; ++k) factors[k] = Sum(to_compute(weight[Turned ? S::elements - 1 - k : k]));
    const Sum added = bias == nullptr ? Sum(0) : Sum(to_compute(bias[static_cast<long long>(filter) * bias_step]));
    Sum sums[S::rows][S::width];
#pragma unroll
    for (int j = 0; j < S::rows * S::width; ++j) sums[j / S::width][j % S::width] = added;
    over_strip<S, Sum>(p, image, y, x, [&](int o, int j, int element, Sum seen) {
        sums[o][j] += seen * factors[element];
    });
    out += (static_cast<long long>(plane) * p.out_height + y) * p.out_width + x;
#pragma unroll
    for (int o = 0; o < S::rows; ++o) {
        if (y + o >= p.out_height) break;
        Pack<T, S::width> pack;
#pragma unroll
        for (int j = 0; j < S::width; ++j) pack.items[j] = to_element<T>(sums[o][j]);
        *reinterpret_cast<Pack<T, S::width>*>(out + static_cast<long long>(o) * p.out_width) = pack;
    }
}

// `parts` is (block, filter, element), of gridDim.y blocks, each with `per_block` strips of the filter.
template <class S, int Threads, class Sum, class T>
__device__ void depthwise_weight_strips(
    const Planes& p, unsigned int per_block, const T* image, const T* grad, Sum* parts) {
    __shared__ Sum of_warps[Threads / 32][S::elements];
    const unsigned int filter = blockIdx.x, first = blockIdx.y * per_block;
    const unsigned int end = per_block < p.count - first ? first + per_block : p.count;
    Sum sums[S::elements];
#pragma unroll
    for (int k = 0; k < S::elements; ++k) sums[k] = Sum(0);
    for (unsigned int i = first + threadIdx.x; i < end; i += Threads) {
        int y, x;
        const unsigned int item = p.find(i, y, x);
        const long long plane = static_cast<long long>(item) * p.filters.size + filter;
        x *= S::width;
        y *= S::rows;
        const T* own = grad + (plane * p.out_height + y) * p.out_width + x;
        Sum gradients[S::rows][S::width];
#pragma unroll
        for (int o = 0; o < S::rows; ++o) {
            Pack<T, S::width> pack;
            const bool inside = y + o < p.out_height;
            if (inside) pack = *reinterpret_cast<const Pack<T, S::width>*>(own + static_cast<long long>(o) * p.out_width);
#pragma unroll
            for (int j = 0; j < S::width; ++j) gradients[o][j] = inside ? Sum(to_compute(pack.items[j])) : Sum(0);
        }
        const T* seen_plane = image + plane / S::multiplier * p.height * p.width;
        over_strip<S, Sum>(p, seen_plane, y, x, [&](int o, int j, int element, Sum seen) {
            sums[element] += seen * gradients[o][j];
        });
    }
#pragma unroll
    for (int k = 0; k < S::elements; ++k) {
#pragma unroll
        for (int by = 16; by; by /= 2) sums[k] += __shfl_down_sync(~0u, sums[k], by);
        if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32][k] = sums[k];
    }
    __syncthreads();
    for (int k = threadIdx.x; k < S::elements; k += Threads) {
        Sum sum(0);
        for (int warp = 0; warp < Threads / 32; ++warp) sum += of_warps[warp][k];
        parts[(static_cast<long long>(blockIdx.y) * gridDim.x + filter) * S::elements + k] = sum;
    }
}

template <class Sum, class T>
__device__ void sum_strips(int count, int blocks, const Sum* parts, T* weight) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    Sum sum(0);
    for (int block = 0; block < blocks; ++block) sum += parts[static_cast<long long>(block) * count + i];
    weight[i] = to_element<T>(sum);
}
