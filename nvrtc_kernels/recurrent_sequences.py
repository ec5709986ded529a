"""Many steps of a recurrent layer in one launch, products and all: see ``cuda/recurrent_sequences.cuh``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .plans import includes, launcher
from .recurrent import BACKWARD_OPERANDS, FORWARD_OPERANDS, GATES

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv import Device

    from .dtypes import dtype

#: As in ``cuda/recurrent_sequences.cuh``.
_WARPS, _LANE_ROWS, _LANE_UNITS, _PIECE, _PACK_BYTES = 8, 8, 4, 8, 16
_THREADS = 32 * _WARPS
#: A sum of half precision is a float.
_SUM_BYTES = 4
#: Groups of units that a lane may have, and rows.
_GROUPS = _ROWS = (1, 2, 4)
#: Columns that a lane may have: their sums, and those of the rows, are in registers.
_MAX_COLUMNS = 8
#: Multiply-adds of a block in a step from which products by cuBLAS, which has all of the device for each, and two
#: launches a step take less time.
_MOST_WORK = 400_000
#: A counter of blocks that have arrived, in bytes.
_COUNTER_BYTES = 4
_MOST_ARRIVALS = (1 << 32) - 1
#: Operands whose rows are the same for all steps; of the others each step has rows of its own.
_RUNNING = {"state", "cell", "recurrent", "grad_state", "grad_cell"}
#: What products are written to, also where a step only reads it.
_PRODUCTS = {"recurrent", "grad_state"}
#: Operands that have rows of all gates; of the others rows have an element for each unit.
_OF_GATES = {"gates", "recurrent", "grad_gates", "grad_recurrent"}


class Sequence(NamedTuple):
    """What runs many steps.

    Attributes
    ----------
    run : callable
        ``run(stream_handle, counter_address, steps, rows, stride, weight_address, *addresses)``. Each step has ``rows``
        rows, and those of the next begin ``stride`` rows on. Addresses are those of the first step, as the plan of a
        step has them, and of :data:`counter_bytes` that are written. Backward in time there is ``needed`` after
        ``stride``: whether the gradient of the state before all steps is wanted.
    most_steps : int
        How many steps a launch may have.
    counter_bytes : int
        Bytes of scratch memory.
    """

    run: Callable[..., None]
    most_steps: int
    counter_bytes: int


def plan(device: Device, cell: str, dtype: dtype, hidden: int, batch: int, *, keep: bool) -> Sequence | None:
    """What :func:`.recurrent.plan` plans, for many steps; ``None`` where they do not fit, or take longer so.

    Parameters
    ----------
    cell
        ``"rnn_tanh"``, ``"rnn_relu"``, ``"lstm"`` or ``"gru"``, whose hidden state is not projected.
    hidden, batch
        Units of a row, and rows that a step has at most.
    keep
        Whether what the derivative needs is left.
    """
    shape = _shape(device, dtype, hidden, batch, row=hidden, columns=GATES[cell])
    flags = {"lstm": (keep, False), "gru": (keep,)}.get(cell, (keep, cell == "rnn_relu"))
    return None if shape is None else _sequence(device, cell, dtype, hidden, shape, flags, backward=False)


def plan_backward(device: Device, cell: str, dtype: dtype, hidden: int, batch: int) -> Sequence | None:
    """What :func:`.recurrent.plan_backward` plans, for many steps; ``None`` as for :func:`plan`."""
    shape = _shape(device, dtype, hidden, batch, row=hidden * GATES[cell], columns=1)
    flags = {"lstm": (False,), "gru": ()}.get(cell, (cell == "rnn_relu",))
    return None if shape is None else _sequence(device, cell, dtype, hidden, shape, flags, backward=True)


class _Shape(NamedTuple):
    """How steps are shared out.

    Attributes
    ----------
    rows, groups : int
        Rows, and groups of units, of a lane.
    blocks, parts : int
        Parts of the units, and of the batch; a block each.
    rows_each : int
        Rows of a part.
    shared : int
        Shared memory of a block, in bytes.
    """

    rows: int
    groups: int
    blocks: int
    parts: int
    rows_each: int
    shared: int


def _shape(device: Device, dtype: dtype, hidden: int, batch: int, *, row: int, columns: int) -> _Shape | None:
    """The one with the most blocks that are all there at the same time.

    ``row`` are the elements of a row that is multiplied, ``columns`` those of the product for a unit.
    """
    if not batch or row * dtype.itemsize % _PACK_BYTES or not device.attribute("COOPERATIVE_LAUNCH"):
        return None
    properties = device.properties
    # As each block fits on a multiprocessor, so many run at the same time.
    most = properties.multi_processor_count
    groups = next(
        (each for each in _GROUPS if each * columns > 1 and hidden <= most * _LANE_UNITS * each),
        _GROUPS[-1],
    )
    width = _LANE_UNITS * groups
    blocks = -(-hidden // width)
    if blocks > most or groups * columns > _MAX_COLUMNS:
        return None
    rows = next((each for each in _ROWS if batch <= most // blocks * each * _LANE_ROWS), _ROWS[-1])
    tile = rows * _LANE_ROWS
    rows_each = -(-batch // (most // blocks * tile)) * tile
    pieces = _WARPS * tile * (_PIECE + 1) * _PACK_BYTES
    weights = width * columns * (row * dtype.itemsize // _PACK_BYTES | 1) * _PACK_BYTES
    shared = weights + pieces + _WARPS * tile * width * columns * max(dtype.itemsize, _SUM_BYTES)
    if shared > properties.shared_memory_per_block_optin or rows_each * width * columns * row > _MOST_WORK:
        return None
    return _Shape(rows, groups, blocks, -(-batch // rows_each), rows_each, shared)


def _sequence(
    device: Device,
    cell: str,
    dtype: dtype,
    hidden: int,
    shape: _Shape,
    flags: tuple[bool, ...],
    *,
    backward: bool,
) -> Sequence:
    """``flags`` are what a step's function is a template of behind its width."""
    gates, family = GATES[cell], cell.partition("_")[0]
    direction, operands = ("backward", BACKWARD_OPERANDS) if backward else ("forward", FORWARD_OPERANDS)
    name, names = f"{family}_{direction}", operands[family].split()
    bare = [each.removeprefix("=") for each in names]
    # The part of a GRU's gates that comes from the hidden state stays apart.
    recurs = family == "gru"
    if backward:
        passed = "grad_recurrent, grad_state" if recurs else "grad_gates, grad_state"
    else:
        passed = "recurrent, state, out" if recurs else "gates, state, out"
    adds = recurs == backward
    function = f"{direction}_sequence<{shape.rows}, {shape.groups}, {gates}, {_flag(adds)}>"
    parameters = [
        "int hidden",
        "int rows_each",
        "int steps",
        "int rows",
        "int stride",
        *(["bool needed"] if backward else []),
        "unsigned int* arrived",
        f"const {dtype.cuda}* weight",
        *(
            f"{'const ' * (each[0] == '=' and each[1:] not in _PRODUCTS)}{dtype.cuda}* {each.removeprefix('=')}"
            for each in names
        ),
    ]
    at_step = ", ".join(_of_step(each, gates if each in _OF_GATES else 1) for each in bare)
    template = ", ".join(["1", *map(_flag, flags)])
    source = (
        f"{includes('recurrent.cuh')}"
        '#include "recurrent_sequences.cuh"\n\n'
        f'extern "C" __global__ void __launch_bounds__({_THREADS}, 1) {name}_sequence({", ".join(parameters)}) {{\n'
        f"    {function}(\n"
        f"        steps, rows, hidden, stride, rows_each, {'needed, ' if backward else ''}arrived, weight, {passed},\n"
        "        [=](OwnUnits<int> own, int some, int top, long long at) {\n"
        f"            {name}<{template}>(own, some, hidden, {at_step});\n"
        "        });\n}\n"
    )
    codes = "iiiii" + "?" * backward + "PP" + "P" * len(names)
    launch = launcher(
        device, "recurrent_sequences.cu", source, f"{name}_sequence", codes, shape.shared, cooperative=True
    )
    blocks, parts, rows_each, shared, runtime = *shape[2:], device.runtime
    clear = runtime.driver.cuMemsetD32Async

    def run(stream: Any, counters: int, steps: int, rows: int, *others: Any) -> None:
        head, addresses = others[: 1 + backward], others[1 + backward :]
        device.use()
        runtime.check(clear(counters, 0, parts, stream), "cuMemsetD32Async", f"{parts} counters")
        launch(
            blocks, parts, 1, _THREADS, 1, 1, shared, stream,
            hidden, rows_each, steps, rows, *head, counters, *addresses,
        )  # fmt: skip

    return Sequence(run, _MOST_ARRIVALS // blocks - 1, parts * _COUNTER_BYTES)


def _of_step(operand: str, width: int) -> str:
    """A block's rows of an operand, ``width`` states wide: from ``top`` on, or from ``at`` on in rows of all steps."""
    if operand == "bias":
        return operand
    moved = f"{operand} + {'top' if operand in _RUNNING else 'at'} * {width} * hidden"
    # A null pointer says that there is none.
    return f"grad ? {moved} : nullptr" if operand == "grad" else moved


def _flag(value: bool) -> str:
    return "true" if value else "false"
