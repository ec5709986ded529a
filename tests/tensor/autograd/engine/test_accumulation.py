"""Gradients that several nodes hold are not written in place while other streams may read them."""

from __future__ import annotations

from typing import Any

import pytest

import drv
import tensor
from tensor import cuda

pytestmark = pytest.mark.simulator_only

SCHEDULES = [
    {"schedule": "eager"},
    {"schedule": "lazy"},
    *({"schedule": "random", "seed": seed} for seed in range(4)),
]


def leaf(*values: float) -> Any:
    return tensor.tensor(values, dtype=tensor.float32, device="cuda", requires_grad=True)


@pytest.mark.parametrize("options", SCHEDULES, ids=str)
def test_a_gradient_that_another_stream_has_read(options: Any) -> None:
    drv.simulator.install(check="race", **options)
    x, w = leaf(1, 2, 3), leaf(4, 5, 6)
    main, outer, inner = cuda.current_stream(), cuda.Stream(), cuda.Stream()
    outer.wait_stream(main)
    with cuda.stream(outer):
        middle = x * 1
        inner.wait_stream(outer)
        with cuda.stream(inner):
            left = (middle * w).sin()
        right = (middle + w).exp()
        outer.wait_stream(inner)
        left.record_stream(outer)
        loss = (left * right).sum()
    loss.backward()
    result = x.grad.tolist(), w.grad.tolist()
    a = tensor.tensor([1.0, 2, 3], requires_grad=True)
    b = tensor.tensor([4.0, 5, 6], requires_grad=True)
    ((a * b).sin() * (a + b).exp()).sum().backward()
    assert result[0] == pytest.approx(a.grad.tolist(), rel=1e-4)
    assert result[1] == pytest.approx(b.grad.tolist(), rel=1e-4)
    cuda.synchronize()


def test_memory_belongs_to_the_stream_that_alone_uses_it() -> None:
    drv.simulator.install()
    main, side = cuda.current_stream(), cuda.Stream()
    x = leaf(1)
    storage = x.untyped_storage()
    assert storage.belongs_to(main)
    assert not storage.belongs_to(side)
    x.record_stream(side)
    assert not storage.belongs_to(main)
