"""In-place forms that write what the function gives, with its derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from tests.tensor.comparison import array_of


@pytest.mark.parity
@pytest.mark.parametrize(
    "text",
    [
        "x.cumsum_(1)",
        "x.cumprod_(0)",
        "x.renorm_(2, 0, 1.0)",
        "x.index_reduce_(0, p, y, 'amax')",
        "x.index_reduce_(1, p, y[:, :3], 'prod', include_self=False)",
        "x.mvlgamma_(2)",
        "x.ldexp_(p[:1])",
        "x.i0_()",
    ],
)
def test_in_place_forms_are_pytorchs(text: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    arrays = {"x": rng.uniform(1, 2, (3, 4)), "y": rng.uniform(1, 2, (3, 4))}
    outcomes: list[Any] = []
    for library in (tensor, torch):
        leaves = {name: library.from_numpy(array.copy()).requires_grad_() for name, array in arrays.items()}
        target = leaves["x"] * 1
        result = eval(text, {"x": target, "y": leaves["y"], "p": library.tensor([2, 0, 1])})
        assert result is target
        (result * result).sum().backward()
        outcomes.append([result.detach(), leaves["x"].grad, leaves["y"].grad])
    for actual, expected in zip(*outcomes, strict=True):
        assert (actual is None) == (expected is None)
        if actual is not None:
            np.testing.assert_allclose(array_of(actual), array_of(expected), 1e-9, 1e-12)


def test_reductions_of_nothing_name_themselves() -> None:
    """The function that was called, and the argument that would help."""
    empty = tensor.empty(0, 3)
    for name in ("max", "min", "amax", "amin"):
        with pytest.raises(RuntimeError, match=rf"^{name}\(\): Expected reduction dim to be specified"):
            getattr(tensor, name)(empty)
    for name in ("argmax", "argmin"):
        with pytest.raises(IndexError, match=rf"^{name}\(\): Expected reduction dim to be specified"):
            getattr(tensor, name)(empty)
    with pytest.raises(RuntimeError, match=r"^aminmax\(\): cannot compute"):
        tensor.aminmax(empty)
    assert tensor.max(empty, 1).values.shape == (0,)


@pytest.mark.parity
@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("m.aminmax(x, dim=0, out=out)", ("float64", "float64")),
        ("m.cummax(x, 1, out=out)", ("float64", "int64")),
        ("m.cummin(x, 0, out=out)", ("float64", "int64")),
        ("m.argmax(x, 1, out=out[0])", ("int64",)),
        ("m.argmin(x, out=out[0])", ("int64",)),
        ("m.index_reduce(x, 0, p, y, 'amax', out=out[0])", ("float64",)),
        ("m.isin(x, y, out=out[0])", ("bool",)),
        ("m.isin(x, 1.5, out=out[0])", ("bool",)),
        ("m.nonzero_static(x, size=3, out=out[0])", ("int64",)),
        ("m.narrow_copy(x, 1, 1, 2, out=out[0])", ("float64",)),
        ("m.renorm(x, 2, 0, 1.0, out=out[0])", ("float64",)),
        ("m.frexp(x, out=out)", ("float64", "int32")),
        ("m.histogram(x, 3, out=out)", ("float64", "float64")),
        ("m.special.i1e(x, out=out[0])", ("float64",)),
        ("m.special.zeta(x + 1, y, out=out[0])", ("float64",)),
        ("m.mvlgamma(x, 1, out=out[0])", ("float64",)),
        ("m.gcd(p, p + 4, out=out[0])", ("int64",)),
        ("m.max(x, other=y, out=out[0])", ("float64",)),
    ],
)
@pytest.mark.sampled(3)
def test_results_are_written_where_wanted(text: str, kinds: tuple[str, ...], device_name: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    arrays = {"x": rng.uniform(1, 2, (3, 4)), "y": rng.uniform(1, 2, (3, 4)), "p": np.array([2, 0, 1])}
    written = []
    for library, device in ((tensor, device_name), (torch, "cpu")):
        out = [library.empty(0, dtype=getattr(library, kind), device=device) for kind in kinds]
        argument = {name: library.from_numpy(array.copy()).to(device) for name, array in arrays.items()}
        result = eval(text, {"m": library, "out": tuple(out), **argument})
        assert (result if len(kinds) == 1 else result[0]) is out[0]
        written.append(out)
    for actual, expected in zip(*written, strict=True):
        np.testing.assert_allclose(array_of(actual), array_of(expected), 1e-9)
