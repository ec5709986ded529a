"""Sums of outer products of many pairs in one launch, against NumPy in double precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drv
from nvrtc_kernels.dtypes import bfloat16, dtype, float16, float32
from nvrtc_kernels.outer_sums import CAPACITY, OuterSum, pays, plan, takes

from .device_arrays import DeviceArray

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROUNDING = {float16: 2**-11, bfloat16: 2**-8, float32: 1e-5}
_PRODUCTS = st.builds(
    OuterSum, st.integers(1, 20), st.integers(1, 20), st.integers(1, 70), st.booleans()
) | st.builds(OuterSum, st.just(136), st.just(264), st.integers(1, 9), st.booleans())


def _assert_right(element: dtype, result: dtype, products: Sequence[OuterSum]) -> None:
    device, rng = drv.Device(0), np.random.default_rng(len(products))
    arrays, addresses, checks = [], [], []
    for product in products:
        grad, rows = (
            rng.standard_normal((product.count, width)).astype(element.numpy)
            for width in (product.outputs, product.inputs)
        )
        shapes = [(product.outputs, product.inputs), *[(product.outputs,)] * product.sums]
        outs = [DeviceArray(device, np.full(shape, np.nan, result.numpy)) for shape in shapes]
        operands = [DeviceArray(device, grad), DeviceArray(device, rows)]
        arrays += [*outs, *operands]
        addresses += [each.address for each in (*outs, *operands)]
        exact, sums = grad.astype(np.float64).T @ rows.astype(np.float64), grad.astype(np.float64).sum(0)
        checks += list(zip(outs, (exact, sums)[: 1 + product.sums], strict=True))
    plan(device, element, result, products)(device.default_stream.handle, *addresses)
    for out, expected in checks:
        tolerance = _ROUNDING[result]
        np.testing.assert_allclose(
            out.numpy_array().astype(np.float64),
            expected,
            rtol=tolerance,
            atol=1e-4 * np.abs(expected).max() + 1e-6,
        )


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize(("element", "result"), [(bfloat16, float32), (float16, float16)])
def test_products_of_many_sizes(element: dtype, result: dtype, schedule: str) -> None:
    products = [
        OuterSum(40, 24, 70, True), OuterSum(136, 200, 33, False), OuterSum(8, 8, 5, True), OuterSum(8, 264, 128, True)
    ]  # fmt: skip
    with drv.simulator.installed(check="full", schedule=schedule, seed=3):
        _assert_right(element, result, products)
        _assert_right(element, result, [OuterSum(7, 3, 45, True), OuterSum(16, 16, 1, True)])
        assert not list(drv.simulator.findings())


_any = given(
    st.lists(_PRODUCTS, min_size=1, max_size=6), st.sampled_from([(bfloat16, bfloat16), (float16, float32)])
)


def _assert_right_on_any_schedule(products: list[OuterSum], dtypes: tuple[dtype, dtype]) -> None:
    with drv.simulator.installed(check="full", schedule="random"):
        _assert_right(*dtypes, products)
        assert not list(drv.simulator.findings())


@settings(max_examples=20)
@_any
def test_any_products(products: list[OuterSum], dtypes: tuple[dtype, dtype]) -> None:
    _assert_right_on_any_schedule(products, dtypes)


@pytest.mark.nightly
@_any
def test_many_products(products: list[OuterSum], dtypes: tuple[dtype, dtype]) -> None:
    _assert_right_on_any_schedule(products, dtypes)


def test_as_many_as_a_table_has() -> None:
    with drv.simulator.installed(check="full"):
        _assert_right(bfloat16, float32, [OuterSum(8, 8, 3, True)] * CAPACITY)


def test_what_is_better_done_together() -> None:
    with drv.simulator.installed(model="h200"):
        device = drv.Device(0)
        small, large = OuterSum(384, 1536, 512, True), OuterSum(1024, 1024, 4096, True)
        assert takes(device, bfloat16, float32, small) and not takes(device, float32, float32, small)
        assert not takes(device, bfloat16, float32, OuterSum(8192, 8192, 512, True))
        # Those of one layer are as fast through cuBLAS as their blocks, few of which are busy, are together.
        layer = [
            OuterSum(384, 1536, 512, True),
            OuterSum(1536, 384, 512, True),
            OuterSum(384, 384, 512, True),
        ]
        assert not pays(device, layer) and pays(device, layer * 3)
        assert not pays(device, [large] * 4)
