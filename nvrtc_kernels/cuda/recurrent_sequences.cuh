// Many steps of a recurrent layer in one launch, forward or back through time.
//
// A block has some units of some rows of the batch in every step. It keeps the units' weights in shared memory, multiplies
// the state of all units with them, and goes on with its own units as the kernels of a single step do (recurrent.cuh).
// After each step the blocks of the same rows wait for one another, since the next product reads what all of them have
// written. So all blocks must run at the same time: a cooperative launch.
//
// In a product the warps of a block share out the elements of a row. A lane has `Rows` rows of the batch, every eighth,
// and `Columns` columns, such as the gates of a unit. Rows come through shared memory, a piece at a time while the next
// is being loaded. The warps' sums are added in their order, so that results are the same in every run.
//
// A step's states are read from `out`, never from the running state, which blocks that are ahead write already.

#pragma once

constexpr int WARPS = 8, LANE_ROWS = 8, LANE_UNITS = 4;
constexpr int PIECE = 8;  // packs of 16 bytes of a row that are in shared memory at a time

// Waits until `expected` blocks have come here, and shows each what the others have written.
__device__ inline void wait_for_blocks(unsigned int* arrived, unsigned int expected) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1u);
        const volatile unsigned int* count = arrived;
        while (*count < expected) {}
        __threadfence();
    }
    __syncthreads();
}

template <int Rows, int Columns, class T>
struct Products {
    static constexpr int pack = 16 / sizeof(T), rows = LANE_ROWS * Rows, columns = LANE_UNITS * Columns;
    typedef Units<T, pack> Pack;
    typedef decltype(to_compute(T())) Sum;

    Pack *weights, *piece;
    Sum* sums;
    int packs, stride, begin, end;

    // `packs` are those of a row. `room` is shared memory, which weight(column, element) is written to.
    template <class Weight>
    __device__ Products(void* room, int packs, const Weight& weight) : packs(packs), stride(packs | 1) {
        weights = static_cast<Pack*>(room);
        Pack* pieces = weights + columns * stride;
        sums = reinterpret_cast<Sum*>(pieces + WARPS * rows * (PIECE + 1));
        const int warp = threadIdx.x / 32, share = (packs + WARPS - 1) / WARPS;
        piece = pieces + warp * rows * (PIECE + 1);
        begin = min(warp * share, packs);
        end = min(begin + share, packs);
        const int elements = packs * pack;
        for (int i = threadIdx.x; i < columns * elements; i += blockDim.x) {
            const int column = Weight::rows ? i / elements : i % columns;
            const int element = Weight::rows ? i % elements : i / columns;
            reinterpret_cast<T*>(weights + column * stride)[element] = weight(column, element);
        }
        __syncthreads();
    }

    // Calls `sink(row, column, product)` for all of `count` rows of `source`, which lie one after another.
    template <class Sink>
    __device__ void operator()(const T* source, int count, const Sink& sink) const {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const Pack* const from = reinterpret_cast<const Pack*>(source);
        const auto row_of = [=](int r) { return r * LANE_ROWS + lane / LANE_UNITS; };
        const auto column_of = [=](int c) { return c * LANE_UNITS + lane % LANE_UNITS; };
        for (int top = 0; top < count; top += rows) {
            constexpr int LOADS = rows * PIECE / 32;
            Pack next[LOADS];
            const auto fetch = [&](int at) {
#pragma unroll
                for (int i = 0; i < LOADS; ++i) {
                    const int row = top + i * (32 / PIECE) + lane / PIECE, which = at + lane % PIECE;
                    next[i] = row < count && which < end ? from[static_cast<long long>(row) * packs + which] : Pack{};
                }
            };
            Sum sum[Rows][Columns] = {};
            fetch(begin);
            for (int at = begin; at < end; at += PIECE) {
#pragma unroll
                for (int i = 0; i < LOADS; ++i)
                    piece[(i * (32 / PIECE) + lane / PIECE) * (PIECE + 1) + lane % PIECE] = next[i];
                __syncwarp();
                if (at + PIECE < end) fetch(at + PIECE);
                const int some = min(PIECE, end - at);
                for (int p = 0; p < some; ++p) {
                    Pack h[Rows];
#pragma unroll
                    for (int r = 0; r < Rows; ++r)
                        h[r] = piece[row_of(r) * (PIECE + 1) + p];
#pragma unroll
                    for (int c = 0; c < Columns; ++c) {
                        const Pack w = weights[column_of(c) * stride + at + p];
#pragma unroll
                        for (int k = 0; k < pack; ++k)
#pragma unroll
                            for (int r = 0; r < Rows; ++r)
                                sum[r][c] += to_compute(h[r].item[k]) * to_compute(w.item[k]);
                    }
                }
                __syncwarp();
            }
#pragma unroll
            for (int r = 0; r < Rows; ++r)
#pragma unroll
                for (int c = 0; c < Columns; ++c)
                    sums[(warp * rows + row_of(r)) * columns + column_of(c)] = sum[r][c];
            __syncthreads();
            for (int i = threadIdx.x; i < rows * columns; i += blockDim.x) {
                Sum all = sums[i];
                for (int other = 1; other < WARPS; ++other) all += sums[other * rows * columns + i];
                if (top + i / columns < count) sink(top + i / columns, i % columns, all);
            }
            __syncthreads();
        }
    }
};

// Column `(unit group * Gates + gate) * LANE_UNITS + lane` is that of a gate of a unit: rows of the weights.
template <int Gates, class T>
struct GateWeights {
    const T* at;
    int first, hidden;
    static constexpr bool rows = true;
    static __device__ int gate(int column) { return column / LANE_UNITS % Gates; }
    __device__ int unit(int column) const {
        return first + column / (LANE_UNITS * Gates) * LANE_UNITS + column % LANE_UNITS;
    }
    __device__ T operator()(int column, int element) const {
        const long long row = static_cast<long long>(gate(column)) * hidden + unit(column);
        return unit(column) < hidden ? at[row * hidden + element] : to_element<T>(0);
    }
};

// A column is a unit that gradients go back to: columns of the weights.
template <class T>
struct StateWeights {
    const T* at;
    int first, hidden;
    static constexpr bool rows = false;
    __device__ T operator()(int column, int element) const {
        const int unit = first + column;
        return unit < hidden ? at[static_cast<long long>(element) * hidden + unit] : to_element<T>(0);
    }
};

template <class T>
__device__ inline void add_to(T* at, decltype(to_compute(T())) value, bool adds) {
    *at = to_element<T>(adds ? to_compute(*at) + value : value);
}

// What a block does of every step: some units of some rows of the batch. Blocks of the same rows wait for one another.
template <int Groups>
struct Part {
    int first, units, top, rows;
    unsigned int* arrived;
    unsigned int expected;

    // Blocks along x share out units, and those along y rows, so many each.
    __device__ Part(int hidden, int rows, int rows_each, unsigned int* arrived)
        : first(blockIdx.x * LANE_UNITS * Groups),
          units(min(LANE_UNITS * Groups, hidden - first)),
          top(blockIdx.y * rows_each),
          rows(min(rows_each, rows - top)),
          arrived(arrived + blockIdx.y),
          expected(0) {}

    __device__ void wait() { wait_for_blocks(arrived, expected += gridDim.x); }
    __device__ OwnUnits<int> own() const { return {first, units}; }
};

// Products are added to `gates`, or written to them where `Adds` is not set; then they are the same for all steps.
// `step(own, rows, top, at)` is what a step does after that, for so many rows from `top` on, which are rows from `at` on
// of what each step has rows of its own of. Those of the next step begin `stride` rows on.
template <int Rows, int Groups, int Gates, bool Adds, class T, class Step>
__device__ void forward_sequence(
    int steps, int rows, int hidden, int stride, int rows_each, unsigned int* arrived, const T* weight, T* gates,
    const T* state, const T* out, const Step& step) {
    extern __shared__ uint4 room[];
    typedef Products<Rows, Gates * Groups, T> Product;
    Part<Groups> part(hidden, rows, rows_each, arrived);
    if (part.rows <= 0) return;
    const GateWeights<Gates, T> weights = {weight, part.first, hidden};
    const Product product(room, hidden / Product::pack, weights);
    for (int number = 0; number < steps; ++number) {
        const long long at = static_cast<long long>(number) * stride + part.top;
        T* const into = gates + (Adds ? at : part.top) * hidden * Gates;
        const T* const before = number ? out + (at - stride) * hidden : state + part.top * hidden;
        product(before, part.rows, [=](int row, int column, auto value) {
            const int unit = weights.unit(column);
            if (unit < hidden) add_to(into + (row * Gates + weights.gate(column)) * hidden + unit, value, Adds);
        });
        // The first state is in memory that the step writes to.
        if (!number) part.wait();
        step(part.own(), part.rows, part.top, at);
        if (number + 1 < steps) part.wait();
    }
}

// The gradient of the state before a step is the product of `through`, the gradients of its gates, added where `Adds`
// is set. That before the last step is left out if it is not `needed`.
template <int Rows, int Groups, int Gates, bool Adds, class T, class Step>
__device__ void backward_sequence(
    int steps, int rows, int hidden, int stride, int rows_each, bool needed, unsigned int* arrived, const T* weight,
    const T* through, T* grad_state, const Step& step) {
    extern __shared__ uint4 room[];
    typedef Products<Rows, Groups, T> Product;
    Part<Groups> part(hidden, rows, rows_each, arrived);
    if (part.rows <= 0) return;
    const StateWeights<T> weights = {weight, part.first, hidden};
    const Product product(room, hidden * Gates / Product::pack, weights);
    T* const into = grad_state + part.top * hidden + part.first;
    for (int number = 0; number < steps; ++number) {
        const long long at = static_cast<long long>(number) * stride + part.top;
        step(part.own(), part.rows, part.top, at);
        if (number + 1 == steps && !needed) return;
        part.wait();
        product(through + at * hidden * Gates, part.rows, [=](int row, int column, auto value) {
            if (column < part.units) add_to(into + row * hidden + column, value, Adds);
        });
    }
}
