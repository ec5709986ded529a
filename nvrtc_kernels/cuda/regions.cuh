// Regions of images pooled to one size (RoIAlign, RoIPool, and both position-sensitive), their derivatives by the images, and
// boxes that overlap better ones suppressed: what detectors of objects are made of.
//
// A region is five numbers: an image, and x and y of two corners in the coordinates of the picture that the features were
// computed from. A thread has one element of the result, a bin of a region in a channel. Position-sensitive pooling reads
// another channel for each bin. Derivatives are added up in memory atomically, in single precision for half types, so
// their last bits may differ from run to run.

#pragma once
#include "elements.cuh"

struct Regions {
    double scale;
    int images, channels, height, width, rows, columns, samples, aligned;
};

// What image a region is of.
template <class T>
__device__ inline int image_of(const Regions& r, const T* region) {
    const int image = static_cast<int>(to_compute(region[0]));
    assert(image >= 0 && image < r.images && "a region is of an image that is not in the batch");
    return image;
}

// visit(index in the result, region, channel that is read, row of bins, column of bins) for all elements of the result.
template <bool SENSITIVE, class Visit>
__device__ inline void for_bins(const Regions& r, long long regions, Visit visit) {
    const int bins = r.rows * r.columns, channels = SENSITIVE ? r.channels / bins : r.channels;
    const long long count = regions * channels * bins;
    for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
         i += static_cast<long long>(gridDim.x) * blockDim.x) {
        const int bin = static_cast<int>(i % bins), channel = static_cast<int>(i / bins % channels);
        visit(i, i / bins / channels, SENSITIVE ? channel * bins + bin : channel, bin / r.columns, bin % r.columns);
    }
}

// The samples of a bin along a dimension, each between two elements.
template <class Sum>
struct Samples {
    Sum start, step;
    int count;
};

// `low` and `high` are the region's ends, `bin` one of `bins`. Without `aligned` regions have a size of 1 at least, unless
// they are position-sensitive, which are always moved by half an element.
template <bool SENSITIVE, class Sum>
__device__ inline Samples<Sum> samples(const Regions& r, Sum low, Sum high, int bin, int bins) {
    const Sum half = SENSITIVE || r.aligned ? Sum(0.5) : Sum(0), scale = static_cast<Sum>(r.scale);
    const Sum start = low * scale - half;
    Sum size = high * scale - half - start;
    if (!SENSITIVE && !r.aligned && size < Sum(1)) size = Sum(1);
    const Sum step = size / static_cast<Sum>(bins);
    const int count = r.samples > 0 ? r.samples : static_cast<int>(ceil(size / static_cast<Sum>(bins)));
    return {start + static_cast<Sum>(bin) * step, step, count};
}

// The two elements around a sample and the weight of the second; false if it is more than one element outside.
template <class Sum>
__device__ inline bool around(const Samples<Sum>& s, int k, int size, int& first, int& second, Sum& weight) {
    Sum at = s.start + (static_cast<Sum>(k) + Sum(0.5)) * s.step / static_cast<Sum>(s.count);
    if (!(at >= Sum(-1) && at <= static_cast<Sum>(size))) return false;
    if (at < Sum(0)) at = Sum(0);
    first = static_cast<int>(at);
    second = first + 1;
    if (second >= size) {
        first = second = size - 1;
        at = static_cast<Sum>(first);
    }
    weight = at - static_cast<Sum>(first);
    return true;
}

// visit(offset in the plane, weight) for what a bin of RoIAlign is the weighted sum of.
template <bool SENSITIVE, class Sum, class T, class Visit>
__device__ inline void for_samples(const Regions& r, const T* region, int row, int column, Visit visit) {
    const Samples<Sum> y = samples<SENSITIVE, Sum>(r, to_compute(region[2]), to_compute(region[4]), row, r.rows);
    const Samples<Sum> x = samples<SENSITIVE, Sum>(r, to_compute(region[1]), to_compute(region[3]), column, r.columns);
    const long long count = static_cast<long long>(y.count) * x.count;
    const Sum share = Sum(1) / static_cast<Sum>(SENSITIVE || count > 1 ? count : 1);
    for (int j = 0; j < y.count; ++j) {
        int top, bottom;
        Sum down;
        if (!around(y, j, r.height, top, bottom, down)) continue;
        for (int i = 0; i < x.count; ++i) {
            int left, right;
            Sum across;
            if (!around(x, i, r.width, left, right, across)) continue;
            const Sum upper = (Sum(1) - down) * share, lower = down * share;
            visit(top * r.width + left, upper * (Sum(1) - across));
            visit(top * r.width + right, upper * across);
            visit(bottom * r.width + left, lower * (Sum(1) - across));
            visit(bottom * r.width + right, lower * across);
        }
    }
}

template <bool SENSITIVE, class Sum, class T>
__device__ void align(const Regions& r, long long regions, const T* in, const T* boxes, T* out, int*) {
    for_bins<SENSITIVE>(r, regions, [&](long long i, long long region, int channel, int row, int column) {
        const T* box = boxes + region * 5;
        const T* plane = in + (static_cast<long long>(image_of(r, box)) * r.channels + channel) * r.height * r.width;
        Sum sum(0);
        for_samples<SENSITIVE, Sum>(
            r, box, row, column, [&](int offset, Sum weight) { sum += weight * static_cast<Sum>(to_compute(plane[offset])); });
        out[i] = to_element<T>(sum);
    });
}

template <bool SENSITIVE, class Sum, class T>
__device__ void align_backward(
    const Regions& r, long long regions, const T* grad, const T* boxes, const int*, Sum* grad_in) {
    for_bins<SENSITIVE>(r, regions, [&](long long i, long long region, int channel, int row, int column) {
        const T* box = boxes + region * 5;
        Sum* plane = grad_in + (static_cast<long long>(image_of(r, box)) * r.channels + channel) * r.height * r.width;
        const Sum outer = to_compute(grad[i]);
        for_samples<SENSITIVE, Sum>(
            r, box, row, column, [&](int offset, Sum weight) { atomicAdd(plane + offset, weight * outer); });
    });
}

// The elements of a bin of RoIPool along a dimension, from `first` until before `end`: regions are rounded to elements.
struct Span {
    int first, end;
};

template <bool SENSITIVE, class Sum>
__device__ inline Span span(const Regions& r, Sum low, Sum high, int bin, int bins, int size) {
    const int start = static_cast<int>(round(low * static_cast<Sum>(r.scale)));
    const int end = static_cast<int>(round(high * static_cast<Sum>(r.scale)));
    const int length = end - start + (SENSITIVE ? 0 : 1);
    const Sum step = static_cast<Sum>(length > 1 ? length : 1) / static_cast<Sum>(bins);
    const int first = static_cast<int>(floor(static_cast<Sum>(bin) * step)) + start;
    const int last = static_cast<int>(ceil(static_cast<Sum>(bin + 1) * step)) + start;
    // Position-sensitive pooling leaves the last row and column out, as the library whose operator this is does.
    const int limit = SENSITIVE ? size - 1 : size;
    return {min(max(first, 0), limit), min(max(last, 0), limit)};
}

template <bool SENSITIVE, class Sum, class T>
__device__ inline void bin_spans(const Regions& r, const T* region, int row, int column, Span& y, Span& x) {
    y = span<SENSITIVE, Sum>(r, to_compute(region[2]), to_compute(region[4]), row, r.rows, r.height);
    x = span<SENSITIVE, Sum>(r, to_compute(region[1]), to_compute(region[3]), column, r.columns, r.width);
}

// The largest element of each bin, and where it is in the plane (-1 of an empty bin, whose maximum is 0).
template <bool SENSITIVE, class Sum, class T>
__device__ void pool(const Regions& r, long long regions, const T* in, const T* boxes, T* out, int* where) {
    for_bins<SENSITIVE>(r, regions, [&](long long i, long long region, int channel, int row, int column) {
        const T* box = boxes + region * 5;
        const T* plane = in + (static_cast<long long>(image_of(r, box)) * r.channels + channel) * r.height * r.width;
        Span y, x;
        bin_spans<SENSITIVE, Sum>(r, box, row, column, y, x);
        Sum result(0);
        int at = -1;
        for (int j = y.first; j < y.end; ++j)
            for (int k = x.first; k < x.end; ++k) {
                const Sum value = to_compute(plane[j * r.width + k]);
                if (SENSITIVE) {
                    result += value;
                } else if (at < 0 || value > result) {
                    result = value;
                    at = j * r.width + k;
                }
            }
        const int area = max(y.end - y.first, 0) * max(x.end - x.first, 0);
        if (SENSITIVE && area) result /= static_cast<Sum>(area);
        out[i] = to_element<T>(result);
        if (!SENSITIVE) where[i] = at;
    });
}

template <bool SENSITIVE, class Sum, class T>
__device__ void pool_backward(
    const Regions& r, long long regions, const T* grad, const T* boxes, const int* where, Sum* grad_in) {
    for_bins<SENSITIVE>(r, regions, [&](long long i, long long region, int channel, int row, int column) {
        const T* box = boxes + region * 5;
        Sum* plane = grad_in + (static_cast<long long>(image_of(r, box)) * r.channels + channel) * r.height * r.width;
        const Sum outer = to_compute(grad[i]);
        if (!SENSITIVE) {
            if (where[i] >= 0) atomicAdd(plane + where[i], outer);
            return;
        }
        Span y, x;
        bin_spans<SENSITIVE, Sum>(r, box, row, column, y, x);
        const int area = max(y.end - y.first, 0) * max(x.end - x.first, 0);
        for (int j = y.first; j < y.end; ++j)
            for (int k = x.first; k < x.end; ++k)
                atomicAdd(plane + j * r.width + k, outer / static_cast<Sum>(area));
    });
}

// Suppression of boxes, best first, in two kernels. The first compares all pairs: bit k of word `column` of a row says
// whether the row's box overlaps the later box 64 * column + k by more than `threshold` of their union.
template <class Sum, class T>
__device__ void overlaps(int boxes, double threshold, const T* corners, unsigned long long* words) {
    __shared__ Sum others[64][5];
    const int row = blockIdx.y * 64 + threadIdx.x, other = blockIdx.x * 64 + threadIdx.x;
    // Only later boxes count.
    if (blockIdx.x < blockIdx.y) return;
    if (other < boxes) {
        for (int k = 0; k < 4; ++k) others[threadIdx.x][k] = to_compute(corners[other * 4LL + k]);
        others[threadIdx.x][4] = (others[threadIdx.x][2] - others[threadIdx.x][0]) * (others[threadIdx.x][3] - others[threadIdx.x][1]);
    }
    __syncthreads();
    if (row >= boxes) return;
    Sum box[4];
    for (int k = 0; k < 4; ++k) box[k] = to_compute(corners[row * 4LL + k]);
    const Sum area = (box[2] - box[0]) * (box[3] - box[1]);
    unsigned long long word = 0;
    for (int k = blockIdx.x == blockIdx.y ? threadIdx.x + 1 : 0; k < 64 && blockIdx.x * 64 + k < boxes; ++k) {
        const Sum* b = others[k];
        const Sum width = max(min(box[2], b[2]) - max(box[0], b[0]), Sum(0));
        const Sum height = max(min(box[3], b[3]) - max(box[1], b[1]), Sum(0));
        const Sum shared = width * height;
        if (shared / (area + b[4] - shared) > threshold) word |= 1ULL << k;
    }
    words[static_cast<long long>(row) * gridDim.x + blockIdx.x] = word;
}

// The second goes through the boxes in order, in one block whose threads share the words of a row between them: a box
// that no better one suppressed stays, and suppresses what it overlaps. `removed` is shared memory of a word for each 64 boxes.
__device__ inline void suppress(int boxes, const unsigned long long* words, unsigned long long* removed, bool* stays) {
    const int columns = (boxes + 63) / 64;
    for (int k = threadIdx.x; k < columns; k += blockDim.x) removed[k] = 0;
    __syncthreads();
    for (int row = 0; row < boxes; ++row) {
        const bool stay = !(removed[row / 64] >> (row % 64) & 1);
        if (threadIdx.x == 0) stays[row] = stay;
        if (!stay) continue;
        // All threads have read the row's mark before one changes the word that it is in.
        __syncthreads();
        for (int k = row / 64 + threadIdx.x; k < columns; k += blockDim.x)
            removed[k] |= words[static_cast<long long>(row) * columns + k];
        __syncthreads();
    }
}
