"""What is between two products of matrices in a step of an LSTM, on the CPU as a native loop: see ``cuda/recurrent.cuh``.

All gates of a unit are computed at once. Arrays are of float32, or of float64.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from nvrtc_kernels.dtypes import float32, float64
from nvrtc_kernels.plans import includes
from nvrtc_kernels.program import library_program

from .planning import plan
from .signature import ELEMENT, RELOCATABLE, Signature

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Units of a step from which on it is worth a loop: NumPy takes twenty calls.
FEW = 1 << 9
_GATES = ("in", "forget", "value", "show")


@functools.lru_cache(maxsize=256)
def plan_forward(double: bool, rows: int, hidden: int, keep: bool) -> Callable[..., None] | None:
    """What a step does to gates, given the product of the hidden state, for so many rows.

    Returns
    -------
    callable or None
        ``run(gates, products, cell, state, out, *before)``: addresses of ``(rows, 4 * hidden)`` and of ``(rows, hidden)``. The
        states are written in place; with ``keep`` the gates are activated, and the cell state and the state from before are
        written to ``before``.
    """
    names = [*(f"gate{k}" for k in range(4)), *(f"product{k}" for k in range(4)), "cell"]
    results = ["result.cell", "result.state", "result.state"]
    if keep:
        names.append("state")
        results = [*(f"result.{name}" for name in _GATES), *results, "cell", "state"]
    sums = [f"gate{k} + product{k}" for k in range(4)]
    code = f"const auto result = lstm_unit({', '.join(sums)}, cell);"
    places = [4 * hidden] * (4 if keep else 0) + [hidden] * (5 if keep else 3)
    loop = _plan(
        double, (rows, hidden), code, results, places, names, [4 * hidden] * 8 + [hidden] * (1 + keep)
    )
    if loop is None:
        return None
    step = hidden * (8 if double else 4)

    def run(gates: int, products: int, cell: int, state: int, out: int, *before: int) -> None:
        own = [gates + k * step for k in range(4)]
        further = [products + k * step for k in range(4)]
        if keep:
            loop(*own, cell, state, out, *before, *own, *further, cell, state)
        else:
            loop(cell, state, out, *own, *further, cell)

    return run


@functools.lru_cache(maxsize=256)
def plan_backward(double: bool, rows: int, hidden: int, has_grad: bool) -> Callable[..., None] | None:
    """What a step's gradient is, but for its product, for so many rows.

    Returns
    -------
    callable or None
        ``run(gates, cell_before, grad_state, grad_cell, grad_gates, *grad)``: addresses, the last one of the gradient of the
        step's result, if it has one. The gradient of the cell state is written in place.
    """
    names = [*_GATES, "before", "of_state", "of_cell", *(["of_result"] if has_grad else [])]
    of_state = "of_state + of_result" if has_grad else "of_state"
    code = f"const auto result = lstm_unit_gradient({', '.join(_GATES)}, before, {of_state}, of_cell);"
    results = [*(f"result.{name}" for name in _GATES), "result.cell"]
    inputs = [4 * hidden] * 4 + [hidden] * (3 + has_grad)
    loop = _plan(double, (rows, hidden), code, results, [4 * hidden] * 4 + [hidden], names, inputs)
    if loop is None:
        return None
    step = hidden * (8 if double else 4)

    def run(
        gates: int, cell_before: int, grad_state: int, grad_cell: int, grad_gates: int, *grad: int
    ) -> None:
        results = [grad_gates + k * step for k in range(4)]
        loop(
            *results,
            grad_cell,
            *(gates + k * step for k in range(4)),
            cell_before,
            grad_state,
            grad_cell,
            *grad,
        )

    return run


def _plan(
    double: bool,
    shape: tuple[int, int],
    code: str,
    results: Sequence[str],
    result_rows: Sequence[int],
    names: Sequence[str],
    input_rows: Sequence[int],
) -> Callable[..., None] | None:
    """The loop of ``results`` after ``code`` of the operands ``names``; elements from a row of each to the next are given."""
    dtype = float64 if double else float32
    members = "".join(f" {dtype.cuda} item{k};" for k in range(len(results)))
    arguments = ", ".join(f"{dtype.cuda} {name}" for name in names)
    text = f"""{includes("recurrent.cuh")}
struct Results {{{members} }};

extern "C" __device__ Results {ELEMENT}({arguments}) {{
    {code}
    return {{{", ".join(results)}}};
}}
"""
    signature = Signature(
        tuple((dtype.itemsize * number, dtype) for number in range(len(results))), (dtype,) * len(names)
    )
    strides = [(row, 1) for row in (*result_rows, *input_rows)]
    return plan(library_program(text, "lstm.cu", *RELOCATABLE), signature, shape, strides, 1)
