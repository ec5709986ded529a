"""``utils.checkpoint`` runs functions again in the precision, and with the random numbers, of the forward pass."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import drv
import nn
import nn.functional
import tensor
from tensor.core.modes.autocast import settings
from tensor.utils import forward_state
from tensor.utils.checkpoint import checkpoint
from tests.tensor.conftest import device_name

__all__ = ["device_name"]


@pytest.fixture(params=[False, True], ids=["non-reentrant", "reentrant"])
def use_reentrant(request: pytest.FixtureRequest) -> bool:
    return request.param


def _states(device: str) -> tuple[Any, ...]:
    return (
        tensor.is_autocast_enabled(device),
        tensor.get_autocast_dtype(device),
        tensor.is_autocast_cache_enabled(),
    )


def _gradients(device: str, call: Any, dtype: Any) -> tuple[list[Any], list[Any]]:
    """Results and gradients of a network inside of a block, and what held whenever its middle ran."""
    tensor.manual_seed(0)
    first, last = nn.Linear(4, 4, device=device), nn.Linear(4, 2, device=device)
    seen = []

    def middle(x: Any) -> Any:
        seen.append(_states(device))
        x = nn.functional.dropout(last(nn.functional.relu(first(x))), 0.5)
        with tensor.autocast(device, enabled=False):
            return x.float() * 2

    x = tensor.randn(3, 4, device=device, requires_grad=True)
    with tensor.autocast(device, dtype=dtype, cache_enabled=False):
        loss = call(middle, x).pow(2).sum()
    loss.backward()
    result = [loss, x.grad, *(each.grad for each in (*first.parameters(), *last.parameters()))]
    assert all(each.dtype is tensor.float32 for each in result)
    return [each.tolist() for each in result], seen


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.sampled(4)
def test_runs_again_as_in_the_block(device_name: str, use_reentrant: bool, dtype: str) -> None:
    element_dtype = getattr(tensor, dtype)
    result, seen = _gradients(
        device_name, lambda middle, x: checkpoint(middle, x, use_reentrant=use_reentrant), element_dtype
    )
    expected, once = _gradients(device_name, lambda middle, x: middle(x), element_dtype)
    assert result == expected
    assert seen == once * 2 == [(True, element_dtype, False)] * 2
    assert _states(device_name)[::2] == (False, True)


def test_a_block_around_the_backward_pass_does_not_matter(device_name: str, use_reentrant: bool) -> None:
    w = nn.Parameter(tensor.ones(2, 2, device=device_name))
    x = tensor.ones(2, 2, device=device_name, requires_grad=True)
    y = checkpoint(lambda x: x @ w @ w, x, use_reentrant=use_reentrant)
    with tensor.autocast(device_name):
        y.sum().backward()
        assert tensor.is_autocast_enabled(device_name)
    assert y.dtype is tensor.float32
    assert w.grad is not None and w.grad.dtype is tensor.float32
    assert w.grad.tolist() == [[8.0, 8.0], [8.0, 8.0]]


def test_parameters_that_are_cast_once(device_name: str, use_reentrant: bool) -> None:
    w = nn.Parameter(tensor.ones(2, 2, device=device_name))
    x = tensor.ones(2, 2, device=device_name, requires_grad=True)
    with tensor.autocast(device_name):
        y = x @ w
        y = checkpoint(lambda y: y @ w @ w, y, use_reentrant=use_reentrant)
        y = checkpoint(lambda y: y @ w, y @ w, use_reentrant=use_reentrant)
    y.float().sum().backward()
    assert not settings.casts
    assert w.grad is not None and w.grad.tolist() == [[5 * 32.0] * 2] * 2


def test_without_the_state_the_function_would_do_something_else() -> None:
    # The test of the test: a checkpoint that forgets autocast is found out.
    w = nn.Parameter(tensor.ones(2, 2))
    x = tensor.ones(2, 2, requires_grad=True)
    kept = forward_state._notes.pop("autocast")
    try:
        with tensor.autocast("cpu"):
            y = checkpoint(lambda x: x @ w @ w, x)
        with pytest.raises(RuntimeError, match=r"metadata|number of tensors"):
            y.sum().backward()
    finally:
        forward_state.register("autocast", kept)


def test_the_state_of_a_block_in_another_thread() -> None:
    result = []

    def work(again: Any) -> None:
        x = tensor.ones(2, 2)
        with again():
            result.append((_states("cpu"), (x @ x).dtype, settings.depth))
        result.append((_states("cpu"), (x @ x).dtype, settings.depth))

    with tensor.autocast("cpu", dtype=tensor.float16, cache_enabled=False):
        again = forward_state.note(random=False)
        thread = threading.Thread(target=work, args=(again,))
        thread.start()
        thread.join()
    assert result == [
        ((True, tensor.float16, False), tensor.float16, 1),
        ((False, tensor.bfloat16, True), tensor.float32, 0),
    ]


@pytest.mark.simulator_only
@pytest.mark.parametrize("schedule", ["lazy", "eager"])
def test_on_a_side_stream(use_reentrant: bool, schedule: str) -> None:
    drv.simulator.install(check="race", schedule=schedule)
    w = nn.Parameter(tensor.ones(4, 4, device="cuda"))
    x = tensor.ones(4, 4, device="cuda", requires_grad=True)
    side = tensor.cuda.Stream()
    side.wait_stream(tensor.cuda.current_stream())
    with tensor.cuda.stream(side), tensor.autocast("cuda"):
        y = checkpoint(lambda x: x @ w @ w, x, use_reentrant=use_reentrant).float().sum()
    tensor.cuda.current_stream().wait_stream(side)
    y.backward()
    assert w.grad is not None and w.grad.tolist() == [[32.0] * 4] * 4
