"""Reductions of inputs that are read by an index, against NumPy in double precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import drv
from drv.simulator.timing.machine_code.assembling import assemble, available
from nvrtc_kernels import indexing, reducers, reduction
from nvrtc_kernels.dtypes import float32, int64
from nvrtc_kernels.lookups import Lookup
from nvrtc_kernels.program import INCLUDE
from nvrtc_kernels.reduction import Form
from nvrtc_kernels.reduction_source import kernel_source
from nvrtc_kernels.reduction_work import collapsed, work_for

from .device_arrays import DeviceArray

if TYPE_CHECKING:
    from nvrtc_kernels.reducers import Reducer

_ROWS = 9
#: An index that is no row, for which the first one is read.
_IGNORED = -100


def _reducer(rows: int, columns: int, reach: int = 0) -> Reducer:
    """A sum of products with what the second input says of the first: rows of ``columns`` elements."""
    selection = indexing.along(((_ROWS, columns), (columns, 1), float32), 0, ((rows,), (1,), int64))
    lookup = Lookup(
        0,
        1,
        _ROWS,
        columns,
        reach or _ROWS * columns,
        True,
        indexing.bounds("read", selection),
        ignored=_IGNORED,
    )
    return reducers.SUM._replace(name="looked_up", code="a * c", lookups=(lookup,))


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize(
    ("rows", "columns", "reach", "lead"),
    [(5, 3, 1 << 31, 0), (40, 16, 0, 1), (300, 24, 0, 0), (1500, 1, 0, 0), (2901, 1, 0, 0)],
)
@pytest.mark.sampled(3)
def test_sums_of_rows_that_an_index_says(
    device: drv.Device, dims: tuple[int, ...], rows: int, columns: int, reach: int, lead: int
) -> None:
    """In packs and, where the table begins between them, in elements; with offsets of 32 and of 64 bits, and in large blocks."""
    random = np.random.default_rng(rows)
    table, factors = (random.standard_normal((size, columns)).astype(np.float32) for size in (_ROWS, rows))
    index = random.integers(-_ROWS, _ROWS, rows)
    index[1] = _IGNORED
    out = np.zeros([1 if dim in dims else size for dim, size in enumerate(factors.shape)], np.float32)
    arrays = [
        DeviceArray(device, each, lead=start)
        for each, start in ((out, 0), (table, lead), (index, 0), (factors, 0))
    ]
    inputs = [((0, 1), float32), ((1, 0), int64), ((columns, 1), float32)]
    reducer = _reducer(rows, columns, reach)
    plan = reduction.plan(device, reducer, factors.shape, dims, [arrays[0].operand], inputs)
    with drv.DeviceMemory(max(plan.scratch_bytes, 1), device) as scratch:
        plan.run(device.default_stream.handle, *(each.address for each in arrays), scratch=scratch.address)
        device.default_stream.synchronize()
    index[1] = 0
    expected = (table.astype(np.float64)[index] * factors).sum(dims, keepdims=True)
    np.testing.assert_allclose(arrays[0].numpy_array(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dims", [(0,), (1,)])
def test_packs_of_rows_are_loaded_by_one_index(dims: tuple[int, ...]) -> None:
    shape = 4096, 256
    reducer = _reducer(*shape)
    strides = [(0, 1), (1, 0), (256, 1)]
    rows = collapsed(shape, dims, [(1, 1)], strides, keep_order=False, lookups=reducer.lookups)
    work, _ = work_for(rows, [4, 8, 4])
    # Neighbouring threads read neighbours of a row of the table, though there are more indices than columns.
    assert (work.columns, work.width) == (dims == (0,), 4)
    form = Form.of(rows, work)
    variant = "columns" if work.columns else "rows"
    types = [float32, int64, float32]
    text = kernel_source(reducer, [float32], types, form.layout_type, variant, work, form.fold)
    program = drv.compile_program(
        text, "compute_90", name="a.cu", options=("-default-device",), include_dirs=(INCLUDE,)
    )
    ptx = bytes(program.image).decode()
    assert "ld.global.v4" in ptx or "ld.global.nc.v4" in ptx
    assert not available() or f"looked_up_{variant}" in assemble(program.image, (9, 0))
