"""Plans give the outputs, placements and gradients that PyTorch's give, on ranks that are threads."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import nn
import parallel
import tensor
from tests.parallel.thread_ranks import run_threads

pytestmark = pytest.mark.parity


def _plans(placements: Any, styles: Any) -> dict[str, Any]:
    shard, replicate = placements.Shard, placements.Replicate
    col, row = styles.ColwiseParallel, styles.RowwiseParallel
    return {
        "weights": {"0": col(output_layouts=replicate()), "2": col(), "4": row()},
        "sequence": {
            "0": row(input_layouts=replicate(), output_layouts=shard(1)),
            "1": styles.SequenceParallel(),
            "2": col(input_layouts=shard(1)),
            "4": row(output_layouts=shard(1), use_local_output=False),
        },
        "other": {
            "0": col(use_local_output=False),
            "1": styles.PrepareModuleInput(
                input_layouts=(shard(-1),), desired_input_layouts=(replicate(),), use_local_output=True
            ),
            "2": col(output_layouts=shard(1), use_local_output=False),
            "3": styles.PrepareModuleOutput(
                output_layouts=shard(1), desired_output_layouts=shard(-1), use_local_output=True
            ),
            "4": row(output_layouts=shard(-1)),
        },
    }


def _computed(
    library: Any, layers: Any, distributed: Any, placements: Any, mesh: Any, name: str
) -> list[Any]:
    """Representations of styles; the output of this rank; of parameters placements, whole gradients and local shapes."""
    model = layers.Sequential(
        layers.Embedding(7, 5), layers.LayerNorm(5), layers.Linear(5, 6), layers.ReLU(), layers.Linear(6, 5)
    )
    with library.no_grad():
        for number, each in enumerate(model.parameters()):
            each.copy_((library.arange(each.numel()).reshape(each.shape) * 1.7 + number).sin())
    plan = _plans(placements, placements.parallel)[name]
    placements.parallel.parallelize_module(model, mesh, plan)
    output = model(library.arange(12).reshape(2, 6) % 7)
    whole = output if not hasattr(output, "to_local") else output.to_local()
    (whole * (library.arange(whole.numel()).reshape(whole.shape) + 1).cos()).sum().backward()
    described: list[Any] = [list(map(repr, plan.values())), whole.detach().numpy()]
    for each in model.parameters():
        gradient = each.grad
        if hasattr(gradient, "full_tensor"):
            described.append((repr(each.placements), tuple(each.to_local().shape)))
            gradient = gradient.full_tensor()
        described.append(gradient.numpy())
    return described


def _ours(rank: int, size: int, name: str) -> list[Any]:
    mesh = parallel.init_device_mesh("cpu", (size,))
    return _computed(tensor, nn, parallel, parallel.tensor, mesh, name)


def _theirs(size: int) -> dict[str, list[Any]]:
    """What each rank computes for each plan, in threads of PyTorch's own tests."""
    import torch.distributed.tensor.parallel
    from torch.testing._internal.distributed import multi_threaded_pg

    distributed = torch.distributed
    results: dict[str, list[Any]] = {name: [None] * size for name in ("weights", "sequence", "other")}
    failures: list[BaseException] = []
    store = distributed.HashStore()

    def call(rank: int) -> None:
        try:
            distributed.init_process_group("threaded", rank=rank, world_size=size, store=store)
            mesh = distributed.device_mesh.init_device_mesh("cpu", (size,))
            for name in results:
                results[name][rank] = _computed(torch, torch.nn, distributed, distributed.tensor, mesh, name)
            distributed.destroy_process_group()
        except BaseException as error:
            failures.append(error)

    torch._C._distributed_c10d._set_thread_isolation_mode(True)
    multi_threaded_pg._install_threaded_pg()
    try:
        threads = [threading.Thread(target=call, args=(rank,)) for rank in range(size)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(60)
    finally:
        multi_threaded_pg._uninstall_threaded_pg()
        torch._C._distributed_c10d._set_thread_isolation_mode(False)
    if failures:
        raise failures[0]
    return results


@pytest.mark.filterwarnings("ignore")
def test_plans() -> None:
    for name, theirs in _theirs(2).items():
        for ours, expected in zip(run_threads(_ours, 2, name), theirs, strict=True):
            assert len(ours) == len(expected)
            for one, other in zip(ours, expected, strict=True):
                if isinstance(other, np.ndarray):
                    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5, err_msg=name)
                else:
                    assert one == other, name
