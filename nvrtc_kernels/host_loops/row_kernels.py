"""Kernels of rows on the CPU, for chains of pointwise operations before and after them: see :mod:`.row_blocks`.

They are what those of :mod:`nvrtc_kernels.fused_rows` are for a device. Each is the loop that it is by itself, so results have the same
bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from nvrtc_kernels.dtypes import float32, float64
from nvrtc_kernels.fused_rows import Operand

from . import normalization, softmax
from .planning import worth
from .row_blocks import BlocksOfRows, ChainLoop
from .row_sums import row_sums_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nvrtc_kernels.dtypes import dtype
    from nvrtc_kernels.fused_rows import Chain
    from nvrtc_kernels.normalization import Rows

#: Elements of a row from which on it is worth being summed by itself.
_LEAST_SUMMED = 16


class Total(NamedTuple):
    """What becomes of sums of rows.

    Attributes
    ----------
    of_all : bool
        Whether they are added up.
    divisor : int
        What the result is divided by.
    """

    of_all: bool
    divisor: int

    def of(self, sums: Any, dtype: Any) -> Any:
        """The result, of ``sums`` in float64."""
        result = (sums.sum(keepdims=True) if self.of_all else sums).astype(dtype)
        return result if self.divisor == 1 else result / dtype.type(self.divisor)


@dataclass(frozen=True, slots=True)
class HostRowKernel:
    """A loop over ``rows`` contiguous rows of ``n`` elements, with the attributes of :class:`.fused_rows.RowKernel`.

    Attributes
    ----------
    loop : callable
        ``loop(first, last, n, *arrays, *numbers)``.
    arrays : tuple of str
        Which operands these are; one that is not there is not read.
    reads, writes : tuple of Operand
        Arrays, in the order of the addresses that a call is given, all of one dtype.
    source, target : str
        The operands that are rows: what can be computed, and what can be gone on with.
    rows, n : int
        Rows, and elements of each.
    numbers : tuple of str
        Types of the numbers as codes of :mod:`struct`.
    sums : tuple of str
        Operands that are sums over rows, which the loop adds to.
    total : Total, optional
        What becomes of sums of rows, which the loop writes as float64 in place of the only result.
    """

    loop: Callable[..., None]
    arrays: tuple[str, ...]
    reads: tuple[Operand, ...]
    writes: tuple[Operand, ...]
    source: str
    target: str
    rows: int
    n: int
    numbers: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()
    total: Total | None = None
    refusal: str = (
        "there is no loop for what repeats after a part of a row, or after different numbers of rows"
    )

    @property
    def chain_itemsize(self) -> int:
        """Bytes of the widest elements that chains may have."""
        return 8

    def plan(
        self, device: None, name: str, before: Chain | None, after: Chain | None
    ) -> Callable[..., None] | None:
        """What runs it with chains before and after it: see :func:`.fused_rows.plan`; ``None`` if a chain has no loop."""
        element = next(each.dtype for each in self.reads if each.name == self.source)
        chains: list[ChainLoop | None] = []
        for chain in (before, after):
            loop = None if chain is None else ChainLoop.of(chain, name, self.rows, self.n, element)
            if chain is not None and loop is None:
                return None
            chains.append(loop)
        return BlocksOfRows(self, element, *chains)


def _is_plain(dtypes: Sequence[dtype]) -> bool:
    """Whether loops have elements of these types: all of float32, or of float64."""
    return dtypes[0] in (float32, float64) and all(each is dtypes[0] for each in dtypes)


def row_kernel(
    rows: Rows,
    input_dtype: dtype,
    weight: dtype | None,
    result: dtype | None = None,
    *,
    has_weight: bool,
    has_bias: bool,
) -> HostRowKernel | None:
    """As that of :mod:`nvrtc_kernels.normalization`, or ``None`` where there is no loop."""
    if not _fits(rows, input_dtype, weight or input_dtype, result or input_dtype):
        return None
    loop = normalization.forward_loop(input_dtype is float64, rows.center, has_weight, has_bias)
    if loop is None:
        return None
    return HostRowKernel(
        loop,
        ("in", "weight", "bias", "out", "mean", "scale"),
        (
            Operand("in", input_dtype),
            Operand("weight", input_dtype, has_weight),
            Operand("bias", input_dtype, has_bias),
        ),
        (
            Operand("out", input_dtype),
            Operand("mean", input_dtype, rows.center),
            Operand("scale", input_dtype),
        ),
        "in",
        "out",
        rows.rows,
        rows.n,
        ("d" if input_dtype is float64 else "f",),
    )


def backward_row_kernel(
    rows: Rows, grad: dtype, input_dtype: dtype, weight: dtype | None, *, has_weight: bool
) -> HostRowKernel | None:
    """As that of :mod:`nvrtc_kernels.normalization`, or ``None`` where there is no loop."""
    return _gradients(rows, grad, input_dtype, weight, has_weight, sums=False)


def gradients_row_kernel(
    rows: Rows, grad: dtype, input_dtype: dtype, weight: dtype | None, sums: dtype, *, has_weight: bool
) -> HostRowKernel | None:
    """As that of :mod:`nvrtc_kernels.normalization`, or ``None`` where there is no loop."""
    return _gradients(rows, grad, input_dtype, weight, has_weight, sums=True) if sums is input_dtype else None


def _gradients(
    rows: Rows, grad: dtype, input_dtype: dtype, weight: dtype | None, has_weight: bool, *, sums: bool
) -> HostRowKernel | None:
    if not _fits(rows, input_dtype, weight or input_dtype, grad):
        return None
    loop = normalization.backward_loop(input_dtype is float64, rows.center, has_weight, True, sums)
    if loop is None:
        return None
    of_weight = ("weight_gradient", "bias_gradient") if sums else ()
    return HostRowKernel(
        loop,
        ("grad", "in", "weight", "mean", "scale", "out", "weight_gradient", "bias_gradient"),
        (
            Operand("grad", input_dtype),
            Operand("in", input_dtype),
            Operand("weight", input_dtype, has_weight),
            Operand("mean", input_dtype, rows.center),
            Operand("scale", input_dtype),
        ),
        (
            Operand("out", input_dtype),
            *(Operand(name, input_dtype, rows.center or not k) for k, name in enumerate(of_weight)),
        ),
        "grad",
        "out",
        rows.rows,
        rows.n,
        sums=of_weight,
    )


def _fits(rows: Rows, *dtypes: dtype) -> bool:
    return rows.plain and worth(rows.rows * rows.n) and _is_plain(dtypes)


def softmax_row_kernel(
    sizes: tuple[int, int, int], output: dtype, input_dtype: dtype, *, log: bool
) -> HostRowKernel | None:
    """As that of :mod:`nvrtc_kernels.softmax`, or ``None`` where there is no loop."""
    return _softmax(softmax.forward_loop, ("in",), sizes, (output, input_dtype), log)


def softmax_backward_row_kernel(
    sizes: tuple[int, int, int], output: dtype, grad: dtype, result: dtype, *, log: bool
) -> HostRowKernel | None:
    """As that of :mod:`nvrtc_kernels.softmax`, or ``None`` where there is no loop."""
    return _softmax(softmax.backward_loop, ("grad", "result"), sizes, (output, grad, result), log)


def _softmax(
    loop_for: Callable[[bool], Callable[..., None] | None],
    reads: tuple[str, ...],
    sizes: tuple[int, int, int],
    dtypes: Sequence[dtype],
    log: bool,
) -> HostRowKernel | None:
    outer, n, inner = sizes
    if inner > 1 or not softmax.fits(outer, n) or any(each is not float32 for each in dtypes):
        return None
    loop = loop_for(log)
    if loop is None:
        return None
    operands = tuple(Operand(name, float32) for name in reads)
    return HostRowKernel(
        loop, (*reads, "out"), operands, (Operand("out", float32),), reads[0], "out", outer, n
    )


def sum_row_kernel(
    shape: Sequence[int], axes: Sequence[int], dtype: dtype, *, mean: bool
) -> HostRowKernel | None:
    """Sums of contiguous float32 over the last dimensions ``axes``, or means; ``None`` where there is no loop."""
    outer = len(shape) - len(axes)
    if dtype is not float32 or not axes or tuple(axes) != tuple(range(outer, len(shape))):
        return None
    rows, n = prod(shape[:outer]), prod(shape[outer:])
    total = Total(rows == 1, n if mean else 1)
    if rows == 1 and len(shape):
        rows, n = n // shape[-1] if shape[-1] else 0, shape[-1]
    if n < _LEAST_SUMMED or not worth(rows * n):
        return None
    loop = row_sums_loop()
    if loop is None:
        return None
    return HostRowKernel(
        loop, ("in", "out"), (Operand("in", dtype),), (Operand("out", dtype),), "in", "", rows, n, total=total
    )
