// Combining values with the elements that index tensors choose, in an order that is the same in every run.
//
// write_keys lists, for every position that index tensors have, which element (or slice, where dimensions are
// not indexed) it chooses. A stable sort brings the positions that choose the same together, in their order.
// These are the segments:
//
//   reduce_segments   a thread goes through `Length` positions of the sorted list, for one element of the slice;
//                     neighbouring threads have neighbouring elements. Segments that begin and end in its chunk
//                     go to the target. What is left of a segment that reaches beyond either end goes to a list
//                     of two entries for each chunk, in which segments are again neighbours: the same kernel
//                     goes through that list, and so on. So a segment is a tree of sums, whatever the device,
//                     and one that is as long as the list takes no longer than many short ones.
//   write_last        the last position of each segment is written to the target.

#pragma once
#include "accumulate.cuh"

// Where things lie: values by position, targets by key, and elements of slices in both.
template <int PositionRank, int KeyRank, int SliceRank, class Index>
struct Segmented {
    typedef Index Number;
    Index positions, slices;
    Geometry<PositionRank, 1, Index> value;
    Geometry<KeyRank, 1, Index> target;
    Geometry<SliceRank, 2, Index> slice;
};

template <int Rank, class Index>
__device__ inline Index offset_of(const Geometry<Rank, 1, Index>& geometry, Index at) {
    Index offset[1];
    offsets_of(geometry, at, offset);
    return offset[0];
}

template <class Bounds, int Unroll, int Rank, class Lookup, class Index, class Key, class I>
__device__ inline void write_keys(
    const Geometry<Rank, 2 + Lookup::count, Index>& walk, const Lookup& lookup, Index count, Key* keys,
    const I* const (&index)[Lookup::count]) {
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
#pragma unroll 1
    for (Index first = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; first < count; first += step * Unroll) {
        const Chosen<Bounds, Unroll, Index> chosen(walk, lookup, count, first, step, index);
#pragma unroll
        for (int u = 0; u < Unroll; ++u) {
            if (u < chosen.many) keys[chosen.plain[u]] = static_cast<Key>(chosen.indexed[u]);
        }
    }
}

constexpr long long no_key = -1;

// Entries of the sorted list are values, ...
template <class Reducer, class T, class Geometries, class Source>
struct SortedValues {
    typedef typename Geometries::Number Index;
    const Geometries& geometry;
    const long long* positions;
    Source source;

    __device__ void take(typename Reducer::State& state, Index at, Index slice, Index offset) const {
        const Index position = static_cast<Index>(positions[at]);
        Reducer::take(state, to_compute(to_element<T>(to_compute(source(offset_of(geometry.value, position) + offset)))), 0);
    }
};

// ... and in the lists made of it, states.
template <class Reducer, class Index>
struct OpenStates {
    Index slices;
    const typename Reducer::State* states;

    __device__ void take(typename Reducer::State& state, Index at, Index slice, Index) const {
        state = Reducer::combine(state, states[at * slices + slice]);
    }
};

// `open_keys` and `open` get two entries for each chunk: of the segment that began before it, and of the one that
// goes on behind it. A chunk in the middle of a segment has both.
template <class Reducer, int Length, class Geometries, class Key, class Entries, class T>
__device__ inline void reduce_segments(
    const Geometries& geometry, typename Geometries::Number n, const Key* keys, const Entries& entries, T* target,
    long long* open_keys, typename Reducer::State* open) {
    typedef typename Geometries::Number Index;
    typedef typename Reducer::State State;
    const Index slices = geometry.slices, jobs = (n + Length - 1) / Length * slices;
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index job = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; job < jobs; job += step) {
        const Index chunk = job / slices, slice = job - chunk * slices;
        const Index first = chunk * Length, end = n - first < Length ? n : first + Length;
        Index offset[2];
        offsets_of(geometry.slice, slice, offset);
        const auto finish = [&](long long key, State state) {
            T* const at = target + offset_of(geometry.target, static_cast<Index>(key)) + offset[1];
            State whole = Reducer::start();
            Reducer::take(whole, to_compute(*at), 0);
            *at = to_element<T>(Reducer::combine(whole, state));
        };
        State* const before = open + 2 * chunk * slices + slice;
        State* const behind = before + slices;
        long long key = keys[first], key_before = no_key, key_behind = no_key;
        bool begun = key != no_key && first > 0 && keys[first - 1] == key;
        State state = Reducer::start();
        for (Index at = first; at < end; ++at) {
            const long long next = keys[at];
            if (next != key) {
                if (begun) {
                    key_before = key;
                    *before = state;
                } else if (key != no_key) {
                    finish(key, state);
                }
                begun = false;
                key = next;
                state = Reducer::start();
            }
            if (key != no_key) entries.take(state, at, slice, offset[0]);
        }
        const bool goes_on = key != no_key && end < n && keys[end] == key;
        if (begun) {
            key_before = key;
            *before = state;
            state = Reducer::start();
        } else if (key != no_key && !goes_on) {
            finish(key, state);
        }
        if (goes_on) {
            key_behind = key;
            *behind = state;
        }
        if (slice == 0 && n > Length) {
            open_keys[2 * chunk] = key_before;
            open_keys[2 * chunk + 1] = key_behind;
        }
    }
}

template <class Geometries, class Key, class V, class T>
__device__ inline void write_last(
    const Geometries& geometry, const Key* keys, const long long* positions, const V* values, T* target) {
    typedef typename Geometries::Number Index;
    const Index n = geometry.positions, slices = geometry.slices, step = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index job = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; job < n * slices; job += step) {
        const Index at = job / slices;
        const Key key = keys[at];
        if (at + 1 < n && keys[at + 1] == key) continue;
        Index offset[2];
        offsets_of(geometry.slice, job - at * slices, offset);
        const Index from = offset_of(geometry.value, static_cast<Index>(positions[at])) + offset[0];
        target[offset_of(geometry.target, static_cast<Index>(key)) + offset[1]] = to_element<T>(to_compute(values[from]));
    }
}
