"""Reductions over any dimensions of any layout, against NumPy in double precision."""

from __future__ import annotations

import sys
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
from nvrtc_kernels import dtypes, reducers, reduction, reduction_work
from tests.thinning import thinned

from .device_arrays import DeviceArray

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nvrtc_kernels.reducers import Reducer


def reduced(
    device: drv.Device,
    reducer: Reducer,
    arrays: np.ndarray | DeviceArray | Sequence[np.ndarray | DeviceArray],
    dims: Sequence[int],
    outputs: Sequence[dtypes.dtype] = (dtypes.float32,),
    scalars: Sequence[float] = (),
    output_layout: dict[str, Any] | None = None,
    **layout: Any,
) -> list[np.ndarray]:
    """Results with the reduced dimensions kept."""
    arrays = [arrays] if isinstance(arrays, np.ndarray | DeviceArray) else list(arrays)
    shape = arrays[0].shape
    argument = [
        array if isinstance(array, DeviceArray) else DeviceArray(device, array, **layout) for array in arrays
    ]
    kept = [1 if dim in dims else size for dim, size in enumerate(shape)]
    expected = [DeviceArray(device, np.zeros(kept, kind.numpy), **(output_layout or {})) for kind in outputs]
    plan = reduction.plan(
        device, reducer, shape, dims, [each.operand for each in expected], [each.operand for each in argument]
    )
    addresses = [each.address for each in (*expected, *argument)]
    stream = device.default_stream
    if plan.scratch_bytes:
        with drv.DeviceMemory(plan.scratch_bytes, device) as scratch:
            plan.run(stream.handle, *addresses, *scalars, scratch=scratch.address)
            stream.synchronize()
    else:
        plan.run(stream.handle, *addresses, *scalars)
        stream.synchronize()
    return [each.numpy_array() for each in expected]


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def assert_sum(device: drv.Device, array: np.ndarray, dims: Sequence[int], **layout: Any) -> None:
    """The error is a few roundings of the sum of magnitudes."""
    (result,) = reduced(device, reducers.SUM, array, dims, **layout)
    exact = array.astype(np.float64)
    bound = 3e-7 * np.abs(exact).sum(tuple(dims), keepdims=True) + 1e-30
    assert (np.abs(result - exact.sum(tuple(dims), keepdims=True)) <= bound).all()


@pytest.mark.parametrize("length", [1, 2, 3, 5, 31, 32, 33, 255, 256, 257, 1023, 4099])
def test_rows_of_any_length(device: drv.Device, length: int) -> None:
    for rows, lead in ((1, 0), (7, 0), (70, 3)):
        assert_sum(device, normal(rows, length), [1], lead=lead)


@pytest.mark.parametrize("columns", [1, 2, 3, 8, 31, 33, 130])
@pytest.mark.sampled(4)
def test_columns_of_any_length(device: drv.Device, columns: int) -> None:
    for length, lead in ((1, 0), (2, 0), (9, 1), (130, 0)):
        assert_sum(device, normal(length, columns), [0], lead=lead)


@pytest.mark.parametrize(
    ("shape", "dims"), [((100_003,), [0]), ((3, 40_000), [1]), ((20_000, 6), [0]), ((20_000, 7), [0])]
)
def test_few_long_rows_are_shared_by_blocks(
    device: drv.Device, shape: tuple[int, ...], dims: list[int]
) -> None:
    assert_sum(device, normal(*shape), dims)
    assert_sum(device, normal(*shape), dims, lead=1)


@pytest.mark.simulator_only
def test_a_launch_for_one_aligned_input_takes_one_call() -> None:
    """Between the plan and the launcher, whether the address is aligned or only a plan of narrow loads fits."""
    drv.simulator.install(execute=False, check="off")
    device = drv.current_device()
    source, target = (DeviceArray(device, normal(size)) for size in (9, 1))
    plan = reduction.plan(
        device, reducers.SUM, (8,), (0,), [((0,), dtypes.float32)], [((1,), dtypes.float32)]
    )
    calls: dict[int, list[str]] = {}
    for offset in (0, 4):
        arguments = device.default_stream.handle, target.address, source.address + offset
        plan.run(*arguments)
        names = calls[offset] = []

        def note(frame: Any, event: str, argument: Any, names: list[str] = names) -> None:
            if event == "call" and "nvrtc_kernels" in frame.f_code.co_filename:
                names.append(frame.f_code.co_name)

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            plan.run(*arguments)
        finally:
            sys.setprofile(before)
    assert len(calls[0]) == 1
    assert len(calls[4]) > 1


FIVE = (3, 4, 2, 5, 6)


@pytest.mark.parametrize("dims", [[], [4], [0], [2], [0, 2, 4], [1, 3], [0, 1], [3, 4], [0, 1, 2, 3, 4]])
@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 2, 0, 3, 1], [1, 0, 4, 3, 2]])
@pytest.mark.sampled(4)
def test_five_dimensions_in_any_order(device: drv.Device, dims: list[int], order: list[int]) -> None:
    array = normal(*FIVE)
    assert_sum(device, array, dims, order=order)
    assert_sum(device, array, dims, order=order, gap=1, lead=1)
    assert_sum(device, array, dims, order=order, output_layout={"order": order[::-1], "gap": 2})


@pytest.mark.parametrize(("shape", "dims"), [((4, 6, 16), [0, 2]), ((8, 6, 16), [0, 1]), ((6, 5, 8), [1])])
def test_packs_over_several_dimensions(device: drv.Device, shape: tuple[int, ...], dims: list[int]) -> None:
    for lead in (0, 1):
        for order in ([0, 1, 2], [1, 0, 2]):
            assert_sum(device, normal(*shape), dims, order=order, lead=lead)


@pytest.mark.parametrize("stretch", [[0], [1], [2], [0, 1, 2]])
@pytest.mark.sampled(4)
def test_stretched_dimensions(device: drv.Device, stretch: list[int]) -> None:
    shape = [1 if dim in stretch else size for dim, size in enumerate((5, 6, 40))]
    array = np.ascontiguousarray(np.broadcast_to(normal(*shape), (5, 6, 40)))
    for dims in ([0], [1], [2], [0, 2], [0, 1, 2]):
        assert_sum(device, array, dims, stretch=stretch)


#: Types of grad, input, mean and scale.
ROW_TYPES = {
    "float32": (np.float32, np.float32, np.float32),
    "bfloat16": (dtypes.bfloat16.numpy, dtypes.bfloat16.numpy, np.float32),
    "mixed": (np.float16, np.float32, np.float32),
    "float64": (np.float64, np.float64, np.float64),
}


@pytest.mark.parametrize("types", ROW_TYPES)
@pytest.mark.parametrize("shape", [(40, 64), (700, 24), (33, 7), (9, 1), (1, 16)])
@pytest.mark.parametrize("lead", [0, 1])
@pytest.mark.sampled(4)
def test_larger_inputs_decide_and_stretched_ones_are_loaded_once(
    device: drv.Device, types: str, shape: tuple[int, int], lead: int
) -> None:
    grad, x, statistic = (normal(*shape).astype(each) for each in ROW_TYPES[types])
    mean, scale = np.broadcast_to(statistic[:, :1], shape), np.broadcast_to(1 + statistic[:, :1] ** 2, shape)
    weight_gradients = reducers.SUM._replace(
        state="Sums", code="several(a * ((b - c) * d), a)", results=("x.item[0]", "x.item[1]")
    )
    for dim in (0, 1):
        arrays = [DeviceArray(device, each, lead=lead) for each in (grad, x)]
        arrays += [DeviceArray(device, each, stretch=(1,), lead=lead) for each in (mean, scale)]
        kind = dtypes.float64 if types == "float64" else dtypes.float32
        found = reduced(device, weight_gradients, arrays, [dim], [kind, kind])
        wide = [each.astype(np.float64) for each in (grad, x, mean, scale)]
        terms = wide[0] * ((wide[1] - wide[2]) * wide[3])
        for result, each in zip(found, (terms, wide[0]), strict=True):
            # Differences and products are rounded too, each once.
            bound = 6e-7 * (np.abs(each) + np.abs(wide[0] * wide[2] * wide[3])).sum(dim, keepdims=True)
            assert (np.abs(result - each.sum(dim, keepdims=True)) <= bound).all()


def test_the_layout_of_work_follows_the_bytes() -> None:
    def work(*inputs: tuple[tuple[int, int], int]) -> reduction_work.Work:
        rows = reduction_work.collapsed(
            (512, 64), [0], [(0, 1)], [strides for strides, _ in inputs], keep_order=False
        )
        return reduction_work.work_for(rows, [itemsize for _, itemsize in inputs])[0]

    large, column, turned = (64, 1), (1, 0), (1, 512)
    assert work((large, 4)).columns
    assert not work((turned, 4)).columns
    both = work((large, 2), (large, 2), (column, 4), (column, 4))
    assert (both.columns, both.width, both.stretched) == (True, 8, (2, 3))
    assert not work((large, 2), (turned, 4)).columns
    assert work((large, 4), (turned, 2)).columns


def test_single_elements(device: drv.Device) -> None:
    assert_sum(device, np.array(3.5, np.float32), [])
    assert_sum(device, normal(1, 1), [0, 1])
    assert_sum(device, normal(2, 3), [])


@pytest.mark.parametrize("changed", ["far", "small grid"])
def test_wide_indices_and_grids_that_are_too_small(
    device: drv.Device, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    if changed == "far":
        monkeypatch.setattr(reduction_work.Rows, "_is_far", lambda _: True)
    else:
        monkeypatch.setattr(reduction, "_MAX_GRID", 3)
    for shape, dims in (((300, 70), [0]), ((300, 70), [1]), ((7, 30_000), [1]), ((30_000, 40), [0])):
        assert_sum(device, normal(*shape), dims)
    array = normal(9, 5000)
    devices = reduced(device, reducers.ARGMAX, array, [1], [dtypes.int64])[0]
    assert (devices == array.argmax(1, keepdims=True)).all()


def test_every_run_gives_the_same_bits(device: drv.Device) -> None:
    for shape, dims in (((100_000,), [0]), ((300, 500), [0])):
        first, second = (reduced(device, reducers.SUM, normal(*shape), dims)[0] for _ in range(2))
        assert first.tobytes() == second.tobytes()


def test_float_sums_keep_their_digits(device: drv.Device) -> None:
    """Added one after the other the error would be a hundred times as large."""
    for shape, dims, order in (
        ((200_000,), [0], [0]),
        ((2, 60_000), [1], [1, 0]),
        ((3, 20_000), [1], [0, 1]),
    ):
        array = np.random.default_rng(3).random(shape, np.float32)
        (result,) = reduced(device, reducers.SUM, array, dims, order=order)
        exact = array.astype(np.float64).sum(tuple(dims), keepdims=True)
        assert (np.abs(result / exact - 1) < 5e-7).all()


def flattened(array: np.ndarray, dims: tuple[int, ...]) -> tuple[np.ndarray, tuple[int, ...]]:
    """The reduced dimensions as one, the last; and the shape of a result."""
    kept = [dim for dim in range(array.ndim) if dim not in dims]
    moved = array.transpose(*kept, *dims)
    shape = [1 if dim in dims else size for dim, size in enumerate(array.shape)]
    return moved.reshape(*(array.shape[dim] for dim in kept), -1), tuple(shape)


def place(array: np.ndarray, dims: tuple[int, ...], best: Callable[..., np.ndarray]) -> np.ndarray:
    flat, shape = flattened(array, dims)
    return best(flat, -1).reshape(shape)


def moments(array: np.ndarray, dims: tuple[int, ...], correction: float) -> tuple[np.ndarray, np.ndarray]:
    flat, shape = flattened(array, dims)
    mean = flat.mean(-1, keepdims=True)
    squares = (np.abs(flat - mean) ** 2).sum(-1)
    return (squares / max(flat.shape[-1] - correction, 0)).reshape(shape), mean.reshape(shape)


def logsumexp(array: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    flat, shape = flattened(array, dims)
    return np.logaddexp.reduce(flat, -1).reshape(shape)


F, N, B = dtypes.float64, dtypes.int64, dtypes.bool_
KEEP = {"keepdims": True}
#: Each reducer, the types of its results, the scalars, and the same by NumPy on (array, dims).
REFERENCES: dict[str, tuple[Reducer, list[dtypes.dtype], list[float], Callable[..., Any]]] = {
    "sum": (reducers.SUM, [F], [], lambda x, d: np.sum(x, d, **KEEP)),
    "mean": (reducers.MEAN, [F], [], lambda x, d: np.mean(x, d, **KEEP)),
    "prod": (reducers.PROD, [F], [], lambda x, d: np.prod(x, d, **KEEP)),
    "nansum": (reducers.NANSUM, [F], [], lambda x, d: np.nansum(x, d, **KEEP)),
    "nanmean": (reducers.NANMEAN, [F], [], lambda x, d: np.nanmean(x, d, **KEEP)),
    "count_nonzero": (reducers.COUNT_NONZERO, [N], [], lambda x, d: np.count_nonzero(x, d, **KEEP)),
    "any": (reducers.ANY, [B], [], lambda x, d: np.any(x, d, **KEEP)),
    "all": (reducers.ALL, [B], [], lambda x, d: np.all(x, d, **KEEP)),
    "amax": (reducers.AMAX, [F], [], lambda x, d: np.max(x, d, **KEEP)),
    "amin": (reducers.AMIN, [F], [], lambda x, d: np.min(x, d, **KEEP)),
    "aminmax": (reducers.AMINMAX, [F, F], [], lambda x, d: (np.min(x, d, **KEEP), np.max(x, d, **KEEP))),
    "argmax": (reducers.ARGMAX, [N], [], lambda x, d: place(x, d, np.argmax)),
    "argmin": (reducers.ARGMIN, [N], [], lambda x, d: place(x, d, np.argmin)),
    "max": (reducers.MAX, [F, N], [], lambda x, d: (np.max(x, d, **KEEP), place(x, d, np.argmax))),
    "min": (reducers.MIN, [F, N], [], lambda x, d: (np.min(x, d, **KEEP), place(x, d, np.argmin))),
    "var": (reducers.VAR, [F], [1.0], lambda x, d: moments(x, d, 1)[0]),
    "std": (reducers.STD, [F], [0.0], lambda x, d: np.sqrt(moments(x, d, 0)[0])),
    "var_mean": (reducers.VAR_MEAN, [F, F], [0.5], lambda x, d: moments(x, d, 0.5)),
    "std_mean": (
        reducers.STD_MEAN,
        [F, F],
        [2.0],
        lambda x, d: (np.sqrt(moments(x, d, 2)[0]), moments(x, d, 2)[1]),
    ),
    "logsumexp": (reducers.LOGSUMEXP, [F], [], logsumexp),
}
for order in (0.0, 1.0, 2.0, 3.0, 0.5, -1.5, np.inf, -np.inf):
    row, numbers = reducers.norm(order)

    def norm_of(x: np.ndarray, d: tuple[int, ...], order: float = order) -> np.ndarray:
        flat, shape = flattened(x, d)
        with np.errstate(divide="ignore"):
            return np.linalg.norm(flat.reshape(-1, flat.shape[-1]), order, -1).reshape(shape)

    REFERENCES[f"norm {order}"] = (row, [F], list(numbers), norm_of)

SIGNED = ("sum", "mean", "nansum", "nanmean", "var_mean", "std_mean")

#: Shape, reduced dimensions, layout of the input.
LAYOUTS = {
    "rows": ((5, 300), (1,), {}),
    "ragged rows": ((5, 37), (1,), {"lead": 1}),
    "block": ((2, 700), (1,), {}),
    "short rows": ((70, 3), (1,), {}),
    "columns": ((130, 12), (0,), {}),
    "odd columns": ((37, 9), (0,), {"lead": 1}),
    "packs": ((3, 4, 16), (0, 2), {}),
    "strided": ((3, 4, 5), (0, 2), {"order": [2, 1, 0], "gap": 1}),
    "everything": ((6, 7), (0, 1), {"order": [1, 0]}),
    "chunks": ((18_000,), (0,), {}),
    "column chunks": ((9000, 3), (0,), {}),
}
#: Enough where another reducer of the same state is tested in all of them; products overflow in the others.
FEW = ("ragged rows", "short rows", "odd columns", "packs", "strided", "everything")
STATES = {row.state: name for name, (row, *_) in reversed(REFERENCES.items())}
FIRST = ("sum", *STATES.values())


def check(
    device: drv.Device,
    name: str,
    array: np.ndarray,
    dims: tuple[int, ...],
    tolerance: float,
    **layout: Any,
) -> None:
    reducer, element_dtypes, scalars, reference = REFERENCES[name]
    exact = array if array.dtype.kind in "biuc" else array.astype(np.float64)
    with np.errstate(all="ignore"):
        expected = reference(exact, dims)
    if array.dtype.kind == "c":
        element_dtypes = [
            dtypes.complex128 if kind is F and name != "var" else kind for kind in element_dtypes
        ]
    results = reduced(device, reducer, array, dims, element_dtypes, scalars, **layout)
    for result, needed in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
        # Sums of numbers of both signs are near zero; their errors are not.
        near = float(np.abs(exact[np.isfinite(exact)]).max()) if name in SIGNED else 0
        np.testing.assert_allclose(result, needed, tolerance, tolerance * near, equal_nan=True)


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.sampled(4)
def test_every_reducer_in_every_layout(device: drv.Device, name: str) -> None:
    for title, (shape, dims, layout) in LAYOUTS.items():
        if title not in (LAYOUTS if name in FIRST and name != "prod" else FEW):
            continue
        array = normal(*shape, dtype=np.float64)
        array[np.abs(array) < 0.05] = 0.0
        if name == "prod":
            array = 1 + array / 8
        if name.startswith("norm -"):
            array = np.abs(array) + 0.5
        check(device, name, array, dims, 1e-11, **layout)


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.sampled(4)
def test_every_reducer_of_floats_with_nan_and_infinity(device: drv.Device, name: str) -> None:
    for special in ([], [np.nan], [np.inf], [-np.inf], [np.nan, np.inf], [np.inf, -np.inf], [np.nan, np.nan]):
        for shape, dims in (((3, 40), (1,)), ((40, 3), (0,)), ((7, 5), (0, 1))):
            if np.inf in np.abs(special) and REFERENCES[name][0].state == "Moments":
                continue  # the running mean is not a number after infinity, as in PyTorch
            array = normal(*shape) / 4 + 1
            flat = array.reshape(-1)
            flat[[11, 20][: len(special)]] = special
            check(device, name, array, dims, 1e-5)


@pytest.mark.parametrize(
    ("name", "kind"),
    thinned(
        product(REFERENCES, dtypes.ALL),
        lambda name, kind: name in ("sum", "max") or kind in (dtypes.uint8, dtypes.float16, dtypes.complex64),
        lambda name, kind: f"{name} {kind.name}",
    ),
)
@pytest.mark.sampled(6)
def test_every_type(device: drv.Device, name: str, kind: dtypes.dtype) -> None:
    reducer = REFERENCES[name][0]
    floating = reducer.state in ("Moments", "LogSumExp") or name.startswith(("norm", "nan"))
    if kind.is_complex and (reducer.ordered or name == "nanmean"):
        pytest.skip("complex numbers have no order")
    if floating and not (kind.is_floating_point or kind.is_complex):
        pytest.skip("of floating point numbers")
    layouts = (((5, 67), (1,)), ((19, 16), (0,)))
    if name not in FIRST and kind not in (dtypes.uint8, dtypes.float16):
        layouts = layouts[:1]
    for shape, dims in layouts:
        array = normal(*shape, dtype=np.float64) * 3 + (4 if name in ("norm -1.5", "norm -inf") else 0)
        if name == "prod":
            array = 1 + array / 30 if kind.is_floating_point or kind.is_complex else np.round(array) * 2 + 1
        if kind.is_complex:
            array = array + 1j * normal(*shape[::-1]).T
        if kind is dtypes.uint8:
            array = np.abs(array)
        array = array.astype(kind.numpy)
        if name == "prod" and array.dtype.kind in "biu":
            array = (array % 2 + 1).astype(kind.numpy)
        check(
            device, name, array, dims, 3e-12 if kind.itemsize >= 8 and kind is not dtypes.complex64 else 1e-5
        )


def test_sums_of_integers_wrap_around_in_64_bits(device: drv.Device) -> None:
    array = np.full((3, 50), 2**62, np.int64)
    (result,) = reduced(device, reducers.SUM, array, [1], [N])
    assert (result == array.sum(1, keepdims=True)).all()
    (result,) = reduced(device, reducers.SUM, np.full((2, 300), 200, np.uint8), [1], [N])
    assert (result == 60_000).all()
    (result,) = reduced(device, reducers.SUM, np.full((2, 300), 200, np.uint8), [1], [dtypes.uint8])
    assert (result == 60_000 % 256).all()


def test_elements_are_converted_first(device: drv.Device) -> None:
    array = np.full((4, 100), 1.75, np.float32)
    (result,) = reduced(device, reducers.SUM._replace(compute=N), array, [1], [N])
    assert (result == 100).all()
    many = np.full((1, 3000), 100, np.float16)
    (result,) = reduced(device, reducers.SUM._replace(compute=dtypes.float32), many, [1])
    assert (result == 300_000).all()
    ints = np.full((2, 10), 2**24 + 1, np.int32)
    (result,) = reduced(device, reducers.MEAN._replace(compute=F), ints, [1], [F])
    assert (result == 2**24 + 1).all()


@pytest.mark.parametrize("name", ["argmax", "argmin", "max", "min"])
@pytest.mark.sampled(4)
def test_the_first_of_equals_and_of_nans_wins(device: drv.Device, name: str) -> None:
    for shape, dims, layout in LAYOUTS.values():
        values = np.random.default_rng(1).integers(0, 3, shape).astype(np.float32)
        check(device, name, values, dims, 0, **layout)
        values[np.random.default_rng(2).random(shape) < 0.05] = np.nan
        check(device, name, values, dims, 0, **layout)
    for extreme in (np.inf, -np.inf):
        check(device, name, np.full((3, 50), extreme, np.float32), (1,), 0)
    check(device, name, np.full((3, 50), -128, np.int8), (1,), 0)
    check(device, name, np.full((3, 50), 127, np.int8), (1,), 0)


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.sampled(2)
def test_the_first_in_any_lane_that_shares_a_row(device: drv.Device, name: str) -> None:
    """Zeros are equal whatever their sign, and NaNs whatever their bits: the value is that of the first one."""
    for length in (2, 3, 7, 13, 40, 300):
        array = np.random.default_rng(length).choice(np.array([-0.0, 0.0], np.float32), (8, length))
        array[1::2] += np.float32(1 if name == "min" else -1)
        array[1::2, -1] = -0.0
        array[4:, length // 2 :: 3] = np.nan
        values, indices = reduced(device, REFERENCES[name][0], array, [1], [dtypes.float32, N])
        expected = (np.argmin if name == "min" else np.argmax)(array, 1, keepdims=True)
        np.testing.assert_array_equal(indices, expected)
        first = np.take_along_axis(array, expected, 1)
        np.testing.assert_array_equal(values.view(np.int32), first.view(np.int32))


@pytest.mark.parametrize("length", [2, 9, 30, 100, 1000, 1030])
def test_variances_of_lanes_with_different_counts(device: drv.Device, length: int) -> None:
    array = normal(3, length) * np.arange(1, length + 1, dtype=np.float32) + 100
    (result,) = reduced(device, reducers.VAR, array, [1], [F], [1.0])
    np.testing.assert_allclose(result, array.astype(np.float64).var(1, ddof=1, keepdims=True), rtol=1e-5)


def test_a_large_mean_costs_a_variance_no_digits(device: drv.Device) -> None:
    array = normal(2, 5000) + 4096
    for dims, order in (((1,), [0, 1]), ((1,), [1, 0])):
        check(device, "var_mean", array, dims, 2e-5, order=order)


def test_logsumexp_of_numbers_far_out(device: drv.Device) -> None:
    array = normal(3, 70) * 300
    check(device, "logsumexp", array, (1,), 1e-6)
    check(device, "logsumexp", np.full((2, 40), -np.inf, np.float32), (1,), 0)


@pytest.mark.parametrize("dims", [[1], [0, 1], [0, 1, 2]])
@pytest.mark.sampled(3)
def test_nothing_is_reduced(device: drv.Device, dims: list[int]) -> None:
    values = {"sum": 0, "prod": 1, "mean": np.nan, "nansum": 0, "nanmean": np.nan, "count_nonzero": 0}
    values |= {"any": False, "all": True, "var": np.nan, "var_mean": np.nan, "logsumexp": -np.inf}
    values |= {"norm 2.0": 0, "norm 0.0": 0}
    empty = np.zeros((4, 0, 3), np.float32)
    for name, value in values.items():
        reducer, kinds, scalars, _ = REFERENCES[name]
        for result in reduced(device, reducer, empty, dims, kinds, scalars):
            np.testing.assert_array_equal(result, np.full_like(result, value))
    for name in ("amax", "amin", "aminmax", "max", "argmin", "norm inf"):
        reducer, kinds, scalars, _ = REFERENCES[name]
        with pytest.raises(IndexError, match=r"Expected reduction dim 1 to have non-zero size"):
            reduced(device, reducer, empty, dims, kinds, scalars)


def test_no_rows(device: drv.Device) -> None:
    (result,) = reduced(device, reducers.AMAX, np.zeros((0, 4), np.float32), [1])
    assert result.shape == (0, 1)
