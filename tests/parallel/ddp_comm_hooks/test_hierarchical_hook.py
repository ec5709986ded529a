"""Averages inside nodes, then between them: the gradients of without, and how many bytes go between nodes."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import nn
import parallel
import tensor
from parallel.backends.gloo.connections import PeerConnections
from parallel.ddp_comm_hooks.default_hooks import bf16_compress_wrapper
from parallel.ddp_comm_hooks.hierarchical_hook import HierarchicalState, hierarchical_hook
from tests.parallel.thread_ranks import run_threads

pytestmark = pytest.mark.simulator_only


def _model() -> Any:
    # Buckets whose sizes two and three ranks do not divide.
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 5))
    with tensor.no_grad():
        for number, each in enumerate(model.parameters()):
            each.copy_((tensor.arange(each.numel()).reshape(each.shape) * 1.7 + number).sin())
    return model


def _gradients(rank: int, size: int, device: str, shape: tuple[int, int], dtype: Any) -> list[Any]:
    model = parallel.DistributedDataParallel(_model().to(device), bucket_cap_mb=2e-4)
    mesh = parallel.init_device_mesh(device, shape)
    hook: Any = hierarchical_hook if dtype is None else bf16_compress_wrapper(hierarchical_hook)
    model.register_comm_hook(HierarchicalState(mesh), hook)
    for _ in range(2):
        model.zero_grad()
        model(tensor.full((2, 5), 0.5 + rank, device=device)).square().sum().backward()
    assert len(model.reducer.buckets) > 1
    return [each.grad.cpu().numpy() for each in model.parameters()]


@pytest.mark.parametrize(
    ("device", "shape", "dtype", "options"),
    [
        ("cpu", (2, 3), None, {}),
        ("cpu", (2, 2), tensor.bfloat16, {}),
        ("cuda", (2, 2), None, {"schedule": "random", "seed": 3}),
        pytest.param("cuda", (2, 4), None, {"schedule": "lazy"}, marks=pytest.mark.nightly),
    ],
)
def test_gradients_are_means_over_all_ranks(
    device: str, shape: tuple[int, int], dtype: Any, options: dict[str, Any]
) -> None:
    before = tensor.backends.cuda.matmul.allow_tf32
    tensor.backends.cuda.matmul.allow_tf32 = False
    ranks = shape[0] * shape[1]
    try:
        results = run_threads(_gradients, ranks, device, shape, dtype, device=device, **options)
    finally:
        tensor.backends.cuda.matmul.allow_tf32 = before
    model = _model()
    for rank in range(ranks):
        (model(tensor.full((2, 5), 0.5 + rank)).square().sum() / ranks).backward()
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype is None else {"rtol": 2e-2, "atol": 0.1}
    for gradients in results:
        for one, each in zip(gradients, model.parameters(), strict=True):
            np.testing.assert_allclose(one, each.grad.numpy(), **tolerance)


def _averaged(rank: int, size: int, ranks_of_a_node: int | None) -> None:
    model = nn.Linear(512, 512, bias=False)
    ddp = parallel.DistributedDataParallel(model)
    if ranks_of_a_node is not None:
        mesh = parallel.init_device_mesh("cpu", (size // ranks_of_a_node, ranks_of_a_node))
        ddp.register_comm_hook(HierarchicalState(mesh), hierarchical_hook)
    parallel.barrier()
    _count.begin()
    ddp(tensor.ones(1, 512)).sum().backward()
    parallel.barrier()
    _count.end()


class _Count:
    """Bytes of large messages between nodes of ``ranks_of_a_node`` ranks, while all ranks say so."""

    def __init__(self) -> None:
        self.total = self.ranks_of_a_node = self._counting = 0
        self._lock = threading.Lock()

    def begin(self) -> None:
        parallel.barrier()
        self._counting = 1
        parallel.barrier()

    def end(self) -> None:
        parallel.barrier()
        self._counting = 0
        parallel.barrier()

    def note(self, sender: int, receiver: int, size: int) -> None:
        if (
            self._counting
            and size > 64
            and sender // self.ranks_of_a_node != receiver // self.ranks_of_a_node
        ):
            with self._lock:
                self.total += size


_count = _Count()


@pytest.mark.parametrize(("nodes", "ranks"), [(2, 2), (2, 3)])
def test_bytes_between_nodes(nodes: int, ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    send = PeerConnections.send

    def counted(self: Any, peer: int, header: Any, body: Any, *others: Any) -> None:
        _count.note(self.rank, peer, len(body))
        send(self, peer, header, body, *others)

    monkeypatch.setattr(PeerConnections, "send", counted)
    size, totals = 4 * 512 * 512, []
    for ranks_of_a_node in (ranks, None):
        _count.total, _count.ranks_of_a_node = 0, ranks
        run_threads(_averaged, nodes * ranks, ranks_of_a_node)
        totals.append(_count.total)
    hierarchical, direct = totals
    # Parts of a node's ranks are of one size.
    assert 2 * (nodes - 1) * size <= hierarchical <= 2 * (nodes - 1) * (size + 8 * ranks)
    assert direct == 2 * (nodes - 1) * ranks * size


def _refused(rank: int, size: int) -> None:
    with pytest.raises(ValueError, match="of two dimensions"):
        HierarchicalState(parallel.init_device_mesh("cpu", (1,)))


def test_a_mesh_of_one_dimension_is_refused() -> None:
    run_threads(_refused, 1)
