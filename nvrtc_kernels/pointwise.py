"""Pointwise kernels: an expression for every element, over operands of any types and layouts.

An operation is an expression in CUDA C++. Which kernel computes it follows from the layouts alone, so it is
worked out once (:func:`plan`) and then only launched:

========  ==========================================================================================
flat      every operand is contiguous in the same order of dimensions: 16-byte accesses
narrow    the same, element by element: few elements, or addresses that are no multiples of 16
strided   anything else, by words along the dimension that is the innermost one of the output
tiled     where that is not the innermost one of an input: through shared memory
========  ==========================================================================================

The last two are laid out in :mod:`.pointwise_work`.
"""

from __future__ import annotations

import functools
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from drv import bind

from . import host_loops
from .dtypes import bfloat16, complex128, float16, float32, int8, int16, int32, int64
from .host_loops import ELEMENT, RELOCATABLE
from .kernel_cache import KernelCache
from .pointwise_work import FEW, THREADS, WORD, operands_of, work_for
from .program import library_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from drv import Device

    from .dtypes import dtype
    from .pointwise_work import Operands, Work

_UNROLL = 4
_MAX_GRID = (1 << 31) - 1
_NAMES = "abcdefgh"
#: What elements are copied as, bit for bit, by their bytes.
_CARRIERS = {1: int8, 2: int16, 4: int32, 8: int64, 16: complex128}
_CTYPES: dict[str | int, str] = {
    16: "complex128",
    "q": "long long",
    "Q": "unsigned long long",
    "d": "double",
    "f": "float",
    "i": "int",
    "?": "bool",
}

#: Arithmetic on half precision and float8 is done in single precision.
_COMPUTE_TYPES = {
    "Half": "float",
    "BFloat16": "float",
    "Float8E4M3": "float",
    "Float8E5M2": "float",
}

#: ``run(stream_handle, output_address, *input_addresses, *scalars)``
Run = "Callable[..., None]"


class Expression(NamedTuple):
    """What a pointwise kernel computes.

    Attributes
    ----------
    name : str
        Name of the operation, which its kernels are called by.
    code : str
        CUDA C++ expression of the operands ``a``, ``b``, ``c``, ... (half precision widened to float), of
        the scalars, and, in a generator, of the row-major index ``i``. Its value is converted to the
        output's type. ``Compute`` names the type that operands are converted to, ``Result`` the one of results.
    scalars : tuple of (name, code)
        Numbers that are given at the launch, with their type as a code of :mod:`struct`, or 16 for a
        complex number (two doubles as ``bytes``). One named like an operand takes that operand's place.
    compute : dtype, optional
        What all operands are converted to before; by default each keeps its own type.
    result : dtype, optional
        What the value is converted to before it becomes the output's type: C computes with small integers and bools in
        ``int``, and half precision is computed in single, which an output of a wider type must not show.
    include : str
        Header in ``cuda/`` that the expression needs, or several with spaces between.
    options : tuple of str
        Options of NVRTC.
    """

    name: str
    code: str
    scalars: tuple[tuple[str, str | int], ...] = ()
    compute: dtype | None = None
    result: dtype | None = None
    include: str = ""
    options: tuple[str, ...] = ()


_COPY = Expression("copy", "a")


def plan(
    device: Device,
    expression: Expression,
    shape: Sequence[int],
    output: tuple[Sequence[int], dtype],
    *inputs: tuple[Sequence[int], dtype],
) -> Callable[..., None]:
    """What launches ``expression`` over operands of given strides (in elements) and types.

    Parameters
    ----------
    shape
        Common shape of all operands; a stretched dimension has stride 0.
    output, inputs
        Strides and type of each operand.

    Returns
    -------
    callable
        ``run(stream_handle, output_address, *input_addresses, *scalars)``.
    """
    count = prod(shape)
    if count == 0:
        return _nothing
    types = (output[1], *(dtype for _, dtype in inputs))
    strides = [steps for steps, _ in (output, *inputs)]
    operands = operands_of(shape, strides, [dtype.itemsize for dtype in types])
    if operands.flat:
        return _flat(device, expression, types, count)
    return _strided(device, expression, types, operands)


def plan_on_host(
    expression: Expression,
    shape: Sequence[int],
    output: tuple[Sequence[int], dtype],
    *inputs: tuple[Sequence[int], dtype],
) -> Callable[..., None] | None:
    """What computes ``expression`` on the CPU over operands of given strides (in elements) and types, as a native loop.

    Returns
    -------
    callable or None
        ``run(output_address, *input_addresses, *scalars)``; ``None`` where there is no such loop.
    """
    types = (output[1], *(dtype for _, dtype in inputs))
    if not _has_host_form(expression, types):
        return None
    text = _source(expression, types, ELEMENT, None)
    program = library_program(text, f"{expression.name}.cu", *RELOCATABLE, *expression.options)
    codes = tuple(str(code) for _, code in expression.scalars)
    signature = host_loops.Signature(((0, output[1]),), types[1:], codes)
    return host_loops.plan(program, signature, shape, [output[0], *(steps for steps, _ in inputs)])


def _has_host_form(expression: Expression, types: Sequence[dtype]) -> bool:
    """Whether what is computed are numbers that the processor knows: neither complex nor float8."""
    known = (*types, *(each for each in (expression.compute, expression.result) if each is not None))
    return not any(each.is_complex or each.is_storage_only for each in known)


def plan_copy(
    device: Device,
    shape: Sequence[int],
    output: tuple[Sequence[int], dtype],
    source: tuple[Sequence[int], dtype],
) -> Callable[..., None]:
    """What copies elements between given strides and types; those of one type bit for bit.

    Returns
    -------
    callable
        ``run(stream_handle, output_address, input_address)``.
    """
    to, origin = output[1], source[1]
    if to is origin:
        to = origin = _CARRIERS[to.itemsize]
    return plan(device, _COPY, shape, (output[0], to), (source[0], origin))


def plan_copy_on_host(
    shape: Sequence[int],
    output: tuple[Sequence[int], dtype],
    source: tuple[Sequence[int], dtype],
) -> Callable[..., None] | None:
    """What converts elements on the CPU as a native loop, where NumPy has none: from and to half precision.

    Returns
    -------
    callable or None
        ``run(output_address, input_address)``; ``None`` where NumPy is as quick.
    """
    if not _converts_half(output[1], source[1]):
        return None
    return plan_on_host(_COPY, shape, output, source)


@functools.cache
def conversion_on_host(to: dtype, origin: dtype) -> Callable[..., None] | None:
    """The same for contiguous elements: ``run(count, output_address, input_address)``."""
    if not _converts_half(to, origin) or host_loops.mode() == "off":
        return None
    program = library_program(_source(_COPY, (to, origin), ELEMENT, None), f"{_COPY.name}.cu", *RELOCATABLE)
    return host_loops.flat(program, host_loops.Signature(((0, to),), (origin,)))


def _converts_half(to: dtype, origin: dtype) -> bool:
    half = {float16, bfloat16}
    return to is not origin and bool({to, origin} & half) and {to, origin} <= half | {float32}


def plan_generator(device: Device, expression: Expression, count: int, output: dtype) -> Callable[..., None]:
    """What launches ``expression`` for ``count`` contiguous elements, each computed from its index ``i``.

    Returns
    -------
    callable
        ``run(stream_handle, output_address, *scalars)``.
    """
    if count == 0:
        return _nothing
    kernel = _kernel(device, expression, (output,), "generate", ("q", "P"))
    return kernel(min(-(-count // THREADS), _MAX_GRID), count)


def _nothing(*_: Any) -> None:
    """Nothing to compute: no launch."""


def _flat(
    device: Device, expression: Expression, types: tuple[dtype, ...], count: int
) -> Callable[..., None]:
    codes = ("q", *"P" * len(types))
    narrow_kernel = _kernel(device, expression, types, "narrow", codes)
    narrow = narrow_kernel(min(-(-count // THREADS), _MAX_GRID), count)
    if count < FEW:
        return narrow
    flat_kernel = _kernel(device, expression, types, "flat", codes)
    flat = flat_kernel(-(-count // (THREADS * _UNROLL * _width(types))), count)
    operands = len(types)

    def run(stream: Any, *arguments: Any) -> None:
        low = 0
        for address in arguments[:operands]:
            low |= address
        if low & (WORD - 1):
            narrow(stream, *arguments)
        else:
            flat(stream, *arguments)

    return run


def _strided(
    device: Device, expression: Expression, types: tuple[dtype, ...], operands: Operands
) -> Callable[..., None]:
    aligned = work_for(operands)
    run_aligned = _laid_out(device, expression, types, aligned)
    if aligned.alignment == 1:
        return run_aligned
    count, low_bits, itemsizes = len(types), aligned.alignment - 1, operands.itemsizes
    others: dict[tuple[int, ...], Callable[..., None]] = {}

    def run(stream: Any, *arguments: Any) -> None:
        low = 0
        for address in arguments[:count]:
            low |= address
        if not low & low_bits:
            run_aligned(stream, *arguments)
            return
        steps = [address // size | WORD for address, size in zip(arguments, itemsizes, strict=False)]
        alignments = tuple([step & -step for step in steps])
        launch = others.get(alignments)
        if launch is None:
            work = work_for(operands._replace(alignments=alignments))
            launch = others[alignments] = _laid_out(device, expression, types, work)
        launch(stream, *arguments)

    return run


def _laid_out(
    device: Device, expression: Expression, types: tuple[dtype, ...], work: Work
) -> Callable[..., None]:
    codes = (len(work.layout), *"P" * len(types))
    return _kernel(device, expression, types, work.name, codes, work)(work.blocks, work.layout)


def _width(types: Iterable[dtype]) -> int:
    """Elements that a thread moves at once: 16 bytes of the widest type."""
    widest: int = max(dtype.itemsize for dtype in types)
    return max(16 // widest, 1)


def _kernel(
    device: Device,
    expression: Expression,
    types: tuple[dtype, ...],
    variant: str,
    codes: Sequence[str | int],
    work: Work | None = None,
) -> Callable[..., Callable[..., None]]:
    """A variant of the kernel that computes ``expression``: ``kernel(grid, *first)`` is what launches it."""

    def make() -> Callable[..., Callable[..., None]]:
        name = f"{expression.name}_{variant}"
        text = _source(expression, types, variant, work)
        program = library_program(text, f"{expression.name}.cu", *expression.options)
        function = KernelCache.of(device.runtime).function(program, name, device)
        all_codes = (*codes, *(code for _, code in expression.scalars))
        return lambda grid, *first: bind(function, all_codes, (grid, 1, 1), (THREADS, 1, 1), *first)

    layout = None if work is None else (work.call, work.layout_type, work.accesses)
    return device.runtime.cache(("pointwise", device.ordinal, expression, types, variant, layout), make)


def _source(expression: Expression, types: tuple[dtype, ...], variant: str, work: Work | None) -> str:
    """Text of a kernel that computes ``expression`` for operands of ``types``, the output first."""
    output, *inputs = (ctype.cuda for ctype in types)
    result = expression.result
    headers = ["elements.cuh"]
    if variant != ELEMENT:
        headers += ["pointwise.cuh" if work is None else "pointwise_strided.cuh"]
    headers += expression.include.split()
    scalars = [(name, _CTYPES[code]) for name, code in expression.scalars]
    taken = [name for name, _ in scalars if name in tuple(_NAMES)]
    names = [name for name in _NAMES if name not in taken][: len(inputs)]
    operands = list(zip(inputs, names, strict=True))
    # An operand goes by its name with an underscore until it has been converted.
    scalars = [(f"{name}_" if name in taken else name, ctype) for name, ctype in scalars]

    values = ", ".join(f"{ctype} {name}_" for ctype, name in operands)
    if variant == "generate":
        values = "long long i"
    compute = expression.compute
    convert = "to_compute" if compute is None else "to_element<Compute>"
    widened = "".join(
        f"        const auto {name} = {convert}(to_compute({name}_));\n" for name in (*names, *taken)
    )
    widened = widened.replace("to_compute(to_compute(", "(to_compute(")
    value = f"to_element<{output}>({expression.code})"
    named = {"Result": output if result is None else result.cuda}
    if compute is not None:
        named["Compute"] = _COMPUTE_TYPES.get(compute.cuda, compute.cuda)
    typedefs = "".join(f"typedef {ctype} {name};\n" for name, ctype in named.items())
    if result is not None and result is not types[0]:
        value = f"to_element<{output}>(to_compute(to_element<{result.cuda}>({expression.code})))"
    operation = "Operation{" + ", ".join(name for name, _ in scalars) + "}"
    parameters = f"{output}* out" + "".join(f", const {ctype}* {name}" for ctype, name in operands)
    parameters += "".join(f", {ctype} {name}" for name, ctype in scalars)
    passed = ", ".join(["out", *names])
    if work is not None:
        head = f"{work.layout_type} layout"
        accesses = f"Accesses<{', '.join(work.accesses)}>()"
        call = f"{work.call}({operation}, layout, {accesses}, {passed})"
    else:
        head = "long long count"
        template = f"<{_width(types)}, {_UNROLL}>" if variant == "flat" else ""
        function = "generate_flat" if variant == "generate" else f"pointwise_{variant}"
        call = f"{function}{template}({operation}, count, {passed})"
    entry = (
        f'extern "C" __global__ void {expression.name}_{variant}({head}, {parameters}) {{\n    {call};\n}}\n'
    )
    if variant == ELEMENT:
        parameters = ", ".join(filter(None, (values, *(f"{ctype} {name}" for name, ctype in scalars))))
        call = f"{operation}({', '.join(f'{name}_' for name in names)})"
        entry = f'extern "C" __device__ {output} {ELEMENT}({parameters}) {{\n    return {call};\n}}\n'
    return (
        "".join(f'#include "{header}"\n' for header in headers)
        + f"\n{typedefs}\nstruct Operation {{\n"
        + "".join(f"    {ctype} {name};\n" for name, ctype in scalars)
        + f"    __device__ {output} operator()({values}) const {{\n{widened}"
        + f"        return {value};\n    }}\n}};\n\n"
        + entry
    )
