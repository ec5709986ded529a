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
    result = {}
    for position, step in enumerate(steps):
        product = _product_of(step)
        if product is None or product.out.buffer in uses.writers:
            continue
        for reader in uses.readers.get(product.out.buffer, ()):
            if reader not in elements or groups[reader] != [reader]:
                continue
            element, operation = elements[reader], steps[reader].key[0]
            if not _goes_on(element, product):
                continue
            others = [each for each in uses.readers[product.out.buffer] if each != reader]
            is_read = product.out.buffer in uses.needed or bool(others)
            activated = None
            if operation in _ACTIVATIONS:
                activated = _activation(position, reader, product, element, is_read, alone, steps)
            elif operation in _GRADIENTS and not is_read:
                activated = _gradient(position, reader, product, element, groups, uses, alone, steps)
            if activated is not None:
                result[position] = activated
                break
    return result


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


def _activation(
    position: int,
    reader: int,
    product: _Product,
    element: Element,
    is_read: bool,
    alone: Callable[[Element], Step],
    steps: Sequence[Step],
) -> Activated | None:
    plain, with_input = _ACTIVATIONS[steps[reader].key[0]]
    epilogue = (with_input if is_read else plain)[product.bias is not None]
    results = [element.out, product.out] if is_read else [element.out]
    return _together((position, reader), product, element, None, None, epilogue, results, alone, steps)


def _gradient(
    position: int,
    reader: int,
    product: _Product,
    element: Element,
    groups: dict[int, list[int]],
    uses: Uses,
    alone: Callable[[Element], Step],
    steps: Sequence[Step],
) -> Activated | None:
    input = element.operands[1]
    if (
        product.bias is not None
        or type(input) is not Ref
        or not is_same(Ref(product.out.buffer, input.layout, product.out.offset), product.out)
        or not _is_there(input, position, reader, steps, groups, uses)
    ):
        return None
    sums = next(
        (
            (each, reduced)
            for each in uses.readers.get(element.out.buffer, ())
            if groups.get(each, [each]) == [each] and (reduced := _sums_of(steps[each], element.out))
        ),
        None,
    )
    epilogue = _GRADIENTS[steps[reader].key[0]][sums is not None]
    positions: tuple[int, ...] = (position, reader)
    results, reduction = [element.out], None
    if sums is not None:
        positions = (*positions, sums[0])
        results += sums[1].results
        reduction = fused_reduction(sums[1], {}, [sums[0]], uses)
    return _together(positions, product, element, input, reduction, epilogue, results, alone, steps)


def _is_there(
    ref: Ref, position: int, reader: int, steps: Sequence[Step], groups: dict[int, list[int]], uses: Uses
) -> bool:
    """Whether what a step reads is there, and as it is then, at a ``position`` before it."""
    if any(position < writer < reader for writer in uses.writers.get(ref.buffer, ())):
        return False
    makers = (
        number
        for number, step in enumerate(steps)
        if any(each.buffer == ref.buffer for each in refs(step.result))
    )
    return all(groups.get(maker, [maker])[-1] < position for maker in makers)


def _sums_of(step: Step, out: Ref) -> Reduced | None:
    """The sums of ``out`` over all dimensions but the last, if that is what a step computes, to the same dtype."""
    if step.key[0] is not SUM or len(step.arguments) != 1:
        return None
    reduced = reduced_of(step)
    if reduced is None or reduced.axes != tuple(range(len(out.layout.shape) - 1)) or not reduced.axes:
        return None
    (operand,), (result,) = reduced.operands, reduced.results
    is_vector = result.layout.contiguous and result.layout.numel == out.layout.shape[-1]
    return reduced if operand == out and is_vector and result.layout.dtype is out.layout.dtype else None


def _together(
    positions: tuple[int, ...],
    product: _Product,
    element: Element,
    input: Ref | None,
    reduction: Step | None,
    epilogue: int,
    results: list[Ref],
    alone: Callable[[Element], Step],
    steps: Sequence[Step],
) -> Activated | None:
    device_state: Any = product.out.layout.device_state
    dtype = product.out.layout.dtype
    reads = [each for each in (product.left, product.right, product.bias, input) if each is not None]
    if any(each.offset % epilogues.ALIGNMENT for each in reads):
        # Calls with operands that are not aligned have a program of their own.
        return None
    multiply = epilogues.product(device_state, dtype, product.sizes, product.factors, epilogue)
    if multiply is None:
        return None
    apart = _Apart(product, element, input, reduction, results, reads, alone)
    # An address behind those of all operands stands for what is not there.
    places = {id(ref): number for number, ref in enumerate((*results, *reads))}
    behind = len(places)
    beside = results[1] if len(results) > 1 else None
    vector = product.bias if product.bias is not None else beside if reduction is not None else None
    auxiliary = input if input is not None else beside if reduction is None else None
    arguments = itemgetter(
        0, *(places.get(id(each), behind) for each in (product.left, product.right, vector, auxiliary))
    )

    def launch(stream: Any, *addresses: int) -> None:
        if not multiply(*arguments((*addresses, 0))):
            apart.run(stream, addresses)

    originals = [steps[each] for each in positions]
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


class _Apart:
    """The same by cuBLAS, and kernels of what goes on with it: for operands that cuBLASLt refuses."""

    def __init__(
        self,
        product: _Product,
        element: Element,
        input: Ref | None,
        reduction: Step | None,
        results: list[Ref],
        reads: list[Ref],
        alone: Callable[[Element], Step],
    ) -> None:
        self._product, self._element, self._reduction, self._alone = product, element, reduction, alone
        buffers = [*(each.buffer for each in results), *(each.buffer for each in reads)]
        self._left, self._right = len(results), len(results) + 1
        #: Where the product goes that an activation reads: to where something else reads it, or to the result itself.
        self._into = 1 if len(results) > 1 and reduction is None else 0
        self._operands = [
            self._into if each.buffer == product.out.buffer else buffers.index(each.buffer)
            for each in element.inputs()
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
