"""Transforms of Winograd's F(2 x 2, 3 x 3) on the CPU: of tiles of an image, of products, of a result's gradient, and of weights.

Arrays are of float32. Native loops compute what ``cuda/winograd.cuh`` says for a tile of a channel, and write the tile at once.
Without them NumPy takes a step for all tiles at a time.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from nvrtc_kernels.dtypes import float32
from nvrtc_kernels.program import library_program

from .planning import mode, plan
from .signature import ELEMENT, RELOCATABLE, Signature

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"

_HALF = np.float32(0.5)


def transform_image(padded: Array, out: Array) -> None:
    """Write ``(4, 4, items, rows, across, channels)`` of ``(items, 2 * rows + 2, 2 * across + 2, channels)``."""
    _, _, _, rows, across, _ = out.shape
    rows, across = 2 * rows - 1, 2 * across - 1
    first = padded[:, :rows:2, :across:2]
    if _natively("image", _tile_of(out), _Tile(first, (4, 4), padded.strides[1:3])):
        return
    scratch = np.empty_like(padded[:, :rows:2])
    for i in range(4):
        _image_step(i, [padded[:, k : k + rows : 2] for k in range(4)], scratch)
        for j in range(4):
            _image_step(j, [scratch[:, :, k : k + across : 2] for k in range(4)], out[i, j])


def _image_step(number: int, parts: Sequence[Array], out: Array) -> None:
    """Element ``number`` of ``(d0 - d2, d1 + d2, d2 - d1, d1 - d3)``."""
    if number == 1:
        np.add(parts[1], parts[2], out=out)
    else:
        first, second = ((0, 2), (1, 2), (2, 1), (1, 3))[number]
        np.subtract(parts[first], parts[second], out=out)


def transform_products(products: Array, out: Array) -> None:
    """Write ``(items, 2 * rows, 2 * across, channels)`` of ``(4, 4, items, rows, across, channels)``."""
    if _natively("products", _Tile(out[:, ::2, ::2], (2, 2), out.strides[1:3]), _tile_of(products)):
        return
    rows = np.empty_like(products[0])
    for i in range(2):
        _products_step(i, products, rows)
        for j in range(2):
            _products_step(j, rows, out[:, i::2, j::2])


def _products_step(number: int, parts: Array, out: Array) -> None:
    """Element ``number`` of ``(p0 + p1 + p2, p1 - p2 - p3)``."""
    if number == 0:
        np.add(parts[0], parts[1], out=out)
        out += parts[2]
    else:
        np.subtract(parts[1], parts[2], out=out)
        out -= parts[3]


def transform_gradient(grad: Array, out: Array) -> None:
    """Write ``(4, 4, items, rows, across, channels)`` of ``(items, 2 * rows, 2 * across, channels)``."""
    if _natively("gradient", _tile_of(out), _Tile(grad[:, ::2, ::2], (2, 2), grad.strides[1:3])):
        return
    a, b, c, d = (grad[:, i::2, j::2] for i in range(2) for j in range(2))
    for into, left, right in zip(out, (a, a + c, a - c, -c), (b, b + d, b - d, -d), strict=True):
        into[0] = left
        np.add(left, right, out=into[1])
        np.subtract(left, right, out=into[2])
        np.negative(right, out=into[3])


def transform_weight(weight: Array) -> Array:
    """``(4, 4, n, m)`` of ``(3, 3, n, m)``, which may lie anyhow."""
    weight = np.ascontiguousarray(weight)
    result = np.empty((4, 4, *weight.shape[2:]), np.float32)
    if _natively("weight", _tile_of(result), _tile_of(weight)):
        return result
    rows = _weight_step(weight)
    return np.ascontiguousarray(_weight_step(rows.swapaxes(0, 1)).swapaxes(0, 1))


def _weight_step(array: Array) -> Array:
    """``(g0, (g0 + g1 + g2) / 2, (g0 - g1 + g2) / 2, g2)``."""
    result = np.empty((4, *array.shape[1:]), np.float32)
    outer, inner = (array[0] + array[2]) * _HALF, array[1] * _HALF
    np.add(outer, inner, out=result[1])
    np.subtract(outer, inner, out=result[2])
    result[0], result[3] = array[0], array[2]
    return result


def transform_weight_gradient(array: Array, out: Array) -> None:
    """Write ``(3, 3, n, m)``, which may lie anyhow, of ``(4, 4, n, m)``."""
    if not _natively("weight_gradient", _tile_of(out), _tile_of(array)):
        rows = _weight_gradient_step(array)
        out[...] = _weight_gradient_step(rows.swapaxes(0, 1)).swapaxes(0, 1)


def _weight_gradient_step(array: Array) -> Array:
    """``(u0 + (u1 + u2) / 2, (u1 - u2) / 2, (u1 + u2) / 2 + u3)``."""
    result = np.empty((3, *array.shape[1:]), np.float32)
    half = (array[1] + array[2]) * _HALF
    np.add(array[0], half, out=result[0])
    np.multiply(array[1] - array[2], _HALF, out=result[1])
    np.add(half, array[3], out=result[2])
    return result


class _Tile(NamedTuple):
    """The elements of tiles.

    Attributes
    ----------
    first : array
        Those in the first row and column.
    shape : tuple of int
        Of a tile.
    steps : tuple of int
        Bytes from a row to the next, and from a column.
    """

    first: Array
    shape: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def layout(self) -> tuple[Any, ...]:
        """All that loops depend on."""
        return self.first.strides, self.shape, self.steps


def _tile_of(array: Array) -> _Tile:
    """Of an array with the rows and columns of tiles first."""
    return _Tile(array[0, 0], array.shape[:2], array.strides[:2])


def _natively(name: str, results: _Tile, parts: _Tile) -> bool:
    """Write the elements of tiles by a native loop, if there is one."""
    if mode() == "off":
        return False
    run = _plan(name, results.first.shape, results.layout, parts.layout)
    if run is None:
        return False
    run(results.first.ctypes.data, parts.first.ctypes.data)
    return True


@functools.lru_cache(maxsize=256)
def _plan(name: str, shape: tuple[int, ...], *layouts: tuple[Any, ...]) -> Callable[[int, int], None] | None:
    """``run(address of the results' first elements, of the parts')``."""
    size = float32.itemsize
    strides, offsets = [], []
    for steps, (rows, columns), (down, right) in layouts:
        strides += [[step // size for step in steps]] * (rows * columns)
        offsets.append([down * i + right * j for i in range(rows) for j in range(columns)])
    of_results, of_parts = offsets
    members = tuple((size * number, float32) for number in range(len(of_results)))
    signature = Signature(members, (float32,) * len(of_parts))
    loop = plan(_program(name, len(of_parts)), signature, shape, strides)
    if loop is None:
        return None

    def run(results: int, parts: int) -> None:
        loop(*[results + offset for offset in of_results], *[parts + offset for offset in of_parts])

    return run


def _program(name: str, parts: int) -> Any:
    arguments = [f"d{number}" for number in range(parts)]
    result = f"decltype({name}({{}}))"
    text = (
        '#include "winograd.cuh"\n'
        f'extern "C" __device__ {result} {ELEMENT}({", ".join(f"float {each}" for each in arguments)}) {{\n'
        f"    return {name}({{{{{', '.join(arguments)}}}}});\n}}\n"
    )
    return library_program(text, f"winograd_{name}.cu", *RELOCATABLE)
