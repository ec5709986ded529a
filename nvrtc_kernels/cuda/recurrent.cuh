// One step of a recurrent layer: everything between two products of matrices, in one pass.
//
// The host multiplies the input of all steps with its weights at once. Then each step is a product of the hidden
// state with its weights, which cuBLAS adds to the gates (a GRU's stay apart: its reset gate stands between them),
// and one of these kernels. A thread has `W` neighbouring units of a row with all their gates, so that nothing but
// the products exchanges data between units, and every element is read and written once, in packs of up to 16 bytes.
//
// `state` and `cell` are the running states of all rows of the batch. A step goes over the first `rows` of them and
// writes in place: rows whose sequence is over (or, backward in time, has not begun) are not touched, so that at the
// end the states are those after the last step of each sequence, without a copy. With `Keep` a step also leaves what
// its derivative needs: activated gates in place of the gates, and the states as they were before.
//
//   rnn    h = f(gates), f being tanh or the rectifier
//   lstm   gates i, f, g, o:  c = f c + i g, h = o tanh(c)      (Hochreiter, Schmidhuber, 1997)
//   gru    gates r, z, n:  n = tanh(x_n + r h_n), h = n + z (h - n)      (Cho et al., 2014, as PyTorch has it)
//
// Gates of a row lie one after another, `hidden` units each. Half precision is computed with in float.

#pragma once

template <class T, int W>
struct alignas(sizeof(T) * W) Units {
    T item[W];
};

template <int W, class T>
__device__ inline Units<T, W> load(const T* from) {
    return *reinterpret_cast<const Units<T, W>*>(from);
}

template <class T, int W>
__device__ inline void store(T* to, const Units<T, W>& units) {
    *reinterpret_cast<Units<T, W>*>(to) = units;
}

template <class V>
__device__ inline V sigmoid(V x) {
    return V(1) / (V(1) + exp(-x));
}

template <bool Rectified, class V>
__device__ inline V activated(V x) {
    if (!Rectified) return tanh(x);
    return x < V(0) ? V(0) : x;
}

// Which units the threads of a launch share: all of them, or the block's own of each row.
struct AllUnits {};
template <class I>
struct OwnUnits {
    I first, count;
};

// Calls `body(row, unit, at)` for each pack of `W` units: its row, its first unit, and where that is in a state.
template <int W, class I, class Body>
__device__ inline void each_unit(AllUnits, I rows, I hidden, const Body& body) {
    const I step = static_cast<I>(gridDim.x) * blockDim.x * W, count = rows * hidden;
    for (I at = (static_cast<I>(blockIdx.x) * blockDim.x + threadIdx.x) * W; at < count; at += step)
        body(at / hidden, at % hidden, at);
}
template <int W, class I, class Body>
__device__ inline void each_unit(OwnUnits<I> own, I rows, I hidden, const Body& body) {
    static_assert(W == 1, "own units are gone over one by one");
    for (I at = threadIdx.x; at < rows * own.count; at += blockDim.x) {
        const I row = at / own.count, unit = own.first + at % own.count;
        body(row, unit, row * hidden + unit);
    }
}

template <int W, bool Keep, bool Rectified, class Own, class I, class T>
__device__ void rnn_forward(Own own, I rows, I hidden, T* gates, T* state, T* out, T* before) {
    each_unit<W>(own, rows, hidden, [=](I, I, I at) {
        const Units<T, W> gate = load<W>(gates + at);
        Units<T, W> h;
#pragma unroll
        for (int k = 0; k < W; ++k) h.item[k] = to_element<T>(activated<Rectified>(to_compute(gate.item[k])));
        if (Keep) {
            store(before + at, load<W>(state + at));
            store(gates + at, h);
        }
        store(state + at, h);
        store(out + at, h);
    });
}

template <int W, bool Rectified, class Own, class I, class T>
__device__ void rnn_backward(Own own, I rows, I hidden, const T* grad, T* grad_state, const T* gates, T* grad_gates) {
    each_unit<W>(own, rows, hidden, [=](I, I, I at) {
        const Units<T, W> h = load<W>(gates + at), later = load<W>(grad_state + at);
        Units<T, W> given = {}, made;
        if (grad) given = load<W>(grad + at);
#pragma unroll
        for (int k = 0; k < W; ++k) {
            const auto x = to_compute(h.item[k]);
            const auto g = to_compute(given.item[k]) + to_compute(later.item[k]);
            made.item[k] = to_element<T>(Rectified ? (x > 0 ? g : g * 0) : g * (1 - x * x));
        }
        store(grad_gates + at, made);
    });
}

// A unit of an lstm: gates after their activation, and the new states.
template <class V>
struct LstmUnit {
    V in, forget, value, show, cell, state;
};

template <class V>
__device__ inline LstmUnit<V> lstm_unit(V i, V f, V g, V o, V cell) {
    const V in = sigmoid(i), forget = sigmoid(f), value = tanh(g), show = sigmoid(o);
    const V now = forget * cell + in * value;
    return {in, forget, value, show, now, show * tanh(now)};
}

// Gradients of a unit's gates, and of the cell state before, given those of the states behind.
template <class V>
struct LstmUnitGradient {
    V in, forget, value, show, cell;
};

template <class V>
__device__ inline LstmUnitGradient<V> lstm_unit_gradient(V in, V forget, V value, V show, V was, V h, V of_cell) {
    const V shown = tanh(forget * was + in * value);
    const V c = of_cell + h * show * (1 - shown * shown);
    return {c * value * in * (1 - in), c * was * forget * (1 - forget), c * in * (1 - value * value),
            h * shown * show * (1 - show), c * forget};
}

// With `Projected` the hidden state is a product of `out`, and not known here.
template <int W, bool Keep, bool Projected, class Own, class I, class T>
__device__ void lstm_forward(
    Own own, I rows, I hidden, T* gates, T* cell, T* state, T* out, T* cell_before, T* before) {
    each_unit<W>(own, rows, hidden, [=](I row, I unit, I at) {
        T* its = gates + row * 4 * hidden + unit;
        Units<T, W> i = load<W>(its), f = load<W>(its + hidden), g = load<W>(its + 2 * hidden),
                    o = load<W>(its + 3 * hidden);
        const Units<T, W> old = load<W>(cell + at);
        Units<T, W> c, h;
#pragma unroll
        for (int k = 0; k < W; ++k) {
            const auto result = lstm_unit(
                to_compute(i.item[k]), to_compute(f.item[k]), to_compute(g.item[k]), to_compute(o.item[k]),
                to_compute(old.item[k]));
            c.item[k] = to_element<T>(result.cell);
            h.item[k] = to_element<T>(result.state);
            if (Keep) {
                i.item[k] = to_element<T>(result.in);
                f.item[k] = to_element<T>(result.forget);
                g.item[k] = to_element<T>(result.value);
                o.item[k] = to_element<T>(result.show);
            }
        }
        if (Keep) {
            store(its, i);
            store(its + hidden, f);
            store(its + 2 * hidden, g);
            store(its + 3 * hidden, o);
            store(cell_before + at, old);
            if (!Projected) store(before + at, load<W>(state + at));
        }
        store(cell + at, c);
        store(out + at, h);
        if (!Projected) store(state + at, h);
    });
}

// The new cell state is not kept: two products and a sum give it again.
template <int W, bool Projected, class Own, class I, class T>
__device__ void lstm_backward(
    Own own, I rows, I hidden, const T* grad, const T* grad_state, T* grad_cell, const T* gates, const T* cell_before,
    T* grad_gates) {
    each_unit<W>(own, rows, hidden, [=](I row, I unit, I at) {
        const T* its = gates + row * 4 * hidden + unit;
        T* made = grad_gates + row * 4 * hidden + unit;
        Units<T, W> i = load<W>(its), f = load<W>(its + hidden), g = load<W>(its + 2 * hidden),
                    o = load<W>(its + 3 * hidden);
        const Units<T, W> old = load<W>(cell_before + at);
        Units<T, W> given = {}, later = {}, of_cell = load<W>(grad_cell + at);
        if (grad) given = load<W>(grad + at);
        if (!Projected) later = load<W>(grad_state + at);
#pragma unroll
        for (int k = 0; k < W; ++k) {
            const auto h = to_compute(given.item[k]) + to_compute(later.item[k]);
            const auto result = lstm_unit_gradient(
                to_compute(i.item[k]), to_compute(f.item[k]), to_compute(g.item[k]), to_compute(o.item[k]),
                to_compute(old.item[k]), h, to_compute(of_cell.item[k]));
            i.item[k] = to_element<T>(result.in);
            f.item[k] = to_element<T>(result.forget);
            g.item[k] = to_element<T>(result.value);
            o.item[k] = to_element<T>(result.show);
            of_cell.item[k] = to_element<T>(result.cell);
        }
        store(made, i);
        store(made + hidden, f);
        store(made + 2 * hidden, g);
        store(made + 3 * hidden, o);
        store(grad_cell + at, of_cell);
    });
}

// `gates` have the input's part and its bias, `recurrent` the hidden state's part without; `bias` may be missing.
template <int W, bool Keep, class Own, class I, class T>
__device__ void gru_forward(
    Own own, I rows, I hidden, T* gates, const T* recurrent, const T* bias, T* state, T* out, T* before,
    T* candidate) {
    each_unit<W>(own, rows, hidden, [=](I row, I unit, I at) {
        T* its = gates + row * 3 * hidden + unit;
        const T* other = recurrent + row * 3 * hidden + unit;
        Units<T, W> r = load<W>(its), z = load<W>(its + hidden), n = load<W>(its + 2 * hidden);
        Units<T, W> from_r = load<W>(other), from_z = load<W>(other + hidden), from_n = load<W>(other + 2 * hidden);
        const Units<T, W> old = load<W>(state + at);
        Units<T, W> h;
#pragma unroll
        for (int k = 0; k < W; ++k) {
            auto in_r = to_compute(from_r.item[k]), in_z = to_compute(from_z.item[k]), in_n = to_compute(from_n.item[k]);
            if (bias) {
                in_r += to_compute(bias[unit + k]);
                in_z += to_compute(bias[hidden + unit + k]);
                in_n += to_compute(bias[2 * hidden + unit + k]);
            }
            const auto reset = sigmoid(to_compute(r.item[k]) + in_r), stay = sigmoid(to_compute(z.item[k]) + in_z);
            const auto next = tanh(to_compute(n.item[k]) + reset * in_n);
            h.item[k] = to_element<T>(next + stay * (to_compute(old.item[k]) - next));
            if (Keep) {
                r.item[k] = to_element<T>(reset);
                z.item[k] = to_element<T>(stay);
                n.item[k] = to_element<T>(next);
                from_n.item[k] = to_element<T>(in_n);
            }
        }
        if (Keep) {
            store(its, r);
            store(its + hidden, z);
            store(its + 2 * hidden, n);
            store(candidate + at, from_n);
            store(before + at, old);
        }
        store(state + at, h);
        store(out + at, h);
    });
}

// Leaves in `grad_state` what goes to the state past the gates; the product with the weights is added to it.
template <int W, class Own, class I, class T>
__device__ void gru_backward(
    Own own, I rows, I hidden, const T* grad, T* grad_state, const T* gates, const T* candidate, const T* before,
    T* grad_gates, T* grad_recurrent) {
    each_unit<W>(own, rows, hidden, [=](I row, I unit, I at) {
        const I first = row * 3 * hidden + unit;
        Units<T, W> r = load<W>(gates + first), z = load<W>(gates + first + hidden),
                    n = load<W>(gates + first + 2 * hidden);
        const Units<T, W> from_n = load<W>(candidate + at), old = load<W>(before + at);
        Units<T, W> given = {}, later = load<W>(grad_state + at), into_n;
        if (grad) given = load<W>(grad + at);
#pragma unroll
        for (int k = 0; k < W; ++k) {
            const auto reset = to_compute(r.item[k]), stay = to_compute(z.item[k]), next = to_compute(n.item[k]);
            const auto h = to_compute(given.item[k]) + to_compute(later.item[k]);
            const auto of_n = h * (1 - stay) * (1 - next * next);
            r.item[k] = to_element<T>(of_n * to_compute(from_n.item[k]) * reset * (1 - reset));
            z.item[k] = to_element<T>(h * (to_compute(old.item[k]) - next) * stay * (1 - stay));
            n.item[k] = to_element<T>(of_n);
            into_n.item[k] = to_element<T>(of_n * reset);
            later.item[k] = to_element<T>(h * stay);
        }
        store(grad_gates + first, r);
        store(grad_gates + first + hidden, z);
        store(grad_gates + first + 2 * hidden, n);
        store(grad_recurrent + first, r);
        store(grad_recurrent + first + hidden, z);
        store(grad_recurrent + first + 2 * hidden, into_n);
        store(grad_state + at, later);
    });
}

// A projected state, which a product has made, becomes the running one.
template <int W, bool Keep, class Own, class I, class T>
__device__ void projection_forward(Own own, I rows, I hidden, const T* out, T* state, T* before) {
    each_unit<W>(own, rows, hidden, [=](I, I, I at) {
        if (Keep) store(before + at, load<W>(state + at));
        store(state + at, load<W>(out + at));
    });
}

// All of the gradient of a projected state.
template <int W, class Own, class I, class T>
__device__ void projection_backward(Own own, I rows, I hidden, const T* grad, const T* grad_state, T* grad_out) {
    each_unit<W>(own, rows, hidden, [=](I, I, I at) {
        Units<T, W> sum = load<W>(grad_state + at), given = {};
        if (grad) given = load<W>(grad + at);
#pragma unroll
        for (int k = 0; k < W; ++k) sum.item[k] = to_element<T>(to_compute(sum.item[k]) + to_compute(given.item[k]));
        store(grad_out + at, sum);
    });
}
