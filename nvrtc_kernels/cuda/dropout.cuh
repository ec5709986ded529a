// Dropout: out = kept ? x * scale + shift : otherwise, for contiguous elements.
//
// No mask is stored: whether an element is kept follows from its number, the seed and the number of the call
// (philox.cuh), so that the gradient, which is the same kernel, works it out again.
//
//   elements  element i has word i of the call; a thread has the four elements of a block of words
//   features  `inner` neighbouring elements are kept or dropped together: element i has word i / inner

#pragma once
#include "philox.cuh"
#include "rows.cuh"

typedef unsigned long long Count;

template <class W>
struct Dropout {
    Count seed, call;
    Count below;  // words under this keep their element; at most 2^32
    W scale, shift, otherwise;
    __device__ W operator()(W x, unsigned int word) const { return word < below ? x * scale + shift : otherwise; }
};

template <class W, class In>
__device__ void dropout_elements(Dropout<W> dropout, Count count, bool wide_access, const In* in, In* out) {
    find_call(dropout.seed, dropout.call);
    const Count step = static_cast<Count>(gridDim.x) * blockDim.x;
    for (Count block = static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x; block * 4 < count; block += step) {
        const Words4 words = philox(dropout.seed, dropout.call, block);
        const Count first = block * 4;
        if (wide_access && first + 4 <= count) {
            Pack<In, 4> pack = *reinterpret_cast<const Pack<In, 4>*>(in + first);
#pragma unroll
            for (int i = 0; i < 4; ++i) pack.items[i] = to_element<In>(dropout(to_compute(pack.items[i]), words.word[i]));
            *reinterpret_cast<Pack<In, 4>*>(out + first) = pack;
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (first + i < count) out[first + i] = to_element<In>(dropout(to_compute(in[first + i]), words.word[i]));
        }
    }
}

template <class W, class In>
__device__ void dropout_features(Dropout<W> dropout, Count count, Count inner, const In* in, In* out) {
    find_call(dropout.seed, dropout.call);
    const Count step = static_cast<Count>(gridDim.x) * blockDim.x;
    for (Count at = static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += step) {
        const Count feature = at / inner;
        const Words4 words = philox(dropout.seed, dropout.call, feature / 4);
        const int component = feature % 4;
        const unsigned int word = component == 0 ? words.word[0] : component == 1 ? words.word[1] : component == 2 ? words.word[2] : words.word[3];
        out[at] = to_element<In>(dropout(to_compute(in[at]), word));
    }
}
