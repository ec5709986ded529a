"""Steps as elements: pointwise operations, casts, dropout, what is read by an index, and what normalizations do to elements."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import indexing
from nvrtc_kernels import layouts as strides_of
from nvrtc_kernels.normalization import statistics_type
from tensor.core.dtypes import promotion as rules
from tensor.core.plans.copies import COPIED, COPY
from tensor.operations.indexing.advanced_indexing import READ, selection_of
from tensor.operations.losses.classification import NLL, NLL_GRADIENT
from tensor.operations.normalization.batch_normalization import APPLY, INPUT_GRADIENT
from tensor.operations.pointwise_operation import Pointwise
from tensor.operations.random.dropout import DROPOUT

from .elements import LETTERS, Element, Gather
from .likelihoods import likelihood_gradient_of, likelihood_of
from .tape import Ref

if TYPE_CHECKING:
    from .tape import Step


def element_of(step: Step) -> Element | None:
    """``step`` by its parts, if it is a pointwise operation that can be part of a kernel with others."""
    operation = step.key[0]
    if operation is DROPOUT:
        return _dropout(step)
    if step.draw is not None:
        return None
    if operation is READ:
        return _gathered(step)
    if operation is NLL:
        return likelihood_of(step)
    if operation is NLL_GRADIENT:
        return likelihood_gradient_of(step)
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
    product = "a * Compute(scale)"
    if layout.device_state.is_cuda:
        word = f"random_word(seed, call, {'number' if inner == 1 else f'number / {inner}'})"
    elif inner == 1:
        # The loop of dropout alone rounds the product, too.
        word, product = "word", f"separate({product})"
    else:
        return None
    code = f"{word} < below ? {product} + Compute(shift) : Compute(otherwise)"
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
    if type(step.result) is not Ref:
        return None
    layout, operands, numbers = step.result.layout, step.arguments, []
    if not layout.numel:
        return None
    if step.key[0] is APPLY:
        x, mean, variance, weight, bias, eps = operands
        scale = _SCALE.format("c") + (" * d" if weight is not None else "")
        shift = "Compute(0)" if bias is None else "d" if weight is None else "e"
        code = f"fma(a - b, {scale}, {shift})"
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
    shown = tuple((channel_vector(each, len(layout.shape)), each) for each in vectors if each is not None)
    refs = (*rows, *(vector for vector, _ in shown))
    if any(each.layout.dtype.is_complex or each.layout.dtype.is_storage_only for each in refs):
        return None
    compute = statistics_type(layout.dtype)
    return Element(step, compute, layout.dtype, code, refs, step.result, numbers=tuple(numbers), shown=shown)


def channel_vector(ref: Ref, rank: int) -> Ref:
    """A vector of channels as it is broadcast to tensors of ``rank`` dimensions, of which the second counts channels."""
    size, stride = ref.layout.shape[0], ref.layout.strides[0]
    others = rank - 2
    layout = ref.layout.with_strides((size, *[1] * others), (stride, *[0] * others))
    return Ref(ref.buffer, layout, ref.offset)


def _gathered(step: Step) -> Element | None:
    """What indices read."""
    _, layout, name, mode, dim, *indices = step.key
    table, tensors = step.arguments
    result = step.result
    if type(result) is not Ref or len(tensors) >= len(LETTERS) or mode == "flat" or not result.layout.numel:
        return None
    if not layout.device_state.is_cuda or layout.dtype.is_complex or layout.dtype.is_storage_only:
        return None
    selection = selection_of(layout, name, mode, dim, indices)
    if result.layout.shape != selection.shape or len(selection.shape) == 0:
        return None
    shown = Ref(table.buffer, layout.with_strides(selection.shape, selection.strides), table.offset)
    bounds = indexing.bounds(name, selection)
    gathers = tuple(
        Gather(
            shown,
            Ref(index.buffer, index.layout.with_strides(selection.shape, strides), index.offset),
            layout.shape[axis],
            layout.strides[axis],
            strides_of.extent(layout.shape, layout.strides)[1] + 1,
            selection.wrap,
            bounds,
            number,
        )
        for number, (index, axis, strides) in enumerate(
            zip(tensors, selection.indexed, selection.indices, strict=True)
        )
    )
    indices = [each.index for each in gathers]
    return Element(
        step,
        rules.computes_in(layout.dtype),
        layout.dtype,
        "a",
        (shown, *indices),
        result,
        gathers=gathers,
        shown=((shown, table), *zip(indices, tensors, strict=True)),
    )


def reshaped(element: Element, shape: tuple[int, ...]) -> Element | None:
    """A gather whose result has another shape, with the same elements in their order; ``None`` if it cannot be had."""
    layout = element.out.layout
    places: dict[Ref, Ref] = {}
    for ref in element.inputs():
        strides = strides_of.view_strides(ref.layout.shape, ref.layout.strides, shape)
        if strides is None:
            return None
        places[ref] = Ref(ref.buffer, ref.layout.with_strides(shape, strides), ref.offset)
    out = layout.with_strides(shape, strides_of.contiguous_strides(shape))
    return replace(element.with_operands(places), out=Ref(element.out.buffer, out, element.out.offset))
