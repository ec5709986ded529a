"""Random programs give what they give uncompiled: chains, reductions, views, writes in place, dropout, several results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import drv
import tensor
from drv.host import machine_code
from nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable


def _looked_up(a: Any) -> Any:
    """Rows in another order, some of them twice."""
    index = tensor.arange(len(a), device=a.device).mul(3).remainder(max(len(a) - 1, 1))
    return a[index]


def _batch_normalized(a: Any) -> Any:
    return functional.batch_norm(a.float(), None, None, training=True, eps=0.1).relu()


#: Operations by what they take of the values so far; numbers choose among those.
_UNARY: dict[str, Callable[[Any], Any]] = {
    "sin": lambda a: a.sin(),
    "relu": lambda a: a.relu(),
    "double": lambda a: a.double(),
    "half": lambda a: (a.clamp(-9, 9)).half(),
    "float": lambda a: a.float(),
    "scaled": lambda a: a * 0.5 + 1,
    "positive": lambda a: a > 0.1,
    "clamped": lambda a: a.clamp(-1, 1),
    "row sums": lambda a: a.sum(-1, keepdim=True) * 0.1,
    "mean": lambda a: a.float().mean(),
    "root": lambda a: (a.float().square().mean(-1) + 1).sqrt() if a.ndim else a.abs().float().sqrt(),
    "looked up": lambda a: _looked_up(a) if a.ndim else a + 2,
    "batch normalized": lambda a: (
        _batch_normalized(a) if a.ndim == 2 and len(a) > 1 else a.sinh().clamp(-9, 9)
    ),
    "softmax": lambda a: a.float().softmax(-1),
    "normalized": lambda a: functional.layer_norm(a.float(), a.shape[-1:]) if a.ndim else a.cos(),
    "transposed": lambda a: a.mT if a.ndim > 1 else a.clone(),
    "flipped": lambda a: a.flip(-1) if a.ndim else a + 1,
    "first row": lambda a: a[0] if a.ndim > 1 else a.neg(),
    "last": lambda a: a[..., -1:] if a.ndim else a.exp().clamp(max=9),
    "dropped": lambda a: functional.dropout(a.float(), 0.4),
    "cumsum": lambda a: a.cumsum(-1) * 0.2 if a.ndim else a * 2,
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: a - b.float(),
    "product": lambda a, b: (a * b).clamp(-20, 20),
    "maximum": lambda a, b: tensor.maximum(a, b),
    "selected": lambda a, b: tensor.where(a > b, a, b),
    "loss": lambda a, b: functional.smooth_l1_loss((a + b).float(), (a * b).float().clamp(-20, 20)) * 0.5,
    "quotient": lambda a, b: a / (b.float().abs() + 1),
}
_WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "add_": lambda a, b: a.add_(1) if a.dtype is not tensor.bool else a.logical_not_(),
    "copied into": lambda a, b: a.copy_(b.float().mean().to(a.dtype)),
    "row filled": lambda a, b: a[..., :1].fill_(1) if a.ndim else a.zero_(),
    "relu_": lambda a, b: a.relu_() if a.dtype is not tensor.bool else a,
    "scaled_": lambda a, b: a.mul_(b.float().mean().to(a.dtype)) if a.dtype.is_floating_point else a,
    "dropped_": lambda a, b: functional.dropout(a, 0.4, inplace=True) if a.dtype.is_floating_point else a,
}

_operations = st.one_of(
    st.tuples(st.sampled_from(sorted(_UNARY)), st.integers(0, 99), st.just(0)),
    st.tuples(st.sampled_from(sorted(_BINARY)), st.integers(0, 99), st.integers(0, 99)),
    st.tuples(st.sampled_from(sorted(_WRITES)), st.integers(0, 99), st.integers(0, 99)),
)


def _program(steps: list[tuple[str, int, int]], results: list[int], recorded: bool) -> Callable[..., Any]:
    """A function of two matrices and a row that does ``steps`` and gives some of its values."""

    def function(x: Any, y: Any, row: Any) -> Any:
        values = [x, y, row, x * row]
        for name, first, second in steps:
            a, b = values[first % len(values)], values[second % len(values)]
            if name in _UNARY:
                values.append(_UNARY[name](a))
            elif name in _BINARY:
                if (
                    a.ndim and b.ndim and a.shape[-1] != b.shape[-1] and 1 not in (a.shape[-1], b.shape[-1])
                ) or (a.ndim > 1 and b.ndim > 1 and a.shape != b.shape):
                    b = b.float().mean()
                values.append(_BINARY[name](a, b))
            elif not recorded and first % len(values) > 2:
                _WRITES[name](a, b)
        return [values[number % len(values)] + 0 for number in results]

    return function


def _check(
    recorded: bool, steps: list[tuple[str, int, int]], results: list[int], mode: str, device: str = "cuda"
) -> None:
    """A program, its gradients where ``recorded`` says so, and its random numbers are what they are uncompiled."""
    generator = tensor.Generator(device).manual_seed(len(steps))
    x, y = (tensor.randn(4, 5, device=device, generator=generator) for _ in range(2))
    operands = [x, y, tensor.randn(5, device=device, generator=generator)]
    function = _program(steps, results, recorded)
    compiled = tensor.compile(function, fullgraph=True, mode=mode)

    def outcome(function: Callable[..., Any]) -> list[Any]:
        arguments = [each.clone().requires_grad_(recorded) for each in operands]
        tensor.manual_seed(len(steps))
        values = function(*arguments)
        differentiable = [each for each in values if each.requires_grad]
        if not differentiable:
            return list(values)
        loss = sum(
            (each.double().square().sum() for each in differentiable), start=tensor.zeros((), device=device)
        )
        return [*values, *tensor.autograd.grad(loss, arguments, allow_unused=True)]

    expected = outcome(function)
    # Those of a mode that replays graphs are looked at when others have been made.
    outcomes = [outcome(compiled) for _ in range(2 if mode == "default" else 5)]
    for each in outcomes:
        for one, other in zip(each, expected, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                assert one.dtype is other.dtype
                half = one.dtype is tensor.float16
                tensor.testing.assert_close(
                    one, other, rtol=2e-2 if half else 1e-3, atol=2e-2 if half else 1e-4
                )
    assert compiled.programs == 1


_programs = {
    "recorded": st.booleans(),
    "steps": st.lists(_operations, min_size=1, max_size=12),
    "results": st.lists(st.integers(0, 99), min_size=1, max_size=3),
    "mode": st.sampled_from(["default", "reduce-overhead"]),
}
_unshrunk = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    # Each example compiles kernels: making a failing one smaller would take minutes.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


@given(**_programs)
@settings(_unshrunk, max_examples=12)
def test_random_programs(
    device: drv.Device, recorded: bool, steps: list[tuple[str, int, int]], results: list[int], mode: str
) -> None:
    _check(recorded, steps, results, mode)


@pytest.mark.nightly
@pytest.mark.parametrize("group", range(10))
def test_many_random_programs(group: int) -> None:
    @given(**_programs)
    @seed(group)
    @settings(_unshrunk, max_examples=20, derandomize=False, database=None)
    def check(recorded: bool, steps: list[tuple[str, int, int]], results: list[int], mode: str) -> None:
        _check(recorded, steps, results, mode)

    with drv.simulator.installed(check="full", schedule=("eager", "lazy", "random")[group % 3]):
        check()
        assert not list(drv.simulator.findings())


@pytest.mark.skipif(not machine_code.available(), reason="llvmlite is not installed")
@given(**_programs | {"mode": st.just("default")})
@settings(_unshrunk, max_examples=12)
def test_random_programs_on_the_cpu(
    native_loops: None, recorded: bool, steps: list[tuple[str, int, int]], results: list[int], mode: str
) -> None:
    _check(recorded, steps, results, mode, "cpu")


@pytest.mark.nightly
@pytest.mark.skipif(not machine_code.available(), reason="llvmlite is not installed")
@given(**_programs | {"mode": st.just("default")})
@settings(_unshrunk, max_examples=200)
def test_many_random_programs_on_the_cpu(
    native_loops: None, recorded: bool, steps: list[tuple[str, int, int]], results: list[int], mode: str
) -> None:
    _check(recorded, steps, results, mode, "cpu")
