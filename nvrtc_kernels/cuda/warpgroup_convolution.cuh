// Convolutions by products of warpgroups: the same sums as in implicit_convolution.cuh, in tiles of more windows.
//
//   convolve_by_warpgroups  A block has up to 256 windows and 64 or 128 filters of a group, and each of its warpgroups 64 windows.
//                           It goes over the channels, 128 bytes at a time, and of these over the elements of a window, which
//                           see the same part of the image again and again: level 1 has it. Tiles come two ahead, while the
//                           product of the one before goes on: by asynchronous copies where the image's channels are
//                           neighbours, and else through registers, as neighbouring threads read neighbouring windows,
//                           where these are an even number of columns apart two columns of the kernel at a time.
//
// What a window sees of the image is told by the offset of its first element and a bit for each element of the kernel along
// each dimension, for which 32 have to do.

#pragma once
#include "implicit_convolution.cuh"
#include "warpgroup_products.cuh"

constexpr int WARPGROUP_BYTES = 128, WARPGROUP_STAGES = 4;

// What a window sees: the offset of its first element, which may be outside the image, and of which elements along depth,
// height and width it is inside.
struct SeenWindow {
    int first;
    unsigned int inside;

    __device__ void find(const Convolution& c, int window) {
        int at[4];
        c.find(window, at);
        first = at[0] * c.item;
        inside = 0;
        int bit = 0;
#pragma unroll
        for (int d = 0; d < 3; ++d) {
            const int start = c.start[d] + at[d + 1] * c.step[d];
            first += start * c.stride[d];
            for (int k = 0; k < c.kernel[d]; ++k, ++bit)
                if (static_cast<unsigned>(start + k * c.advance[d]) < static_cast<unsigned>(c.size[d])) inside |= 1u << bit;
        }
        if (window >= c.windows) inside = 0;
    }
};

// An element of the kernel: of windows that see it, its offset from their first one; the bits that say so; its place in the
// weight.
struct KernelElement {
    int at[3], offset, element;
    unsigned int bits;

    __device__ explicit KernelElement(const Convolution& c) : at{0, 0, 0} { find(c); }
    __device__ void find(const Convolution& c) {
        offset = 0;
        element = c.first_element;
        bits = 0;
        int bit = 0;
#pragma unroll
        for (int d = 0; d < 3; ++d) {
            offset += at[d] * c.advance[d] * c.stride[d];
            element += at[d] * c.element_step[d];
            bits |= 1u << (bit + at[d]);
            bit += c.kernel[d];
        }
    }
    // The next one; false behind the last, where it starts anew.
    __device__ bool advance(const Convolution& c) {
        bool more = true;
        if (++at[2] == c.kernel[2]) {
            at[2] = 0;
            if (++at[1] == c.kernel[1]) {
                at[1] = 0;
                if (++at[0] == c.kernel[0]) {
                    at[0] = 0;
                    more = false;
                }
            }
        }
        find(c);
        return more;
    }
};

// The sums of a warp's 16 rows with their bias to shared memory, as lines of filters (`OutTogether`) or of windows.
template <class T, int Rows, int Filters, bool OutTogether, class Bias>
__device__ inline void store_sums(T* memory, const float (&sums)[Filters / 8][4], int own_row, Bias bias) {
    const int lane = threadIdx.x % 32;
    const SharedRows<T, OutTogether ? Filters : Rows> lines{memory};
    if constexpr (sizeof(T) == 2) {
#pragma unroll
        for (int n = 0; n < Filters / 8; n += 2) {
            unsigned int matrices[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int block = n + i / 2, filter = block * 8 + lane % 4 * 2;
                matrices[i] = packed<T>(
                    sums[block][i % 2 * 2] + bias(filter), sums[block][i % 2 * 2 + 1] + bias(filter + 1));
            }
            const int down = lane / 8 % 2, aside = lane / 16;
            T* const line = OutTogether ? lines.at(own_row + down * 8 + lane % 8, n + aside)
                                        : lines.at((n + aside) * 8 + lane % 8, own_row / 8 + down);
            store_matrices<!OutTogether>(line, matrices);
        }
    } else {
#pragma unroll
        for (int n = 0; n < Filters / 8; ++n) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const int filter = n * 8 + lane % 4 * 2, row = own_row + r * 8 + lane / 4;
                const T one = sums[n][r * 2] + bias(filter), two = sums[n][r * 2 + 1] + bias(filter + 1);
                if constexpr (OutTogether) {
                    *reinterpret_cast<float2*>(lines.at(row, filter / 4) + filter % 4) = make_float2(one, two);
                } else {
                    lines.at(filter, row / 4)[row % 4] = one;
                    lines.at(filter + 1, row / 4)[row % 4] = two;
                }
            }
        }
    }
}

// The sums of a block with their bias to the result, by shared memory, whose tiles are not read any more.
template <class T, int Rows, int Filters, bool OutTogether>
__device__ inline void write_sums(
    const Convolution& c, T* memory, const float (&sums)[Filters / 8][4], const int* results, int first, int first_filter,
    int group, const T* bias, T* out) {
    __syncthreads();  // every warp is done with the tiles
    store_sums<T, Rows, Filters, OutTogether>(memory, sums, threadIdx.x / 32 * 16, [&](int filter) {
        const bool there = bias != nullptr && first_filter + filter < c.filters;
        return there ? to_compute(bias[(group * c.filters + first_filter + filter) * c.bias]) : 0.0f;
    });
    __syncthreads();
    write_results<T, Rows, Filters, Rows * 2, OutTogether>(c, memory, results, first, first_filter, group, out);
}

// Of this many bytes.
template <int Bytes>
struct UnsignedOf {
    typedef unsigned int type;
};
template <>
struct UnsignedOf<2> {
    typedef unsigned short type;
};
template <>
struct UnsignedOf<8> {
    typedef unsigned long long type;
};

// A window's half of a tile's channels, which lie apart, on their way from the image to shared memory, as words: one, or of
// `Count` 2 those of an even column and of the next one, which come with one load.
template <class T, int Count>
struct WindowPart {
    typedef typename UnsignedOf<sizeof(T)>::type Column;
    typedef typename UnsignedOf<sizeof(T) * Count>::type Columns;
    static constexpr int chunks = 4, per_word = 4 / sizeof(T), channels = chunks * 4 * per_word;
    unsigned int words[Count][chunks * 4];

    // `there`: how many channels there are from here on, or less than one. No branch is around a load, so that all are on their
    // way together: what is not there is read where something is.
    __device__ void load(const T* from, int there, long long step) {
        if (there <= 0) step = 0;
#pragma unroll
        for (int i = 0; i < channels; ++i) {
            const Columns read = *reinterpret_cast<const Columns*>(from), columns = i < there ? read : 0;
#pragma unroll
            for (int k = 0; k < Count; ++k) {
                const unsigned int element = static_cast<Column>(columns >> k * 8 * sizeof(T));
                unsigned int& word = words[k][i / per_word];
                word = i % per_word == 0 ? element : word | element << 16;
            }
            if (i + 1 < there) from += step;
        }
    }
    template <int Width>
    __device__ void store(const SharedRows<T, Width>& to, int row, int first, bool second) const {
#pragma unroll
        for (int i = 0; i < chunks; ++i) {
            const auto word = [&](int k) { return second ? words[Count - 1][i * 4 + k] : words[0][i * 4 + k]; };
            store_words(to.at(row, first + i), word(0), word(1), word(2), word(3));
        }
    }
};

// `Together`: whether the channels of the image are neighbours, and how many of them are whole chunks; `OutTogether`: whether those
// of the result are. `Columns`: how many of the image are read at once, 2 where all windows start at odd ones, or all at even
// ones. Weights of float32 are TF32.
template <class T, int Rows, int Filters, bool Together, bool OutTogether, int Columns>
__device__ void convolve_by_warpgroups(const Convolution& c, const T* image, const T* weight, const T* bias, T* out) {
    constexpr int depth = WARPGROUP_BYTES / sizeof(T), stages = WARPGROUP_STAGES, threads = Rows * 2, chunks = 8;
    constexpr int stage = (Rows + Filters) * depth, per_chunk = 16 / sizeof(T), blocks = Filters / 8;
    constexpr int rows_at_once = threads / chunks, image_rows = Together ? Rows / rows_at_once : 1;
    constexpr int weight_rows = (Filters + rows_at_once - 1) / rows_at_once;
    typedef SharedRows<T, depth> Tile;
    extern __shared__ __align__(1024) uint4 swizzled_memory[];
    T* const memory = reinterpret_cast<T*>(swizzled_memory);
    int* const results = reinterpret_cast<int*>(memory + stages * stage);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = blockIdx.z;
    const int first = blockIdx.x * Rows, first_filter = blockIdx.y * Filters;
    const int own_line = threadIdx.x / chunks, own_chunk = threadIdx.x % chunks * per_chunk;

    image += static_cast<long long>(group) * c.channels * c.channel;
    weight += static_cast<long long>(group) * c.elements * c.filters * c.padded;
    if (threadIdx.x < Rows) {
        int own[4];
        c.find(first + threadIdx.x, own);
        results[result_slot<T, Rows>(threadIdx.x)] = first + threadIdx.x < c.windows ? c.result(own) : -1;
    }
    SeenWindow seen[image_rows];
#pragma unroll
    for (int i = 0; i < image_rows; ++i)
        seen[i].find(c, first + (Together ? own_line + i * rows_at_once : threadIdx.x % Rows));
    KernelElement element(c);
    WindowPart<T, Columns> part;
    bool second = false;  // whether a tile is the second column of those in `part`
    const int own_half = threadIdx.x / Rows * (chunks / 2);
    int channel = own_chunk;
    const int steps = c.kernel[0] * c.kernel[1] * c.kernel[2] * ((c.channels + depth - 1) / depth);
    const auto images = [&](int step) { return Tile{memory + step % stages * stage}; };
    const auto weights = [&](int step) { return Tile{memory + step % stages * stage + Rows * depth}; };
    const auto fetch = [&](int step) {
        if (step < steps) {
#pragma unroll
            for (int i = 0; i < image_rows; ++i) {
                const bool sees = (seen[i].inside & element.bits) == element.bits;
                if constexpr (!Together) {
                    second = Columns > 1 && (c.start[2] + element.at[2]) % 2 != 0;
                    if (second && element.at[2] > 0) continue;  // it came with the first
                    const int own_channel = channel - own_chunk + own_half * per_chunk;
                    const int there = sees ? c.channels - own_channel : 0;
                    const int at_first = seen[i].first + element.offset - second;
                    const long long at = at_first + static_cast<long long>(own_channel) * c.channel;
                    part.load(image + (there > 0 ? at : 0), there, c.channel);
                    continue;
                }
                const bool there = sees && channel < c.channels;
                copy_async<16, true>(
                    images(step).at(own_line + i * rows_at_once, threadIdx.x % chunks),
                    image + (there ? seen[i].first + element.offset + channel : 0), there);
            }
#pragma unroll
            for (int i = 0; i < weight_rows; ++i) {
                const int line = own_line + i * rows_at_once, filter = first_filter + line;
                const bool there = filter < c.filters && channel < c.padded;
                if (Filters % rows_at_once == 0 || line < Filters)
                    copy_async<16>(
                        weights(step).at(line, threadIdx.x % chunks),
                        weight + (there ? (element.element * c.filters + filter) * c.padded + channel : 0), there);
            }
            if (!element.advance(c)) channel += depth;
        }
        commit_copies();
    };
    // What has come to registers goes to where a tile was that every warp is done with.
    const auto store = [&](int step) {
        if constexpr (!Together)
            if (step < steps) part.store(images(step), threadIdx.x % Rows, own_half, second);
    };
#pragma unroll
    for (int step = 0; step < stages - 2; ++step) {
        fetch(step);
        store(step);
    }

    float sums[blocks][4];
#pragma unroll
    for (int i = 0; i < blocks * 4; ++i) sums[i / 4][i % 4] = 0;
    for (int step = 0; step < steps; ++step) {
        await_copies<stages - 3>();
        show_to_products();
        __syncthreads();  // this tile has arrived, and every warp is done with the one whose place the next one takes
        if constexpr (sizeof(T) == 2) {
            const auto left = product_factor(images(step).memory + warp / 4 * 64 * depth);
            const auto right = product_factor(weights(step).memory);
            begin_products();
#pragma unroll
            for (int k = 0; k < chunks / 2; ++k)  // 32 bytes, of which addresses have sixteenths
                multiply_factors<T, false, false>(sums, left + k * 2, right + k * 2);
            commit_products();
            fetch(step + stages - 2);
            await_products<1>();
            store(step + stages - 2);
        } else {
            unsigned int left[chunks / 2][4];
#pragma unroll
            for (int k = 0; k < chunks / 2; ++k) {
                load_matrices(left[k], images(step).at(warp * 16 + lane % 16, k * 2 + lane / 16));
                round_operands<T>(left[k]);
            }
            const auto right = product_factor(weights(step).memory);
            begin_products();
#pragma unroll
            for (int k = 0; k < chunks / 2; ++k) multiply_rows<T>(sums, left[k], right + k * 2);
            commit_products();
            fetch(step + stages - 2);
            await_products<0>();
            store(step + stages - 2);
        }
    }
    await_products<0>();
    await_copies<0>();
    write_sums<T, Rows, Filters, OutTogether>(c, memory, sums, results, first, first_filter, group, bias, out);
}
