"""What the qualifiers of texture and surface instructions say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drv.simulator.memory.textures import Gone, Image, Surface, Texture

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from drv.simulator.execution.translation.code import Site

    Array = NDArray[Any]


class Geometry(NamedTuple):
    """``.1d``, ``.a2d``, ``.cube`` and so on: dimensions, and whether there are layers, or six faces."""

    rank: int
    layered: bool = False
    cube: bool = False

    @property
    def numbers(self) -> int:
        """How many coordinates are used, the layer's included."""
        return self.rank + self.cube + self.layered

    @property
    def operands(self) -> int:
        """How many coordinates an instruction has; the last one may be unused."""
        return 4 if self.numbers == 3 else self.numbers

    def fits(self, image: Image) -> bool:
        """Whether an image has this geometry."""
        layers = image.layers > 6 if self.cube and self.layered else bool(image.layers)
        flat = image.rank == self.rank
        return flat and self.cube == image.cubemap and (self.layered or self.cube) == layers


GEOMETRIES = {
    "1d": Geometry(1),
    "2d": Geometry(2),
    "3d": Geometry(3),
    "a1d": Geometry(1, layered=True),
    "a2d": Geometry(2, layered=True),
    "cube": Geometry(2, cube=True),
    "acube": Geometry(2, layered=True, cube=True),
}


def describe(image: Image) -> str:
    """``a layered image of 2 dimensions``."""
    what = "a cubemap" if image.cubemap else "a layered image" if image.layers else "an image"
    return what if image.cubemap else f"{what} of {image.rank} dimension{'s' if image.rank > 1 else ''}"


def by_object(lanes: Any, handles: Array) -> Iterator[tuple[int, Any, Array | None]]:
    """Each object that ``lanes`` use, with the lanes that do; all of them where the indices are ``None``."""
    first = int(handles[0])
    if handles.shape[0] == 1 or bool((handles == handles[0]).all()):
        yield first, lanes, None
        return
    for handle in np.unique(handles).tolist():
        index = np.flatnonzero(handles == handle)
        yield handle, lanes.subset(index), index


def image_named(lanes: Any, site: Site, handle: int, what: type) -> Any:
    """The texture or surface that a handle means; faults where it means none."""
    image = lanes.launch.memory.images.get(handle)
    if isinstance(image, what):
        return image
    name = "surface" if what is Surface else "texture"
    reports = lanes.launch.reports
    if isinstance(image, Gone):
        raise reports.no_image(lanes, site, f"uses the {image.what} object {handle:#x}", image.stack)
    other = {Texture: "a texture", Surface: "a surface"}.get(type(image))
    known = f", which is {other}" if other else ", which is none"
    raise reports.no_image(lanes, site, f"uses {handle:#x} as a {name} object{known}", None)


def check_geometry(lanes: Any, site: Site, image: Image, geometry: Geometry, name: str) -> None:
    """Fault where an instruction takes an image for one of another geometry."""
    if not geometry.fits(image):
        what = f"uses {describe(image)} as {name}"
        raise lanes.launch.reports.bad_operand(lanes, site, 0, what)


def chosen(values: Any, index: Array | None, count: int) -> Any:
    """The entries ``index`` of an array that has one for each of ``count`` lanes, or one for all."""
    if index is None or values is None:
        return values
    return np.broadcast_to(values, (count, *values.shape[1:]))[index]
