"""Workspaces of cuBLAS: one for each handle and stream, from the caching allocator, and counted there."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import drv
import tensor
from tensor.core.devices.state import cuda_state
from tensor.operations.products.blas import handle_for

pytestmark = pytest.mark.simulator_only
MIB = 1 << 20


@pytest.fixture
def matrix(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    drv.simulator.install(check="race")
    return tensor.ones(64, 64, device="cuda")


def test_it_is_counted(matrix: Any) -> None:
    before = tensor.cuda.memory_allocated()
    matrix @ matrix
    device = cuda_state(0)
    size = 32 * MIB if device.native.compute_capability >= (9, 0) else 4 * MIB
    assert tensor.cuda.memory_allocated() == before + size
    assert tensor.cuda.memory_reserved() >= before + size
    matrix @ matrix
    assert tensor.cuda.memory_allocated() == before + size, "one for all products on a stream"
    (storage,) = handle_for(device).workspaces.values()
    blocks = [block for each in tensor.cuda.memory_snapshot() for block in each["blocks"]]
    assert any(block["address"] == storage.address and block["size"] == size for block in blocks)


def test_streams_have_their_own(matrix: Any) -> None:
    matrix @ matrix
    one = tensor.cuda.memory_allocated()
    side = tensor.cuda.Stream()
    side.wait_stream(tensor.cuda.current_stream())
    with tensor.cuda.stream(side):
        product = matrix @ matrix
    again = matrix @ matrix
    workspaces = handle_for(cuda_state(0)).workspaces
    assert len({storage.address for storage in workspaces.values()}) == 2
    size = next(iter(workspaces.values())).capacity
    assert tensor.cuda.memory_allocated() == one + size + product.nbytes + again.nbytes
    # Both streams write to theirs, and nothing orders them.
    tensor.cuda.synchronize()
    assert not drv.simulator.findings()


def test_a_shared_one_would_be_found(matrix: Any) -> None:
    """What the rule is for: two streams that write to one workspace."""
    matrix @ matrix
    handle = handle_for(cuda_state(0))
    ((_, storage),) = handle.workspaces.items()
    side = tensor.cuda.Stream()
    handle.workspaces[side] = storage
    tensor.cuda.synchronize()
    with drv.simulator.findings().collecting() as findings:
        matrix @ matrix
        with tensor.cuda.stream(side):
            matrix @ matrix
        tensor.cuda.synchronize()
    assert any("cublas" in str(finding) for finding in findings)


@pytest.mark.parametrize(("text", "size"), [(":4096:8", 32 * MIB), (":16:8", 128 << 10), (":4096:2:16:8", (8 << 20) + (128 << 10)), (":0:0", 0)])  # fmt: skip
def test_the_environment_says_how_large(
    matrix: Any, monkeypatch: pytest.MonkeyPatch, text: str, size: int
) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", text)
    before = tensor.cuda.memory_allocated()
    assert (matrix @ matrix)[0, 0].item() == 64
    assert tensor.cuda.memory_allocated() == before + size


def test_an_environment_that_says_nothing_sensible(matrix: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "4096:8")
    with pytest.raises(drv.InvalidValueError, match="'4096:8': expected pairs"):
        matrix @ matrix
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    assert (matrix @ matrix)[0, 0].item() == 64


def test_threads_that_end_leave_their_handle_to_others(matrix: Any) -> None:
    matrix @ matrix
    seen, memory = set(), set()

    def work() -> None:
        matrix @ matrix
        seen.add(id(handle_for(cuda_state(0))))
        memory.add(tensor.cuda.memory_allocated())

    for _ in range(5):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(seen) == 1
    assert id(handle_for(cuda_state(0))) not in seen, "this thread's own is not given away"
    assert len(memory) == 1
    # Threads at the same time have handles of their own.
    barrier = threading.Barrier(3)

    def together() -> None:
        work()
        barrier.wait()

    threads = [threading.Thread(target=together) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 3
    assert not drv.simulator.findings()
