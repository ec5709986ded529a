// Inclusive scans of many lines at once: out[i] = in[0] op in[1] op ... op in[i] along one dimension.
//
// A line is what one scan runs over; `Lines` says where each lies, with any strides. A block of 256 threads
// takes `Across` lines, with `Along` threads for each, and goes along them in tiles of `Along * Items`
// elements, carrying the result of the tiles before:
//
//   rows     neighbouring threads take neighbouring pieces of a line, which lie together in memory: loads and
//            stores of 16 bytes where the address allows it, and a scan over threads by warp shuffles (for
//            Along = 256 the eight warps meet in shared memory). Short lines take fewer threads, down to 1.
//   columns  neighbouring threads take neighbouring lines, whose elements lie together in memory. With
//            Along = 1 nothing is exchanged; with Along = 8 the pieces of a line meet in shared memory.
//
// Few long lines are cut into `chunks`, each for a block of its own. In rows a block keeps its chunk in registers, so that
// memory is read once and written once, and looks back at the totals that other blocks have published (scan_chunks). What
// it combines is the totals of the chunks before in its group of 32, of the groups before in their group of 32, and of
// the groups of groups before: always the same ones in the same order, so that results are the same in every run, which
// a look-back over whatever has been published does not give for floating point. In columns scan_totals leaves the total
// of every chunk, and the blocks of scan_lines start from the totals before theirs, which they sum up themselves.

#pragma once
#include "pointwise.cuh"
#include "team.cuh"

// Where lines lie. Operands: input, output and, for scans that tell positions, their indices.
template <int Rank, int Operands, class Index>
struct Lines {
    typedef Index Number;
    Geometry<Rank, Operands, Index> geometry;  // the first element of each line
    Index step[Operands];                      // from one element of a line to the next
    Index rows, length;                        // lines, and elements of each
    Index chunks, piece;                       // pieces that a line is cut into, and elements of each

    __device__ void start(Index row, Index (&offset)[Operands]) const {
#pragma unroll
        for (int k = 0; k < Operands; ++k) offset[k] = 0;
#pragma unroll
        for (int d = Rank - 1; d >= 0; --d) {
            const Index outer = d ? row / geometry.size[d] : 0;
            const Index coordinate = row - outer * geometry.size[d];
#pragma unroll
            for (int k = 0; k < Operands; ++k) offset[k] += coordinate * geometry.stride[k][d];
            row = outer;
        }
    }
};

// A thread's elements of a tile, in the operation's states; what lies past the end is the identity.
template <class Op, class Shape, class In, class Index>
__device__ inline void load_states(
    const In* line, Index step, Index at, Index end, typename Op::State (&state)[Shape::items]) {
    constexpr int items = Shape::items;
    constexpr int width = 16 / sizeof(In) < items ? 16 / sizeof(In) : items;
    typedef Pack<In, width> Wide;
    if constexpr (!Shape::columns && width > 1) {
        if (step == 1 && at + items <= end && reinterpret_cast<unsigned long long>(line + at) % sizeof(Wide) == 0) {
            Wide pack[items / width];
#pragma unroll
            for (int p = 0; p < items / width; ++p) pack[p] = reinterpret_cast<const Wide*>(line + at)[p];
#pragma unroll
            for (int i = 0; i < items; ++i) state[i] = Op::from(pack[i / width].item[i % width], at + i);
            return;
        }
    }
#pragma unroll
    for (int i = 0; i < items; ++i) state[i] = at + i < end ? Op::from(line[(at + i) * step], at + i) : Op::identity();
}

template <class Shape, class T, class Index>
__device__ inline void store_items(T* line, Index step, Index at, Index end, const T (&item)[Shape::items]) {
    constexpr int items = Shape::items;
    constexpr int width = 16 / sizeof(T) < items ? 16 / sizeof(T) : items;
    typedef Pack<T, width> Wide;
    if constexpr (!Shape::columns && width > 1) {
        if (step == 1 && at + items <= end && reinterpret_cast<unsigned long long>(line + at) % sizeof(Wide) == 0) {
#pragma unroll
            for (int p = 0; p < items / width; ++p) {
                Wide pack;
#pragma unroll
                for (int i = 0; i < width; ++i) pack.item[i] = item[p * width + i];
                reinterpret_cast<Wide*>(line + at)[p] = pack;
            }
            return;
        }
    }
#pragma unroll
    for (int i = 0; i < items; ++i) {
        if (at + i < end) line[(at + i) * step] = item[i];
    }
}

// Totals lie so that the threads of a block read neighbours.
template <class Shape, class L>
__device__ inline typename L::Number total_place(const L& lines, typename L::Number row, typename L::Number chunk) {
    return Shape::columns ? chunk * lines.rows + row : row * lines.chunks + chunk;
}

template <class Op, class Shape, int Rank, int Operands, class Index, class In>
__device__ inline void scan_totals(
    const Lines<Rank, Operands, Index>& lines, const In* in, typename Op::State* totals) {
    typedef typename Op::State State;
    const Team<Op, Shape> team;
    const Index groups = (lines.rows + Shape::across - 1) / Shape::across, jobs = groups * lines.chunks;
#pragma unroll 1
    for (Index job = blockIdx.x; job < jobs; job += gridDim.x) {
        const Index group = job / lines.chunks, chunk = job - group * lines.chunks;
        const Index row = group * Shape::across + team.row;
        Index offset[Operands];
        lines.start(row < lines.rows ? row : 0, offset);
        const Index end = row < lines.rows ? min((chunk + 1) * lines.piece, lines.length) : 0;
        State mine = Op::identity(), total;
        for (Index at = chunk * lines.piece + team.rank * Shape::items; at < end; at += Shape::tile) {
            State state[Shape::items];
            load_states<Op, Shape>(in + offset[0], lines.step[0], at, end, state);
#pragma unroll
            for (int i = 0; i < Shape::items; ++i) mine = Op::combine(mine, state[i]);
        }
        team.scan(mine, total);
        if (row < lines.rows && team.rank == 0) totals[total_place<Shape>(lines, row, chunk)] = total;
    }
}

template <class Op, class Shape, int Rank, int Operands, class Index, class In, class Out>
__device__ inline void scan_lines(
    const Lines<Rank, Operands, Index>& lines, const typename Op::State* totals, const In* in, Out* out,
    long long* indices) {
    typedef typename Op::State State;
    const Team<Op, Shape> team;
    const Index groups = (lines.rows + Shape::across - 1) / Shape::across, jobs = groups * lines.chunks;
#pragma unroll 1
    for (Index job = blockIdx.x; job < jobs; job += gridDim.x) {
        const Index group = job / lines.chunks, chunk = job - group * lines.chunks;
        const Index row = group * Shape::across + team.row;
        const bool real = row < lines.rows;
        Index offset[Operands];
        lines.start(real ? row : 0, offset);
        State carry = Op::identity(), total;
        for (Index first = 0; first < chunk; first += Shape::along) {
            const bool before = real && first + team.rank < chunk;
            team.scan(before ? totals[total_place<Shape>(lines, row, first + team.rank)] : Op::identity(), total);
            carry = Op::combine(carry, total);
        }
        const Index stop = min((chunk + 1) * lines.piece, lines.length), end = real ? stop : 0;
        for (Index tile = chunk * lines.piece; tile < stop; tile += Shape::tile) {
            const Index at = tile + team.rank * Shape::items;
            State state[Shape::items];
            load_states<Op, Shape>(in + offset[0], lines.step[0], at, end, state);
#pragma unroll
            for (int i = 1; i < Shape::items; ++i) state[i] = Op::combine(state[i - 1], state[i]);
            const State before = Op::combine(carry, team.scan(state[Shape::items - 1], total));
            carry = Op::combine(carry, total);
            Out item[Shape::items];
#pragma unroll
            for (int i = 0; i < Shape::items; ++i) {
                state[i] = Op::combine(before, state[i]);
                item[i] = to_element<Out>(Op::value(state[i]));
            }
            store_items<Shape>(out + offset[1], lines.step[1], at, end, item);
            if constexpr (Operands == 3) {
                long long positions[Shape::items];
#pragma unroll
                for (int i = 0; i < Shape::items; ++i) positions[i] = state[i].index;
                store_items<Shape>(indices + offset[2], lines.step[2], at, end, positions);
            }
        }
    }
}

// Totals that blocks have published, of all lines: for each line those of its chunks, of groups of 32 chunks and of groups
// of 32 groups.
template <class State>
struct Published {
    State* totals;
    unsigned int* flags;  // 1 where there is a total

    __device__ void publish(long long at, const State& total) const {
        totals[at] = total;
        __threadfence();
        atomicExch(flags + at, 1u);
    }
    __device__ State wait_for(long long at) const {
        const volatile unsigned int* flag = flags + at;
        while (*flag == 0) {
        }
        __threadfence();
        return totals[at];
    }
    // Those from `first` on, combined in their order by the threads of a warp.
    template <class Op>
    __device__ State combined(long long first, int count) const {
        const Team<Op, TeamShape<32, 1, 1, false>> warp;
        State all = Op::identity(), total;
        for (int at = 0; at < count; at += 32) {
            warp.scan(at + warp.rank < count ? wait_for(first + at + warp.rank) : Op::identity(), total);
            all = Op::combine(all, total);
        }
        return all;
    }
};

// What the chunks before one have, combined by a warp, which publishes its own total and those that it completes.
template <class Op, class State = typename Op::State>
__device__ inline State look_back(
    const Published<State>& published, long long row, int chunk, int chunks, const State& total) {
    const int group = chunk / 32, outer = group / 32;
    const long long own = row * (chunks + chunks / 32 + chunks / 1024), groups = own + chunks, outers = groups + chunks / 32;
    const bool first = threadIdx.x == 0;
    if (first) published.publish(own + chunk, total);
    const State in_group = published.template combined<Op>(own + group * 32, chunk % 32);
    const State through = Op::combine(in_group, total);
    if (first && chunk % 32 == 31) published.publish(groups + group, through);
    const State in_outer = published.template combined<Op>(groups + outer * 32, group % 32);
    if (first && chunk % 1024 == 1023) published.publish(outers + outer, Op::combine(in_outer, through));
    const State before = published.template combined<Op>(outers, outer);
    return Op::combine(Op::combine(before, in_outer), in_group);
}

__device__ inline void clear_flags(unsigned int* flags, long long count) {
    const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
    for (long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += step) flags[at] = 0;
}

// A chunk of `Turns` tiles for each block. Blocks draw their chunks, so that those before a chunk are under way.
template <class Op, class Shape, int Turns, int Rank, int Operands, class Index, class In, class Out>
__device__ inline void scan_chunks(
    const Lines<Rank, Operands, Index>& lines, const Published<typename Op::State>& published, unsigned int* drawn,
    const In* in, Out* out, long long* indices) {
    typedef typename Op::State State;
    const Team<Op, Shape> team;
    __shared__ unsigned int job;
    __shared__ State cell;
    if (threadIdx.x == 0) job = atomicAdd(drawn, 1u);
    __syncthreads();
    const Index row = static_cast<Index>(job) / lines.chunks, chunk = static_cast<Index>(job) - row * lines.chunks;
    Index offset[Operands];
    lines.start(row, offset);
    const Index first = chunk * lines.piece + team.rank * Shape::items;
    const Index end = min((chunk + 1) * lines.piece, lines.length);
    State state[Turns][Shape::items], before[Turns], carry = Op::identity(), total;
#pragma unroll
    for (int t = 0; t < Turns; ++t)
        load_states<Op, Shape>(in + offset[0], lines.step[0], first + t * Shape::tile, end, state[t]);
#pragma unroll
    for (int t = 0; t < Turns; ++t) {
#pragma unroll
        for (int i = 1; i < Shape::items; ++i) state[t][i] = Op::combine(state[t][i - 1], state[t][i]);
        before[t] = Op::combine(carry, team.scan(state[t][Shape::items - 1], total));
        carry = Op::combine(carry, total);
    }
    if (threadIdx.x < 32) {
        const State chunks_before = look_back<Op>(published, row, chunk, lines.chunks, carry);
        if (threadIdx.x == 0) cell = chunks_before;
    }
    __syncthreads();
    const State chunks_before = cell;
#pragma unroll
    for (int t = 0; t < Turns; ++t) {
        const State start = Op::combine(chunks_before, before[t]);
        const Index at = first + t * Shape::tile;
        Out item[Shape::items];
#pragma unroll
        for (int i = 0; i < Shape::items; ++i) {
            state[t][i] = Op::combine(start, state[t][i]);
            item[i] = to_element<Out>(Op::value(state[t][i]));
        }
        store_items<Shape>(out + offset[1], lines.step[1], at, end, item);
        if constexpr (Operands == 3) {
            long long positions[Shape::items];
#pragma unroll
            for (int i = 0; i < Shape::items; ++i) positions[i] = state[t][i].index;
            store_items<Shape>(indices + offset[2], lines.step[2], at, end, positions);
        }
    }
}

// Compaction: the row-major indices of the elements that are not zero, in order, and how many there are.
// count_chunks leaves the number of each chunk; the blocks of compact_chunks add up those before theirs.

// Offset of element `at` in row-major order.
template <int Rank, class Index>
__device__ inline Index element_offset(const Geometry<Rank, 1, Index>& geometry, Index at) {
    Index offset = 0;
#pragma unroll
    for (int d = Rank - 1; d >= 0; --d) {
        const Index outer = d ? at / geometry.size[d] : 0;
        offset += (at - outer * geometry.size[d]) * geometry.stride[0][d];
        at = outer;
    }
    return offset;
}

// Which of a thread's elements are set, as bits.
template <class Shape, int Rank, class Index, class In>
__device__ inline unsigned load_flags(const Geometry<Rank, 1, Index>& geometry, const In* in, Index at, Index end) {
    constexpr int items = Shape::items;
    typedef Pack<In, items> Wide;
    unsigned flags = 0;
    if constexpr (Rank == 1 && sizeof(Wide) <= 16) {
        if (geometry.stride[0][0] == 1 && at + items <= end &&
            reinterpret_cast<unsigned long long>(in + at) % sizeof(Wide) == 0) {
            const Wide pack = *reinterpret_cast<const Wide*>(in + at);
#pragma unroll
            for (int i = 0; i < items; ++i) flags |= static_cast<unsigned>(to_element<bool>(to_compute(pack.item[i]))) << i;
            return flags;
        }
    }
#pragma unroll
    for (int i = 0; i < items; ++i) {
        if (at + i < end && to_element<bool>(to_compute(in[element_offset(geometry, at + i)]))) flags |= 1u << i;
    }
    return flags;
}

template <class Shape, int Rank, class Index, class In>
__device__ inline void count_chunks(
    const Geometry<Rank, 1, Index>& geometry, Index count, Index piece, const In* in, long long* totals) {
    typedef Add<long long> Op;
    const Team<Op, Shape> team;
    const Index first = blockIdx.x * piece, end = min(first + piece, count);
    long long mine = 0, total;
    for (Index at = first + team.rank * Shape::items; at < end; at += Shape::tile) {
        mine += __popc(load_flags<Shape>(geometry, in, at, end));
    }
    team.scan(mine, total);
    if (threadIdx.x == 0) totals[blockIdx.x] = total;
}

template <class Shape, int Rank, class Index, class In>
__device__ inline void compact_chunks(
    const Geometry<Rank, 1, Index>& geometry, Index count, Index piece, const long long* totals, const In* in,
    long long* number, long long* indices) {
    typedef Add<long long> Op;
    const Team<Op, Shape> team;
    long long mine = 0, total, carry;
    for (int chunk = threadIdx.x; chunk < blockIdx.x; chunk += blockDim.x) mine += totals[chunk];
    team.scan(mine, carry);
    const Index first = blockIdx.x * piece, end = min(first + piece, count);
    for (Index tile = first; tile < end; tile += Shape::tile) {
        const Index at = tile + team.rank * Shape::items;
        unsigned flags = load_flags<Shape>(geometry, in, at, end);
        long long to = carry + team.scan(__popc(flags), total);
        carry += total;
        for (; flags; flags &= flags - 1) indices[to++] = at + __ffs(flags) - 1;
    }
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) *number = carry;
}
