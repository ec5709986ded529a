// What convolutions are made of besides matrix products. Everything has three spatial dimensions; missing ones have
// size 1.
//
//   unfold   the windows of an image as columns of a matrix: row (c, kd, kh, kw), column (item, position). A block
//            has one row, decoded once, and its threads neighbouring columns, which is how they are written.
//   fold     its transpose: a thread has an element of the image and adds up what the columns hold of it, so that
//            nothing is added atomically and the sum is the same in every run.
//   depthwise_*  convolutions where every channel has filters of its own, computed directly: a matrix product would
//            have one row.

#pragma once
#include "windows.cuh"

// `at` is the first position of the columns and `count` their number for each item; a row of columns starts
// `row_step` elements after the one before, and an item `item_step`.
template <class Word>
__device__ void unfold(
    const Windows& w, long long rows, long long items, long long at, long long count, long long row_step,
    long long item_step, const Word* image, Word* columns) {
    const int elements = w.kernel[0] * w.kernel[1] * w.kernel[2];
    for (long long row = blockIdx.y; row < rows; row += gridDim.y) {
        const int element = static_cast<int>(row % elements);
        const int kw = element % w.kernel[2], kh = element / w.kernel[2] % w.kernel[1],
                  kd = element / w.kernel[2] / w.kernel[1];
        const Word* channel = image + row / elements * w.channel_step;
        Word* out = columns + row * row_step;
        const int d0 = kd * w.dilation[0] - w.padding[0], h0 = kh * w.dilation[1] - w.padding[1],
                  w0 = kw * w.dilation[2] - w.padding[2];
        for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < items * count;
             i += static_cast<long long>(gridDim.x) * blockDim.x) {
            const long long item = i / count;
            const int position = static_cast<int>(at + i % count);
            const int x = position % w.out[2] * w.stride[2] + w0,
                      y = position / w.out[2] % w.out[1] * w.stride[1] + h0,
                      z = position / w.out[2] / w.out[1] * w.stride[0] + d0;
            Word found{};
            if (static_cast<unsigned>(z) < static_cast<unsigned>(w.size[0]) &&
                static_cast<unsigned>(y) < static_cast<unsigned>(w.size[1]) &&
                static_cast<unsigned>(x) < static_cast<unsigned>(w.size[2]))
                found = channel[item * w.item_channels + (static_cast<long long>(z) * w.size[1] + y) * w.size[2] + x];
            out[item * item_step + i % count] = found;
        }
    }
}

template <class W, class T>
__device__ inline W plus(W a, T b) { return a + b; }
template <class W>
__device__ inline Complex<W> plus(Complex<W> a, Complex<W> b) { return {a.re + b.re, a.im + b.im}; }
template <class W>
__device__ inline W times(W a, W b) { return a * b; }
template <class W>
__device__ inline Complex<W> times(Complex<W> a, Complex<W> b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

// Sum is the type to add up in.
template <class Sum, class T>
__device__ void fold(
    const Windows& w, long long channels, long long items, long long row_step, long long item_step, const T* columns,
    T* image) {
    const int elements = w.kernel[0] * w.kernel[1] * w.kernel[2];
    const long long area = static_cast<long long>(w.size[0]) * w.size[1] * w.size[2];
    for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < items * channels * area;
         i += static_cast<long long>(gridDim.x) * blockDim.x) {
        const long long item = i / area / channels, channel = i / area % channels;
        const int at = static_cast<int>(i % area);
        const T* own = columns + channel * elements * row_step + item * item_step;
        Sum sum{};
        for_windows(
            w, at / w.size[2] / w.size[1], at / w.size[2] % w.size[1], at % w.size[2], [&](int element, int position) {
                sum = plus(sum, Sum(to_compute(own[element * row_step + position])));
            });
        image[item * w.item_channels + channel * w.channel_step + at] = to_element<T>(sum);
    }
}

// Filter o works on channel o / multiplier. Images and results are contiguous.
template <class Sum, class T>
__device__ void depthwise_forward(
    const Windows& w, long long filters, int multiplier, long long items, const T* image, const T* weight, T* out) {
    const int elements = w.kernel[0] * w.kernel[1] * w.kernel[2];
    const long long positions = static_cast<long long>(w.out[0]) * w.out[1] * w.out[2];
    for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < items * filters * positions;
         i += static_cast<long long>(gridDim.x) * blockDim.x) {
        const long long filter = i / positions % filters, item = i / positions / filters;
        const int position = static_cast<int>(i % positions);
        const int x0 = position % w.out[2] * w.stride[2] - w.padding[2],
                  y0 = position / w.out[2] % w.out[1] * w.stride[1] - w.padding[1],
                  z0 = position / w.out[2] / w.out[1] * w.stride[0] - w.padding[0];
        const T* own = image + item * w.item_channels + filter / multiplier * w.channel_step;
        const T* taken = weight + filter * elements;
        Sum sum{};
        for (int k = 0; k < elements; ++k) {
            const int x = x0 + k % w.kernel[2] * w.dilation[2],
                      y = y0 + k / w.kernel[2] % w.kernel[1] * w.dilation[1],
                      z = z0 + k / w.kernel[2] / w.kernel[1] * w.dilation[0];
            if (static_cast<unsigned>(z) < static_cast<unsigned>(w.size[0]) &&
                static_cast<unsigned>(y) < static_cast<unsigned>(w.size[1]) &&
                static_cast<unsigned>(x) < static_cast<unsigned>(w.size[2]))
                sum = plus(sum, times(Sum(to_compute(own[(static_cast<long long>(z) * w.size[1] + y) * w.size[2] + x])),
                                      Sum(to_compute(taken[k]))));
        }
        out[i] = to_element<T>(sum);
    }
}

template <class Sum, class T>
__device__ void depthwise_input(
    const Windows& w, long long channels, int multiplier, long long items, const T* grad, const T* weight, T* image) {
    const int elements = w.kernel[0] * w.kernel[1] * w.kernel[2];
    const long long positions = static_cast<long long>(w.out[0]) * w.out[1] * w.out[2];
    const long long area = static_cast<long long>(w.size[0]) * w.size[1] * w.size[2];
    for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < items * channels * area;
         i += static_cast<long long>(gridDim.x) * blockDim.x) {
        const long long first = i / area * multiplier;  // filter of the first image of gradients
        const int at = static_cast<int>(i % area);
        const T* taken = weight + i / area % channels * multiplier * elements;
        Sum sum{};
        for_windows(
            w, at / w.size[2] / w.size[1], at / w.size[2] % w.size[1], at % w.size[2], [&](int element, int position) {
                for (int m = 0; m < multiplier; ++m)
                    sum = plus(sum, times(Sum(to_compute(grad[(first + m) * positions + position])),
                                          Sum(to_compute(taken[m * elements + element]))));
            });
        image[i] = to_element<T>(sum);
    }
}

// A block has a weight, and its threads the positions of all items; they are added up in a fixed order.
template <class Sum, int Threads, class T>
__device__ void depthwise_weight(
    const Windows& w, long long filters, int multiplier, long long items, const T* image, const T* grad, T* out) {
    __shared__ Sum sums[Threads];
    const int elements = w.kernel[0] * w.kernel[1] * w.kernel[2];
    const long long positions = static_cast<long long>(w.out[0]) * w.out[1] * w.out[2];
    const long long filter = blockIdx.x / elements;
    const int k = blockIdx.x % elements;
    const int x0 = k % w.kernel[2] * w.dilation[2] - w.padding[2],
              y0 = k / w.kernel[2] % w.kernel[1] * w.dilation[1] - w.padding[1],
              z0 = k / w.kernel[2] / w.kernel[1] * w.dilation[0] - w.padding[0];
    Sum sum{};
    for (long long i = threadIdx.x; i < items * positions; i += Threads) {
        const long long item = i / positions;
        const int position = static_cast<int>(i % positions);
        const int x = position % w.out[2] * w.stride[2] + x0,
                  y = position / w.out[2] % w.out[1] * w.stride[1] + y0,
                  z = position / w.out[2] / w.out[1] * w.stride[0] + z0;
        if (static_cast<unsigned>(z) < static_cast<unsigned>(w.size[0]) &&
            static_cast<unsigned>(y) < static_cast<unsigned>(w.size[1]) &&
            static_cast<unsigned>(x) < static_cast<unsigned>(w.size[2]))
            sum = plus(sum, times(Sum(to_compute(image[item * w.item_channels + filter / multiplier * w.channel_step +
                                                  (static_cast<long long>(z) * w.size[1] + y) * w.size[2] + x])),
                                  Sum(to_compute(grad[(item * filters + filter) * positions + position]))));
    }
    sums[threadIdx.x] = sum;
    for (int half = Threads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] = plus(sums[threadIdx.x], sums[threadIdx.x + half]);
    }
    if (threadIdx.x == 0) out[blockIdx.x] = to_element<T>(sums[0]);
}
