"""Which texels a texture fetch reads, and with what weights.

The rules are those of "Texture Fetching" in the CUDA Programming Guide: fractions of a linear filter are fixed-point
numbers with 8 fractional bits, so that 1 is among them; addresses outside a texture are wrapped, clamped, mirrored, or
read the border colour. Arrays of coordinates have shape ``(lanes,)`` and are float64, in which everything up to the fractions is
exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.memory.textures import BORDER, CLAMP, MIRROR, WRAP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_FRACTIONS = 256.0
#: Further out than any texture reaches, and still an exact integer.
_FAR = float(1 << 40)


@dataclass(slots=True)
class AxisTexels:
    """Texels along one dimension: their index, their weight, and whether they are inside the texture at all."""

    index: NDArray[np.int64]
    weight: NDArray[np.float64]
    inside: NDArray[np.bool_]


def fixed_point(fraction: Array) -> Array:
    """A fraction, rounded to 8 bits; 1 is possible."""
    result: Array = np.floor(fraction * _FRACTIONS + 0.5) / _FRACTIONS
    return result


def effective_mode(mode: int, *, normalized: bool) -> int:
    """The address mode that counts: wrapping and mirroring need normalised coordinates."""
    return CLAMP if mode in (WRAP, MIRROR) and not normalized else mode


def in_texels(coordinate: Array, size: int, mode: int, *, normalized: bool) -> Array:
    """A coordinate in texels of a dimension that has ``size``."""
    x: Array = coordinate.astype(np.float64)
    x = np.where(np.isnan(x), 0.0, x)
    if normalized:
        if mode == WRAP:
            x = np.where(np.isfinite(x), x - np.floor(x), 0.0)
        elif mode == MIRROR:
            x = np.where(np.isfinite(x), x - 2.0 * np.floor(x / 2.0), 0.0)
        x = x * size
    clipped: Array = np.clip(x, -_FAR, _FAR)
    return clipped


def texels_along(
    position: Array, size: int, mode: int, *, linear: bool, offset: Array | int = 0
) -> list[AxisTexels]:
    """The texels of a dimension that a fetch at ``position`` reads; ``offset`` is added to their index."""
    if not linear:
        index = np.floor(position).astype(np.int64) + offset
        return [_tap(index, np.ones(position.shape), size, mode)]
    lower = position - 0.5
    first = np.floor(lower)
    fraction = fixed_point(lower - first)
    index = first.astype(np.int64) + offset
    return [_tap(index, 1.0 - fraction, size, mode), _tap(index + 1, fraction, size, mode)]


def _tap(index: NDArray[np.int64], weight: Array, size: int, mode: int) -> AxisTexels:
    inside = (index >= 0) & (index < size)
    if mode == WRAP:
        return AxisTexels(index % size, weight, np.ones_like(inside))
    if mode == MIRROR:
        folded = index % (2 * size)
        return AxisTexels(
            np.where(folded < size, folded, 2 * size - 1 - folded), weight, np.ones_like(inside)
        )
    clamped = np.clip(index, 0, size - 1)
    return AxisTexels(clamped, weight, inside if mode == BORDER else np.ones_like(inside))


# Cubemaps


def cube_face(x: Array, y: Array, z: Array) -> tuple[NDArray[np.int64], Array, Array, Array]:
    """Face of each direction, the position there from 0 to 1, and the length along the major axis."""
    x, y, z = (each.astype(np.float64) for each in (x, y, z))
    along_x = (np.abs(x) >= np.abs(y)) & (np.abs(x) >= np.abs(z))
    along_y = ~along_x & (np.abs(y) >= np.abs(z))
    major = np.where(along_x, x, np.where(along_y, y, z))
    positive = major >= 0
    face = np.where(along_x, 0, np.where(along_y, 2, 4)) + ~positive
    s = np.choose(face, [-z, z, x, x, x, -x])
    t = np.choose(face, [-y, -y, z, -z, -y, -y])
    length = np.abs(major)
    scale = np.where(length > 0, length, 1.0)
    return face.astype(np.int64), (s / scale + 1) / 2, (t / scale + 1) / 2, scale


def cube_direction(face: Array, s: Array, t: Array) -> tuple[Array, Array, Array]:
    """The direction of a position on a face, which may be past its edges; the inverse of :func:`cube_face`."""
    u, v = 2 * s - 1, 2 * t - 1
    one = np.ones_like(u)
    x = np.choose(face, [one, -one, u, u, u, -u])
    y = np.choose(face, [-v, -v, one, -one, -v, -v])
    z = np.choose(face, [-u, u, v, -v, one, -one])
    return x, y, z


def across_edges(
    face: NDArray[np.int64], i: NDArray[np.int64], j: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Face and texel of neighbours that are past an edge; past a corner, where three faces meet, one of them."""
    past_both = ((i < 0) | (i >= size)) & ((j < 0) | (j >= size))
    j = np.where(past_both, np.clip(j, 0, size - 1), j)
    outside = (i < 0) | (i >= size) | (j < 0) | (j >= size)
    direction = cube_direction(face, (i + 0.5) / size, (j + 0.5) / size)
    new_face, s, t, _ = cube_face(*direction)
    new_i, new_j = (np.clip(np.floor(each * size), 0, size - 1).astype(np.int64) for each in (s, t))
    return np.where(outside, new_face, face), np.where(outside, new_i, i), np.where(outside, new_j, j)


# Levels of detail


def level_of_gradients(gradients: list[list[Array]], sizes: list[int]) -> Array:
    """Level of detail where neighbours are ``gradients`` apart (one list for each direction of the screen)."""
    lengths = [
        np.sqrt(sum((each.astype(np.float64) * size) ** 2 for each, size in zip(way, sizes, strict=True)))
        for way in gradients
    ]
    largest = np.maximum(*lengths)
    result: Array = np.log2(np.where(largest > 0, largest, 2.0**-64))
    return result


def clamped_level(level: Array, bias: float, bounds: tuple[float, float], count: int) -> Array:
    """A level of detail within what the texture allows and has."""
    biased = np.where(np.isnan(level), 0.0, level) + bias
    result: Array = np.clip(np.clip(biased, *bounds), 0.0, count - 1)
    return result


# Values


def unnormalised_to_float(values: Array) -> Array:
    """Integers of 8 or 16 bits as numbers from 0, or -1, to 1."""
    largest = np.iinfo(values.dtype).max
    result: Array = np.maximum(values.astype(np.float64) / largest, -1.0)
    return result


def srgb_to_linear(values: Array) -> Array:
    """Colours from 0 to 1 in the sRGB encoding as linear ones (IEC 61966-2-1)."""
    result: Array = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    return result
