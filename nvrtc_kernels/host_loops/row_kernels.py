"""Loops over rows on the CPU with the pointwise operations before and after them, in blocks of rows that stay in the cache.

What :mod:`nvrtc_kernels.fused_rows` is for kernels of a device: a chain of operations writes some rows to memory that is used for
the next rows again, a normalization or softmax works on these, and another chain goes on with them. Each is the loop that it is by
itself, so results have the same bits.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from drv.host.threads import share
from nvrtc_kernels import fused_pointwise
from nvrtc_kernels.dtypes import float32, float64
from nvrtc_kernels.fused_rows import Operand

from . import normalization, softmax
from .code import assembled, function
from .normalization import bounds_of
from .planning import worth
from .row_sums import row_sums_loop
from .signature import NEIGHBOURS, SAME, SCALARS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nvrtc_kernels.dtypes import dtype
    from nvrtc_kernels.fused_rows import Chain
    from nvrtc_kernels.normalization import Rows

#: Elements of a block, which stays in the first cache, and of a row from which on it is worth being summed by itself.
_BLOCK, _LEAST_SUMMED = 1 << 12, 16


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
    def largest(self) -> int:
        """Bytes of the widest elements that chains may have."""
        return 8

    def plan(
        self, device: None, name: str, before: Chain | None, after: Chain | None
    ) -> Callable[..., None] | None:
        """What runs it with chains before and after it: see :func:`.fused_rows.plan`; ``None`` if a chain has no loop."""
        element = next(each.dtype for each in self.reads if each.name == self.source)
        chains: list[_ChainLoop | None] = []
        for chain in (before, after):
            loop = None if chain is None else _ChainLoop.of(chain, name, self.rows, self.n, element)
            if chain is not None and loop is None:
                return None
            chains.append(loop)
        return _Run(self, element, *chains)


@dataclass(frozen=True, slots=True)
class _ChainLoop:
    """The loop of a chain: ``loop(first, last, geometry, *results, *inputs, *scalars)``, the rows the last of one or the other.

    Attributes
    ----------
    results, inputs : int
        How many there are beside the rows.
    scalars : tuple of str
        Codes of the numbers.
    draws : bool
        Whether the first two of them say which random words it draws.
    shared : int or None
        Which of the results is also the rows that it makes.
    """

    loop: Callable[..., None]
    geometry: Any
    results: int
    inputs: int
    scalars: tuple[str, ...]
    draws: bool
    shared: int | None

    @classmethod
    def of(cls, chain: Chain, name: str, rows: int, n: int, element: dtype) -> _ChainLoop | None:
        """The loop over ``rows`` rows of ``n`` elements, of which those that it makes or goes on with are of dtype ``element``."""
        repeated = {period // n for _, period in chain.inputs if period > n}
        if (
            chain.lookups
            or len(repeated) > 1
            or any(1 < period < n or period % n for _, period in chain.inputs if period > 1)
        ):
            return None
        results, inputs, lines = list(chain.results), list(chain.inputs), chain.lines
        shared = None
        if not chain.value:
            lines = (f"const auto row = input{len(inputs)};", *lines)
            inputs.append((element, 0))
        elif (chain.value, element) in results:
            shared = results.index((chain.value, element))
        else:
            results.append((chain.value, element))
        values, outputs = tuple(value for value, _ in results), [each for _, each in results]
        operation = fused_pointwise.Chain(name, lines, values, chain.scalars, chain.draws, chain.include)
        described = fused_pointwise.on_host(operation, outputs, [each for each, _ in inputs])
        if described is None:
            return None
        period = next(iter(repeated), 1)
        outer = [rows // period, period] if period > 1 else [rows]
        accesses = [NEIGHBOURS] * len(results) + [SAME if each == 1 else NEIGHBOURS for _, each in inputs]
        loop = function(*described, len(outer), tuple(accesses))
        if loop is None:
            return None
        numbers = [n, *outer]
        for each, repeats in (*((each, 0) for each in outputs), *inputs):
            row = 0 if 0 < repeats <= n else n * each.itemsize
            steps = [0 if repeats else row * period, row] if period > 1 else [row]
            numbers += [*steps, 0 if repeats == 1 else each.itemsize]
        codes = tuple(str(code) for _, code in chain.scalars)
        sizes = len(chain.results), len(chain.inputs)
        return cls(loop, np.array(numbers, np.int64), *sizes, codes, chain.draws, shared)


class _Fixed(NamedTuple):
    """An argument that is the same in all calls."""

    value: int


#: Of an argument of a loop, behind the first and last row: its type in LLVM, and what it is: an argument of a call by its position,
#: the rows that are worked on, sums of each of all rows, or a sum over rows by its name; an empty name is that of an array that is not there.
_Argument: TypeAlias = "tuple[str, int | str | _Fixed]"
_ROWS, _SUMS_OF_ROWS = "rows", "sums of rows"


class _Run:
    """``run(stream, *arguments)``, with the arguments of :func:`.fused_rows.plan`."""

    def __init__(
        self, kernel: HostRowKernel, element: dtype, before: _ChainLoop | None, after: _ChainLoop | None
    ) -> None:
        self._kernel, self._dtype = kernel, element.numpy
        self._row, self._step = kernel.n * element.itemsize, max(_BLOCK // kernel.n, 1)
        self._bounds = bounds_of(kernel.rows, kernel.n)
        #: Chains, whose geometries the stages have the addresses of.
        self._chains = before, after
        stages, sums = _stages(kernel, before, after)
        #: Of each sum that is asked for, its number and the argument that says where it goes.
        #: Which argument says where the only result goes, if the kernel's loop does not write it.
        self._result = before.results if before else 0
        self._sums = [(number, sums[name]) for number, name in enumerate(kernel.sums) if name in sums]
        self._sources = [
            source
            for address, arguments in stages
            for source in (_Fixed(address), *(source for _, source in arguments if source != _ROWS))
        ]
        self._run = _driver(
            tuple(tuple((kind, source == _ROWS) for kind, source in each) for _, each in stages)
        )

    def __call__(self, _: Any, *arguments: Any) -> None:
        kernel, step, run = self._kernel, self._step, self._run
        pieces = len(self._bounds) - 1
        sums = np.zeros((len(kernel.sums), pieces, kernel.n), self._dtype)
        of_rows = np.empty(0 if kernel.total is None else kernel.rows)
        passed: list[Any] = []
        of_piece: list[tuple[int, int]] = []
        for number, source in enumerate(self._sources):
            if isinstance(source, int):
                passed.append(arguments[source])
            elif isinstance(source, _Fixed):
                passed.append(source.value)
            else:
                passed.append(of_rows.ctypes.data if source == _SUMS_OF_ROWS else None)
                if source in kernel.sums:
                    of_piece.append((number, kernel.sums.index(source)))

        def work(piece: int) -> None:
            own = list(passed)
            for number, position in of_piece:
                own[number] = sums[position, piece].ctypes.data
            room = np.empty(step * kernel.n, self._dtype)
            run(self._bounds[piece], self._bounds[piece + 1], step, self._row, room.ctypes.data, *own)

        share(work, pieces)
        if kernel.total is not None:
            total = kernel.total.of(of_rows, np.dtype(self._dtype))
            ctypes.memmove(arguments[self._result], total.ctypes.data, total.nbytes)
        for number, position in self._sums:
            total = sums[number].sum(0)
            ctypes.memmove(arguments[position], total.ctypes.data, total.nbytes)


def _stages(
    kernel: HostRowKernel, before: _ChainLoop | None, after: _ChainLoop | None
) -> tuple[list[tuple[int, list[_Argument]]], dict[str, int]]:
    """Addresses and arguments of the loops that are called one after the other, and which arguments sums go to, by name."""
    count = itertools.count()

    def several(number: int) -> list[int]:
        return list(itertools.islice(count, number))

    names = [
        [each.name for each in operands if each.is_there and not (chain and each.name == rows)]
        for operands, chain, rows in (
            (kernel.writes, after, kernel.target),
            (kernel.reads, before, kernel.source),
        )
    ]
    results = [several(before.results if before else 0)]
    own: dict[str, int | str] = dict(zip(names[0], several(len(names[0])), strict=True))
    results.append(several(after.results if after else 0))
    inputs = [several(before.inputs if before else 0)]
    own |= dict(zip(names[1], several(len(names[1])), strict=True))
    inputs.append(several(after.inputs if after else 0))
    draw = several(2 * any(chain is not None and chain.draws for chain in (before, after)))
    sums = {name: place for name in kernel.sums if isinstance(place := own.get(name), int)}
    own |= {name: name for name in kernel.sums}
    if kernel.total is not None:
        own[kernel.writes[0].name] = _SUMS_OF_ROWS
    stages: list[tuple[int, list[_Argument]]] = []

    def add_chain(number: int, chain: _ChainLoop, rows: list[_Argument]) -> None:
        scalars = [*(draw if chain.draws else ()), *several(len(chain.scalars) - 2 * chain.draws)]
        pointers: list[_Argument] = [("ptr", place) for place in results[number]]
        pointers += [*([] if number else rows), *(("ptr", place) for place in inputs[number])]
        pointers += rows if number else []
        numbers = zip((SCALARS[code] for code in chain.scalars), scalars, strict=True)
        geometry: _Argument = "ptr", _Fixed(chain.geometry.ctypes.data)
        stages.append((_address(chain.loop), [geometry, *pointers, *numbers]))

    if before is not None:
        add_chain(0, before, [("ptr", _ROWS)] if before.shared is None else [])
        own[kernel.source] = _ROWS if before.shared is None else results[0][before.shared]
    if after is not None:
        own[kernel.target] = _ROWS
    arrays: list[_Argument] = [("ptr", own.get(name, "")) for name in kernel.arrays]
    numbers: list[_Argument] = [
        (SCALARS[code], place)
        for code, place in zip(kernel.numbers, several(len(kernel.numbers)), strict=True)
    ]
    stages.append((_address(kernel.loop), [("i64", _Fixed(kernel.n)), *arrays, *numbers]))
    if after is not None:
        add_chain(1, after, [("ptr", _ROWS)])
    return stages, sums


def _address(loop: Callable[..., None]) -> int:
    result = ctypes.cast(loop, ctypes.c_void_p).value  # type: ignore[arg-type]
    assert result is not None
    return result


_CTYPES = {
    "ptr": ctypes.c_void_p,
    "i64": ctypes.c_int64,
    "i32": ctypes.c_int32,
    "i8": ctypes.c_uint8,
    "double": ctypes.c_double,
    "float": ctypes.c_float,
}


@functools.cache
def _driver(stages: tuple[tuple[tuple[str, bool], ...], ...]) -> Callable[..., None]:
    """``run(first, last, step, row, room, *arguments)``, which calls loops for ``step`` rows after the other.

    Arguments are, for each loop, its address and what it is given behind the first and last row, but for the rows in ``room``, which
    has ``row`` bytes for each: ``stages`` has the types of all, and whether they are these rows.
    """
    types = ["i64"] * 4 + ["ptr"]
    for stage in stages:
        types += ["ptr", *(kind for kind, is_rows in stage if not is_rows)]
    result = assembled(
        ("blocks of rows", stages), lambda: _driver_text(stages), [_CTYPES[each] for each in types]
    )
    assert result is not None, "there is a compiler, as there are loops"
    return result


def _driver_text(stages: Sequence[Sequence[tuple[str, bool]]]) -> str:
    parameters = ["i64 %first", "i64 %last", "i64 %step", "i64 %row", "ptr %room"]
    calls = []
    for number, stage in enumerate(stages):
        parameters.append(f"ptr %loop{number}")
        passed = ["i64 %start", "i64 %stop"]
        for k, (kind, is_rows) in enumerate(stage):
            passed.append("ptr %rows" if is_rows else f"{kind} %a{number}.{k}")
            if not is_rows:
                parameters.append(passed[-1])
        calls.append(f"call void %loop{number}({', '.join(passed)})")
    lines = [
        f"define void @loop({', '.join(parameters)}) nounwind {{",
        "entry:",
        "%any = icmp slt i64 %first, %last",
        "br i1 %any, label %block, label %done",
        "block:",
        "%start = phi i64 [ %first, %entry ], [ %stop, %block ]",
        "%full = add i64 %start, %step",
        "%whole = icmp slt i64 %full, %last",
        "%stop = select i1 %whole, i64 %full, i64 %last",
        # Loops count rows from the first of all.
        "%bytes = mul i64 %start, %row",
        "%back = sub i64 0, %bytes",
        "%rows = getelementptr i8, ptr %room, i64 %back",
        *calls,
        "%more = icmp slt i64 %stop, %last",
        "br i1 %more, label %block, label %done",
        "done:",
        "ret void",
        "}",
    ]
    return "\n".join(lines)


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
