// Rows of contiguous (rows, n) arrays: a team of `Along` threads has a row, and each of its threads keeps
// Packs packs of Width neighbouring elements in registers, so that a row is read once however often it is gone
// through. Teams of up to a warp exchange by shuffles, and several of them share a block; a larger team is a block
// of its own.

#pragma once

template <class T, int Width>
struct alignas(sizeof(T) * Width) Pack {
    T items[Width];
};

struct Larger {
    // A NaN wins.
    template <class T>
    __device__ T operator()(T a, T b) const { return a != a || a > b ? a : b; }
};
struct Plus {
    template <class T>
    __device__ T operator()(T a, T b) const { return a + b; }
};

template <int Threads, int Along>
struct RowTeam {
    static constexpr int rows = Threads / Along;  // of a block
    int rank;                                    // of this thread in its team
    long long row;

    __device__ RowTeam()
        : rank(threadIdx.x % Along), row(static_cast<long long>(blockIdx.x) * rows + threadIdx.x / Along) {}

    // The values of all threads of the team combined; every thread of the block takes part.
    template <class T, class Combine>
    __device__ T all(T own, Combine combine) const {
        constexpr int width = Along < 32 ? Along : 32;
#pragma unroll
        for (int by = width / 2; by > 0; by /= 2) own = combine(own, __shfl_xor_sync(~0u, own, by, width));
        if constexpr (Along > 32) {
            static_assert(rows == 1, "a team of several warps is the whole block");
            __shared__ T cells[Along / 32];
            __syncthreads();  // the round before has been read
            if (rank % 32 == 0) cells[rank / 32] = own;
            __syncthreads();
            own = cells[0];
#pragma unroll
            for (int i = 1; i < Along / 32; ++i) own = combine(own, cells[i]);
        }
        return own;
    }
};

// The elements of a row that a thread has, converted to W; `rest` stands for those behind the end of the row.
template <class W, int Along, int Packs, int Width>
struct RowPart {
    W items[Packs * Width];

    template <class T>
    __device__ void load(const T* row, int n, int rank, W rest) {
#pragma unroll
        for (int p = 0; p < Packs; ++p) {
            const int at = (p * Along + rank) * Width;
            if (at < n) {
                const Pack<T, Width> pack = *reinterpret_cast<const Pack<T, Width>*>(row + at);
#pragma unroll
                for (int i = 0; i < Width; ++i) items[p * Width + i] = to_compute(pack.items[i]);
            } else {
#pragma unroll
                for (int i = 0; i < Width; ++i) items[p * Width + i] = rest;
            }
        }
    }

    template <class T>
    __device__ void store(T* row, int n, int rank) const {
#pragma unroll
        for (int p = 0; p < Packs; ++p) {
            const int at = (p * Along + rank) * Width;
            if (at >= n) return;
            Pack<T, Width> pack;
#pragma unroll
            for (int i = 0; i < Width; ++i) pack.items[i] = to_element<T>(items[p * Width + i]);
            *reinterpret_cast<Pack<T, Width>*>(row + at) = pack;
        }
    }
};
