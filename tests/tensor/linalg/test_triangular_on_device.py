"""Triangular systems on a device: every flag, layout and batch against NumPy, and what they wait for: nothing."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
import tensor
from tests.tensor.driver_calls import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    Array = np.ndarray[Any, Any]

linalg = tensor.linalg
_DTYPES = ("float32", "float64", "complex64", "complex128")


@pytest.fixture
def simulated(request: pytest.FixtureRequest) -> None:
    """A simulated device whose races are checked, unless there is a GPU."""
    if not request.config.getoption("--gpu"):
        drv.simulator.install(check="race")


def _values(shape: tuple[int, ...], dtype: str) -> Array:
    rng = np.random.default_rng(sum(shape))
    values = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def _triangles(shape: tuple[int, ...], dtype: str) -> Array:
    """Well-conditioned ones in both halves, with ones as well as without on the diagonal."""
    n = shape[-1]
    return (_values(shape, dtype) / (2 * n) + np.eye(n) * 2).astype(dtype)


def _expected(a: Array, b: Array, *, upper: bool, left: bool, unitriangular: bool) -> Array:
    a = np.triu(a) if upper else np.tril(a)
    if unitriangular:
        a = a - a * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
    a, b = a.astype(np.complex128), b.astype(np.complex128)
    if left:
        return np.linalg.solve(a, b)
    return np.linalg.solve(a.swapaxes(-1, -2), b.swapaxes(-1, -2)).swapaxes(-1, -2)


def _marked(a: Array, *, upper: bool, unitriangular: bool) -> Array:
    """NaN where nothing may be read."""
    n = a.shape[-1]
    read = np.triu(np.ones((n, n)), unitriangular) if upper else np.tril(np.ones((n, n)), -unitriangular)
    return np.where(read > 0, a, np.nan).astype(a.dtype)


#: How a tensor on the device comes to have other strides.
_LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda x: x,
    "columns": lambda x: x.mT.contiguous().mT,
    "padded": lambda x: _padded(x),
    "every other": lambda x: tensor.stack([x, x], -1)[..., 0],
}


def _padded(x: Any) -> Any:
    result = x.new_zeros((*x.shape[:-2], x.shape[-2] + 1, x.shape[-1] + 3))
    result[..., 1:, 2:-1] = x
    return result[..., 1:, 2:-1]


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("layout", _LAYOUTS)
@pytest.mark.sampled(4)
def test_flags(dtype: str, layout: str) -> None:
    for upper, left, unit in product((False, True), repeat=3):
        flags = {"upper": upper, "left": left, "unitriangular": unit}
        a, b = _triangles((3, 3), dtype), _values((3, 2) if left else (2, 3), dtype)
        x, y = (tensor.from_numpy(each).cuda() for each in (_marked(a, upper=upper, unitriangular=unit), b))
        result = linalg.solve_triangular(_LAYOUTS[layout](x), _LAYOUTS[layout](y), **flags)
        assert result.dtype == getattr(tensor, dtype)
        atol = 1e-5 if dtype in ("float32", "complex64") else 1e-12
        np.testing.assert_allclose(result.cpu().numpy(), _expected(a, b, **flags), atol=atol)
        out = tensor.empty(1, dtype=result.dtype, device="cuda")
        assert linalg.solve_triangular(x, y, **flags, out=out) is out
        np.testing.assert_array_equal(out.cpu().numpy(), result.cpu().numpy())


#: Batch dimensions of triangles and of right sides, and views that change the batch's strides.
_BATCHES: dict[str, tuple[tuple[int, ...], tuple[int, ...], Callable[[Any], Any]]] = {
    "one": ((1,), (1,), lambda x: x),
    "batch": ((4,), (4,), lambda x: x),
    "one triangle": ((), (2, 3), lambda x: x),
    "one right side": ((2, 3), (), lambda x: x),
    "both broadcast": ((2, 1), (1, 3), lambda x: x),
    "every other": ((6,), (3,), lambda x: x[::2] if x.shape[0] == 6 else x),
    "turned": ((2, 3), (2, 3), lambda x: x.movedim(0, 1).contiguous().movedim(0, 1)),
    "turned back": ((3, 2), (3, 2), lambda x: x.permute(2, 3, 0, 1).contiguous().permute(2, 3, 0, 1)),
    "none": ((0,), (0,), lambda x: x),
}


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("name", _BATCHES)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.sampled(4)
def test_batches(name: str, dtype: str) -> None:
    before, behind, turn = _BATCHES[name]
    a, b = _triangles((*before, 3, 3), dtype), _values((*behind, 3, 2), dtype)
    x, y = (turn(tensor.from_numpy(each).cuda()) for each in (a, b))
    for upper in (False, True):
        result = linalg.solve_triangular(x, y, upper=upper)
        expected = linalg.solve_triangular(x.cpu(), y.cpu(), upper=upper)
        assert result.shape == expected.shape
        np.testing.assert_allclose(result.cpu().numpy(), expected.numpy(), atol=1e-12)
        solved = tensor.cholesky_solve(y, x, upper)
        np.testing.assert_allclose(
            solved.cpu().numpy(), tensor.cholesky_solve(y.cpu(), x.cpu(), upper).numpy(), atol=1e-12
        )
        inverse = tensor.cholesky_inverse(x.mT, upper)
        np.testing.assert_allclose(
            inverse.cpu().numpy(), tensor.cholesky_inverse(x.mT.cpu(), upper).numpy(), atol=1e-12
        )


@pytest.mark.usefixtures("simulated")
def test_a_few_large_triangles() -> None:
    a, b = _triangles((3, 70, 70), "float64"), _values((3, 70, 2), "float64")
    x, y = tensor.from_numpy(a).cuda(), tensor.from_numpy(b).cuda()
    result = linalg.solve_triangular(x, y, upper=True)
    np.testing.assert_allclose(np.triu(a) @ result.cpu().numpy(), b, atol=1e-12)


@pytest.mark.simulator_only
@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_any_schedule_on_a_side_stream(schedule: str) -> None:
    a, b = _triangles((2, 3, 3), "float64"), _values((3, 2), "float64")

    def gradients(place: str) -> list[Any]:
        x, y = (tensor.from_numpy(each).to(place).requires_grad_() for each in (a, b))
        result = linalg.solve_triangular(x * 2, y + 1, upper=True, left=True)
        result = result + tensor.cholesky_solve(y * 2, x, upper=False)
        (result * result).sum().backward()
        return [result.detach(), x.grad, y.grad]

    expected = gradients("cpu")
    drv.simulator.install(check="full", schedule=schedule)
    with tensor.cuda.stream(tensor.cuda.Stream()):
        results = [each.cpu().numpy() for each in gradients("cuda")]
    for left, right in zip(results, expected, strict=True):
        np.testing.assert_allclose(left, right.numpy(), rtol=1e-9, atol=1e-11)
    assert not drv.simulator.findings()


@pytest.mark.simulator_only
@pytest.mark.parametrize("batch", [(), (5,), (2, 5)])
def test_nothing_blocks(batch: tuple[int, ...]) -> None:
    drv.simulator.install()
    a = tensor.eye(3, device="cuda").expand(*batch, 3, 3)
    warm = linalg.solve_triangular(a, a, upper=True)
    del warm
    tensor.cuda.synchronize()
    with counted() as calls:
        linalg.solve_triangular(a, a, upper=True)
        linalg.solve_triangular(a.mT, a, upper=False, left=False)
        tensor.cholesky_solve(a, a)
    assert not calls.blocking()


@pytest.mark.simulator_only
def test_another_stream_has_to_wait() -> None:
    drv.simulator.install(check="race", schedule="lazy")
    a, b = (tensor.eye(3, device="cuda").expand(2, 3, 3).contiguous() * 2 for _ in range(2))
    tensor.cuda.synchronize()
    side = tensor.cuda.Stream()
    result = linalg.solve_triangular(a, b, upper=True)
    with pytest.raises(drv.DataRaceError), tensor.cuda.stream(side):
        result.sum()
        tensor.cuda.synchronize()
