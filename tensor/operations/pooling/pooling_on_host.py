"""Pooling with NumPy: planes in the leading dimension, and three spatial ones."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.convolution import Windows
from tensor.core.host.threads import share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nvrtc_kernels.pooling import Pool

    Array = NDArray[Any]

#: Bytes of planes at a time, which should stay in the cache.
_BLOCK = 1 << 18


def _padded(array: Array, windows: Windows, fill: Any) -> Array:
    """The image with what all windows see around it."""
    pads = [(0, 0)]
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
        pads.append((padding, max(reach - size - padding, 0)))
    return np.pad(array, pads, constant_values=fill) if any(map(any, pads)) else array


def _taps(windows: Windows) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """Each tap of the windows: its offsets, and what all windows see with it of a padded image."""
    for index in np.ndindex(*windows.kernel):
        start = tuple(k * d for k, d in zip(index, windows.dilation, strict=True))
        seen = tuple(
            slice(at, at + (n - 1) * step + 1, step)
            for at, n, step in zip(start, windows.out, windows.stride, strict=True)
        )
        yield start, (..., *seen)


def _parts(pool: Any) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """Each output of an adaptive pooling, and the slices of the image that it covers."""
    size, out = pool
    for index in np.ndindex(*out):
        yield (
            index,
            (
                ...,
                *(slice(i * n // m, -(-(i + 1) * n // m)) for i, n, m in zip(index, size, out, strict=True)),
            ),
        )


def _lowest(kind: Any) -> Any:
    return np.iinfo(kind).min if kind.kind in "iu" else -np.inf


def largest(array: Array, pool: Pool) -> tuple[Array, Array]:
    """Largest elements of the windows and their places in the plane; the last NaN where there is one."""
    planes = array.shape[0]
    if not isinstance(pool, Windows):
        size, out = pool
        values = np.empty((planes, *out), array.dtype)
        places = np.empty((planes, *out), np.int64)
        numbers = np.arange(np.prod(size)).reshape(size)
        for index, seen in _parts(pool):
            flat = array[seen].reshape(planes, -1)
            at = flat.argmax(1)
            values[(slice(None), *index)] = np.take_along_axis(flat, at[:, None], 1)[:, 0]
            places[(slice(None), *index)] = numbers[seen].reshape(-1)[at]
        return values, places
    values = np.empty((planes, *pool.out), array.dtype)
    places = np.empty((planes, *pool.out), np.int64)
    if not places.size:
        return values, places
    shifted = _Shifted(pool)
    several = max(_BLOCK // (shifted.area * len(shifted.phases) * array.itemsize), 1)

    def work(piece: int) -> None:
        part = slice(piece * several, (piece + 1) * several)
        if not _largest(array[part], shifted, values[part], places[part]):
            _largest_one_by_one(array[part], pool, values[part], places[part])

    share(work, -(-planes // several))
    return values, places


class _Shifted:
    """Windows as shifts of flat arrays.

    The padded image is cut into phases: elements whose coordinates have the same remainders by the stride. What all
    windows see with one tap of them is one of the phases from some element on, so that whole images are compared at
    once, however short their rows are.
    """

    def __init__(self, pool: Windows) -> None:
        self.pool = pool
        reach = [d * (k - 1) // s for d, k, s in zip(pool.dilation, pool.kernel, pool.stride, strict=True)]
        self.shape = tuple(n + r for n, r in zip(pool.out, reach, strict=True))
        self.area = prod(self.shape)
        _, height, width = self.shape
        #: Elements from the first window's to the last one's.
        self.length = ((pool.out[0] - 1) * height + pool.out[1] - 1) * width + pool.out[2]
        self.phases: list[tuple[int, ...]] = []
        #: Of each tap: its phase, and where in that it starts.
        self.taps: list[tuple[int, int]] = []
        offsets = []
        for start, _ in _taps(pool):
            z, y, x = (at // step for at, step in zip(start, pool.stride, strict=True))
            phase = tuple(at % step for at, step in zip(start, pool.stride, strict=True))
            if phase not in self.phases:
                self.phases.append(phase)
            self.taps.append((self.phases.index(phase), (z * height + y) * width + x))
            offsets.append(_place(pool, start))
        firsts = [
            np.arange(n) * step - pad
            for n, step, pad in zip(pool.out, pool.stride, pool.padding, strict=True)
        ]
        #: Place of a window's first element in the plane, and how far from that a tap is.
        self.firsts = _place(pool, np.ix_(*firsts))
        self.offsets = np.array(offsets)
        self.numbers = np.min_scalar_type(len(offsets))

    def cut(self, array: Array) -> list[Array]:
        """The phases of some planes, flat."""
        pool, lowest = self.pool, _lowest(array.dtype)
        made = []
        for phase in self.phases:
            into, seen, whole = [], [], True
            for first, n, size, step, pad in zip(
                phase, self.shape, pool.size, pool.stride, pool.padding, strict=True
            ):
                # Elements ``first - pad + step * i`` of the image, those of them that there are.
                begin = max(-((first - pad) // step), 0)
                end = max(min(-((first - pad - size) // step), n), begin)
                into.append(slice(begin, end))
                seen.append(slice(first - pad + step * begin, first - pad + step * end, step))
                whole = whole and end - begin == n
            held = np.empty((len(array), *self.shape), array.dtype)
            if not whole:
                held[...] = lowest
            held[(slice(None), *into)] = array[(slice(None), *seen)]
            made.append(held.reshape(len(array), -1))
        return made


def _place(pool: Windows, at: Any) -> Any:
    """Number of an element of the plane."""
    z, y, x = at
    return (z * pool.size[1] + y) * pool.size[2] + x


def _largest(array: Array, shifted: _Shifted, values: Array, places: Array) -> bool:
    """The maxima of some planes; ``False`` where there are NaN, or windows of which padding is the largest."""
    phases, length, lowest = shifted.cut(array), shifted.length, _lowest(array.dtype)
    best = np.empty((len(array), shifted.area), array.dtype)
    taps = np.zeros((len(array), shifted.area), shifted.numbers)
    found, numbers = best[:, :length], taps[:, :length]
    better = np.empty(found.shape, np.bool_)
    for number, (phase, at) in enumerate(shifted.taps):
        here = phases[phase][:, at : at + length]
        if not number:
            found[...] = here
            continue
        np.greater(here, found, out=better)
        np.maximum(found, here, out=found)
        # Later taps have larger numbers.
        np.maximum(numbers, better.view(np.uint8) * shifted.numbers.type(number), out=numbers)
    inner = (slice(None), *map(slice, shifted.pool.out))
    values[...] = best.reshape(len(array), *shifted.shape)[inner]
    if np.isnan(values.max() + values.min()) if array.dtype.kind == "f" else False:
        return False
    if any(shifted.pool.padding) and values.min() == lowest:
        return False
    np.take(shifted.offsets, taps.reshape(len(array), *shifted.shape)[inner], out=places, mode="clip")
    places += shifted.firsts
    return True


def _largest_one_by_one(array: Array, pool: Windows, values: Array, places: Array) -> None:
    padded = _padded(array, pool, _lowest(array.dtype))
    values[...] = _lowest(array.dtype)
    places[...] = -1
    starts = [
        np.arange(n) * step - pad for n, step, pad in zip(pool.out, pool.stride, pool.padding, strict=True)
    ]
    for start, seen in _taps(pool):
        z, y, x = np.ix_(*[first + at for first, at in zip(starts, start, strict=True)])
        inside = (z >= 0) & (z < pool.size[0]) & (y >= 0) & (y < pool.size[1]) & (x >= 0) & (x < pool.size[2])
        here = padded[seen]
        better = inside & ((here > values) | (here != here) | (places < 0))
        np.copyto(values, here, where=better)
        np.copyto(places, _place(pool, (z, y, x)), where=better)


def largest_gradient(grad: Array, places: Array, size: tuple[int, ...]) -> Array:
    """Gradients added up at the places they came from."""
    planes, area = grad.shape[0], int(np.prod(size))
    flat = np.zeros(planes * area, grad.dtype)
    at = places.reshape(planes, -1) + (np.arange(planes) * area)[:, None]
    np.add.at(flat, at.reshape(-1), grad.reshape(-1))
    return flat.reshape(planes, *size)


def divisors(pool: Pool, with_padding: bool, fixed: int) -> Array:
    """What the sums over windows are divided by."""
    if not isinstance(pool, Windows):
        size, out = pool
        counts = [
            np.array([-(-(i + 1) * n // m) - i * n // m for i in range(m)])
            for n, m in zip(size, out, strict=True)
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


def mean(array: Array, pool: Pool, with_padding: bool, fixed: int) -> Array:
    """Means over windows."""
    divisor = divisors(pool, with_padding, fixed)
    if not isinstance(pool, Windows):
        sums = np.empty((array.shape[0], *pool[1]), array.dtype)
        for index, seen in _parts(pool):
            sums[(slice(None), *index)] = array[seen].sum((-3, -2, -1))
    else:
        padded = _padded(array, pool, 0)
        sums = np.zeros((array.shape[0], *pool.out), array.dtype)
        for _, seen in _taps(pool):
            sums += padded[seen]
    return (sums / divisor).astype(array.dtype)


def mean_gradient(grad: Array, pool: Pool, with_padding: bool, fixed: int) -> Array:
    """The gradient of each mean, shared by the elements of its window."""
    shares = (grad / divisors(pool, with_padding, fixed)).astype(grad.dtype)
    planes = grad.shape[0]
    if not isinstance(pool, Windows):
        made = np.zeros((planes, *pool[0]), grad.dtype)
        for index, seen in _parts(pool):
            made[seen] += shares[(slice(None), *index)][:, None, None, None]
        return made
    padded = _padded(np.zeros((planes, *pool.size), grad.dtype), pool, 0)
    for _, seen in _taps(pool):
        padded[seen] += shares
    inner = tuple(slice(p, p + n) for p, n in zip(pool.padding, pool.size, strict=True))
    return padded[(slice(None), *inner)]
