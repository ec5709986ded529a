"""Products that take gelu by tanh, or the derivative of it, along: one launch of cuBLASLt's, and one pass over memory less.

Forward the input of gelu, where a backward pass or anything else reads it, is written by the way; backward the product that is the
gradient of gelu's result gives that of its input, and its sums over rows, which are the gradient of a bias, where these would be a
pass of their own. Relu stays apart, as nothing says what the library's makes of NaN, and so does what is part of a chain of several
operations: that reads the product's result anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import pointwise
from tensor.core.base import maker
from tensor.operations.pointwise.activations import GELU_TANH, GRADIENTS
from tensor.operations.products import blas, epilogues
from tensor.operations.products.added_products import ADDMM
from tensor.operations.products.linear import LINEAR, TIMES
from tensor.operations.products.matrix_products import MM
from tensor.operations.reductions.sums import SUM

from .fused_reductions import fused_reduction
from .grouping import Grouped
from .reduction_parts import reduced_of
from .rows import is_same
from .tape import Launch, Ref, Step, refs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .elements import Element
    from .reduction_parts import Reduced
    from .uses import Uses

#: Epilogues of activations, by whether a bias is added: without and with the input beside the result.
_ACTIVATIONS = {GELU_TANH: (epilogues.GELU, epilogues.GELU_AND_INPUT)}
#: Epilogues of their gradients, by whether there are sums.
_GRADIENTS = {GRADIENTS[GELU_TANH]: epilogues.GELU_GRADIENT}


@dataclass(slots=True)
class _Product:
    """A product by its parts: contiguous rows, or a matrix, times a matrix, and a vector that is added."""

    left: Ref
    right: Ref
    bias: Ref | None
    out: Ref
    sizes: tuple[int, int, int]
    factors: tuple[blas.Factor, blas.Factor, blas.Factor]


@dataclass(slots=True)
class _Work:
    """A product with what goes on with it, and what is read and written.

    Attributes
    ----------
    epilogue : int
        What cuBLASLt does.
    results : list of Ref
        The element's, then gelu's input or sums, if these are written.
    input : Ref or None
        The input of gelu, if that is read.
    reduction : Step or None
        What computes the sums otherwise.
    """

    product: _Product
    element: Element
    epilogue: int
    results: list[Ref]
    input: Ref | None = None
    reduction: Step | None = None

    @property
    def reads(self) -> list[Ref]:
        """Operands, in the order of the addresses that a launch is given behind those of results."""
        product = self.product
        operands = product.left, product.right, product.bias, self.input
        return [each for each in operands if each is not None]


@dataclass(slots=True)
class Activated:
    """A product with what goes on with it.

    Attributes
    ----------
    positions : tuple of int
        Where the steps stand: the product, where all is done; what goes on with it; the sums of that, if they are computed.
    step : Step
        All of them as one.
    """

    positions: tuple[int, ...]
    step: Step


def activated_products(
    steps: Sequence[Step],
    groups: dict[int, list[int]],
    elements: dict[int, Element],
    uses: Uses,
    alone: Callable[[Element], Step],
) -> dict[int, Activated]:
    """Products that can take along what goes on with them, by position.

    Parameters
    ----------
    steps : sequence of Step
        In order.
    groups : dict
        Positions of the steps that are one kernel, by position of each.
    elements : dict
        Pointwise steps, by position.
    uses : Uses
        Where buffers are read and written.
    alone : callable
        The step that computes an element by a kernel of its own, for when cuBLASLt refuses.
    """
    search = _Search(steps, groups, elements, uses, alone)
    candidates = ((position, search.at(position)) for position in range(len(steps)))
    return {position: activated for position, activated in candidates if activated is not None}


def _product_of(step: Step) -> _Product | None:
    """The product that a step asks a device for, if it may be one of cuBLASLt's."""
    operation, bias = step.key[0], None
    if operation is LINEAR or operation is TIMES:
        left, right, bias = step.arguments
        is_transposed = operation is LINEAR
    elif operation is MM:
        (left, right), is_transposed = step.arguments, False
    elif operation is ADDMM:
        bias, left, right, beta, alpha = step.arguments
        is_transposed = False
        if beta != 1 or alpha != 1:
            return None
    else:
        return None
    out = step.result
    if type(out) is not Ref or not out.layout.device_state.is_cuda or not out.layout.numel:
        return None
    n, k = out.layout.shape[-1], left.layout.shape[-1]
    m = out.layout.numel // n
    if bias is not None and (bias.layout.shape != (n,) or not bias.layout.contiguous):
        return None
    # Rows of a linear map are contiguous, whatever their shape; other operands are matrices.
    strides = left.layout.strides if len(left.layout.shape) == 2 else (k, 1)
    steps = right.layout.strides[::-1] if is_transposed else right.layout.strides
    factors = (
        blas.factor((1, m, k), (m * k, *strides)),
        blas.factor((1, k, n), (k * n, *steps)),
        blas.factor((1, m, n), (m * n, n, 1)),
    )
    first, second, third = factors
    if first is None or second is None or third is None:
        return None
    return _Product(left, right, bias, out, (m, n, k), (first, second, third))


def _goes_on(element: Element, product: _Product) -> bool:
    """Whether an element computes something of the same dtype of each element of a product, and gives a new tensor."""
    out = product.out
    own = [each for each in element.inputs() if each.buffer == out.buffer]
    return (
        not element.writes
        and len(own) == 1
        and element.operands[0] is own[0]
        and is_same(own[0], out)
        and is_same(Ref(out.buffer, element.out.layout, element.out.offset), out)
    )


def _column_sums(step: Step, out: Ref) -> Reduced | None:
    """The sums of ``out`` over all dimensions but the last, if that is what a step computes, to the same dtype."""
    if step.key[0] is not SUM or len(step.arguments) != 1:
        return None
    reduced = reduced_of(step)
    if reduced is None or reduced.axes != tuple(range(len(out.layout.shape) - 1)) or not reduced.axes:
        return None
    (operand,), (result,) = reduced.operands, reduced.results
    is_vector = result.layout.contiguous and result.layout.numel == out.layout.shape[-1]
    return reduced if operand == out and is_vector and result.layout.dtype is out.layout.dtype else None


class _Apart:
    """The same by cuBLAS, and kernels of what goes on with it: for operands that cuBLASLt refuses."""

    def __init__(self, work: _Work, alone: Callable[[Element], Step]) -> None:
        self._product, self._element, self._reduction = work.product, work.element, work.reduction
        self._alone = alone
        self._left, self._right = len(work.results), len(work.results) + 1
        #: Where the product goes that an activation reads: to where something else reads it, or to the result itself.
        self._into = 1 if len(work.results) > 1 and work.reduction is None else 0
        # Gelu's input is the last operand.
        last = len(work.results) + len(work.reads) - 1
        self._operands = [
            self._into if each.buffer == work.product.out.buffer else last for each in work.element.inputs()
        ]

    @cached_property
    def _multiply(self) -> Callable[..., None]:
        m, n, k = self._product.sizes
        layout = self._product.out.layout
        cuda: Any = layout.device_state
        return blas.product(cuda, layout.dtype, (1, m, n, k), *self._product.factors)

    @cached_property
    def _broadcast(self) -> Callable[..., None]:
        """``run(stream, rows, bias)``."""
        m, n, _ = self._product.sizes
        layout = self._product.out.layout
        cuda: Any = layout.device_state
        return pointwise.plan_copy(cuda.native, (m, n), ((n, 1), layout.dtype), ((0, 1), layout.dtype))

    @cached_property
    def _activate(self) -> Launch:
        run = self._alone(self._element).run
        assert isinstance(run, Launch)
        return run

    def run(self, stream: Any, addresses: Sequence[int]) -> None:
        """Do all of it, given the addresses of results and operands."""
        into, left, right = (addresses[each] for each in (self._into, self._left, self._right))
        if self._product.bias is None:
            self._multiply(into, left, right)
        else:
            self._broadcast(stream, into, addresses[self._right + 1])
            self._multiply(into, left, right, 1, 1)
        kernel = self._activate
        kernel.launch(stream, addresses[0], *(addresses[each] for each in self._operands), *kernel.numbers)
        if self._reduction is not None:
            sums = self._reduction.run
            assert isinstance(sums, Launch)
            sums.launch(stream, addresses[1], addresses[0], *sums.numbers)


class _Search:
    """Looks for what goes on with products."""

    def __init__(
        self,
        steps: Sequence[Step],
        groups: dict[int, list[int]],
        elements: dict[int, Element],
        uses: Uses,
        alone: Callable[[Element], Step],
    ) -> None:
        self._steps, self._groups, self._elements = steps, groups, elements
        self._uses, self._alone = uses, alone

    def at(self, position: int) -> Activated | None:
        """The product at a position with what goes on with it, if there is one that can take something along."""
        product, uses = _product_of(self._steps[position]), self._uses
        if product is None or product.out.buffer in uses.writers:
            return None
        readers = uses.readers.get(product.out.buffer, [])
        for reader in readers:
            element = self._elements.get(reader)
            if element is None or self._groups[reader] != [reader] or not _goes_on(element, product):
                continue
            operation = self._steps[reader].key[0]
            is_read = product.out.buffer in uses.needed or len(readers) > 1
            if operation in _ACTIVATIONS:
                plain, with_input = _ACTIVATIONS[operation]
                epilogue = (with_input if is_read else plain)[product.bias is not None]
                results = [element.out, product.out] if is_read else [element.out]
                return self._together((position, reader), _Work(product, element, epilogue, results))
            if operation in _GRADIENTS and not is_read and product.bias is None:
                return self._gradient(position, reader, product, element, _GRADIENTS[operation])
        return None

    def _gradient(
        self, position: int, reader: int, product: _Product, element: Element, by_sums: dict[bool, int]
    ) -> Activated | None:
        input = element.operands[1]
        if type(input) is not Ref or not self._is_there(input, position, reader):
            return None
        if not is_same(Ref(product.out.buffer, input.layout, product.out.offset), product.out):
            return None
        positions: tuple[int, ...] = (position, reader)
        results, reduction = [element.out], None
        sums = self._sums_of(element.out)
        if sums is not None:
            number, reduced = sums
            positions = (*positions, number)
            results += reduced.results
            reduction = fused_reduction(reduced, {}, [number], self._uses)
        epilogue = by_sums[sums is not None]
        return self._together(positions, _Work(product, element, epilogue, results, input, reduction))

    def _is_there(self, ref: Ref, position: int, reader: int) -> bool:
        """Whether what a step reads is there, and as it is then, at a ``position`` before it."""
        if any(position < writer < reader for writer in self._uses.writers.get(ref.buffer, ())):
            return False
        makers = (
            number
            for number, step in enumerate(self._steps)
            if any(each.buffer == ref.buffer for each in refs(step.result))
        )
        return all(self._groups.get(maker, [maker])[-1] < position for maker in makers)

    def _sums_of(self, ref: Ref) -> tuple[int, Reduced] | None:
        """The sums of a tensor over all dimensions but the last, if they are a step of their own, and where that stands."""
        for number in self._uses.readers.get(ref.buffer, ()):
            if self._groups.get(number, [number]) != [number]:
                continue
            reduced = _column_sums(self._steps[number], ref)
            if reduced is not None:
                is_written = any(each < number for each in self._uses.writers.get(ref.buffer, ()))
                return None if is_written else (number, reduced)
        return None

    def _together(self, positions: tuple[int, ...], work: _Work) -> Activated | None:
        product, results, reads = work.product, work.results, work.reads
        if any(each.offset % epilogues.ALIGNMENT for each in reads):
            # Calls with operands that are not aligned have a program of their own.
            return None
        layout = product.out.layout
        cuda: Any = layout.device_state
        multiply = epilogues.product(cuda, layout.dtype, product.sizes, product.factors, work.epilogue)
        if multiply is None:
            return None
        apart = _Apart(work, self._alone)
        # An address behind those of all operands stands for what is not there.
        behind = len(results) + len(reads)
        left = len(results)
        vector = left + 2 if product.bias is not None else 1 if work.reduction is not None else behind
        auxiliary = (
            behind - 1 if work.input is not None else 1 if len(results) > 1 and not work.reduction else behind
        )
        arguments = itemgetter(0, left, left + 1, vector, auxiliary)

        def launch(stream: Any, *addresses: int) -> None:
            if not multiply(*arguments((*addresses, 0))):
                apart.run(stream, addresses)

        originals = [self._steps[each] for each in positions]
        name = " with ".join((originals[0].name, " and ".join(each.name for each in originals[1:])))
        step = Step(
            (Grouped(name), None),
            Launch(launch, [maker(ref.layout) for ref in results], (), draws=False, writes=False),
            tuple(reads),
            results if len(results) > 1 else results[0],
            originals[1].line,
            originals=tuple(each for step in originals for each in step.originals or (step,)),
        )
        return Activated(positions, step)
