"""Steps of recurrent layers, but for their products of matrices: see ``cuda/recurrent.cuh``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .plans import includes, launcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv import Device

    from .dtypes import dtype

#: Cells, and how many gates a unit of each has. A projection is what follows an ``lstm`` whose states are products.
GATES = {"rnn_tanh": 1, "rnn_relu": 1, "lstm": 4, "gru": 3, "projection": 1}

_THREADS = 128
_MAX_GRID = (1 << 31) - 1
#: Bytes of the widest load.
_LOAD_BYTES = 16
#: Units of a step below which a thread for each hides latency better than fewer threads with wide loads.
_FEW = 1 << 15

#: Operands of each step by their names in ``cuda/recurrent.cuh``; those with ``=`` are only read.
FORWARD_OPERANDS = {
    "rnn": "gates state out before",
    "lstm": "gates cell state out cell_before before",
    "gru": "gates =recurrent =bias state out before candidate",
    "projection": "=out state before",
}
BACKWARD_OPERANDS = {
    "rnn": "=grad grad_state =gates grad_gates",
    "lstm": "=grad =grad_state grad_cell =gates =cell_before grad_gates",
    "gru": "=grad grad_state =gates =candidate =before grad_gates grad_recurrent",
    "projection": "=grad =grad_state grad_out",
}


def plan(
    device: Device, cell: str, dtype: dtype, hidden: int, batch: int, *, keep: bool, projected: bool = False
) -> Callable[..., None]:
    """What makes the new state from the gates, for contiguous arrays at multiples of 16 bytes.

    Parameters
    ----------
    cell
        One of :data:`GATES`.
    hidden, batch
        Units of a row, and rows that a step has at most.
    keep
        Whether what the derivative needs is left in the gates and in the last two operands (of an ``rnn`` the last
        one); without it these may be 0.
    projected
        Whether the hidden state of an ``lstm`` is a product that follows; then it has no ``state`` and no ``before``.

    Returns
    -------
    callable
        ``run(stream_handle, rows, *addresses)``: gates, state, out, before of an ``rnn``; gates, cell, state, out,
        cell_before, before of an ``lstm``; gates, recurrent, bias, state, out, before, candidate of a ``gru``; out,
        state, before of a ``projection``.
    """
    family = cell.partition("_")[0]
    flags = [keep]
    if family == "lstm":
        flags.append(projected)
    elif family == "rnn":
        flags.append(cell == "rnn_relu")
    return _step(
        device, f"{family}_forward", flags, FORWARD_OPERANDS[family], dtype, hidden, batch, GATES[cell]
    )


def plan_backward(
    device: Device, cell: str, dtype: dtype, hidden: int, batch: int, *, projected: bool = False
) -> Callable[..., None]:
    """What makes the gradient of the gates from those of a step's result and of the states after it.

    Returns
    -------
    callable
        ``run(stream_handle, rows, *addresses)``: grad (may be 0), grad_state, gates, grad_gates of an ``rnn``; grad,
        grad_state, grad_cell, gates, cell_before, grad_gates of an ``lstm``; grad, grad_state, gates, candidate,
        before, grad_gates, grad_recurrent of a ``gru``; grad (may be 0), grad_state, and their sum, of a
        ``projection``. The cell's gradient becomes that before the step; so does the
        state's of a ``gru``, but for the part that comes through the gates.
    """
    family = cell.partition("_")[0]
    flags = [projected] if family == "lstm" else [cell == "rnn_relu"] if family == "rnn" else []
    return _step(
        device, f"{family}_backward", flags, BACKWARD_OPERANDS[family], dtype, hidden, batch, GATES[cell]
    )


def _step(
    device: Device,
    name: str,
    flags: list[bool],
    operands: str,
    dtype: dtype,
    hidden: int,
    batch: int,
    gates: int,
) -> Callable[..., None]:
    width = 1
    if hidden * batch >= _FEW:
        width = max(_LOAD_BYTES // dtype.itemsize, 1)
        while hidden % width:
            width //= 2
    names = operands.split()
    parameters = ", ".join(
        f"const {dtype.cuda}* {each[1:]}" if each[0] == "=" else f"{dtype.cuda}* {each}" for each in names
    )
    passed = ", ".join(each.removeprefix("=") for each in names)
    # Twice the span: a thread's last step may go past the end before it stops.
    small = 2 * hidden * batch * gates < 1 << 31
    index, code = ("unsigned int", "I") if small else ("long long", "q")
    template = ", ".join([str(width), *["true" if flag else "false" for flag in flags]])
    source = (
        f"{includes('recurrent.cuh')}"
        f'extern "C" __global__ void {name}_step({index} rows, {index} hidden, {parameters}) {{\n'
        f"    {name}<{template}>(AllUnits{{}}, rows, hidden, {passed});\n}}\n"
    )
    launch = launcher(device, "recurrent.cu", source, f"{name}_step", code * 2 + "P" * len(names))
    per_block = _THREADS * width

    def run(stream: Any, rows: int, *addresses: int) -> None:
        grid = min(-(-rows * hidden // per_block), _MAX_GRID)
        launch(grid, 1, 1, _THREADS, 1, 1, 0, stream, rows, hidden, *addresses)

    return run
