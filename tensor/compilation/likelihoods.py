"""Negative log-likelihoods of log-probabilities as elements: what their targets name, and what the targets weigh.

One plan gives both, the loss of each target and its weight. Here they are a step each, so that the kernel that sums them, or what
goes on with the losses, looks them up itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import layouts as strides_of
from nvrtc_kernels.losses import statistics_type
from tensor.operations.losses.classification import MEAN, NLL

from .elements import LETTERS, Element, Gather
from .tape import Ref, refs
from .uses import Uses

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nvrtc_kernels.layouts import Ints
    from nvrtc_kernels.losses import Classes
    from tensor.core.layout import Layout

    from .tape import Step

#: What the kernel of a loss says of a target that is no class, as :attr:`.elements.Gather.bounds`.
_BOUNDS = (
    "struct Bounds {\n    static __device__ void check(bool inside, int, long long target, long long classes) {\n"
    '        if (!inside) printf("target %lld is out of bounds: there are %lld classes\\n", target, classes);\n'
    '        assert(inside && "a target is no class");\n    }\n};\n'
)


def split_likelihoods(steps: Sequence[Step], needed: Iterable[int]) -> list[Step]:
    """``steps`` with each likelihood as two elements where the next step takes their mean, or as one where weights are not read.

    Targets that the steps compute stay with the kernel that looks at them.

    Parameters
    ----------
    steps : sequence of Step
        In order.
    needed : iterable of int
        Buffers that are read after the steps.
    """
    if not any(step.key[0] is NLL for step in steps):
        return list(steps)
    uses = Uses.of(steps, needed)
    computed = {ref.buffer for step in steps for ref in refs(step.result)}
    result: list[Step] = []
    reshaped: dict[int, Step] = {}
    for position, step in enumerate(steps):
        if step.key[0] is not NLL or not _is_split(position, steps, uses, computed):
            result.append(reshaped.get(position, step))
            continue
        losses, weights = step.result
        result.append(_part(step, 0, is_part=False))
        if weights.buffer in uses.readers:
            result.append(_part(step, 1, is_part=True))
            mean = steps[position + 1]
            layout = _lines(losses, step.key[3])
            operands = tuple(Ref(each.buffer, layout, each.offset) for each in mean.arguments)
            reshaped[position + 1] = replace(mean, key=(MEAN, layout, *mean.key[2:]), arguments=operands)
    return result


def _is_split(position: int, steps: Sequence[Step], uses: Uses, computed: set[int]) -> bool:
    _, target, _ = steps[position].arguments
    losses, weights = steps[position].result
    if target.buffer in computed or not uses.is_passed_on(weights.buffer):
        return False
    readers = [uses.readers.get(each.buffer, []) for each in (losses, weights)]
    if not readers[1]:
        return True
    is_mean = position + 1 < len(steps) and steps[position + 1].key[0] is MEAN
    return is_mean and readers == [[position + 1]] * 2 and uses.is_passed_on(losses.buffer)


def _part(step: Step, number: int, *, is_part: bool) -> Step:
    """The step that gives one of the results of ``step``, whose work is counted elsewhere if it is a part."""
    whole: Any = step.run
    return replace(
        step,
        key=(*step.key, number),
        run=lambda *arguments: whole(*arguments)[number],
        result=step.result[number],
        originals=(step,),
        is_part=is_part,
    )


def _lines(ref: Ref, sizes: Classes) -> Layout:
    """The layout of what has an element for each line, in dimensions in which lines follow one another in steps."""
    layout = ref.layout
    shape = (sizes.outer, sizes.inner) if 1 not in (sizes.outer, sizes.inner) else layout.shape
    return layout.with_strides(shape, strides_of.contiguous_strides(shape))


def likelihood_of(step: Step) -> Element | None:
    """A step of :func:`split_likelihoods` by its parts; ``None`` for the likelihood as a whole."""
    if type(step.result) is not Ref:
        return None
    *_, sizes, number = step.key
    x, target, weight = step.arguments
    out = Ref(step.result.buffer, _lines(step.result, sizes), step.result.offset)
    shape = out.layout.shape
    index = Ref(target.buffer, target.layout.with_strides(shape, out.layout.strides), target.offset)
    line = sizes.classes * sizes.inner
    starts = (line, 1) if len(shape) > 1 else (line,) if sizes.inner == 1 else (1,)
    gathers: list[Gather] = []
    operands: list[Ref] = [index]
    shown = [(index, target)]

    def look_up(table: Ref, strides: Ints, between: int) -> None:
        ref = Ref(table.buffer, table.layout.with_strides(shape, strides), table.offset)
        reach = table.layout.numel
        gathers.append(Gather(ref, index, sizes.classes, between, reach, False, _BOUNDS, 0, sizes.ignored))
        operands.append(ref)
        shown.append((ref, table))

    code = "Compute(1)"
    if weight is not None:
        look_up(weight, (0,) * len(shape), 1)
        code = "b"
    if number == 0:
        look_up(x, starts, sizes.inner)
        code = "-b" if weight is None else "-b * c"
    return Element(
        step,
        out.layout.dtype,
        out.layout.dtype,
        f"a_ == ignored ? Compute(0) : {code}",
        tuple(operands),
        out,
        numbers=(("ignored", "q", sizes.ignored),),
        gathers=tuple(gathers),
        shown=tuple(shown),
    )


def likelihood_gradient_of(step: Step) -> Element | None:
    """The gradient of log-probabilities, which is not 0 at targets alone; ``None`` on the CPU.

    The expressions are those of ``nll_backward`` in ``cuda/losses.cuh``.
    """
    _, grad_layout, layout, _, sizes = step.key
    grad, total, target, weight = step.arguments
    if not layout.device_state.is_cuda or not layout.numel or step.result.offset:
        return None
    classes = min(1, len(layout.shape) - 1)
    strides = [*target.layout.strides]
    strides.insert(classes, 0)
    shape = tuple(1 if axis == classes else size for axis, size in enumerate(layout.shape))

    def of_lines(ref: Ref) -> Ref:
        return Ref(ref.buffer, ref.layout.with_strides(shape, tuple(strides)), ref.offset)

    index = of_lines(target)
    operands = [index, of_lines(grad) if grad_layout.shape else grad]
    shown = [(index, target), (operands[1], grad)]
    gathers: tuple[Gather, ...] = ()
    value = "b"
    if total is not None:
        operands.append(total)
        value = "b / c"
    own = "Compute(1)"
    if weight is not None:
        own = LETTERS[len(operands)]
        table = Ref(
            weight.buffer, weight.layout.with_strides(layout.shape, (0,) * len(layout.shape)), weight.offset
        )
        gathers = (Gather(table, index, sizes.classes, 1, sizes.classes, False, _BOUNDS, 0, sizes.ignored),)
        operands.append(table)
        shown.append((table, weight))
    number = "number" if layout.numel >= 1 << 32 else "static_cast<unsigned int>(number)"
    if sizes.inner > 1:
        number = f"{number} / {sizes.inner}u"
    is_target = f"a_ != ignored && static_cast<long long>({number} % {sizes.classes}u) == a_"
    compute = statistics_type(layout.dtype)
    return Element(
        step,
        compute,
        layout.dtype,
        f"{is_target} ? -({own}) * ({value}) : Compute(0)",
        tuple(operands),
        step.result,
        numbers=(("ignored", "q", sizes.ignored),),
        gathers=gathers,
        shown=tuple(shown),
        numbered=True,
    )
