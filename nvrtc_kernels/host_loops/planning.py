"""Which loop computes operands of given layouts, and its call on several threads."""

from __future__ import annotations

import ctypes
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.environment import native_loops
from drv.host import machine_code
from drv.host.threads import share
from nvrtc_kernels.pointwise_work import operands_of

from .code import function
from .signature import NEIGHBOURS, SAME, STEPS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv.environment import NativeLoops
    from nvrtc_kernels.program import Program

    from .signature import Signature

#: Elements from which on a loop is worth its call, and from which on a second thread is worth starting.
FEW, PIECE = 1 << 13, 1 << 17
#: Most pieces of a loop: enough for threads that are not equally quick.
_MOST_PIECES = 64
#: Outer dimensions at most, and columns that a row has at least if it is not the only one.
_RANK, _COLUMNS = 4, 16
#: Columns of rows that are worth it to let vectors alternate.
_LONG = 512


class _Mode:
    """Which loops are compiled; ``None`` before the environment was asked."""

    name: NativeLoops | None = None


def mode() -> NativeLoops:
    """``auto``, ``on`` or ``off``, as ``GRAPHROOT_CPU_NATIVE`` or :func:`set_mode` says; ``off`` without llvmlite."""
    name = _mode()
    return name if name == "off" or machine_code.available() else "off"


def _mode() -> NativeLoops:
    """The same whether llvmlite is there or not, which takes a while to look for."""
    if _Mode.name is None:
        _Mode.name = native_loops()
    return _Mode.name


def set_mode(name: NativeLoops) -> None:
    """Compile loops for what is planned from now on, or not."""
    _Mode.name = name


def worth(count: int, few: int = FEW) -> bool:
    """Whether ``count`` elements are enough for a loop, for which ``few`` are."""
    name = _mode()
    least = 1 if name == "on" else few
    return count >= least and name != "off" and machine_code.available()


def plan(
    program: Program,
    signature: Signature,
    shape: Sequence[int],
    strides: Sequence[Sequence[int]],
    few: int = FEW,
) -> Callable[..., None] | None:
    """What computes ``program``'s function ``element`` over operands that lie as ``strides`` say, results first.

    Parameters
    ----------
    program : Program
        CUDA C++ with a device function ``element``, compiled as relocatable code.
    signature : Signature
        Its types.
    shape : sequence of int
        Common shape of all operands.
    strides : sequence of sequences of int
        In elements; 0 along a stretched dimension.
    few : int
        Elements from which on it is worth a call.

    Returns
    -------
    callable or None
        ``run(*addresses, *scalars)``; ``None`` where NumPy is the better choice, or there is no such loop.
    """
    count = prod(shape)
    if not worth(count, few):
        return None
    types = [*(each for _, each in signature.results), *signature.inputs]
    operands = operands_of(shape, strides, [each.itemsize for each in types])
    *outer, columns = operands.sizes
    accesses = tuple({0: SAME, 1: NEIGHBOURS}.get(steps[-1], STEPS) for steps in operands.strides)
    if (
        len(outer) > _RANK
        or (outer and columns < _COLUMNS and _mode() == "auto")
        or SAME in accesses[: len(signature.results)]
    ):
        return None
    loop = function(program, signature, len(outer), accesses, not outer or columns >= _LONG)
    if loop is None:
        return None
    numbers = [columns, *outer]
    for steps, itemsize in zip(operands.strides, operands.itemsizes, strict=True):
        numbers += [step * itemsize for step in steps]
    return _shared(loop, np.array(numbers, np.int64), prod(outer) if outer else columns, count)


#: What a loop without outer dimensions, all of whose operands are contiguous, reads of the geometry: nothing.
_NO_GEOMETRY = np.zeros(64, np.int64)


def flat(program: Program, signature: Signature) -> Callable[..., None] | None:
    """The same for contiguous operands of any number of elements: ``run(count, *addresses, *scalars, first=0)``.

    ``count`` elements from ``first`` on are computed, at addresses that are those of element 0. ``None`` where there is no such loop.
    Whether there are enough elements is the caller's to ask: see :func:`worth`.
    """
    loop = function(program, signature, 0, (NEIGHBOURS,) * signature.operands)
    if loop is None:
        return None
    geometry, pack = _NO_GEOMETRY.ctypes.data, signature.pack

    def run(count: int, *arguments: Any, first: int = 0) -> None:
        pieces = min(count * pack // PIECE, _MOST_PIECES)
        if pieces < 2:
            loop(first, first + count, geometry, *arguments)
        else:
            bounds = [first + each for each in _bounds(count, pieces)]
            share(lambda piece: loop(bounds[piece], bounds[piece + 1], geometry, *arguments), pieces)

    return run


def plan_packs(program: Program, signature: Signature, count: int) -> Callable[..., None] | None:
    """The same for ``count`` contiguous elements of each operand, of which an element of the loop takes several.

    A last element whose neighbours are not all there is computed beside the operands.
    """
    if not worth(count):
        return None
    loop = function(program, signature, 0, (NEIGHBOURS,) * signature.operands)
    if loop is None:
        return None
    pack, results = signature.pack, len(signature.results) // signature.pack
    types = [*(each for _, each in signature.results), *signature.inputs][::pack]
    sizes = [each.itemsize for each in types]
    whole, rest = divmod(count, pack)
    geometry = np.array([whole, *sizes], np.int64)
    run_whole = _shared(loop, geometry, whole, whole * pack)
    if not rest:
        return run_whole

    def run(*arguments: Any) -> None:
        run_whole(*arguments)
        addresses, scalars = arguments[: len(sizes)], arguments[len(sizes) :]
        beside = [np.zeros(pack * size, np.uint8) for size in sizes]
        ends = [address + whole * pack * size for address, size in zip(addresses, sizes, strict=True)]
        for position in range(results, len(sizes)):
            ctypes.memmove(beside[position].ctypes.data, ends[position], rest * sizes[position])
        # The loop counts from the first element of all.
        moved = [each.ctypes.data - whole * pack * size for each, size in zip(beside, sizes, strict=True)]
        loop(whole, whole + 1, geometry.ctypes.data, *moved, *scalars)
        for position in range(results):
            ctypes.memmove(ends[position], beside[position].ctypes.data, rest * sizes[position])

    return run


def _bounds(total: int, pieces: int) -> list[int]:
    """Where pieces of ``total`` rows or columns begin and end.

    Where they are many, in multiples of 64: vectors of operands that begin at a line of the cache lie in one line each.
    """
    unit = 64 if total // pieces >= 4096 else 1
    return [*(total * piece // pieces // unit * unit for piece in range(pieces)), total]


def _shared(loop: Callable[..., None], geometry: Any, total: int, count: int) -> Callable[..., None]:
    """The call of a loop over ``total`` rows or columns with ``count`` elements, in pieces if they are many."""
    address = geometry.ctypes.data
    pieces = min(count // PIECE, total, _MOST_PIECES)
    if pieces < 2:

        def run_at_once(*arguments: Any, _keeps: Any = geometry) -> None:
            loop(0, total, address, *arguments)

        return run_at_once
    bounds = _bounds(total, pieces)

    def run(*arguments: Any, _keeps: Any = geometry) -> None:
        share(lambda piece: loop(bounds[piece], bounds[piece + 1], address, *arguments), pieces)

    return run
