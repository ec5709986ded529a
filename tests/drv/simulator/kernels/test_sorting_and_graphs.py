"""Sorting, graphs, sparse matrices, dynamic programming, cellular automata."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.csgraph
from hypothesis import given
from hypothesis import strategies as st

from tests.drv.simulator.kernels.conftest import Launch, few_examples

SOURCE = r"""
extern "C" __global__ void bitonic_shared(int* keys, int* values, int n) {
    extern __shared__ int2 pairs[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) pairs[i] = make_int2(keys[i], values[i]);
    for (int size = 2; size <= n; size <<= 1)
        for (int stride = size >> 1; stride; stride >>= 1) {
            __syncthreads();
            for (int t = threadIdx.x; t < n / 2; t += blockDim.x) {
                int low = 2 * t - (t & (stride - 1)), high = low + stride;
                bool descending = low & size;
                int2 a = pairs[low], b = pairs[high];
                if ((a.x > b.x) != descending) { pairs[low] = b; pairs[high] = a; }
            }
        }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) { keys[i] = pairs[i].x; values[i] = pairs[i].y; }
}

extern "C" __global__ void bitonic_step(double* data, int size, int stride) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, j = i ^ stride;
    if (j > i && ((i & size) == 0) == (data[i] > data[j])) { double t = data[i]; data[i] = data[j]; data[j] = t; }
}

// Least significant digit first, 4 bits at a time, one block; stable.
extern "C" __global__ void radix_sort(unsigned* data, unsigned* scratch, int n) {
    __shared__ int counts[16], starts[16], warp_counts[8][16];
    unsigned *from = data, *to = scratch;
    for (int shift = 0; shift < 32; shift += 4) {
        if (threadIdx.x < 16) counts[threadIdx.x] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&counts[from[i] >> shift & 15], 1);
        __syncthreads();
        if (threadIdx.x == 0) {
            int sum = 0;
            for (int d = 0; d < 16; ++d) { starts[d] = sum; sum += counts[d]; }
        }
        __syncthreads();
        for (int base = 0; base < n; base += blockDim.x) {
            int i = base + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
            unsigned key = i < n ? from[i] : 0, digit = i < n ? key >> shift & 15 : 16;
            unsigned peers = __match_any_sync(~0u, digit);
            int rank = __popc(peers & ((1u << lane) - 1));
            if (lane < 16) warp_counts[warp][lane] = 0;
            __syncwarp();
            if (rank == 0 && digit < 16) warp_counts[warp][digit] = __popc(peers);
            __syncthreads();
            if (digit < 16) {
                int place = starts[digit] + rank;
                for (int w = 0; w < warp; ++w) place += warp_counts[w][digit];
                to[place] = key;
            }
            __syncthreads();
            if (threadIdx.x < 16)
                for (int w = 0; w < blockDim.x / 32; ++w) starts[threadIdx.x] += warp_counts[w][threadIdx.x];
            __syncthreads();
        }
        unsigned* t = from; from = to; to = t;
    }
}

extern "C" __global__ void odd_even_sort(short* data, int n) {
    for (int pass = 0; pass < n; ++pass) {
        int i = 2 * threadIdx.x + (pass & 1);
        if (i + 1 < n && data[i] > data[i + 1]) { short t = data[i]; data[i] = data[i + 1]; data[i + 1] = t; }
        __syncthreads();
    }
}

extern "C" __global__ void floyd_warshall(float* distance, int n, int k) {
    int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && j < n) distance[i * n + j] = fminf(distance[i * n + j], distance[i * n + k] + distance[k * n + j]);
}

extern "C" __global__ void bfs_level(const int* rows, const int* columns, int* level, const int* frontier, int size,
                                     int* next, int* next_size, int depth) {
    int f = blockIdx.x * blockDim.x + threadIdx.x;
    if (f >= size) return;
    int node = frontier[f];
    for (int e = rows[node]; e < rows[node + 1]; ++e)
        if (atomicCAS(&level[columns[e]], -1, depth) == -1) next[atomicAdd(next_size, 1)] = columns[e];
}

// One warp for each row.
extern "C" __global__ void spmv(const int* rows, const int* columns, const double* values, const double* x, double* y, int n) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= n) return;
    double sum = 0;
    for (int e = rows[row] + lane; e < rows[row + 1]; e += 32) sum = fma(values[e], x[columns[e]], sum);
    for (int offset = 16; offset; offset >>= 1) sum += __shfl_down_sync(~0u, sum, offset);
    if (lane == 0) y[row] = sum;
}

extern "C" __global__ void union_find(const int2* edges, int m, int* parent) {
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= m) return;
    int a = edges[e].x, b = edges[e].y;
    while (true) {
        while (parent[a] != a) a = parent[a];
        while (parent[b] != b) b = parent[b];
        if (a == b) return;
        if (a < b) { int t = a; a = b; b = t; }
        if (atomicCAS(&parent[a], a, b) == a) return;
    }
}
extern "C" __global__ void find_roots(int* parent, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int r = i;
    while (r != parent[r]) r = parent[r];
    parent[i] = r;
}

extern "C" __global__ void life(const unsigned char* in, unsigned char* out, int height, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int neighbours = 0;
    for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx)
            if (dx || dy) neighbours += in[(y + dy + height) % height * width + (x + dx + width) % width];
    unsigned char alive = in[y * width + x];
    out[y * width + x] = neighbours == 3 || (alive && neighbours == 2);
}

// Levenshtein distance along anti-diagonals, one block.
extern "C" __global__ void edit_distance(const char* a, int n, const char* b, int m, int* out) {
    extern __shared__ int diagonals[];
    int *old = diagonals, *last = diagonals + n + 1, *now = diagonals + 2 * (n + 1);
    for (int d = 0; d <= n + m; ++d) {
        for (int i = threadIdx.x; i <= n; i += blockDim.x) {
            int j = d - i;
            if (j < 0 || j > m) continue;
            if (i == 0 || j == 0) now[i] = i + j;
            else now[i] = min(min(last[i - 1], last[i]) + 1, old[i - 1] + (a[i - 1] != b[j - 1]));
        }
        __syncthreads();
        int* t = old; old = last; last = now; now = t;
    }
    if (threadIdx.x == 0) *out = last[n];
}

// Each block counts primes of its segment of the sieve.
extern "C" __global__ void sieve(const int* primes, int count, int* totals) {
    __shared__ unsigned char composite[1024];
    int low = blockIdx.x * 1024;
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) composite[i] = low + i < 2;
    __syncthreads();
    for (int p = threadIdx.x; p < count; p += blockDim.x) {
        int prime = primes[p], first = max(prime * prime, (low + prime - 1) / prime * prime);
        for (int k = first - low; k < 1024; k += prime) composite[k] = 1;
    }
    __syncthreads();
    int mine = 0;
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) mine += !composite[i];
    atomicAdd(&totals[blockIdx.x], mine);
}

extern "C" __global__ void knapsack(const int* weight, const int* value, int items, int capacity, int* best) {
    extern __shared__ int rows[];
    int *from = rows, *to = rows + capacity + 1;
    for (int c = threadIdx.x; c <= capacity; c += blockDim.x) from[c] = 0;
    __syncthreads();
    for (int i = 0; i < items; ++i) {
        for (int c = threadIdx.x; c <= capacity; c += blockDim.x)
            to[c] = c >= weight[i] ? max(from[c], from[c - weight[i]] + value[i]) : from[c];
        __syncthreads();
        int* t = from; from = to; to = t;
    }
    if (threadIdx.x == 0) *best = from[capacity];
}

extern "C" __global__ void queens(int n, int* solutions) {
    unsigned all = (1u << n) - 1;
    int first = blockIdx.x, second = threadIdx.x;
    if (second >= n || first == second || first == second + 1 || second == first + 1) return;
    unsigned columns[16], left[16], right[16], free_[16];
    int depth = 2, count = 0;
    unsigned a = 1u << first, b = 1u << second;
    columns[2] = a | b;
    left[2] = ((a << 1) | b) << 1;
    right[2] = ((a >> 1) | b) >> 1;
    free_[2] = all & ~(columns[2] | left[2] | right[2]);
    while (depth >= 2) {
        if (!free_[depth]) { --depth; continue; }
        unsigned bit = free_[depth] & -free_[depth];
        free_[depth] ^= bit;
        if (depth == n - 1) { ++count; continue; }
        columns[depth + 1] = columns[depth] | bit;
        left[depth + 1] = (left[depth] | bit) << 1;
        right[depth + 1] = (right[depth] | bit) >> 1;
        ++depth;
        free_[depth] = all & ~(columns[depth] | left[depth] | right[depth]);
    }
    atomicAdd(solutions, count);
}
"""


@pytest.mark.parametrize(("n", "threads"), [(2, 1), (64, 32), (1024, 256)])
def test_bitonic_sort_in_shared_memory(launch: Launch, n: int, threads: int) -> None:
    keys = np.random.default_rng(n).permutation(n).astype(np.int32) * 3
    values = np.arange(n, dtype=np.int32)
    order = np.argsort(keys)
    expected = keys[order]
    launch(SOURCE, 1, threads, keys, values, np.int32(n), name="bitonic_shared", shared=8 * n)
    np.testing.assert_array_equal(keys, expected)
    np.testing.assert_array_equal(values, order)


def test_bitonic_sort_by_many_launches(launch: Launch) -> None:
    data = np.random.default_rng(0).standard_normal(512)
    expected = np.sort(data)
    with launch.on_device(data) as address:
        size = 2
        while size <= 512:
            stride = size // 2
            while stride:
                launch(
                    SOURCE, 4, 128, np.uint64(address), np.int32(size), np.int32(stride), name="bitonic_step"
                )
                stride //= 2
            size *= 2
    np.testing.assert_array_equal(data, expected)


@pytest.mark.parametrize("n", [1, 256, 700])
def test_radix_sort(launch: Launch, n: int) -> None:
    data = np.random.default_rng(n).integers(0, 2**32, n).astype(np.uint32)
    expected = np.sort(data)
    launch(SOURCE, 1, 256, data, np.zeros_like(data), np.int32(n), name="radix_sort")
    np.testing.assert_array_equal(data, expected)


@few_examples
@given(values=st.lists(st.integers(-(2**15), 2**15 - 1), min_size=1, max_size=90))
def test_odd_even_sort(launch: Launch, values: list[int]) -> None:
    data = np.array(values, np.int16)
    launch(SOURCE, 1, max(1, len(data) // 2), data, np.int32(len(data)), name="odd_even_sort")
    assert data.tolist() == sorted(values)


def test_all_shortest_paths(launch: Launch) -> None:
    random = np.random.default_rng(0)
    n = 40
    distance = np.where(random.random((n, n)) < 0.1, random.integers(1, 20, (n, n)), np.inf).astype(
        np.float32
    )
    np.fill_diagonal(distance, 0)
    expected = scipy.sparse.csgraph.floyd_warshall(distance)
    with launch.on_device(distance) as address:
        for k in range(n):
            launch(
                SOURCE, (3, 5), (16, 8), np.uint64(address), np.int32(n), np.int32(k), name="floyd_warshall"
            )
    np.testing.assert_array_equal(distance, expected)


def test_breadth_first_search(launch: Launch) -> None:
    graph = scipy.sparse.random(300, 300, 0.008, random_state=0, format="csr")
    level = np.full(300, -1, np.int32)
    level[7] = 0
    frontier, depth = np.array([7], np.int32), 0
    while len(frontier):
        depth += 1
        following, size = np.zeros(300, np.int32), np.zeros(1, np.int32)
        launch(
            SOURCE, -(-len(frontier) // 64), 64, graph.indptr, graph.indices, level, frontier, np.int32(len(frontier)),
            following, size, np.int32(depth), name="bfs_level",
        )  # fmt: skip
        frontier = following[: size[0]].copy()
    hops = scipy.sparse.csgraph.shortest_path(graph, unweighted=True, indices=7)
    np.testing.assert_array_equal(level, np.where(np.isinf(hops), -1, hops))


def test_sparse_matrix_times_vector(launch: Launch) -> None:
    matrix = scipy.sparse.random(90, 400, 0.1, random_state=1, format="csr")
    x = np.random.default_rng(0).standard_normal(400)
    y = np.zeros(90)
    launch(SOURCE, 12, 256, matrix.indptr, matrix.indices, matrix.data, x, y, np.int32(90), name="spmv")
    np.testing.assert_allclose(y, matrix @ x, rtol=1e-12, atol=1e-14)


def test_connected_components(launch: Launch) -> None:
    edges = np.random.default_rng(0).integers(0, 400, (220, 2)).astype(np.int32)
    parent = np.arange(400, dtype=np.int32)
    launch(SOURCE, 4, 64, edges, np.int32(220), parent, name="union_find")
    launch(SOURCE, 4, 100, parent, np.int32(400), name="find_roots")
    graph = scipy.sparse.coo_matrix((np.ones(220), edges.T), shape=(400, 400))
    count, labels = scipy.sparse.csgraph.connected_components(graph, directed=False)
    assert len(np.unique(parent)) == count
    assert len(set(zip(parent.tolist(), labels.tolist(), strict=True))) == count


@few_examples
@given(height=st.integers(2, 40), width=st.integers(2, 40))
def test_game_of_life(launch: Launch, height: int, width: int) -> None:
    world = (np.random.default_rng(width).random((height, width)) < 0.4).astype(np.uint8)
    out = np.zeros_like(world)
    launch(
        SOURCE,
        (-(-width // 16), -(-height // 8)),
        (16, 8),
        world,
        out,
        np.int32(height),
        np.int32(width),
        name="life",
    )
    around = sum(np.roll(world, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx)
    np.testing.assert_array_equal(out, (around == 3) | ((world == 1) & (around == 2)))


@few_examples
@given(a=st.text("abc", min_size=1, max_size=40), b=st.text("abcd", min_size=1, max_size=40))
def test_edit_distance(launch: Launch, a: str, b: str) -> None:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        previous, row[0] = row[:], i + 1
        for j, y in enumerate(b):
            row[j + 1] = min(previous[j + 1] + 1, row[j] + 1, previous[j] + (x != y))
    out = np.zeros(1, np.int32)
    texts = (np.frombuffer(text.encode(), np.int8) for text in (a, b))
    first, second = texts
    launch(
        SOURCE, 1, 32, first, np.int32(len(a)), second, np.int32(len(b)), out, name="edit_distance",
        shared=12 * (len(a) + 1),
    )  # fmt: skip
    assert out[0] == row[-1]


def test_sieve(launch: Launch) -> None:
    primes = np.array([p for p in range(2, 128) if all(p % q for q in range(2, p))], np.int32)
    totals = np.zeros(16, np.int32)
    launch(SOURCE, 16, 64, primes, np.int32(len(primes)), totals, name="sieve")
    assert totals.sum() == 1900
    assert totals[0] == 172


def test_knapsack(launch: Launch) -> None:
    random = np.random.default_rng(0)
    weight, value = random.integers(1, 30, 20).astype(np.int32), random.integers(1, 100, 20).astype(np.int32)
    best = np.zeros(1, np.int32)
    launch(SOURCE, 1, 64, weight, value, np.int32(20), np.int32(150), best, name="knapsack", shared=8 * 151)
    table = np.zeros(151, int)
    for w, v in zip(weight, value, strict=True):
        table[w:] = np.maximum(table[w:], table[:-w] + v)
    assert best[0] == table[-1]


def test_eight_queens(launch: Launch) -> None:
    solutions = np.zeros(1, np.int32)
    launch(SOURCE, 8, 32, np.int32(8), solutions, name="queens")
    assert solutions[0] == 92
