"""Kernels of rows with the pointwise operations before and after them as one kernel: see ``cuda/fused_rows.cuh``.

A kernel whose teams of threads keep rows in registers, such as a normalization, is described by a :class:`RowKernel`. One of
its operands can be computed by a :class:`Chain` as it is loaded, and its result be gone on with by another before it is
stored. Teams are those of the kernel by itself, so that sums have the same bits.
"""

from __future__ import annotations

import re
from math import gcd
from typing import TYPE_CHECKING, Any, NamedTuple

from .fused_pointwise import CTYPES
from .lookups import bounds_of
from .plans import bound, includes
from .rows import Team, team

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv import Device

    from .dtypes import dtype
    from .lookups import Lookup

#: What addresses are multiples of where loads are as wide as they can be.
_WORD = 16


class Operand(NamedTuple):
    """An array of a kernel.

    Attributes
    ----------
    name : str
        What the kernel's code calls it.
    dtype : dtype
        Of its elements.
    is_there : bool
        Whether there is one: the kernel gets a null pointer otherwise.
    """

    name: str
    dtype: dtype
    is_there: bool = True


class RowKernel(NamedTuple):
    """A kernel of ``rows`` contiguous rows of ``n`` elements.

    Attributes
    ----------
    header : str
        The file of its code.
    call : str
        The function and its template arguments, with ``{team}`` for those of the team.
    passed : tuple of str
        What is passed behind the numbers of rows and of elements: names of operands and scalars, and other code.
    reads, writes : tuple of Operand
        Arrays, in the order of the addresses that a launch is given.
    scalars : tuple of (name, code)
        Numbers that are given at the launch, with their type as a code of :mod:`struct`.
    source, target : str
        The operands that are rows: what can be computed, and what can be gone on with.
    rows, n : int
        Rows, and elements of each.
    """

    header: str
    call: str
    passed: tuple[str, ...]
    reads: tuple[Operand, ...]
    writes: tuple[Operand, ...]
    source: str
    target: str
    rows: int
    n: int
    scalars: tuple[tuple[str, str | int], ...] = ()
    #: Why there is no plan, where there is none.
    refusal: str = "its rows do not fit into registers"
    #: Teams that share the rows out among themselves, summing over them, and their blocks of a multiprocessor; 0 where each
    #: row has a team.
    teams: int = 0
    resident: int = 0
    #: Operands whose elements are not those of rows.
    beside: tuple[str, ...] = ("mean", "scale")
    #: Threads of a row, where the size of one that fits into registers does not decide.
    shape: Team | None = None

    def plan(
        self, device: Device, name: str, before: Chain | None, after: Chain | None
    ) -> Callable[..., None] | None:
        """What launches it with chains before and after it: see :func:`plan`."""
        return plan(device, name, self, before, after)

    def team(self, *, packed: bool = True) -> Team | None:
        """Threads of a row; ``packed`` says that addresses allow wide loads."""
        if self.shape is not None:
            return self.shape
        return team(self.n, self.largest, packed=packed, summing=self.teams > 0)

    @property
    def chain_itemsize(self) -> int:
        """Bytes of the widest elements that chains may have, of which packs are read."""
        return self.largest if self.shape is None else _WORD // self.shape.width

    @property
    def largest(self) -> int:
        """Bytes of the widest elements that the kernel by itself reads and writes of rows."""
        aside = {each.name for each in self.writes} - {self.target}
        operands = (*self.reads, *self.writes)
        result: int = max(each.dtype.itemsize for each in operands if each.name not in (*aside, *self.beside))
        return result


class Input(NamedTuple):
    """How a chain reads an array of which an element is read for several elements of the rows.

    Its elements come in groups. For the element ``number`` of the rows it is the one at ``number % inner`` of the group
    ``number // (inner * stretch) % period``.

    Attributes
    ----------
    dtype : dtype
        Of its elements.
    period : int
        After how many groups it repeats; 0 if it does not.
    stretch : int
        How many times a group is read before the next one.
    inner : int
        Elements of a group.
    """

    dtype: dtype
    period: int = 0
    stretch: int = 1
    inner: int = 1

    @property
    def template(self) -> str:
        """Arguments of templates in ``cuda/fused_rows.cuh``."""
        return f"{self.inner}u, {self.stretch}u, {self.period}u"

    @property
    def alike(self) -> int:
        """How many neighbours in the rows read one element; 0 for all."""
        return 0 if self.period == 1 and self.inner == 1 else self.stretch if self.inner == 1 else 1

    @property
    def together(self) -> int:
        """How many neighbours in the rows read neighbours; 0 for all."""
        return self.period if self.stretch == 1 else self.inner


class Chain(NamedTuple):
    """Pointwise operations before or after a kernel of rows.

    Attributes
    ----------
    lines : tuple of str
        CUDA C++ that makes the values: of ``input0``, ``input1``, ..., of the scalars, of ``number``, the element's place in
        the rows, and, after a kernel, of ``row``, its result.
    inputs : tuple of Input
        What is read.
    results : tuple of (name, dtype)
        Values that are stored.
    scalars : tuple of (name, code)
        Numbers that are given at the launch.
    value : str
        The value that the kernel goes on with, where it comes before one.
    draws : bool
        Whether ``seed`` and ``call`` are among the scalars, which say which random words it draws.
    include : tuple of str
        Headers that the lines need.
    lookups : tuple of Lookup
        Inputs that are read by an index: where they lie in the inputs is what their place is moved from.
    """

    lines: tuple[str, ...]
    inputs: tuple[Input, ...]
    results: tuple[tuple[str, dtype], ...]
    scalars: tuple[tuple[str, str | int], ...] = ()
    value: str = ""
    draws: bool = False
    include: tuple[str, ...] = ()
    lookups: tuple[Lookup, ...] = ()


def plan(
    device: Device, name: str, kernel: RowKernel, before: Chain | None, after: Chain | None
) -> Callable[..., None] | None:
    """What launches ``kernel`` with the chains before and after it.

    Returns
    -------
    callable or None
        ``run(stream_handle, *results of before, *writes, *results of after, *inputs of before, *reads, *inputs of after,
        *scalars)``, where ``writes`` and ``reads`` are those that are there, without the operand that a chain stands for, and
        scalars are those of ``before``, of the kernel, and of ``after``; the numbers of a draw come first. ``None`` where rows
        do not fit into registers.
    """
    if not kernel.rows or not kernel.n:
        return None
    shape = kernel.team()
    if shape is None:
        return None
    reads, writes = _in_memory(kernel, before, after)
    first_read = len(writes) + sum(len(chain.results) for chain in (before, after) if chain)
    before_inputs = first_read + (len(before.inputs) if before else 0)
    # Those of the kernel itself whose addresses must allow its loads; the results are there for it alone.
    plain = [before_inputs + k for k, each in enumerate(reads) if each.name not in kernel.beside]
    end = before_inputs + len(reads) + (len(after.inputs) if after else 0)
    others = [k for k in range(first_read, end) if k not in plain]
    low = shape.width * kernel.largest - 1
    variants: dict[tuple[bool, bool], Callable[..., None]] = {}

    def run(stream: Any, *arguments: Any) -> None:
        own = chained = 0
        for k in plain:
            own |= arguments[k]
        for k in others:
            chained |= arguments[k]
        which = not own & low, not chained & (_WORD - 1)
        launch = variants.get(which)
        if launch is None:
            launch = variants[which] = _variant(device, name, kernel, before, after, *which)
        launch(stream, *arguments)

    return run


def _variant(
    device: Device,
    name: str,
    kernel: RowKernel,
    before: Chain | None,
    after: Chain | None,
    packed: bool,
    aligned: bool,
) -> Callable[..., None]:
    """The kernel for addresses that are aligned, those of its own operands and those of the chains', or not."""
    shape = kernel.team(packed=packed)
    assert shape is not None
    name = f"{name}_rows"
    bounds = f"{shape.threads}, {kernel.resident}" if kernel.resident else f"{shape.threads}"
    text, codes = source(name, kernel, before, after, shape.template, bounds, aligned)
    blocks = shape.blocks(kernel.teams or kernel.rows)
    return bound(
        device, f"{name}.cu", text, name, codes, blocks, shape.threads, kernel.rows, kernel.n
    )  # fmt: skip


def source(
    name: str,
    kernel: RowKernel,
    before: Chain | None,
    after: Chain | None,
    shape: str,
    bounds: str,
    aligned: bool,
) -> tuple[str, list[str | int]]:
    """Text of the kernel ``name``, and the types of its parameters as codes of :mod:`struct`.

    ``shape`` is the team's part of the template, ``bounds`` threads of a block, and where it matters how many blocks are there
    at once.
    """
    reads, writes = _in_memory(kernel, before, after)
    pointers = [
        *_results("before", before),
        *(f"{each.dtype.cuda}* {each.name}" for each in writes),
        *_results("after", after),
        *_inputs("before", before),
        *(f"const {each.dtype.cuda}* {each.name}" for each in reads),
        *_inputs("after", after),
    ]
    scalars = [*_scalars("before", before), *kernel.scalars, *_scalars("after", after)]
    # The numbers of a draw come first.
    scalars = [each for each in scalars if each[0] in DRAW] + [
        each for each in scalars if each[0] not in DRAW
    ]
    parameters = ["long long rows", "int n", *pointers, *(f"{CTYPES[code]} {each}" for each, code in scalars)]
    target = next((each for each in kernel.writes if each.name == kernel.target), kernel.writes[0])
    element = next(each for each in kernel.reads if each.name == kernel.source)
    stands_for = {
        each.name: f"static_cast<const {each.dtype.cuda}*>(nullptr)"
        for each in kernel.reads
        if not each.is_there
    }
    stands_for |= {
        each.name: f"static_cast<{each.dtype.cuda}*>(nullptr)" for each in kernel.writes if not each.is_there
    }
    objects, structures = [], []
    for prefix, chain, operand in (("before", before, element), ("after", after, target)):
        if chain is not None:
            stands_for[operand.name] = prefix
            structures.append(structure(prefix, chain, operand.dtype))
            members = [each.split()[-1] for each in (*_results(prefix, chain), *_inputs(prefix, chain))]
            members += [each for each, _ in _scalars(prefix, chain)]
            objects.append(
                f"    const {prefix.capitalize()}<{'true' if aligned else 'false'}> {prefix}{{{', '.join([*members, '0'])}}};\n"
            )
    headers = dict.fromkeys(["fused_rows.cuh", *(h for c in (before, after) if c for h in c.include)])
    passed = ", ".join(["rows", "n", *(stands_for.get(each, each) for each in kernel.passed)])
    draws = any(chain is not None and chain.draws for chain in (before, after))
    text = (
        f"{includes(kernel.header)}"
        + "".join(f'#include "{header}"\n' for header in headers)
        + "".join(structures)
        + f'\nextern "C" __global__ void __launch_bounds__({bounds}) {name}({", ".join(parameters)}) {{\n'
        + ("    find_call(seed, call);\n" if draws else "")
        + "".join(objects)
        + f"    {kernel.call.format(team=shape)}({passed});\n}}\n"
    )
    return text, ["q", "i", *"P" * len(pointers), *(code for _, code in scalars)]


def _in_memory(
    kernel: RowKernel, before: Chain | None, after: Chain | None
) -> tuple[list[Operand], list[Operand]]:
    """What the kernel itself reads and writes: the operands that are there and that no chain stands for."""
    reads = [each for each in kernel.reads if each.is_there and not (before and each.name == kernel.source)]
    writes = [each for each in kernel.writes if each.is_there and not (after and each.name == kernel.target)]
    return reads, writes


#: Scalars that say which random words are drawn.
DRAW = ("seed", "call")


def _results(prefix: str, chain: Chain | None) -> list[str]:
    return [
        f"{dtype.cuda}* {prefix}_to{k}" for k, (_, dtype) in enumerate(chain.results if chain else ())
    ]  # fmt: skip


def _inputs(prefix: str, chain: Chain | None) -> list[str]:
    return [
        f"const {each.dtype.cuda}* {prefix}_from{k}" for k, each in enumerate(chain.inputs if chain else ())
    ]


def _scalars(prefix: str, chain: Chain | None) -> list[tuple[str, str | int]]:
    """Scalars of a chain by the names that they have among the kernel's."""
    return [
        (name if name in DRAW else f"{prefix}_{name}", code) for name, code in (chain.scalars if chain else ())
    ]  # fmt: skip


def _load(chain: Chain, number: int, name: str) -> list[str]:
    """Lines that load a pack of an input: ``pack<number>``, of the elements from ``first`` on."""
    own = chain.inputs[number]
    lookups = [(k, each) for k, each in enumerate(chain.lookups) if each.table == number]
    if lookups:
        together, terms = own.together, []
        for k, each in lookups:
            index = chain.inputs[each.index]
            position = f"from{each.index}[place_of<{index.template}>(number)]"
            terms.append(f"{each.checked(position, f'{name}Bounds{k}', 'long long')} * {each.step}")
            together = gcd(together, each.step, index.alike)
        return [
            f"const auto row{number} = [&](Number number) {{ return {' + '.join(terms)}; }};",
            f"const auto pack{number} = looked_up_pack<Width, Aligned, {own.template}, {together}u>(from{number}, row{number}, first);",
        ]
    if own.stretch > 1:
        call = f"stretched_pack<Width, Aligned, {own.template}>(from{number}, first)"
    elif own.period:
        call = f"repeated_pack<Width, Aligned, {own.period}u>(from{number}, first)"
    else:
        call = f"row_pack<Width, Aligned>(from{number} + first)"
    return [f"const auto pack{number} = {call};"]


def structure(prefix: str, chain: Chain, element: dtype) -> str:
    """A template ``Before`` or ``After``, of whether addresses are aligned. It is what stands for the rows that ``chain`` computes, or goes on with."""
    name, is_before = prefix.capitalize(), bool(chain.value)
    members = [f"{dtype.cuda}* to{k}" for k, (_, dtype) in enumerate(chain.results)]
    members += [f"const {each.dtype.cuda}* from{k}" for k, each in enumerate(chain.inputs)]
    members += [f"{CTYPES[code]} {scalar}" for scalar, code in chain.scalars]
    read = [k for k in range(len(chain.inputs)) if re.search(rf"\binput{k}\b", " ".join(chain.lines))]
    loads = [line for k in read for line in _load(chain, k, name)]
    loads += [f"Pack<{dtype.cuda}, Width> result{k};" for k, (_, dtype) in enumerate(chain.results)]
    values = [f"const auto input{k} = pack{k}.items[i];" for k in read]
    if not is_before:
        values.append("const auto row = separate(to_element<Element>(items[i]));")
    values += chain.lines
    if is_before:
        values.append(f"items[i] = to_compute({chain.value});")
    values += [
        f"result{k}.items[i] = to_element<{dtype.cuda}>(to_compute({value}));"
        for k, (value, dtype) in enumerate(chain.results)
    ]
    stores = [
        f"*reinterpret_cast<Pack<{dtype.cuda}, Width>*>(to{k} + first) = result{k};"
        for k, (_, dtype) in enumerate(chain.results)
    ]
    head = "load(int at, W* items)" if is_before else "store(int at, const W* items)"
    lines = [
        "",
        *bounds_of(chain.lookups, name),
        "template <bool Aligned>",
        f"struct {name} {{",
        f"    typedef {element.cuda} Element;",
        *(f"    {each};" for each in members),
        "    long long start;",
        f"    __device__ {name} operator+(long long elements) const {{",
        f"        {name} result = *this;",
        "        result.start += elements;",
        "        return result;",
        "    }",
        "    template <int Width, bool Stores = true, class W>"
        if is_before
        else "    template <int Width, class W>",
        f"    __device__ void {head} const {{",
        # The compiler sees that a pack has the words of one block of random numbers.
        "        const Number first = static_cast<Number>(start + at) & ~static_cast<Number>(Width - 1);",
        *(f"        {each}" for each in loads),
        "#pragma unroll",
        "        for (int i = 0; i < Width; ++i) {",
        "            const Number number = first | i;",
        *(f"            {each}" for each in values),
        "        }",
        *(f"        {'if constexpr (Stores) ' if is_before else ''}{each}" for each in stores),
        "    }",
        "};",
        "",
    ]
    return "\n".join(lines)
