"""Steps of optimizers over many tensors at once: see ``cuda/optimizer_steps.cuh``."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .plans import includes, launcher

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .dtypes import dtype

_THREADS = 256
#: Packs of every operand that a thread of a full chunk works on.
_PACKS = 4
#: Bytes of a table: with the other arguments it stays under the 4 KiB that every device takes.
_TABLE_BYTES = 3840
_MAX_GRID = (1 << 31) - 1
#: Half precision is computed with in single precision.
_WIDE = {"__half": "float", "__nv_bfloat16": "float"}


@dataclass(frozen=True, slots=True)
class Step:
    """What is done to an element of each tensor.

    Attributes
    ----------
    name : str
        Of the kernel.
    functor : str
        Type of the functor in ``cuda/optimizer_steps.cuh``; ``{W}`` is the type that is computed in.
    operands : int
        Tensors that an element has one of each: the parameter, its gradient, states.
    numbers : int
        Members of the functor that are given at the launch, before the addresses.
    addresses : int
        Members that are addresses.
    """

    name: str
    functor: str
    operands: int
    numbers: int
    addresses: int = 0

    @property
    def capacity(self) -> int:
        """Tensors that one launch updates."""
        return _TABLE_BYTES // (8 * self.operands + 12)


def plan(device: Device, step: Step, kind: dtype) -> Callable[..., None]:
    """What does ``step`` to tensors of one type.

    Returns
    -------
    callable
        ``run(stream_handle, addresses, counts, *numbers)``: ``addresses`` are those of the tensors' operands, one
        tensor after the other; ``counts`` are the tensors' elements, which lie without gaps. One launch serves
        ``step.capacity`` tensors.
    """
    operands, capacity = step.operands, step.capacity
    width = 16 // kind.itemsize
    chunk = _THREADS * _PACKS * width
    launch = _kernel(device, step, kind, chunk, width)
    table = struct.Struct(f"={capacity * operands}Q{capacity}q{capacity}I")
    row = (0,) * operands

    def run(stream: Any, addresses: Sequence[int], counts: Sequence[int], *numbers: Any) -> None:
        for begin in range(0, len(counts), capacity):
            sizes = counts[begin : begin + capacity]
            missing = capacity - len(sizes)
            first, grid = [], 0
            for size in sizes:
                first.append(grid)
                grid += -(-size // chunk)
            if grid > _MAX_GRID:
                raise ValueError(f"{sum(sizes)} elements are more than one launch can update")
            if not grid:
                continue
            packed = table.pack(
                *addresses[begin * operands : (begin + capacity) * operands],
                *row * missing,
                *sizes,
                *(0,) * missing,
                *first,
                *(0,) * missing,
            )
            launch(grid, 1, 1, _THREADS, 1, 1, 0, stream, packed, len(sizes), *numbers)

    return run


def _kernel(device: Device, step: Step, kind: dtype, chunk: int, width: int) -> Callable[..., None]:
    wide = _WIDE.get(kind.cuda, kind.cuda)
    functor = step.functor.format(W=wide)
    table = f"Table<{step.operands}, {step.capacity}>"
    numbers = [f"n{i}" for i in range(step.numbers)]
    addresses = [f"a{i}" for i in range(step.addresses)]
    parameters = [f"const __grid_constant__ {table} table", "unsigned int tensors"]
    parameters += [f"double {name}" for name in numbers] + [f"float* {name}" for name in addresses]
    members = ", ".join([f"static_cast<{wide}>({name})" for name in numbers] + addresses)
    source = (
        f"{includes('optimizer_steps.cuh', kind)}"
        f'extern "C" __global__ void {step.name}({", ".join(parameters)}) {{\n'
        f"    step_tensors<{kind.cuda}, {chunk}, {width}>({functor}{{{members}}}, table, tensors);\n}}\n"
    )
    # Tables are aligned to 8 bytes, and a multiple of that long.
    size = -(-step.capacity * (8 * step.operands + 12) // 8) * 8
    codes = (size, "I", *"d" * step.numbers, *"P" * step.addresses)
    return launcher(device, "optimizer_steps.cu", source, step.name, codes)
