"""States of optimizers divided among ranks: the steps of one process, the memory, state dicts, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
import parallel
import tensor
from parallel.optim import ZeroRedundancyOptimizer
from tests.parallel.thread_ranks import run_threads

pytestmark = pytest.mark.simulator_only

SHAPES = [(5, 4), (4,), (3, 5), (7,), (2, 2), (1,)]
OPTIMIZERS: list[tuple[Any, dict[str, Any]]] = [
    (nn.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (nn.optim.AdamW, {"lr": 0.02, "betas": (0.8, 0.9), "weight_decay": 0.1}),
]


def _parameters(device: str = "cpu") -> list[nn.Parameter]:
    numbers = np.random.default_rng(0)
    return [
        nn.Parameter(tensor.tensor(numbers.standard_normal(shape, dtype=np.float32), device=device))
        for shape in SHAPES
    ]


def _gradients(params: list[nn.Parameter], turn: int) -> None:
    """The same on all ranks; one parameter sometimes has none."""
    numbers = np.random.default_rng(turn + 1)
    for number, each in enumerate(params):
        grad = tensor.tensor(numbers.standard_normal(tuple(each.shape), dtype=np.float32), device=each.device)
        each.grad = None if number == 1 and turn == 0 else grad


def _steps(optimizer: nn.optim.Optimizer, params: list[nn.Parameter], turns: range) -> None:
    for turn in turns:
        if turn == 1:
            optimizer.param_groups[0]["lr"] = 0.05
        if turn == 2:
            optimizer.add_param_group({"params": params[4:], "lr": 0.01})
        _gradients(params, turn)
        optimizer.step()
        optimizer.zero_grad()


def _groups(params: list[nn.Parameter]) -> list[dict[str, Any]]:
    return [{"params": params[:2]}, {"params": params[2:4], "lr": 0.2}]


def _equal(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            _equal(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            _equal(a, b)
    elif isinstance(one, tensor.Tensor):
        np.testing.assert_array_equal(one.detach().cpu().numpy(), other.detach().cpu().numpy())
    else:
        assert one == other


def _as_one_process(rank: int, size: int, device: str) -> None:
    for optimizer_class, options in OPTIMIZERS:
        alone = _parameters(device)
        expected = optimizer_class(_groups(alone), **options)
        _steps(expected, alone, range(4))
        for view in (False, True):
            params = _parameters(device)
            optimizer = ZeroRedundancyOptimizer(
                _groups(params), optimizer_class, parameters_as_bucket_view=view, **options
            )
            _steps(optimizer, params, range(4))
            _equal(params, alone)
            # The memory of states is divided.
            states = [
                sum(each.numel() for each in state.values() if each.dim())
                for state in optimizer.optim.state.values()
            ]
            total = sum(
                sum(each.numel() for each in state.values() if each.dim())
                for state in expected.state.values()
            )
            assert sum(states) <= total / size + max(
                sum(each.numel() for each in state.values() if each.dim())
                for state in expected.state.values()
            )
            counts = [None] * size
            parallel.all_gather_object(counts, len(states))
            assert sum(counts) == len(SHAPES)
            # Gathered on one rank, they are those of one process.
            optimizer.consolidate_state_dict(to=1)
            gathered: list[Any] = [None]
            if rank == 1:
                gathered = [optimizer.state_dict()]
                _equal(gathered[0], expected.state_dict())
            else:
                with pytest.raises(RuntimeError, match=rf"consolidate_state_dict\(to={rank}\)"):
                    optimizer.state_dict()
            parallel.broadcast_object_list(gathered, src=1)
            # Training goes on from them, here and in one process.
            fresh = _parameters(device)
            with tensor.no_grad():
                for each, value in zip(fresh, alone, strict=True):
                    each.copy_(value)
            resumed = ZeroRedundancyOptimizer(_groups(fresh), optimizer_class, **options)
            resumed.add_param_group({"params": fresh[4:]})
            with pytest.raises(ValueError, match="different number of parameter groups"):
                resumed.load_state_dict({**gathered[0], "param_groups": gathered[0]["param_groups"][:1]})
            resumed.load_state_dict(gathered[0])
            assert resumed.param_groups[2]["lr"] == 0.01 and len(resumed.state) == len(optimizer.state)
            _steps(resumed, fresh, range(5, 7))
            _steps(optimizer, params, range(5, 7))
            _equal(fresh, params)


def test_steps_are_those_of_one_process() -> None:
    run_threads(_as_one_process, 3, "cpu")


def _trained(rank: int, size: int) -> list[Any]:
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)).to("cuda")
    with tensor.no_grad():
        for number, each in enumerate(model.parameters()):
            each.copy_(tensor.arange(each.numel()).reshape(each.shape).sin() + number)
    ddp = parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = ZeroRedundancyOptimizer(
        ddp.parameters(), nn.optim.Adam, parameters_as_bucket_view=True, lr=0.05
    )
    with parallel.Join([ddp, optimizer]):
        for turn in range(2 + rank):
            optimizer.zero_grad()
            ddp(tensor.arange(8.0).reshape(2, 4).cos().to("cuda") + turn).square().sum().backward()
            optimizer.step()
    return [each.detach().cpu().numpy() for each in model.parameters()]


@pytest.mark.parametrize("schedule", ["lazy", "random"])
def test_training_on_devices(schedule: str) -> None:
    """With DDP, uneven inputs, and race checks: all ranks end with the same parameters."""
    first, second = run_threads(_trained, 2, device="cuda", schedule=schedule)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
        assert np.isfinite(one).all()


def _refusals(rank: int, size: int) -> None:
    params = _parameters()
    for error, words, call in [
        (
            NotImplementedError,
            "use parallel.fully_shard",
            lambda: ZeroRedundancyOptimizer(params, nn.optim.SGD, overlap_with_ddp=True, lr=1),
        ),
        (TypeError, "subclass of nn.optim.Optimizer", lambda: ZeroRedundancyOptimizer(params, "SGD", lr=1)),  # type: ignore[arg-type]
        (ValueError, "empty parameter list", lambda: ZeroRedundancyOptimizer([], nn.optim.SGD, lr=1)),
        (TypeError, "iterable of Tensors", lambda: ZeroRedundancyOptimizer(params[0], nn.optim.SGD, lr=1)),
        (
            ValueError,
            "only takes dense",
            lambda: ZeroRedundancyOptimizer([tensor.eye(2).to_sparse()], nn.optim.SGD, lr=1),
        ),
        (
            ValueError,
            "to=2 is no rank",
            lambda: ZeroRedundancyOptimizer(params, nn.optim.SGD, lr=1).consolidate_state_dict(2),
        ),
    ]:
        with pytest.raises(error, match=words):
            call()
    # More ranks than parameters, named ones, and a closure.
    only = nn.Parameter(tensor.ones(2))
    optimizer = ZeroRedundancyOptimizer([("only", only)], nn.optim.SGD, lr=0.5)

    def closure() -> tensor.Tensor:
        optimizer.zero_grad()
        loss = only.square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2.0 and only.tolist() == [0.0, 0.0]
    optimizer.consolidate_state_dict()
    if rank == 0:
        assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["only"]


def test_what_is_refused() -> None:
    run_threads(_refusals, 2)
