// Convolutions as matrix products on tensor cores whose left operand, the windows of the image, is nowhere in memory: implicit
// GEMM, with sums in float32, of half precision and of float32 rounded to TF32. Everything has three spatial dimensions;
// missing ones have size 1.
//
//   convolve         A block has 128 windows and 64 or 128 filters of a group, and goes over the elements of a window, and over
//                    its channels 64 bytes at a time: an element of all windows is a tile of 128 rows of channels. Images
//                    whose channels are neighbours come by asynchronous copies, four tiles ahead; of others a thread has a
//                    window and reads channel by channel, as its neighbours read neighbouring windows, which go to shared
//                    memory when the tile before has been worked on. Results go through shared memory, so that neighbours are
//                    written together in either order, with the bias. The gradient of the image is such a convolution too, for
//                    each phase of the stride one: see Convolution.
//   convolve_weight  The gradient of the weight. A block has an element of the kernel, filters and channels, and goes over
//                    part of the windows, whose sums are added up by sum_weight_parts, always in the same order.
//   arrange_weight   A weight as (group, element, filter, channel) with rows of whole 16 bytes, or so for each part of the channels.

#pragma once
#include "divisor.cuh"
#include "tensor_cores.cuh"

constexpr int CONVOLUTION_THREADS = 128, CONVOLUTION_ROWS = 128, CONVOLUTION_BYTES = 64;

// Window (z, y, x) sees element start + z * step + k * advance of the image with kernel element k, in each dimension. Of a
// gradient of the image "windows" are the elements whose distances are the stride, and the "image" is the result's gradient:
// those kernel elements that reach it are first_element, first_element + element_step, ... of the weight.
struct Convolution {
    Divisor<unsigned int> count[3];  // of windows
    int windows;                     // of all items
    int channels, filters;           // of a group
    int kernel[3], step[3], start[3], advance[3];
    int first_element, element_step[3], elements;
    int padded;  // channels of a row of the weight
    int size[3], stride[3], item, channel;
    int out_stride[3], out_item, out_channel, out_first;
    int bias;

    // Item, z, y and x of a window.
    __device__ void find(int window, int (&at)[4]) const {
#pragma unroll
        for (int d = 2; d >= 0; --d) {
            const int next = quotient(count[d], window);
            at[d + 1] = window - next * static_cast<int>(count[d].size);
            window = next;
        }
        at[0] = window;
    }
    // Offset of what a window sees with kernel element (kz, ky, kx); negative outside the image.
    __device__ int seen(const int (&at)[4], int kz, int ky, int kx) const {
        const int z = start[0] + at[1] * step[0] + kz * advance[0], y = start[1] + at[2] * step[1] + ky * advance[1],
                  x = start[2] + at[3] * step[2] + kx * advance[2];
        const bool inside = static_cast<unsigned>(z) < static_cast<unsigned>(size[0]) &&
                            static_cast<unsigned>(y) < static_cast<unsigned>(size[1]) &&
                            static_cast<unsigned>(x) < static_cast<unsigned>(size[2]);
        return inside ? at[0] * item + z * stride[0] + y * stride[1] + x * stride[2] : -1;
    }
    __device__ int result(const int (&at)[4]) const {
        return out_first + at[0] * out_item + at[1] * out_stride[0] + at[2] * out_stride[1] + at[3] * out_stride[2];
    }
};

// Elements of a tile of `Rows` rows of `Width` channels that a thread brings: those of `PerThread` chunks of 16 bytes.
// Threads take neighbouring chunks of a row where channels are neighbours in memory, and else neighbouring rows.
template <class T, int Rows, int Width, bool Together>
struct TilePart {
    static constexpr int chunks = SharedRows<T, Width>::chunks, per_chunk = SharedRows<T, Width>::per_chunk;
    static constexpr int per_thread = Rows * chunks / CONVOLUTION_THREADS;
    // All chunks of a thread are in one row where channels lie apart.
    static constexpr int rows = Together ? per_thread : 1;

    __device__ static int row(int i) {
        return Together ? threadIdx.x / chunks + i * (CONVOLUTION_THREADS / chunks) : threadIdx.x % Rows;
    }
    __device__ static int chunk(int i) {
        return Together ? threadIdx.x % chunks : threadIdx.x / Rows + i * (CONVOLUTION_THREADS / Rows);
    }
    // Asynchronously; `at` is negative for rows of zeros.
    __device__ static void fetch(
        const SharedRows<T, Width>& to, const T* from, const int (&at)[rows], int first, int channels) {
        static_assert(Together);
#pragma unroll
        for (int i = 0; i < per_thread; ++i) {
            const int channel = first + chunk(i) * per_chunk;
            const bool there = at[i] >= 0 && channel < channels;
            copy_async<16>(to.at(row(i), chunk(i)), from + (there ? at[i] + channel : 0), there);
        }
    }

    Pack<T, per_chunk> packs[per_thread];

    __device__ void load(const T* from, int at, int step, int first, int channels) {
#pragma unroll
        for (int i = 0; i < per_thread; ++i) {
#pragma unroll
            for (int j = 0; j < per_chunk; ++j) {
                const int channel = first + chunk(i) * per_chunk + j;
                packs[i].items[j] = at >= 0 && channel < channels ? from[at + channel * step] : to_element<T>(0.0f);
            }
        }
    }
    __device__ void store(const SharedRows<T, Width>& to) const {
#pragma unroll
        for (int i = 0; i < per_thread; ++i)
            *reinterpret_cast<Pack<T, per_chunk>*>(to.at(row(i), chunk(i))) = packs[i];
    }
};

// A whole chunk at once where it is aligned and its elements are neighbours, else as many as are there.
template <class T, int Count, class At>
__device__ inline void store_chunk(T* to, const T* from, int there, At at) {
    const int first = at(0);
    if (there >= Count && at(Count - 1) - first == Count - 1 && reinterpret_cast<unsigned long long>(to + first) % 16 == 0) {
        *reinterpret_cast<uint4*>(to + first) = *reinterpret_cast<const uint4*>(from);
    } else {
#pragma unroll
        for (int i = 0; i < Count; ++i)
            if (i < there) to[at(i)] = from[i];
    }
}

// Where shared memory has the offset of a window's results: windows a chunk of 16 bytes apart, which neighbouring threads
// write, are neighbours.
template <class T, int Rows>
__device__ inline int result_slot(int row) {
    constexpr int per_chunk = 16 / sizeof(T);
    return row % per_chunk * (Rows / per_chunk) + row / per_chunk;
}

// A block's results from shared memory, where they are rows of filters (`OutTogether`) or of windows, to where they belong:
// `results` has the offset of each window, negative for what is none.
template <class T, int Rows, int Filters, int Threads, bool OutTogether>
__device__ inline void write_results(
    const Convolution& c, T* memory, const int* results, int first, int first_filter, int group, T* out) {
    constexpr int per_chunk = 16 / sizeof(T);
    constexpr int inner = OutTogether ? Filters : Rows, outer = OutTogether ? Rows : Filters;
    const SharedRows<T, inner> lines{memory};
    out += static_cast<long long>(group) * c.filters * c.out_channel;
    for (int i = threadIdx.x; i < outer * (inner / per_chunk); i += Threads) {
        const int chunk = i % (inner / per_chunk), line = i / (inner / per_chunk);
        if constexpr (OutTogether) {
            const int filter = first_filter + chunk * per_chunk, result = results[result_slot<T, Rows>(line)];
            if (result >= 0)
                store_chunk<T, per_chunk>(
                    out + result, lines.at(line, chunk), c.filters - filter, [&](int k) { return filter + k; });
        } else {
            const int filter = first_filter + line, row = chunk * per_chunk;
            if (filter < c.filters)
                store_chunk<T, per_chunk>(
                    out + static_cast<long long>(filter) * c.out_channel, lines.at(line, chunk),
                    c.windows - first - row, [&](int k) { return results[result_slot<T, Rows>(row + k)]; });
        }
    }
}

// Whether the channels of the image are neighbours, and how many of them are whole chunks, is `Together`; `OutTogether`
// whether those of the result are.
template <class T, int Filters, bool Together, bool OutTogether>
__device__ void convolve(const Convolution& c, const T* image, const T* weight, const T* bias, T* out) {
    constexpr int depth = CONVOLUTION_BYTES / sizeof(T), stages = Together ? 4 : 2, rows = CONVOLUTION_ROWS;
    constexpr int groups = 4, blocks = Filters / 16, stage = (rows + Filters) * depth;
    typedef SharedRows<T, depth> Tile;
    typedef TilePart<T, rows, depth, Together> ImagePart;
    typedef TilePart<T, Filters, depth, true> WeightPart;
    extern __shared__ uint4 shared_memory[];
    T* const memory = reinterpret_cast<T*>(shared_memory);
    // Where results go, behind tiles or what takes their place.
    constexpr int tiles = stages * stage > rows * Filters ? stages * stage : rows * Filters;
    int* const results = reinterpret_cast<int*>(memory + tiles);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = blockIdx.z;
    const int first = blockIdx.x * rows, first_filter = blockIdx.y * Filters;

    image += static_cast<long long>(group) * c.channels * c.channel;
    weight += static_cast<long long>(group) * c.elements * c.filters * c.padded;
    int at[ImagePart::rows][4];
#pragma unroll
    for (int i = 0; i < ImagePart::rows; ++i) {
        const int window = first + ImagePart::row(i);
        c.find(window, at[i]);
        // Outside of everything.
        if (window >= c.windows) at[i][1] = -(1 << 29) / c.step[0];
    }
    {
        int own[4];
        c.find(first + threadIdx.x, own);
        results[result_slot<T, rows>(threadIdx.x)] = first + threadIdx.x < c.windows ? c.result(own) : -1;
    }
    int filters_at[WeightPart::rows], seen[ImagePart::rows];
    int kz = 0, ky = 0, kx = 0, channel = 0;
    const auto element_changed = [&] {
        const int element =
            c.first_element + kz * c.element_step[0] + ky * c.element_step[1] + kx * c.element_step[2];
#pragma unroll
        for (int i = 0; i < WeightPart::rows; ++i) {
            const int filter = first_filter + WeightPart::row(i);
            filters_at[i] = filter < c.filters ? (element * c.filters + filter) * c.padded : -1;
        }
#pragma unroll
        for (int i = 0; i < ImagePart::rows; ++i) seen[i] = c.seen(at[i], kz, ky, kx);
    };
    const auto advance = [&] {
        channel += depth;
        if (channel < c.channels) return;
        channel = 0;
        if (++kx == c.kernel[2]) {
            kx = 0;
            if (++ky == c.kernel[1]) {
                ky = 0;
                ++kz;
            }
        }
        element_changed();
    };
    const int steps = c.kernel[0] * c.kernel[1] * c.kernel[2] * ((c.channels + depth - 1) / depth);
    ImagePart part;
    const auto images = [&](int step) { return Tile{memory + step % stages * stage}; };
    const auto weights = [&](int step) { return Tile{memory + step % stages * stage + rows * depth}; };
    const auto fetch = [&](int step) {
        if (step < steps) {
            if constexpr (Together) {
                ImagePart::fetch(images(step), image, seen, channel, c.channels);
            } else {
                part.load(image, seen[0], c.channel, channel, c.channels);
            }
            WeightPart::fetch(weights(step), weight, filters_at, channel, c.padded);
            advance();
        }
        commit_copies();
    };
    element_changed();
#pragma unroll
    for (int step = 0; step < stages - 1; ++step) fetch(step);
    if constexpr (!Together) part.store(images(0));

    float sums[groups][blocks][4];
#pragma unroll
    for (int i = 0; i < groups * blocks * 4; ++i) sums[i / 4 / blocks][i / 4 % blocks][i % 4] = 0;
    const int own_row = warp / 2 * 64, own_filter = warp % 2 * (Filters / 2);
    for (int step = 0; step < steps; ++step) {
        await_copies<stages - 2>();
        __syncthreads();  // this tile has arrived, and every warp has read the one whose place the next one takes
        const int next = step + stages - 1;
        fetch(next);
        accumulate_rows(sums, images(step), own_row, Tile{weights(step).memory + own_filter * depth});
        if constexpr (!Together)
            if (next < steps) part.store(images(next));
    }
    await_copies<0>();
    __syncthreads();  // the tiles have been read

    constexpr int per_chunk = 16 / sizeof(T);
    const SharedRows<T, Filters> by_rows{memory};
    const SharedRows<T, rows> by_filters{memory};
#pragma unroll
    for (int n = 0; n < blocks; ++n) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const int filter = own_filter + n * 8 + lane % 4 * 2 + j;
            float added = 0;
            if (bias != nullptr && first_filter + filter < c.filters)
                added = to_compute(bias[(group * c.filters + first_filter + filter) * c.bias]);
#pragma unroll
            for (int r = 0; r < groups * 2; ++r) {
                const int row = own_row + r * 8 + lane / 4;
                T* const slot = OutTogether ? by_rows.at(row, filter / per_chunk) + filter % per_chunk
                                            : by_filters.at(filter, row / per_chunk) + row % per_chunk;
                *slot = to_element<T>(sums[r / 2][n][r % 2 * 2 + j] + added);
            }
        }
    }
    __syncthreads();
    write_results<T, rows, Filters, CONVOLUTION_THREADS, OutTogether>(
        c, memory, results, first, first_filter, group, out);
}

// Sums over `per_part` windows; out_* say where the result's gradient lies. parts is (part, group, element, filter, channel).
template <class T, int Filters, int Channels, bool Together, bool GradTogether>
__device__ void convolve_weight(const Convolution& c, int per_part, const T* image, const T* grad, float* parts) {
    constexpr int depth = CONVOLUTION_BYTES / sizeof(T), stages = Together && GradTogether ? 4 : 2;
    constexpr int groups = Filters / 32, blocks = Channels / 16, stage = (Filters + Channels) * depth;
    typedef SharedRows<T, Channels> Seen;
    typedef SharedRows<T, Filters> Grads;
    typedef TilePart<T, depth, Channels, Together> ImagePart;
    typedef TilePart<T, depth, Filters, GradTogether> GradPart;
    extern __shared__ uint4 shared_memory[];
    T* const memory = reinterpret_cast<T*>(shared_memory);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = blockIdx.z;
    const int tiles = (c.filters + Filters - 1) / Filters, tiles_of_channels = (c.channels + Channels - 1) / Channels;
    const int first_filter = blockIdx.x % tiles * Filters;
    const int first_channel = blockIdx.x / tiles % tiles_of_channels * Channels;
    const int element = blockIdx.x / tiles / tiles_of_channels;
    const int kx = element % c.kernel[2], ky = element / c.kernel[2] % c.kernel[1],
              kz = element / c.kernel[2] / c.kernel[1];
    const int first = blockIdx.y * per_part;
    const int end = per_part < c.windows - first ? first + per_part : c.windows;
    const int steps = (end - first + depth - 1) / depth;

    image += static_cast<long long>(group) * c.channels * c.channel;
    grad += static_cast<long long>(group) * c.filters * c.out_channel;
    const auto seen = [&](int step) { return Seen{memory + step % stages * stage}; };
    const auto grads = [&](int step) { return Grads{memory + step % stages * stage + Channels * depth}; };
    const auto image_at = [&](int step, int row) {
        int at[4];
        const int window = first + step * depth + row;
        c.find(window, at);
        const int offset = c.seen(at, kz, ky, kx);
        return window < end ? offset : -1;
    };
    const auto grad_at = [&](int step, int row) {
        int at[4];
        const int window = first + step * depth + row;
        c.find(window, at);
        return window < end ? c.result(at) : -1;
    };
    ImagePart image_part;
    GradPart grad_part;
    const auto fetch = [&](int step) {
        if (step < steps) {
            if constexpr (Together) {
                int at[ImagePart::rows];
#pragma unroll
                for (int i = 0; i < ImagePart::rows; ++i) at[i] = image_at(step, ImagePart::row(i));
                ImagePart::fetch(seen(step), image, at, first_channel, c.channels);
            }
            if constexpr (GradTogether) {
                int at[GradPart::rows];
#pragma unroll
                for (int i = 0; i < GradPart::rows; ++i) at[i] = grad_at(step, GradPart::row(i));
                GradPart::fetch(grads(step), grad, at, first_filter, c.filters);
            }
        }
        commit_copies();
    };
    const auto load_image = [&](int step) {
        if constexpr (!Together)
            if (step < steps)
                image_part.load(image, image_at(step, ImagePart::row(0)), c.channel, first_channel, c.channels);
    };
    const auto load_grad = [&](int step) {
        if constexpr (!GradTogether)
            if (step < steps)
                grad_part.load(grad, grad_at(step, GradPart::row(0)), c.out_channel, first_filter, c.filters);
    };
    const auto store_image = [&](int step) {
        if constexpr (!Together)
            if (step < steps) image_part.store(seen(step));
    };
    const auto store_grad = [&](int step) {
        if constexpr (!GradTogether)
            if (step < steps) grad_part.store(grads(step));
    };
#pragma unroll
    for (int step = 0; step < stages - 1; ++step) fetch(step);
    load_image(0);
    store_image(0);
    load_grad(0);
    store_grad(0);

    float sums[groups][blocks][4];
#pragma unroll
    for (int i = 0; i < groups * blocks * 4; ++i) sums[i / 4 / blocks][i / 4 % blocks][i % 4] = 0;
    const int own_filter = warp / 2 * (Filters / 2), own_channel = warp % 2 * (Channels / 2);
    for (int step = 0; step < steps; ++step) {
        await_copies<stages - 2>();
        __syncthreads();  // this tile has arrived, and every warp has read the one whose place the next one takes
        const int next = step + stages - 1;
        fetch(next);
        load_image(next);
        accumulate_columns(sums, grads(step), own_filter, seen(step), own_channel, 0);
        store_image(next);
        load_grad(next);
        accumulate_columns(sums, grads(step), own_filter, seen(step), own_channel, depth / 2);
        store_grad(next);
    }
    await_copies<0>();

    const long long of_groups = static_cast<long long>(blockIdx.y) * gridDim.z + group;
    parts += (of_groups * c.elements + element) * c.filters * c.channels;
#pragma unroll
    for (int r = 0; r < groups * 2; ++r) {
        const int filter = first_filter + own_filter + r * 8 + lane / 4;
        if (filter >= c.filters) continue;
        float* const row = parts + static_cast<long long>(filter) * c.channels;
#pragma unroll
        for (int n = 0; n < blocks; ++n) {
            const int channel = first_channel + own_channel + n * 8 + lane % 4 * 2;
            const float one = sums[r / 2][n][r % 2 * 2], two = sums[r / 2][n][r % 2 * 2 + 1];
            if (c.channels % 2 == 0) {
                if (channel < c.channels) *reinterpret_cast<float2*>(row + channel) = make_float2(one, two);
            } else {
                if (channel < c.channels) row[channel] = one;
                if (channel + 1 < c.channels) row[channel + 1] = two;
            }
        }
    }
}

// Where a weight lies whose rows and columns are filters and channels of a group, or the other way round, as (group, part,
// element, row, column). A part has `width` columns, and the last one of a group fewer.
struct WeightOrder {
    Divisor<unsigned int> width, rows, elements, parts;
    Divisor<unsigned int> kernel[2];  // height and width
    int count, columns;
    int group_step, row_step, column_step, element_step[3];

    // Offset of an element, and its column.
    __device__ int find(int i, int& column) const {
        const int line = quotient(width, i), matrix = quotient(rows, line), block = quotient(elements, matrix);
        const int group = quotient(parts, block), element = rest(elements, matrix, block);
        column = rest(parts, block, group) * static_cast<int>(width.size) + rest(width, i, line);
        const int above = quotient(kernel[1], element), depth = quotient(kernel[0], above);
        return group * group_step + rest(rows, line, matrix) * row_step + column * column_step +
               rest(kernel[1], element, above) * element_step[2] + rest(kernel[0], above, depth) * element_step[1] +
               depth * element_step[0];
    }
    __device__ static int rest(const Divisor<unsigned int>& by, int n, int quotient) {
        return n - quotient * static_cast<int>(by.size);
    }
};

template <class T>
__device__ void arrange_weight(const WeightOrder& order, const T* weight, T* to) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= order.count) return;
    int column;
    const int at = order.find(i, column);
    T element = column < order.columns ? weight[at] : to_element<T>(0.0f);
    if constexpr (sizeof(T) == 4) {
        unsigned int bits = __float_as_uint(element);
        asm("cvt.rna.tf32.f32 %0, %0;" : "+r"(bits));
        element = __uint_as_float(bits);
    }
    to[i] = element;
}

template <class T>
__device__ void sum_weight_parts(const WeightOrder& order, int count, const float* parts, T* weight) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= order.count) return;
    float sum = 0;
    for (int k = 0; k < count; ++k) sum += parts[static_cast<long long>(k) * order.count + i];
    int column;
    weight[order.find(i, column)] = to_element<T>(sum);
}
