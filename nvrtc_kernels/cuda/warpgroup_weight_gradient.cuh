// Gradients of weights of half precision by products of warpgroups, of images and gradients whose channels are neighbours.
//
// A block has 64 or 128 filters, each 64 of which are a warpgroup's, and up to three blocks of 64 columns: channels for each of
// three neighbouring elements of the kernel, which see nearly the same part of the image, or else channels alone. It goes over part of
// the windows, 64 at a time, which are lines that lie across for both factors. Where a window's elements and its gradient
// are is found by one thread for all, a tile before they are fetched; tiles come two ahead, while the product of the one before
// goes on. Parts are added up by sum_weight_parts, always in the same order.

#pragma once
#include "implicit_convolution.cuh"
#include "warpgroup_products.cuh"

// Offsets in the image of what a window sees with each element, and of its gradient; negative where there is nothing.
struct alignas(16) WindowOffsets {
    int seen[3], result;
};

// parts is (part, group, element, filter, channel); a part has `per_part` windows, a multiple of 64.
template <class T, int Filters, int Elements, int Channels>
__device__ void convolve_weight_by_warpgroups(
    const Convolution& c, int per_part, const T* image, const T* grad, float* parts) {
    static_assert(sizeof(T) == 2 && Elements <= 3 && (Elements == 1 || Channels == 64));
    constexpr int line = 64, depth = 64, stages = 4, threads = Filters * 2, chunks = 8, per_chunk = 8;
    constexpr int column_blocks = Elements * Channels / line, blocks = column_blocks * 8;
    constexpr int stage = depth * (Filters + column_blocks * line), lines_at_once = threads / chunks;
    typedef SharedRows<T, line> Tile;
    extern __shared__ __align__(1024) uint4 swizzled_memory[];
    T* const memory = reinterpret_cast<T*>(swizzled_memory);
    WindowOffsets* const offsets = reinterpret_cast<WindowOffsets*>(memory + stages * stage);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = blockIdx.z;
    const int tiles = (c.filters + Filters - 1) / Filters, tiles_of_channels = (c.channels + Channels - 1) / Channels;
    const int first_filter = blockIdx.x % tiles * Filters;
    const int first_channel = blockIdx.x / tiles % tiles_of_channels * Channels;
    const int first_element = blockIdx.x / tiles / tiles_of_channels * Elements;
    const int first = blockIdx.y * per_part;
    const int end = per_part < c.windows - first ? first + per_part : c.windows;
    const int steps = (end - first + depth - 1) / depth;
    const int own_line = threadIdx.x / chunks, own_chunk = threadIdx.x % chunks;

    image += static_cast<long long>(group) * c.channels * c.channel;
    grad += static_cast<long long>(group) * c.filters * c.out_channel;
    // Blocks of 64 filters, then of 64 columns.
    const auto tile = [&](int step, int block) { return Tile{memory + step % stages * stage + block * depth * line}; };
    const auto find = [&](int step) {
        if (step >= steps || threadIdx.x >= depth) return;
        int at[4];
        const int window = first + step * depth + threadIdx.x;
        c.find(window, at);
        WindowOffsets each;
#pragma unroll
        for (int e = 0; e < Elements; ++e) {
            const int element = first_element + e, kx = element % c.kernel[2], row = element / c.kernel[2];
            const int seen = c.seen(at, row / c.kernel[1], row % c.kernel[1], kx);
            each.seen[e] = window < end && element < c.elements ? seen : -1;
        }
        each.result = window < end ? c.result(at) : -1;
        offsets[step % stages * depth + threadIdx.x] = each;
    };
    const auto fetch = [&](int step) {
        if (step < steps) {
#pragma unroll
            for (int i = 0; i < depth / lines_at_once; ++i) {
                const int row = own_line + i * lines_at_once;
                const WindowOffsets each = offsets[step % stages * depth + row];
#pragma unroll
                for (int b = 0; b < Filters / line; ++b) {
                    const int filter = first_filter + b * line + own_chunk * per_chunk;
                    const bool there = each.result >= 0 && filter < c.filters;
                    copy_async<16>(tile(step, b).at(row, own_chunk), grad + (there ? each.result + filter : 0), there);
                }
#pragma unroll
                for (int b = 0; b < column_blocks; ++b) {
                    const int channel = first_channel + (Elements > 1 ? 0 : b * line) + own_chunk * per_chunk;
                    const int seen = each.seen[Elements > 1 ? b : 0];
                    const bool there = seen >= 0 && channel < c.channels;
                    copy_async<16, (Elements > 1)>(
                        tile(step, Filters / line + b).at(row, own_chunk), image + (there ? seen + channel : 0), there);
                }
            }
        }
        commit_copies();
    };
#pragma unroll
    for (int step = 0; step < stages - 1; ++step) find(step);
    __syncthreads();
#pragma unroll
    for (int step = 0; step < stages - 2; ++step) fetch(step);

    float sums[blocks][4];
#pragma unroll
    for (int i = 0; i < blocks * 4; ++i) sums[i / 4][i % 4] = 0;
    for (int step = 0; step < steps; ++step) {
        await_copies<stages - 3>();
        show_to_products();
        __syncthreads();  // this tile has arrived, and every warp is done with the one whose place the next one takes
        const auto left = product_factor(tile(step, warp / 4).memory);
        const auto right = product_factor(tile(step, Filters / line).memory, depth * line * sizeof(T));
        begin_products();
#pragma unroll
        for (int k = 0; k < depth / 16; ++k)  // 16 lines, of which addresses have sixteenths
            multiply_factors<T, true, true>(sums, left + k * 16 * chunks, right + k * 16 * chunks);
        commit_products();
        fetch(step + stages - 2);
        find(step + stages - 1);
        await_products<1>();
    }
    await_products<0>();
    await_copies<0>();

    const long long of_groups = static_cast<long long>(blockIdx.y) * gridDim.z + group;
#pragma unroll
    for (int n = 0; n < blocks; ++n) {
        const int element = first_element + (Elements > 1 ? n / 8 : 0);
        const int channel = first_channel + (Elements > 1 ? n % 8 : n) * 8 + lane % 4 * 2;
        if (element >= c.elements || channel >= c.channels) continue;
        float* const of_element = parts + (of_groups * c.elements + element) * c.filters * c.channels;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int filter = first_filter + warp * 16 + r * 8 + lane / 4;
            // Channels are whole chunks.
            if (filter < c.filters)
                *reinterpret_cast<float2*>(of_element + static_cast<long long>(filter) * c.channels + channel) =
                    make_float2(sums[n][r * 2], sums[n][r * 2 + 1]);
        }
    }
}
