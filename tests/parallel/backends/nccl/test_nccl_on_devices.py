"""``NcclBackend`` with ``--gpu`` on NVIDIA's library: one rank, and two, on two GPUs or on one.

Without ``--gpu`` the same checks run once on a simulated device with the stand-in for NCCL.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import drv
import nn
import parallel
import tensor
from parallel.backends.nccl.backend import NcclBackend
from parallel.groups.errors import DistBackendError
from parallel.groups.reduce_op import ReduceOp
from parallel.groups.stores.file_store import FileStore
from parallel.groups.stores.store import HashStore, Store
from tests.parallel.processes import run

from .fake_nccl import FakeNccl


def _of_rank(rank: int, dtype: tensor.dtype) -> tensor.Tensor:
    values = tensor.arange(8) % 3 + rank
    return (values > 1 if dtype is tensor.bool else values).to(dtype)


def _sum(size: int, dtype: tensor.dtype) -> list[Any]:
    each = [_of_rank(rank, dtype).to(tensor.float64) for rank in range(size)]
    total = tensor.stack(each).sum(0)
    return ((total > 0) if dtype is tensor.bool else total).to(dtype).tolist()


def every_operation(rank: int, size: int, backend: NcclBackend) -> None:
    for dtype in (
        tensor.float32,
        tensor.float64,
        tensor.float16,
        tensor.bfloat16,
        tensor.complex64,
        tensor.uint8,
        tensor.int8,
        tensor.int16,
        tensor.int32,
        tensor.int64,
        tensor.bool,
    ):
        argument = _of_rank(rank, dtype).cuda()
        work = backend.all_reduce(argument, ReduceOp.SUM)
        work.wait()
        assert argument.tolist() == _sum(size, dtype), dtype
        if dtype.is_floating_point:
            backend.all_reduce(argument, ReduceOp.AVG).wait()
            assert argument.tolist() == _sum(size, dtype), dtype
    token = _of_rank(rank, tensor.float32).cuda()
    backend.reduce(token, 0, ReduceOp.MAX).wait()
    assert token.tolist() == _of_rank(rank if rank else size - 1, tensor.float32).tolist()
    backend.broadcast(token, 0).wait()
    assert token.tolist() == _of_rank(size - 1, tensor.float32).tolist()
    everything = tensor.empty(8 * size, device="cuda")
    backend.all_gather(everything, _of_rank(rank, tensor.float32).cuda()).wait()
    expected = tensor.cat([_of_rank(each, tensor.float32) for each in range(size)])
    assert everything.tolist() == expected.tolist()
    part = tensor.empty(8, device="cuda")
    backend.reduce_scatter(part, expected.cuda(), ReduceOp.SUM).wait()
    assert part.tolist() == (size * _of_rank(rank, tensor.float32)).tolist()
    whole = tensor.empty(8 * size, device="cuda") if rank == 0 else None
    backend.gather(whole, part, 0).wait()
    assert whole is None or whole.tolist() == (size * expected).tolist()
    backend.scatter(part, whole, 0).wait()
    assert part.tolist() == (size * _of_rank(rank, tensor.float32)).tolist()
    counts = [4 + (rank + other) % 2 for other in range(size)]
    received = tensor.empty(sum(counts), device="cuda")
    backend.all_to_all(
        received, tensor.full((sum(counts),), float(rank), device="cuda"), counts, counts
    ).wait()
    assert received.tolist() == [float(other) for other, count in enumerate(counts) for _ in range(count)]
    if size > 1:
        other = 1 - rank
        arrived = tensor.empty(8, device="cuda")
        for each in backend.send_recv([("send", part, other), ("recv", arrived, other)]):
            each.wait()
        assert arrived.tolist() == (size * _of_rank(other, tensor.float32)).tolist()
        work = backend.send(part, other, 0) if rank == 0 else backend.recv(arrived, other, 0)
        work.wait()
    # A caller's own stream, memory that is reused at once, and results that are used in order.
    for step in range(6):
        with tensor.cuda.stream(tensor.cuda.Stream()):
            large = tensor.full((1 << 14,), float(step), device="cuda")
            work = backend.all_reduce(large, ReduceOp.SUM)
            backend.all_reduce(tensor.ones(1 << 14, device="cuda"), ReduceOp.SUM)
            work.wait()
            assert float((large + 1).sum().item()) == (step * size + 1) * 2.0**14
    backend.barrier().wait()
    tensor.cuda.synchronize()


def _backend(rank: int, size: int, store: Store, timeout: float = 60) -> NcclBackend:
    index = _device_of(rank)
    tensor.cuda.set_device(index)
    return NcclBackend(store, rank, size, tensor.device("cuda", index), timedelta(seconds=timeout))


def _device_of(rank: int) -> int:
    """The rank's GPU; several ranks may have one, which NCCL allows if NCCL_MULTI_RANK_GPU_ENABLE says so."""
    return rank % drv.device_count()


def _require_nccl() -> None:
    try:
        drv.runtime().library("nccl")
    except drv.LibraryNotInstalledError:
        pytest.skip("NCCL is not installed")


def _install(device: drv.Device) -> None:
    runtime = device.runtime
    if runtime.simulated:
        runtime.cache(("library", "nccl"), lambda: FakeNccl(runtime))
    _require_nccl()


def test_one_rank(device: drv.Device) -> None:
    _install(device)
    backend = _backend(0, 1, HashStore())
    every_operation(0, 1, backend)
    backend.close()
    backend.close()
    with pytest.raises(DistBackendError, match="destroyed"):
        backend.barrier()


def process_group(rank: int, size: int, store: Store) -> None:
    """The public functions, with the default backends of a machine with GPUs for its tensors."""
    index = _device_of(rank)
    tensor.cuda.set_device(index)
    parallel.init_process_group(
        "nccl", store=store, rank=rank, world_size=size, device_id=index, timeout=timedelta(seconds=60)
    )
    assert parallel.get_backend() == "nccl"
    argument = tensor.full((3, 2), rank + 1.0, device="cuda").t()
    work = parallel.all_reduce(argument, async_op=True)
    work.wait()
    assert argument.tolist() == [[size * (size + 1) / 2] * 3] * 2
    parts = [tensor.empty(2, device="cuda") for _ in range(size)]
    parallel.all_gather(parts, tensor.full((2,), float(rank), device="cuda"))
    assert [part.tolist() for part in parts] == [[float(each)] * 2 for each in range(size)]
    objects = [{"rank": rank}] if rank == 0 else [None]
    parallel.broadcast_object_list(objects, src=0)
    assert objects == [{"rank": 0}]
    module = nn.Linear(3, 2).cuda()
    model = parallel.DistributedDataParallel(module, device_ids=[index])
    for _ in range(2):
        module.zero_grad()
        model(tensor.full((4, 3), float(rank), device="cuda")).sum().backward()
        assert module.weight.grad is not None
        assert module.weight.grad.tolist() == [[2.0 * (size - 1)] * 3] * 2
    group = parallel.new_group([0])
    if rank == 0:
        parallel.barrier(group=group)
    with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
        parallel.all_reduce(tensor.ones(2))
    parallel.barrier()
    tensor.cuda.synchronize()
    parallel.destroy_process_group()


def test_a_process_group_of_one_rank(device: drv.Device) -> None:
    _install(device)
    process_group(0, 1, HashStore())


def _rank(rank: int, size: int, path: str, shared: bool) -> None:
    _allow(shared)
    backend = _backend(rank, size, FileStore(path, size))
    every_operation(rank, size, backend)
    backend.close()
    process_group(rank, size, FileStore(f"{path}.group", size))


def _allow(shared: bool) -> None:
    """Before NCCL is loaded, allow it several ranks on one GPU."""
    if shared:
        os.environ["NCCL_MULTI_RANK_GPU_ENABLE"] = "1"


def _late(rank: int, size: int, path: str, shared: bool) -> float:
    """Rank 1 takes part in the first operation, and not in the second."""
    _allow(shared)
    backend = _backend(rank, size, FileStore(path, size), timeout=5)
    argument = tensor.ones(1 << 20, device="cuda")
    backend.all_reduce(argument, ReduceOp.SUM).wait()
    tensor.cuda.synchronize()
    started = time.monotonic()
    if rank == 0:
        with pytest.raises(DistBackendError, match="barrier: rank 0 of 2 .*timed out"):
            backend.barrier().wait()
    else:
        time.sleep(8)
    backend.abort()
    return time.monotonic() - started


def test_two_ranks(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if not request.config.getoption("--gpu"):
        pytest.skip("needs NVIDIA's library")
    _require_nccl()
    shared = drv.device_count() < 2
    run(_rank, 2, str(tmp_path / "store"), shared, timeout=120)
    waited, _ = run(_late, 2, str(tmp_path / "other"), shared, timeout=120)
    assert 4 < waited < 30
