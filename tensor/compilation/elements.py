"""Pointwise steps by their parts, and the text of a kernel that computes several of them.

Each value is rounded to its own dtype and takes part in no contraction with another operation's, so that a kernel computes
what the operations compute one by one, bit for bit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nvrtc_kernels.lookups import Lookup
from tensor.core.dtypes import promotion as rules
from tensor.core.dtypes.scalars import packed_number

from .tape import Ref, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nvrtc_kernels.dtypes import dtype

    from .uses import Uses

LETTERS = "abcdefgh"
#: What no name in CUDA C++ has.
_NO_LETTERS = re.compile(r"\W+")
#: Types of the values that are computed in, as kernels name them.
COMPUTE = {"Half": "float", "BFloat16": "float", "Float8E4M3": "float", "Float8E5M2": "float"}
#: Types whose products the compiler would contract with sums.
_CONTRACTED = ("float", "double")


@dataclass(frozen=True, eq=False)
class Fused:
    """Operations that one kernel computes; it stands where their last step stood.

    Attributes
    ----------
    name : str
        The kernel's.
    code : str
        Its code for an element.
    """

    name: str
    code: str


@dataclass(frozen=True, slots=True)
class Gather:
    """What an element is read by, where an index says where it lies along a dimension.

    Attributes
    ----------
    table, index : Ref
        Operands of the element, as they are broadcast to its result: the table has no strides where the index goes.
    size, step : int
        Of the dimension that is indexed, in elements.
    reach : int
        From the first element of the table to behind the last one.
    wrap : bool
        Whether negative indices count from the end.
    bounds : str
        CUDA C++ of a structure that says what is wrong with an index.
    number : int
        Which of the table's indices it is.
    ignored : int, optional
        The index for which it does not matter what is read.
    """

    table: Ref
    index: Ref
    size: int
    step: int
    reach: int
    wrap: bool
    bounds: str
    number: int
    ignored: int | None = None


@dataclass(slots=True)
class Element:
    """A pointwise step by its parts.

    Attributes
    ----------
    compute, result : dtype
        What it computes in, and what its result is rounded to.
    code : str
        Of the operands ``a``, ``b``, ..., and of ``numbers`` by their names.
    operands : tuple
        What these are: a :class:`Ref`, or a number.
    out : Ref
        Where the result lies.
    writes : bool
        Whether that is memory from elsewhere, or a part of some, and no new tensor.
    drop : object
        What its random words are drawn by, if it draws.
    numbers : tuple of (name, code, value)
        Further numbers that its code has.
    gathers : tuple of Gather
        What it is read by, if it is read by indices.
    shown : tuple of (Ref, Ref)
        Operands that are broadcast in another way than their shapes say, each with the tensor that was recorded.
    numbered : bool
        Whether its code reads ``number``, the place of an element of the result in row-major order.
    """

    step: Step
    compute: dtype
    result: dtype
    code: str
    operands: tuple[Any, ...]
    out: Ref
    writes: bool = False
    include: str = ""
    options: tuple[str, ...] = ()
    drop: Any = None
    numbers: tuple[tuple[str, str, Any], ...] = ()
    gathers: tuple[Gather, ...] = ()
    shown: tuple[tuple[Ref, Ref], ...] = ()
    numbered: bool = False

    @property
    def is_in_order(self) -> bool:
        """Whether it depends on the places of elements, as those that random words are drawn by."""
        return self.numbered or self.drop is not None

    def values(self) -> list[Ref]:
        """Operands in memory that its code has the values of, beside those that it is read by."""
        return [
            each
            for letter, each in zip(LETTERS, self.operands, strict=False)
            if type(each) is Ref and re.search(rf"\b{letter}_?\b", self.code)
        ]

    def inputs(self) -> list[Ref]:
        """Operands in memory."""
        return [each for each in self.operands if type(each) is Ref]

    def with_operands(self, others: dict[Ref, Ref]) -> Element:
        """The same of other operands, where ``others`` has some."""
        return replace(
            self,
            operands=tuple(others.get(each, each) for each in self.operands),
            gathers=tuple(
                replace(
                    each,
                    table=others.get(each.table, each.table),
                    index=others.get(each.index, each.index),
                )
                for each in self.gathers
            ),
            shown=tuple((others.get(ref, ref), tensor) for ref, tensor in self.shown),
        )


def inputs_of(elements: Sequence[Element]) -> list[Ref]:
    """What a kernel of ``elements`` reads."""
    inner = {element.out for element in elements if not element.writes}
    return list(dict.fromkeys(ref for element in elements for ref in element.inputs() if ref not in inner))


def originals_of(elements: Iterable[Element]) -> tuple[Step, ...]:
    """The steps that were recorded for ``elements``, each once."""
    steps = (each for element in elements for each in element.step.originals or (element.step,))
    return tuple({id(step): step for step in steps}.values())


def recorded(refs: Iterable[Ref], elements: Iterable[Element], *others: tuple[Ref, Ref]) -> tuple[Ref, ...]:
    """``refs`` as they were recorded: a kernel needs their addresses only, and has no use for a tensor of another layout."""
    shown = dict(pair for element in elements for pair in element.shown) | dict(others)
    return tuple(shown.get(ref, ref) for ref in refs)


def tell_tables_apart(elements: dict[int, Element]) -> None:
    """Have what is read by several indices be an operand for each: a kernel moves each of its operands by one lookup."""
    numbers: dict[tuple[tuple[Ref, int, int], ...], int] = {}
    for position, element in elements.items():
        replaced: dict[Ref, Ref] = {}
        for table in {gather.table for gather in element.gathers}:
            indices = tuple(
                (each.index, each.number, each.step) for each in element.gathers if each.table == table
            )
            replaced[table] = replace(table, lookup=numbers.setdefault(indices, len(numbers) + 1))
        if replaced:
            elements[position] = element.with_operands(replaced)


def obstacle_of_gathers(elements: Sequence[Element]) -> str | None:
    """Why what indices read cannot be part of one kernel with ``elements``."""
    new = {element.out.buffer for element in elements if not element.writes}
    gathers = (gather for element in elements for gather in element.gathers)
    if any(ref.buffer in new for gather in gathers for ref in (gather.table, gather.index)):
        return "an index and what it reads are there before"
    return None


def lookups_of(elements: Sequence[Element], inputs: Sequence[Ref]) -> tuple[Lookup, ...]:
    """What a kernel of ``elements``, which reads ``inputs``, is told of what they are read by."""
    gathers = dict.fromkeys(gather for element in elements for gather in element.gathers)
    return tuple(
        Lookup(
            inputs.index(gather.table),
            inputs.index(gather.index),
            gather.size,
            gather.step,
            gather.reach,
            gather.wrap,
            gather.bounds,
            gather.number,
            gather.ignored,
        )
        for gather in gathers
    )


def results_of(members: Sequence[int], elements: dict[int, Element], uses: Uses) -> list[Element]:
    """What a kernel of these elements writes: the last one's result, and before it what is read elsewhere."""
    there = set(members)
    result = []
    for member in members[:-1]:
        element = elements[member]
        buffer = element.out.buffer
        outside = any(reader not in there for reader in uses.readers.get(buffer, ()))
        if buffer in uses.needed or outside or buffer in uses.writers:
            result.append(element)
    return [*result, elements[members[-1]]]


@dataclass(slots=True)
class Text:
    """Code of a kernel's values.

    Attributes
    ----------
    lines : list of str
        CUDA C++: a comment and a statement for each value.
    names : dict of Ref to str
        What values are called.
    scalars : list of (name, code)
        Numbers that the kernel is given, with their types.
    numbers : list
        The numbers, packed.
    """

    lines: list[str] = field(default_factory=list)
    names: dict[Ref, str] = field(default_factory=dict)
    scalars: list[tuple[str, str | int]] = field(default_factory=list)
    numbers: list[Any] = field(default_factory=list)

    def number(self, name: str, code: str | int, value: Any) -> str:
        """A number's name in the kernel."""
        self.scalars.append((name, code))
        self.numbers.append(value)
        return name

    def add(self, element: Element, value: str) -> None:
        """The statement that computes ``element``, whose name is ``value``."""
        compute = COMPUTE.get(element.compute.cuda, element.compute.cuda)
        inner = [f"typedef {compute} Compute;"]
        if re.search(r"\bResult\b", element.code):
            inner.append(f"typedef {element.result.cuda} Result;")
        for letter, operand in zip(LETTERS, element.operands, strict=False):
            if type(operand) is Ref:
                source = self.names[operand]
            else:
                code = rules.number_code(element.compute)
                packed = packed_number(element.compute)(operand)
                source = self.number(f"number{len(self.scalars)}", code, packed)
            if re.search(rf"\b{letter}_\b", element.code):
                inner.append(f"const auto {letter}_ = {source};")
            if re.search(rf"\b{letter}\b", element.code):
                inner.append(f"const Compute {letter} = to_element<Compute>(to_compute({source}));")
        for name, code, number in element.numbers:
            inner.append(f"const auto {name} = {self.number(f'{name}{len(self.scalars)}', code, number)};")
        result = f"to_element<{element.result.cuda}>({element.code})"
        if element.result.cuda in _CONTRACTED:
            result = f"separate({result})"
        stored = element.out.layout.dtype
        if stored is not element.result:
            result = f"to_element<{stored.cuda}>(to_compute({result}))"
        inner.append(f"return {result};")
        # In a program's text a comment ends with its line.
        self.lines.append(f"// {element.step.name}, {element.step.line.rpartition('/')[2]}")
        self.lines.append(f"const auto {value} = [&] {{")
        self.lines += [f"    {line}" for line in inner]
        self.lines.append("}();")


def name_of(names: Iterable[str]) -> str:
    """A kernel's name, of those of its operations."""
    return "fused_" + _NO_LETTERS.sub("_", "_".join(dict.fromkeys(names)))[:48].strip("_")


def includes_of(elements: Sequence[Element]) -> list[str]:
    """Headers that the code of ``elements`` needs."""
    return list(dict.fromkeys(each for element in elements for each in element.include.split()))
