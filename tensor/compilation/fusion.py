"""Chains of pointwise operations become one kernel, which is written from the expressions of their rows.

A result that only operations of its kernel read, element by element, is not written to memory: it is a value of the kernel.
One that is read elsewhere too is written out by the same kernel. Each value is rounded to its own dtype on the way and takes
part in no contraction with another operation's, so that what is computed is what the operations compute one by one, bit for
bit. Dropout draws the words that it would draw by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import fused_pointwise, host_loops
from nvrtc_kernels import layouts as strides_of
from nvrtc_kernels import pointwise as kernels
from nvrtc_kernels.dtypes import Category
from tensor.core.base import maker

from .activated_products import activated_products
from .element_forms import element_of, reshaped
from .elements import (
    LETTERS,
    Element,
    Fused,
    Text,
    includes_of,
    inputs_of,
    lookups_of,
    name_of,
    obstacle_of_gathers,
    originals_of,
    recorded,
    results_of,
    tell_tables_apart,
)
from .fused_reductions import fused_reduction
from .reduction_chains import join_after, join_before, reductions_of
from .rows import fused_rows
from .tape import Launch, Ref, Step, refs
from .uses import Uses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

#: Tensors that a kernel reads and writes at most.
MAX_INPUTS, MAX_OUTPUTS = 12, 4
#: Operations in a kernel at most.
MAX_OPERATIONS = 48


def fuse(steps: Sequence[Step], needed: Iterable[int]) -> list[Step]:
    """``steps`` with chains of pointwise operations as one step each.

    Why two of them that follow from one another stay apart is among the ``notes`` of the second.

    Parameters
    ----------
    steps : sequence of Step
        In order.
    needed : iterable of int
        Buffers that are read after the steps.
    """
    elements = _elements_of(steps)
    producer = {element.out.buffer: position for position, element in elements.items() if not element.writes}
    uses = Uses.of(steps, needed)
    notes: dict[int, dict[str, None]] = {}
    reductions = reductions_of(steps, elements, producer, uses)
    groups = _chains(steps, elements, producer, uses, notes)
    for position, reduced in reductions.items():
        sources = {producer.get(ref.buffer, position) for ref in reduced.operands}
        for source in sorted(sources, reverse=True):
            if source < position:
                join_before(position, reduced, source, steps, groups, elements, uses, notes)
    for position, reduced in reductions.items():
        join_after(position, reduced, steps, groups, elements, uses, notes)
    joined = {
        groups.get(position, [position])[-1]: reduced
        for position, reduced in reductions.items()
        if reduced.is_joined
    }
    activated = activated_products(steps, groups, elements, uses, _alone)
    rows = fused_rows(steps, groups, elements, uses, notes, activated=activated)
    positions = {
        ref.buffer: position
        for position, each in rows.items()
        if each is not None
        for ref in refs(each.result)
    }
    for position, product in activated.items():
        is_there = all(positions.get(ref.buffer, -1) < position for ref in product.step.reads())
        if is_there and rows.keys().isdisjoint(product.positions):
            rows |= dict.fromkeys(product.positions)
            rows[position] = product.step
    result = []
    for position, step in enumerate(steps):
        if position in rows:
            fused = rows[position]
            if fused is not None:
                result.append(fused)
            continue
        members = groups.get(position, [position])
        if position != members[-1]:
            continue
        if position in joined:
            step = fused_reduction(joined[position], elements, members, uses)
        elif len(members) > 1:
            fused = _fused([elements[each] for each in members], results_of(members, elements, uses))
            assert fused is not None, "a device has a kernel for every chain"
            step = fused
        step.notes = list(dict.fromkeys(note for each in members for note in notes.get(each, ())))
        result.append(step)
    return result


def _elements_of(steps: Sequence[Step]) -> dict[int, Element]:
    """The elements among ``steps``, by position, where what an index reads has the shape in which it is read."""
    elements = {position: element for position, step in enumerate(steps) if (element := element_of(step))}
    gathered = {element.out.buffer for element in elements.values() if element.gathers}
    readers: dict[int, set[Ref]] = {}
    for step in steps:
        for ref in step.reads():
            if ref.buffer in gathered:
                readers.setdefault(ref.buffer, set()).add(ref)
    for position, element in elements.items():
        read = readers.get(element.out.buffer, set())
        if element.gathers and len(read) == 1 and element.out not in read:
            (ref,) = read
            if ref.layout.contiguous and not ref.offset and ref.layout.numel == element.out.layout.numel:
                elements[position] = reshaped(element, ref.layout.shape) or element
    tell_tables_apart(elements)
    return elements


def fuse_on_host(steps: Sequence[Step], needed: Iterable[int]) -> list[Step]:
    """The same for tensors on the CPU, as native loops: of reductions, sums alone compute what they read.

    Operations on few elements, and chains that have no loop, stay apart.
    """
    elements = {
        position: element
        for position, step in enumerate(steps)
        if (element := element_of(step)) and _has_loop(element)
    }
    producer = {element.out.buffer: position for position, element in elements.items() if not element.writes}
    uses = Uses.of(steps, needed)
    notes: dict[int, dict[str, None]] = {}
    groups = _chains(steps, elements, producer, uses, notes)
    rows = fused_rows(steps, groups, elements, uses, notes, on_host=True)
    fused: dict[int, Step] = {}
    for members in groups.values():
        if len(members) < 2 or members[-1] in fused:
            continue
        step = _fused([elements[each] for each in members], results_of(members, elements, uses))
        if step is None:
            notes.setdefault(members[-1], {})["a chain of its operations has no native loop"] = None
            # The list of all of them.
            members.clear()
        else:
            fused[members[-1]] = step
    result = []
    for position, step in enumerate(steps):
        if position in rows:
            joined = rows[position]
            if joined is not None:
                result.append(joined)
            continue
        members = groups.get(position) or [position]
        if position == members[-1]:
            step = fused.get(position, step)
            step.notes = list(dict.fromkeys(note for each in members for note in notes.get(each, ())))
            result.append(step)
    return result


def _has_loop(element: Element) -> bool:
    """Whether an element is one of floating point, or of truth values, on many elements."""
    known = (Category.FLOATING, Category.BOOL)
    layouts = [element.out.layout, *(ref.layout for ref in element.inputs())]
    dtypes = (element.compute, element.result, *(layout.dtype for layout in layouts))
    return host_loops.worth(element.out.layout.numel) and all(dtype.category in known for dtype in dtypes)


def _chains(
    steps: Sequence[Step],
    elements: dict[int, Element],
    producer: dict[int, int],
    uses: Uses,
    notes: dict[int, dict[str, None]],
) -> dict[int, list[int]]:
    """Which elements, by position, are one with which; ``producer`` says which gives a buffer."""
    groups: dict[int, list[int]] = {position: [position] for position in elements}
    for position, element in elements.items():
        sources = {producer[ref.buffer] for ref in element.inputs() if ref.buffer in producer}
        for source in sorted(sources, reverse=True):
            if source >= position or groups[source] is groups[position]:
                continue
            joined = sorted(groups[source] + groups[position])
            reason = _obstacle(joined, elements, uses)
            if reason is None:
                for each in joined:
                    groups[each] = joined
            else:
                origin = steps[source]
                note = f"not with {origin.name} ({origin.line.rpartition('/')[2]}): {reason}"
                notes.setdefault(position, {})[note] = None
    return groups


def _obstacle(members: Sequence[int], elements: dict[int, Element], uses: Uses) -> str | None:
    """Why the elements at these positions, in order, cannot be one kernel at the last one's place."""
    parts = [elements[each] for each in members]
    last, end, there = parts[-1], members[-1], set(members)
    if len(members) > MAX_OPERATIONS or len(inputs_of(parts)) > MAX_INPUTS:
        return "one kernel would read too much"
    if any(each.writes for each in parts[:-1]):
        return "what is written in place ends a kernel"
    draws = [each for each in parts if each.drop is not None]
    if len(draws) > 1:
        return "a kernel draws random numbers once"
    layout = last.out.layout
    if any(each.is_in_order for each in parts) and not (
        layout.contiguous and all(each.out.layout.shape == layout.shape for each in parts if each.is_in_order)
    ):
        return "it depends on the places of its elements"
    reason = obstacle_of_gathers(parts)
    if reason is not None:
        return reason
    new = {part.out.buffer: part.out for part in parts if not part.writes}
    if any(gather.table.buffer == last.out.buffer for part in parts for gather in part.gathers):
        return "it reads other elements of what is written in place"
    results = results_of(members, elements, uses)
    if len(results) > MAX_OUTPUTS:
        return "one kernel would write too much"
    for member, part in zip(members, parts, strict=True):
        for ref in part.inputs():
            if ref.buffer in new and new[ref.buffer] != ref:
                return "it is read as another shape or another part"
            if last.writes and ref.buffer == last.out.buffer and ref != last.out:
                return "it reads other elements of what is written in place"
            if ref.buffer not in new and any(
                member < writer < end for writer in uses.writers.get(ref.buffer, ())
            ):
                return "what it reads is written in between"
        if part in results and part is not last:
            place = part.out.layout
            if place.shape != layout.shape or place.strides != layout.strides:
                return "its result is needed, and has another layout"
            if any(reader < end and reader not in there for reader in uses.readers.get(part.out.buffer, ())):
                return "its result is needed in between"
    return None


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
        element = element_of(step)
        if element is None or element.gathers:
            as_whole |= buffers
    there = (set(available) | as_whole) - written
    follows: dict[int, Step] = {}
    for step in steps:
        element = element_of(step)
        if element is None or element.writes or element.gathers or element.out.buffer in written:
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


def _fused(elements: Sequence[Element], results: Sequence[Element]) -> Step | None:
    """One step for ``elements``, in order, of which those in ``results`` are written, the last one among them.

    ``None`` on the CPU, if there is no loop that does it.
    """
    last = elements[-1]
    inputs = inputs_of(elements)
    text = Text(names={ref: f"input{number}" for number, ref in enumerate(inputs)})
    values: dict[int, str] = {}
    for position, element in enumerate(elements):
        value = values[id(element)] = f"value{position}"
        text.add(element, value)
        if not element.writes:
            text.names[element.out] = value
    draw = next((element for element in elements if element.drop is not None), None)
    name = name_of(element.step.name for element in elements)
    includes = includes_of(elements)
    options = tuple(dict.fromkeys(option for element in elements for option in element.options))
    outs = [last.out, *(each.out for each in results if each is not last)]
    written = [values[id(last)], *(values[id(each)] for each in results if each is not last)]
    target = last.out.layout
    operands = [
        (strides_of.broadcast_strides(ref.layout.shape, ref.layout.strides, target.shape), ref.layout.dtype)
        for ref in inputs
    ]
    device_state: Any = target.device_state
    lookups = lookups_of(elements, inputs)
    in_order = any(element.is_in_order for element in elements)
    if not in_order and len(outs) == 1 and len(inputs) <= len(LETTERS) and not lookups:
        lines = [f"const auto input{number} = {LETTERS[number]}_;" for number in range(len(inputs))]
        code = "".join(f"            {line}\n" for line in (*lines, *text.lines, f"return {written[0]};"))
        code = f"[&] {{\n{code}        }}()"
        expression = kernels.Expression(
            name,
            code,
            tuple(text.scalars),
            include=" ".join((*includes, "separate_values.cuh")),
            options=options,
        )
        output = target.strides, target.dtype
        launch = (
            kernels.plan(device_state.native, expression, target.shape, output, *operands)
            if device_state.is_cuda
            else kernels.plan_on_host(expression, target.shape, output, *operands)
        )
    else:
        code = "\n".join((*text.lines, f"return {', '.join(written)};"))
        seeds = [] if draw is None else [("seed", "Q"), ("call", "Q")]
        chain = fused_pointwise.Chain(
            name,
            tuple(text.lines),
            tuple(written),
            (*seeds, *text.scalars),
            draw is not None,
            tuple(includes),
            options,
            lookups,
        )
        shapes = target.shape, target.strides, [ref.layout.dtype for ref in outs]
        launch = (
            fused_pointwise.plan(device_state.native, chain, *shapes, *operands)
            if device_state.is_cuda
            else fused_pointwise.plan_on_host(chain, *shapes, *operands)
        )
    if launch is None:
        return None
    if not device_state.is_cuda:
        launch = _without_stream(launch)
    makers = [maker(ref.layout) for ref in outs[last.writes :]]
    run = Launch(launch, makers, tuple(text.numbers), draw is not None, last.writes)
    fused = Fused(name, code)
    result: Any = outs[1:] if last.writes else outs if len(outs) > 1 else outs[0]
    arguments: tuple[Any, ...] = (*([last.out] if last.writes else []), *recorded(inputs, elements))
    originals = originals_of(elements)
    key = (fused, None, *(ref.layout for ref in inputs))
    step = Step(key, run, arguments, result, last.step.line, originals=originals)
    if draw is not None:
        step.arguments = (draw.drop, *arguments)
        step.draw = draw.step.draw
    if last.writes:
        step.writes = {last.out.buffer}
        step.result = result or None
    return step


def _alone(element: Element) -> Step:
    step = _fused([element], [element])
    assert step is not None, "a device has a kernel for every operation"
    return step


def _without_stream(loop: Callable[..., None]) -> Callable[..., None]:
    return lambda _, *arguments: loop(*arguments)
