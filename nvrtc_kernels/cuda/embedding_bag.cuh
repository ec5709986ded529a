// Sums, means and maxima of the rows of a table that the indices of a bag name: out[bag] over the positions
// from starts[bag] to starts[bag + 1].
//
// A thread has a column of a bag, neighbouring threads have neighbouring columns: rows are read in whole lines,
// and no gathered rows are stored. Positions whose index is `skipped` count nothing. An index that is no row of the
// table is printed and fails an assertion. `chosen` gets how many positions counted, or, of maxima, the row that
// each came from (-1 where nothing counted).

#pragma once

struct Bags {
    long long bags, columns, rows, skipped, count;

    __device__ long long checked(long long index) const {
        if (index < 0 || index >= rows)
            printf("embedding_bag(): index %lld is out of bounds: there are %lld rows\n", index, rows);
        assert(index >= 0 && index < rows && "embedding_bag(): index out of bounds");
        return index;
    }
};

template <class W, bool Mean, class T>
__device__ void sum_bags(
    Bags bags, const T* table, const long long* index, const long long* starts, const T* factors, T* out,
    long long* chosen) {
    const long long count = bags.bags * bags.columns, step = static_cast<long long>(gridDim.x) * blockDim.x;
    for (long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += step) {
        const long long bag = at / bags.columns, column = at - bag * bags.columns;
        const long long end = bag + 1 < bags.bags ? starts[bag + 1] : bags.count;
        W sum = 0;
        long long taken = 0;
        for (long long i = starts[bag]; i < end; ++i) {
            const long long row = bags.checked(index[i]);
            if (row == bags.skipped) continue;
            const W x = to_compute(table[row * bags.columns + column]);
            sum += factors == nullptr ? x : x * W(to_compute(factors[i]));
            ++taken;
        }
        if (Mean && taken) sum /= static_cast<W>(taken);
        out[at] = to_element<T>(sum);
        if (column == 0) chosen[bag] = taken;
    }
}

template <class W, class T>
__device__ void largest_of_bags(
    Bags bags, const T* table, const long long* index, const long long* starts, T* out, long long* chosen) {
    const long long count = bags.bags * bags.columns, step = static_cast<long long>(gridDim.x) * blockDim.x;
    for (long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += step) {
        const long long bag = at / bags.columns, column = at - bag * bags.columns;
        const long long end = bag + 1 < bags.bags ? starts[bag + 1] : bags.count;
        W largest = 0;
        long long from = -1;
        for (long long i = starts[bag]; i < end; ++i) {
            const long long row = bags.checked(index[i]);
            if (row == bags.skipped) continue;
            const W x = to_compute(table[row * bags.columns + column]);
            if (from < 0 || x > largest) {
                largest = x;
                from = row;
            }
        }
        out[at] = to_element<T>(largest);
        chosen[at] = from;
    }
}
