"""CUDA arrays: what their elements are, where these lie, and mipmapped arrays of them.

An array's rows lie one after the other, its slices (or layers) too. NVIDIA's layout is not public, and nothing that a
program can do tells it from this one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from cuda.bindings.driver import CUarray_format, CUresourceViewFormat

if TYPE_CHECKING:
    from drv.simulator.driver_state import Context

    from .records import MemoryRecord

LAYERED, SURFACE, CUBEMAP, GATHER = 1, 2, 4, 8
FACES = 6
#: Largest access of a thread.
ROW_ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class ElementFormat:
    """Elements of ``channels`` numbers of ``dtype``; ``normalized`` ones are read as floats from -1 or 0 to 1."""

    dtype: np.dtype[Any]
    channels: int
    normalized: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize * self.channels

    @property
    def is_float(self) -> bool:
        """Whether the numbers are floating point ones."""
        return self.dtype.kind == "f"


_DTYPES = {
    "UNSIGNED_INT8": "u1",
    "UNSIGNED_INT16": "u2",
    "UNSIGNED_INT32": "u4",
    "SIGNED_INT8": "i1",
    "SIGNED_INT16": "i2",
    "SIGNED_INT32": "i4",
    "HALF": "f2",
    "FLOAT": "f4",
}
#: By ``CUarray_format``, for formats whose descriptor says how many channels there are.
_FORMATS = {
    int(getattr(CUarray_format, f"CU_AD_FORMAT_{name}")): np.dtype(code) for name, code in _DTYPES.items()
}
#: Formats that say themselves how many channels they have.
_NORMALIZED = {
    int(getattr(CUarray_format, f"CU_AD_FORMAT_{prefix}NORM_INT{bits}X{channels}")): ElementFormat(
        np.dtype(f"{'u' if prefix == 'U' else 'i'}{bits // 8}"), channels, normalized=True
    )
    for prefix in "US"
    for bits in (8, 16)
    for channels in (1, 2, 4)
}
#: By ``CUresourceViewFormat``; those of compressed blocks are not among them.
VIEW_FORMATS = {
    int(getattr(CUresourceViewFormat, f"CU_RES_VIEW_FORMAT_{name}_{channels}X{8 * dtype.itemsize}")): (
        ElementFormat(dtype, channels)
    )
    for dtype in map(np.dtype, _DTYPES.values())
    for channels in (1, 2, 4)
    for name in [{"u": "UINT", "i": "SINT", "f": "FLOAT"}[dtype.kind]]
}
KNOWN_FORMATS = frozenset(int(each) for each in CUarray_format) - {int(CUarray_format.CU_AD_FORMAT_MAX)}


def element_format(number: int, channels: int) -> ElementFormat | None:
    """The format that a ``CUarray_format`` and a number of channels mean; ``None`` for one that is not simulated."""
    dtype = _FORMATS.get(number)
    if dtype is None:
        return _NORMALIZED.get(number)
    return ElementFormat(dtype, channels)


@dataclass(slots=True, eq=False)
class CudaArray:
    """An array of ``width`` elements in a row; ``height`` and ``depth`` are 0 where it has no such dimension.

    Of a layered array or a cubemap ``depth`` is the number of layers, six a cube. ``flags`` are those of
    ``CUDA_ARRAY3D_DESCRIPTOR``.
    """

    handle: int
    context: Context
    format: ElementFormat
    format_number: int
    width: int
    height: int
    depth: int
    flags: int
    record: MemoryRecord
    #: Whether it is a level of a mipmapped array, with which it goes.
    is_level: bool = False

    @property
    def address(self) -> int:
        """Address of the first element."""
        return self.record.allocation.base

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.width * self.format.nbytes

    @property
    def pitch(self) -> int:
        """Bytes from one row to the next: whatever is stored at an aligned byte of a row is aligned."""
        return -(-self.row_bytes // ROW_ALIGNMENT) * ROW_ALIGNMENT

    @property
    def slice_pitch(self) -> int:
        """Bytes from one slice, or layer, to the next."""
        return self.pitch * max(self.height, 1)

    @property
    def layered(self) -> bool:
        """Whether its last dimension counts layers."""
        return bool(self.flags & LAYERED)

    @property
    def cubemap(self) -> bool:
        """Whether its layers are the faces of cubes."""
        return bool(self.flags & CUBEMAP)

    @property
    def layers(self) -> int:
        """Layers, or faces of cubes; 0 where it has none."""
        return self.depth if self.layered or self.cubemap else 0


@dataclass(slots=True, eq=False)
class MipmappedArray:
    """An array at several levels of detail, each half as large as the one before."""

    handle: int
    context: Context
    levels: list[CudaArray] = field(default_factory=list)


def level_extents(width: int, height: int, depth: int, level: int, *, layers: bool) -> tuple[int, int, int]:
    """Extents of a level; layers stay as many."""

    def halved(extent: int) -> int:
        return max(extent >> level, 1) if extent else 0

    return halved(width), halved(height), depth if layers else halved(depth)


def most_levels(width: int, height: int, depth: int, *, layers: bool) -> int:
    """How many levels there are until every extent is 1."""
    return max(width, height, 0 if layers else depth).bit_length()
