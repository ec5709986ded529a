// Pointwise kernels: out[i] = op(in0[i], in1[i], ...), for any number of inputs and any element types.
//
// An operation is a functor `Op` with `__device__ Out operator()(In... values) const`; what it computes is
// the only thing that differs from one operation to the next. Three layouts:
//
//   flat     every operand is contiguous. A thread moves `Unroll` packs of `Width` elements, all loaded
//            before the first is stored, so that several memory accesses are in flight; a pack of the widest
//            element type is 16 bytes. The last block handles the remainder element by element.
//   narrow   the same operands, an element for each thread: for few elements, or unaligned ones.
//   strided  anything else: pointwise_strided.cuh.
//
// Operands may be the same memory at the same index (in-coordinate operations): a thread reads its elements
// before it writes them.

#pragma once

template <class T, int Width>
struct alignas(sizeof(T) * Width) Pack {
    T item[Width];
};

template <class T, int Width, int Unroll>
struct Items {
    Pack<T, Width> pack[Unroll];
    __device__ Items(const T* first, int step) {
#pragma unroll
        for (int u = 0; u < Unroll; ++u) pack[u] = *reinterpret_cast<const Pack<T, Width>*>(first + u * step);
    }
};

// All results are there before the first is stored, at addresses that follow from one another: otherwise the compiler
// splits the stores of all packs but two into elements.
template <int Width, int Unroll, class Op, class Out, class... In>
__device__ inline void store_items(const Op& op, Out* first, int step, const Items<In, Width, Unroll>&... items) {
    Pack<Out, Width> result[Unroll];
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
#pragma unroll
        for (int i = 0; i < Width; ++i) result[u].item[i] = op(items.pack[u].item[i]...);
    }
#pragma unroll
    for (int u = 0; u < Unroll; ++u, first += step) *reinterpret_cast<Pack<Out, Width>*>(first) = result[u];
}

template <int Width, int Unroll, class Op, class Out, class... In>
__device__ inline void pointwise_flat(const Op& op, long long count, Out* out, const In*... in) {
    const int step = blockDim.x * Width;
    const long long block = static_cast<long long>(blockIdx.x) * step * Unroll;
    if (block + static_cast<long long>(step) * Unroll <= count) {
        const long long at = block + threadIdx.x * Width;
        store_items<Width, Unroll>(op, out + at, step, Items<In, Width, Unroll>(in + at, step)...);
    } else {
#pragma unroll 1
        for (long long at = block + threadIdx.x; at < count; at += blockDim.x) out[at] = op(in[at]...);
    }
}

template <class Op, class Out, class... In>
__device__ inline void pointwise_narrow(const Op& op, long long count, Out* out, const In*... in) {
    const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
    for (long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += step) {
        out[at] = op(in[at]...);
    }
}

// Sizes of the collapsed dimensions, outermost first, and each operand's strides in elements (output first).
template <int Rank, int Operands, class Index>
struct Geometry {
    typedef Index Number;
    Index size[Rank];
    Index stride[Operands][Rank];
};

// Generators: out[i] = op(i), contiguous.
template <class Op, class Out>
__device__ inline void generate_flat(const Op& op, long long count, Out* out) {
    const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
    for (long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += step) {
        out[at] = op(at);
    }
}
