"""The same training with PyTorch's DistributedDataParallel."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.parallel.processes import run
from tests.pytorch import torch

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.parity


def _model(lib: Any) -> Any:
    """A module of either library with the same weights; they are found by name."""

    class Net(lib.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm = lib.nn.Linear(4, 6), lib.nn.BatchNorm1d(6)
            self.extra, self.last = lib.nn.Linear(6, 6), lib.nn.Linear(6, 2)
            self.with_extra = True

        def forward(self, x: Any) -> Any:
            x = self.norm(self.first(x).tanh())
            return self.last(self.extra(x) if self.with_extra else x)

    model = Net()
    numbers = np.random.default_rng(0)
    with lib.no_grad():
        for each in model.parameters():
            each.copy_(lib.tensor(0.4 * numbers.standard_normal(tuple(each.shape), dtype=np.float32)))
    return model


def _found(model: Any) -> list[Any]:
    values = [None if each.grad is None else each.grad.numpy().copy() for each in model.parameters()]
    return values + [each.detach().numpy().copy() for each in model.state_dict().values()]


def _programs(lib: Any, ddp: Any, hook: Any, rank: int) -> list[list[Any]]:
    """What users do, with either library."""
    numbers = np.random.default_rng(rank + 1)

    def batch() -> Any:
        return lib.tensor(numbers.standard_normal((5, 4), dtype=np.float32))

    result = []
    for options in (
        {},
        {"gradient_as_bucket_view": True},
        {"find_unused_parameters": True},
        {"static_graph": True},
        {"broadcast_buffers": False},
    ):
        module = _model(lib)
        module.with_extra = not (
            options.get("static_graph") or (rank == 1 and "find_unused_parameters" in options)
        )
        model = ddp(module, **options)
        optimizer = lib.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        for turn in range(3):
            if turn == 1 and "static_graph" not in options:
                with model.no_sync():
                    model(batch()).square().mean().backward()
            model(batch()).square().mean().backward()
            optimizer.step()
            result.append(_found(module))
            optimizer.zero_grad()

    model = ddp(_model(lib))
    model.register_comm_hook(None, hook)
    model(batch()).square().mean().backward()
    result.append(_found(model.module))

    for by_all in (True, False):
        model = ddp(_model(lib))
        optimizer = lib.optim.SGD(model.parameters(), lr=0.01)
        with model.join(divide_by_initial_world_size=by_all):
            for _ in range(1 + 2 * rank):
                optimizer.zero_grad()
                model(batch()).square().mean().backward()
                optimizer.step()
        result.append(_found(model.module)[-7:])
    return result


def _both(rank: int, size: int, directory: str) -> tuple[Any, Any]:
    import torch
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks as torch_hooks

    import nn
    import parallel
    import tensor

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{directory}/torch", rank=rank, world_size=size)
    expected = _programs(
        torch, torch.nn.parallel.DistributedDataParallel, torch_hooks.fp16_compress_hook, rank
    )
    torch.distributed.destroy_process_group()

    class Library:
        def __getattr__(self, name: str) -> Any:
            return getattr(nn if hasattr(nn, name) and name == "optim" else tensor, name)

    library: Any = Library()
    library.nn = nn
    parallel.init_process_group("gloo", f"file://{directory}/ours", rank=rank, world_size=size)
    hook = parallel.ddp_comm_hooks.default_hooks.fp16_compress_hook
    result = _programs(library, parallel.DistributedDataParallel, hook, rank)
    parallel.destroy_process_group()
    return expected, result


def test_training_is_pytorchs(tmp_path: Path) -> None:
    assert torch.distributed.is_gloo_available()
    for expected, result in run(_both, 2, str(tmp_path)):
        assert len(expected) == len(result)
        for number, (theirs, ours) in enumerate(zip(expected, result, strict=True)):
            tolerance = 2e-3 if number == 15 else 1e-4
            for one, other in zip(ours, theirs, strict=True):
                assert (one is None) == (other is None), number
                if one is not None:
                    np.testing.assert_allclose(
                        one, other, rtol=tolerance, atol=tolerance, err_msg=str(number)
                    )


def test_arguments_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    from torch.distributed.algorithms.join import Join, Joinable

    import parallel

    pairs = {
        parallel.DistributedDataParallel: torch.nn.parallel.DistributedDataParallel,
        parallel.DistributedDataParallel.join: torch.nn.parallel.DistributedDataParallel.join,
        parallel.DistributedDataParallel.no_sync: torch.nn.parallel.DistributedDataParallel.no_sync,
        parallel.DistributedDataParallel.register_comm_hook: (
            torch.nn.parallel.DistributedDataParallel.register_comm_hook
        ),
        parallel.SyncBatchNorm: torch.nn.SyncBatchNorm,
        parallel.SyncBatchNorm.convert_sync_batchnorm: torch.nn.SyncBatchNorm.convert_sync_batchnorm,
        parallel.DistributedSampler: torch.utils.data.DistributedSampler,
        parallel.Join: Join,
        parallel.Join.notify_join_context: Join.notify_join_context,
        parallel.Joinable.join_hook: Joinable.join_hook,
    }
    for ours, theirs in pairs.items():
        argument = list(inspect.signature(ours).parameters)
        assert argument == list(inspect.signature(theirs).parameters)[: len(argument)], ours
    names = {name for name in dir(torch.distributed.GradBucket) if not name.startswith("_")}
    assert {name for name in dir(parallel.GradBucket) if not name.startswith("_")} == names
