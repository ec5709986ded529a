"""Transforms of NumPy arrays, by the loops of ``numpy.fft``.

``numpy.fft.fft`` itself computes in double precision, by way of converted copies of the whole array, unless it
divides: an undivided transform's factor is an integer there. Its loops, given a factor of the data's type, keep single
precision, take a quarter of the time, and multiply by any scale on the way.

Lines are independent, so that threads share them, in blocks.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drv.host.threads import share, thread_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    from numpy.typing import NDArray

    Array = NDArray[Any]
    #: ``loop(lines, factor, out=made)``: transforms of the last dimension, times a factor.
    Loop = Callable[..., Any]

#: Elements of a block that a thread takes.
_BLOCK = 1 << 15
#: Lines, at least, of a block whose lines' elements lie side by side: what a line of the cache holds is one thread's.
_BESIDE = 8
#: Elements of a transform over several dimensions, at most, that stays in a cache from one dimension to the next.
_WHOLE = 1 << 17
#: Elements from which on several threads share the work.
_SHARED = 1 << 16
_REAL = {np.dtype(np.complex64): np.float32, np.dtype(np.complex128): np.float64}


@cache
def _loops() -> ModuleType | None:
    try:
        from numpy.fft import _pocketfft_umath  # type: ignore[attr-defined] # for the first transform
    except ImportError:  # A NumPy whose loops have another name.
        return None
    result: ModuleType = _pocketfft_umath
    return result


def _loop(name: str, size: int) -> Loop:
    """NumPy's loop for a transform with ``size`` real or complex elements in a line."""
    loops = _loops()
    if loops is not None:
        if name == "rfft":
            name = "rfft_n_odd" if size % 2 else "rfft_n_even"
        result: Loop = getattr(loops, name)
        return result
    whole = getattr(np.fft, name)
    undivided = "forward" if name.startswith("i") else "backward"

    def loop(lines: Array, factor: Any, out: Array) -> None:
        np.multiply(whole(lines, size, norm=undivided), factor, out=out)

    return loop


class Lines(NamedTuple):
    """One-dimensional transforms along the last dimension of arrays, times a factor."""

    loop: Loop
    factor: Any

    def into(self, source: Array, target: Array) -> None:
        """Transform ``source`` ``(..., n)`` to ``target``, which has the same dimensions but the last.

        They may be the same array; otherwise they share no memory.
        """
        if source.size < _SHARED:
            self.block(source, target)
            return
        room = _BLOCK // max(source.shape[-1], target.shape[-1])
        room = max(room, 1 if _has_lines(source) and _has_lines(target) else _BESIDE)
        blocks = list(_blocks(source.shape[:-1], room))
        share(lambda number: self.block(source[blocks[number]], target[blocks[number]]), len(blocks))

    def block(self, source: Array, target: Array) -> None:
        """The same by this thread alone."""
        with np.errstate(all="ignore"):
            self.loop(source, self.factor, out=target)


def _has_lines(array: Array) -> bool:
    return array.strides[-1] == array.itemsize or array.shape[-1] == 1


def _blocks(shape: Sequence[int], room: int) -> Iterator[tuple[Any, ...]]:
    """Indices that cut an array of ``shape`` into blocks of about ``room`` elements."""
    whole, axis = 1, len(shape)
    while axis and whole * shape[axis - 1] <= room:
        axis -= 1
        whole *= shape[axis]
    if not axis:
        yield ()
        return
    axis -= 1
    pieces = -(-shape[axis] * whole // room)
    step = -(-shape[axis] // pieces)
    for outer in np.ndindex(*shape[:axis]):
        for start in range(0, shape[axis], step):
            yield (*outer, slice(start, start + step))


def plan(
    transform_type: str,
    argument: Sequence[int],
    dtype: np.dtype[Any],
    axes: int,
    *,
    inverse: bool,
    scale: float,
    size: int | None,
) -> Callable[[Array, Array], None]:
    """``run(array, made)``: the transform over the last ``axes`` dimensions, times ``scale``, to a row-major ``made``.

    Parameters
    ----------
    transform_type : {"c2c", "r2c", "c2r"}
        A transform to real elements is always an inverse one.
    given, dtype
        Shape and type of the input.
    size
        Elements of the last dimension of a real result.
    """
    number: Any = _REAL.get(dtype, dtype.type)
    rank = len(argument)
    # All of the scale is the last dimension's.
    names = {"c2c": "ifft" if inverse else "fft", "r2c": "rfft", "c2r": "irfft"}
    last = Lines(_loop(names[transform_type], argument[-1] if size is None else size), number(scale))
    others = [
        ((*range(axis), *range(axis + 1, rank), axis), Lines(_loop(names["c2c"], argument[axis]), number(1)))
        for axis in range(rank - 2, rank - axes - 1, -1)
    ]

    def transform(array: Array, result: Array, along: Callable[[Lines, Array, Array], None]) -> None:
        if transform_type != "c2r":
            along(last, array, result)
            for order, lines in others:
                turned = result.transpose(order)
                along(lines, turned, turned)
            return
        source = array
        for order, lines in others:
            target = np.empty(array.shape, array.dtype) if source is array else source
            along(lines, source.transpose(order), target.transpose(order))
            source = target
        along(last, source, result)

    lead, count = tuple(argument[: rank - axes]), prod(argument[rank - axes :])
    if axes == 1 or count > _WHOLE or count * prod(lead) < _SHARED:
        return lambda array, result: transform(array, result, Lines.into)
    blocks = list(_blocks(lead, max(_BLOCK // count, 1)))

    def run(array: Array, result: Array) -> None:
        if len(blocks) < thread_count():
            transform(array, result, Lines.into)
            return

        def whole(number: int) -> None:
            transform(array[blocks[number]], result[blocks[number]], Lines.block)

        share(whole, len(blocks))

    return run
