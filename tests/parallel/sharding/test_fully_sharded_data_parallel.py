"""The older wrapper: the losses of one process, names, state dicts of both types, and what is refused."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import numpy as np
import pytest

import nn
import parallel
import tensor
from parallel.fsdp import (
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecision,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictType,
    wrap,
)
from parallel.tensor import DTensor
from tests.parallel.thread_ranks import run_threads

pytestmark = pytest.mark.simulator_only


def _model() -> nn.Module:
    inside = nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 6))
    model = nn.Sequential(nn.Linear(5, 6), inside, nn.BatchNorm1d(6, affine=False), nn.Linear(6, 3)).eval()
    with tensor.no_grad():
        for number, each in enumerate(model.parameters()):
            each.copy_((tensor.arange(each.numel()).reshape(each.shape) + number).sin() * 0.5)
    return model


def _batch(rank: int, turn: int) -> tensor.Tensor:
    return tensor.tensor(np.random.default_rng(10 * turn + rank).standard_normal((4, 5), dtype=np.float32))


def _alone(size: int) -> tuple[Any, ...]:
    model = _model()
    optimizer = nn.optim.AdamW(model.parameters(), lr=0.05)
    norms = []
    for turn in range(2):
        optimizer.zero_grad()
        for part in range(2):
            (
                sum(model(_batch(rank, turn + 5 * part)).square().mean() for rank in range(size)) / size
            ).backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.3).item())
        optimizer.step()
    return norms, model.state_dict(), optimizer.state_dict()


def _train(model: Any, optimizer: Any, rank: int) -> list[float]:
    norms = []
    for turn in range(2):
        optimizer.zero_grad()
        with model.no_sync():
            model(_batch(rank, turn)).square().mean().backward()
        model(_batch(rank, turn + 5)).square().mean().backward()
        norms.append(model.clip_grad_norm_(0.3).item())
        optimizer.step()
    return norms


def _offloaded(rank: int, size: int) -> list[bool]:
    model = FullyShardedDataParallel(_model().cuda(), cpu_offload=CPUOffload(offload_params=True))
    model(_batch(rank, 0).cuda()).square().mean().backward()
    return [
        each.grad.device.type == each.device.type == "cpu" and each.is_pinned() for each in model.parameters()
    ]


def test_shards_on_the_cpu() -> None:
    assert run_threads(_offloaded, 2, device="cuda", backend="cpu:gloo,cuda:nccl") == [[True] * 8] * 2


def _wrapped(rank: int, size: int) -> list[Any]:
    replicated = parallel.init_device_mesh("cpu", (size, 1))
    by_size = functools.partial(wrap.size_based_auto_wrap_policy, min_num_params=40)
    by_class = wrap.ModuleWrapPolicy({nn.Linear})
    results = []
    for options, wrappers in [
        ({}, 1),
        ({"auto_wrap_policy": by_class, "sharding_strategy": ShardingStrategy.SHARD_GRAD_OP}, 5),
        (
            {
                "auto_wrap_policy": by_size,
                "device_mesh": replicated,
                "sharding_strategy": ShardingStrategy.HYBRID_SHARD,
            },
            3,
        ),
    ]:
        inside = _model()
        if rank:
            # Set to those of rank 0.
            with tensor.no_grad():
                for each in inside.parameters():
                    each.zero_()
        model = FullyShardedDataParallel(inside, sync_module_states=True, backward_prefetch=None, **options)
        assert len(FullyShardedDataParallel.fsdp_modules(model)) == wrappers
        assert (
            FullyShardedDataParallel.fsdp_modules(model, root_only=True) == [model] and model.module is inside
        )
        names = [name for name, _ in _model().named_parameters()]
        assert [name for name, _ in model.named_parameters()] == names
        optimizer = nn.optim.AdamW(model.parameters(), lr=0.05)
        norms = _train(model, optimizer, rank)
        state = model.state_dict()
        assert list(state) == list(_model().state_dict())
        assert not any(isinstance(each, DTensor) for each in state.values())
        states = FullyShardedDataParallel.optim_state_dict(model, optimizer)
        results.append((norms, state, states))
        # Trained from there on, divided otherwise.
        other = FullyShardedDataParallel(_model(), auto_wrap_policy=by_class)
        other.load_state_dict(state)
        steps = nn.optim.AdamW(other.parameters(), lr=1.0)
        FullyShardedDataParallel.optim_state_dict_to_load(other, steps, states, load_directly=True)
        _train(model, optimizer, rank)
        _train(other, steps, rank)
        expected = model.state_dict()
        for name, value in other.state_dict().items():
            assert value.allclose(expected[name], rtol=1e-4, atol=1e-6)
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        divided = model.state_dict()
        assert isinstance(divided["0.weight"], DTensor) and divided["0.weight"].full_tensor().shape == (6, 5)
        parts = FullyShardedDataParallel.optim_state_dict(model, optimizer)
        assert isinstance(parts["state"]["0.weight"]["exp_avg"], DTensor)
        model.load_state_dict(divided)
        FullyShardedDataParallel.optim_state_dict_to_load(model, optimizer, parts, load_directly=True)
    with FullyShardedDataParallel.state_dict_type(
        model,
        StateDictType.FULL_STATE_DICT,
        FullStateDictConfig(offload_to_cpu=True, rank0_only=True),
        FullOptimStateDictConfig(rank0_only=True),
    ):
        assert len(model.state_dict()) == (0 if rank else len(state))
        assert bool(FullyShardedDataParallel.optim_state_dict(model, optimizer)) is (rank == 0)
    with FullyShardedDataParallel.summon_full_params(model), tensor.no_grad():
        weight = model.module[3].weight
        assert weight.shape == (3, 6) and not isinstance(weight, DTensor)
        weight.fill_(2.0)
    assert set(model.state_dict()["3.weight"].flatten().tolist()) == {2.0}
    return results


def test_training_is_that_of_one_process() -> None:
    norms, state, states = _alone(2)
    names = [name for name, _ in _model().named_parameters()]
    for results in run_threads(_wrapped, 2):
        for other_norms, other_state, other_states in results:
            np.testing.assert_allclose(other_norms, norms, rtol=1e-4)
            for name, value in state.items():
                np.testing.assert_allclose(other_state[name].numpy(), value.numpy(), rtol=2e-4, atol=1e-5)
            assert other_states["param_groups"][0]["params"] == names
            for number, name in enumerate(names):
                for key, value in states["state"][number].items():
                    np.testing.assert_allclose(
                        other_states["state"][name][key].numpy(), value.numpy(), rtol=2e-4, atol=1e-6
                    )


def _refusals(rank: int, size: int) -> None:
    mesh = parallel.init_device_mesh("cpu", (size,))
    square = parallel.init_device_mesh("cpu", (size, 1))
    model = FullyShardedDataParallel(nn.Linear(2, 2))

    def full(**options: Any) -> Any:
        return lambda: FullyShardedDataParallel(nn.Linear(2, 2), **options)

    for error, words, call in [
        (
            NotImplementedError,
            "use parallel.DistributedData",
            full(sharding_strategy=ShardingStrategy.NO_SHARD),
        ),
        (NotImplementedError, "param_init_fn", full(param_init_fn=lambda _: None)),
        (
            NotImplementedError,
            "low_precision",
            full(mixed_precision=MixedPrecision(keep_low_precision_grads=True)),
        ),
        (NotImplementedError, "pair of process groups", full(process_group=(None, None))),
        (ValueError, "both process_group and", full(process_group=parallel.group.WORLD, device_mesh=mesh)),
        (ValueError, "both ignored_modules", full(ignored_modules=[], ignored_states=[])),
        (ValueError, "two dimensions", full(sharding_strategy=ShardingStrategy.HYBRID_SHARD)),
        (ValueError, "one dimension", full(device_mesh=square)),
        (
            NotImplementedError,
            "LOCAL_STATE_DICT is not",
            lambda: model.set_state_dict_type(model, StateDictType.LOCAL_STATE_DICT),
        ),
        (
            RuntimeError,
            "Expected state_dict_config of type",
            lambda: model.set_state_dict_type(model, StateDictType.FULL_STATE_DICT, ShardedStateDictConfig()),
        ),
        (
            NotImplementedError,
            "rank0_only",
            lambda: model.summon_full_params(model, rank0_only=True).__enter__(),
        ),
        (AttributeError, "has no attribute 'nothing'", lambda: model.nothing),
    ]:
        with pytest.raises(error, match=words):
            call()
    # What is ignored, a dtype of the computation, and the attributes of the module inside.
    inside = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    linear, norm = inside
    mixed = FullyShardedDataParallel(
        inside,
        ignored_modules=[linear],
        mixed_precision=MixedPrecision(tensor.float64, buffer_dtype=tensor.float64),
        auto_wrap_policy=wrap.CustomPolicy(lambda each: isinstance(each, nn.BatchNorm1d)),
    )
    assert not isinstance(linear.weight, DTensor) and isinstance(norm.weight, DTensor)
    assert norm.running_mean.dtype is tensor.float64 and mixed.training and mixed[0] is linear


def test_what_is_refused() -> None:
    run_threads(_refusals, 2)


@pytest.mark.parity
def test_names_and_arguments_are_pytorchs() -> None:
    import torch.distributed.fsdp
    import torch.distributed.optim

    theirs, ours = torch.distributed.fsdp, parallel.fsdp
    for one, other in [
        (ours.FullyShardedDataParallel, theirs.FullyShardedDataParallel),
        (ours.MixedPrecisionPolicy, theirs.MixedPrecisionPolicy),
        (parallel.optim.ZeroRedundancyOptimizer, torch.distributed.optim.ZeroRedundancyOptimizer),
    ]:
        assert list(inspect.signature(one).parameters) == list(inspect.signature(other).parameters)
    arguments = list(inspect.signature(theirs.fully_shard).parameters)
    assert list(inspect.signature(ours.fully_shard).parameters) == [
        each for each in arguments if each != "dp_mesh_dims"
    ]
    for name in wrap.__all__:
        one, other = getattr(wrap, name), getattr(theirs.wrap, name)
        if inspect.isfunction(one):
            assert list(inspect.signature(one).parameters) == list(inspect.signature(other).parameters)
