"""Numerical programs: layers of networks, transforms, simulations, finance, linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st

from tests.drv.simulator.kernels.conftest import Launch, few_examples

SOURCE = r"""
__device__ float block_reduce(float value, bool maximum) {
    __shared__ float cells[32];
    __shared__ float result;
    for (int o = 16; o; o >>= 1) {
        float other = __shfl_xor_sync(~0u, value, o);
        value = maximum ? fmaxf(value, other) : value + other;
    }
    if (threadIdx.x % 32 == 0) cells[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < blockDim.x / 32; ++w) value = maximum ? fmaxf(value, cells[w]) : value + cells[w];
        result = value;
    }
    __syncthreads();
    float r = result;
    __syncthreads();
    return r;
}

extern "C" __global__ void softmax(const float* in, float* out, int columns) {
    const float* x = in + (size_t)blockIdx.x * columns;
    float m = -3.4e38f, sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) m = fmaxf(m, x[i]);
    m = block_reduce(m, true);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(x[i] - m);
    sum = block_reduce(sum, false);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) out[(size_t)blockIdx.x * columns + i] = expf(x[i] - m) / sum;
}

extern "C" __global__ void layer_norm(const float* in, const float* gamma, const float* beta, float* out, int columns,
                                      float epsilon) {
    const float* x = in + (size_t)blockIdx.x * columns;
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += x[i];
    float mean = block_reduce(sum, false) / columns;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) squares += (x[i] - mean) * (x[i] - mean);
    float scale = rsqrtf(block_reduce(squares, false) / columns + epsilon);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        out[(size_t)blockIdx.x * columns + i] = (x[i] - mean) * scale * gamma[i] + beta[i];
}

extern "C" __global__ void activations(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i];
    out[i] = fmaxf(x, 0.0f);
    out[n + i] = 0.5f * x * (1.0f + erff(x * 0.70710678f));
    out[2 * n + i] = x / (1.0f + expf(-x));
    out[3 * n + i] = x > 0 ? x : expm1f(x);
    out[4 * n + i] = fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
    out[5 * n + i] = tanhf(x);
}

// A direct convolution with stride and padding: (N, C, H, W) by (K, C, R, S).
extern "C" __global__ void conv2d(const float* x, const float* w, const float* bias, float* y, int C, int H, int W, int K,
                                  int R, int S, int stride, int pad, int P, int Q) {
    int q = blockIdx.x * blockDim.x + threadIdx.x, p = blockIdx.y * blockDim.y + threadIdx.y;
    int n = blockIdx.z / K, k = blockIdx.z % K;
    if (p >= P || q >= Q) return;
    float sum = bias ? bias[k] : 0.0f;
    for (int c = 0; c < C; ++c)
        for (int r = 0; r < R; ++r) {
            int h = p * stride - pad + r;
            if (h < 0 || h >= H) continue;
            for (int s = 0; s < S; ++s) {
                int v = q * stride - pad + s;
                if (v >= 0 && v < W) sum += x[((n * C + c) * H + h) * W + v] * w[((k * C + c) * R + r) * S + s];
            }
        }
    y[((n * K + k) * P + p) * Q + q] = sum;
}

// Radix 2, in shared memory, bit reversal first.
extern "C" __global__ void fft(const float2* in, float2* out, int log_n) {
    extern __shared__ float2 data[];
    int n = 1 << log_n;
    in += blockIdx.x * n;
    out += blockIdx.x * n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[__brev(i) >> (32 - log_n)] = in[i];
    for (int half = 1; half < n; half *= 2) {
        __syncthreads();
        for (int t = threadIdx.x; t < n / 2; t += blockDim.x) {
            int j = t % half, at = 2 * (t - j) + j;
            float s, c;
            sincospif(-(float)j / half, &s, &c);
            float2 a = data[at], b = data[at + half];
            float2 r = make_float2(b.x * c - b.y * s, b.x * s + b.y * c);
            data[at] = make_float2(a.x + r.x, a.y + r.y);
            data[at + half] = make_float2(a.x - r.x, a.y - r.y);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = data[i];
}

extern "C" __global__ void n_body(const float4* bodies, float4* forces, int n) {
    __shared__ float4 tile[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 me = i < n ? bodies[i] : make_float4(0, 0, 0, 0);
    float3 f = {0, 0, 0};
    for (int base = 0; base < n; base += 64) {
        tile[threadIdx.x] = base + threadIdx.x < n ? bodies[base + threadIdx.x] : make_float4(0, 0, 0, 0);
        __syncthreads();
#pragma unroll 4
        for (int j = 0; j < 64; ++j) {
            float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            float s = tile[j].w * inverse * inverse * inverse;
            f.x += dx * s; f.y += dy * s; f.z += dz * s;
        }
        __syncthreads();
    }
    if (i < n) forces[i] = make_float4(f.x, f.y, f.z, 0);
}

__device__ float cumulative(float d) { return 0.5f * erfcf(-d * 0.70710678118654752f); }
extern "C" __global__ void black_scholes(const float* spot, const float* strike, const float* years, float rate,
                                         float volatility, float* call, float* put, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float root = sqrtf(years[i]);
        float d1 = (__logf(spot[i] / strike[i]) + (rate + 0.5f * volatility * volatility) * years[i]) / (volatility * root);
        float d2 = d1 - volatility * root, discount = expf(-rate * years[i]);
        call[i] = spot[i] * cumulative(d1) - strike[i] * discount * cumulative(d2);
        put[i] = strike[i] * discount * cumulative(-d2) - spot[i] * cumulative(-d1);
    }
}

extern "C" __global__ void runge_kutta(double* state, double dt, int steps) {
    double x = state[2 * threadIdx.x], v = state[2 * threadIdx.x + 1];
    auto a = [](double p) { return -sin(p); };
    for (int s = 0; s < steps; ++s) {
        double k1x = v, k1v = a(x);
        double k2x = v + 0.5 * dt * k1v, k2v = a(x + 0.5 * dt * k1x);
        double k3x = v + 0.5 * dt * k2v, k3v = a(x + 0.5 * dt * k2x);
        double k4x = v + dt * k3v, k4v = a(x + dt * k3x);
        x += dt / 6 * (k1x + 2 * k2x + 2 * k3x + k4x);
        v += dt / 6 * (k1v + 2 * k2v + 2 * k3v + k4v);
    }
    state[2 * threadIdx.x] = x;
    state[2 * threadIdx.x + 1] = v;
}

// A factorisation of one small matrix per block, in place.
extern "C" __global__ void cholesky(double* matrices, int n) {
    double* a = matrices + (size_t)blockIdx.x * n * n;
    for (int k = 0; k < n; ++k) {
        if (threadIdx.x == 0) a[k * n + k] = sqrt(a[k * n + k]);
        __syncthreads();
        for (int i = k + 1 + threadIdx.x; i < n; i += blockDim.x) a[i * n + k] /= a[k * n + k];
        __syncthreads();
        for (int t = threadIdx.x; t < n * n; t += blockDim.x) {
            int i = t / n, j = t % n;
            if (j > k && i >= j) a[i * n + j] -= a[i * n + k] * a[j * n + k];
        }
        __syncthreads();
    }
}

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* out, int n, int d, float scale) {
    extern __shared__ float scores[];
    int row = blockIdx.x;
    for (int j = threadIdx.x; j < n; j += blockDim.x) {
        float s = 0;
        for (int c = 0; c < d; ++c) s += q[row * d + c] * k[j * d + c];
        scores[j] = j <= row ? s * scale : -1e30f;
    }
    __syncthreads();
    float m = -1e30f, sum = 0;
    for (int j = threadIdx.x; j < n; j += blockDim.x) m = fmaxf(m, scores[j]);
    m = block_reduce(m, true);
    for (int j = threadIdx.x; j < n; j += blockDim.x) sum += scores[j] = __expf(scores[j] - m);
    sum = block_reduce(sum, false);
    for (int c = threadIdx.x; c < d; c += blockDim.x) {
        float r = 0;
        for (int j = 0; j < n; ++j) r += scores[j] * v[j * d + c];
        out[row * d + c] = r / sum;
    }
}
"""


@few_examples
@given(rows=st.integers(1, 8), columns=st.integers(1, 300), warps=st.integers(1, 8))
def test_softmax(launch: Launch, rows: int, columns: int, warps: int) -> None:
    x = (np.random.default_rng(columns).standard_normal((rows, columns)) * 10).astype(np.float32)
    out = np.zeros_like(x)
    launch(SOURCE, rows, 32 * warps, x, out, np.int32(columns), name="softmax")
    np.testing.assert_allclose(out, scipy.special.softmax(x.astype(np.float64), axis=1), rtol=1e-5, atol=1e-9)


@few_examples
@given(rows=st.integers(1, 5), columns=st.integers(2, 300), warps=st.integers(1, 8))
def test_layer_norm(launch: Launch, rows: int, columns: int, warps: int) -> None:
    random = np.random.default_rng(columns)
    x = (random.standard_normal((rows, columns)) * 2 + 3).astype(np.float32)
    gamma, beta = random.standard_normal((2, columns)).astype(np.float32)
    out = np.zeros_like(x)
    launch(
        SOURCE, rows, 32 * warps, x, gamma, beta, out, np.int32(columns), np.float32(1e-5), name="layer_norm"
    )
    wide = x.astype(np.float64)
    normal = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(out, normal * gamma + beta, rtol=2e-4, atol=2e-5)


def test_activations(launch: Launch) -> None:
    x = np.linspace(-12, 12, 1000).astype(np.float32)
    out = np.zeros((6, 1000), np.float32)
    launch(SOURCE, 8, 128, x, out, np.int32(1000), name="activations")
    w = x.astype(np.float64)
    expected = [np.maximum(w, 0), w * scipy.special.ndtr(w), w * scipy.special.expit(w),
                np.where(w > 0, w, np.expm1(np.minimum(w, 0))), np.logaddexp(w, 0), np.tanh(w)]  # fmt: skip
    for got, needed in zip(out, expected, strict=True):
        np.testing.assert_allclose(got, needed, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("stride", "pad", "bias"), [(1, 0, True), (1, 1, False), (2, 2, True)])
def test_convolution(launch: Launch, stride: int, pad: int, bias: bool) -> None:
    random = np.random.default_rng(0)
    n, c, h, w, k, r, s = 2, 3, 11, 9, 4, 3, 5
    x = random.integers(-4, 5, (n, c, h, w)).astype(np.float32)
    weight = random.integers(-4, 5, (k, c, r, s)).astype(np.float32)
    offset = random.integers(-4, 5, k).astype(np.float32)
    p, q = (h + 2 * pad - r) // stride + 1, (w + 2 * pad - s) // stride + 1
    y = np.zeros((n, k, p, q), np.float32)
    sizes = [np.int32(size) for size in (c, h, w, k, r, s, stride, pad, p, q)]
    launch(
        SOURCE, (-(-q // 8), -(-p // 4), n * k), (8, 4), x, weight, offset if bias else np.uint64(0), y, *sizes,
        name="conv2d",
    )  # fmt: skip
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (r, s), (2, 3))[:, :, ::stride, ::stride]
    expected = np.einsum("ncpqrs,kcrs->nkpq", windows, weight)
    np.testing.assert_array_equal(y, expected + offset[:, None, None] if bias else expected)


@pytest.mark.parametrize("log_n", [1, 4, 9])
def test_fft(launch: Launch, log_n: int) -> None:
    random = np.random.default_rng(log_n)
    x = (random.standard_normal((3, 2**log_n)) + 1j * random.standard_normal((3, 2**log_n))).astype(
        np.complex64
    )
    out = np.zeros_like(x)
    launch(SOURCE, 3, 64, x, out, np.int32(log_n), name="fft", shared=8 * 2**log_n)
    np.testing.assert_allclose(out, np.fft.fft(x), rtol=1e-4, atol=1e-5 * 2**log_n)


@pytest.mark.parametrize("n", [1, 64, 150])
def test_n_body(launch: Launch, n: int) -> None:
    bodies = np.random.default_rng(n).standard_normal((n, 4)).astype(np.float32)
    forces = np.zeros_like(bodies)
    launch(SOURCE, -(-n // 64), 64, bodies, forces, np.int32(n), name="n_body")
    wide = bodies.astype(np.float64)
    delta = wide[None, :, :3] - wide[:, None, :3]
    scale = wide[None, :, 3] * ((delta**2).sum(2) + 0.01) ** -1.5
    np.testing.assert_allclose(forces[:, :3], (delta * scale[..., None]).sum(1), rtol=1e-3, atol=1e-3)


def test_black_scholes(launch: Launch) -> None:
    random = np.random.default_rng(0)
    spot, strike = random.uniform(5, 100, (2, 1000)).astype(np.float32)
    years = random.uniform(0.25, 10, 1000).astype(np.float32)
    call, put = np.zeros((2, 1000), np.float32)
    launch(
        SOURCE, 3, 128, spot, strike, years, np.float32(0.02), np.float32(0.3), call, put, np.int32(1000),
        name="black_scholes",
    )  # fmt: skip
    s, k, t = (array.astype(np.float64) for array in (spot, strike, years))
    d1 = (np.log(s / k) + (0.02 + 0.045) * t) / (0.3 * np.sqrt(t))
    d2 = d1 - 0.3 * np.sqrt(t)
    cdf = scipy.special.ndtr
    expected = s * cdf(d1) - k * np.exp(-0.02 * t) * cdf(d2)
    np.testing.assert_allclose(call, expected, atol=2e-4)
    np.testing.assert_allclose(put, expected - s + k * np.exp(-0.02 * t), atol=2e-4)


def test_runge_kutta(launch: Launch) -> None:
    state = np.random.default_rng(0).uniform(-2, 2, (64, 2))
    energy = state[:, 1] ** 2 / 2 - np.cos(state[:, 0])
    launch(SOURCE, 1, 64, state, np.float64(0.01), np.int32(100), name="runge_kutta")
    np.testing.assert_allclose(state[:, 1] ** 2 / 2 - np.cos(state[:, 0]), energy, atol=1e-8)


def test_cholesky(launch: Launch) -> None:
    root = np.random.default_rng(0).standard_normal((4, 12, 12))
    matrices = root @ root.transpose(0, 2, 1) + 12 * np.eye(12)
    expected = np.linalg.cholesky(matrices)
    launch(SOURCE, 4, 64, matrices, np.int32(12), name="cholesky")
    np.testing.assert_allclose(np.tril(matrices), expected, rtol=1e-12)


def test_causal_attention(launch: Launch) -> None:
    n, d = 24, 16
    q, k, v = np.random.default_rng(0).standard_normal((3, n, d)).astype(np.float32)
    out = np.zeros((n, d), np.float32)
    launch(
        SOURCE,
        n,
        64,
        q,
        k,
        v,
        out,
        np.int32(n),
        np.int32(d),
        np.float32(0.25),
        name="attention",
        shared=4 * n,
    )
    scores = np.where(np.tri(n, dtype=bool), q.astype(np.float64) @ k.T / 4, -np.inf)
    np.testing.assert_allclose(out, scipy.special.softmax(scores, axis=1) @ v, rtol=1e-4, atol=1e-5)
