"""Calls of several loops for blocks of rows: each block goes through all of them while it is in the first cache.

A chain of pointwise operations writes rows to memory that is used for the next rows again, a kernel of rows works on these, and
another chain goes on with them. One function calls the loops, so that a block takes no call of Python's.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from drv.host.threads import share
from nvrtc_kernels import fused_pointwise
from nvrtc_kernels.fused_rows import Input

from .code import assembled, function
from .rows import bounds_of
from .signature import NEIGHBOURS, SAME, SCALARS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nvrtc_kernels.dtypes import dtype
    from nvrtc_kernels.fused_rows import Chain

    from .row_kernels import HostRowKernel

#: Elements of a block, which stays in the first cache.
_BLOCK = 1 << 12


@dataclass(frozen=True, slots=True)
class ChainLoop:
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
    def of(cls, chain: Chain, name: str, rows: int, n: int, element: dtype) -> ChainLoop | None:
        """The loop over ``rows`` rows of ``n`` elements, of which those that it makes or goes on with are of dtype ``element``."""
        repeated = {each.period // n for each in chain.inputs if each.period > n}
        if chain.lookups or len(repeated) > 1 or not all(_has_loop(each, n) for each in chain.inputs):
            return None
        results, inputs, lines = list(chain.results), list(chain.inputs), chain.lines
        shared = None
        if not chain.value:
            lines = (f"const auto row = input{len(inputs)};", *lines)
            inputs.append(Input(element))
        elif (chain.value, element) in results:
            shared = results.index((chain.value, element))
        else:
            results.append((chain.value, element))
        values, outputs = tuple(value for value, _ in results), [each for _, each in results]
        operation = fused_pointwise.Chain(name, lines, values, chain.scalars, chain.draws, chain.include)
        described = fused_pointwise.on_host(operation, outputs, [each.dtype for each in inputs])
        if described is None:
            return None
        period = next(iter(repeated), 1)
        outer = [rows // period, period] if period > 1 else [rows]
        accesses = [NEIGHBOURS] * len(results)
        accesses += [SAME if each.period == 1 or each.stretch > 1 else NEIGHBOURS for each in inputs]
        loop = function(*described, len(outer), tuple(accesses))
        if loop is None:
            return None
        numbers = [n, *outer]
        for each, repeats, stretch, _ in (*map(Input, outputs), *inputs):
            row = 0 if 0 < repeats <= n else each.itemsize * (n // stretch)
            steps = [0 if repeats else row * period, row] if period > 1 else [row]
            numbers += [*steps, 0 if repeats == 1 or stretch > 1 else each.itemsize]
        codes = tuple(str(code) for _, code in chain.scalars)
        sizes = len(chain.results), len(chain.inputs)
        return cls(loop, np.array(numbers, np.int64), *sizes, codes, chain.draws, shared)


class _Fixed(NamedTuple):
    """An argument that is the same in all calls."""

    value: int


def _has_loop(operand: Input, n: int) -> bool:
    """Whether a loop over rows of ``n`` elements reads an operand: it has one for each row, or repeats after some of them."""
    if operand.stretch > 1:
        return operand.stretch == n and operand.inner == 1 and not operand.period
    return operand.period <= 1 or not operand.period % n


#: Of an argument of a loop, behind the first and last row: its type in LLVM, and what it is: an argument of a call by its position,
#: the rows that are worked on, sums of each of all rows, or a sum over rows by its name; an empty name is that of an array that is not there.
_Argument: TypeAlias = "tuple[str, int | str | _Fixed]"
_ROWS, _SUMS_OF_ROWS = "rows", "sums of rows"


class BlocksOfRows:
    """``run(stream, *arguments)``, with the arguments of :func:`.fused_rows.plan`."""

    def __init__(
        self, kernel: HostRowKernel, element: dtype, before: ChainLoop | None, after: ChainLoop | None
    ) -> None:
        self._kernel, self._dtype = kernel, element.numpy
        self._row, self._step = kernel.n * element.itemsize, max(_BLOCK // kernel.n, 1)
        self._bounds = bounds_of(kernel.rows, kernel.n)
        #: Chains, whose geometries the stages have the addresses of.
        self._chains = before, after
        stages, sums = _stages(kernel, before, after)
        #: Which argument says where the only result goes, if the kernel's loop does not write it.
        self._result = before.results if before else 0
        #: Of each sum that is asked for, its number and the argument that says where it goes.
        self._sums = [(number, sums[name]) for number, name in enumerate(kernel.sums) if name in sums]
        self._sources = [
            source
            for address, arguments in stages
            for source in (_Fixed(address), *(source for _, source in arguments if source != _ROWS))
        ]
        self._run = _driver(
            tuple(tuple((ir_type, source == _ROWS) for ir_type, source in each) for _, each in stages)
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
    kernel: HostRowKernel, before: ChainLoop | None, after: ChainLoop | None
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
    sums = {name: position for name in kernel.sums if isinstance(position := own.get(name), int)}
    own |= {name: name for name in kernel.sums}
    if kernel.total is not None:
        own[kernel.writes[0].name] = _SUMS_OF_ROWS
    stages: list[tuple[int, list[_Argument]]] = []

    def add_chain(number: int, chain: ChainLoop, rows: list[_Argument]) -> None:
        scalars = [*(draw if chain.draws else ()), *several(len(chain.scalars) - 2 * chain.draws)]
        pointers: list[_Argument] = [("ptr", position) for position in results[number]]
        pointers += [*([] if number else rows), *(("ptr", position) for position in inputs[number])]
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
        (SCALARS[code], position)
        for code, position in zip(kernel.numbers, several(len(kernel.numbers)), strict=True)
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
        types += ["ptr", *(ir_type for ir_type, is_rows in stage if not is_rows)]
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
        for k, (ir_type, is_rows) in enumerate(stage):
            passed.append("ptr %rows" if is_rows else f"{ir_type} %a{number}.{k}")
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
