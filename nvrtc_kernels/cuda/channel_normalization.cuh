// What batch normalisation does to elements once the moments of the channels are known, and the gradient of that.
//
// Memory is (outer, channels, inner) without gaps; inner is 1 for channels that are last. A thread has packs of
// Width neighbouring elements, one load and one store each, and finds the channel with a division a pack:
//
//   Same         inner is a multiple of Width: a pack lies in one channel
//   Consecutive  inner is 1 and Width divides the channels: a pack has Width channels in order
//   Any          a division for each element
//
// Weight and bias may be null.

#pragma once
#include "rows.cuh"

enum Channels { Same, Consecutive, Any };

template <Channels Kind, class Index>
struct ChannelOf {
    Index channels, inner, first;
    __device__ ChannelOf(Index channels, Index inner, Index at) : channels(channels), inner(inner) {
        first = Kind == Any ? at : (Kind == Same ? at / inner : at) % channels;
    }
    __device__ Index operator()(int i) const {
        if (Kind == Same) return first;
        if (Kind == Consecutive) return first + i;
        return (first + i) / inner % channels;
    }
};

template <class W, class V>
__device__ inline W at_or(const V* values, long long at, W otherwise) {
    return values == nullptr ? otherwise : W(to_compute(values[at]));
}

template <class W, Channels Kind, int Width, class Index, class In, class M, class V>
__device__ void apply_channels(
    Index packs, Index channels, Index inner, double eps, const In* in, const M* mean, const M* variance,
    const V* weight, const V* bias, In* out) {
    const Index step = gridDim.x * static_cast<Index>(blockDim.x);
    for (Index p = blockIdx.x * static_cast<Index>(blockDim.x) + threadIdx.x; p < packs; p += step) {
        Pack<In, Width> pack = reinterpret_cast<const Pack<In, Width>*>(in)[p];
        const ChannelOf<Kind, Index> channel(channels, inner, p * Width);
#pragma unroll
        for (int i = 0; i < Width; ++i) {
            const Index c = channel(i);
            const W scale = rsqrt(W(to_compute(variance[c])) + static_cast<W>(eps)) * at_or(weight, c, W(1));
            const W x = W(to_compute(pack.items[i])) - W(to_compute(mean[c]));
            // Left to itself, the compiler makes one instruction of some elements' product and sum, and two of others'.
            pack.items[i] = to_element<In>(fma(x, scale, at_or(bias, c, W(0))));
        }
        reinterpret_cast<Pack<In, Width>*>(out)[p] = pack;
    }
}

// `share` is 1 over the elements of a channel; `total` and `along` are the sums of the gradient, and of it times
// the normalised input. Without Training mean and variance are constants.
template <bool Training, class W, Channels Kind, int Width, class Index, class Grad, class In, class M, class V>
__device__ void apply_channels_backward(
    Index packs, Index channels, Index inner, double eps, double share, const Grad* grad, const In* in, const M* mean,
    const M* variance, const V* weight, const W* total, const W* along, In* out) {
    const Index step = gridDim.x * static_cast<Index>(blockDim.x);
    for (Index p = blockIdx.x * static_cast<Index>(blockDim.x) + threadIdx.x; p < packs; p += step) {
        const Pack<Grad, Width> grads = reinterpret_cast<const Pack<Grad, Width>*>(grad)[p];
        Pack<In, Width> pack;
        if constexpr (Training) pack = reinterpret_cast<const Pack<In, Width>*>(in)[p];
        const ChannelOf<Kind, Index> channel(channels, inner, p * Width);
#pragma unroll
        for (int i = 0; i < Width; ++i) {
            const Index c = channel(i);
            const W scale = rsqrt(W(to_compute(variance[c])) + static_cast<W>(eps));
            W g = to_compute(grads.items[i]);
            if constexpr (Training) {
                const W x = (W(to_compute(pack.items[i])) - W(to_compute(mean[c]))) * scale;
                g -= (total[c] + x * along[c]) * static_cast<W>(share);
            }
            pack.items[i] = to_element<In>(g * scale * at_or(weight, c, W(1)));
        }
        reinterpret_cast<Pack<In, Width>*>(out)[p] = pack;
    }
}
