"""Textures and surfaces as kernels see them: where the elements are, and how they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drv.python_stack import Frame

    from .arrays import CudaArray, ElementFormat

WRAP, CLAMP, MIRROR, BORDER = range(4)


@dataclass(frozen=True, slots=True)
class Image:
    """Elements in memory: extents are 0 where there is no such dimension.

    ``layers`` counts layers or faces of cubes, and is 0 where there are none; ``pitch`` and ``slice_pitch`` are bytes.
    """

    address: int
    format: ElementFormat
    width: int
    height: int
    depth: int
    layers: int
    pitch: int
    slice_pitch: int
    cubemap: bool = False

    @property
    def slices(self) -> int:
        """How many slices, or layers, lie one after the other."""
        return max(self.layers or self.depth, 1)

    @property
    def rank(self) -> int:
        """Dimensions, layers not counted."""
        return 1 + (self.height > 0) + (self.depth > 0)


def image_of(
    array: CudaArray, element: ElementFormat | None = None, layers: tuple[int, int] | None = None
) -> Image:
    """An array's elements, of another format of the same size, or some layers only (the first, and past the last)."""
    first, stop = layers or (0, array.layers)
    return Image(
        array.address + first * array.slice_pitch,
        element or array.format,
        array.width,
        array.height,
        0 if array.layers else array.depth,
        stop - first,
        array.pitch,
        array.slice_pitch,
        array.cubemap,
    )


@dataclass(slots=True, eq=False)
class Texture:
    """What a texture object is: images by level of detail, and how they are sampled.

    Attributes
    ----------
    modes
        Address mode of each dimension (``CUaddress_mode``).
    linear, mip_linear
        Whether neighbours, and levels, are interpolated.
    normalized
        Whether coordinates go from 0 to 1.
    as_integers
        Whether integers stay integers.
    border
        Bits of the border colour.
    fetched
        Whether it is linear memory, whose elements are fetched by their index.
    gathers
        Whether the four neighbours can be gathered.
    """

    levels: tuple[Image, ...]
    modes: tuple[int, int, int] = (CLAMP, CLAMP, CLAMP)
    linear: bool = False
    normalized: bool = False
    as_integers: bool = False
    srgb: bool = False
    seamless: bool = False
    border: bytes = bytes(16)
    mip_linear: bool = False
    bias: float = 0.0
    level_clamp: tuple[float, float] = (0.0, 0.0)
    fetched: bool = False
    gathers: bool = False
    stack: tuple[Frame, ...] = ()

    @property
    def reads_floats(self) -> bool:
        """Whether what comes out are floats."""
        element = self.levels[0].format
        return element.is_float or element.normalized or (not self.as_integers and element.dtype.itemsize < 4)


@dataclass(slots=True, eq=False)
class Surface:
    """What a surface object is."""

    image: Image
    stack: tuple[Frame, ...] = ()


@dataclass(slots=True, eq=False)
class Gone:
    """An object that has been destroyed, at ``stack``."""

    what: str
    stack: tuple[Frame, ...] = ()
