"""Chains of pointwise operations become one kernel, which is written from the expressions of their rows.

A result that only one later operation reads, element by element, is not written to memory: the expression that computes it
stands where that operation would read it. Each value is rounded to its own dtype on the way, so that what is computed is what
the operations compute one by one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import layouts as strides_of
from nvrtc_kernels import pointwise as kernels
from tensor.core.base import maker
from tensor.core.dtypes import promotion as rules
from tensor.core.dtypes.scalars import packed_number
from tensor.core.plans.copies import COPIED
from tensor.operations.pointwise_operation import Pointwise

from .tape import Ref, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.layout import Layout

#: Tensors that a kernel reads at most.
MAX_INPUTS = 8
#: Operations in a kernel at most.
MAX_OPERATIONS = 48
_LETTERS = "abcdefgh"
#: What no name in CUDA C++ has.
_NO_LETTERS = re.compile(r"\W+")
#: Types of the values that are computed in, as kernels name them.
_COMPUTE = {"__half": "float", "__nv_bfloat16": "float", "Float8E4M3": "float", "Float8E5M2": "float"}


@dataclass(frozen=True, eq=False)
class Fused:
    """Operations that one kernel computes; it stands where their last step stood.

    Attributes
    ----------
    steps : tuple of Step
        What they were, in order.
    code : str
        The kernel's expression.
    """

    name: str
    steps: tuple[Step, ...]
    code: str


@dataclass(slots=True)
class _Element:
    """A pointwise step by its parts: what it computes in, what its result is rounded to, where it reads from."""

    step: Step
    compute: dtype
    result: dtype
    code: str
    include: str
    options: tuple[str, ...]
    masks: int
    operands: tuple[Any, ...]
    out: Ref


def fuse(steps: Sequence[Step], needed: Iterable[int]) -> list[Step]:
    """``steps`` with chains of pointwise operations as one step each.

    Parameters
    ----------
    steps : sequence of Step
        In order.
    needed : iterable of int
        Buffers that are read after the steps.
    """
    elements = {position: element for position, step in enumerate(steps) if (element := _element(step))}
    producer = {element.out.buffer: position for position, element in elements.items()}
    readers: dict[int, list[int]] = {}
    writers: dict[int, list[int]] = {}
    for position, step in enumerate(steps):
        for ref in step.reads():
            readers.setdefault(ref.buffer, []).append(position)
        for buffer in step.writes:
            writers.setdefault(buffer, []).append(position)
    results = set(needed)
    groups: dict[int, list[int]] = {position: [position] for position in elements}
    inside: dict[int, int] = {}
    for position, element in elements.items():
        members = groups[position]
        inputs = {ref for ref in element.operands if type(ref) is Ref}
        for ref in sorted(inputs, key=lambda each: -producer.get(each.buffer, -1)):
            source = producer.get(ref.buffer)
            if source is None or ref.buffer in results or elements[source].out != ref:
                continue
            if any(reader != position for reader in readers[ref.buffer]):
                continue
            joined = sorted({*members, *groups[source]})
            outer = _inputs([elements[each] for each in joined])
            if len(outer) > MAX_INPUTS or len(joined) > MAX_OPERATIONS:
                continue
            # Nothing may write what is read later now than before.
            if any(
                source < writer < position
                for each in groups[source]
                for operand in elements[each].operands
                if type(operand) is Ref
                for writer in writers.get(operand.buffer, ())
            ):
                continue
            members[:] = joined
            inside[source] = position
    result = []
    for position, step in enumerate(steps):
        if position in inside:
            continue
        members = groups.get(position, [])
        result.append(_fused([elements[each] for each in members]) if len(members) > 1 else step)
    return result


def recomputed(
    steps: Sequence[Step], later: Sequence[Step], available: Iterable[int], results: Iterable[int]
) -> list[Step]:
    """The pointwise ones of ``steps`` that are done again before ``later``, whose results are then not kept until there.

    Done again is what follows, element by element, from what is there anyway, and is read by pointwise operations only: it
    becomes part of their kernels, and costs neither a write nor a read.

    Parameters
    ----------
    steps : sequence of Step
        The forward pass, in order.
    later : sequence of Step
        The backward pass.
    available : iterable of int
        Buffers that are there anyway: the program's inputs and outputs.
    results : iterable of int
        Buffers that the backward pass gives.
    """
    written = {buffer for step in steps for buffer in step.writes}
    read: set[int] = set()
    as_whole = set(results)
    for step in later:
        buffers = {ref.buffer for ref in step.reads()}
        read |= buffers
        if _element(step) is None:
            as_whole |= buffers
    there = (set(available) | as_whole) - written
    follows: dict[int, Step] = {}
    for step in steps:
        element = _element(step)
        if element is None or element.out.buffer in written:
            continue
        number = element.out.buffer
        inputs = {ref.buffer for ref in element.operands if type(ref) is Ref}
        if number not in there and inputs <= there:
            follows[number] = step
            there.add(number)
        elif number in read:
            there.add(number)
    result: dict[int, Step] = {}
    asked = [number for number in read if number in follows]
    while asked:
        number = asked.pop()
        if number not in result:
            result[number] = follows[number]
            asked += [ref.buffer for ref in follows[number].reads() if ref.buffer in follows]
    return [step for step in steps if any(step is each for each in result.values())]


def _element(step: Step) -> _Element | None:
    """``step`` by its parts, if it is a pointwise operation with a new result that can be part of another."""
    operation = step.key[0]
    if type(step.result) is not Ref or step.draw is not None:
        return None
    layouts = [ref.layout for ref in step.reads()]
    out = step.result
    if any(ref.buffer == out.buffer for ref in step.reads()) or out.offset:
        return None
    if operation is COPIED:
        _, to, origin = step.key
        types = to.dtype, origin.dtype
        if any(each.is_complex or each.is_storage_only for each in types) or len(step.arguments) != 1:
            return None
        compute = rules.computes_in(origin.dtype)
        return _Element(step, compute, to.dtype, "a", "", (), 0, step.arguments, out)
    if not isinstance(operation, Pointwise) or step.key[1] is not None or operation.row_major:
        return None
    if any(each.dtype.is_complex or each.dtype.is_storage_only for each in (*layouts, out.layout)):
        return None
    compute, result = operation.types(step.key[2:])
    compute = rules.computes_in(compute)
    if compute.is_complex or compute.is_storage_only or result is not out.layout.dtype:
        return None
    code = operation.cuda if isinstance(operation.cuda, str) else operation.cuda(compute)
    return _Element(
        step,
        compute,
        result,
        code,
        operation.include,
        operation.options,
        operation.masks,
        step.arguments,
        out,
    )


def _inputs(elements: Sequence[_Element]) -> list[Ref]:
    """What a kernel of ``elements`` reads."""
    inner = {element.out for element in elements}
    result: dict[Ref, None] = {}
    for element in elements:
        for ref in element.operands:
            if type(ref) is Ref and ref not in inner:
                result[ref] = None
    return list(result)


def _fused(elements: Sequence[_Element]) -> Step:
    """One step for ``elements``, in order, of which the last one's result is written."""
    last = elements[-1]
    inputs = _inputs(elements)
    names = {ref: f"input{number}" for number, ref in enumerate(inputs)}
    lines = [f"const auto input{number} = {_LETTERS[number]}_;" for number in range(len(inputs))]
    scalars: list[tuple[str, str | int]] = []
    numbers: list[Any] = []
    for position, element in enumerate(elements):
        inner = [f"typedef {_COMPUTE.get(element.compute.cuda, element.compute.cuda)} Compute;"]
        for letter, operand in zip(_LETTERS, element.operands, strict=False):
            if type(operand) is Ref:
                value = names[operand]
            else:
                value = f"number{len(scalars)}"
                scalars.append((value, rules.number_code(element.compute)))
                numbers.append(packed_number(element.compute)(operand))
            inner.append(f"const auto {letter}_ = {value};")
            inner.append(f"const auto {letter} = to_element<Compute>(to_compute({letter}_));")
        value = f"value{position}"
        names[element.out] = value
        inner.append(f"return to_element<{element.result.cuda}>({element.code});")
        lines.append(f"// {element.step.name}, {element.step.line.rpartition('/')[2]}")
        lines.append(f"const auto {value} = [&] {{ {' '.join(inner)} }}();")
    lines.append(f"return {names[last.out]};")
    # In a program's text a comment ends with its line.
    code = "[&] {\n" + "".join(f"            {line}\n" for line in lines) + "        }()"
    distinct = list(dict.fromkeys(element.step.name for element in elements))
    name = "fused_" + _NO_LETTERS.sub("_", "_".join(distinct))[:48].strip("_")
    includes = [element.include for element in elements if element.include]
    if any(element.result.cuda in ("__half", "__nv_bfloat16") for element in elements):
        includes.insert(0, "half_elements.cuh")
    expression = kernels.Expression(
        name,
        code,
        tuple(scalars),
        include=" ".join(dict.fromkeys(includes)),
        options=tuple(dict.fromkeys(option for element in elements for option in element.options)),
    )
    fused = Fused(name, tuple(element.step for element in elements), code)
    run = _launched(last.out.layout, [ref.layout for ref in inputs], expression, tuple(numbers))
    return Step((fused, None, *(ref.layout for ref in inputs)), run, tuple(inputs), last.out, last.step.line)


def _launched(
    target: Layout, inputs: Sequence[Layout], expression: kernels.Expression, numbers: tuple[Any, ...]
) -> Callable[..., Any]:
    """What launches the kernel on tensors of these layouts, for a new tensor."""
    device_state: Any = target.device_state
    operands = [
        (strides_of.broadcast_strides(each.shape, each.strides, target.shape), each.dtype) for each in inputs
    ]
    launch = kernels.plan(
        device_state.native, expression, target.shape, (target.strides, target.dtype), *operands
    )
    make, local = maker(target), device_state.local

    def run(*tensors: Any) -> Any:
        out = make()
        launch(
            local.stream.handle,
            out._storage.address,
            *[x._storage.address + x._offset for x in tensors],
            *numbers,
        )
        return out

    return run
