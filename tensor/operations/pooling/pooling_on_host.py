"""Pooling with NumPy: planes in the leading dimension, and three spatial ones.

Each function gives what computes for arrays of one shape: which elements are read, and where results go, is worked
out once.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.host.threads import share
from nvrtc_kernels.convolution import Windows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from nvrtc_kernels.pooling import Adaptive, Fractional, Pool

    Array = NDArray[Any]

#: Bytes of planes at a time, which should stay in the cache.
_BLOCK = 1 << 18
#: Outputs of an adaptive pooling up to which a plan holds what each of them covers.
_HELD = 4096


class _Padding:
    """The image with what all windows see around it."""

    def __init__(self, windows: Windows) -> None:
        sizes, inner = [], []
        for size, kernel, stride, padding, dilation, out in zip(
            windows.size,
            windows.kernel,
            windows.stride,
            windows.padding,
            windows.dilation,
            windows.out,
            strict=True,
        ):
            reach = (out - 1) * stride + dilation * (kernel - 1) + 1
            sizes.append(max(reach, padding + size))
            inner.append(slice(padding, padding + size))
        #: Of a padded plane, and where the image is in it.
        self.shape: tuple[int, ...] = tuple(sizes)
        self.inner: tuple[Any, ...] = (..., *inner)
        self.needed = self.shape != windows.size
        #: What is around the image.
        self.borders: list[tuple[Any, ...]] = []
        for axis, part in enumerate(inner):
            after = (slice(None),) * (2 - axis)
            self.borders += [
                (..., side, *after)
                for side in (slice(0, part.start), slice(part.stop, sizes[axis]))
                if side.start < side.stop
            ]

    def of(self, array: Array, fill: Any) -> Array:
        """Padded planes."""
        if not self.needed:
            return array
        result = np.empty((len(array), *self.shape), array.dtype)
        result[self.inner] = array
        for border in self.borders:
            result[border] = fill
        return result


def _kernel_elements(windows: Windows) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """Each kernel element: its offsets, and what all windows see with it of a padded image."""
    for index in np.ndindex(*windows.kernel):
        start = tuple(k * d for k, d in zip(index, windows.dilation, strict=True))
        seen = tuple(
            slice(at, at + (n - 1) * step + 1, step)
            for at, n, step in zip(start, windows.out, windows.stride, strict=True)
        )
        yield start, (..., *seen)


class _Parts:
    """Each output of an adaptive pooling, and the slices of the image that it covers."""

    def __init__(self, pool: Adaptive) -> None:
        self.size, self.out = pool.size, pool.out

    def __iter__(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        for index in np.ndindex(*self.out):
            ranges = [
                slice(i * n // m, -(-(i + 1) * n // m))
                for i, n, m in zip(index, self.size, self.out, strict=True)
            ]
            yield (slice(None), *index), (..., *ranges)


def _parts(pool: Any) -> Iterable[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    parts = _Parts(pool)
    return list(parts) if prod(pool.out) <= _HELD else parts


def _lowest(dtype: Any) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def largest(pool: Pool, planes: int, dtype: Any) -> Callable[[Array, Array, Array], None]:
    """``run(array, values, positions)``: largest elements of the windows and their positions in the plane.

    Of several NaN the last one is taken.
    """
    if not isinstance(pool, Windows):
        return _largest_adaptive(pool, planes)
    dtype = np.dtype(dtype)
    shifted = _Shifted(pool, _lowest(dtype))
    several = max(_BLOCK // (shifted.area * len(shifted.phases) * dtype.itemsize), 1)
    pieces = -(-planes // several)
    ranges = [slice(piece * several, (piece + 1) * several) for piece in range(pieces)]

    def run(array: Array, values: Array, positions: Array) -> None:
        def work(piece: int) -> None:
            part = ranges[piece]
            if not _largest(array[part], shifted, values[part], positions[part]):
                _largest_one_by_one(array[part], pool, values[part], positions[part])

        if pieces == 1:
            work(0)
        else:
            share(work, pieces)

    return run


def _largest_adaptive(pool: Any, planes: int) -> Callable[[Array, Array, Array], None]:
    parts = _parts(pool)
    numbers = np.arange(prod(pool.size)).reshape(pool.size)

    def run(array: Array, values: Array, positions: Array) -> None:
        for into, seen in parts:
            flat = array[seen].reshape(planes, -1)
            at = flat.argmax(1)
            values[into] = np.take_along_axis(flat, at[:, None], 1)[:, 0]
            positions[into] = numbers[seen[1:]].reshape(-1)[at]

    return run


class _Shifted:
    """Windows as shifts of flat arrays.

    The padded image is cut into phases: elements whose coordinates have the same remainders by the stride. What all
    windows see with one kernel element of them is one of the phases from some element on, so that whole images are compared at
    once, however short their rows are.
    """

    def __init__(self, pool: Windows, lowest: Any) -> None:
        self.pool = pool
        self.lowest = lowest
        reach = [d * (k - 1) // s for d, k, s in zip(pool.dilation, pool.kernel, pool.stride, strict=True)]
        self.shape = tuple(n + r for n, r in zip(pool.out, reach, strict=True))
        self.area = prod(self.shape)
        _, height, width = self.shape
        #: Elements from the first window's to the last one's.
        self.length = ((pool.out[0] - 1) * height + pool.out[1] - 1) * width + pool.out[2]
        self.phases: list[tuple[int, ...]] = []
        #: Of each kernel element: its phase, and where in that it starts.
        self.kernel_elements: list[tuple[int, int]] = []
        offsets = []
        for start, _ in _kernel_elements(pool):
            z, y, x = (at // step for at, step in zip(start, pool.stride, strict=True))
            phase = tuple(at % step for at, step in zip(start, pool.stride, strict=True))
            if phase not in self.phases:
                self.phases.append(phase)
            self.kernel_elements.append((self.phases.index(phase), (z * height + y) * width + x))
            offsets.append(_place(pool, start))
        firsts = [
            np.arange(n) * step - pad
            for n, step, pad in zip(pool.out, pool.stride, pool.padding, strict=True)
        ]
        #: Place of a window's first element in the plane, and how far from that a kernel element is.
        self.firsts = _place(pool, np.ix_(*firsts))
        self.offsets = np.array(offsets)
        self.numbers = np.min_scalar_type(len(offsets))
        #: The windows' results in a plane, and whether windows see padding.
        self.inner = (slice(None), *map(slice, pool.out))
        self.padded = any(pool.padding)
        self._cuts = [self._cut(phase) for phase in self.phases]

    def _cut(self, phase: tuple[int, ...]) -> tuple[bool, tuple[slice, ...], tuple[slice, ...]]:
        """Whether a phase has no padding, and its elements: where they go, and where they are."""
        pool = self.pool
        into, seen, whole = [slice(None)], [slice(None)], True
        for first, n, size, step, pad in zip(
            phase, self.shape, pool.size, pool.stride, pool.padding, strict=True
        ):
            # Elements ``first - pad + step * i`` of the image, those of them that there are.
            begin = max(-((first - pad) // step), 0)
            end = max(min(-((first - pad - size) // step), n), begin)
            into.append(slice(begin, end))
            seen.append(slice(first - pad + step * begin, first - pad + step * end, step))
            whole = whole and end - begin == n
        return whole, tuple(into), tuple(seen)

    def cut(self, array: Array) -> list[Array]:
        """The phases of some planes, flat."""
        result = []
        for whole, into, seen in self._cuts:
            held = np.empty((len(array), *self.shape), array.dtype)
            if not whole:
                held[...] = self.lowest
            held[into] = array[seen]
            result.append(held.reshape(len(array), -1))
        return result


def _place(pool: Windows, at: Any) -> Any:
    """Number of an element of the plane."""
    z, y, x = at
    return (z * pool.size[1] + y) * pool.size[2] + x


def _largest(array: Array, shifted: _Shifted, values: Array, positions: Array) -> bool:
    """The maxima of some planes; ``False`` where there are NaN, or windows of which padding is the largest."""
    phases, length, lowest = shifted.cut(array), shifted.length, shifted.lowest
    best = np.empty((len(array), shifted.area), array.dtype)
    kernel_elements = np.zeros((len(array), shifted.area), shifted.numbers)
    result, numbers = best[:, :length], kernel_elements[:, :length]
    better = np.empty(result.shape, np.bool_)
    for number, (phase, at) in enumerate(shifted.kernel_elements):
        here = phases[phase][:, at : at + length]
        if not number:
            result[...] = here
            continue
        np.greater(here, result, out=better)
        np.maximum(result, here, out=result)
        # Later kernel elements have larger numbers.
        np.maximum(numbers, better.view(np.uint8) * shifted.numbers.type(number), out=numbers)
    values[...] = best.reshape(len(array), *shifted.shape)[shifted.inner]
    # Methods of arrays are Python code that calls these.
    least = np.minimum.reduce(values, None)
    if array.dtype.kind == "f" and np.isnan(np.maximum.reduce(values, None) + least):
        return False
    if shifted.padded and least == lowest:
        return False
    which = kernel_elements.reshape(len(array), *shifted.shape)[shifted.inner]
    shifted.offsets.take(which, out=positions, mode="clip")
    positions += shifted.firsts
    return True


def _largest_one_by_one(array: Array, pool: Windows, values: Array, positions: Array) -> None:
    padded = _Padding(pool).of(array, _lowest(array.dtype))
    values[...] = _lowest(array.dtype)
    positions[...] = -1
    starts = [
        np.arange(n) * step - pad for n, step, pad in zip(pool.out, pool.stride, pool.padding, strict=True)
    ]
    for start, seen in _kernel_elements(pool):
        z, y, x = np.ix_(*[first + at for first, at in zip(starts, start, strict=True)])
        inside = (z >= 0) & (z < pool.size[0]) & (y >= 0) & (y < pool.size[1]) & (x >= 0) & (x < pool.size[2])
        here = padded[seen]
        better = inside & ((here > values) | (here != here) | (positions < 0))
        np.copyto(values, here, where=better)
        np.copyto(positions, _place(pool, (z, y, x)), where=better)


def fractional(pool: Fractional, planes: int, rank: int) -> Callable[[Array, Array, Array, Array], None]:
    """``run(array, shares, values, positions)``: :func:`largest` of windows at random positions.

    ``shares`` are those of a step ``(planes, rank)``: images give the one for their width first, volumes that for
    their depth.
    """
    axes = range(3 - rank, 3)
    kernel_elements = prod(pool.kernel)

    def starts(axis: int, shares: Array) -> Array:
        """Where windows begin: steps of nearly the same size."""
        count, last = pool.out[axis], pool.size[axis] - pool.kernel[axis]
        result = np.full((planes, count), last)
        if count > 1:
            step = shares.dtype.type(last / (count - 1))
            moved = (np.arange(count - 1, dtype=shares.dtype) + shares) * step
            result[:, :-1] = moved.astype(np.int64) - (shares * step).astype(np.int64)
        return result

    def run(array: Array, shares: Array, values: Array, positions: Array) -> None:
        index: Any = 0
        for axis in axes:
            column = 2 - axis if rank == 2 else axis
            at = starts(axis, shares[:, column, None])[:, :, None] + np.arange(pool.kernel[axis])
            shape = [planes, *[1] * 6]
            shape[1 + axis], shape[4 + axis] = pool.out[axis], pool.kernel[axis]
            index = index * pool.size[axis] + at.reshape(shape)
        index = index.reshape(planes, -1)
        taken = np.take_along_axis(array.reshape(planes, -1), index, 1).reshape(planes, -1, kernel_elements)
        best = taken.argmax(-1)
        if taken.dtype.kind == "f" and np.isnan(np.maximum.reduce(taken, None)):
            nan = np.isnan(taken)
            best = np.where(nan.any(-1), kernel_elements - 1 - nan[..., ::-1].argmax(-1), best)
        best = best[..., None]
        values[...] = np.take_along_axis(taken, best, -1).reshape(values.shape)
        positions[...] = np.take_along_axis(index.reshape(taken.shape), best, -1).reshape(positions.shape)

    return run


def largest_gradient(planes: int, area: int) -> Callable[[Array, Array, Array], None]:
    """``run(grad, positions, out)``: gradients added up at the positions of ``area`` elements that they came from."""
    starts = (np.arange(planes) * area)[:, None]

    def run(grad: Array, positions: Array, out: Array) -> None:
        flat = out.reshape(-1)
        flat[...] = 0
        np.add.at(flat, (positions.reshape(planes, -1) + starts).reshape(-1), grad.reshape(-1))

    return run


def _divisors(pool: Pool, with_padding: bool, fixed: int) -> Any:
    """What the sums over windows are divided by."""
    if not isinstance(pool, Windows):
        counts = [
            -(-np.arange(1, m + 1) * n // m) - np.arange(m) * n // m
            for n, m in zip(pool.size, pool.out, strict=True)
        ]
    elif fixed:
        return np.full(pool.out, fixed)
    else:
        counts = []
        for n, kernel, stride, padding, out_size in zip(
            pool.size, pool.kernel, pool.stride, pool.padding, pool.out, strict=True
        ):
            first = np.arange(out_size) * stride - padding
            end = np.minimum(first + kernel, n + padding)
            counts.append(end - first if with_padding else np.minimum(end, n) - np.maximum(first, 0))
    return counts[0][:, None, None] * counts[1][:, None] * counts[2]


def mean(pool: Pool, with_padding: bool, fixed: int) -> Callable[[Array, Array], None]:
    """``run(array, out)``: means over windows."""
    divisor = _divisors(pool, with_padding, fixed)
    if not isinstance(pool, Windows):
        parts = _parts(pool)

        def run_adaptive(array: Array, out: Array) -> None:
            for into, seen in parts:
                np.add.reduce(array[seen], (-3, -2, -1), dtype=array.dtype, out=out[into])
            np.divide(out, divisor, out=out, casting="unsafe")

        return run_adaptive
    padding = _Padding(pool)
    first, *others = (seen for _, seen in _kernel_elements(pool))

    def run(array: Array, out: Array) -> None:
        padded = padding.of(array, 0)
        np.add(padded[first], 0, out=out, casting="unsafe")
        for seen in others:
            out += padded[seen]
        # Divided in float64, and rounded once.
        np.divide(out, divisor, out=out, casting="unsafe")

    return run


def mean_gradient(pool: Pool, with_padding: bool, fixed: int) -> Callable[[Array, Array], None]:
    """``run(grad, out)``: the gradient of each mean, shared by the elements of its window."""
    divisor = _divisors(pool, with_padding, fixed)
    if not isinstance(pool, Windows):
        parts = _parts(pool)

        def run_adaptive(grad: Array, out: Array) -> None:
            shares = np.divide(grad, divisor, out=np.empty_like(grad), casting="unsafe")
            out[...] = 0
            for into, seen in parts:
                out[seen] += shares[into][:, None, None, None]

        return run_adaptive
    padding, kernel_elements = _Padding(pool), [seen for _, seen in _kernel_elements(pool)]

    def run(grad: Array, out: Array) -> None:
        shares = np.divide(grad, divisor, out=np.empty_like(grad), casting="unsafe")
        padded = np.zeros((len(grad), *padding.shape), grad.dtype) if padding.needed else out
        if padded is out:
            padded[...] = 0
        for seen in kernel_elements:
            padded[seen] += shares
        if padded is not out:
            out[...] = padded[padding.inner]

    return run
