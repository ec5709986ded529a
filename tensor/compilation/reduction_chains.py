"""Which pointwise operations are part of a reduction's kernel.

What a reduction reads of a chain is computed as it is loaded, and what goes on with its results is computed by the thread that
stores them, for each row: the root of a mean of squares, a bias, running averages that the moments of a batch move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvrtc_kernels.reduction_source import CTYPES, MOST_INPUTS
from tensor.core.dtypes import promotion as rules
from tensor.operations.reduction import Reduction

from .elements import inputs_of, lookups_of, obstacle_of_gathers
from .reduction_parts import is_cut, operands_of, reduced_of, written_of
from .tape import Ref

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .elements import Element
    from .reduction_parts import Reduced
    from .tape import Step
    from .uses import Uses

#: Tensors that what comes after a reduction reads and writes, at most, the reduction's own results among them.
_MOST_BESIDE = 10
#: Large tensors that a chain reads, at most, for a reduction to compute it once more rather than read its result.
_MOST_COMPUTED_FROM = 2
#: Bytes that a reduction may hold on to until what goes on with its results comes.
_MOST_HELD = 32 << 20


def reductions_of(
    steps: Sequence[Step], elements: dict[int, Element], producer: dict[int, int], uses: Uses
) -> dict[int, Reduced]:
    """The reductions among ``steps``, by position, with what they compute once more rather than read.

    That is an element of few tensors that are there anyway, where all others that read it are pointwise: a gradient through an
    activation, say, which the sums and the gradient of a batch normalization each make of the same two tensors. Of such
    elements the reductions are no readers any more, in ``uses``, but of what these are made of.
    """
    result = {position: parts for position, step in enumerate(steps) if (parts := reduced_of(step))}
    for position, reduced in result.items():
        if isinstance(reduced.step.key[0], Reduction):
            # Like ones are one launch, which reads what is there.
            continue
        for ref in reduced.operands:
            source = producer.get(ref.buffer, position)
            if source >= position or not _is_computed_twice(source, position, ref, elements, producer, uses):
                continue
            reduced.before.append(source)
            reduced.copied.add(source)
            uses.readers[ref.buffer].remove(position)
            for each in elements[source].inputs():
                readers = uses.readers[each.buffer]
                if position not in readers:
                    readers.append(position)
                    readers.sort()
    return result


def _is_computed_twice(
    source: int, position: int, ref: Ref, elements: dict[int, Element], producer: dict[int, int], uses: Uses
) -> bool:
    element = elements[source]
    readers = uses.readers[ref.buffer]
    others = [each for each in readers if each != position]
    inputs = {each.buffer: each for each in element.inputs()}.values()
    large = sum(each.layout.numel * 2 > ref.layout.numel for each in inputs)
    return (
        element.out == ref
        and not element.is_in_order
        and not element.gathers
        and not element.options
        and len(others) > 0
        and all(each in elements and each > position for each in others)
        and not uses.writers.get(ref.buffer)
        and 0 < len(inputs) <= large <= _MOST_COMPUTED_FROM
        and all(each.buffer not in producer or _is_in_memory(each.buffer, elements, uses) for each in inputs)
        and all(
            not source < writer < position for each in inputs for writer in uses.writers.get(each.buffer, ())
        )
    )


def _is_in_memory(buffer: int, elements: dict[int, Element], uses: Uses) -> bool:
    """Whether what an element gives is written, whatever kernel that is part of: others than elements read it."""
    return buffer in uses.needed or any(each not in elements for each in uses.readers.get(buffer, ()))


def join_before(
    position: int,
    reduced: Reduced,
    source: int,
    steps: Sequence[Step],
    groups: dict[int, list[int]],
    elements: dict[int, Element],
    uses: Uses,
    notes: dict[int, dict[str, None]],
) -> None:
    """Have a reduction compute what it reads of the element at ``source``, if it alone does."""
    members = groups[source]
    if source in reduced.before or members[-1] not in elements:
        return
    reason = _obstacle_before(position, reduced, source, members, elements, uses)
    if reason is not None:
        origin = steps[source]
        note = f"not with {origin.name} ({origin.line.rpartition('/')[2]}): {reason}"
        notes.setdefault(position, {})[note] = None
        return
    reduced.before = sorted({*reduced.before, *members})
    joined = sorted({*members, *groups.get(position, [position])})
    for each in joined:
        groups[each] = joined


def _obstacle_before(
    position: int,
    reduced: Reduced,
    source: int,
    members: Sequence[int],
    elements: dict[int, Element],
    uses: Uses,
) -> str | None:
    buffer = elements[source].out.buffer
    parts = [elements[each] for each in members]
    everything = [elements[each] for each in sorted({*members, *reduced.before})]
    there = {position, *members}
    inputs = operands_of(reduced, everything)
    if members[-1] != source or buffer in uses.needed or uses.readers[buffer] != [position]:
        return "its result is needed elsewhere"
    if any(each.writes for each in parts) or any(
        each.out.buffer in uses.needed
        or each.out.buffer in uses.writers
        or any(reader not in there for reader in uses.readers.get(each.out.buffer, ()))
        for each in parts
    ):
        return "its kernel has other results"
    if any(each.is_in_order for each in parts):
        return "it depends on the places of its elements"
    reason = obstacle_of_gathers(everything)
    if reason is not None:
        return reason
    if not 1 <= len(inputs) <= MOST_INPUTS:
        return f"a reduction reads 1 to {MOST_INPUTS} tensors"
    lookups = lookups_of(everything, inputs)
    if lookups and is_cut(reduced, inputs, lookups) and not is_cut(reduced, reduced.operands):
        return "as much that indices read would be shared by blocks, whose sums take another kernel"
    outs = {each.out.buffer: each.out for each in parts}
    if any(ref != outs.get(ref.buffer, ref) for ref in reduced.operands):
        return "it is read as another shape or another part"
    if any(each.options for each in parts):
        return "its kernel has options of its own"
    if any(
        member < writer < position
        for member, part in zip(members, parts, strict=True)
        for each in part.inputs()
        for writer in uses.writers.get(each.buffer, ())
    ):
        return "what it reads is written in between"
    if any(_has_complex_number(part) for part in parts):
        return "it has a complex number"
    return None


def _has_complex_number(element: Element) -> bool:
    return rules.number_code(element.compute) not in CTYPES and any(
        type(operand) is not Ref for operand in element.operands
    )


def join_after(
    position: int,
    reduced: Reduced,
    steps: Sequence[Step],
    groups: dict[int, list[int]],
    elements: dict[int, Element],
    uses: Uses,
    notes: dict[int, dict[str, None]],
) -> None:
    """Have a reduction go on with its results by the chains that read them, where these have an element for each row."""
    readers = {reader for ref in reduced.results for reader in uses.readers.get(ref.buffer, ())}
    for reader in sorted(readers):
        members = groups.get(reader)
        if reader < position or members is None or members is groups.get(position):
            continue
        if any(each not in elements for each in members):
            continue
        reason = _obstacle_after(position, reduced, members, steps, groups, elements, uses)
        if reason is None:
            reduced.after.append(members)
            joined = sorted({*members, *groups.get(position, [position])})
            for each in joined:
                groups[each] = joined
        else:
            origin = steps[position]
            note = f"not with {origin.name} ({origin.line.rpartition('/')[2]}): {reason}"
            notes.setdefault(reader, {})[note] = None


def _obstacle_after(
    position: int,
    reduced: Reduced,
    members: list[int],
    steps: Sequence[Step],
    groups: dict[int, list[int]],
    elements: dict[int, Element],
    uses: Uses,
) -> str | None:
    chain = [elements[each] for each in members]
    last = chain[-1].out
    results = {ref.buffer: ref for ref in reduced.results}
    if last.layout.numel != reduced.rows:
        return "it has another number of elements"
    if any(element.is_in_order for element in chain):
        return "it depends on the places of its elements"
    if any(element.options for element in chain):
        return "its kernel has options of its own"
    if any(_has_complex_number(element) for element in chain):
        return "it has a complex number"
    for element in chain:
        for ref in element.inputs():
            if ref.buffer in results and not _is_all(ref, results[ref.buffer]):
                return "it is read as another shape or another part"
    there = {*groups.get(position, [position]), *members}
    chains = [*([elements[each] for each in after] for after in reduced.after), chain]
    beside = len(reduced.results)
    for each in chains:
        shape = each[-1].out.layout.shape
        inputs = [ref for ref in inputs_of(each) if ref.buffer not in results]
        written = written_of(each, there, uses)
        if any(reduced.strides(ref, shape) is None for ref in (*inputs, *written)):
            return "what it reads lies in another way"
        if any(ref.layout.numel != reduced.rows for ref in written):
            return "its kernel has other results"
        beside += len(inputs) + len(written)
    if beside > _MOST_BESIDE:
        return "one kernel would read or write too much"
    return _obstacle_in_order(position, reduced, there, steps, elements, uses)


def _obstacle_in_order(
    position: int,
    reduced: Reduced,
    there: set[int],
    steps: Sequence[Step],
    elements: dict[int, Element],
    uses: Uses,
) -> str | None:
    """Why the steps at positions ``there`` cannot be done where the last of them stands."""
    end = max(there)
    new = {ref.buffer for ref in reduced.results}
    new |= {elements[each].out.buffer for each in there if each in elements and not elements[each].writes}
    written = [elements[each].out for each in there if each in elements and elements[each].writes]
    if any(each.buffer in new for each in written):
        return "it writes a part of a result"
    held = 0
    for member in there | set(reduced.before):
        element = elements.get(member)
        own = element.out if element is not None and element.writes else None
        for ref in element.inputs() if element is not None else reduced.operands:
            if any(ref.buffer == each.buffer and ref is not own and ref != each for each in written):
                return "it reads other elements of what is written in place"
            if element is None or member < position:
                if any(ref.buffer == each.buffer for each in written):
                    return "it reads what is written in place"
                if ref.buffer not in new:
                    held += ref.layout.nbytes
            if ref.buffer not in new and any(
                member < writer < end and writer not in there for writer in uses.writers.get(ref.buffer, ())
            ):
                return "what it reads is written in between"
        if own is not None:
            others = (*uses.readers.get(own.buffer, ()), *uses.writers.get(own.buffer, ()))
            if any(member != each and (each in there or member < each < end) for each in others):
                return "what it writes is used in between"
    for buffer in new:
        if any(reader < end and reader not in there for reader in uses.readers.get(buffer, ())):
            return "its result is needed in between"
    if held > _MOST_HELD and any(each not in there for each in range(position, end)):
        return "what it reads would be held for long"
    return None


def _is_all(ref: Ref, whole: Ref) -> bool:
    """Whether ``ref`` shows all elements of ``whole`` in their order."""
    return (
        ref.offset == whole.offset
        and ref.layout.dtype is whole.layout.dtype
        and ref.layout.numel == whole.layout.numel
        and ref.layout.contiguous
        and whole.layout.contiguous
    )
