"""What the CPU computes in blocks, runs or by selection gives what it gives for whole rows, at every size around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tensor
from nn import functional
from nvrtc_kernels import host_loops

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def native(request: pytest.FixtureRequest) -> Iterator[None]:
    """Native loops are in the mode that the test says, where there are any."""
    former = host_loops.mode()
    host_loops.set_mode(request.param)
    yield
    host_loops.set_mode(former)


SHAPES = [
    (1,),
    (15,),
    (16,),
    (17,),
    (3, 16),
    (3, 50),
    (0, 4),
    (2, 0),
    (70_000,),
    (140_001,),
    (3, 70_001),
    (2, 3, 40),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_running_sums(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    expected = np.cumsum(x, axis=-1, dtype=np.float64)
    np.testing.assert_allclose(tensor.tensor(x).cumsum(-1).numpy(), expected, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("kind", ["f4", "f8", "i4", "c8", "f2"])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((70, 700), 0),
        ((3, 40, 513), 1),
        ((40_000, 3), 0),
        ((2, 20_000, 2), 1),
        ((1, 70_000), 0),
        ((70_000, 0), 0),
    ],
    ids=str,
)
def test_running_sums_along_other_dimensions(shape: tuple[int, ...], dim: int, kind: str) -> None:
    """All of an index at once, or moved; in double precision where they are of single."""
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, shape).astype(kind) if kind != "f4" else rng.standard_normal(shape).astype(kind)
    expected = np.cumsum(x, axis=dim, dtype=np.complex128 if kind == "c8" else np.float64)
    result = tensor.tensor(x).cumsum(dim).numpy()
    assert result.flags.c_contiguous
    np.testing.assert_allclose(result, expected.astype(result.dtype), rtol=1e-7, atol=1e-6)
    if kind == "f4" and x.size:
        x.reshape(-1)[x.size // 2] = np.inf
        x.reshape(-1)[-1] = -np.inf
        with np.errstate(invalid="ignore"):
            expected = np.cumsum(x, axis=dim, dtype=np.float64)
        result = tensor.tensor(x).cumsum(dim).numpy()
        np.testing.assert_array_equal(np.isfinite(result), np.isfinite(expected))
        np.testing.assert_array_equal(result[~np.isfinite(expected)], expected[~np.isfinite(expected)])


@pytest.mark.parametrize("dtype", [tensor.float16, tensor.bfloat16], ids=str)
@pytest.mark.parametrize("native", ["off", "on"], indirect=True)
@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((70_000,), None),
        ((65_536,), 0),
        ((1, 140_001), 1),
        ((3, 70_001), 1),
        ((300, 517), 1),
        ((300, 517), 0),
        ((5, 130, 517), (0, 1)),
        ((5, 130, 517), 1),
        ((5, 130, 517), (1, 2)),
        ((40_000, 3), 0),
        ((40_000, 3), 1),
        ((100_000, 0), 1),
    ],
    ids=str,
)
def test_sums_of_half_precision(shape: tuple[int, ...], dim: Any, dtype: Any, native: None) -> None:
    """Added up in more precision block by block, and rounded once; what is not finite stays so."""
    x = tensor.tensor(np.random.default_rng(0).uniform(-0.5, 1, shape)).to(dtype)
    axes = tuple(range(len(shape))) if dim is None else dim
    exact = x.double().numpy()
    expected, sizes = exact.sum(axes, keepdims=True), np.abs(exact).sum(axes, keepdims=True)
    count = exact.size // max(expected.size, 1)
    bound = tensor.finfo(dtype).eps / 2 * np.abs(expected) + 1e-6 * sizes
    finite = np.abs(expected) < tensor.finfo(dtype).max
    for result, factor in ((x.sum(dim, keepdim=True), 1.0), (x.mean(dim, keepdim=True), 1 / max(count, 1))):
        assert result.dtype is dtype
        assert tuple(result.shape) == expected.shape
        if count:
            off = np.abs(result.double().numpy() - expected * factor)
            assert (off <= bound * factor)[finite | (factor < 1)].all()
    if x.numel():
        x.view(-1)[-1], x.view(-1)[0] = np.inf, -np.inf
        with np.errstate(invalid="ignore"):
            expected = x.double().numpy().sum(axes, keepdims=True)
        odd = ~np.isfinite(expected)
        np.testing.assert_array_equal(x.sum(dim, keepdim=True).double().numpy()[odd], expected[odd])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape", [(262_143,), (262_144,), (300_001,), (1000, 700)], ids=str)
def test_sums_of_all_elements(shape: tuple[int, ...], dtype: str) -> None:
    """A float32 sum is exact to the last digit or two where all elements are positive, as in pairwise summation."""
    x = np.random.default_rng(0).uniform(0.1, 1, shape).astype(dtype)
    y = tensor.tensor(x)
    expected = np.sum(x, dtype=np.longdouble)
    bound = 2 * np.finfo(x.dtype).eps
    assert abs(y.sum().item() - expected) <= bound * expected
    assert abs(y.mean().item() - expected / x.size) <= bound * expected / x.size
    assert y.sum(dim=tuple(range(x.ndim)), keepdim=True).shape == (1,) * x.ndim
    x.reshape(-1)[-1] = np.inf
    assert tensor.tensor(x).sum().item() == np.inf


@pytest.mark.parametrize("count", [100, 1000, 140_000])
def test_running_sums_pass_infinities_on(count: int) -> None:
    """And leave those before them alone, in products of matrices too; the last is longer than a block."""
    x = np.ones(count, np.float32)
    x[40], x[70] = np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        expected = np.cumsum(x)
    np.testing.assert_array_equal(tensor.tensor(x).cumsum(0).numpy(), expected)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1"])
@pytest.mark.parametrize(("n", "k"), [(100, 10), (1000, 3), (37, 9), (37, 10), (8, 2), (8, 1)])
def test_the_first_of_equal_elements_are_selected(n: int, k: int, dtype: str, largest: bool) -> None:
    x = np.random.default_rng(n).integers(0, 20, (6, n)).astype(dtype)
    if dtype[0] == "f":
        x[0, :5] = np.nan
        x[1] = np.nan
        x[2, 1:] = np.nan
        x[3, 3], x[3, 4] = np.inf, -np.inf
    values, indices = tensor.tensor(x).topk(k, 1, largest=largest)
    # Stable, with NaN as the largest: from behind in the mirrored row.
    order: Any = (
        (n - 1 - np.argsort(x[:, ::-1], axis=1, kind="stable"))[:, ::-1]
        if largest
        else np.argsort(x, axis=1, kind="stable")
    )
    np.testing.assert_array_equal(indices.numpy(), order[:, :k])
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, order[:, :k], 1))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1", "f2"])
@pytest.mark.parametrize("n", [1, 31, 32, 33, 500])
def test_selected_elements_are_those_of_a_stable_order(n: int, dtype: str) -> None:
    """With many equal elements, zeros of both signs, NaN and infinities, and rows with different numbers of NaN."""
    x = np.random.default_rng(n).integers(0, 20, (40, n)).astype(dtype)
    if dtype[0] == "f":
        x[x == 3] = np.inf
        x[x == 4] = -0.0
        x[:12][np.tri(12, n, -1, dtype=bool)] = np.nan
        x[20] = np.nan
        x[21:30, : n // 2] = np.nan
    order = np.argsort(x, axis=1, kind="stable")
    y, rows = tensor.tensor(x), np.arange(len(x))
    for k in {1, n // 3 + 1, n}:
        values, indices = y.kthvalue(k, 1)
        np.testing.assert_array_equal(indices.numpy(), order[:, k - 1])
        np.testing.assert_array_equal(values.numpy(), x[rows, order[:, k - 1]])
    nans = np.isnan(x).sum(1)
    for function, ranks in (
        (tensor.median, np.where(nans > 0, n - nans, (n - 1) // 2)),
        (tensor.nanmedian, np.maximum(n - nans - 1, 0) // 2),
    ):
        values, indices = function(y, 1)
        np.testing.assert_array_equal(indices.numpy(), order[rows, ranks])
        np.testing.assert_array_equal(values.numpy(), x[rows, order[rows, ranks]])


@pytest.mark.parametrize("native", ["off", "on"], indirect=True)
@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((40_000,), None),
        ((3, 33_000), 1),
        ((70, 600), 1),
        ((70, 600), 0),
        ((5, 9, 2000), (1, 2)),
        ((9, 0), 1),
        ((0, 9), 1),
    ],
    ids=str,
)
def test_norms_are_added_up_in_double_precision(shape: tuple[int, ...], dim: Any, native: None) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    axes = tuple(range(len(shape))) if dim is None else dim
    for scale in (1.0, 1e30, 1e-30):
        scaled = x * np.float32(scale)
        expected = np.sqrt((scaled.astype(np.float64) ** 2).sum(axes))
        np.testing.assert_allclose(tensor.norm(tensor.tensor(scaled), dim=dim).numpy(), expected, rtol=1e-7)
    if x.size:
        for odd in (np.inf, np.nan):
            x.reshape(-1)[-1] = odd
            expected = np.sqrt((x.astype(np.float64) ** 2).sum(axes))
            np.testing.assert_allclose(tensor.norm(tensor.tensor(x), dim=dim).numpy(), expected, rtol=1e-7)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((200_003,), 0), ((3, 40_001), 1), ((70, 1201), 1), ((2000, 67), 1), ((20_000, 5), 1)],
    ids=str,
)
def test_products_of_many_elements(shape: tuple[int, ...], dim: int, dtype: str) -> None:
    x = np.random.default_rng(0).uniform(-0.01, 0.01, shape) + np.random.default_rng(1).choice([-1, 1], shape)
    x = x.astype(dtype)
    expected = np.prod(x, axis=dim, dtype=np.longdouble)
    rtol = x.shape[dim] ** 0.5 * np.finfo(dtype).eps * 4
    np.testing.assert_allclose(tensor.tensor(x).prod(dim).numpy(), expected.astype(np.float64), rtol=rtol)
    for odd in (0.0, np.inf, np.nan):
        x[..., -1] = odd
        np.testing.assert_array_equal(np.abs(tensor.tensor(x).prod(dim).numpy()), odd)


@pytest.mark.parametrize("kind", ["f4", "f8", "i8", "u1", "?"])
@pytest.mark.parametrize("shape", [(50,), (1,), (0,), (7, 30), (30, 7), (4, 3, 600), (3, 0), (0, 3)], ids=str)
def test_running_extremes_are_the_last_of_equal_ones(shape: tuple[int, ...], kind: str) -> None:
    """Zeros of both signs among them; from a NaN on it is the last NaN."""
    x = np.random.default_rng(0).integers(-3, 4, shape).astype(kind)
    if kind == "f8":
        # Of many numbers few are the largest or the smallest so far.
        x = np.random.default_rng(0).standard_normal(shape)
        x.reshape(-1)[600::317] = np.nan
    if kind == "f4":
        x[x == 2] = -0.0
        x.reshape(-1)[10::17] = np.nan
    for dim in range(x.ndim):
        for function, ahead in ((tensor.cummax, np.greater_equal), (tensor.cummin, np.less_equal)):
            positions = np.zeros(x.shape, np.int64)
            moved, at = np.moveaxis(x, dim, 0), np.moveaxis(positions, dim, 0)
            for index in range(1, len(moved)):
                before = np.take_along_axis(moved, at[index - 1 : index], 0)[0]
                wins = (ahead(moved[index], before) & (before == before)) | (moved[index] != moved[index])
                at[index] = np.where(wins, index, at[index - 1])
            values, indices = function(tensor.tensor(x), dim)
            expected = np.take_along_axis(x, positions, dim)
            np.testing.assert_array_equal(indices.numpy(), positions)
            np.testing.assert_array_equal(values.numpy(), expected)
            if kind == "f4":
                numbers = expected == expected
                np.testing.assert_array_equal(
                    np.signbit(values.numpy())[numbers], np.signbit(expected)[numbers]
                )


def test_sums_without_nan() -> None:
    x = np.ones((30, 40), np.float32)
    y = tensor.tensor(x)
    assert y.nansum().item() == 1200
    y[3, 4], y[5, 6], y[7] = np.nan, np.inf, np.nan
    assert y.nansum(1)[3:8].tolist() == [39, 40, np.inf, 40, 0]
    y[5, 7] = -np.inf
    assert y.nansum(1)[5].isnan() and y.nansum(0)[6].item() == np.inf


@pytest.mark.parametrize("count", [0, 1, 2, 7, 1000])
@pytest.mark.parametrize(("start", "end"), [(0.0, 1.0), (-3.0, 0.1), (5.0, -7.0), (2.0, 2.0), (-1e38, 3e38)])
def test_even_steps_come_from_both_ends(start: float, end: float, count: int) -> None:
    """To the bit as this formula for one element."""
    step = (end - start) / (count - 1) if count > 1 else 0.0
    half = count // 2 if count > 1 else count
    expected = [start + i * step if i < half else end - (count - 1 - i) * step for i in range(count)]
    result = tensor.linspace(start, end, count)
    np.testing.assert_array_equal(result.numpy(), np.array(expected, np.float64).astype(np.float32))


@pytest.mark.parametrize(
    "key",
    [
        (np.array([1, -2, 3]),),
        (slice(None), np.array([[1, 2], [3, -4]])),
        (Ellipsis, np.array([0, 8, -9])),
        (slice(1, 4), slice(None), np.array([[0, 8]])),
        (np.zeros((0,), np.int64),),
    ],
    ids=str,
)
def test_one_index_takes_slices(key: Any) -> None:
    x = np.random.default_rng(0).standard_normal((5, 7, 9)).astype(np.float32)
    ours = tuple(tensor.tensor(each) if isinstance(each, np.ndarray) else each for each in key)
    np.testing.assert_array_equal(tensor.tensor(x)[ours].numpy(), x[key])


@pytest.mark.parametrize(("rows", "n"), [(1, 40_000), (3, 20_000), (1000, 37), (50, 1000)])
def test_rows_are_normalised(rows: int, n: int) -> None:
    rng = np.random.default_rng(0)
    x, weight, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, n), n, n))
    result = functional.layer_norm(
        *[tensor.tensor(each) if each is not None else (n,) for each in (x, None, weight, bias)]
    )
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(
        wide.var(1, keepdims=True) + 1e-5
    ) * weight + bias
    np.testing.assert_allclose(result.numpy(), expected, rtol=2e-5, atol=2e-5)


def test_groups_are_normalised() -> None:
    x = np.random.default_rng(0).standard_normal((40, 6, 500)).astype(np.float32)
    result = functional.group_norm(tensor.tensor(x), 3, tensor.arange(6.0), tensor.ones(6))
    wide = x.astype(np.float64).reshape(40, 3, -1)
    scaled = (wide - wide.mean(2, keepdims=True)) / np.sqrt(wide.var(2, keepdims=True) + 1e-5)
    expected = scaled.reshape(x.shape) * np.arange(6.0)[:, None] + 1
    np.testing.assert_allclose(result.numpy(), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("rows", [1, 8, 15, 16, 17, 1001])
def test_columns_are_added_up_a_few_at_a_time(rows: int) -> None:
    x = np.random.default_rng(0).standard_normal((rows, 70)).astype(np.float32)
    np.testing.assert_allclose(
        tensor.tensor(x).sum(0).numpy(), x.sum(0, dtype=np.float64), rtol=1e-5, atol=2e-6
    )


@pytest.mark.parametrize("shape", [(700,), (200, 1), (1, 1), (200, 700)], ids=str)
def test_stretched_operands_of_many_elements(shape: tuple[int, ...]) -> None:
    """Rows are gone over where they are, and the size of NumPy's buffer is as before."""
    rng = np.random.default_rng(0)
    whole, other = rng.standard_normal((200, 1400)).astype(np.float32), rng.standard_normal(shape)
    other = other.astype(np.float32)
    former = np.getbufsize()
    for x in (whole[:, :700].copy(), whole[:, 3:703]):
        a, b = tensor.from_numpy(x), tensor.from_numpy(other)
        np.testing.assert_array_equal((a - b).numpy(), x - other)
        np.testing.assert_array_equal((b / a).numpy(), other / x)
        np.testing.assert_array_equal((a * b.double()).numpy(), x * other.astype(np.float64))
        np.testing.assert_array_equal((a < b).numpy(), x < other)
    assert np.getbufsize() == former
