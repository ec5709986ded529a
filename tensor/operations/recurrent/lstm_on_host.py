"""The steps of an LSTM without projection on the CPU, each a product of matrices and a native loop over its units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drv.host.blas import columns_at_once
from drv.host.blas import plan as plan_product
from nvrtc_kernels import host_loops
from nvrtc_kernels.host_loops import lstm as loops

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from .cells import Spans

    Array = NDArray[Any]


def _planned(
    plan: Callable[..., Callable[..., None] | None], spans: Spans, gates: Array, *arrays: Array | None
) -> dict[int, Callable[..., None]] | None:
    """By rows of a step, what computes it; ``None`` if there is no loop for one, or arrays do not lie as loops take them."""
    there = [gates, *(each for each in arrays if each is not None)]
    if any(each.dtype != gates.dtype or not each.flags.c_contiguous for each in there):
        return None
    hidden = gates.shape[1] // 4
    if not host_loops.worth(max((count for _, count in spans), default=0) * hidden, loops.FEW):
        return None
    result = {}
    for rows in {count for _, count in spans}:
        loop = plan(gates.dtype.itemsize == 8, rows, hidden)
        if loop is None:
            return None
        result[rows] = loop
    return result


def forward(
    gates: Array,
    states: Array,
    cells: Array,
    weight: Array,
    spans: Spans,
    out: Array,
    before: Array | None,
    cell_before: Array | None,
) -> bool:
    """Do all steps, in place of ``gates`` ``(rows, 4 * hidden)`` and of the running states; whether there are loops for that.

    ``weight`` is ``(hidden, 4 * hidden)``. States are written to ``out``, and with ``before`` and ``cell_before`` those from before
    each step are written there.
    """
    saved_states = [each for each in (cell_before, before) if each is not None]
    planned = _planned(
        lambda double, rows, hidden: loops.plan_forward(double, rows, hidden, bool(saved_states)),
        spans,
        gates,
        states,
        cells,
        out,
        *saved_states,
    )
    if planned is None:
        return False
    products = np.empty((max(planned, default=0), gates.shape[1]), gates.dtype)
    row, of_gates = states.strides[0], gates.strides[0]
    own, result = gates.ctypes.data, out.ctypes.data
    running = products.ctypes.data, cells.ctypes.data, states.ctypes.data
    saved = [each.ctypes.data for each in saved_states]
    width = gates.shape[1]
    if weight.flags.c_contiguous and weight.dtype == np.float32:
        width = columns_at_once(len(products), len(weight), width)
    columns = [
        (weight[:, at : at + width], products[:, at : at + width]) for at in range(0, gates.shape[1], width)
    ]
    direct = {count: _product(states[:count], weight, products) for count in planned}
    factor_at = weight.ctypes.data
    for first, count in spans:
        multiply = direct[count]
        if multiply is not None:
            multiply(running[2], factor_at, running[0])
        else:
            for factor, into in columns:
                np.matmul(states[:count], factor, out=into[:count])
        at = first * row
        planned[count](own + first * of_gates, *running, result + at, *[each + at for each in saved])
    return True


def backward(
    grad: Array | None,
    states: Array,
    cells: Array,
    gates: Array,
    cell_before: Array,
    weight: Array,
    spans: Spans,
    result: Array,
) -> bool:
    """Write the gradients of ``gates`` to ``result``, in place of the running gradients; whether there are loops for that.

    ``weight`` is ``(4 * hidden, hidden)``, and ``grad`` the gradient of the steps' results, if they have one.
    """
    planned = _planned(
        lambda double, rows, hidden: loops.plan_backward(double, rows, hidden, grad is not None),
        spans,
        gates,
        states,
        cells,
        cell_before,
        result,
        grad,
    )
    if planned is None:
        return False
    row, of_gates = states.strides[0], gates.strides[0]
    own, into, before = gates.ctypes.data, result.ctypes.data, cell_before.ctypes.data
    running = states.ctypes.data, cells.ctypes.data
    of_results = [] if grad is None else [grad.ctypes.data]
    direct = {count: _product(result[:count], weight, states) for count in planned}
    factor_at = weight.ctypes.data
    for first, count in reversed(spans):
        at, of_row = first * row, first * of_gates
        planned[count](
            own + of_row, before + at, *running, into + of_row, *[each + at for each in of_results]
        )
        multiply = direct[count]
        if multiply is not None:
            multiply(into + of_row, factor_at, running[0])
        else:
            np.matmul(result[first : first + count], weight, out=states[:count])
    return True


def _product(a: Array, b: Array, out: Array) -> Callable[..., None] | None:
    """``run(a, b, out)``, with addresses, for all matrices that lie as these; ``None`` where NumPy is as quick."""
    (rows, depth), columns, size = a.shape, b.shape[1], a.itemsize
    first, second = ((each.shape, [step // size for step in each.strides]) for each in (a, b))
    return plan_product(a.dtype, (rows, depth, columns), first, second, out.strides[0] // size)
