// Gradients of weights by products of warpgroups, of images whose channels are neighbours.
//
// A block has 64 or 128 filters and up to three times 64 channels: those of each of three neighbouring elements of the kernel,
// which see nearly the same part of the image, or of one. It goes over part of the windows, 128 bytes of them at a time. Where a
// window's elements and its gradient are is found by one thread for all, a tile before they are fetched; tiles come two
// ahead, while the product of the one before goes on. Parts are added up by sum_weight_parts, always in the same order.
//
//   convolve_weight_by_warpgroups  Of half precision: a warpgroup has 64 filters and all channels. Windows are lines of channels
//                                  that lie across, and those of the gradient too, or else lines of its filters are windows.
//   convolve_tf32_weight           Nothing transposes float32, so a warpgroup has 64 channels of all filters, and takes them
//                                  to registers. Filters of the gradient are lines of windows, whose elements are rounded to
//                                  TF32 by the threads that have fetched them.

#pragma once
#include "implicit_convolution.cuh"
#include "warpgroup_products.cuh"

// Offsets in the image of what a window sees with each element, and of its gradient; negative where there is nothing.
struct alignas(16) WindowOffsets {
    int seen[3], result;
};

// Blocks of a grid are filters, then channels, then elements; and parts of the windows, of which this is one.
struct WeightPart {
    int first_filter, first_channel, first_element, first, end;

    __device__ WeightPart(const Convolution& c, int per_part, int filters, int channels, int elements) {
        const int tiles = (c.filters + filters - 1) / filters, tiles_of_channels = (c.channels + channels - 1) / channels;
        first_filter = blockIdx.x % tiles * filters;
        first_channel = blockIdx.x / tiles % tiles_of_channels * channels;
        first_element = blockIdx.x / tiles / tiles_of_channels * elements;
        first = blockIdx.y * per_part;
        end = per_part < c.windows - first ? first + per_part : c.windows;
    }
    template <int Elements>
    __device__ WindowOffsets find(const Convolution& c, int window) const {
        int at[4];
        c.find(window, at);
        // Whole, as it is read.
        WindowOffsets offsets{{-1, -1, -1}, -1};
#pragma unroll
        for (int e = 0; e < Elements; ++e) {
            const int element = first_element + e, kx = element % c.kernel[2], row = element / c.kernel[2];
            const int seen = c.seen(at, row / c.kernel[1], row % c.kernel[1], kx);
            if (window < end && element < c.elements) offsets.seen[e] = seen;
        }
        if (window < end) offsets.result = c.result(at);
        return offsets;
    }
    // Where a block's sums go: parts is (part, group, element, filter, channel).
    __device__ float* sums_of(const Convolution& c, float* parts, int element) const {
        const long long of_groups = static_cast<long long>(blockIdx.y) * gridDim.z + blockIdx.z;
        return parts + (of_groups * c.elements + element) * c.filters * c.channels;
    }
};

// A part has `per_part` windows, a multiple of 64. `GradTogether`: whether the channels of the gradient are neighbours;
// else its windows are, in whole chunks of an item.
template <class T, int Filters, int Elements, int Channels, bool GradTogether>
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
    const WeightPart part(c, per_part, Filters, Channels, Elements);
    const int steps = (part.end - part.first + depth - 1) / depth;
    const int own_line = threadIdx.x / chunks, own_chunk = threadIdx.x % chunks;

    image += static_cast<long long>(group) * c.channels * c.channel;
    grad += static_cast<long long>(group) * c.filters * c.out_channel;
    // Blocks of 64 filters, then of 64 columns.
    const auto tile = [&](int step, int block) { return Tile{memory + step % stages * stage + block * depth * line}; };
    const auto find = [&](int step) {
        if (step < steps && threadIdx.x < depth)
            offsets[step % stages * depth + threadIdx.x] =
                part.find<Elements>(c, part.first + step * depth + threadIdx.x);
    };
    const auto fetch = [&](int step) {
        if (step < steps) {
#pragma unroll
            for (int i = 0; i < depth / lines_at_once; ++i) {
                const int row = own_line + i * lines_at_once;
                const WindowOffsets each = offsets[step % stages * depth + row];
                if constexpr (GradTogether) {
#pragma unroll
                    for (int b = 0; b < Filters / line; ++b) {
                        const int filter = part.first_filter + b * line + own_chunk * per_chunk;
                        const bool there = each.result >= 0 && filter < c.filters;
                        copy_async<16>(tile(step, b).at(row, own_chunk), grad + (there ? each.result + filter : 0), there);
                    }
                }
#pragma unroll
                for (int b = 0; b < column_blocks; ++b) {
                    const int channel = part.first_channel + (Elements > 1 ? 0 : b * line) + own_chunk * per_chunk;
                    const int seen = each.seen[Elements > 1 ? b : 0];
                    const bool there = seen >= 0 && channel < c.channels;
                    copy_async<16, (Elements > 1)>(
                        tile(step, Filters / line + b).at(row, own_chunk), image + (there ? seen + channel : 0), there);
                }
            }
            if constexpr (!GradTogether) {
                const int result = offsets[step % stages * depth + own_chunk * per_chunk].result;
#pragma unroll
                for (int i = 0; i < Filters / lines_at_once; ++i) {
                    const int row = own_line + i * lines_at_once, filter = part.first_filter + row;
                    const bool there = result >= 0 && filter < c.filters;
                    copy_async<16>(
                        tile(step, row / line).at(row % line, own_chunk),
                        grad + (there ? static_cast<long long>(filter) * c.out_channel + result : 0), there);
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
        for (int k = 0; k < depth / 16; ++k)  // 16 lines, or chunks of two, of which addresses have sixteenths
            multiply_factors<T, GradTogether, true>(
                sums, left + k * (GradTogether ? 16 * chunks : 2), right + k * 16 * chunks);
        commit_products();
        fetch(step + stages - 2);
        find(step + stages - 1);
        await_products<0>();  // the assembler orders products one by one that go on beyond the branches of find
    }
    await_copies<0>();

#pragma unroll
    for (int n = 0; n < blocks; ++n) {
        const int element = part.first_element + (Elements > 1 ? n / 8 : 0);
        const int channel = part.first_channel + (Elements > 1 ? n % 8 : n) * 8 + lane % 4 * 2;
        if (element >= c.elements || channel >= c.channels) continue;
        float* const of_element = part.sums_of(c, parts, element);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int filter = part.first_filter + warp * 16 + r * 8 + lane / 4;
            // Channels are whole chunks.
            if (filter < c.filters)
                *reinterpret_cast<float2*>(of_element + static_cast<long long>(filter) * c.channels + channel) =
                    make_float2(sums[n][r * 2], sums[n][r * 2 + 1]);
        }
    }
}

// A part has `per_part` windows, a multiple of 32; those of the gradient are neighbours, in whole chunks of an item.
template <int Filters, int Elements, int Channels>
__device__ void convolve_tf32_weight(
    const Convolution& c, int per_part, const float* image, const float* grad, float* parts) {
    static_assert(Elements <= 3 && (Elements == 1 || Channels == 64));
    constexpr int line = 32, depth = 32, stages = 4, chunks = 8, per_chunk = 4, blocks = Filters / 8;
    constexpr int warpgroups = Elements * Channels / 64, threads = warpgroups * 128, lines_at_once = threads / chunks;
    constexpr int image_lines = warpgroups * 2 * depth, stage = (Filters + image_lines) * line;
    constexpr int grad_rows = (Filters + lines_at_once - 1) / lines_at_once;
    typedef SharedRows<float, line> Tile;
    extern __shared__ __align__(1024) uint4 swizzled_memory[];
    float* const memory = reinterpret_cast<float*>(swizzled_memory);
    WindowOffsets* const offsets = reinterpret_cast<WindowOffsets*>(memory + stages * stage);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = blockIdx.z;
    const WeightPart part(c, per_part, Filters, Channels, Elements);
    const int steps = (part.end - part.first + depth - 1) / depth;
    const int own_line = threadIdx.x / chunks, own_chunk = threadIdx.x % chunks;

    image += static_cast<long long>(group) * c.channels * c.channel;
    grad += static_cast<long long>(group) * c.filters * c.out_channel;
    const auto grads = [&](int step) { return Tile{memory + step % stages * stage}; };
    // Blocks of 32 channels, each of all windows. Four neighbouring windows of eight channels, which a warp reads together, are in
    // different banks.
    const auto images = [&](int step) { return memory + step % stages * stage + Filters * line; };
    const auto chunk_at = [](int window, int chunk) { return window * line + (chunk ^ window % 4 * 2) * per_chunk; };
    const auto find = [&](int step) {
        if (step < steps && threadIdx.x < depth)
            offsets[step % stages * depth + threadIdx.x] =
                part.find<Elements>(c, part.first + step * depth + threadIdx.x);
    };
    const auto fetch = [&](int step) {
        if (step < steps) {
            const WindowOffsets* const windows = offsets + step % stages * depth;
#pragma unroll
            for (int i = 0; i < image_lines / lines_at_once; ++i) {
                const int at = own_line + i * lines_at_once, window = at % depth, block = at / depth;
                const int channel =
                    part.first_channel + (Elements > 1 ? block % 2 : block) * line + own_chunk * per_chunk;
                const int seen = windows[window].seen[Elements > 1 ? block / 2 : 0];
                const bool there = seen >= 0 && channel < c.channels;
                copy_async<16, (Elements > 1)>(
                    images(step) + block * depth * line + chunk_at(window, own_chunk),
                    image + (there ? seen + channel : 0), there);
            }
            const int result = windows[own_chunk * per_chunk].result;
#pragma unroll
            for (int i = 0; i < grad_rows; ++i) {
                const int row = own_line + i * lines_at_once, filter = part.first_filter + row;
                const bool there = result >= 0 && filter < c.filters;
                if (Filters % lines_at_once == 0 || row < Filters)
                    copy_async<16>(
                        grads(step).at(row, own_chunk),
                        grad + (there ? static_cast<long long>(filter) * c.out_channel + result : 0), there);
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
    // Channels of a warp among those of its block.
    const int own_channel = warp % 2 * 16 + lane / 4;
    for (int step = 0; step < steps; ++step) {
        await_copies<stages - 3>();
#pragma unroll
        for (int i = 0; i < grad_rows; ++i) {
            const int row = own_line + i * lines_at_once;
            if (Filters % lines_at_once == 0 || row < Filters) {
                float* const own = grads(step).at(row, own_chunk);
                const uint4 words = *reinterpret_cast<const uint4*>(own);
                unsigned int rounded[4] = {words.x, words.y, words.z, words.w};
                round_operands<float>(rounded);
                store_words(own, rounded[0], rounded[1], rounded[2], rounded[3]);
            }
        }
        show_to_products();
        __syncthreads();  // this tile has arrived, and every warp is done with the one whose place the next one takes
        unsigned int left[depth / 8][4];
        const float* const block = images(step) + warp / 2 * depth * line;
#pragma unroll
        for (int k = 0; k < depth / 8; ++k) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int window = k * 8 + i / 2 * 4 + lane % 4, channel = own_channel + i % 2 * 8;
                left[k][i] = __float_as_uint(block[chunk_at(window, channel / 4) + channel % 4]);
            }
            round_operands<float>(left[k]);
        }
        const auto right = product_factor(grads(step).memory);
        begin_products();
#pragma unroll
        for (int k = 0; k < depth / 8; ++k) multiply_rows<float>(sums, left[k], right + k * 2);
        commit_products();
        fetch(step + stages - 2);
        find(step + stages - 1);
        await_products<0>();
    }
    await_copies<0>();

    const int element = part.first_element + (Elements > 1 ? warp / 4 : 0);
    const int first_channel = part.first_channel + (Elements > 1 ? warp % 4 / 2 : warp / 2) * line + own_channel;
    if (element >= c.elements) return;
    float* const of_element = part.sums_of(c, parts, element);
#pragma unroll
    for (int n = 0; n < blocks; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int filter = part.first_filter + n * 8 + lane % 4 * 2 + i % 2, channel = first_channel + i / 2 * 8;
            if (filter < c.filters && channel < c.channels)
                of_element[static_cast<long long>(filter) * c.channels + channel] = sums[n][i];
        }
    }
}
