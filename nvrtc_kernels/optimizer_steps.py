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
        Type of the functor; ``{W}`` is the type that is computed in.
    operands : int
        Tensors that an element has one of each: the parameter, its gradient, states.
    numbers : int
        Members of the functor that are given at the launch, before the addresses.
    addresses : int
        Members that are addresses.
    definition : str
        CUDA C++ of the functor, such as :func:`functor_of` makes, if it is not in ``cuda/optimizer_steps.cuh``.
    """

    name: str
    functor: str
    operands: int
    numbers: int
    addresses: int = 0
    definition: str = ""


def functor_of(name: str, operands: Sequence[str], numbers: Sequence[str], body: str) -> str:
    """CUDA C++ of a functor ``name`` whose statements refer to an element's operands and to numbers by name.

    The operands are the parameter, its gradient, which is read only, and states. Statements may use what
    ``cuda/optimizer_steps.cuh`` offers: ``decayed``, ``square_root``, ``magnitude``, ``greater``, and the type ``W``
    that is computed in.
    """
    parameter, gradient, *states = operands
    references = [
        f"W& {parameter} = x[0];",
        f"const W {gradient} = x[1];",
        *(f"W& {state} = x[{number}];" for number, state in enumerate(states, 2)),
    ]
    statements = [line.strip() for line in body.strip().splitlines()]
    lines = "\n".join(f"        {line}" for line in (*references, *statements))
    return (
        f"template <class W>\nstruct {name} {{\n    static constexpr int read_only = 1;\n    W {', '.join(numbers)};\n"
        f"    __device__ void operator()(W (&x)[{len(operands)}]) const {{\n{lines}\n    }}\n}};\n\n"
    )


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
        f"{includes('optimizer_steps.cuh', dtype)}{step.definition}"
        f'extern "C" __global__ void {step.name}({", ".join(parameters)}) {{\n'
        f"    step_tensors<{dtype.cuda}, {shape}>({functor}{{{members}}}, table, tensors);\n}}\n"
    )
    codes = (*tables.codes, *"d" * step.numbers, *"P" * step.addresses)
    return launcher(device, "optimizer_steps.cu", source, step.name, codes)
