// Stable sorts of the rows of a contiguous (rows, n) array, with the positions that elements come from.
//
//   sort_tile   rows of up to 2048 elements: a bitonic network in shared memory (Batcher, "Sorting networks
//               and their applications", 1968) over pairs of key and position, which makes it stable. A block
//               sorts as many rows at once as fit a tile of 1024 elements, so many short rows are one launch.
//               Steps whose partners stay in a warp's 64 elements wait for the warp only.
//   radix_*     longer rows: least significant digit first, 8 bits at a time, with one pass over memory for each (Adinets and
//               Merrill, "Onesweep: a faster least significant digit radix sort for GPUs", 2022). radix_histograms counts
//               all digits at once. Then radix_pass reads tiles and writes their elements where they belong: behind all that
//               have a smaller digit in the row, and behind those with the same digit in the tiles before, whose numbers
//               blocks publish and look back at (Merrill and Garland, "Single-pass parallel prefix scan with decoupled
//               look-back", 2016). A warp ranks equal digits by matching lanes, and elements are put in order in shared
//               memory first, so that what goes to one digit is written by neighbouring threads.

#pragma once
#include "pointwise.cuh"
#include "shared_counters.cuh"
#include "sort_order.cuh"
#include "team.cuh"

constexpr int radix = 256;

// Which ranks of a sorted row are wanted: `count` from `first` on, or one median.
enum class Pick { range, median, nan_median };

// Rank of the median of `n` sorted keys: the lower one. A NaN, if there is one, is the median; or else
// (nan_median) only numbers count.
template <class Order>
__device__ inline unsigned median_rank(bool skip_nan, unsigned n, unsigned numbers) {
    if (numbers == n || !Order::floating) return (n - 1) / 2;
    if (skip_nan) return numbers ? (numbers - 1) / 2 : 0;
    return numbers;
}

// `source`, where given, tells the position that is written for each position in the row.
template <class Order, int Size, Pick Which>
__device__ inline void sort_tile(
    long long rows, unsigned n, unsigned first, unsigned count, const typename Order::Bits* in,
    const long long* source, typename Order::Bits* values, long long* indices) {
    typedef typename Order::Bits Bits;
    constexpr int threads = 256, tile = Size < 1024 ? 1024 : Size, teams = tile / Size, each = tile / threads;
    __shared__ Bits keys[tile];
    __shared__ unsigned short positions[tile];
    for (long long top = static_cast<long long>(blockIdx.x) * teams; top < rows;
         top += static_cast<long long>(gridDim.x) * teams) {
        // Positions past the end of a row have the largest key and the largest positions, so they stay last.
#pragma unroll
        for (int i = 0; i < each; ++i) {
            const unsigned at = i * threads + threadIdx.x, position = at % Size;
            const long long row = top + at / Size;
            keys[at] = row < rows && position < n ? Order::key(in[row * n + position]) : static_cast<Bits>(~Bits(0));
            positions[at] = position;
        }
        __syncthreads();
#pragma unroll 1
        for (int size = 2; size <= Size; size *= 2) {
#pragma unroll 1
            for (int step = size / 2; step > 0; step /= 2) {
#pragma unroll
                for (int i = 0; i < each / 2; ++i) {
                    const int pair = i * threads + threadIdx.x;
                    const int low = 2 * pair - (pair & (step - 1)), high = low + step;
                    const Bits a = keys[low], b = keys[high];
                    const unsigned short p = positions[low], q = positions[high];
                    const bool ascending = size == Size || (low & size) == 0;
                    if ((a > b || (a == b && p > q)) == ascending) {
                        keys[low] = b;
                        keys[high] = a;
                        positions[low] = q;
                        positions[high] = p;
                    }
                }
                // The next step goes over half the distance, or over `size` where this was the last of its stage.
                if ((step > 1 ? step : size) <= 32) __syncwarp();
                else __syncthreads();
            }
        }
        __syncthreads();
        Bits value[each];
        long long to[each], position[each];
#pragma unroll
        for (int i = 0; i < each; ++i) {
            const unsigned at = i * threads + threadIdx.x;
            const unsigned rank = at % Size;
            const long long row = top + at / Size;
            unsigned start = first;
            if constexpr (Which != Pick::range) {
                unsigned low = 0, high = n;  // the first NaN
                if (Order::floating && row < rows && rank == 0) {
                    while (low < high) {
                        const unsigned middle = (low + high) / 2;
                        if (keys[at + middle] == Order::nan_key) high = middle;
                        else low = middle + 1;
                    }
                }
                start = median_rank<Order>(Which == Pick::nan_median, n, high);
                to[i] = row < rows && rank == 0 ? row : -1;
            } else {
                to[i] = row < rows && rank >= first && rank - first < count ? row * count + rank - first : -1;
                start = rank;
            }
            if (to[i] >= 0) {
                const long long from = row * n + positions[at - rank + start];
                value[i] = in[from];
                position[i] = source ? source[from] : from - row * n;
            }
        }
        __syncthreads();  // values may lie over the rows that have just been read
#pragma unroll
        for (int i = 0; i < each; ++i) {
            if (to[i] >= 0) {
                values[to[i]] = value[i];
                indices[to[i]] = position[i];
            }
        }
    }
}

// How rows are cut into chunks: block `row * chunks + chunk` takes `piece` elements of a row.
struct Chunks {
    long long rows;
    unsigned n, chunks, piece;
};

__device__ inline void clear_counts(unsigned* counts, long long count) {
    const long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < count) counts[at] = 0;
}

// counts[row][pass][digit], which are zero before. Blocks count in copies that neighbouring threads take turns in, so that
// many equal digits do not wait for each other. What the first pass publishes is cleared.
template <class Order, int Passes, int Copies, int Threads, class Word>
__device__ inline void radix_histograms(
    Chunks c, unsigned tiles, const typename Order::Bits* in, unsigned* counts, Word* published) {
    typedef typename Order::Bits Bits;
    constexpr int width = 16 / sizeof(Bits), counters = Passes * radix * Copies;
    typedef Pack<Bits, width> Wide;
    extern __shared__ unsigned seen[];
    const int copy = threadIdx.x % Copies;
    const unsigned own = static_cast<unsigned>(__cvta_generic_to_shared(seen + copy));
    const auto count = [&](Bits x) {
#pragma unroll
        for (int pass = 0; pass < Passes; ++pass)
            count_in_shared_at(own + (pass * radix + Order::digit(x, pass)) * Copies * sizeof(unsigned));
    };
    const long long words = c.rows * tiles * radix;
    for (long long at = static_cast<long long>(blockIdx.x) * Threads + threadIdx.x; at < words;
         at += static_cast<long long>(gridDim.x) * Threads)
        published[at] = 0;
    for (long long job = blockIdx.x; job < c.rows * c.chunks; job += gridDim.x) {
        const long long row = job / c.chunks;
        const unsigned chunk = job - row * c.chunks, first = chunk * c.piece, end = min(c.n - first, c.piece) + first;
        const Bits* line = in + row * c.n;
        const bool aligned = reinterpret_cast<unsigned long long>(line) % sizeof(Wide) == 0;  // and so are pieces
        for (int at = threadIdx.x; at < counters; at += Threads) seen[at] = 0;
        __syncthreads();
#pragma unroll 2
        for (unsigned tile = first; tile < end; tile += Threads * width) {
            const unsigned at = tile + threadIdx.x * width;
            if (aligned && at + width <= end) {
                const Wide pack = *reinterpret_cast<const Wide*>(line + at);
#pragma unroll
                for (int i = 0; i < width; ++i) count(pack.item[i]);
            } else {
                for (unsigned one = at; one < min(at + width, end); ++one) count(line[one]);
            }
        }
        __syncthreads();
        for (int at = threadIdx.x; at < Passes * radix; at += Threads) {
            unsigned count = 0;
            // From another copy in each thread, as those of one lie in few banks.
            for (int i = 0; i < Copies; ++i) count += seen[at * Copies + (i + copy) % Copies];
            if (count) atomicAdd(counts + row * Passes * radix + at, count);
        }
        __syncthreads();
    }
}

// What a tile has published of a digit: nothing yet, how many it has itself, or how many there are through to its end. One
// word says which and how many, so that nothing else has to be seen before it.
template <class Word>
struct PublishedCounts {
    static constexpr int shift = 8 * sizeof(Word) - 2;
    static constexpr Word own = Word(1) << shift, through = Word(2) << shift;
    Word* words;  // of the tiles of a row, for one digit

    __device__ void publish(unsigned tile, Word state, unsigned count) const {
        atomicExch(words + static_cast<long long>(tile) * radix, state | count);
    }
    // Several tiles are looked at together, as each look takes long.
    __device__ unsigned before(unsigned tile) const {
        constexpr int together = 8;
        unsigned result = 0;
        while (tile > 0) {
            Word word[together];
#pragma unroll
            for (int i = 0; i < together; ++i) {
                const unsigned at = tile > i + 1u ? tile - i - 1 : 0;
                word[i] = *static_cast<volatile Word*>(words + static_cast<long long>(at) * radix);
            }
            bool go_on = true;
#pragma unroll
            for (int i = 0; i < together; ++i) {
                if (go_on && word[i] != 0) {
                    result += static_cast<unsigned>(word[i] & (own - 1));
                    tile = word[i] & through ? 0 : tile - 1;
                }
                go_on = go_on && word[i] != 0 && tile > 0;
            }
        }
        return result;
    }
};

// An element on its way through shared memory with its position in the row, as one access, and its digit where there is room.
// Where positions are counted, those of small elements are the ones in the tile, so that both are one word.
template <class Order, bool First>
struct Placed {
    typedef typename Order::Bits Bits;
    typedef typename Either<sizeof(Bits) == 8, unsigned long long, unsigned>::Type Word;
    static constexpr bool small = sizeof(Bits) < 4, one_word = First && small;

    struct OneWord {
        unsigned word;
    };
    struct alignas(2 * sizeof(Word)) TwoWords {
        Word element, position;
    };
    typename Either<one_word, OneWord, TwoWords>::Type in;

    static __device__ Placed of(Bits x, unsigned position, unsigned digit) {
        Placed placed;
        if constexpr (one_word) placed.in.word = position << 16 | x;
        else placed.in = {small ? digit << 16 | x : x, position};
        return placed;
    }
    __device__ Bits bits() const {
        if constexpr (one_word) return static_cast<Bits>(in.word);
        else return static_cast<Bits>(in.element);
    }
    // `start`: of the tile.
    __device__ unsigned position(unsigned start) const {
        if constexpr (one_word) return start + (in.word >> 16);
        else return static_cast<unsigned>(in.position);
    }
    __device__ unsigned digit(int pass) const {
        if constexpr (small && !one_word) return in.element >> 16;
        else return Order::digit(bits(), pass);
    }
};

struct RadixPass {
    long long rows;
    unsigned n, tiles;  // of each row
    int pass, passes;
};

// A block has a tile of threads * Items elements of a row; it draws which, so that those before are under way. First: positions
// are counted, not read. Last: positions are written as int64, through `source` where given.
template <class Order, int Items, bool First, bool Last, class Word>
__device__ inline void radix_pass(
    const RadixPass& p, unsigned* drawn, const unsigned* counts, Word* published, Word* published_next,
    const typename Order::Bits* in, const unsigned* in_positions, const long long* source, typename Order::Bits* out,
    void* out_positions) {
    typedef typename Order::Bits Bits;
    typedef Placed<Order, First> OnTheWay;
    constexpr int threads = 256, warps = threads / 32, size = threads * Items;
    typedef TeamShape<threads, 1, 1, false> Shape;
    const Team<Add<unsigned long long>, Shape> team;
    __shared__ unsigned job;
    __shared__ unsigned counters[warps][radix];  // of each warp: how many of a digit; then where its first goes
    __shared__ unsigned shift_of[radix];         // from the position in the ordered tile to the position in the row
    extern __shared__ uint4 tile_memory[];
    OnTheWay* const ordered = reinterpret_cast<OnTheWay*>(tile_memory);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, own = threadIdx.x;
    if (own == 0) job = atomicAdd(drawn, 1u);
#pragma unroll
    for (int w = 0; w < warps; ++w) counters[w][own] = 0;
    __syncthreads();
    const long long row = job / p.tiles, base = row * p.n;
    const unsigned tile = job - row * p.tiles, start = tile * size, here = min(p.n - start, static_cast<unsigned>(size));
    const unsigned in_row = counts[(row * p.passes + p.pass) * radix + own];
    Bits x[Items];
    unsigned position[Items];
    unsigned rank[Items];  // first the digit; then also, above it, the rank among those of the digit in the warp
    const unsigned first = warp * Items * 32 + lane;
    const Bits* const from = in + (base + start + first);
    const unsigned* const from_positions = in_positions + (base + start + first);
    // Half of the positions are read when there are registers for them.
    const auto load_positions = [&](int begin, int end) {
#pragma unroll
        for (int i = begin; i < end; ++i) {
            if constexpr (First) position[i] = (OnTheWay::one_word ? 0 : start) + first + i * 32;
            else position[i] = here == size || first + i * 32 < here ? from_positions[i * 32] : 0;
        }
    };
    if (here == size) {
#pragma unroll
        for (int i = 0; i < Items; ++i) x[i] = from[i * 32];
        load_positions(0, Items / 2);
#pragma unroll
        for (int i = 0; i < Items; ++i) rank[i] = Order::digit(x[i], p.pass);
    } else {
        // What is behind the end has the largest digit, of which it comes last, as it should.
#pragma unroll
        for (int i = 0; i < Items; ++i) {
            const bool inside = first + i * 32 < here;
            x[i] = inside ? from[i * 32] : Bits(0);
            rank[i] = inside ? Order::digit(x[i], p.pass) : radix - 1;
        }
        load_positions(0, Items / 2);
    }
    unsigned* const counter = counters[warp];
#pragma unroll
    for (int i = 0; i < Items; ++i) {
        const unsigned digit = rank[i], peers = __match_any_sync(~0u, digit);
        const unsigned before = counter[digit], lower = __popc(peers & ((1u << lane) - 1));
        rank[i] = digit | (before + lower) << 16;
        __syncwarp();  // the counter has been read
        if (lower == 0) counter[digit] = before + __popc(peers);
        __syncwarp();
    }
    __syncthreads();
    unsigned total = 0;
#pragma unroll
    for (int w = 0; w < warps; ++w) total += counters[w][own];
    if (own == radix - 1) total -= size - here;
    const PublishedCounts<Word> tiles{published + row * p.tiles * radix + own};
    if (tile > 0) tiles.publish(tile, tiles.own, total);
    if (!Last) published_next[static_cast<long long>(job) * radix + own] = 0;
    // Those with a smaller digit, in the tile (below) and in the row (above), in one scan.
    unsigned long long all;
    const unsigned long long smaller = team.scan(static_cast<unsigned long long>(in_row) << 32 | total, all);
    unsigned begin = static_cast<unsigned>(smaller);
    const unsigned in_tile = begin;
#pragma unroll
    for (int w = 0; w < warps; ++w) {
        const unsigned count = counters[w][own];
        counters[w][own] = begin;
        begin += count;
    }
    __syncthreads();
    load_positions(Items / 2, Items);
#pragma unroll
    for (int i = 0; i < Items; ++i) {
        const unsigned digit = rank[i] & (radix - 1);
        ordered[counter[digit] + (rank[i] >> 16)] = OnTheWay::of(x[i], position[i], digit);
    }
    const unsigned before = tiles.before(tile);
    tiles.publish(tile, tiles.through, before + total);
    shift_of[own] = static_cast<unsigned>(smaller >> 32) + before - in_tile;
    __syncthreads();
    Bits* const to = out + base;
#pragma unroll 4
    for (unsigned at = own; at < here; at += threads) {
        const OnTheWay placed = ordered[at];
        const unsigned rank = shift_of[placed.digit(p.pass)] + at, position = placed.position(start);
        to[rank] = placed.bits();
        if constexpr (Last) {
            (static_cast<long long*>(out_positions) + base)[rank] = source ? (source + base)[position] : position;
        } else {
            (static_cast<unsigned*>(out_positions) + base)[rank] = position;
        }
    }
}
