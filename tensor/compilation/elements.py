"""Pointwise steps by their parts, and the text of a kernel that computes several of them.

Each value is rounded to its own dtype and takes part in no contraction with another operation's, so that a kernel computes
what the operations compute one by one, bit for bit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nvrtc_kernels.normalization import statistics_type
from tensor.core.dtypes import promotion as rules
from tensor.core.dtypes.scalars import packed_number
from tensor.core.plans.copies import COPIED, COPY
from tensor.operations.normalization.batch_normalization import APPLY, INPUT_GRADIENT
from tensor.operations.pointwise_operation import Pointwise
from tensor.operations.random.dropout import DROPOUT

from .tape import Ref, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nvrtc_kernels.dtypes import dtype

    from .uses import Uses

LETTERS = "abcdefgh"
#: What no name in CUDA C++ has.
_NO_LETTERS = re.compile(r"\W+")
#: Types of the values that are computed in, as kernels name them.
COMPUTE = {"__half": "float", "__nv_bfloat16": "float", "Float8E4M3": "float", "Float8E5M2": "float"}
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

    def inputs(self) -> list[Ref]:
        """Operands in memory."""
        return [each for each in self.operands if type(each) is Ref]


def element_of(step: Step) -> Element | None:
    """``step`` by its parts, if it is a pointwise operation that can be part of a kernel with others."""
    operation = step.key[0]
    if operation is DROPOUT:
        return _dropout(step)
    if step.draw is not None:
        return None
    if operation is APPLY or operation is INPUT_GRADIENT:
        return _of_channels(step)
    if operation is COPY or (isinstance(operation, Pointwise) and step.key[1] is not None):
        if not step.arguments or type(step.arguments[0]) is not Ref:
            return None
        out, operands, writes = step.arguments[0], step.arguments[1:], True
        operands = operands[:1] if operation is COPY else operands
        if out.buffer not in step.writes:
            return None
    elif operation is COPIED or isinstance(operation, Pointwise):
        if type(step.result) is not Ref:
            return None
        out, operands, writes = step.result, step.arguments, False
        if out.offset or any(type(each) is Ref and each.buffer == out.buffer for each in operands):
            return None
    else:
        return None
    layouts = [each.layout for each in operands if type(each) is Ref]
    if any(each.dtype.is_complex or each.dtype.is_storage_only for each in (*layouts, out.layout)):
        return None
    if not isinstance(operation, Pointwise):
        if len(operands) != 1 or len(layouts) != 1:
            return None
        compute = rules.computes_in(layouts[0].dtype)
        return Element(step, compute, out.layout.dtype, "a", operands, out, writes)
    if operation.row_major:
        return None
    compute, result = operation.types(step.key[2:])
    compute = rules.computes_in(compute)
    if compute.is_complex or compute.is_storage_only or result.is_complex or result.is_storage_only:
        return None
    code = operation.cuda if isinstance(operation.cuda, str) else operation.cuda(compute)
    return Element(step, compute, result, code, operands, out, writes, operation.include, operation.options)


def _dropout(step: Step) -> Element | None:
    """A dropout that gives a new tensor."""
    drop, *operands = step.arguments
    _, layout, inner = step.key
    if step.draw is None or type(step.result) is not Ref or len(operands) != 1:
        return None
    if layout.dtype.is_complex or layout.dtype.is_storage_only:
        return None
    number = "number" if inner == 1 else f"number / {inner}"
    code = f"random_word(seed, call, {number}) < below ? a * Compute(scale) + Compute(shift) : Compute(otherwise)"
    numbers = (
        ("below", "Q", drop.below),
        ("scale", "d", drop.scale),
        ("shift", "d", drop.shift),
        ("otherwise", "d", drop.otherwise),
    )
    return Element(
        step,
        rules.computes_in(layout.dtype),
        layout.dtype,
        code,
        tuple(operands),
        step.result,
        drop=drop,
        numbers=numbers,
    )


#: The reciprocal of the standard deviation, of the variance ``{}``.
_SCALE = "rsqrt({} + static_cast<Compute>(eps))"


def _of_channels(step: Step) -> Element | None:
    """What a batch normalization does to elements, once the moments of channels are known, or the gradient of that.

    The expressions are those of ``cuda/channel_normalization.cuh``.
    """
    if type(step.result) is not Ref or not step.result.layout.device_state.is_cuda:
        return None
    layout, operands, numbers = step.result.layout, step.arguments, []
    if not layout.numel:
        return None
    if step.key[0] is APPLY:
        x, mean, variance, weight, bias, eps = operands
        scale = _SCALE.format("c") + (" * d" if weight is not None else "")
        shift = "Compute(0)" if bias is None else "d" if weight is None else "e"
        code = f"(a - b) * ({scale}) + {shift}"
        vectors: tuple[Any, ...] = (mean, variance, weight, bias)
        rows = [x]
    else:
        grad, x, mean, variance, weight, sums, eps = operands
        if step.key[1]:
            scale = _SCALE.format("d")
            code = f"(a - (e + (b - c) * {scale} * f) * static_cast<Compute>(share)) * {scale}"
            vectors, rows = (mean, variance, *sums, weight), [grad, x]
            numbers.append(("share", "d", 1 / (layout.numel // layout.shape[1])))
        else:
            code, vectors, rows = f"a * {_SCALE.format('b')}", (variance, weight), [grad]
        code += "" if weight is None else f" * {'g' if step.key[1] else 'c'}"
    numbers.append(("eps", "d", eps))
    refs = (*rows, *(channel_vector(each, len(layout.shape)) for each in vectors if each is not None))
    if any(each.layout.dtype.is_complex or each.layout.dtype.is_storage_only for each in refs):
        return None
    compute = statistics_type(layout.dtype)
    return Element(step, compute, layout.dtype, code, refs, step.result, numbers=tuple(numbers))


def channel_vector(ref: Ref, rank: int) -> Ref:
    """A vector of channels as it is broadcast to tensors of ``rank`` dimensions, of which the second counts channels."""
    size, stride = ref.layout.shape[0], ref.layout.strides[0]
    others = rank - 2
    layout = ref.layout.with_strides((size, *[1] * others), (stride, *[0] * others))
    return Ref(ref.buffer, layout, ref.offset)


def as_vector(ref: Ref) -> Ref:
    """The vector that :func:`channel_vector` was given; other refs as they are."""
    shape, strides = ref.layout.shape, ref.layout.strides
    if len(shape) < 2 or any(strides[1:]) or any(size != 1 for size in shape[1:]):
        return ref
    return Ref(ref.buffer, ref.layout.with_strides(shape[:1], strides[:1]), ref.offset)


def inputs_of(elements: Sequence[Element]) -> list[Ref]:
    """What a kernel of ``elements`` reads."""
    inner = {element.out for element in elements if not element.writes}
    return list(dict.fromkeys(ref for element in elements for ref in element.inputs() if ref not in inner))


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


def includes_of(elements: Sequence[Element], text: Text) -> list[str]:
    """Headers that the code of ``elements`` needs."""
    result = [each for element in elements for each in element.include.split()]
    if any("__half" in line or "__nv_bfloat16" in line for line in text.lines):
        result.insert(0, "half_elements.cuh")
    return list(dict.fromkeys(result))
