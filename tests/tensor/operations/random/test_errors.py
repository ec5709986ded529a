"""Bad arguments: what is raised, before anything changes, on every device; the classes are PyTorch's."""

from __future__ import annotations

import math
from typing import Any

import pytest

import drv
import tensor

INF, NAN = math.inf, math.nan

#: Method, arguments, dtype, what is raised, part of the message.
IN_PLACE: list[tuple[str, tuple[Any, ...], str, type[Exception], str]] = [
    ("uniform_", (2, 1), "float32", RuntimeError, r"\[from, to\) range, but found from=2 > to=1"),
    ("uniform_", (0, 1e39), "float32", RuntimeError, "to is out of bounds for"),
    ("uniform_", (0, 1e5), "float16", RuntimeError, "to is out of bounds for"),
    ("uniform_", (NAN, 1), "float32", RuntimeError, "from is out of bounds for"),
    ("uniform_", (INF, INF), "float64", RuntimeError, "from is out of bounds for"),
    ("uniform_", (-3e38, 3e38), "float32", RuntimeError, "uniform_ expects to-from <="),
    ("uniform_", (2, 1), "complex64", RuntimeError, "found from=2 > to=1"),
    ("uniform_", (), "int32", NotImplementedError, "not implemented for 'int32'"),
    ("uniform_", (), "bool", NotImplementedError, "not implemented for 'bool'"),
    ("uniform_", ("a", 2), "float32", TypeError, "argument 'from' must be float, not str"),
    ("uniform_", (0, 1j), "float32", TypeError, "argument 'to' must be float, not complex"),
    ("normal_", (0, -1), "float32", RuntimeError, "normal expects std >= 0.0, but found std -1"),
    ("normal_", (0, NAN), "float32", RuntimeError, "normal expects std >= 0.0, but found std nan"),
    ("normal_", (), "int64", NotImplementedError, "not implemented for 'int64'"),
    ("normal_", (None,), "float32", TypeError, "argument 'mean' must be float, not NoneType"),
    ("normal_", (1j,), "complex64", TypeError, "argument 'mean' must be float, not complex"),
    ("log_normal_", (1, 0), "float32", RuntimeError, "log_normal_ expects std > 0.0, but found std=0"),
    ("log_normal_", (), "int32", NotImplementedError, "not implemented"),
    ("log_normal_", (), "complex64", NotImplementedError, "not implemented"),
    ("exponential_", (0,), "float32", RuntimeError, "exponential_ expects lambda > 0.0, but found lambda=0"),
    ("exponential_", (-1,), "float32", RuntimeError, "found lambda=-1"),
    ("exponential_", (NAN,), "float32", RuntimeError, "found lambda=nan"),
    ("exponential_", (), "int32", RuntimeError, "continuous probability distribution"),
    ("exponential_", (), "complex64", RuntimeError, "continuous probability distribution"),
    ("cauchy_", (0, 0), "float32", RuntimeError, "cauchy_ expects sigma > 0.0, but found sigma=0"),
    ("cauchy_", (0, -1), "float32", RuntimeError, "found sigma=-1"),
    ("cauchy_", (), "int32", RuntimeError, "continuous probability distribution"),
    ("geometric_", (0,), "float32", RuntimeError, r"geometric_ expects p to be in \(0, 1\), but got p=0"),
    ("geometric_", (1,), "int32", RuntimeError, "but got p=1"),
    ("geometric_", (NAN,), "int32", RuntimeError, "but got p=nan"),
    ("geometric_", (), "float32", TypeError, "p"),
    ("geometric_", (0.5,), "bool", NotImplementedError, "not implemented for 'bool'"),
    ("geometric_", (0.5,), "complex64", NotImplementedError, "not implemented for 'complex64'"),
    ("bernoulli_", (1.5,), "float32", RuntimeError, r"bernoulli_ expects p to be in \[0, 1\], but got p=1.5"),
    ("bernoulli_", (-0.5,), "float32", RuntimeError, "but got p=-0.5"),
    ("bernoulli_", (NAN,), "float32", RuntimeError, "but got p=nan"),
    ("bernoulli_", (0.5,), "complex64", NotImplementedError, "not implemented for 'complex64'"),
    ("random_", (0,), "float32", RuntimeError, "'from' to be less than 'to', but got from=0 >= to=0"),
    ("random_", (6, 5), "int64", RuntimeError, "but got from=6 >= to=5"),
    ("random_", (0, 257), "uint8", RuntimeError, "to - 1 is out of bounds for"),
    ("random_", (-1, 25), "uint8", RuntimeError, "from is out of bounds for"),
    ("random_", (0, 3), "bool", RuntimeError, "to - 1 is out of bounds for"),
    ("random_", (0, 65506), "float16", RuntimeError, "to - 1 is out of bounds for"),
    ("random_", (0, 2), "complex64", RuntimeError, "complex64|random_bounds"),
    ("random_", (2.5,), "float32", TypeError, "int"),
    ("random_", (0, 2.0), "float32", TypeError, "int"),
    ("random_", (2**63,), "int64", ValueError, "Overflow when unpacking long long"),
]  # fmt: skip

CREATION: list[tuple[str, type[Exception]]] = [
    ("rand(3, dtype=t.int32)", NotImplementedError),
    ("rand()", TypeError),
    ("rand(-1)", RuntimeError),
    ("rand(3, out=t.empty(3, dtype=t.float64), dtype=t.float32)", RuntimeError),
    ("randn(3, dtype=t.bool)", NotImplementedError),
    ("randn(3, out=t.empty(1).expand(3))", RuntimeError),
    ("randint(5)", TypeError),
    ("randint((3,))", TypeError),
    ("randint(5, 3)", TypeError),
    ("randint(5, 5, (3,))", RuntimeError),
    ("randint(5, 5, (0,))", RuntimeError),
    ("randint(0, 300, (3,), dtype=t.uint8)", RuntimeError),
    ("randint(2.5, (3,))", TypeError),
    ("randint(0, 2**63, (3,))", ValueError),
    ("randint(0, 2, (3,), dtype=t.complex64)", RuntimeError),
    ("randint(5, (2,), requires_grad=True)", RuntimeError),
    ("rand_like(t.empty(2, dtype=t.int32))", NotImplementedError),
    ("randint_like(t.empty(2))", TypeError),
    ("randint_like(t.empty(2), 5, 2)", RuntimeError),
    ("randperm(-1)", RuntimeError),
    ("randperm(3.5)", TypeError),
    ("randperm(300, dtype=t.uint8)", RuntimeError),
    ("randperm(2050, dtype=t.float16)", RuntimeError),
    ("randperm(3, dtype=t.bool)", NotImplementedError),
    ("randperm(3, dtype=t.complex64)", NotImplementedError),
    ("randperm(5, out=t.empty(2), dtype=t.int64)", RuntimeError),
    ("normal(0.0, 1.0)", TypeError),
    ("normal(0, 1, size=2)", TypeError),
    ("normal(0, -1, (2,))", RuntimeError),
    ("normal(t.ones(2), -1)", RuntimeError),
    ("normal(1, t.tensor([1.0, -2]))", RuntimeError),
    ("normal(1, t.tensor([1.0, float('nan')]))", RuntimeError),
    ("normal(t.ones(2), t.ones(3))", RuntimeError),
    ("normal(t.tensor([1, 2]), 1)", NotImplementedError),
    ("normal(0.0, t.tensor([1, 2]))", NotImplementedError),
    ("normal(t.ones(2), t.ones(2, dtype=t.complex64))", RuntimeError),
    ("normal(t.ones(2), 1, (2,))", TypeError),
    ("bernoulli(t.tensor([0.0, 1.5]))", RuntimeError),
    ("bernoulli(t.tensor([0.0, float('nan')]))", RuntimeError),
    ("bernoulli(t.tensor([0, 1]))", NotImplementedError),
    ("bernoulli(t.ones(2), p=1.5)", RuntimeError),
    ("bernoulli(t.ones(2), t.ones(2))", TypeError),
    ("empty(3).bernoulli_(t.tensor([0.0, 1]))", RuntimeError),
    ("empty(3).bernoulli_(t.ones(3, 3))", RuntimeError),
    ("multinomial(t.ones(3), 4)", RuntimeError),
    ("multinomial(t.ones(3), 0)", RuntimeError),
    ("multinomial(t.ones(3), -1, True)", RuntimeError),
    ("multinomial(t.tensor([0.0, 1, -2]), 2)", RuntimeError),
    ("multinomial(t.tensor([0.0, 1, -2]), 2, True)", RuntimeError),
    ("multinomial(t.zeros(3), 1)", RuntimeError),
    ("multinomial(t.zeros(3), 2, True)", RuntimeError),
    ("multinomial(t.tensor([[0.0, 0], [1, 2]]), 1)", RuntimeError),
    ("multinomial(t.tensor([1.0, float('nan')]), 1)", RuntimeError),
    ("multinomial(t.tensor([1.0, float('inf')]), 2, True)", RuntimeError),
    ("multinomial(t.tensor([1, 2]), 1)", RuntimeError),
    ("multinomial(t.ones(2, dtype=t.complex64), 1)", RuntimeError),
    ("multinomial(t.tensor(1.0), 1)", RuntimeError),
    ("multinomial(t.ones(3, 3, 3), 1)", RuntimeError),
    ("multinomial(t.empty(0), 1)", RuntimeError),
    ("multinomial(t.empty(3, 0), 1, True)", RuntimeError),
    ("multinomial(t.ones(2), 1, out=t.empty(2))", RuntimeError),
    ("set_rng_state(t.ones(16))", TypeError),
    ("set_rng_state(t.ones(3, dtype=t.uint8))", RuntimeError),
    ("Generator().set_state(3)", TypeError),
    ("Generator().set_state(t.ones(2))", TypeError),
]


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "error", "message"), IN_PLACE, ids=lambda value: str(value)[:24]
)
def test_in_place(
    device: drv.Device, name: str, arguments: tuple[Any, ...], kind: str, error: type[Exception], message: str
) -> None:
    for where in ("cpu", "cuda"):
        x = tensor.zeros(3, dtype=getattr(tensor, kind), device=where)
        with pytest.raises(error, match=message) as result:
            getattr(x, name)(*arguments)
        assert type(result.value) is error
        assert x._version == 0
        assert not any(x.tolist())


@pytest.mark.parity
@pytest.mark.parametrize("case", IN_PLACE, ids=lambda value: str(value[:3])[:40])
def test_in_place_as_pytorch(case: tuple[Any, ...]) -> None:
    torch = pytest.importorskip("torch")
    name, arguments, kind, error, _ = case
    with pytest.raises(error) as result:
        getattr(torch.zeros(3, dtype=getattr(torch, kind)), name)(*arguments)
    assert type(result.value) is error


@pytest.mark.parametrize(("code", "error"), CREATION, ids=lambda value: str(value)[:40])
def test_creation(device: drv.Device, code: str, error: type[Exception]) -> None:
    with pytest.raises(error) as result:
        eval(f"t.{code}", {"t": tensor})
    assert type(result.value) is error
    assert str(result.value)


@pytest.mark.parity
@pytest.mark.parametrize(("code", "error"), CREATION, ids=lambda value: str(value)[:40])
def test_creation_as_pytorch(code: str, error: type[Exception]) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(error) as result:
        eval(f"t.{code}", {"t": torch})
    assert type(result.value) is error


def test_nothing_changes_before_an_error(device: drv.Device) -> None:
    out = tensor.zeros(2)
    state = tensor.get_rng_state().tolist()
    for code in (
        "rand(3, out=out, generator=t.Generator('cuda'))",
        "randn(3, out=out, dtype=t.float64)",
        "randint(3, 3, (4,), out=out)",
        "randperm(5, out=out, generator=t.Generator('cuda'))",
        "normal(t.ones(3), -1.0, out=out)",
        "normal(0.0, t.tensor([-1.0, 1, 1]), out=out)",
        "multinomial(t.zeros(3), 1, out=t.zeros(2, dtype=t.int64))",
    ):
        with pytest.raises(RuntimeError):
            eval(f"t.{code}", {"t": tensor, "out": out})
    assert out.tolist() == [0, 0]
    assert out._version == 0
    assert tensor.get_rng_state().tolist() == state


def test_pinned_memory_is_the_hosts(device: drv.Device) -> None:
    for make in (tensor.rand, tensor.randn, tensor.randperm):
        assert make(3, pin_memory=True).is_pinned()
        with pytest.raises(RuntimeError, match="pinned"):
            make(3, pin_memory=True, device="cuda")
