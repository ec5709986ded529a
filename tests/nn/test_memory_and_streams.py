"""What the operations keep for their gradients, and that they run on the stream that is current."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
import nn
import tensor

if TYPE_CHECKING:
    from collections.abc import Callable

functional = nn.functional


def _step(place: str) -> list[Any]:
    """One step of a small network with what this folder has, and its gradients."""
    tensor.manual_seed(0)
    rng = np.random.default_rng(0)

    def made(*shape: int) -> Any:
        result = tensor.from_numpy(rng.standard_normal(shape).astype(np.float32))
        return result.to(place).requires_grad_()

    table, weight, bias, last = made(7, 6), made(6), made(6), made(5, 6)
    indices = tensor.from_numpy(rng.integers(0, 7, (4, 3))).to(place)
    target = tensor.from_numpy(rng.integers(0, 5, 4)).to(place)
    x = functional.embedding(indices, table, padding_idx=1).transpose(1, 2)
    x = functional.batch_norm(x, None, None, weight, bias, training=True)
    x = functional.group_norm(functional.dropout(x, 0.3), 2, weight, bias).mean(2)
    x = functional.layer_norm(x, (6,), weight, bias)
    loss = functional.cross_entropy(x @ last.t(), target) + functional.mse_loss(x, x.detach() * 2)
    loss.backward()
    return [loss, *[leaf.grad for leaf in (table, weight, bias, last)]]


@pytest.mark.simulator_only
@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_any_schedule_on_a_side_stream(schedule: str) -> None:
    expected = [each.detach().numpy() for each in _step("cpu")]
    drv.simulator.install(check="full", schedule=schedule)
    tensor.backends.cuda.matmul.allow_tf32 = False
    try:
        side = tensor.cuda.Stream()
        with tensor.cuda.stream(side):
            result = [each.detach().cpu().numpy() for each in _step("cuda")]
    finally:
        tensor.backends.cuda.matmul.allow_tf32 = True
    for left, right in zip(result, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-4, atol=2e-5)
    assert not drv.simulator.findings()


_CALLS: dict[str, tuple[Callable[..., Any], int]] = {
    # What may be kept beside the result, in bytes: small, whatever the size of the input.
    "cross_entropy": (lambda x, t: functional.cross_entropy(x, t), 16 << 10),
    "layer_norm": (lambda x, t: functional.layer_norm(x, (1024,)), 8 << 10),
    "batch_norm": (lambda x, t: functional.batch_norm(x, None, None, training=True), 16 << 10),
    "dropout": (lambda x, t: functional.dropout(x), 0),
    "mse_loss": (lambda x, t: functional.mse_loss(x, x.detach()), 1 << 10),
}


@pytest.mark.simulator_only
@pytest.mark.parametrize("name", _CALLS)
def test_nothing_of_the_size_of_the_input_is_kept(name: str) -> None:
    function, allowed = _CALLS[name]
    drv.simulator.install()
    x = tensor.randn(64, 1024, device="cuda", requires_grad=True)
    target = tensor.zeros(64, dtype=tensor.int64, device="cuda")
    function(x, target)
    before = tensor.cuda.memory_allocated()
    result = function(x, target)
    kept = tensor.cuda.memory_allocated() - before - result.numel() * 4
    assert kept <= allowed + 512
    result.sum().backward()
