"""Several pointwise operations as one kernel, with several results of one layout: see ``cuda/fused_pointwise.cuh``.

What an operation's kernel does of :mod:`.pointwise` is done here for many: the text of a kernel has a value for each, in
order, and writes out those that are read elsewhere.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from drv import bind

from . import host_loops
from .kernel_cache import KernelCache
from .lookups import bounds_of
from .lookups import members as lookup_members
from .plans import NOTHING
from .pointwise_work import FEW, THREADS, WORD, Indexed, operands_of, packs_for
from .program import library_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from drv import Device

    from .dtypes import dtype
    from .lookups import Lookup
    from .pointwise_work import Work
    from .program import Program

_MAX_GRID = (1 << 31) - 1
#: What makes the random words of loops on the CPU.
_WORDS = (
    f'extern "C" __device__ Words4 {host_loops.WORDS}(Number block, Number seed, Number call) {{',
    "    return philox(seed, call, block);",
    "}",
    "",
)
#: Types of numbers that are given at a launch.
CTYPES: dict[str | int, str] = {
    "Q": "Number",
    "q": "long long",
    "d": "double",
    "f": "float",
    "i": "int",
    "?": "bool",
}


class Chain(NamedTuple):
    """What a kernel computes for every element.

    Attributes
    ----------
    name : str
        The kernel's, in front of its variant.
    lines : tuple of str
        CUDA C++ that makes the values: of ``input0``, ``input1``, ..., of the scalars, and of ``number``, the element's
        place in the outputs.
    results : tuple of str
        Names of the values that are written.
    scalars : tuple of (name, code)
        Numbers that are given at the launch, with their type as a code of :mod:`struct`.
    draws : bool
        Whether ``seed`` and ``call`` are among the scalars, which say which random words it draws.
    include : tuple of str
        Headers that the lines need.
    options : tuple of str
        Options of NVRTC.
    lookups : tuple of Lookup
        Inputs that are read by an index.
    """

    name: str
    lines: tuple[str, ...]
    results: tuple[str, ...]
    scalars: tuple[tuple[str, str | int], ...] = ()
    draws: bool = False
    include: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    lookups: tuple[Lookup, ...] = ()


def plan(
    device: Device,
    chain: Chain,
    shape: Sequence[int],
    strides: Sequence[int],
    outputs: Sequence[dtype],
    *inputs: tuple[Sequence[int], dtype],
) -> Callable[..., None]:
    """What launches ``chain``.

    Parameters
    ----------
    shape
        Common shape of all operands; a stretched dimension has stride 0.
    strides
        Those of every output, in elements.
    outputs
        Types of the results.
    inputs
        Strides and type of each input.

    Returns
    -------
    callable
        ``run(stream_handle, *output_addresses, *input_addresses, *scalars)``.
    """
    count = prod(shape)
    if count == 0:
        return NOTHING.run
    types = (*outputs, *(dtype for _, dtype in inputs))
    widest = max(dtype.itemsize for dtype in outputs)
    operands = operands_of(
        shape,
        [strides, *(each for each, _ in inputs)],
        [widest, *(dtype.itemsize for _, dtype in inputs)],
        [Indexed(each.table + 1, each.index + 1, each.step, each.reach) for each in chain.lookups],
    )
    if operands.flat and not chain.lookups:
        codes = ("q", *"P" * len(types))
        single = _kernel(device, chain, types, "narrow", codes, "fused_narrow")(
            min(-(-count // THREADS), _MAX_GRID), count
        )
        if count < FEW:
            return single
        width = max(WORD // max(dtype.itemsize for dtype in types), 1)
        unroll = 4 if len(types) <= 4 else 2
        packed = _kernel(device, chain, types, "flat", codes, f"fused_flat<{width}, {unroll}>")(
            -(-count // (THREADS * unroll * width)), count
        )
    else:
        single = _laid_out(device, chain, types, packs_for(operands, wide=False))
        if count < FEW:
            return single
        packed = _laid_out(device, chain, types, packs_for(operands, wide=True))
    number = len(types)

    def run(stream: Any, *arguments: Any) -> None:
        low = 0
        for address in arguments[:number]:
            low |= address
        if low & (WORD - 1):
            single(stream, *arguments)
        else:
            packed(stream, *arguments)

    return run


def plan_on_host(
    chain: Chain,
    shape: Sequence[int],
    strides: Sequence[int],
    outputs: Sequence[dtype],
    *inputs: tuple[Sequence[int], dtype],
) -> Callable[..., None] | None:
    """What computes ``chain`` on the CPU as a native loop; in one that draws, ``word`` is an element's random word.

    Returns
    -------
    callable or None
        ``run(*output_addresses, *input_addresses, *scalars)``; ``None`` where there is no such loop.
    """
    described = on_host(chain, outputs, [dtype for _, dtype in inputs])
    if described is None:
        return None
    return host_loops.plan(*described, shape, [*[strides] * len(outputs), *(each for each, _ in inputs)])


def on_host(
    chain: Chain, outputs: Sequence[dtype], inputs: Sequence[dtype]
) -> tuple[Program, host_loops.Signature] | None:
    """The program with the function of an element for loops on the CPU, and its types; ``None`` where there is none."""
    types = (*outputs, *inputs)
    if any(dtype.is_complex or dtype.is_storage_only for dtype in types):
        return None
    text = source(chain, types, host_loops.ELEMENT, "")
    program = library_program(text, f"{chain.name}.cu", *host_loops.RELOCATABLE, *chain.options)
    codes = tuple(str(code) for _, code in chain.scalars)
    return program, host_loops.Signature(tuple(_members(outputs)), tuple(inputs), codes, draws=chain.draws)


def _members(outputs: Sequence[dtype]) -> Iterator[tuple[int, dtype]]:
    """Bytes at which the members of ``Results`` are: each is followed by the rest, as a structure of its own."""
    byte = 0
    for number, dtype in enumerate(outputs):
        alignment = max(each.itemsize for each in outputs[number:])
        byte = -(-byte // alignment) * alignment
        yield byte, dtype
        byte += dtype.itemsize


def _laid_out(device: Device, chain: Chain, types: tuple[dtype, ...], work: Work) -> Callable[..., None]:
    codes = (len(work.layout), *"P" * len(types))
    call = work.call.replace("pointwise_", "fused_")
    return _kernel(device, chain, types, work.name, codes, call, work)(work.blocks, work.layout)


def _kernel(
    device: Device,
    chain: Chain,
    types: tuple[dtype, ...],
    variant: str,
    codes: Sequence[str | int],
    call: str,
    work: Work | None = None,
) -> Callable[..., Callable[..., None]]:
    """A variant of the kernel: ``kernel(grid, *first)`` is what launches it."""

    def make() -> Callable[..., Callable[..., None]]:
        name = f"{chain.name}_{variant}"
        text = source(chain, types, name, call, work)
        program = library_program(text, f"{chain.name}.cu", *chain.options)
        function = KernelCache.of(device.runtime).function(program, name, device)
        all_codes = (*codes, *(code for _, code in chain.scalars))
        return lambda grid, *first: bind(function, all_codes, (grid, 1, 1), (THREADS, 1, 1), *first)

    layout = None if work is None else (work.layout_type, work.accesses)
    return device.runtime.cache(("fused", device.ordinal, chain, types, variant, call, layout), make)


def source(chain: Chain, types: Sequence[dtype], name: str, call: str, work: Work | None = None) -> str:
    """Text of a kernel for operands of ``types``, the outputs first; ``call`` is the function that does the work.

    Without one it is the function of an element for loops on the CPU.
    """
    number = len(chain.results)
    outputs, inputs = [[each.cuda for each in part] for part in (types[:number], types[number:])]
    scalars = [(scalar, CTYPES[code]) for scalar, code in chain.scalars]
    if chain.draws and not call:
        scalars = [("word", "unsigned int"), *scalars[2:]]
    head, layout = ("long long count", "count")
    if work is not None:
        head, layout = f"{work.layout_type} layout", f"layout, Accesses<{', '.join(work.accesses)}>()"
    parameters = [
        head,
        *(f"{ctype}* output{k}" for k, ctype in enumerate(outputs)),
        *(f"const {ctype}* input{k}" for k, ctype in enumerate(inputs)),
        *(f"{ctype} {scalar}" for scalar, ctype in scalars),
    ]
    headers = [
        "elements.cuh",
        "fused_pointwise.cuh",
        *(["indexing.cuh"] if chain.lookups else []),
        *chain.include,
    ]
    values = ", ".join(["Number number", *(f"{ctype} input{k}" for k, ctype in enumerate(inputs))])
    passed = ", ".join(f"input{k}" for k in range(len(inputs)))
    written = [
        f"to_element<{ctype}>(to_compute({value}))"
        for ctype, value in zip(outputs, chain.results, strict=True)
    ]
    results = f"Results<{', '.join(outputs)}>"
    members = [*(scalar for scalar, _ in scalars), *(f"input{each.index}" for each in chain.lookups)]
    operation = f"Operation{{{', '.join(members)}}}"
    entry = [
        f'extern "C" __global__ void {name}({", ".join(parameters)}) {{',
        *(["    find_call(seed, call);"] if chain.draws else []),
        f"    const Outputs<{', '.join(outputs)}> outputs = {_nested([f'output{k}' for k in range(number)])};",
        f"    {call}({operation}, {layout}, outputs{', ' if passed else ''}{passed});",
    ]
    if not call:
        arguments = [f"{ctype} input{k}" for k, ctype in enumerate(inputs)]
        drawn = 1 if chain.draws else 0
        arguments = [f"{ctype} {scalar}" for scalar, ctype in scalars[:drawn]] + arguments
        arguments += [f"{ctype} {scalar}" for scalar, ctype in scalars[drawn:]]
        entry = [
            *(_WORDS if chain.draws else ()),
            f'extern "C" __device__ {results} {name}({", ".join(arguments)}) {{',
            f"    return {operation}({', '.join(filter(None, ('0', passed)))});",
        ]
    return "\n".join(
        [
            *(f'#include "{header}"' for header in dict.fromkeys(headers)),
            "",
            *bounds_of(chain.lookups),
            "struct Operation {",
            *(f"    {ctype} {scalar};" for scalar, ctype in scalars),
            *(f"    const {inputs[each.index]}* index{number};" for number, each in enumerate(chain.lookups)),
            *lookup_members(chain.lookups, [f"index{number}" for number in range(len(chain.lookups))], 1),
            f"    __device__ {results} operator()({values}) const {{",
            *(f"        {line}" for line in chain.lines),
            f"        return {_nested(written)};",
            "    }",
            "};",
            "",
            *entry,
            "}",
            "",
        ]
    )


def _nested(values: Sequence[str]) -> str:
    """``{a, {b, {c}}}``, which initialises a value and the rest."""
    first, *rest = values
    return f"{{{first}, {_nested(rest)}}}" if rest else f"{{{first}}}"
