"""Steps of optimizers over many tensors at once: see ``cuda/optimizer_steps.cuh``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .plans import includes, launcher
from .tensor_tables import Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .dtypes import dtype

_THREADS = 256
#: Packs of every operand that a thread of a full chunk works on.
_PACKS = 4
#: Half precision is computed with in single precision.
_COMPUTE_TYPES = {"__half": "float", "__nv_bfloat16": "float"}


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


def plan(device: Device, step: Step, dtype: dtype) -> Callable[..., None]:
    """What does ``step`` to tensors of one type.

    Returns
    -------
    callable
        ``run(stream_handle, addresses, counts, *numbers)``: ``addresses`` are those of the tensors' operands, one
        tensor after the other; ``counts`` are the tensors' elements, which lie without gaps.
    """
    width = 16 // dtype.itemsize
    chunk = _THREADS * _PACKS * width
    tables = Tables(step.operands, chunk)
    launch = _kernel(device, step, dtype, tables, f"{chunk}, {width}")

    def run(stream: Any, addresses: Sequence[int], counts: Sequence[int], *numbers: Any) -> None:
        for grid, table, tensors in tables.launches(addresses, counts):
            launch(grid, 1, 1, _THREADS, 1, 1, 0, stream, table, tensors, *numbers)

    return run


def _kernel(device: Device, step: Step, dtype: dtype, tables: Tables, shape: str) -> Callable[..., None]:
    compute_type = _COMPUTE_TYPES.get(dtype.cuda, dtype.cuda)
    functor = step.functor.format(W=compute_type)
    numbers = [f"n{i}" for i in range(step.numbers)]
    addresses = [f"a{i}" for i in range(step.addresses)]
    parameters = [
        tables.parameters,
        *(f"double {name}" for name in numbers),
        *(f"float* {name}" for name in addresses),
    ]
    members = ", ".join([f"static_cast<{compute_type}>({name})" for name in numbers] + addresses)
    source = (
        f"{includes('optimizer_steps.cuh', dtype)}"
        f'extern "C" __global__ void {step.name}({", ".join(parameters)}) {{\n'
        f"    step_tensors<{dtype.cuda}, {shape}>({functor}{{{members}}}, table, tensors);\n}}\n"
    )
    codes = (*tables.codes, *"d" * step.numbers, *"P" * step.addresses)
    return launcher(device, "optimizer_steps.cu", source, step.name, codes)
