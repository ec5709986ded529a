"""Tensor maps: what the 128 bytes of a ``CUtensorMap`` say, and where the elements of a box lie.

The layout of the bytes is this driver's own, as NVIDIA's is not public; programs pass them on unread. Dimension 0 is the
innermost one. An *element* is one of the tensor's, or with an interleaved layout (NC/8HWC8) the 16 or 32 bytes that
the channels of a slice take.
"""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

BYTES = 128
MOST_DIMENSIONS = 5
_MAGIC = 0x50414D54
_LAYOUT = np.dtype(
    [
        ("magic", "<u4"),
        ("rank", "u1"),
        ("data_type", "u1"),
        ("interleave", "u1"),
        ("swizzle", "u1"),
        ("address", "<u8"),
        ("sizes", "<u4", 5),
        ("box", "<u2", 5),
        ("strides", "<u8", 4),
        ("steps", "u1", 5),
        ("fill", "u1"),
        ("im2col", "u1"),
        ("promotion", "u1"),
        ("lower", "<i2", 3),
        ("upper", "<i2", 3),
        ("channels", "<u2"),
        ("pixels", "<u2"),
        ("unused", "V26"),
    ]
)
#: The same, for packing.
_PACKER = struct.Struct("<I4BQ5I5H4Q5B3B3h3h2H26x")
assert _LAYOUT.itemsize == _PACKER.size == BYTES
#: PTX type, and bytes, of the elements of each ``CUtensorMapDataType``.
DATA_TYPES = (
    ("u8", 1), ("u16", 2), ("u32", 4), ("s32", 4), ("u64", 8), ("s64", 8), ("f16", 2), ("f32", 4), ("f64", 8),
    ("bf16", 2), ("f32", 4), ("f32", 4), ("f32", 4),
)  # fmt: skip
#: Those that flush subnormal numbers to zero when they are read.
FLUSHING = (10, 12)
FLOATS = range(6, 13)
INTERLEAVED_BYTES = {0: 0, 1: 16, 2: 32}
#: How addresses in shared memory are swizzled: ``(bits, from, to)`` of each ``CUtensorMapSwizzle``. The bits of an
#: address from ``from`` on are combined with those from ``to`` on.
SWIZZLES: dict[int, tuple[tuple[int, int, int], ...]] = {
    0: (),
    1: ((1, 7, 4),),
    2: ((2, 7, 4),),
    3: ((3, 7, 4),),
    4: ((2, 7, 5),),
    5: ((2, 7, 5), (1, 7, 3)),
    6: ((1, 7, 6),),
}
#: Bytes within which each swizzle permutes a row.
SWIZZLE_SPANS = {0: 0, 1: 32, 2: 64, 3: 128, 4: 128, 5: 128, 6: 128}
#: After so many bytes every pattern is repeated.
PATTERN = 1024


def swizzled(addresses: Array, swizzle: int) -> Array:
    """Where bytes of shared memory that would be at ``addresses`` are."""
    result = addresses
    for bits, source, target in SWIZZLES[swizzle]:
        result = result ^ (addresses >> source & ((1 << bits) - 1)) << target
    return result


def _padded(numbers: tuple[int, ...], count: int) -> tuple[int, ...]:
    return numbers + (0,) * (count - len(numbers))


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor in global memory, and the box of it that one instruction moves.

    ``sizes``, ``box`` and ``steps`` have an entry for each dimension, ``strides`` (bytes) for each but the first. In the
    im2col mode the box is ``pixels`` pixels of ``channels`` channels, and the corners bound where it is laid.
    """

    rank: int
    data_type: int
    address: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    interleave: int = 0
    swizzle: int = 0
    fill: int = 0
    promotion: int = 0
    im2col: bool = False
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    channels: int = 0
    pixels: int = 0

    @property
    def ptx_type(self) -> str:
        """PTX type of the tensor's elements."""
        return DATA_TYPES[self.data_type][0]

    @property
    def element_bytes(self) -> int:
        """Bytes of what dimension 0 counts."""
        return INTERLEAVED_BYTES[self.interleave] or DATA_TYPES[self.data_type][1]

    @property
    def counts(self) -> tuple[int, ...]:
        """How many elements a tiled box has along each dimension."""
        return tuple(-(-size // step) for size, step in zip(self.box, self._steps, strict=True))

    @property
    def _steps(self) -> tuple[int, ...]:
        # The innermost dimension is traversed without gaps, but where it is one of slices.
        return (self.steps[0] if self.interleave else 1, *self.steps[1:])

    @property
    def box_bytes(self) -> int:
        """Bytes that one instruction moves, those outside the tensor included."""
        elements = self.pixels * self.channels if self.im2col else int(np.prod(self.counts))
        return elements * self.element_bytes

    def encode(self) -> bytes:
        """The 128 bytes."""
        return _PACKER.pack(
            _MAGIC, self.rank, self.data_type, self.interleave, self.swizzle, self.address,
            *(size & 0xFFFFFFFF for size in _padded(self.sizes, 5)), *_padded(self.box, 5), *_padded(self.strides, 4),
            *_padded(self.steps, 5), self.fill, self.im2col, self.promotion, *_padded(self.lower, 3),
            *_padded(self.upper, 3), self.channels, self.pixels,
        )  # fmt: skip

    @classmethod
    @functools.lru_cache(256)
    def decode(cls, data: bytes) -> TensorMap | None:
        """What 128 bytes say; ``None`` where they are no tensor map."""
        (record,) = np.frombuffer(data, _LAYOUT)
        rank = int(record["rank"])
        known = record["magic"] == _MAGIC and 1 <= rank <= MOST_DIMENSIONS
        if (
            not known
            or record["data_type"] >= len(DATA_TYPES)
            or int(record["swizzle"]) not in SWIZZLES
            or int(record["interleave"]) not in INTERLEAVED_BYTES
        ):
            return None
        im2col = bool(record["im2col"])

        def numbers(name: str, count: int) -> tuple[int, ...]:
            return tuple(record[name][:count].tolist())

        return cls(
            rank,
            int(record["data_type"]),
            int(record["address"]),
            # A size of 2 ** 32 is written as 0.
            tuple(size or 1 << 32 for size in numbers("sizes", rank)),
            numbers("strides", rank - 1),
            () if im2col else tuple(max(size, 1) for size in numbers("box", rank)),
            tuple(max(step, 1) for step in numbers("steps", rank)),
            int(record["interleave"]),
            int(record["swizzle"]),
            int(record["fill"]),
            int(record["promotion"]),
            im2col,
            numbers("lower", rank - 2) if im2col else (),
            numbers("upper", rank - 2) if im2col else (),
            int(record["channels"]),
            int(record["pixels"]),
        )

    # Where elements are

    def contains(self, coordinates: tuple[int, ...]) -> bool:
        """Whether all of a tiled box is in the tensor."""
        return all(
            0 <= at <= size - most for at, most, size in zip(coordinates, self.box, self.sizes, strict=True)
        )

    def elements(self, coordinates: tuple[int, ...], offsets: tuple[int, ...] = ()) -> tuple[Array, Array]:
        """Byte offsets from the tensor's address of a box's elements, in order, and which of them are in the tensor.

        ``coordinates`` are those of the box's first element; in the im2col mode ``offsets`` are added to the pixels'.
        """
        if self.im2col:
            return self._pixels(coordinates, offsets)
        away = np.zeros(1, np.int64)
        inside = np.ones(1, np.bool_)
        # The innermost dimension varies fastest.
        pitches = (self.element_bytes, *self.strides)
        axes = zip(coordinates, self.counts, self._steps, self.sizes, pitches, strict=True)
        for start, count, step, size, pitch in axes:
            index = start + step * np.arange(count, dtype=np.int64)
            away = ((index * pitch)[:, None] + away).ravel()
            inside = (((index >= 0) & (index < size))[:, None] & inside).ravel()
        return away, inside

    def _pixels(self, coordinates: tuple[int, ...], offsets: tuple[int, ...]) -> tuple[Array, Array]:
        """The elements of the im2col mode: pixels of the bounding box in order, each with its channels."""
        first, *position, image = coordinates
        walk = np.empty((self.pixels, self.rank - 1), np.int64)
        for pixel in range(self.pixels):
            walk[pixel] = (*position, image)
            for axis in range(self.rank - 2):
                position[axis] += self.steps[axis + 1]
                if position[axis] <= self.sizes[axis + 1] - 1 + self.upper[axis]:
                    break
                position[axis] = self.lower[axis]
            else:
                image += 1
        if offsets:
            walk[:, : self.rank - 2] += np.array(offsets, np.int64)
        channel = first + np.arange(self.channels, dtype=np.int64)
        inside = np.asarray(((walk >= 0) & (walk < np.array(self.sizes[1:]))).all(axis=1))
        away = walk @ np.array(self.strides, np.int64)
        everywhere = (away[:, None] + channel * self.element_bytes).ravel()
        there = (inside[:, None] & (channel >= 0) & (channel < self.sizes[0])).ravel()
        return everywhere, there

    def fill_value(self) -> bytes:
        """Bytes of an element outside the tensor: NaN, or none where these are zero."""
        if not self.fill:
            return b""
        size = DATA_TYPES[self.data_type][1]
        return b"\xff" * (size - 1) + b"\x7f"


#: What a kernel has begun to make: one element of one dimension, nowhere.
EMPTY = TensorMap(1, 0, 0, (1,), (), (1,), (1,), 0, 0, 0, 0)


@functools.lru_cache(maxsize=256)
def element_offsets(count: int, element_bytes: int, swizzle: int, start: int) -> Array:
    """Offsets of the elements of a box in shared memory, from a position that is ``start`` past a whole pattern."""
    linear = start + element_bytes * np.arange(count, dtype=np.int64)
    # Elements larger than what is swizzled apart do not occur.
    result = swizzled(linear, swizzle) - start
    result.flags.writeable = False
    return result
