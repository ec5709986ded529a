// Pointwise kernels with several results of one layout, which may depend on where an element lies:
//
//     out0[i], out1[i], ... = op(i, in0[...], in1[...], ...)
//
// `op` gives Results, and gets an element's place in the outputs' memory as its first argument: in outputs that are
// row-major, that is the number by which random words are drawn. How threads share the work is as in pointwise.cuh and
// pointwise_strided.cuh; outputs have the place of one output there.
//
// Inputs may be read by an index: such a table has no strides where the index goes, and `Operation::look_up` adds to a pack's
// place in it what the index says that `Operation::load_indices` has read. All indices of a thread are read before the first
// is looked up. Along a pack an index stands still.
//
// A pack of four elements or more begins at a multiple of four, which the compiler sees from how its place is worked out: it
// makes the four words of a block of random numbers at once.

#pragma once
#include "pointwise_strided.cuh"
#include "random_words.cuh"
#include "separate_values.cuh"

template <class... T>
struct Results;
template <class T>
struct Results<T> {
    T first;
};
template <class T, class... More>
struct Results<T, More...> {
    T first;
    Results<More...> rest;
};

template <class... T>
struct Outputs;
template <class T>
struct Outputs<T> {
    T* first;
};
template <class T, class... More>
struct Outputs<T, More...> {
    T* first;
    Outputs<More...> rest;
};

template <int Width, int Unroll, class... T>
struct ResultPacks;
template <int Width, int Unroll, class T>
struct ResultPacks<Width, Unroll, T> {
    Pack<T, Width> pack[Unroll];
    __device__ void set(int u, int i, const Results<T>& results) { pack[u].item[i] = results.first; }
    template <class Offset>
    __device__ void store(const Outputs<T>& out, const Offset (&offset)[Unroll]) const {
#pragma unroll
        for (int u = 0; u < Unroll; ++u) *reinterpret_cast<Pack<T, Width>*>(out.first + offset[u]) = pack[u];
    }
};
template <int Width, int Unroll, class T, class... More>
struct ResultPacks<Width, Unroll, T, More...> {
    ResultPacks<Width, Unroll, T> first;
    ResultPacks<Width, Unroll, More...> rest;
    __device__ void set(int u, int i, const Results<T, More...>& results) {
        first.set(u, i, {results.first});
        rest.set(u, i, results.rest);
    }
    template <class Offset>
    __device__ void store(const Outputs<T, More...>& out, const Offset (&offset)[Unroll]) const {
        first.store({out.first}, offset);
        rest.store(out.rest, offset);
    }
};

// All results are there before the first is stored.
template <int Width, int Unroll, class Op, class Offset, class... Out, class... Items>
__device__ inline void write_results(
    const Op& op, const Outputs<Out...>& out, const Offset (&offset)[Unroll], const Items&... items) {
    ResultPacks<Width, Unroll, Out...> result;
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
        // What is or-ed to its lowest bits does not change the number of a block of words, which the compiler sees.
        const Number first = static_cast<Number>(offset[u]) & ~static_cast<Number>(Width - 1);
#pragma unroll
        for (int i = 0; i < Width; ++i) result.set(u, i, op(first | i, items.pack[u].item[i]...));
    }
    result.store(out, offset);
}

template <class Op, class... Out, class... In>
__device__ inline void write_element(const Op& op, long long at, const Outputs<Out...>& out, const In*... in) {
    ResultPacks<1, 1, Out...> result;
    const long long offset[1] = {at};
    result.set(0, 0, op(static_cast<Number>(at), in[at]...));
    result.store(out, offset);
}

template <int Width, int Unroll, class Op, class... Out, class... In>
__device__ inline void fused_flat(const Op& op, long long count, const Outputs<Out...>& out, const In*... in) {
    const int step = blockDim.x * Width;
    const long long block = static_cast<long long>(blockIdx.x) * step * Unroll;
    if (block + static_cast<long long>(step) * Unroll <= count) {
        const long long at = block + threadIdx.x * Width;
        long long offset[Unroll];
#pragma unroll
        for (int u = 0; u < Unroll; ++u) offset[u] = at + u * step;
        write_results<Width, Unroll>(op, out, offset, Items<In, Width, Unroll>(in + at, step)...);
    } else {
#pragma unroll 1
        for (long long at = block + threadIdx.x; at < count; at += blockDim.x) write_element(op, at, out, in...);
    }
}

template <class Op, class... Out, class... In>
__device__ inline void fused_narrow(const Op& op, long long count, const Outputs<Out...>& out, const In*... in) {
    const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
    for (long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += step) {
        write_element(op, at, out, in...);
    }
}

template <int Width, int Unroll, class Op, class L, class Count, int... Access, int... Place, class... Out, class... In>
__device__ inline void fused_packs(
    const Op& op, const L& layout, Count first, Accesses<Access...>, Places<Place...>, const Outputs<Out...>& out,
    const In*... in) {
    typename L::Offset offset[Unroll][L::operands], to[Unroll];
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
        layout.walk.locate(first + u * blockDim.x, offset[u]);
        to[u] = offset[u][0];
    }
    if constexpr (Op::lookups > 0) {
        long long index[Unroll][Op::lookups];
#pragma unroll
        for (int u = 0; u < Unroll; ++u) op.load_indices(offset[u], index[u]);
#pragma unroll
        for (int u = 0; u < Unroll; ++u) op.look_up(index[u], offset[u]);
    }
    write_results<Width, Unroll>(
        op, out, to, StridedItems<Access, In, Width, Unroll>(in, offset, Place, layout.step[Place])...);
}

template <int Width, int Unroll, class Op, int Rank, int Operands, class Count, class Offset, class A, class... Out, class... In>
__device__ inline void fused_strided(
    const Op& op, const Packs<Rank, Operands, Count, Offset>& layout, A accesses, const Outputs<Out...>& out,
    const In*... in) {
    const typename PlacesUpTo<sizeof...(In)>::type places;
    const Count block = static_cast<Count>(blockIdx.x) * blockDim.x * Unroll, first = block + threadIdx.x;
    const Count count = layout.walk.count;
    if (Unroll > 1 && block + blockDim.x * Unroll <= count) {
        fused_packs<Width, Unroll>(op, layout, first, accesses, places, out, in...);
    } else {
#pragma unroll 1
        for (Count at = first; at < count && at - first < blockDim.x * Unroll; at += blockDim.x) {
            fused_packs<Width, 1>(op, layout, at, accesses, places, out, in...);
        }
    }
}
