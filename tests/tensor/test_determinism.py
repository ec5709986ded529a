"""Deterministic mode: its names, what it fills, and that sums at indices are the same in every run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tensor
from tensor.utils import deterministic

if TYPE_CHECKING:
    from collections.abc import Iterator

_RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    yield
    deterministic.fill_uninitialized_memory = True
    tensor.use_deterministic_algorithms(False)


def test_names_of_the_same_state() -> None:
    assert tensor.get_deterministic_debug_mode() == 0
    tensor.use_deterministic_algorithms(True)
    assert tensor.get_deterministic_debug_mode() == 2
    for name, number in (("warn", 1), ("error", 2), ("default", 0)):
        for given in (name, number):
            tensor.set_deterministic_debug_mode(given)
            assert tensor.get_deterministic_debug_mode() == number
            assert tensor.are_deterministic_algorithms_enabled() is (number > 0)
            assert tensor.is_deterministic_algorithms_warn_only_enabled() is (number == 1)
    tensor.use_deterministic_algorithms(False, warn_only=True)
    assert not tensor.is_deterministic_algorithms_warn_only_enabled()


def test_wrong_settings() -> None:
    with pytest.raises(RuntimeError, match="expected one of `default`, `warn`, `error`, but got some"):
        tensor.set_deterministic_debug_mode("some")
    with pytest.raises(RuntimeError, match="expected 0, 1, or 2, but got 3"):
        tensor.set_deterministic_debug_mode(3)
    with pytest.raises(TypeError, match="must be str or int"):
        tensor.set_deterministic_debug_mode(1.0)
    with pytest.raises(RuntimeError, match="expected a bool, but got int"):
        deterministic.fill_uninitialized_memory = 1


KINDS: list[tuple[str, Any]] = [
    ("float16", "nan"), ("bfloat16", "nan"), ("float32", "nan"), ("float64", "nan"), ("complex64", "nan"),
    ("int8", 127), ("uint8", 255), ("int16", 2**15 - 1), ("int32", 2**31 - 1), ("int64", 2**63 - 1), ("bool", True),
]  # fmt: skip


def _is(x: Any, value: Any) -> bool:
    if value == "nan":
        return bool(x.isnan().all())
    return x.flatten().tolist() == [value] * x.numel()


@pytest.mark.parametrize(("name", "value"), KINDS)
def test_new_memory_is_filled(name: str, value: Any, place_name: str) -> None:
    kind = getattr(tensor, name)
    zeros = tensor.zeros(2, 3, dtype=kind, device=place_name)
    tensor.use_deterministic_algorithms(True)
    made = [
        tensor.empty(2, 3, dtype=kind, device=place_name),
        tensor.empty_like(zeros),
        tensor.empty_strided((2, 2), (3, 1), dtype=kind, device=place_name),
        tensor.empty_permuted((2, 3), (1, 0), dtype=kind, device=place_name),
        zeros.new_empty(4),
        zeros.new_empty_strided((2, 2), (1, 2)),
        tensor.empty(0, dtype=kind, device=place_name).resize_(5),
        tensor.empty(3, out=tensor.zeros(0, dtype=kind, device=place_name)),
    ]
    assert all(_is(each, value) for each in made)
    grown = tensor.zeros(2, dtype=kind, device=place_name).resize_(6)
    assert not grown[:2].any()
    assert _is(grown[2:], value)
    assert made[0]._version == 0
    # Not on request.
    deterministic.fill_uninitialized_memory = False
    with tensor.no_grad():
        zeros = tensor.zeros(1 << 16, device=place_name)
        del zeros
    assert not tensor.empty(1 << 16, device=place_name).isnan().all()


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i, y: x.index_add(0, i, y),
        lambda x, i, y: x.scatter_add(0, i[:, None].expand_as(y), y),
        lambda x, i, y: x.scatter_reduce(0, i[:, None].expand_as(y), y, "sum"),
        lambda x, i, y: x.scatter_reduce(0, i[:, None].expand_as(y), y, "mean"),
        lambda x, i, y: x.scatter_reduce(0, i[:, None].expand_as(y), y, "prod"),
        lambda x, i, y: x.index_put((i,), y, accumulate=True),
        lambda x, i, y: x.put(i, y[:, 0], accumulate=True),
        lambda x, i, y: tensor.bincount(i, y[:, 0]),
        lambda x, i, y: x.index_copy(0, i, y),
        lambda x, i, y: x.scatter(0, i[:, None].expand_as(y), y),
        lambda x, i, y: tensor.autograd.grad(x.requires_grad_()[i], x, y)[0],
        lambda x, i, y: tensor.autograd.grad(x.requires_grad_().index_select(0, i), x, y)[0],
        lambda x, i, y: tensor.autograd.grad(x.requires_grad_().gather(0, i[:, None]), x, y[:, :1])[0],
    ],
)
@pytest.mark.simulator_only
def test_the_same_in_every_order(call: Any) -> None:
    """Whatever order the threads of a simulated device run in."""
    import drv

    tensor.use_deterministic_algorithms(True)
    arrays = _RNG.standard_normal((4, 3)), _RNG.integers(0, 4, 400), _RNG.standard_normal((400, 3))
    found = []
    for schedule in ("eager", "lazy", "random"):
        drv.reset()
        drv.simulator.install(schedule=schedule, seed=len(found))
        x, i, y = (tensor.from_numpy(array).cuda() for array in arrays)
        found.append(call(x.float(), i, y.float()).detach().cpu().numpy())
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
