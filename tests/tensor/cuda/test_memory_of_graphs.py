"""Memory of graphs: private pools, what shares them, when they go back, what statistics and snapshots tell."""

from __future__ import annotations

import gc
import weakref

import pytest

import drv
import tensor
from tensor import cuda
from tests.tensor.cuda.test_cuda_graph import schedules  # noqa: F401

pytestmark = pytest.mark.simulator_only
MIB = 1 << 20


@pytest.fixture
def lazy() -> None:
    drv.simulator.install(schedule="lazy", check="race")


def reserved() -> int:
    gc.collect()
    cuda.empty_cache()
    return cuda.memory_reserved()


@pytest.mark.sampled(4)
def test_addresses_stay_valid_whatever_is_allocated_meanwhile(schedules: None) -> None:  # noqa: F811
    x = tensor.ones(1 << 18, device="cuda")
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = (x * 2).exp().sqrt()
    first = y.data_ptr()
    for number in range(3):
        # What the graph uses inside is handed out to nobody else.
        others = [tensor.full((1 << 18,), 7.0, device="cuda") for _ in range(5)]
        x.fill_(number)
        g.replay()
        assert all(bool((each == 7).all()) for each in others)
        assert tensor.allclose(y.cpu(), tensor.full((1 << 18,), float(number)).exp())
        cuda.empty_cache()
    assert y.data_ptr() == first


def test_what_is_freed_inside_is_used_again_inside(lazy: None) -> None:
    x = tensor.ones(4 * MIB, device="cuda")
    g = cuda.CUDAGraph()
    before = reserved()
    with cuda.graph(g):
        y = x
        for _ in range(30):
            y = y + 1
    assert reserved() - before <= 3 * 16 * MIB + 4 * MIB
    g.replay()
    assert y[0].item() == 31


def test_a_pool_goes_back_when_its_graph_and_tensors_are_gone(lazy: None) -> None:
    x = tensor.ones(4 * MIB, device="cuda")
    before = reserved()
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y, z = x + 1, x + 2
    taken = reserved() - before
    assert taken >= 32 * MIB
    del z
    assert reserved() - before == taken
    gone = weakref.ref(g)
    del g
    # What a tensor occupies stays.
    assert gone() is None
    assert 16 * MIB <= reserved() - before < taken
    del y
    assert reserved() == before


@pytest.mark.sampled(100)
def test_graphs_share_a_pool(schedules: None) -> None:  # noqa: F811
    x = tensor.ones(4 * MIB, device="cuda")
    first, second, third = cuda.CUDAGraph(), cuda.CUDAGraph(), cuda.CUDAGraph()
    handle = cuda.graph_pool_handle()
    assert handle != cuda.graph_pool_handle()
    with cuda.graph(first, pool=handle):
        y = (x + 1).sum()
    alone = reserved()
    with cuda.graph(second, pool=first.pool()):
        z = (x + 2).sum()
    # The second one's intermediate results lie where the first one's did.
    assert reserved() == alone
    assert first.pool() == second.pool() == handle
    with cuda.graph(third):
        (x + 3).sum()
    assert third.pool() != handle
    assert reserved() > alone
    for _ in range(2):
        first.replay()
        second.replay()
        assert [y.item(), z.item()] == [8 * MIB, 12 * MIB]
    first.reset()
    kept = reserved()
    second.replay()
    assert z.item() == 12 * MIB
    second.reset()
    del y, z
    assert reserved() < kept


def test_snapshots_and_statistics_show_the_pool(lazy: None) -> None:
    x = tensor.ones(MIB, device="cuda")
    allocated = cuda.memory_allocated()
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = x * 2
        w = y @ y if y.dim() == 2 else y
    assert cuda.memory_allocated() - allocated == 4 * MIB
    own = [each for each in cuda.memory_snapshot() if tuple(each["segment_pool_id"]) == g.pool()]
    assert sum(each["total_size"] for each in own) >= 4 * MIB
    assert y.data_ptr() in {block["address"] for each in own for block in each["blocks"]}
    assert cuda.memory_snapshot(g.pool()) == own
    others = cuda.memory_snapshot((0, 0))
    assert others
    assert len(others) + len(own) == len(cuda.memory_snapshot())
    assert {each["device"] for each in own} == {0}
    del w


def test_workspaces_of_products_come_from_the_pool(lazy: None) -> None:
    x = tensor.randn(64, 64, device="cuda")
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        x @ x
    cuda.synchronize()
    g = cuda.CUDAGraph()
    with cuda.graph(g, stream=side):
        y = x @ x
    own = [each for each in cuda.memory_snapshot() if tuple(each["segment_pool_id"]) == g.pool()]
    assert sum(each["total_size"] for each in own) >= 32 * MIB
    # The stream goes on with its own, at the same time as a replay.
    g.replay()
    with cuda.stream(side):
        z = (x + 1) @ (x + 1)
    cuda.synchronize()
    assert tensor.equal(y, x @ x)
    assert tensor.equal(z, (x + 1) @ (x + 1))


@pytest.mark.parametrize("option", ["expandable_segments:True", "max_split_size_mb:30"])
def test_with_other_options(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHROOT_CUDA_ALLOC_CONF", option)
    drv.simulator.install(schedule="lazy", check="race")
    x = tensor.ones(4 * MIB, device="cuda")
    before = reserved()
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = (x + 1) * 2
    for _ in range(2):
        g.replay()
        tensor.zeros(4 * MIB, device="cuda")
        assert y[7].item() == 4
    del g, y
    assert reserved() == before


def test_without_caching(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHROOT_NO_CUDA_MEMORY_CACHING", "1")
    drv.simulator.install(schedule="lazy", check="race")
    x = tensor.ones(MIB, device="cuda")
    before = cuda.memory_reserved()
    free = cuda.mem_get_info()[0]
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = (x + 1) * 2
    for _ in range(2):
        g.replay()
        tensor.zeros(MIB, device="cuda")
        assert y[7].item() == 4
    del g, y
    gc.collect()
    cuda.synchronize()
    assert cuda.memory_reserved() == before
    assert cuda.mem_get_info()[0] == free


def test_memory_that_the_driver_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHROOT_CUDA_ALLOC_CONF", "backend:guarding")
    drv.simulator.install(schedule="lazy", check="race")
    x = tensor.ones(MIB, device="cuda")
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = (x + 1) * 2
    for _ in range(2):
        g.replay()
        assert y[7].item() == 4


def test_a_capture_that_runs_out_of_memory_leaves_everything_usable() -> None:
    drv.simulator.install(schedule="lazy", check="race", memory=256 * MIB)
    x = tensor.ones(MIB, device="cuda")
    before = reserved()
    g = cuda.CUDAGraph()
    with pytest.raises(cuda.OutOfMemoryError, match="Tried to allocate"), cuda.graph(g):
        _ = [x * 2 for _ in range(200)]
    assert reserved() == before
    with cuda.graph(g):
        z = x + 1
    g.replay()
    assert z[0].item() == 2


@pytest.mark.sampled(4)
def test_memory_freed_in_a_capture_that_another_stream_used(schedules: None) -> None:  # noqa: F811
    x, side = tensor.ones(4 * MIB, device="cuda"), cuda.Stream()
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = x + 1
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            z = y * 2
            y.record_stream(side)
        del y
        w = x + 5
        cuda.current_stream().wait_stream(side)
    for _ in range(2):
        g.replay()
        cuda.current_stream().wait_stream(side)
        assert [z[0].item(), w[0].item()] == [4, 6]


def test_a_pool_of_the_program(schedules: None) -> None:  # noqa: F811
    pool = cuda.MemPool()
    assert pool.use_count() == 1
    assert pool.allocator is None
    with cuda.use_mem_pool(pool):
        assert pool.use_count() == 2
        x = tensor.ones(3 * MIB, device="cuda")
        y = x + 1
    outside = tensor.ones(3 * MIB, device="cuda")
    addresses = {block["address"] for each in pool.snapshot() for block in each["blocks"]}
    assert {x.data_ptr(), y.data_ptr()} <= addresses
    assert outside.data_ptr() not in addresses
    before = reserved()
    del x, y
    assert reserved() == before
    assert sum(each["active_size"] for each in pool.snapshot()) == 0
    with cuda.use_mem_pool(pool):
        again = tensor.zeros(3 * MIB, device="cuda")
    assert again.data_ptr() in addresses
    del again, pool
    assert reserved() < before


def test_a_graph_in_a_pool_of_the_program_and_arguments_that_are_wrong(lazy: None) -> None:
    pool = cuda.MemPool(no_split=True)
    x = tensor.ones(1000, device="cuda")
    g = cuda.CUDAGraph()
    with cuda.graph(g, pool=pool):
        y = x + 1
    assert g.pool() == pool.id
    g.replay()
    assert y[0].item() == 2
    with pytest.raises(NotImplementedError, match="other languages"):
        cuda.MemPool(object())
    with pytest.raises(TypeError, match="expects a MemPool"), cuda.use_mem_pool((0, 1)):  # type: ignore[arg-type]
        pass


def test_a_pool_that_helps_out() -> None:
    drv.simulator.install(schedule="lazy", memory=150 * MIB)
    lending, keeping = cuda.MemPool(use_on_oom=True), cuda.MemPool()
    for pool in (lending, keeping):
        with cuda.use_mem_pool(pool):
            tensor.zeros(10 * MIB, device="cuda")
    x = tensor.zeros(10 * MIB, device="cuda")
    y = tensor.zeros(10 * MIB, device="cuda")
    with pytest.raises(cuda.OutOfMemoryError):
        tensor.zeros(10 * MIB, device="cuda")
    del x, y
