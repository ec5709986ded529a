// Where values belong in sorted rows: a binary search for each value.
//
// With `m` elements in a row, the result is the first position whose element is not less than the value (not
// greater, with Right), or m. A comparison with NaN counts as "less", so NaNs belong at the end, where sorting
// puts them. All rows of values search the same sequence where its `row_step` is 0.

#pragma once

template <bool Right, class T>
__device__ inline bool goes_after(T element, T value) {
    return Right ? !(to_compute(element) > to_compute(value)) : !(to_compute(element) >= to_compute(value));
}

// `sorter`, where given, has the positions of each row's elements in sorted order.
template <bool Right, class T, class Out>
__device__ inline void search_rows(
    long long count, long long per_row, long long m, long long row_step, const T* sequence, const long long* sorter,
    const T* values, Out* out) {
    const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
    for (long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += step) {
        const long long row = row_step ? at / per_row * row_step : 0;
        const T value = values[at];
        long long low = 0, high = m;
        while (low < high) {
            const long long middle = low + (high - low) / 2;
            const long long position = sorter ? sorter[row + middle] : middle;
            if (goes_after<Right>(sequence[row + position], value)) low = middle + 1;
            else high = middle;
        }
        out[at] = static_cast<Out>(low);
    }
}
