// Optimizer steps: one launch updates many parameters.
//
// A step reads a parameter, its gradient and its states (such as moments), and writes all
// but the gradient back: it is bound by memory, and over a model's many small tensors by launches. So a launch
// gets a `Table` of up to `Tensors` tensors in its arguments, which needs no memory and no copy, and which the
// hardware broadcasts from its constant bank. Tensors are cut into chunks of `Chunk` elements, and each block
// takes one; whose it is it finds by halving, as the table says with which block each tensor begins. So one
// huge tensor and a hundred small ones keep the device equally busy, with no limit on the number of blocks.
//
// Within a chunk each thread loads a pack of 16 bytes of every operand before it computes; a chunk that is not
// full, or lies at addresses that are no multiples of that, goes element by element. Half precision is computed
// with in float.
//
// A step is a functor over an element's operands `x[0]` (parameter), `x[1]` (gradient), `x[2]`, ... (states).
// Factors that are the same for all elements, such as bias corrections, come computed from the host; or, where they follow
// from counts and rates on the device, one thread of each block computes them in double precision before the step.

#pragma once

template <int Operands, int Tensors>
struct Table {
    void* address[Tensors][Operands];
    long long count[Tensors];
    unsigned int first[Tensors];  // block that the tensor begins with
};

template <class T, int Width>
struct alignas(sizeof(T) * Width) Pack {
    T item[Width];
};

template <class T>
struct WideOf {
    typedef decltype(to_compute(T())) type;
};

// The operand that a step writes without having read it: none, of most.
template <class Step>
struct WriteOnly {
    static constexpr int operand = -1;
};

// Where the parameter is written once more as another type, for what reads it in that; with `NoCast` nowhere.
struct NoCast {};

template <class Cast>
struct IsCast {
    static constexpr bool value = true;
};

template <>
struct IsCast<NoCast> {
    static constexpr bool value = false;
};

template <int Width, class T, class Cast>
__device__ inline void write_cast(const Pack<T, Width>& parameter, Cast* cast, long long at) {
    if (!cast) return;
    Pack<Cast, Width> pack;
#pragma unroll
    for (int i = 0; i < Width; ++i) pack.item[i] = to_element<Cast>(to_compute(parameter.item[i]));
    *reinterpret_cast<Pack<Cast, Width>*>(cast + at) = pack;
}

template <int Width, class T>
__device__ inline void write_cast(const Pack<T, Width>&, NoCast*, long long) {}

template <class Step, class T, int Operands, class Cast>
__device__ inline void step_element(const Step& step, T* const (&operand)[Operands], Cast* cast, long long at) {
    typename WideOf<T>::type x[Operands];
#pragma unroll
    for (int k = 0; k < Operands; ++k) {
        if (k != WriteOnly<Step>::operand) x[k] = to_compute(operand[k][at]);
    }
    step(x);
#pragma unroll
    for (int k = 0; k < Operands; ++k) {
        if (k != Step::read_only) operand[k][at] = to_element<T>(x[k]);
    }
    write_cast(Pack<T, 1>{to_element<T>(x[0])}, cast, at);
}

template <int Width, class Step, class T, int Operands, class Cast>
__device__ inline void step_pack(const Step& step, T* const (&operand)[Operands], Cast* cast, long long at) {
    Pack<T, Width> pack[Operands];
#pragma unroll
    for (int k = 0; k < Operands; ++k) {
        if (k != WriteOnly<Step>::operand) pack[k] = *reinterpret_cast<const Pack<T, Width>*>(operand[k] + at);
    }
#pragma unroll
    for (int i = 0; i < Width; ++i) {
        typename WideOf<T>::type x[Operands];
#pragma unroll
        for (int k = 0; k < Operands; ++k) {
            if (k != WriteOnly<Step>::operand) x[k] = to_compute(pack[k].item[i]);
        }
        step(x);
#pragma unroll
        for (int k = 0; k < Operands; ++k) {
            if (k != Step::read_only) pack[k].item[i] = to_element<T>(x[k]);
        }
    }
#pragma unroll
    for (int k = 0; k < Operands; ++k) {
        if (k != Step::read_only) *reinterpret_cast<Pack<T, Width>*>(operand[k] + at) = pack[k];
    }
    write_cast<Width>(pack[0], cast, at);
}

template <int Operands, int Tensors>
__device__ inline unsigned int tensor_of_block(const Table<Operands, Tensors>& table, unsigned int tensors) {
    unsigned int mine = 0, last = tensors - 1;
    while (mine < last) {
        const unsigned int middle = (mine + last + 1) / 2;
        if (table.first[middle] <= blockIdx.x) {
            mine = middle;
        } else {
            last = middle - 1;
        }
    }
    return mine;
}

// The step of tensor `mine`, whose first `Operands` addresses are those of its operands. Where parameters are written as
// another type too, the last address is that, or 0.
template <class T, int Chunk, int Width, int Operands, class Cast = NoCast, class Step, int Addresses, int Tensors>
__device__ inline void step_tensor(const Step& step, const Table<Addresses, Tensors>& table, unsigned int mine) {
    const long long start = static_cast<long long>(blockIdx.x - table.first[mine]) * Chunk;
    const long long left = table.count[mine] - start;
    T* operand[Operands];
    unsigned long long low = 0;
#pragma unroll
    for (int k = 0; k < Operands; ++k) {
        operand[k] = static_cast<T*>(table.address[mine][k]) + start;
        low |= reinterpret_cast<unsigned long long>(operand[k]);
    }
    Cast* cast = nullptr;
    if (IsCast<Cast>::value && table.address[mine][Addresses - 1]) {
        cast = static_cast<Cast*>(table.address[mine][Addresses - 1]) + start;
        low |= reinterpret_cast<unsigned long long>(cast);
    }
    if (left >= Chunk && low % (sizeof(T) * Width) == 0) {
#pragma unroll 2
        for (int at = threadIdx.x * Width; at < Chunk; at += blockDim.x * Width) step_pack<Width>(step, operand, cast, at);
    } else {
        const int end = left < Chunk ? static_cast<int>(left) : Chunk;
        for (int at = threadIdx.x; at < end; at += blockDim.x) step_element(step, operand, cast, at);
    }
}

template <class T, int Chunk, int Width, class Step, int Operands, int Tensors>
__device__ inline void step_tensors(const Step& step, const Table<Operands, Tensors>& table, unsigned int tensors) {
    step_tensor<T, Chunk, Width, Operands>(step, table, tensor_of_block(table, tensors));
}

template <class Cast, class T, int Chunk, int Width, int Operands, class Step, int Tensors>
__device__ inline void step_and_cast_tensors(
    const Step& step, const Table<Operands + 1, Tensors>& table, unsigned int tensors
) {
    step_tensor<T, Chunk, Width, Operands, Cast>(step, table, tensor_of_block(table, tensors));
}

// Gradients times a number that is on the device
template <class W>
struct Scale {
    static constexpr int read_only = -1;
    const float* factor;  // of type W
    __device__ void operator()(W (&x)[1]) const { x[0] *= *reinterpret_cast<const W*>(factor); }
};

// Counts of steps
template <class W>
struct Advance {
    static constexpr int read_only = -1;
    __device__ void operator()(W (&x)[1]) const { x[0] += 1; }
};

// Copies of many tensors, times a number
template <class W>
struct ScaledCopy {
    static constexpr int read_only = 1;
    W factor;
    __device__ void operator()(W (&x)[2]) const { x[0] = factor * x[1]; }
};

template <class W>
struct WriteOnly<ScaledCopy<W>> {
    static constexpr int operand = 0;
};

// For the statements of optimizers, which are defined in nn/optim

__device__ inline float square_root(float x) { return sqrtf(x); }
__device__ inline double square_root(double x) { return sqrt(x); }
__device__ inline float magnitude(float x) { return fabsf(x); }
__device__ inline double magnitude(double x) { return fabs(x); }
// The greater of the two; NaN where one is.
template <class W>
__device__ inline W greater(W a, W b) { return a > b || a != a ? a : b; }

// The gradient of what is minimized, with `decay` times the parameter as L2 penalty; decoupled weight decay multiplies
// the parameter by `factor`.
template <class W>
__device__ inline W decayed(W sign, W decay, W factor, W gradient, W& parameter) {
    W g = sign * gradient;
    if (decay != 0) g += decay * parameter;
    parameter *= factor;
    return g;
}

// Gradients times `factor`; `*found` becomes 1 where one of them is not finite. All blocks that find one write the
// same number, so their order does not matter.
template <class W>
struct Unscale {
    static constexpr int read_only = -1;
    W factor;
    float* found;
    __device__ void operator()(W (&x)[1]) const {
        if (!(magnitude(x[0]) <= largest(x[0]))) *found = 1.0f;
        x[0] *= factor;
    }
    static __device__ float largest(float) { return 3.402823466e+38f; }
    static __device__ double largest(double) { return 1.7976931348623157e+308; }
};
