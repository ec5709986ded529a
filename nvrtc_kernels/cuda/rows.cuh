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
                to_compute<Width>(pack.items, items + p * Width);
            } else {
#pragma unroll
                for (int i = 0; i < Width; ++i) items[p * Width + i] = rest;
            }
        }
    }

    // Of a row that is computed: see fused_rows.cuh.
    template <class Rows, class = typename Rows::Element>
    __device__ void load(const Rows& row, int n, int rank, W rest) {
#pragma unroll
        for (int p = 0; p < Packs; ++p) {
            const int at = (p * Along + rank) * Width;
            if (at < n) {
                row.template load<Width>(at, items + p * Width);
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

    // To what goes on with the row: see fused_rows.cuh.
    template <class Rows, class = typename Rows::Element>
    __device__ void store(const Rows& row, int n, int rank) const {
#pragma unroll
        for (int p = 0; p < Packs; ++p) {
            const int at = (p * Along + rank) * Width;
            if (at >= n) return;
            row.template store<Width>(at, items + p * Width);
        }
    }
};

// Type of the elements at an address, or of what stands for one.
template <class Rows>
struct ElementOf {
    typedef typename Rows::Element Type;
};
template <class T>
struct ElementOf<T*> {
    typedef T Type;
};

// A row that may start anywhere: elements up to the first pack whose address is a multiple of its size, the packs, and the
// elements behind them. Rows of all operands start at the same element, and `aligned` says whether element 0 of each is
// aligned; otherwise there are no packs.
template <int Width>
struct RaggedRow {
    long long head, packs, n;

    __device__ RaggedRow(long long start, long long n, bool aligned)
        : head(aligned ? min(n, -start & (Width - 1)) : n), packs((n - head) / Width), n(n) {}
    __device__ long long pack(long long p) const { return head + p * Width; }
    __device__ long long singles() const { return n - packs * Width; }
    __device__ long long single(long long i) const { return i < head ? i : i + packs * Width; }
};

template <int Width, class T>
__device__ inline bool is_aligned(const T* address) {
    return reinterpret_cast<unsigned long long>(address) % sizeof(Pack<T, Width>) == 0;
}

template <int Width, class T>
__device__ inline Pack<T, Width> pack_of(const T* from) { return *reinterpret_cast<const Pack<T, Width>*>(from); }

template <class T>
__device__ inline T element_of(const T* from, long long at) { return from[at]; }

// The same of rows that are computed: see fused_rows.cuh. What others need besides is stored with packs only.
template <int Width, class Rows, class = typename Rows::Element>
__device__ inline bool is_aligned(const Rows&) { return true; }

template <int Width, class Rows, class Element = typename Rows::Element>
__device__ inline Pack<Element, Width> pack_of(const Rows& row) {
    decltype(to_compute(Element())) items[Width];
    row.template load<Width>(0, items);
    Pack<Element, Width> result;
#pragma unroll
    for (int i = 0; i < Width; ++i) result.items[i] = to_element<Element>(items[i]);
    return result;
}

template <class Rows, class Element = typename Rows::Element>
__device__ inline Element element_of(const Rows& row, long long at) {
    decltype(to_compute(Element())) items[1];
    (row + at).template load<1, false>(0, items);
    return to_element<Element>(items[0]);
}

template <int N>
struct Constant {
    static constexpr int value = N;
};

// take(Constant<N>(), Constant<K>(), packs, at, step) for K packs of N elements, the first at `at` and the others `step` elements
// apart, which load(Constant<N>(), at) gave. A thread takes `Unroll` packs of Width, as long as there are, then one at a time,
// and at last single elements.
template <int Threads, int Unroll, int Width, class Load, class Take>
__device__ inline void over_row(const RaggedRow<Width>& row, int rank, const Load& load, const Take& take) {
    constexpr int step = Threads * Width;
    const long long end = row.pack(row.packs);
    long long at = row.pack(rank);
#pragma unroll 1
    for (; at + (Unroll - 1) * step < end; at += Unroll * step) {
        decltype(load(Constant<Width>(), at)) packs[Unroll];
#pragma unroll
        for (int u = 0; u < Unroll; ++u) packs[u] = load(Constant<Width>(), at + u * step);
        take(Constant<Width>(), Constant<Unroll>(), packs, at, step);
    }
#pragma unroll 1
    for (; at < end; at += step) {
        const decltype(load(Constant<Width>(), at)) packs[1] = {load(Constant<Width>(), at)};
        take(Constant<Width>(), Constant<1>(), packs, at, step);
    }
#pragma unroll 1
    for (long long i = rank; i < row.singles(); i += Threads) {
        const decltype(load(Constant<1>(), at)) packs[1] = {load(Constant<1>(), row.single(i))};
        take(Constant<1>(), Constant<1>(), packs, row.single(i), step);
    }
}

// As words that the hardware has: the compiler would split some stores of packs into elements.
template <class T, int N, int K>
__device__ inline void store_packs(T* to, int step, const Pack<T, N> (&packs)[K]) {
#pragma unroll
    for (int u = 0; u < K; ++u, to += step) {
        if constexpr (sizeof(Pack<T, N>) == 16) {
            uint4 word;
            memcpy(&word, &packs[u], 16);
            __stwb(reinterpret_cast<uint4*>(to), word);
        } else {
            *reinterpret_cast<Pack<T, N>*>(to) = packs[u];
        }
    }
}

template <class Rows, int N, int K, class T = typename Rows::Element>
__device__ inline void store_packs(const Rows& to, int step, const Pack<T, N> (&packs)[K]) {
#pragma unroll
    for (int u = 0; u < K; ++u) {
        decltype(to_compute(T())) items[N];
#pragma unroll
        for (int i = 0; i < N; ++i) items[i] = to_compute(packs[u].items[i]);
        (to + u * step).template store<N>(0, items);
    }
}

template <class W, class T, int N, int K>
__device__ inline void widen(W (&wide)[K * N], const Pack<T, N> (&packs)[K]) {
#pragma unroll
    for (int k = 0; k < K; ++k) to_compute<N>(packs[k].items, wide + k * N);
}
