"""Deterministic mode: its names, what it fills, and that sums at indices are the same in every run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
import nn
import tensor
from nvrtc_kernels.kernel_cache import KernelCache
from tensor.utils import deterministic

if TYPE_CHECKING:
    from collections.abc import Iterator


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
        for argument in (name, number):
            tensor.set_deterministic_debug_mode(argument)
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
@pytest.mark.sampled(4)
def test_new_memory_is_filled(name: str, value: Any, device_name: str) -> None:
    kind = getattr(tensor, name)
    zeros = tensor.zeros(2, 3, dtype=kind, device=device_name)
    tensor.use_deterministic_algorithms(True)
    result = [
        tensor.empty(2, 3, dtype=kind, device=device_name),
        tensor.empty_like(zeros),
        tensor.empty_strided((2, 2), (3, 1), dtype=kind, device=device_name),
        tensor.empty_permuted((2, 3), (1, 0), dtype=kind, device=device_name),
        zeros.new_empty(4),
        zeros.new_empty_strided((2, 2), (1, 2)),
        tensor.empty(0, dtype=kind, device=device_name).resize_(5),
        tensor.empty(3, out=tensor.zeros(0, dtype=kind, device=device_name)),
    ]
    assert all(_is(each, value) for each in result)
    grown = tensor.zeros(2, dtype=kind, device=device_name).resize_(6)
    assert not grown[:2].any()
    assert _is(grown[2:], value)
    assert result[0]._version == 0
    # Not on request.
    deterministic.fill_uninitialized_memory = False
    with tensor.no_grad():
        zeros = tensor.zeros(1 << 16, device=device_name)
        del zeros
    assert not tensor.empty(1 << 16, device=device_name).isnan().all()


def _gradient(function: Any, *shape: int) -> Any:
    """The gradient of a function of one tensor with respect to that."""

    def call(x: Any) -> Any:
        argument = x(0, *shape).requires_grad_()
        result = function(argument)
        return tensor.autograd.grad(result, argument, tensor.ones_like(result))[0]

    return call


def _rows(x: Any) -> tuple[Any, Any, Any]:
    """A table, indices of its rows of which many are equal, and a row for each."""
    return x(0, 4, 3), (x(1, 40).abs() * 100).long() % 4, x(2, 40, 3)


def _with_rows(function: Any) -> Any:
    return lambda x: function(*_rows(x))


#: What PyTorch says of in the description of its deterministic mode, and more of the kind.
CALLS: dict[str, Any] = {
    "index_add": _with_rows(lambda x, i, y: x.index_add(0, i, y)),
    "scatter_add": _with_rows(lambda x, i, y: x.scatter_add(0, i[:, None].expand_as(y), y)),
    "scatter_reduce, sum": _with_rows(lambda x, i, y: x.scatter_reduce(0, i[:, None].expand_as(y), y, "sum")),
    "scatter_reduce, mean": _with_rows(
        lambda x, i, y: x.scatter_reduce(0, i[:, None].expand_as(y), y, "mean")
    ),
    "scatter_reduce, prod": _with_rows(
        lambda x, i, y: x.scatter_reduce(0, i[:, None].expand_as(y), y, "prod")
    ),
    "index_put": _with_rows(lambda x, i, y: x.index_put((i,), y, accumulate=True)),
    "index_put without sums": _with_rows(lambda x, i, y: x.index_put((i,), y)),
    "put": _with_rows(lambda x, i, y: x.put(i, y[:, 0], accumulate=True)),
    "put without sums": _with_rows(lambda x, i, y: x.put(i, y[:, 0])),
    "index_copy": _with_rows(lambda x, i, y: x.index_copy(0, i, y)),
    "scatter": _with_rows(lambda x, i, y: x.scatter(0, i[:, None].expand_as(y), y)),
    "bincount with weights": _with_rows(lambda x, i, y: tensor.bincount(i, y[:, 0])),
    "histc": lambda x: tensor.histc(x(0, 100)),
    "median": lambda x: tensor.median(x(0, 4, 9), 1).values,
    "cumsum": lambda x: x(0, 5, 100).cumsum(1),
    "gradient of x[i]": _gradient(lambda x: x[tensor.arange(40, device="cuda") % 4], 4, 3),
    "gradient of index_select": _gradient(
        lambda x: x.index_select(0, tensor.arange(40, device="cuda") % 4), 4, 3
    ),
    "gradient of gather": _gradient(
        lambda x: x.gather(0, tensor.arange(30, device="cuda").view(10, 3) % 4), 4, 3
    ),
    "gradient of take": _gradient(lambda x: x.take(tensor.arange(40, device="cuda") % 4), 4, 3),
    "gradient of repeat_interleave": _gradient(lambda x: x.repeat_interleave(3, 0), 4, 3),
    "gradient of unfold": _gradient(lambda x: x.unfold(0, 4, 1), 12),
    "gradient of embedding": _gradient(
        lambda x: nn.functional.embedding(tensor.arange(40, device="cuda") % 4, x), 4, 3
    ),
    "gradient of embedding_bag": _gradient(
        lambda x: nn.functional.embedding_bag(tensor.arange(40, device="cuda").view(8, 5) % 4, x, mode="max"),
        4,
        3,
    ),
    "gradient of conv2d": _gradient(lambda x: nn.functional.conv2d(x, x[:1, :, :3, :3]), 2, 3, 6, 6),
    "gradient of max_pool3d": _gradient(lambda x: nn.functional.max_pool3d(x, 3, 1), 1, 2, 5, 5, 5),
    "gradient of avg_pool3d": _gradient(lambda x: nn.functional.avg_pool3d(x, 3, 1), 1, 2, 5, 5, 5),
    "gradient of adaptive_max_pool2d": _gradient(
        lambda x: nn.functional.adaptive_max_pool2d(x, 3), 1, 2, 5, 5
    ),
    "gradient of adaptive_avg_pool2d": _gradient(
        lambda x: nn.functional.adaptive_avg_pool2d(x, 3), 1, 2, 5, 5
    ),
    "gradient of reflect": _gradient(lambda x: nn.functional.pad(x, (2, 2), mode="reflect"), 1, 2, 5),
    "gradient of replicate": _gradient(lambda x: nn.functional.pad(x, (2, 2), mode="replicate"), 1, 2, 5),
    "gradient of nll_loss": _gradient(
        lambda x: nn.functional.nll_loss(x, tensor.arange(40, device="cuda") % 3), 40, 3
    ),
    "gradient of grid_sample": _gradient(
        lambda x: nn.functional.grid_sample(
            x, x[:, :1].expand(1, 2, 5, 5).permute(0, 2, 3, 1).detach(), align_corners=False
        ),
        1,
        2,
        5,
        5,
    ),
    **{
        f"gradient of interpolate, {mode}": _gradient(
            lambda x, mode=mode: nn.functional.interpolate(x, scale_factor=2.0, mode=mode), 1, 2, 4, 4
        )
        for mode in ("nearest", "bilinear", "bicubic")
    },
    "gradient of ctc_loss": _gradient(
        lambda x: nn.functional.ctc_loss(
            x.log_softmax(2), tensor.arange(6, device="cuda").view(2, 3) % 3 + 1, (6, 6), (3, 3)
        ),
        6,
        2,
        4,
    ),
    "histogramdd with weights": lambda x: tensor.histogramdd(
        x(0, 20, 2).cpu(), [3, 3], weight=x(1, 20).cpu()
    ),
}
#: Additions of floating-point numbers in whatever order threads arrive, and what such additions are made of.
ATOMICS = re.compile(rb"\b(?:atom|red)\.\S*(?:add\S*\.(?:f|bf)\d|cas)")


@pytest.mark.simulator_only
@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_added_atomically(name: str) -> None:
    """No kernel that is compiled for the operation could add up floating-point numbers in another order."""
    drv.simulator.install()
    tensor.use_deterministic_algorithms(True)
    CALLS[name](
        lambda seed, *shape: tensor.from_numpy(np.random.default_rng(seed).standard_normal(shape)).cuda()
    )
    for compiled in KernelCache.of(drv.runtime())._compiled.values():
        result = ATOMICS.search(compiled.image)
        assert result is None, f"{result.group()!r} in {sorted(compiled.names)}"


@pytest.mark.simulator_only
def test_atomics_would_be_seen() -> None:
    drv.simulator.install()
    x, i, y = _rows(lambda seed, *shape: tensor.ones(*shape, device="cuda"))
    x.index_add(0, i, y)
    assert any(ATOMICS.search(each.image) for each in KernelCache.of(drv.runtime())._compiled.values())
