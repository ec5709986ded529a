"""Integer programs with long dependent chains: SHA-256, CRC-32, generators of random numbers."""

from __future__ import annotations

import hashlib
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drv.simulator.kernels.conftest import Launch, few_examples

SHA256 = r"""
__constant__ unsigned K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

#define ROTR(x, n) (((x) >> (n)) | ((x) << (32 - (n))))

__device__ void compress(unsigned* state, const unsigned char* block) {
    unsigned w[64];
    for (int i = 0; i < 16; ++i)
        w[i] = (unsigned)block[4 * i] << 24 | block[4 * i + 1] << 16 | block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; ++i) {
        unsigned s0 = ROTR(w[i - 15], 7) ^ ROTR(w[i - 15], 18) ^ (w[i - 15] >> 3);
        unsigned s1 = ROTR(w[i - 2], 17) ^ ROTR(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    unsigned a = state[0], b = state[1], c = state[2], d = state[3];
    unsigned e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; ++i) {
        unsigned t1 = h + (ROTR(e, 6) ^ ROTR(e, 11) ^ ROTR(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i];
        unsigned t2 = (ROTR(a, 2) ^ ROTR(a, 13) ^ ROTR(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g; g = f; f = e; e = d + t1; d = c; c = b; b = a; a = t1 + t2;
    }
    state[0] += a; state[1] += b; state[2] += c; state[3] += d;
    state[4] += e; state[5] += f; state[6] += g; state[7] += h;
}

extern "C" __global__ void sha256(const unsigned char* messages, const int* starts, unsigned char* digests, int count) {
    int m = blockIdx.x * blockDim.x + threadIdx.x;
    if (m >= count) return;
    const unsigned char* text = messages + starts[m];
    int length = starts[m + 1] - starts[m];
    unsigned state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    int at = 0;
    for (; at + 64 <= length; at += 64) compress(state, text + at);
    unsigned char last[128] = {};
    int rest = length - at;
    for (int i = 0; i < rest; ++i) last[i] = text[at + i];
    last[rest] = 0x80;
    int blocks = rest < 56 ? 1 : 2;
    unsigned long long bits = (unsigned long long)length * 8;
    for (int i = 0; i < 8; ++i) last[64 * blocks - 1 - i] = (unsigned char)(bits >> (8 * i));
    for (int i = 0; i < blocks; ++i) compress(state, last + 64 * i);
    for (int i = 0; i < 8; ++i)
        for (int k = 0; k < 4; ++k) digests[m * 32 + 4 * i + k] = (unsigned char)(state[i] >> (24 - 8 * k));
}
"""

OTHERS = r"""
extern "C" __global__ void crc32(const unsigned char* data, int length, unsigned* out) {
    __shared__ unsigned table[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) {
        unsigned c = i;
        for (int k = 0; k < 8; ++k) c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
        table[i] = c;
    }
    __syncthreads();
    const unsigned char* row = data + (blockIdx.x * blockDim.x + threadIdx.x) * length;
    unsigned crc = ~0u;
    for (int i = 0; i < length; ++i) crc = table[(crc ^ row[i]) & 255] ^ (crc >> 8);
    out[blockIdx.x * blockDim.x + threadIdx.x] = ~crc;
}

extern "C" __global__ void fnv1a(const char* text, unsigned long long* out) {
    unsigned long long h = 14695981039346656037ull;
    for (const char* c = text + threadIdx.x; *c; ++c) h = (h ^ (unsigned char)*c) * 1099511628211ull;
    out[threadIdx.x] = h;
}

extern "C" __global__ void xorshift(unsigned* state, float* uniform, int steps) {
    unsigned x = state[threadIdx.x];
    for (int i = 0; i < steps; ++i) { x ^= x << 13; x ^= x >> 17; x ^= x << 5; }
    state[threadIdx.x] = x;
    uniform[threadIdx.x] = (x >> 8) * (1.0f / 16777216.0f);
}

extern "C" __global__ void xoshiro256(unsigned long long* states, unsigned long long* out, int steps) {
    unsigned long long s[4];
    for (int k = 0; k < 4; ++k) s[k] = states[4 * threadIdx.x + k];
    auto rotl = [](unsigned long long x, int k) { return (x << k) | (x >> (64 - k)); };
    unsigned long long result = 0;
    for (int i = 0; i < steps; ++i) {
        result = rotl(s[1] * 5, 7) * 9;
        unsigned long long t = s[1] << 17;
        s[2] ^= s[0]; s[3] ^= s[1]; s[1] ^= s[2]; s[0] ^= s[3];
        s[2] ^= t;
        s[3] = rotl(s[3], 45);
    }
    out[threadIdx.x] = result;
}

__device__ uint4 philox(uint4 counter, uint2 key) {
    for (int round = 0; round < 10; ++round) {
        unsigned high0 = __umulhi(0xD2511F53u, counter.x), low0 = 0xD2511F53u * counter.x;
        unsigned high1 = __umulhi(0xCD9E8D57u, counter.z), low1 = 0xCD9E8D57u * counter.z;
        counter = make_uint4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
        key.x += 0x9E3779B9u;
        key.y += 0xBB67AE85u;
    }
    return counter;
}
extern "C" __global__ void philox_4x32_10(const uint4* counters, const uint2* keys, uint4* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = philox(counters[i], keys[i]);
}

extern "C" __global__ void monte_carlo_pi(unsigned long long seed, int samples, unsigned* inside) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned hits = 0;
    for (int s = 0; s < samples; ++s) {
        uint4 r = philox(make_uint4(s, 0, i, 0), make_uint2((unsigned)seed, (unsigned)(seed >> 32)));
        float x = r.x * 2.3283064e-10f, y = r.y * 2.3283064e-10f;
        hits += x * x + y * y < 1.0f;
    }
    for (int offset = 16; offset; offset /= 2) hits += __shfl_down_sync(~0u, hits, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(inside, hits);
}
"""


@few_examples
@given(messages=st.lists(st.binary(max_size=150), min_size=1, max_size=40))
def test_sha256(launch: Launch, messages: list[bytes]) -> None:
    run_sha256(launch, messages)


def test_sha256_at_the_edges_of_blocks(launch: Launch) -> None:
    run_sha256(
        launch,
        [bytes(range(n % 256)) * (n // 256 + 1) for n in (0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 300)],
    )


def run_sha256(launch: Launch, messages: list[bytes]) -> None:
    text = np.frombuffer(b"".join(messages) + b"-", np.uint8)
    starts = np.concatenate([[0], np.cumsum([len(message) for message in messages])]).astype(np.int32)
    digests = np.zeros((len(messages), 32), np.uint8)
    launch(SHA256, -(-len(messages) // 32), 32, text, starts, digests, np.int32(len(messages)))
    assert [digest.tobytes() for digest in digests] == [
        hashlib.sha256(message).digest() for message in messages
    ]


@pytest.mark.parametrize("length", [1, 60])
def test_crc32(launch: Launch, length: int) -> None:
    rows = np.random.default_rng(length).integers(0, 256, (100, length)).astype(np.uint8)
    out = np.zeros(100, np.uint32)
    launch(OTHERS, 2, 50, rows, np.int32(length), out, name="crc32")
    assert out.tolist() == [zlib.crc32(row.tobytes()) for row in rows]


def test_fnv_of_a_string(launch: Launch) -> None:
    text = b"kernels run from PTX" + b"\0"
    out = np.zeros(10, np.uint64)
    launch(OTHERS, 1, 10, np.frombuffer(text, np.uint8), out, name="fnv1a")
    for start, got in enumerate(out.tolist()):
        expected = 14695981039346656037
        for byte in text[start:-1]:
            expected = (expected ^ byte) * 1099511628211 % 2**64
        assert got == expected


def test_xorshift(launch: Launch) -> None:
    state = np.random.default_rng(0).integers(1, 2**32, 128).astype(np.uint32)
    expected = state.copy()
    for _ in range(40):
        for shift in (13, -17, 5):
            expected ^= expected << np.uint32(shift) if shift > 0 else expected >> np.uint32(-shift)
    uniform = np.zeros(128, np.float32)
    launch(OTHERS, 1, 128, state, uniform, np.int32(40), name="xorshift")
    np.testing.assert_array_equal(state, expected)
    np.testing.assert_array_equal(uniform, (expected >> 8) / np.float32(2**24))


def test_xoshiro(launch: Launch) -> None:
    states = np.random.default_rng(0).integers(0, 2**64, (64, 4), dtype=np.uint64)
    out = np.zeros(64, np.uint64)
    launch(OTHERS, 1, 64, states, out, np.int32(25), name="xoshiro256")

    def rotl(x: np.ndarray, k: int) -> np.ndarray:
        return x << np.uint64(k) | x >> np.uint64(64 - k)

    s = list(states.T.copy())
    for _ in range(25):
        result = rotl(s[1] * np.uint64(5), 7) * np.uint64(9)
        t = s[1] << np.uint64(17)
        s[2] = s[2] ^ s[0]
        s[3] = s[3] ^ s[1]
        s[1] = s[1] ^ s[2]
        s[0] = s[0] ^ s[3]
        s[2] = s[2] ^ t
        s[3] = rotl(s[3], 45)
    np.testing.assert_array_equal(out, result)


def test_philox(launch: Launch) -> None:
    """Known answers of Random123's kat_vectors."""
    counters = np.zeros((34, 4), np.uint32)
    keys = np.zeros((34, 2), np.uint32)
    counters[1], keys[1] = 0xFFFFFFFF, 0xFFFFFFFF
    counters[2] = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]
    keys[2] = [0xA4093822, 0x299F31D0]
    out = np.zeros_like(counters)
    launch(OTHERS, 2, 17, counters, keys, out, name="philox_4x32_10")
    assert out[0].tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert out[1].tolist() == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    assert out[2].tolist() == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]
    assert (out[3:] == out[0]).all()


def test_monte_carlo(launch: Launch) -> None:
    inside = np.zeros(1, np.uint32)
    launch(OTHERS, 4, 128, np.uint64(12345678901), np.int32(30), inside, name="monte_carlo_pi")
    assert abs(4 * inside[0] / (512 * 30) - np.pi) < 0.06
    repeated = np.zeros(1, np.uint32)
    launch(OTHERS, 4, 128, np.uint64(12345678901), np.int32(30), repeated, name="monte_carlo_pi")
    assert repeated[0] == inside[0]
