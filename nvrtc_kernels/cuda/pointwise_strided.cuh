// Pointwise kernels over operands of any strides: out[...] = op(in0[...], in1[...], ...).
//
// Dimensions come sorted by the output's strides, the innermost last, and merged where all operands walk them as one.
// How an input is read is its `Access`, which says what lies beside an element along the output's innermost dimension:
//
//   SAME      the same element (a stretched dimension)
//   WORD      the next one: `Width` neighbours are a word
//   ELEMENTS  anything: they are read one by one
//   TILE      an element of another dimension, along which the input's neighbours lie (a transpose)
//
//   pointwise_strided  A thread takes `Unroll` packs of `Width` neighbours, all read before the first is written.
//   pointwise_tiled    A block brings a tile of each input with Access TILE through shared memory: words are read along
//                      the input's dimension, squares of Width x Width elements transposed in registers, and words
//                      written along the output's. A tile has 1024 squares, `Down` of them in a column, which are few
//                      where a dimension is short. Rows in shared memory are padded, so that both the columns that are
//                      written there and the rows that are read lie in different banks.
//
// What is divided by is known before the launch, so that the host works out numbers to multiply and shift by instead.

#pragma once
#include "divisor.cuh"
#include "pointwise.cuh"

enum Access { SAME, WORD, ELEMENTS, TILE };
template <int... Access>
struct Accesses {};

template <int... I>
struct Places {};
template <int N, int... I>
struct PlacesUpTo : PlacesUpTo<N - 1, N, I...> {};
template <int... I>
struct PlacesUpTo<0, I...> {
    typedef Places<I...> type;  // 1, 2, ..., N: the inputs' rows of Walk::stride
};

// Dimensions, outermost first, with the strides of each operand, output first. Of packs, where there are such.
template <int Rank, int Operands, class CountType, class OffsetType>
struct Walk {
    typedef CountType Count;
    typedef OffsetType Offset;
    Offset stride[Operands][Rank];
    Divisor<Count> size[Rank];
    Count count;

    __device__ void locate(Count at, Offset (&offset)[Operands]) const {
#pragma unroll
        for (int k = 0; k < Operands; ++k) offset[k] = 0;
#pragma unroll
        for (int d = Rank - 1; d >= 0; --d) {
            const Count outer = d ? size[d].quotient(at) : 0;
            const Offset coordinate = at - outer * size[d].size;
#pragma unroll
            for (int k = 0; k < Operands; ++k) offset[k] += coordinate * stride[k][d];
            at = outer;
        }
    }
};

template <int Rank, int Operands, class Count, class OffsetType>
struct Packs {
    typedef OffsetType Offset;
    static constexpr int operands = Operands;
    OffsetType step[Operands];  // between neighbours of a pack
    Walk<Rank, Operands, Count, OffsetType> walk;
};

template <int Access, int Width, class T, class Offset>
__device__ inline Pack<T, Width> read_pack(const T* from, Offset step) {
    if constexpr (Access == WORD) {
        return *reinterpret_cast<const Pack<T, Width>*>(from);
    } else {
        Pack<T, Width> result;
#pragma unroll
        for (int i = 0; i < Width; ++i) result.item[i] = from[Access == SAME ? 0 : i * step];
        return result;
    }
}

template <int Access, class T, int Width, int Unroll>
struct StridedItems {
    Pack<T, Width> pack[Unroll];
    template <int Operands, class Offset>
    __device__ StridedItems(const T* in, const Offset (&offset)[Unroll][Operands], int place, Offset step) {
#pragma unroll
        for (int u = 0; u < Unroll; ++u) pack[u] = read_pack<Access, Width>(in + offset[u][place], step);
    }
};

template <int Width, int Unroll, class Op, class Out, int Operands, class Offset, class... Items>
__device__ inline void write_packs(const Op& op, Out* out, const Offset (&offset)[Unroll][Operands], const Items&... items) {
    Pack<Out, Width> result[Unroll];
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
#pragma unroll
        for (int i = 0; i < Width; ++i) result[u].item[i] = op(items.pack[u].item[i]...);
    }
#pragma unroll
    for (int u = 0; u < Unroll; ++u) *reinterpret_cast<Pack<Out, Width>*>(out + offset[u][0]) = result[u];
}

template <int Width, int Unroll, class L, class Count, class Op, int... Access, int... Place, class Out, class... In>
__device__ inline void strided_packs(
    const Op& op, const L& layout, Count first, Accesses<Access...>, Places<Place...>, Out* out, const In*... in) {
    typename L::Offset offset[Unroll][L::operands];
#pragma unroll
    for (int u = 0; u < Unroll; ++u) layout.walk.locate(first + u * blockDim.x, offset[u]);
    write_packs<Width, Unroll>(
        op, out, offset, StridedItems<Access, In, Width, Unroll>(in, offset, Place, layout.step[Place])...);
}

template <int Width, int Unroll, class Op, int Rank, int Operands, class Count, class Offset, class A, class Out, class... In>
__device__ inline void pointwise_strided(
    const Op& op, const Packs<Rank, Operands, Count, Offset>& layout, A accesses, Out* out, const In*... in) {
    const typename PlacesUpTo<sizeof...(In)>::type places;
    const Count block = static_cast<Count>(blockIdx.x) * blockDim.x * Unroll, first = block + threadIdx.x;
    const Count count = layout.walk.count;
    if (Unroll > 1 && block + blockDim.x * Unroll <= count) {
        strided_packs<Width, Unroll>(op, layout, first, accesses, places, out, in...);
    } else {
#pragma unroll 1
        for (Count at = first; at < count && at - first < blockDim.x * Unroll; at += blockDim.x) {
            strided_packs<Width, 1>(op, layout, at, accesses, places, out, in...);
        }
    }
}

// The walk goes over tiles; its last two operands are no memory but a tile's first row and column. Rows are neighbours
// in the inputs with Access TILE, columns in the output.
template <int Rank, int Operands, class Count, class OffsetType>
struct Tiles {
    typedef OffsetType Offset;
    static constexpr int operands = Operands;
    Offset row[Operands], column[Operands];  // strides of an element
    Offset rows, columns;
    Walk<Rank, Operands + 2, Count, Offset> walk;
};

constexpr int threads_of_tile = 256, squares_of_tile = 1024;

// Word [j * Down + x][y] has the elements of row x * Width + j at column y * Width and following. Accesses of large words
// are those of half a warp or a quarter, which have all banks.
template <class T, int Width, int Down>
struct Tile {
    static constexpr int across = squares_of_tile / Down;
    static constexpr int lanes = sizeof(T) * Width < 8 ? 32 : 128 / (sizeof(T) * Width);
    Pack<T, Width> word[Down * Width][across + (lanes > Down ? lanes / Down : 1)];
};
template <class T, int Width, int Down, int Number>
__device__ inline Tile<T, Width, Down>& tile_of_input() {
    __shared__ Tile<T, Width, Down> tile;
    return tile;
}

template <int Access, int Width, int Down, int Number, class T, class Offset>
__device__ inline void read_tile(const T* in, Offset column, unsigned int rows, unsigned int columns) {
    if constexpr (Access == TILE) {
        auto& tile = tile_of_input<T, Width, Down, Number>();
        constexpr int turns = squares_of_tile / threads_of_tile;
        Pack<T, Width> square[turns][Width];
#pragma unroll
        for (int n = 0; n < turns; ++n) {
            const unsigned int x = threadIdx.x % Down, y = threadIdx.x / Down + n * (threads_of_tile / Down);
#pragma unroll
            for (int i = 0; i < Width; ++i) {
                if (x * Width < rows && y * Width < columns) {
                    square[n][i] = *reinterpret_cast<const Pack<T, Width>*>(in + (y * Width + i) * column + x * Width);
                }
            }
        }
#pragma unroll
        for (int n = 0; n < turns; ++n) {
            const unsigned int x = threadIdx.x % Down, y = threadIdx.x / Down + n * (threads_of_tile / Down);
#pragma unroll
            for (int j = 0; j < Width; ++j) {
                Pack<T, Width> turned;
#pragma unroll
                for (int i = 0; i < Width; ++i) turned.item[i] = square[n][i].item[j];
                if (x * Width < rows && y * Width < columns) tile.word[j * Down + x][y] = turned;
            }
        }
    }
}

// A word of the tile: the place of its row in shared memory, its first row and column. All threads take one in
// each turn.
template <int Width, int Down>
struct TileWord {
    unsigned int place, row, word;
    __device__ TileWord(unsigned int thread, unsigned int turn) {
        constexpr int across = squares_of_tile / Down;
        constexpr int at_once = across < threads_of_tile ? threads_of_tile / across : 1;  // rows
        constexpr int turns = across < threads_of_tile ? 1 : across / threads_of_tile;    // of a row
        word = turns == 1 ? thread % across : thread + turn % turns * threads_of_tile;
        place = turns == 1 ? thread / across + turn * at_once : turn / turns;
        row = Width == 1 ? place : place % Down * Width + place / Down;
    }
    __device__ bool within(unsigned int rows, unsigned int columns) const { return row < rows && word * Width < columns; }
};

template <int Access, class T, int Width, int Down, int Unroll, int Number>
struct TileItems {
    Pack<T, Width> pack[Unroll];
    template <class Offset>
    __device__ TileItems(const T* in, Offset row, Offset column, unsigned int turn, unsigned int rows, unsigned int columns) {
#pragma unroll
        for (int u = 0; u < Unroll; ++u) {
            const TileWord<Width, Down> at(threadIdx.x, turn + u);
            if (!at.within(rows, columns)) continue;
            if constexpr (Access == TILE) {
                pack[u] = tile_of_input<T, Width, Down, Number>().word[at.place][at.word];
            } else {
                pack[u] = read_pack<Access, Width>(in + (at.row * row + at.word * Width * column), column);
            }
        }
    }
};

template <int Width, int Down, int Unroll, class Op, class Out, class Offset, class... Items>
__device__ inline void write_rows(
    const Op& op, Out* out, Offset row, unsigned int turn, unsigned int rows, unsigned int columns, const Items&... items) {
    Pack<Out, Width> result[Unroll];
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
#pragma unroll
        for (int i = 0; i < Width; ++i) result[u].item[i] = op(items.pack[u].item[i]...);
    }
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
        const TileWord<Width, Down> at(threadIdx.x, turn + u);
        if (at.within(rows, columns)) {
            *reinterpret_cast<Pack<Out, Width>*>(out + (at.row * row + at.word * Width)) = result[u];
        }
    }
}

template <int Width, int Down, class Op, class L, int... Access, int... Place, class Out, class... In>
__device__ inline void one_tile(
    const Op& op, const L& layout, Accesses<Access...>, Places<Place...>, Out* out, const In*... in) {
    typedef typename L::Offset Offset;
    constexpr int unroll = 4, operands = L::operands, across = squares_of_tile / Down;
    constexpr int turns = squares_of_tile / threads_of_tile * Width;
    Offset offset[operands + 2];
    layout.walk.locate(blockIdx.x, offset);
    const unsigned int rows = min(layout.rows - offset[operands], static_cast<Offset>(Down * Width));
    const unsigned int columns = min(layout.columns - offset[operands + 1], static_cast<Offset>(across * Width));
    (read_tile<Access, Width, Down, Place>(in + offset[Place], layout.column[Place], rows, columns), ...);
    __syncthreads();
#pragma unroll 1
    for (int turn = 0; turn < turns; turn += unroll) {
        write_rows<Width, Down, unroll>(
            op, out + offset[0], layout.row[0], turn, rows, columns,
            TileItems<Access, In, Width, Down, unroll, Place>(
                in + offset[Place], layout.row[Place], layout.column[Place], turn, rows, columns)...);
    }
}

template <int Width, int Down, class Op, class L, class A, class Out, class... In>
__device__ inline void pointwise_tiled(const Op& op, const L& layout, A accesses, Out* out, const In*... in) {
    one_tile<Width, Down>(op, layout, accesses, typename PlacesUpTo<sizeof...(In)>::type(), out, in...);
}
