// Reductions over any dimensions of operands of any strides: for every row of values that go together, the values
// are taken into a state (reducers.cuh), states of threads are combined, and the result is stored.
//
// What a kernel is made for stands in its text: `Elements` loads operands and maps them to the value that is
// reduced, so that sum(a * b) reads a and b once and stores nothing between; `Results` stores what is made of the
// final state. `Rows` says where everything lies: the kept dimensions count the rows, the reduced ones the
// elements of a row. Two ways to lay out the work, by which dimension neighbours in memory belong to:
//
//   rows      to a reduced one. `Along` threads share a row, from one (short rows) over a warp, which exchanges by
//             shuffles, to the block, whose warps meet in shared memory. Loads are packs of up to 16 bytes: in one
//             contiguous run wherever it starts (ragged: the ends element by element), or in several dimensions
//             where all sizes and strides allow it. Otherwise they are elements.
//   columns   to a kept one. Neighbouring threads take neighbouring packs of rows, `Across` of them, so that loads
//             are packs too and lie side by side; `Along` threads share a pack and meet in shared memory.
//
// The larger inputs decide. One that is stretched along the packs of the others is loaded once for each pack.
//
// Inputs may be read by an index: such a table has no strides where the index goes, and `Elements::look_up` adds to a pack's
// place in it what the index says that `Elements::load_indices` has read. Along a pack an index stands still.
//
// A thread has `unroll` loads in flight. It takes values into a few states in turn and folds those into one now
// and then, so that no float sum grows by more than a few dozen additions before it is combined.
//
// Few long rows are cut into `chunks`, each for a block of its own, whose states go to scratch memory; a second
// kernel (fold) combines them. How work is cut depends on the layout alone, and there are no atomics, so results
// are the same in every run and on every device.

#pragma once
#include "pointwise.cuh"
#include "reducers.cuh"

constexpr int unroll = 4;      // loads in flight
constexpr int states = 4;      // of a thread that shares a row, but one of a reducer that takes packs
constexpr int additions = 16;  // rounds of `unroll` loads before states are folded

template <int Kept, int Reduced, int Outputs, int Inputs, class Index>
struct Rows {
    typedef Index Number;
    static constexpr int outputs = Outputs, inputs = Inputs;
    Geometry<Kept, Outputs + Inputs, Index> kept;
    Geometry<Reduced, Inputs, Index> reduced;
    Index rows, length, chunks, piece;  // piece: elements of a chunk
};

// Several reductions of one launch, of which a block does the one with the number of its second coordinate.
template <class Layout, int Operands, int Most>
struct Reductions {
    struct {
        void* address[Operands];
        unsigned long long scratch;  // from the beginning of the launch's
        Layout layout;
    } task[Most];
};

template <int Width, class T>
__device__ inline Pack<T, Width> pack_at(const T* from) { return *reinterpret_cast<const Pack<T, Width>*>(from); }

// A pack of an input that is stretched along it.
template <int Width, class T>
__device__ inline Pack<T, Width> same_at(const T* from) {
    Pack<T, Width> result;
    const T item = *from;
#pragma unroll
    for (int i = 0; i < Width; ++i) result.item[i] = item;
    return result;
}

// Elements from an address to the next one that a pack may have.
template <int Width, class T>
__device__ inline int to_boundary(const T* from) {
    return -static_cast<int>(reinterpret_cast<unsigned long long>(from) / sizeof(T)) & (Width - 1);
}

// What Elements makes of the operands.
template <class Elements>
using ValueOf = decltype(static_cast<const Elements*>(nullptr)->value(
    *static_cast<const typename Elements::template Items<1>*>(nullptr), 0));

// Adds the position of the row-major index `at` to the offset of each operand.
template <int Rank, int Operands, class Index>
__device__ inline void add_place(
    const Geometry<Rank, Operands, Index>& geometry, Index at, Index (&offset)[Operands]) {
#pragma unroll
    for (int d = Rank - 1; d >= 0; --d) {
        const Index outer = d ? at / geometry.size[d] : 0;
        const Index coordinate = at - outer * geometry.size[d];
#pragma unroll
        for (int k = 0; k < Operands; ++k) offset[k] += coordinate * geometry.stride[k][d];
        at = outer;
    }
}

// Where the inputs of a row start.
template <class L>
__device__ inline void start_of(const L& layout, typename L::Number row, typename L::Number (&offset)[L::inputs]) {
    typename L::Number all[L::outputs + L::inputs] = {};
    add_place(layout.kept, row, all);
#pragma unroll
    for (int k = 0; k < L::inputs; ++k) offset[k] = all[L::outputs + k];
}

// The states of one thread, Count side by side, and what was folded before.
template <class Reducer, int Count>
struct Gathered {
    typename Reducer::State current[Count], folded[Count];
    int left = additions;

    __device__ Gathered() {
#pragma unroll
        for (int i = 0; i < Count; ++i) current[i] = folded[i] = Reducer::start();
    }
    __device__ void fold() {
#pragma unroll
        for (int i = 0; i < Count; ++i) {
            folded[i] = Reducer::combine(folded[i], current[i]);
            current[i] = Reducer::start();
        }
        left = additions;
    }
    __device__ void round() {
        if (--left == 0) fold();
    }
    __device__ typename Reducer::State all() {
        fold();
#pragma unroll
        for (int i = 1; i < Count; ++i) folded[0] = Reducer::combine(folded[0], folded[i]);
        return folded[0];
    }
};

// Whether a reducer takes packs.
template <class Reducer, class = void>
constexpr bool takes_packs = false;
template <class Reducer>
constexpr bool takes_packs<Reducer, decltype(void(Reducer::packs))> = Reducer::packs;

// Takes the elements of `Count` packs of a thread, the first of which stand at `position` and `step` from each other: all
// into one state where the reducer takes packs, or into the states in turn.
template <int Width, int Count, class Index, class Reducer, int States, class Elements, class Items>
__device__ inline void take_items(
    Gathered<Reducer, States>& gathered, const Elements& elements, const Items (&items)[Count], Index position, Index step) {
    if constexpr (Width > 1 && takes_packs<Reducer>) {
        ValueOf<Elements> values[Count * Width];
#pragma unroll
        for (int i = 0; i < Count * Width; ++i) values[i] = elements.value(items[i / Width], i % Width);
        const auto at = [&](int i) { return position + static_cast<Index>(i / Width) * step + i % Width; };
        Reducer::take_pack(gathered.current[0], values, at);
    } else {
#pragma unroll
        for (int u = 0; u < Count; ++u) {
#pragma unroll
            for (int i = 0; i < Width; ++i) {
                Reducer::take(
                    gathered.current[(u * Width + i) % States], elements.value(items[u], i), position + u * step + i);
            }
        }
    }
}

// Loads `Count` packs, the place of each of which in every input is `offsets_of(number)`. All indices are read before the first
// is looked up.
template <int Width, int Count, class Elements, class OffsetsOf>
__device__ inline void load_packs(
    const Elements& elements, typename Elements::template Items<Width> (&items)[Count], const OffsetsOf& offsets_of) {
    if constexpr (Elements::lookups > 0) {
        decltype(offsets_of(0)) offsets[Count];
        long long index[Count][Elements::lookups];
#pragma unroll
        for (int u = 0; u < Count; ++u) {
            offsets[u] = offsets_of(u);
            elements.load_indices(offsets[u].at, index[u]);
        }
#pragma unroll
        for (int u = 0; u < Count; ++u) {
            elements.look_up(index[u], offsets[u].at);
            items[u] = elements.template load<Width>(offsets[u].at);
        }
    } else {
#pragma unroll
        for (int u = 0; u < Count; ++u) items[u] = elements.template load<Width>(offsets_of(u).at);
    }
}

// Packs first, first + step, ... below end, at the offsets that `offsets_of` tells. The elements of a pack stand at
// positions pack * Width + shift and following.
template <int Width, class Index, class Reducer, int States, class Elements, class OffsetsOf>
__device__ inline void take_packs(
    Gathered<Reducer, States>& gathered, const Elements& elements, Index first, Index end, Index step, Index shift,
    const OffsetsOf& offsets_of) {
    Index pack = first;
#pragma unroll 1
    for (; pack + (unroll - 1) * step < end; pack += unroll * step) {
        typename Elements::template Items<Width> items[unroll];
        load_packs<Width>(elements, items, [&](int u) { return offsets_of(pack + u * step); });
        take_items<Width, unroll, Index>(gathered, elements, items, pack * Width + shift, step * Width);
        gathered.round();
    }
    if constexpr (Elements::lookups > 0) {
        // Each load waits for that of an index: those that are left wait together, behind the end for the last pack.
        if (pack >= end) return;
        typename Elements::template Items<Width> items[unroll - 1];
        load_packs<Width>(elements, items, [&](int u) { return offsets_of(min(pack + u * step, end - 1)); });
#pragma unroll
        for (int u = 0; u < unroll - 1; ++u, pack += step) {
            const typename Elements::template Items<Width> one[1] = {items[u]};
            if (pack < end) take_items<Width, 1, Index>(gathered, elements, one, pack * Width + shift, 0);
        }
        return;
    }
#pragma unroll 1
    for (; pack < end; pack += step) {
        typename Elements::template Items<Width> items[1];
        load_packs<Width>(elements, items, [&](int) { return offsets_of(pack); });
        take_items<Width, 1, Index>(gathered, elements, items, pack * Width + shift, 0);
    }
}

// The same of single elements, of which there are fewer than a pack has: one after the other, in little code.
template <class Index, class Reducer, int States, class Elements, class OffsetsOf>
__device__ inline void take_few(
    Gathered<Reducer, States>& gathered, const Elements& elements, Index first, Index end, Index step, Index shift,
    const OffsetsOf& offsets_of) {
#pragma unroll 1
    for (Index at = first; at < end; at += step) {
        const auto items = elements.template load<1>(offsets_of(at).at);
        Reducer::take(gathered.current[0], elements.value(items, 0), at + shift);
    }
}

template <class L>
struct Offsets {
    typename L::Number at[L::inputs];
    Offsets() = default;
    __device__ Offsets(const Offsets& base, typename L::Number more) {
#pragma unroll
        for (int k = 0; k < L::inputs; ++k) at[k] = base.at[k] + more;
    }
    __device__ explicit Offsets(const L& layout, typename L::Number row) { start_of(layout, row, at); }
};

// Elements first to end of a row, by the reduced dimensions; both are multiples of Width.
template <int Width>
struct Strided {
    template <class Reducer, int States, class L, class Elements>
    static __device__ void gather(
        Gathered<Reducer, States>& gathered, const L& layout, const Elements& elements, const Offsets<L>& row,
        typename L::Number first, typename L::Number end, int thread, int threads) {
        typedef typename L::Number Index;
        const auto offsets = [&](Index pack) {
            Offsets<L> found = row;
            add_place(layout.reduced, pack * Width, found.at);
            return found;
        };
        take_packs<Width, Index>(gathered, elements, first / Width + thread, end / Width, threads, 0, offsets);
    }
};

// The same in one contiguous run, which may start and end anywhere: packs where the addresses of all operands are
// multiples of their size together, the rest element by element.
template <int Width>
struct Ragged {
    template <class Reducer, int States, class L, class Elements>
    static __device__ void gather(
        Gathered<Reducer, States>& gathered, const L&, const Elements& elements, const Offsets<L>& row,
        typename L::Number first, typename L::Number end, int thread, int threads) {
        typedef typename L::Number Index;
        static_assert(Elements::lookups == 0, "nvrtc_kernels.reduction_work has inputs that are read by an index walked in steps");
        const Offsets<L> start(row, first);
        const int found = elements.template before_pack<Width>(start.at);
        const Index count = end - first, head = found < 0 || found > count ? count : found;
        const Index packs = (count - head) / Width, tail = head + packs * Width;
        const auto element = [&](Index i) { return Offsets<L>(start, i); };
        const auto pack = [&](Index i) { return Offsets<L>(start, head + i * Width); };
        take_few<Index>(gathered, elements, thread, head, threads, first, element);
        take_packs<Width, Index>(gathered, elements, thread, packs, threads, first + head, pack);
        take_few<Index>(gathered, elements, tail + thread, count, threads, first, element);
    }
};

// Whether a reducer combines states of lanes at once.
template <class Reducer, class = void>
constexpr bool combines_lanes = false;
template <class Reducer>
constexpr bool combines_lanes<Reducer, decltype(void(Reducer::lanes))> = Reducer::lanes;

// What `Width` neighbouring lanes have, combined; the first of them has the result.
template <class Reducer, int Width>
__device__ inline typename Reducer::State combine_lanes(typename Reducer::State state) {
    if constexpr (Width > 1 && combines_lanes<Reducer>) {
        return Reducer::template combine_lanes<Width>(state);
    } else {
#pragma unroll
        for (int by = Width / 2; by; by /= 2) state = Reducer::combine(state, shuffle_down(state, by, Width));
        return state;
    }
}

// What `Along` neighbouring threads have, combined; the first of them has the result. All threads of the block
// take part, in several teams of up to a warp, or in one.
template <class Reducer, int Along>
__device__ inline typename Reducer::State combine_team(typename Reducer::State state) {
    typedef typename Reducer::State State;
    state = combine_lanes<Reducer, Along < 32 ? Along : 32>(state);
    if constexpr (Along > 32) {
        constexpr int warps = Along / 32;
        __shared__ State cells[warps];
        __syncthreads();  // what the row before left has been read
        if (threadIdx.x % 32 == 0) cells[threadIdx.x / 32] = state;
        __syncthreads();
        if (threadIdx.x < 32) {
            state = combine_lanes<Reducer, warps>(cells[threadIdx.x % warps]);
        }
    }
    return state;
}

// Where states go: to the results, or to scratch memory for the fold.
template <class Results>
struct Final {
    Results results;
    template <class L, class State>
    __device__ void put(const L& layout, typename L::Number row, typename L::Number, const State& state) const {
        typename L::Number at[L::outputs + L::inputs] = {};
        add_place(layout.kept, row, at);
        results.store(state, static_cast<long long>(layout.length), at);
    }
};

template <class State>
struct Partial {
    static_assert(sizeof(State) <= 32, "nvrtc_kernels.reduction asks for 32 bytes of scratch for each state");
    State* cells;
    template <class L>
    __device__ void put(const L& layout, typename L::Number row, typename L::Number chunk, const State& state) const {
        cells[row * layout.chunks + chunk] = state;
    }
};

template <class Reducer, int Along, class Walk, class L, class Elements, class Sink>
__device__ inline void reduce_rows(const L& layout, const Elements& elements, const Sink& sink) {
    typedef typename L::Number Index;
    const int across = blockDim.x / Along, thread = threadIdx.x % Along;
    const Index jobs = (layout.rows + across - 1) / across * layout.chunks;
#pragma unroll 1
    for (Index job = blockIdx.x; job < jobs; job += gridDim.x) {
        const Index group = job / layout.chunks, chunk = job - group * layout.chunks;
        const Index row = group * across + threadIdx.x / Along;
        Gathered<Reducer, takes_packs<Reducer> ? 1 : states> gathered;
        if (row < layout.rows) {
            const Index first = chunk * layout.piece, end = min(first + layout.piece, layout.length);
            Walk::gather(gathered, layout, elements, Offsets<L>(layout, row), first, end, thread, Along);
        }
        const auto state = combine_team<Reducer, Along>(gathered.all());
        if (thread == 0 && row < layout.rows) sink.put(layout, row, chunk, state);
    }
}

// Halves of the threads along the columns hand their states to the other half.
template <class Reducer, int Along, int Across, int Width>
__device__ inline void combine_columns(typename Reducer::State (&state)[Width], int x, int y) {
    if constexpr (Along > 1) {
        __shared__ typename Reducer::State cells[Width][Along / 2 * Across];
#pragma unroll
        for (int half = Along / 2; half; half /= 2) {
            __syncthreads();
            if (y >= half && y < 2 * half) {
#pragma unroll
                for (int i = 0; i < Width; ++i) cells[i][(y - half) * Across + x] = state[i];
            }
            __syncthreads();
            if (y < half) {
#pragma unroll
                for (int i = 0; i < Width; ++i) state[i] = Reducer::combine(state[i], cells[i][y * Across + x]);
            }
        }
    }
}

template <class Reducer, int Along, int Across, int Width, class L, class Elements, class Sink>
__device__ inline void reduce_columns(const L& layout, const Elements& elements, const Sink& sink) {
    typedef typename L::Number Index;
    const int x = threadIdx.x % Across, y = threadIdx.x / Across;
    const Index packs = layout.rows / Width, groups = (packs + Across - 1) / Across, jobs = groups * layout.chunks;
#pragma unroll 1
    for (Index job = blockIdx.x; job < jobs; job += gridDim.x) {
        const Index chunk = job / groups, pack = (job - chunk * groups) * Across + x, row = pack * Width;
        Gathered<Reducer, Width> gathered;
        if (pack < packs) {
            const Offsets<L> base(layout, row);
            const Index first = chunk * layout.piece, end = min(first + layout.piece, layout.length);
            const auto offsets_of = [&](Index position) {
                Offsets<L> offsets = base;
                add_place(layout.reduced, position, offsets.at);
                return offsets;
            };
            const auto take = [&](const auto& items, Index position) {
#pragma unroll
                for (int i = 0; i < Width; ++i) Reducer::take(gathered.current[i], elements.value(items, i), position);
            };
            Index position = first + y;
#pragma unroll 1
            for (; position + (unroll - 1) * Along < end; position += unroll * Along) {
                typename Elements::template Items<Width> items[unroll];
                load_packs<Width>(elements, items, [&](int u) { return offsets_of(position + u * Along); });
#pragma unroll
                for (int u = 0; u < unroll; ++u) take(items[u], position + u * Along);
                gathered.round();
            }
#pragma unroll 1
            for (; position < end; position += Along) {
                typename Elements::template Items<Width> items[1];
                load_packs<Width>(elements, items, [&](int) { return offsets_of(position); });
                take(items[0], position);
            }
        }
        gathered.fold();
        combine_columns<Reducer, Along, Across, Width>(gathered.folded, x, y);
        if (y == 0 && pack < packs) {
#pragma unroll
            for (int i = 0; i < Width; ++i) sink.put(layout, row + i, chunk, gathered.folded[i]);
        }
    }
}

// Combines the states that the chunks of each row left.
template <class Reducer, int Along, class L, class Sink>
__device__ inline void fold_chunks(const L& layout, const typename Reducer::State* cells, const Sink& sink) {
    typedef typename L::Number Index;
    const int across = blockDim.x / Along, thread = threadIdx.x % Along;
    const Index groups = (layout.rows + across - 1) / across;
#pragma unroll 1
    for (Index group = blockIdx.x; group < groups; group += gridDim.x) {
        const Index row = group * across + threadIdx.x / Along;
        typename Reducer::State state = Reducer::start();
        if (row < layout.rows) {
#pragma unroll 4
            for (Index chunk = thread; chunk < layout.chunks; chunk += Along) {
                state = Reducer::combine(state, cells[row * layout.chunks + chunk]);
            }
        }
        state = combine_team<Reducer, Along>(state);
        if (thread == 0 && row < layout.rows) sink.put(layout, row, Index(0), state);
    }
}
