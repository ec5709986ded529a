"""Surface reads, writes and reductions of the lanes that run an instruction: ``suld``, ``sust``, ``sured``, ``suq``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.checks.observation import Access
from drv.simulator.memory.textures import Image, Surface

from .geometry import GEOMETRIES, by_object, chosen, describe, image_named
from .texture_access import image_property

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from drv.simulator.execution.launch_state import LaunchState
    from drv.simulator.execution.translation.code import Site

    Array = NDArray[Any]


class SurfaceAccess:
    """The surface instructions of :class:`~drv.simulator.execution.lanes.Lanes`.

    The first coordinate is in bytes, or with ``formatted`` in elements. ``boundary`` says what becomes of lanes that
    are outside: ``trap``, ``clamp`` or ``zero``.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        launch: LaunchState
        n: int

        def broadcast(self, value: Array) -> Array: ...
        def subset(self, index: Array) -> Any: ...
        def load_global(
            self, site: Site, address: Array, offset: int, dtype: Any, width: int, lanes: int
        ) -> Any: ...
        def store_global(
            self, site: Site, address: Array, offset: int, dtype: Any, width: int, lanes: int, value: Any
        ) -> None: ...
        def atomic_global(
            self,
            site: Site,
            address: Array,
            offset: int,
            dtype: Any,
            width: int,
            operation: str,
            ptx_type: str,
            old: bool,
            value: Array,
            compare: Array | None = None,
        ) -> Any: ...

    def load_surface(
        self,
        site: Site,
        handles: Array,
        geometry: str,
        boundary: str,
        coordinates: Sequence[Array],
        dtype: Any,
        count: int,
    ) -> list[Array]:
        """``suld.b``: ``count`` arrays of ``dtype``."""
        results = [np.zeros(self.n, dtype) for _ in range(count)]
        item = np.dtype(dtype).itemsize
        for handle, lanes, index in by_object(self, handles):
            image: Image = image_named(lanes, site, handle, Surface).image
            mine = [chosen(each, index, self.n) for each in coordinates]
            addresses, inside = lanes.surface_addresses(
                site, image, geometry, boundary, mine, item * count, Access.READ, formatted=False
            )
            where = np.arange(self.n) if index is None else index
            if not inside.all():
                addresses, where, lanes = (
                    addresses[inside],
                    where[inside],
                    lanes.subset(np.flatnonzero(inside)),
                )
            if not where.size:
                continue
            values = lanes.load_global(site, addresses, 0, dtype, item, count)
            for result, value in zip(results, values if count > 1 else [values], strict=True):
                result[where] = value
        return results

    def store_surface(
        self,
        site: Site,
        handles: Array,
        geometry: str,
        boundary: str,
        coordinates: Sequence[Array],
        values: Sequence[Array],
    ) -> None:
        """``sust.b``: ``values`` side by side."""

        def stored(lanes: Any, index: Array | None, _: Image) -> list[Array]:
            return [lanes.broadcast(chosen(each, index, self.n)) for each in values]

        self._store(site, handles, geometry, boundary, coordinates, stored, formatted=False)

    def store_formatted(
        self,
        site: Site,
        handles: Array,
        geometry: str,
        boundary: str,
        coordinates: Sequence[Array],
        values: Sequence[Array],
    ) -> None:
        """``sust.p``: 32-bit values as the surface's elements have them; components that none is for are 0."""

        def stored(lanes: Any, index: Array | None, image: Image) -> list[Array]:
            element, zero = image.format, np.zeros(1, np.uint32)
            components = [*(chosen(each, index, self.n) for each in values), zero, zero, zero]
            return [
                lanes.broadcast(_formatted(each, element.dtype, normalized=element.normalized))
                for each in components[: element.channels]
            ]

        self._store(site, handles, geometry, boundary, coordinates, stored, formatted=True)

    def _store(
        self,
        site: Site,
        handles: Array,
        geometry: str,
        boundary: str,
        coordinates: Sequence[Array],
        stored: Callable[[Any, Array | None, Image], list[Array]],
        *,
        formatted: bool,
    ) -> None:
        """Store what ``stored(lanes, index, image)`` gives for the lanes of each surface, side by side."""
        for handle, lanes, index in by_object(self, handles):
            image: Image = image_named(lanes, site, handle, Surface).image
            mine = [chosen(each, index, self.n) for each in coordinates]
            values = stored(lanes, index, image)
            size = sum(each.dtype.itemsize for each in values)
            addresses, inside = lanes.surface_addresses(
                site, image, geometry, boundary, mine, size, Access.WRITE, formatted=formatted
            )
            lanes.store_inside(site, addresses, inside, values)

    def store_inside(
        self, site: Site, addresses: Array, inside: NDArray[np.bool_], values: list[Array]
    ) -> None:
        """Store the values of the lanes that are inside."""
        lanes: Any = self
        if not inside.all():
            lanes, addresses = self.subset(np.flatnonzero(inside)), addresses[inside]
            values = [each[inside] for each in values]
        if addresses.size:
            dtype = values[0].dtype
            value = values[0] if len(values) == 1 else values
            lanes.store_global(site, addresses, 0, dtype, dtype.itemsize, len(values), value)

    def reduce_surface(
        self,
        site: Site,
        handles: Array,
        geometry: str,
        boundary: str,
        coordinates: Sequence[Array],
        operation: str,
        ptx_type: str,
        value: Array,
        *,
        formatted: bool,
    ) -> None:
        """``sured``: an atomic operation without a result."""
        item = value.dtype.itemsize
        for handle, lanes, index in by_object(self, handles):
            image: Image = image_named(lanes, site, handle, Surface).image
            if formatted and image.format.nbytes != item:
                what = f"reduces values of {item} bytes in a surface with elements of {image.format.nbytes}"
                raise self.launch.reports.bad_operand(lanes, site, 0, what)
            mine = [chosen(each, index, self.n) for each in coordinates]
            addresses, inside = lanes.surface_addresses(
                site, image, geometry, boundary, mine, item, Access.ATOMIC, formatted=formatted
            )
            operand = lanes.broadcast(chosen(value, index, self.n))
            if not inside.all():
                lanes = lanes.subset(np.flatnonzero(inside))
                addresses, operand = addresses[inside], operand[inside]
            if addresses.size:
                lanes.atomic_global(
                    site, addresses, 0, operand.dtype, item, operation, ptx_type, False, operand
                )

    def query_surface(self, site: Site, handles: Array, query: str) -> Array:
        """``suq``."""
        result = np.zeros(self.n, np.uint32)
        for handle, lanes, index in by_object(self, handles):
            image: Image = image_named(lanes, site, handle, Surface).image
            result[slice(None) if index is None else index] = image_property(image, query)
        return result

    def surface_addresses(
        self,
        site: Site,
        image: Image,
        geometry: str,
        boundary: str,
        coordinates: Sequence[Array],
        width: int,
        kind: Access,
        *,
        formatted: bool,
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Address of each lane's ``width`` bytes, and which lanes are inside; faults where they have to be."""
        form = GEOMETRIES[geometry]
        # The faces of a cubemap are layers to a surface.
        layers = image.layers > 0
        if image.rank != form.rank or layers != form.layered or form.cube:
            what = f"uses {describe(image)} as .{geometry}"
            raise self.launch.reports.bad_operand(self, site, 0, what)
        numbers = [self.broadcast(each).view(np.int32).astype(np.int64) for each in coordinates]
        layer = numbers.pop(0) if form.layered else np.zeros(self.n, np.int64)
        x, *others = numbers[: form.rank]
        x = x * image.format.nbytes if formatted else x
        row = image.width * image.format.nbytes
        extents = [
            max(row - width + 1, 0),
            *(image.height, image.depth)[: form.rank - 1],
            max(image.layers, 1),
        ]
        places = [x, *others, layer]
        inside = np.ones(self.n, np.bool_)
        for place, extent in zip(places, extents, strict=True):
            inside &= (place >= 0) & (place < extent)
        reports = self.launch.reports
        if boundary == "trap" and not inside.all() and self.launch.checked:
            lane = int(np.flatnonzero(~inside)[0])
            at = tuple(int(place[lane]) for place in places)
            raise reports.surface(self, site, lane, at, width, kind, image, outside=True)
        wrong = inside & (x % width != 0)
        if wrong.any() and self.launch.checked:
            lane = int(np.flatnonzero(wrong)[0])
            at = tuple(int(place[lane]) for place in places)
            raise reports.surface(self, site, lane, at, width, kind, image, outside=False)
        if boundary == "clamp" and row >= width:
            places = [np.clip(place, 0, extent - 1) for place, extent in zip(places, extents, strict=True)]
            places[0] = places[0] // width * width
            inside = np.ones(self.n, np.bool_)
        x, *others, layer = places
        place = x + layer * image.slice_pitch
        for index, pitch in zip(others, (image.pitch, image.slice_pitch), strict=False):
            place = place + index * pitch
        return (place + image.address).astype(np.uint64), inside


def _formatted(value: Array, dtype: np.dtype[Any], *, normalized: bool) -> Array:
    """A 32-bit value as a component of ``dtype``."""
    if dtype.kind == "f":
        return value.view(np.float32).astype(dtype)
    if normalized:
        largest = np.iinfo(dtype).max
        low = 0.0 if dtype.kind == "u" else -1.0
        scaled: Array = np.rint(np.clip(np.nan_to_num(value.view(np.float32)), low, 1.0) * largest)
        return scaled.astype(dtype)
    return value.view(np.uint32 if dtype.kind == "u" else np.int32).astype(dtype)
