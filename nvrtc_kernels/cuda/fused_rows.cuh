// What generated kernels need that compute the rows they load, or go on with the rows they would store: the pointwise
// operations before and after a kernel of rows.cuh, such as a normalization.
//
// A kernel takes an object in place of the address of its rows. `object + elements` is the object of another row, as with an
// address, and
//
//     object.load<Width>(at, items)    computes elements at to at + Width - 1 of the row: what is read for them is
//                                      loaded, and what others need besides is stored, unless it is load<Width, false>
//     object.store<Width>(at, items)   goes on with elements of the result
//
// Rows lie behind each other in all operands but those that repeat after `Period` elements: biases, positions, numbers. Those
// that are read by an index are rows of `Columns` elements, whose indices repeat after `Period` of them where that is not 0.

#pragma once
#include "checked_index.cuh"
#include "random_words.cuh"
#include "rows.cuh"
#include "separate_values.cuh"

template <int Width, bool Aligned, class T>
__device__ inline Pack<T, Width> row_pack(const T* from) {
    if constexpr (Aligned) {
        return pack_of<Width>(from);
    } else {
        Pack<T, Width> result;
#pragma unroll
        for (int i = 0; i < Width; ++i) result.items[i] = from[i];
        return result;
    }
}

template <int Width, bool Aligned, unsigned int Period, class T>
__device__ inline Pack<T, Width> repeated_pack(const T* from, Number first) {
    if constexpr (Period % Width == 0) {
        return row_pack<Width, Aligned>(from + first % Period);
    } else {
        Pack<T, Width> result;
#pragma unroll
        for (int i = 0; i < Width; ++i) result.items[i] = from[(first + i) % Period];
        return result;
    }
}

template <class Bounds, int Width, bool Aligned, unsigned int Columns, unsigned int Period, bool Wrap, class T, class I>
__device__ inline Pack<T, Width> looked_up_pack(const T* table, const I* index, long long size, Number first) {
    const auto row = [&](Number number) {
        const I position = index[Period ? number % (Period ? Period : 1) : number];
        return table + checked<Bounds, Wrap, long long>(position, size, 0) * Columns;
    };
    if constexpr (Columns % Width == 0) {
        return row_pack<Width, Aligned>(row(first / Columns) + first % Columns);
    } else {
        Pack<T, Width> result;
#pragma unroll
        for (int i = 0; i < Width; ++i) result.items[i] = row((first + i) / Columns)[(first + i) % Columns];
        return result;
    }
}
