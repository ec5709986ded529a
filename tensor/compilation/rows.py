"""Normalizations, softmax, cross entropy and small products with the pointwise operations before and after them as one kernel.

Kernels of the first two keep whole rows in registers, and cross entropy goes along its rows. What they read of a chain is computed
as a row is loaded, and what goes on with their result is computed before that is stored: a residual connection with its dropout in front of a layer norm, a mask in
front of a softmax, a dropout behind it, the sum of gradients behind a norm's derivative. Linear maps in half precision that are so
small that a launch counts take what goes on with their results along, such as an activation, and gradients of their inputs the
derivative of one. On the CPU normalizations, softmax and sums of rows are loops that chains go through with them, block by block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import fused_products
from nvrtc_kernels import fused_rows as kernels
from nvrtc_kernels import layouts as strides_of
from nvrtc_kernels import losses as loss_kernels
from nvrtc_kernels import normalization as norm_kernels
from nvrtc_kernels import softmax as softmax_kernels
from nvrtc_kernels.host_loops import row_kernels
from nvrtc_kernels.plans import Plan
from tensor.core.base import maker
from tensor.operations import scratch
from tensor.operations.losses import classification
from tensor.operations.normalization import row_normalization as normalization
from tensor.operations.normalization import softmax
from tensor.operations.products.linear import LINEAR, TIMES
from tensor.operations.reductions.sums import MEAN, SUM

from .elements import Fused, Text, includes_of, inputs_of, lookups_of, name_of, recorded
from .tape import Launch, Ref, Step, refs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from nvrtc_kernels.fused_products import ProductKernel
    from nvrtc_kernels.fused_rows import RowKernel
    from nvrtc_kernels.host_loops.row_kernels import HostRowKernel
    from nvrtc_kernels.normalization import GradientsKernel
    from tensor.core.layout import Layout

    from .elements import Element
    from .uses import Uses

#: Tensors that are read by chains before and after rows, at most, and written.
_MOST_INPUTS, _MOST_RESULTS = 8, 4


@dataclass(slots=True)
class _Rows:
    """A step whose kernel has whole rows in registers, or blocks of a product.

    Attributes
    ----------
    kernel : RowKernel
        The kernel.
    reads, writes : list of Ref or None
        Its operands, as the kernel names them; ``None`` for what is not there.
    numbers : tuple
        Its scalars.
    """

    kernel: RowKernel | GradientsKernel | ProductKernel | HostRowKernel
    reads: list[Ref | None]
    writes: list[Ref | None]
    numbers: tuple[Any, ...] = ()

    @property
    def source(self) -> Ref:
        """The rows that it reads."""
        return self._of(self.reads, self.kernel.reads, self.kernel.source)

    @property
    def target(self) -> Ref | None:
        """The rows that it makes, if it makes some."""
        if not self.kernel.target:
            return None
        return self._of(self.writes, self.kernel.writes, self.kernel.target)

    @property
    def target_buffer(self) -> int | None:
        """Where these lie."""
        return None if self.target is None else self.target.buffer

    @staticmethod
    def _of(refs: list[Ref | None], operands: Sequence[kernels.Operand], name: str) -> Ref:
        result = next(ref for ref, each in zip(refs, operands, strict=True) if each.name == name)
        assert result is not None
        return result


def _norms_of(layout: Layout) -> Any:
    """What has the kernels of normalizations for the device of ``layout``."""
    return norm_kernels if layout.device_state.is_cuda else row_kernels


def _normalized(step: Step) -> _Rows | None:
    input, weight, bias, eps = step.arguments
    _, layout, dtype, rows, *cast = step.key
    result = cast[0] if cast else None
    kernel = _norms_of(layout).row_kernel(
        rows, layout.dtype, dtype, result, has_weight=weight is not None, has_bias=bias is not None
    )
    return None if kernel is None else _Rows(kernel, [input, weight, bias], list(step.result), (eps,))


def _normalization_gradient(step: Step) -> _Rows | None:
    _, grad, layout, dtype, rows = step.key
    weight = step.arguments[2]
    kernel = _norms_of(layout).backward_row_kernel(
        rows, grad.dtype, layout.dtype, dtype, has_weight=weight is not None
    )
    return None if kernel is None else _Rows(kernel, list(step.arguments), [step.result])


def _normalization_gradients(step: Step) -> _Rows | None:
    _, grad, layout, dtype, sums, rows = step.key
    weight = step.arguments[2]
    kernel = _norms_of(layout).gradients_row_kernel(
        rows, grad.dtype, layout.dtype, dtype, sums, has_weight=weight is not None
    )
    return None if kernel is None else _Rows(kernel, list(step.arguments), list(step.result))


def _softmax(step: Step) -> _Rows | None:
    operation, layout, dim, dtype = step.key
    sizes = softmax.sizes_along(layout.shape, dim)
    is_cuda = layout.device_state.is_cuda
    kernel_for = softmax_kernels.row_kernel if is_cuda else row_kernels.softmax_row_kernel
    kernel = kernel_for(sizes, dtype, layout.dtype, log=operation.log)
    return None if kernel is None else _Rows(kernel, list(step.arguments), [step.result])


def _softmax_gradient(step: Step) -> _Rows | None:
    operation, grad, result, dim, dtype = step.key
    sizes = softmax.sizes_along(grad.shape, dim)
    log = operation is softmax.GRADIENTS[True]
    is_cuda = grad.device_state.is_cuda
    kernel_for = softmax_kernels.backward_row_kernel if is_cuda else row_kernels.softmax_backward_row_kernel
    kernel = kernel_for(sizes, dtype, grad.dtype, result.dtype, log=log)
    return None if kernel is None else _Rows(kernel, list(step.arguments), [step.result])


def _cross_entropy(step: Step) -> _Rows | None:
    _, layout, weight, sizes, smooth, summed, *reads = step.key
    *tensors, smoothing = step.arguments
    kernel = loss_kernels.cross_entropy_row_kernel(
        sizes, layout.dtype, weight, reads[0] if reads else layout.dtype, smooth=smooth, summed=summed
    )
    return None if kernel is None else _Rows(kernel, tensors, list(step.result), (smoothing,))


def _cross_entropy_gradient(step: Step) -> _Rows | None:
    _, grad, layout, weight, sizes, smooth, *dtypes = step.key
    *tensors, smoothing = step.arguments
    reads, gives = dtypes or (layout.dtype, layout.dtype)
    kernel = loss_kernels.cross_entropy_backward_row_kernel(
        sizes,
        grad.dtype,
        layout.dtype,
        weight,
        reads,
        gives,
        smooth=smooth,
        each=bool(grad.shape),
        divided=tensors[1] is not None,
        has_all=tensors[5] is not None,
    )
    return None if kernel is None else _Rows(kernel, tensors, [step.result], (smoothing,))


def _product(step: Step) -> _Rows | None:
    operation, left, right, *_ = step.key
    bias = step.arguments[2]
    if not right.contiguous or (bias is not None and not bias.layout.contiguous):
        return None
    depth, n = left.shape[-1], step.result.layout.shape[-1]
    transposed = operation is LINEAR
    kernel = fused_products.ProductKernel(
        left.dtype, left.numel // depth, n, depth, transposed, has_bias=bias is not None
    )
    if not fused_products.takes(left.device_state.native, kernel):
        return None
    return _Rows(kernel, list(step.arguments), [step.result])


def _sum(step: Step) -> _Rows | None:
    operation, layout, axes, *others = step.key
    if len(others) != 1 or len(step.arguments) != 1:
        return None
    kernel = row_kernels.sum_row_kernel(layout.shape, axes, layout.dtype, mean=operation is MEAN)
    return None if kernel is None else _Rows(kernel, list(step.arguments), list(refs(step.result)))


#: What gives the parts of a product with its operations, which are looked for once rows have theirs.
_PRODUCTS: dict[Any, Callable[[Step], _Rows | None]] = {LINEAR: _product, TIMES: _product}
#: What gives the parts of a step, by its operation.
_KERNELS: dict[Any, Callable[[Step], _Rows | None]] = {
    normalization.FORWARD: _normalized,
    normalization.BACKWARD: _normalization_gradient,
    normalization.GRADIENTS: _normalization_gradients,
    classification.CROSS_ENTROPY: _cross_entropy,
    classification.CROSS_ENTROPY_GRADIENT: _cross_entropy_gradient,
    softmax.SOFTMAX: _softmax,
    softmax.LOG_SOFTMAX: _softmax,
    softmax.GRADIENTS[False]: _softmax_gradient,
    softmax.GRADIENTS[True]: _softmax_gradient,
}

#: Of these, what there are loops for on the CPU.
_ON_HOST = {
    operation: function
    for operation, function in _KERNELS.items()
    if operation not in (classification.CROSS_ENTROPY, classification.CROSS_ENTROPY_GRADIENT)
} | {SUM: _sum, MEAN: _sum}


def fused_rows(
    steps: Sequence[Step],
    groups: dict[int, list[int]],
    elements: dict[int, Element],
    uses: Uses,
    notes: dict[int, dict[str, None]],
    *,
    activated: Collection[int] = (),
    on_host: bool = False,
) -> dict[int, Step | None]:
    """What stands at positions of ``steps`` in place of what stood there; ``None`` for nothing.

    Parameters
    ----------
    steps : sequence of Step
        In order.
    groups : dict
        Positions of the steps that are one kernel, by position of each. What becomes part of rows leaves it.
    elements : dict
        Pointwise steps, by position.
    uses : Uses
        Where buffers are read and written.
    notes : dict
        Why steps were not fused, by position; more are added.
    activated : collection of int
        Products for which cuBLASLt does what goes on with them.
    on_host : bool
        Whether the steps are those of tensors on the CPU.
    """
    producer = {element.out.buffer: position for position, element in elements.items() if not element.writes}
    order = _Order(steps, groups, uses)
    result: dict[int, Step | None] = {}
    tables = (_ON_HOST,) if on_host else (_KERNELS, _PRODUCTS)
    for parts, position in ((parts, each) for parts in tables for each in range(len(steps))):
        step = steps[position]
        function = parts.get(step.key[0])
        rows = None if function is None else function(step)
        if rows is None or (parts is _PRODUCTS and position in activated):
            # Kernels of our own take longer than cuBLASLt, by the same figures: they save a launch that is none there.
            continue
        before: list[int] = []
        after: list[int] = []
        last = position
        candidates = []
        if parts is not _PRODUCTS and rows.source.buffer in producer:
            candidates.append((producer[rows.source.buffer], True))
        readers = () if rows.target is None else uses.readers.get(rows.target.buffer, ())
        behind = [each for each in readers if each in groups]
        if behind:
            candidates.append((behind[0], False))
        for source, comes_before in candidates:
            members = groups.get(source, [])
            if any(each not in elements for each in members) or not members:
                # A part of a reduction, or of other rows.
                continue
            attempt = (members, after) if comes_before else (before, members)
            reason = _obstacle(rows, *attempt, position, elements, uses)
            for end in dict.fromkeys((position, max(position, *members))) if reason is None else ():
                reason = order.obstacle({*attempt[0], position, *attempt[1]}, end, rows, elements)
                if reason is None:
                    before, after, last = *attempt, end
                    break
            if reason is not None:
                origin = steps[source if comes_before else position]
                note = f"not with {origin.name} ({origin.line.rpartition('/')[2]}): {reason}"
                notes.setdefault(position if comes_before else source, {})[note] = None
        if not before and not after:
            continue
        everything = [*before, position, *after]
        fused = _fused(
            step,
            rows,
            [elements[each] for each in before],
            [elements[each] for each in after],
            _read_elsewhere(set(everything), uses),
        )
        if fused is None:
            notes.setdefault(position, {})[f"not with others: {rows.kernel.refusal}"] = None
            continue
        fused.notes = list(dict.fromkeys(note for each in everything for note in notes.get(each, ())))
        result |= dict.fromkeys(everything)
        result[last] = fused
        order.moved |= dict.fromkeys(everything, last)
        for each in (*before, *after):
            del groups[each]
    return result


class _Order:
    """Where steps stand once they are one with others, and whether that is where what they read is there."""

    def __init__(self, steps: Sequence[Step], groups: dict[int, list[int]], uses: Uses) -> None:
        self._groups, self._uses = groups, uses
        self._makers = {
            ref.buffer: position for position, step in enumerate(steps) for ref in refs(step.result)
        }
        #: Where steps stand that are one with rows.
        self.moved: dict[int, int] = {}

    def _position(self, position: int) -> int:
        return self.moved.get(position, self._groups.get(position, [position])[-1])

    def obstacle(self, there: set[int], end: int, rows: _Rows, elements: dict[int, Element]) -> str | None:
        """Why the steps at positions ``there`` cannot all be done at ``end``."""
        own: set[int] = {ref.buffer for ref in rows.writes if ref is not None}
        own |= {elements[each].out.buffer for each in there if each in elements}
        for member in there:
            element = elements.get(member)
            inputs = element.inputs() if element else [each for each in rows.reads if each is not None]
            for buffer in {ref.buffer for ref in inputs} - own:
                first, last = sorted((member, end))
                if any(first < writer < last for writer in self._uses.writers.get(buffer, ())):
                    return "what it reads is written in between"
                if member > end and buffer in self._makers and self._position(self._makers[buffer]) >= end:
                    return "what it reads is not there yet"
        for buffer in own:
            readers = [each for each in self._uses.readers.get(buffer, ()) if each not in there]
            if any(self.moved.get(reader, reader) < end for reader in readers):
                return "its result is needed in between"
        return None


def _read_elsewhere(there: set[int], uses: Uses) -> Callable[[Ref], bool]:
    """Whether a result of the steps at these positions is read elsewhere."""
    return lambda ref: (
        ref.buffer in uses.needed
        or ref.buffer in uses.writers
        or any(reader not in there for reader in uses.readers.get(ref.buffer, ()))
    )


def _obstacle(
    rows: _Rows,
    before: Sequence[int],
    after: Sequence[int],
    position: int,
    elements: dict[int, Element],
    uses: Uses,
) -> str | None:
    """Why the rows at ``position``, with the elements at these positions before and after them, cannot be one kernel."""
    chains = [[elements[each] for each in members] for members in (before, after)]
    there = {*before, position, *after}
    if set(before) & set(after):
        return "it is read by what goes on with the rows"
    if sum(element.drop is not None for chain in chains for element in chain) > 1:
        return "a kernel draws random numbers once"
    for chain, ref in zip(chains, (rows.source, rows.target), strict=True):
        if not chain or ref is None:
            continue
        last = chain[-1].out
        if any(element.writes for element in chain):
            return "what is written in place ends a kernel"
        if any(element.options for element in chain):
            return "its kernel has options of its own"
        if last.layout.numel != ref.layout.numel or not (last.layout.contiguous and ref.layout.contiguous):
            return "its elements are not those of the rows, in their order"
        if any(element.is_in_order and element.out.layout.shape != last.layout.shape for element in chain):
            return "it depends on the places of its elements"
        gathers = [gather for element in chain for gather in element.gathers]
        if any(rows.target_buffer in (each.table.buffer, each.index.buffer) for each in gathers):
            return "it reads other elements of what the rows give"
        inputs = [each for each in inputs_of(chain) if each.buffer != rows.target_buffer]
        if len(inputs) > _MOST_INPUTS or len(_written(chain, there, uses)) > _MOST_RESULTS:
            return "one kernel would read or write too much"
        repetitions = {each: _repetition(each, last) for each in inputs}
        if None in repetitions.values():
            return "what it reads lies in another way"
        values = {ref for element in chain for ref in element.values()}
        packs = [ref for ref, each in repetitions.items() if each and each.alike == 1 and ref in values]
        tables = [gather.table for gather in gathers]
        widest = max(each.layout.itemsize for each in (*packs, *tables, *(part.out for part in chain)))
        if widest > rows.kernel.chain_itemsize:
            return "its elements are wider than the rows'"
    if before and not is_same(chains[0][-1].out, rows.source):
        return "it is read as another shape or another part"
    own = {element.out.buffer for chain in chains for element in chain}
    for operand in rows.reads:
        if operand is not None and operand.buffer in own and not (before and operand is rows.source):
            return "it is read as rows and besides"
    beside = {ref.buffer for ref in rows.writes if ref is not None} - {rows.target_buffer}
    beside |= {element.out.buffer for element in chains[0]}
    for element in chains[1]:
        for ref in element.inputs():
            if ref.buffer in beside:
                return "it reads what the rows leave besides"
            if rows.target and ref.buffer == rows.target.buffer and not is_same(ref, rows.target):
                return "it is read as another shape or another part"
    return None


def _written(chain: Sequence[Element], there: set[int], uses: Uses) -> list[Ref]:
    """What ``chain`` has to write."""
    is_needed = _read_elsewhere(there, uses)
    return [element.out for element in chain if is_needed(element.out)]


def is_same(one: Ref, other: Ref) -> bool:
    """Whether two refs show the same elements in the same order, whatever their shapes."""
    return (
        one.buffer == other.buffer
        and one.offset == other.offset
        and one.layout.numel == other.layout.numel
        and one.layout.dtype is other.layout.dtype
        and one.layout.contiguous
        and other.layout.contiguous
    )


def _repetition(ref: Ref, target: Ref) -> kernels.Input | None:
    """How ``ref`` is read for the elements of ``target`` in order; ``None`` if it lies in another way."""
    layout, shape = ref.layout, target.layout.shape
    strides = strides_of.broadcast_strides(layout.shape, layout.strides, shape)
    sizes = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    if not any(stride for _, stride in sizes):
        return kernels.Input(layout.dtype, 1)
    inner = _taken(sizes, 1)
    if not sizes:
        return kernels.Input(layout.dtype)
    stretch = _taken(sizes, 0)
    if not sizes:
        return kernels.Input(layout.dtype, inner)
    period = _taken(sizes, inner)
    if any(stride for _, stride in sizes):
        return None
    return kernels.Input(layout.dtype, period if sizes else 0, stretch, inner)


def _taken(sizes: list[tuple[int, int]], stride: int) -> int:
    """How many elements there are along the last dimensions that follow one another in steps of ``stride``; these are taken away."""
    count = 1
    while sizes and sizes[-1][1] == stride * count:
        count *= sizes.pop()[0]
    return count


def _chain(
    elements: Sequence[Element], rows: _Rows, is_needed: Callable[[Ref], bool], *, comes_before: bool
) -> tuple[kernels.Chain, list[Ref], list[Ref], list[Any]]:
    """A chain, the tensors that it reads and those that it writes, and its numbers."""
    last = elements[-1]
    inputs = [each for each in inputs_of(elements) if comes_before or each.buffer != rows.target_buffer]
    text = Text(names={ref: f"input{number}" for number, ref in enumerate(inputs)})
    if not comes_before:
        text.names |= {ref: "row" for ref in inputs_of(elements) if ref.buffer == rows.target_buffer}
    results: list[tuple[Ref, str]] = []
    for position, element in enumerate(elements):
        text.add(element, f"value{position}")
        text.names[element.out] = f"value{position}"
        if is_needed(element.out):
            results.append((element.out, f"value{position}"))
    if not comes_before and rows.target is not None and is_needed(rows.target):
        results.insert(0, (rows.target, "row"))
    draws = any(element.drop is not None for element in elements)
    repetitions = (_repetition(ref, last.out) for ref in inputs)
    chain = kernels.Chain(
        tuple(text.lines),
        tuple(each for each in repetitions if each is not None),
        tuple((name, ref.layout.dtype) for ref, name in results),
        (*((("seed", "Q"), ("call", "Q")) if draws else ()), *text.scalars),
        text.names[last.out] if comes_before else "",
        draws,
        tuple(includes_of(elements)),
        lookups_of(elements, inputs),
    )
    return chain, inputs, [ref for ref, _ in results], text.numbers


def _with_scratch(plan: Plan, device_state: Any) -> Callable[..., None]:
    """What launches ``plan`` with scratch memory, given the stream, addresses and numbers."""

    def launch(_: Any, *arguments: Any) -> None:
        scratch.launch(device_state, plan, *arguments)

    return launch


def _fused(
    step: Step,
    rows: _Rows,
    before: Sequence[Element],
    after: Sequence[Element],
    is_needed: Callable[[Ref], bool],
) -> Step | None:
    """One step for ``step`` and what is before and after it."""
    reads = [each for each in rows.reads if each is not None and not (before and each is rows.source)]
    results = [each for each in rows.writes if each is not None and not (after and each is rows.target)]
    numbers = list(rows.numbers)
    chains: list[kernels.Chain | None] = [None, None]
    if before:
        chains[0], inputs, written, packed = _chain(before, rows, is_needed, comes_before=True)
        reads, results, numbers = [*inputs, *reads], [*written, *results], [*packed, *numbers]
    if after:
        chains[1], inputs, written, packed = _chain(after, rows, is_needed, comes_before=False)
        reads, results, numbers = [*reads, *inputs], [*results, *written], [*numbers, *packed]
    elements = (*before, *after)
    name = name_of([*(each.step.name for each in before), step.name, *(each.step.name for each in after)])
    device_state: Any = rows.source.layout.device_state
    native: Any = device_state.native if device_state.is_cuda else None
    launch = rows.kernel.plan(native, name, *chains)
    if launch is None:
        return None
    if isinstance(launch, Plan):
        launch = _with_scratch(launch, device_state)
    draw = next((element for element in elements if element.drop is not None), None)
    code = "\n".join(
        line
        for title, chain in (("before the rows", chains[0]), ("after them", chains[1]))
        if chain is not None
        for line in (f"// {title}", *chain.lines)
    )
    makers = [maker(ref.layout) for ref in results]
    key = (Fused(name, code), None, *(ref.layout for ref in reads))
    last = after[-1].step if after else step
    own = step.originals or (step,)
    originals = (*(each.step for each in before), *own, *(each.step for each in after))
    arguments: tuple[Any, ...] = recorded(reads, elements)
    result = Step(
        key,
        Launch(launch, makers, tuple(numbers), draw is not None, False),
        arguments,
        results if len(results) != 1 else results[0],
        last.line,
        originals=originals,
    )
    if draw is not None:
        result.arguments = (draw.drop, *arguments)
        result.draw = draw.step.draw
    return result
