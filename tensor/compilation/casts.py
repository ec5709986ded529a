"""Casts that kernels make themselves: they write the dtype that is read, and read the dtype that is there.

Under autocast a normalization gives float32, which the product behind it reads in half precision; its gradient comes in half
precision, and is cast for it. Cross entropy gets logits in half precision, and its gradient goes back in it. Their kernels
convert as they load and store, so that neither is a kernel of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import float32
from tensor.core.plans.copies import COPIED
from tensor.operations.losses.classification import CROSS_ENTROPY, CROSS_ENTROPY_GRADIENT
from tensor.operations.normalization import row_normalization as normalization

from .tape import Ref, Step, refs
from .uses import Uses

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Operations whose first operand, the gradient, may be of another dtype than the input.
_BACKWARD = normalization.BACKWARD, normalization.GRADIENTS, normalization.WEIGHT_GRADIENTS


def absorb_casts(steps: Sequence[Step], needed: Iterable[int]) -> list[Step]:
    """``steps`` without the casts of what normalizations give and of gradients that they get, and of logits and their gradients.

    Parameters
    ----------
    steps : sequence of Step
        In order.
    needed : iterable of int
        Buffers that are read after the steps.
    """
    uses = Uses.of(steps, needed)
    casts = {step.result.buffer: position for position, step in enumerate(steps) if _is_cast(step)}
    removed: set[int] = set()
    result = dict(enumerate(steps))
    for position, step in enumerate(steps):
        operation = step.key[0]
        if operation is normalization.FORWARD:
            output = step.result[0]
            behind = uses.readers.get(output.buffer, [])
            if uses.is_passed_on(output.buffer) and len(behind) == 1 and _is_cast(steps[behind[0]]):
                cast = steps[behind[0]]
                if _is_narrowing(cast, output):
                    removed.add(behind[0])
                    result[position] = _with_result(step, cast)
        elif any(operation is each for each in _BACKWARD) and step.arguments[0].buffer in casts:
            before = casts[step.arguments[0].buffer]
            cast = steps[before]
            if _is_widening(cast, step.arguments[0]):
                number = cast.result.buffer
                source = cast.arguments[0].buffer
                others = (steps[each].key[0] in _BACKWARD for each in uses.readers[number])
                if uses.is_passed_on(number) and source not in uses.writers and all(others):
                    originals = (step,) if before in removed else (cast, step)
                    removed.add(before)
                    result[position] = _with_gradient(step, cast, originals)
    return _absorb_casts_of_logits(
        [step for position, step in result.items() if position not in removed], uses.needed
    )


#: Which operand of a loss has the logits.
_LOGITS = {CROSS_ENTROPY: 0, CROSS_ENTROPY_GRADIENT: 2}


def _absorb_casts_of_logits(steps: Sequence[Step], needed: set[int]) -> list[Step]:
    """``steps`` without the casts of logits to single precision, and of their gradients from it."""
    uses = Uses.of(steps, needed)
    makers = {ref.buffer: ref for step in steps for ref in refs(step.result)}
    result = dict(enumerate(steps))
    for position, cast in enumerate(steps):
        if not _is_cast(cast):
            continue
        source, logits = cast.arguments[0], cast.result
        readers = uses.readers.get(logits.buffer, [])
        if (
            readers
            and all(_is_loss_of(steps[each], cast) for each in readers)
            and uses.is_passed_on(logits.buffer)
            # Packs of logits begin at the same ones as in the result of the cast.
            and makers.get(source.buffer) is not None
            and source.offset == 0
            and source.buffer not in uses.writers
        ):
            del result[position]
            for number, each in enumerate(readers):
                result[each] = _of_cast_logits(result[each], cast, (cast,) if number == 0 else ())
    for position, step in list(result.items()):
        if step.key[0] is not CROSS_ENTROPY_GRADIENT:
            continue
        behind = uses.readers.get(step.result.buffer, [])
        if len(behind) == 1 and _is_cast(steps[behind[0]]) and uses.is_passed_on(step.result.buffer):
            cast = steps[behind[0]]
            if _is_narrowing(cast, step.result):
                del result[behind[0]]
                layout = step.result.layout.with_dtype(cast.result.layout.dtype)
                result[position] = _with_dtypes(
                    replace(
                        step,
                        result=Ref(cast.result.buffer, layout, cast.result.offset),
                        originals=(*(step.originals or (step,)), cast),
                    ),
                    step.key[1:6],
                )
    return list(result.values())


def _is_loss_of(step: Step, cast: Step) -> bool:
    """Whether all that a step reads of a cast to single precision are the logits of a loss."""
    position = _LOGITS.get(step.key[0]) if step.key[0].__hash__ is not None else None
    if position is None or [ref.buffer for ref in step.reads()].count(cast.result.buffer) != 1:
        return False
    logits = step.arguments[position]
    return logits.buffer == cast.result.buffer and _is_widening(cast, logits)


def _of_cast_logits(step: Step, cast: Step, originals: tuple[Step, ...]) -> Step:
    """A loss that reads what was cast for it."""
    position = _LOGITS[step.key[0]]
    logits, source = step.arguments[position], cast.arguments[0]
    ref = Ref(source.buffer, logits.layout.with_dtype(source.layout.dtype), source.offset)
    arguments = (*step.arguments[:position], ref, *step.arguments[position + 1 :])
    step = replace(step, arguments=arguments, originals=(*originals, *(step.originals or (step,))))
    return _with_dtypes(step, step.key[1:6])


def _with_dtypes(step: Step, key: tuple[Any, ...]) -> Step:
    """A loss with the plan for the dtypes that its logits and their gradient have; ``key`` is its own behind the operation."""
    operation = step.key[0]
    logits = step.arguments[_LOGITS[operation]].layout
    dtypes = (logits.dtype,) if operation is CROSS_ENTROPY else (logits.dtype, step.result.layout.dtype)
    full = (operation, *key, *dtypes)
    return replace(step, key=full, run=logits.device_state.plans[full])


def _is_cast(step: Step) -> bool:
    """Whether a step gives the same elements, in the same order in memory, as another dtype."""
    if step.key[0] is not COPIED or type(step.arguments[0]) is not Ref or type(step.result) is not Ref:
        return False
    to, origin = step.key[1:]
    return origin.contiguous and to is origin.with_dtype(to.dtype) and to.dtype is not origin.dtype


def _is_narrowing(cast: Step, output: Ref) -> bool:
    """Whether a cast rounds what a normalization computed in single precision, all of it."""
    to, origin = cast.key[1:]
    whole = cast.arguments[0].offset == output.offset and origin.numel == output.layout.numel
    return (
        whole
        and origin.dtype is float32
        and to.dtype.is_floating_point
        and not to.dtype.is_storage_only
        and (to.dtype.itemsize < origin.dtype.itemsize)
    )


def _is_widening(cast: Step, gradient: Ref) -> bool:
    """Whether a gradient is exactly what was cast to single precision."""
    to, origin = cast.key[1:]
    whole = gradient.offset == cast.result.offset and gradient.layout.numel == to.numel
    half = origin.dtype.is_floating_point and not origin.dtype.is_storage_only and origin.dtype.itemsize == 2
    return whole and gradient.layout.contiguous and to.dtype is float32 and half


def _with_result(step: Step, cast: Step) -> Step:
    output = cast.result
    key = (*step.key, output.layout.dtype)
    first, *others = step.result
    layout = first.layout.with_dtype(output.layout.dtype)
    return replace(
        step,
        key=key,
        run=layout.device_state.plans[key],
        result=(Ref(output.buffer, layout, output.offset), *others),
        originals=(step, cast),
    )


def _with_gradient(step: Step, cast: Step, originals: tuple[Step, ...]) -> Step:
    gradient = cast.arguments[0]
    layout = step.arguments[0].layout.with_dtype(gradient.layout.dtype)
    operation, _, *rest = step.key
    key = (operation, layout, *rest)
    plan: Any = layout.device_state.plans[key]
    return replace(
        step,
        key=key,
        run=plan,
        arguments=(Ref(gradient.buffer, layout, gradient.offset), *step.arguments[1:]),
        originals=originals,
    )
