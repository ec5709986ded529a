// Convolutions whose windows are two columns apart, of half precision, by products of warpgroups, where the channels of the
// image lie apart: the same sums as in warpgroup_convolution.cuh.
//
//   convolve_strided  A block has up to 192 windows and 64 or 128 filters of a group. It brings the rows of the image that its
//                     windows see to shared memory once, 32 channels at a time, while products of the 32 before go on. Threads
//                     read 16 bytes of a channel; a warp stores its 8 channels of 32 pixels as lines of pixels, transposed by
//                     `stmatrix`. Pixels in even columns lie behind each other, and those in odd ones, so that an element of
//                     the kernel sees neighbouring lines in neighbouring windows. From these each warp takes its windows' part
//                     of the left factor to registers by `ldmatrix`; what is outside of the image is a line of zeros.
//
// Two elements of the kernel, with 32 channels each, are a step, as their weights are lines of 128 bytes.

#pragma once
#include "warpgroup_convolution.cuh"

constexpr int STRIDED_CHANNELS = 32, STRIDED_LOADS = 4, STRIDED_FIRST_LOADS = 12;

// Rows of an image, those of all items numbered one after the other, as lines of pixels in shared memory: row `r` from the
// first one on has its even columns from line r * pitch on, and its odd ones from `odd` lines further on. `pieces`: how many
// pieces of 16 bytes of a channel a block may bring.
struct ImageRows {
    Divisor<unsigned int> width, area;
    int pitch, odd, lines, pieces;
};

// What an element of the kernel sees: how many lines behind the first one of a window; the bits of windows that see it.
struct alignas(8) SeenElement {
    int lines;
    unsigned int bits;
};

// The image's rows of a block, on their way to shared memory. Warps bring 8 channels of 4 pieces at a time; of all its turns a
// warp has the same channels.
template <class T, int Threads>
struct RowsOfBlock {
    static constexpr int per_piece = 16 / sizeof(T), together = 4, warps = Threads / 32;
    static constexpr int channel_groups = STRIDED_CHANNELS / 8, step = warps / channel_groups * together;
    static_assert(warps % channel_groups == 0);
    int first_row, first_piece, last_piece;
    int* offsets;           // in the image, by piece
    unsigned short* lines;  // by pixel; `nowhere` for what is not in these rows
    static constexpr unsigned short nowhere = 0xffff;

    __device__ static int row_of(const Convolution& c, int window, int element) {
        int at[4];
        c.find(window, at);
        const int row = c.start[1] + at[2] * c.step[1] + element * c.advance[1];
        return at[0] * c.size[1] + max(0, min(row, c.size[1] - 1));
    }
    // Pieces begin where lines of level 1 do, if images do.
    __device__ RowsOfBlock(const Convolution& c, const ImageRows& rows, int first, int last, int* offsets)
        : offsets(offsets), lines(reinterpret_cast<unsigned short*>(offsets + rows.pieces)) {
        first_row = row_of(c, first, 0);
        const int end = (row_of(c, last, c.kernel[1] - 1) + 1) * c.size[2], begin = first_row * c.size[2];
        first_piece = begin / per_piece / together * together;
        last_piece = (end - 1) / per_piece;
        for (int i = threadIdx.x; i < rows.pieces; i += Threads) {
            const int pixel = (first_piece + i) * per_piece, item = quotient(rows.area, pixel);
            const bool seen = pixel + per_piece > begin && pixel < end;
            offsets[i] = seen ? item * c.item + pixel - item * static_cast<int>(rows.area.size) : 0;
            for (int k = 0; k < per_piece; ++k) {
                const int row = quotient(rows.width, pixel + k), column = pixel + k - row * c.size[2];
                const int line = (row - first_row) * rows.pitch + column % 2 * rows.odd + column / 2;
                lines[i * per_piece + k] = pixel + k >= begin && pixel + k < end ? line : nowhere;
            }
        }
    }
    // The first piece of this thread's warp, and how many channels on this thread's one is.
    __device__ static int own_piece() { return threadIdx.x / 32 / channel_groups * together; }
    __device__ static int own_channel() { return threadIdx.x / 32 % channel_groups * 8 + threadIdx.x % 32 / 4; }

    // No branch is around a load, so that all are on their way together.
    __device__ uint4 load(const T* channel, int piece, bool there) const {
        const uint4 read = *reinterpret_cast<const uint4*>(channel + offsets[piece + threadIdx.x % 4]);
        return there ? read : make_uint4(0, 0, 0, 0);
    }
    // A register of the four threads with a channel has pixels 8 apart, which would meet in two banks: half of the threads
    // exchange theirs. `unused` are 16 bytes of this thread.
    __device__ void store(T* memory, int piece, const uint4& read, T* unused) const {
        const int lane = threadIdx.x % 32;
        const bool exchanged = lane % 4 >= 2;
        const unsigned int pixels[4] = {
            exchanged ? read.z : read.x, exchanged ? read.w : read.y, exchanged ? read.x : read.z,
            exchanged ? read.y : read.w};
        const int matrix = lane / 8, own = lane % 8 / 2, pair = matrix ^ (own >= 2 ? 2 : 0);
        const int line = lines[(piece + own) * per_piece + pair * 2 + lane % 2];
        T* const to = SharedRows<T, STRIDED_CHANNELS>{memory}.at(line, threadIdx.x / 32 % channel_groups);
        store_matrices<true>(line == nowhere ? unused : to, pixels);
    }
};

template <class T, int Rows, int Filters, bool OutTogether>
__device__ void convolve_strided(
    const Convolution& c, const ImageRows& rows, const T* image, const T* weight, const T* bias, T* out) {
    constexpr int depth = WARPGROUP_BYTES / sizeof(T), stages = WARPGROUP_STAGES, threads = Rows * 2;
    constexpr int per_chunk = 16 / sizeof(T), blocks = Filters / 8;
    typedef SharedRows<T, depth> Tile;
    extern __shared__ __align__(1024) uint4 swizzled_memory[];
    T* const memory = reinterpret_cast<T*>(swizzled_memory);
    T* const pixels = memory + stages * Filters * depth;
    T* const zeros = pixels + 2 * rows.lines * STRIDED_CHANNELS;
    T* const unused = zeros + STRIDED_CHANNELS;
    SeenElement* const elements = reinterpret_cast<SeenElement*>(unused + threads * per_chunk);
    int* const offsets = reinterpret_cast<int*>(elements + 32);
    int* const results = offsets + rows.pieces * (1 + per_chunk / 2);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = blockIdx.z;
    const int first = blockIdx.x * Rows, first_filter = blockIdx.y * Filters;
    const int count = c.kernel[1] * c.kernel[2], parts = (c.channels + STRIDED_CHANNELS - 1) / STRIDED_CHANNELS;
    const int all = count * parts, steps = (all + 1) / 2;

    image += static_cast<long long>(group) * c.channels * c.channel;
    weight += static_cast<long long>(group) * c.elements * c.filters * c.padded;
    const RowsOfBlock<T, threads> seen_rows(
        c, rows, first, min(first + Rows, c.windows) - 1, offsets);
    T* const own_unused = unused + threadIdx.x * per_chunk;
    const int own_channel = seen_rows.own_channel(), own_piece = seen_rows.own_piece();
    constexpr int step_pieces = RowsOfBlock<T, threads>::step;
    const int pieces = seen_rows.last_piece - seen_rows.first_piece + 1;
    if (threadIdx.x < Rows) {
        int own[4];
        c.find(first + threadIdx.x, own);
        results[result_slot<T, Rows>(threadIdx.x)] = first + threadIdx.x < c.windows ? c.result(own) : -1;
    }
    if (threadIdx.x < count) {
        const int y = threadIdx.x / c.kernel[2], x = threadIdx.x - y * c.kernel[2], column = c.start[2] + x * c.advance[2];
        elements[threadIdx.x] = {
            y * c.advance[1] * rows.pitch + (column & 1) * rows.odd + (column >> 1),
            1u | 2u << y | 2u << (c.kernel[1] + x)};
    }
    if (threadIdx.x < STRIDED_CHANNELS / per_chunk)
        reinterpret_cast<uint4*>(zeros)[threadIdx.x] = make_uint4(0, 0, 0, 0);
    // The window of which this thread names lines.
    SeenWindow seen;
    const int window = first + warp * 16 + lane % 16;
    seen.find(c, window);
    int at[4];
    c.find(window, at);
    const int own_line =
        (at[0] * c.size[1] + c.start[1] + at[2] * c.step[1] - seen_rows.first_row) * rows.pitch + at[3];

    __syncthreads();  // the tables are there
    // Of channels that are not there something that is there is read, and is not used.
    const auto channel_at = [&](int part) {
        const int channel = part * STRIDED_CHANNELS + own_channel;
        return image + (channel < c.channels ? channel * static_cast<long long>(c.channel) : 0);
    };
    for (int piece = 0; piece < pieces; piece += step_pieces * STRIDED_FIRST_LOADS) {
        uint4 read[STRIDED_FIRST_LOADS];
#pragma unroll
        for (int i = 0; i < STRIDED_FIRST_LOADS; ++i)
            read[i] = seen_rows.load(channel_at(0), own_piece + piece + i * step_pieces, own_channel < c.channels);
#pragma unroll
        for (int i = 0; i < STRIDED_FIRST_LOADS; ++i)
            seen_rows.store(pixels, own_piece + piece + i * step_pieces, read[i], own_unused);
    }
    uint4 read[STRIDED_LOADS];
    int part = 1, piece = own_piece;  // of what is read
    const auto bring = [&] {
        const T* const channel = channel_at(part);
        const bool there = part * STRIDED_CHANNELS + own_channel < c.channels;
#pragma unroll
        for (int i = 0; i < STRIDED_LOADS; ++i) read[i] = seen_rows.load(channel, piece + i * step_pieces, there);
    };
    if (part < parts) bring();

    // Weights of a part and an element follow each other: 64 bytes of each filter.
    constexpr int weight_lines = threads / 4;
    const int line = threadIdx.x / 4, chunk = threadIdx.x % 4;
    const auto weights = [&](int step) { return Tile{memory + step % stages * Filters * depth}; };
    const auto fetch = [&](int step) {
        const T* const from = weight + (static_cast<long long>(step) * 2 * c.filters + first_filter) * STRIDED_CHANNELS;
        if (step < steps) {
#pragma unroll
            for (int i = 0; i * weight_lines < 2 * Filters; ++i) {
                const int half = (line + i * weight_lines) / Filters, filter = line + i * weight_lines - half * Filters;
                const bool there = first_filter + filter < c.filters && step * 2 + half < all;
                if (2 * Filters % weight_lines == 0 || half < 2)
                    copy_async<16>(
                        weights(step).at(filter, half * 4 + chunk),
                        there ? from + (half * c.filters + filter) * STRIDED_CHANNELS + chunk * per_chunk : weight, there);
            }
        }
        commit_copies();
    };
#pragma unroll
    for (int step = 0; step < stages - 1; ++step) fetch(step);

    float sums[blocks][4];
#pragma unroll
    for (int i = 0; i < blocks * 4; ++i) sums[i / 4][i % 4] = 0;
    unsigned int left[4][4];
    int element = 0, products = 0;  // elements of the kernel that are done, of the same channels and in all
    const T* lines = pixels;
    const auto load_left = [&] {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const SeenElement own = elements[element];
            const bool sees = products < all && (seen.inside & own.bits) == own.bits;
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                const SharedRows<T, STRIDED_CHANNELS> from{const_cast<T*>(sees ? lines : zeros)};
                load_matrices(left[half * 2 + k], from.at(sees ? own_line + own.lines : 0, k * 2 + lane / 16));
            }
            ++products;
            const bool done = ++element == count;
            element = done ? 0 : element;
            lines = done ? (lines == pixels ? pixels + rows.lines * STRIDED_CHANNELS : pixels) : lines;
        }
    };
    for (int step = 0; step < steps; ++step) {
        await_copies<stages - 2>();
        show_to_products();
        __syncthreads();  // weights and rows of this step have arrived, and every warp is done with the step before
        load_left();
        const auto right = product_factor(weights(step).memory);
        begin_products();
#pragma unroll
        for (int k = 0; k < 4; ++k) multiply_rows<T>(sums, left[k], right + k * 2);
        commit_products();
        fetch(step + stages - 1);
        // Rows of the next channels take the place of those before these, once every warp is done with them.
        if (part < parts && count * (part - 1) <= 2 * step) {
            T* const to = part % 2 ? pixels + rows.lines * STRIDED_CHANNELS : pixels;
#pragma unroll
            for (int i = 0; i < STRIDED_LOADS; ++i)
                seen_rows.store(to, piece + i * step_pieces, read[i], own_unused);
            piece += STRIDED_LOADS * step_pieces;
            const bool done = piece - own_piece >= pieces;
            part += done;
            piece = done ? own_piece : piece;
            if (part < parts) bring();
        }
        await_products<0>();
    }
    await_copies<0>();
    write_sums<T, Rows, Filters, OutTogether>(c, memory, sums, results, first, first_filter, group, bias, out);
}
