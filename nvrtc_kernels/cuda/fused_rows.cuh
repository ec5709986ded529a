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
// Rows lie behind each other in all operands but those that repeat after `Period` elements where that is not 0 (biases,
// positions, numbers), and those of which each group of `Inner` elements is read `Stretch` times before the next one (what there
// is one of for a row, or for a channel, a mask that heads have in common). Indices move the place that results from that.

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

// Where the element `number` of the rows lies in an operand.
template <unsigned int Inner, unsigned int Stretch, unsigned int Period>
__device__ inline Number place_of(Number number) {
    Number group = number / (Number(Inner) * Stretch);
    if constexpr (Period > 0) group %= Period;
    return group * Inner + number % Inner;
}

template <int Width, bool Aligned, unsigned int Inner, unsigned int Stretch, unsigned int Period, class T>
__device__ inline Pack<T, Width> stretched_pack(const T* from, Number first) {
    constexpr auto place = place_of<Inner, Stretch, Period>;
    if constexpr (Inner % Width == 0) {
        return row_pack<Width, Aligned>(from + place(first));
    } else {
        // Packs begin at multiples of their width.
        constexpr bool same = Inner == 1 && Stretch % Width == 0;
        Pack<T, Width> result;
        const T item = from[place(first)];
#pragma unroll
        for (int i = 0; i < Width; ++i) result.items[i] = same || i == 0 ? item : from[place(first + i)];
        return result;
    }
}

// `row(number)` is how far indices move the place in the table; `Together` neighbours in the rows are such in the table.
template <
    int Width, bool Aligned, unsigned int Inner, unsigned int Stretch, unsigned int Period, unsigned int Together, class T,
    class Row>
__device__ inline Pack<T, Width> looked_up_pack(const T* table, const Row& row, Number first) {
    constexpr auto place = place_of<Inner, Stretch, Period>;
    if constexpr (Together % Width == 0) {
        return row_pack<Width, Aligned>(table + row(first) + place(first));
    } else {
        Pack<T, Width> result;
#pragma unroll
        for (int i = 0; i < Width; ++i) result.items[i] = table[row(first + i) + place(first + i)];
        return result;
    }
}
