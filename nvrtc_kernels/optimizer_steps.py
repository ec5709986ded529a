"""Steps of optimizers over many tensors at once: see ``cuda/optimizer_steps.cuh``."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from . import host_loops
from .plans import includes, launcher
from .program import library_program
from .tensor_tables import Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .dtypes import dtype

_THREADS = 256
#: Packs of every operand that a thread of a full chunk works on.
_PACKS = 4
#: Half precision is computed with in single precision.
_COMPUTE_TYPES = {"Half": "float", "BFloat16": "float"}


class Step(NamedTuple):
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
    return _plan(device, step, dtype, None)


def plan_with_casts(device: Device, step: Step, dtype: dtype, cast: dtype) -> Callable[..., None]:
    """What does ``step`` to tensors of one type, and writes the parameters as ``cast``, too.

    Returns
    -------
    callable
        As :func:`plan`; the addresses of each tensor's operands are followed by that of the parameter as ``cast``, or 0 where
        it is not to be written.
    """
    return _plan(device, step, dtype, cast)


def _plan(device: Device, step: Step, dtype: dtype, cast: dtype | None) -> Callable[..., None]:
    width = 16 // dtype.itemsize
    chunk = _THREADS * _PACKS * width
    tables = Tables(step.operands + (cast is not None), chunk)
    launch = _kernel(device, step, dtype, tables, f"{chunk}, {width}", cast)

    def run(stream: Any, addresses: Sequence[int], counts: Sequence[int], *numbers: Any) -> None:
        for grid, table, tensors in tables.launches(addresses, counts):
            launch(grid, 1, 1, _THREADS, 1, 1, 0, stream, table, tensors, *numbers)

    return run


@functools.cache
def plan_on_host(step: Step, dtype: dtype) -> Callable[..., None] | None:
    """What does ``step`` to contiguous elements of a tensor on the CPU, as a native loop.

    The step has no addresses among its numbers, and its gradient is read only.

    Returns
    -------
    callable or None
        ``run(count, *written_addresses, *addresses, *numbers)``: the written ones are those of all operands but the gradient.
        ``None`` where there is no such loop.
    """
    if host_loops.mode() == "off" or dtype.is_storage_only or not dtype.is_floating_point:
        return None
    compute_type = _COMPUTE_TYPES.get(dtype.cuda, dtype.cuda)
    numbers, operands = [f"n{i}" for i in range(step.numbers)], range(step.operands)
    written = [k for k in operands if k != 1]
    parameters = [*(f"{dtype.cuda} x{k}" for k in operands), *(f"double {name}" for name in numbers)]
    members = ", ".join(f"static_cast<{compute_type}>({name})" for name in numbers)
    text = (
        f"{includes('optimizer_steps.cuh')}{step.definition}"
        f"struct Written {{\n    {dtype.cuda} item[{len(written)}];\n}};\n\n"
        f'extern "C" __device__ Written {host_loops.ELEMENT}({", ".join(parameters)}) {{\n'
        f"    {compute_type} x[{step.operands}] = {{{', '.join(f'to_compute(x{k})' for k in operands)}}};\n"
        f"    {step.functor.format(W=compute_type)}{{{members}}}(x);\n"
        f"    return {{{{{', '.join(f'to_element<{dtype.cuda}>(x[{k}])' for k in written)}}}}};\n}}\n"
    )
    program = library_program(text, "optimizer_steps.cu", *host_loops.RELOCATABLE)
    results = tuple((number * dtype.itemsize, dtype) for number in range(len(written)))
    signature = host_loops.Signature(results, (dtype,) * step.operands, ("d",) * step.numbers)
    return host_loops.flat(program, signature)


#: Types of what a kernel reads a number from.
_SCALAR_TYPES = {"float32": "float", "float64": "double"}


class Formulas(NamedTuple):
    """How a kernel computes the numbers of a step: a key of plans.

    Attributes
    ----------
    numbers : tuple of str
        CUDA C++ of each, in double precision, of what the other attributes count: constants ``c0``, ``c1``, ...; numbers of
        each tensor ``s0``, ...; numbers of all ``g0``, ....
    constants : int
        How many are passed.
    scalars, shared : tuple of str
        Dtypes of the numbers of each tensor, and of all.
    """

    numbers: tuple[str, ...]
    constants: int
    scalars: tuple[str, ...]
    shared: tuple[str, ...]


def plan_on_device(device: Device, step: Step, dtype: dtype, formulas: Formulas) -> Callable[..., None]:
    """What does ``step`` to tensors of one type, by numbers that are on the device.

    Returns
    -------
    callable
        ``run(stream_handle, addresses, counts, skip, constants, shared, extra)``: ``addresses`` are those of each tensor's
        operands and then of its numbers; ``skip`` that of a float that is not 0 where nothing is to be done, or 0;
        ``shared`` those of the numbers of all, and ``extra`` the step's own.
    """
    width = 16 // dtype.itemsize
    chunk = _THREADS * _PACKS * width
    operands = step.operands
    tables = Tables(operands + len(formulas.scalars), chunk)
    compute_type = _COMPUTE_TYPES.get(dtype.cuda, dtype.cuda)
    constants = [f"c{i}" for i in range(formulas.constants)]
    shared = [f"p{i}" for i in range(len(formulas.shared))]
    extra = [f"a{i}" for i in range(step.addresses)]
    parameters = [
        tables.parameters,
        "const float* skip",
        *(f"double {name}" for name in constants),
        *(f"const {_SCALAR_TYPES[each]}* {name}" for each, name in zip(formulas.shared, shared, strict=True)),
        *(f"float* {name}" for name in extra),
    ]
    reads = [
        f"const double s{i} = *static_cast<const {_SCALAR_TYPES[each]}*>(table.address[mine][{operands + i}]);"
        for i, each in enumerate(formulas.scalars)
    ]
    reads += [f"const double g{i} = *p{i};" for i in range(len(shared))]
    numbers = [f"number[{i}] = {code};" for i, code in enumerate(formulas.numbers)]
    members = [f"static_cast<{compute_type}>(number[{i}])" for i in range(len(numbers))] + extra
    lines = "\n".join(f"        {each}" for each in (*reads, *numbers))
    functor = step.functor.format(W=compute_type)
    source = (
        f"{includes('optimizer_steps.cuh')}{step.definition}"
        f'extern "C" __global__ void {step.name}_on_device({", ".join(parameters)}) {{\n'
        "    if (skip && *skip != 0) return;\n"
        "    const unsigned int mine = tensor_of_block(table, tensors);\n"
        f"    __shared__ double number[{max(len(numbers), 1)}];\n"
        f"    if (threadIdx.x == 0) {{\n{lines}\n    }}\n    __syncthreads();\n"
        f"    step_tensor<{dtype.cuda}, {chunk}, {width}, {operands}>({functor}{{{', '.join(members)}}}, table, mine);\n}}\n"
    )
    codes = (*tables.codes, "P", *"d" * len(constants), *"P" * (len(shared) + len(extra)))
    launch = launcher(device, "optimizer_steps.cu", source, f"{step.name}_on_device", codes)

    def run(
        stream: Any,
        addresses: Sequence[int],
        counts: Sequence[int],
        skip: int,
        constants: Sequence[float],
        shared: Sequence[int],
        extra: Sequence[int] = (),
    ) -> None:
        for grid, table, tensors in tables.launches(addresses, counts):
            launch(
                grid, 1, 1, _THREADS, 1, 1, 0, stream, table, tensors, skip, *constants, *shared, *extra
            )  # fmt: skip

    return run


def _kernel(
    device: Device, step: Step, dtype: dtype, tables: Tables, shape: str, cast: dtype | None
) -> Callable[..., None]:
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
    name, run = step.name, f"step_tensors<{dtype.cuda}, {shape}>"
    if cast is not None:
        name = f"{step.name}_and_cast"
        run = f"step_and_cast_tensors<{cast.cuda}, {dtype.cuda}, {shape}, {step.operands}>"
    source = (
        f"{includes('optimizer_steps.cuh')}{step.definition}"
        f'extern "C" __global__ void {name}({", ".join(parameters)}) {{\n'
        f"    {run}({functor}{{{members}}}, table, tensors);\n}}\n"
    )
    codes = (*tables.codes, *"d" * step.numbers, *"P" * step.addresses)
    return launcher(device, "optimizer_steps.cu", source, name, codes)
