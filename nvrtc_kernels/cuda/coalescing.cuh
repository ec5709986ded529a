// Many tensors copied or summed up, in one launch: see `Table` in optimizer_steps.cuh.
//
// Parameters and gradients that go to another device travel as few long runs of bytes, because each copy between
// devices costs microseconds however short it is. Here the tensors of a run are put behind each other (one source),
// and on arrival gradients of several devices are summed, each into memory of its own (several sources), so that an
// optimizer or a later sum may use that memory as it likes. Every element is read and written once, 16 bytes at a
// time where addresses allow it, with all sources of a pack in flight at once. Sources are added in their order, half
// precision in float with one rounding at the end: results are the same in every run.

#pragma once

#include "optimizer_steps.cuh"

// Operand 0 is written; the others are the sources.
template <class T, int Chunk, int Width, int Operands, int Tensors>
__device__ inline void sum_sources(const Table<Operands, Tensors>& table, unsigned int tensors) {
    constexpr int sources = Operands - 1;
    const unsigned int mine = tensor_of_block(table, tensors);
    const long long start = static_cast<long long>(blockIdx.x - table.first[mine]) * Chunk;
    const long long left = table.count[mine] - start;
    T* sum = static_cast<T*>(table.address[mine][0]) + start;
    const T* source[sources];
    unsigned long long low = reinterpret_cast<unsigned long long>(sum);
#pragma unroll
    for (int k = 0; k < sources; ++k) {
        source[k] = static_cast<const T*>(table.address[mine][k + 1]) + start;
        low |= reinterpret_cast<unsigned long long>(source[k]);
    }
    if (left >= Chunk && low % (sizeof(T) * Width) == 0) {
#pragma unroll 2
        for (int at = threadIdx.x * Width; at < Chunk; at += blockDim.x * Width) {
            Pack<T, Width> pack[sources];
#pragma unroll
            for (int k = 0; k < sources; ++k) pack[k] = *reinterpret_cast<const Pack<T, Width>*>(source[k] + at);
#pragma unroll
            for (int i = 0; i < Width; ++i) {
                auto x = to_compute(pack[0].item[i]);
#pragma unroll
                for (int k = 1; k < sources; ++k) x += to_compute(pack[k].item[i]);
                pack[0].item[i] = to_element<T>(x);
            }
            *reinterpret_cast<Pack<T, Width>*>(sum + at) = pack[0];
        }
    } else {
        const int end = left < Chunk ? static_cast<int>(left) : Chunk;
        for (int at = threadIdx.x; at < end; at += blockDim.x) {
            auto x = to_compute(source[0][at]);
#pragma unroll
            for (int k = 1; k < sources; ++k) x += to_compute(source[k][at]);
            sum[at] = to_element<T>(x);
        }
    }
}

// Operand 0 is written, of type Out; operand 1 is read, of type In. A pack is 16 bytes of the smaller type.
template <class Out, class In, int Chunk, int Width, int Tensors>
__device__ inline void cast_tensors(const Table<2, Tensors>& table, unsigned int tensors) {
    constexpr int reads = Width * sizeof(In) / 16, writes = Width * sizeof(Out) / 16;
    constexpr int read = Width / reads, write = Width / writes;
    const unsigned int mine = tensor_of_block(table, tensors);
    const long long start = static_cast<long long>(blockIdx.x - table.first[mine]) * Chunk;
    const long long left = table.count[mine] - start;
    Out* target = static_cast<Out*>(table.address[mine][0]) + start;
    const In* source = static_cast<const In*>(table.address[mine][1]) + start;
    const unsigned long long low =
        reinterpret_cast<unsigned long long>(target) | reinterpret_cast<unsigned long long>(source);
    if (left >= Chunk && low % 16 == 0) {
#pragma unroll 2
        for (int at = threadIdx.x * Width; at < Chunk; at += blockDim.x * Width) {
            Pack<In, read> in[reads];
            Pack<Out, write> out[writes];
#pragma unroll
            for (int k = 0; k < reads; ++k) in[k] = reinterpret_cast<const Pack<In, read>*>(source + at)[k];
#pragma unroll
            for (int i = 0; i < Width; ++i)
                out[i / write].item[i % write] = to_element<Out>(to_compute(in[i / read].item[i % read]));
#pragma unroll
            for (int k = 0; k < writes; ++k) reinterpret_cast<Pack<Out, write>*>(target + at)[k] = out[k];
        }
    } else {
        const int end = left < Chunk ? static_cast<int>(left) : Chunk;
        for (int at = threadIdx.x; at < end; at += blockDim.x) target[at] = to_element<Out>(to_compute(source[at]));
    }
}
