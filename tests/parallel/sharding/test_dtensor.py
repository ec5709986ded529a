"""Tensors on meshes: every move from one placement to another, gradients, reductions, as in PyTorch, and what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import nn
import parallel
import tensor
from parallel.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from tests.parallel.thread_ranks import run_threads

#: With sizes that two and three ranks do not divide.
SHAPE = (5, 3)
CHOICES = [Shard(0), Shard(1), Replicate(), Partial()]


def _values(*shape: int) -> Any:
    return (np.arange(np.prod(shape)).reshape(shape) % 7 + 1).astype(np.float32)


def _moves(rank: int, size: int, shape: tuple[int, ...]) -> None:
    mesh = parallel.init_device_mesh("cpu", shape)
    whole, weights = _values(*SHAPE), _values(*SHAPE[::-1]).T
    layouts = list(itertools.product(CHOICES, repeat=len(shape)))
    for number, (one, other) in enumerate(itertools.product(layouts, repeat=2)):
        if len(shape) == 2 and number % 11:
            continue
        start = distribute_tensor(tensor.tensor(whole), mesh, [Replicate()] * len(shape)).requires_grad_()
        x = start.redistribute(placements=one)
        y = x.redistribute(placements=other)
        assert y.placements == other and y.shape == SHAPE
        np.testing.assert_array_equal(y.full_tensor().detach().numpy(), whole, err_msg=f"{one} {other}")
        expected = distribute_tensor(
            tensor.tensor(whole), mesh, [Replicate() if each.is_partial() else each for each in other]
        )
        if not any(each.is_partial() for each in other):
            assert y.to_local().tolist() == expected.to_local().tolist()
        # A product with weights, by the parts of both.
        resolved = y.redistribute(placements=expected.placements)
        factors = distribute_tensor(tensor.tensor(weights.copy()), mesh, expected.placements)
        (resolved * factors).to_local().sum().backward()
        np.testing.assert_array_equal(start.grad.to_local().numpy(), weights, err_msg=f"{one} {other}")


@pytest.mark.parametrize(("size", "shape"), [(2, (2,)), (3, (3,)), (4, (2, 2))])
def test_every_move_and_its_gradient(size: int, shape: tuple[int, ...]) -> None:
    run_threads(_moves, size, shape)


def _sums(rank: int, size: int) -> None:
    mesh = parallel.init_device_mesh("cpu", (size,))
    term = tensor.tensor([1.0 + rank, 2.0], requires_grad=True)
    for name, value in [
        ("sum", [3, 4]),
        ("avg", [1.5, 2]),
        ("max", [2, 2]),
        ("min", [1, 2]),
        ("product", [2, 4]),
    ]:
        partial = DTensor.from_local(term.detach(), mesh, [Partial(name)])
        assert partial.full_tensor().tolist() == value
        assert partial.redistribute(placements=[Shard(0)]).to_local().tolist() == value[rank : rank + 1]
    # Elements of sums are computed before a function of them is.
    partial = DTensor.from_local(term, mesh, [Partial()])
    assert partial.shape == (2,) and partial.square().to_local().tolist() == [9, 16]
    (partial + partial).full_tensor().sum().backward()
    assert term.grad.tolist() == [2, 2]
    # A term of the gradient on each rank.
    whole = tensor.ones(2, requires_grad=True)
    DTensor.from_local(whole, mesh, [Replicate()]).to_local(grad_placements=[Partial()]).mul(
        1 + rank
    ).sum().backward()
    assert whole.grad.tolist() == [3, 3]
    same = DTensor.from_local(tensor.full((2,), float(rank)), mesh, run_check=True)
    assert same.placements == (Replicate(),) and same.to_local().tolist() == [0, 0]
    with pytest.raises(NotImplementedError, match=r"gradient of Partial\(max\)"):
        DTensor.from_local(term, mesh, [Partial("max")]).full_tensor().sum().backward()


def test_reductions() -> None:
    run_threads(_sums, 2)


def _steps(rank: int, size: int) -> None:
    mesh = parallel.init_device_mesh("cpu", (size,))
    whole = nn.Parameter(tensor.tensor(_values(*SHAPE)))
    divided = nn.Parameter(distribute_tensor(whole, mesh, [Shard(1)]))
    both = [nn.optim.AdamW([each], lr=0.1) for each in (whole, divided)]
    factors = distribute_tensor(tensor.tensor(_values(*SHAPE)), mesh, [Shard(1)])
    for _ in range(2):
        (whole * factors.full_tensor()).sum().backward()
        (divided * factors).to_local().sum().backward()
        assert isinstance(divided.grad, DTensor) and divided.grad.placements == (Shard(1),)
        norms = [nn.utils.clip_grad_norm_([each], 1.0).item() for each in (whole, divided)]
        assert norms[0] == pytest.approx(norms[1])
        for each in both:
            each.step()
    np.testing.assert_allclose(divided.full_tensor().detach().numpy(), whole.detach().numpy(), rtol=1e-5)
    divided.grad = None
    assert divided.grad is None
    divided.grad = distribute_tensor(whole.detach(), mesh, [Shard(1)])
    with pytest.raises(ValueError, match="not divided alike"):
        divided.grad = distribute_tensor(whole.detach(), mesh)


def test_gradients_and_steps_of_optimizers() -> None:
    run_threads(_steps, 2)


def _refused(rank: int, size: int) -> None:
    mesh = parallel.init_device_mesh("cpu", (size,))
    other = parallel.init_device_mesh("cpu", (size,), mesh_dim_names=("x",))
    x = distribute_tensor(tensor.ones(2), mesh)
    for error, words, call in [
        (ValueError, "pass device_mesh=", lambda: distribute_tensor(tensor.ones(2))),
        (ValueError, "same length", lambda: distribute_tensor(tensor.ones(2), mesh, [Shard(0), Shard(0)])),
        (ValueError, "by Shard and Replicate", lambda: distribute_tensor(tensor.ones(2), mesh, [Partial()])),
        (ValueError, "is placed already", lambda: distribute_tensor(x, mesh, [Shard(0)])),
        (IndexError, "no such dimension", lambda: distribute_tensor(tensor.ones(()), mesh, [Shard(0)])),
        (TypeError, "got 0", lambda: x.redistribute(placements=[0])),  # type: ignore[list-item]
        (RuntimeError, "placements is needed", x.redistribute),
        (NotImplementedError, "stays on the tensor's mesh", lambda: x.redistribute(other, [Shard(0)])),
        (ValueError, "this rank's part", lambda: DTensor.from_local(tensor.ones(3), mesh, shape=(2,))),
        (ValueError, "got 'sums'", lambda: Partial("sums")),
        (
            NotImplementedError,
            "Partial\\(product\\)",
            lambda: x.redistribute(placements=[Partial("product")]),
        ),
    ]:
        with pytest.raises(error, match=words):
            call()


def test_what_is_refused() -> None:
    run_threads(_refused, 1)
