"""Warp's kernels, forward and backward, through the PTX that it compiles them to ahead of time.

Warp needs no GPU for that. It is not installed with the tests; where it is, these run. Its own launches go through
NVIDIA's runtime library, which needs more of a driver than is documented.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.drv.simulator.machine import Machine

if TYPE_CHECKING:
    from pathlib import Path

warp = pytest.importorskip("warp")

pytestmark = pytest.mark.simulator_only
#: What a kernel is told of its launch, and of each array, as Warp's headers have it.
LAUNCH = np.dtype([("shape", np.uint64), ("size", np.uint64), ("threads_of_a_coordinate", np.uint64)])
ARRAY = np.dtype(
    [
        ("data", np.uint64),
        ("grad", np.uint64),
        ("shape", np.int32, 4),
        ("strides", np.int32, 4),
        ("ndim", np.uint16),
        ("flags", np.uint16),
        ("padding", np.uint32),
    ]
)
COUNT = 200


@warp.kernel
def saxpy(a: float, x: warp.array(dtype=float), y: warp.array(dtype=float)):
    i = warp.tid()
    y[i] = a * x[i] + y[i]


@warp.kernel
def norms(v: warp.array(dtype=warp.vec3), out: warp.array(dtype=float), total: warp.array(dtype=float)):
    i = warp.tid()
    length = warp.length(v[i])
    out[i] = length
    warp.atomic_add(total, 0, length)


class Kernels:
    """The kernels of this file on a simulated driver that checks everything."""

    def __init__(self, folder: Path) -> None:
        warp.compile_aot_module(saxpy.module, arch=75, use_ptx=True, module_dir=str(folder), strip_hash=True)
        (path,) = folder.glob("*.ptx")
        self.machine = Machine(check="full")
        self.module = self.machine.cuModuleLoadData(path.read_bytes() + b"\0")

    def array(self, data: np.ndarray, gradient: np.ndarray | None = None) -> np.ndarray:
        """What a kernel is given for an array of one dimension, of numbers or of vectors."""
        result = np.zeros(1, ARRAY)
        result["data"] = self._copied(data)
        result["grad"] = 0 if gradient is None else self._copied(gradient)
        result["shape"][0, 0], result["strides"][0, 0], result["ndim"] = len(data), data.strides[0], 1
        return result

    def _copied(self, data: np.ndarray) -> int:
        address = self.machine.device_memory(data.nbytes)
        self.machine.cuMemcpyHtoD(address, np.ascontiguousarray(data), data.nbytes)
        return address

    def launch(self, name: str, *arguments: np.ndarray) -> None:
        bounds = np.zeros(1, LAUNCH)
        bounds["shape"], bounds["size"], bounds["threads_of_a_coordinate"] = COUNT, COUNT, 1
        pointers = np.array([each.ctypes.data for each in (bounds, *arguments)], np.uint64)
        function = self.machine.cuModuleGetFunction(self.module, name.encode())
        self.machine.cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, 0, pointers.ctypes.data, 0)
        self.machine.cuCtxSynchronize()
        assert not list(self.machine.driver.findings)

    def read(self, address: Any, like: np.ndarray) -> np.ndarray:
        return self.machine.peek(int(address[0]), like.nbytes).view(like.dtype).reshape(like.shape)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return Kernels(tmp_path_factory.mktemp("warp"))


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_arrays_of_numbers(kernels: Kernels) -> None:
    x, y = values(COUNT), values(COUNT, seed=1)
    out = kernels.array(y)
    kernels.launch("saxpy_cuda_kernel_forward", np.array([2.5], np.float32), kernels.array(x), out)
    np.testing.assert_allclose(kernels.read(out["data"], y), 2.5 * x + y, rtol=1e-6, atol=1e-6)


def test_vectors_and_atomics(kernels: Kernels) -> None:
    v = values(COUNT, 3)
    out, total = kernels.array(np.zeros(COUNT, np.float32)), kernels.array(np.zeros(1, np.float32))
    kernels.launch("norms_cuda_kernel_forward", kernels.array(v), out, total)
    expected = np.sqrt((v * v).sum(1))
    np.testing.assert_allclose(kernels.read(out["data"], expected), expected, rtol=1e-6)
    np.testing.assert_allclose(
        kernels.read(total["data"], np.zeros(1, np.float32)), expected.sum(), rtol=1e-5
    )


def test_adjoints(kernels: Kernels) -> None:
    v, zeros, gradient = values(COUNT, 3), np.zeros(COUNT, np.float32), values(COUNT, seed=2)
    vectors = kernels.array(v, np.zeros_like(v))
    out, total = kernels.array(zeros, gradient), kernels.array(zeros[:1], np.full(1, 0.5, np.float32))
    # Arrays that have gradients of their own need no others.
    adjoints = [np.zeros(1, ARRAY)] * 3
    kernels.launch("norms_cuda_kernel_backward", vectors, out, total, *adjoints)
    expected = (gradient + 0.5)[:, None] * v / np.sqrt((v * v).sum(1, keepdims=True))
    np.testing.assert_allclose(kernels.read(vectors["grad"], v), expected, rtol=1e-5, atol=1e-6)
