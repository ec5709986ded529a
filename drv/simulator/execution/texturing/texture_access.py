"""Texture fetches of the lanes that run an instruction: ``tex``, ``tld4``, ``txq``."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drv.simulator.memory.textures import CLAMP, Image, Texture

from .geometry import GEOMETRIES, Geometry, by_object, check_geometry, chosen, image_named
from .sampling import (
    AxisTexels,
    across_edges,
    clamped_level,
    cube_face,
    effective_mode,
    fixed_point,
    in_texels,
    level_of_gradients,
    srgb_to_linear,
    texels_along,
    unnormalised_to_float,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from drv.simulator.execution.launch_state import LaunchState
    from drv.simulator.execution.translation.code import Site

    Array = NDArray[Any]

#: Texels of ``tld4``, counter-clockwise from the lower left.
_GATHERED = ((0, 1), (1, 1), (1, 0), (0, 0))
_LAYERS_OF_A_CUBE = 6


class Fetch(NamedTuple):
    """Coordinates of a fetch, ``(lanes,)`` each: along the dimensions, and the layer, which for a cubemap is the face."""

    along: list[Array]
    layer: NDArray[np.int64]
    offsets: Sequence[Array]
    integers: bool


class TextureAccess:
    """The texture instructions of :class:`~drv.simulator.execution.lanes.Lanes`."""

    __slots__ = ()

    if TYPE_CHECKING:
        launch: LaunchState
        n: int

        def broadcast(self, value: Array) -> Array: ...
        def subset(self, index: Array) -> Any: ...
        def load_global(
            self, site: Site, address: Array, offset: int, dtype: Any, width: int, lanes: int
        ) -> Any: ...

    def sample(
        self,
        site: Site,
        handles: Array,
        geometry: str,
        ptx_type: str,
        coordinates: Sequence[Array],
        level: Array | None = None,
        gradients: Sequence[Sequence[Array]] = (),
        offsets: Sequence[Array] = (),
    ) -> list[Array]:
        """``tex``: four arrays of ``ptx_type``."""
        form = GEOMETRIES[geometry]

        def results_of(handle: int, lanes: Any, index: Array | None) -> list[Array]:
            texture: Texture = image_named(lanes, site, handle, Texture)
            check_geometry(lanes, site, texture.levels[0], form, f".{geometry}")
            mine = [lanes.broadcast(chosen(each, index, self.n)) for each in coordinates]
            ways = [[lanes.broadcast(chosen(each, index, self.n)) for each in way] for way in gradients]
            away = [chosen(each, index, self.n) for each in offsets]
            fetch, scale = _located(form, texture, mine, away)
            detail = chosen(level, index, self.n)
            if ways:
                image = texture.levels[0]
                sizes = [image.width, image.height, image.depth][: form.rank]
                if form.cube:
                    ways = [[each / (2 * scale) for each in way] for way in ways]
                    sizes = [image.width] * 3
                detail = level_of_gradients(ways, sizes)
            values = lanes.filtered(site, texture, fetch, detail)
            return _as_type(values, texture, ptx_type)

        return self._of_each(handles, results_of)

    def _of_each(
        self, handles: Array, results_of: Callable[[int, Any, Array | None], list[Array]]
    ) -> list[Array]:
        """What ``results_of(handle, lanes, index)`` gives for the lanes of each texture, put together."""
        whole: list[Array] | None = None
        for handle, lanes, index in by_object(self, handles):
            results = results_of(handle, lanes, index)
            if index is None:
                return results
            if whole is None:
                whole = [np.zeros(self.n, each.dtype) for each in results]
            for each, result in zip(whole, results, strict=True):
                each[index] = result
        assert whole is not None
        return whole

    def filtered(self, site: Site, texture: Texture, fetch: Fetch, level: Array | None) -> Array:
        """What a fetch reads, ``(lanes, channels)``: float64, or integers that stay so."""
        count = len(texture.levels)
        detail = np.zeros(1) if level is None else level.astype(np.float64)
        detail = self.broadcast(clamped_level(detail, texture.bias, texture.level_clamp, count))
        if not texture.mip_linear:
            return self._of_levels(site, texture, fetch, np.floor(detail + 0.5).astype(np.int64))
        lower = np.floor(detail).astype(np.int64)
        fraction = fixed_point(detail - lower)
        result = self._of_levels(site, texture, fetch, lower)
        upper = np.flatnonzero(fraction)
        if upper.size:
            part = fraction[upper, None]
            some = self.subset(upper)
            finer = result[upper]
            coarser = some._of_levels(site, texture, _only(fetch, upper), lower[upper] + 1)
            result[upper] = (1 - part) * finer + part * coarser
        return result

    def _of_levels(self, site: Site, texture: Texture, fetch: Fetch, levels: Array) -> Array:
        first = int(levels[0])
        if (levels == first).all():
            return self._of_image(site, texture, texture.levels[first], fetch)
        result: Array | None = None
        for level in np.unique(levels).tolist():
            index = np.flatnonzero(levels == level)
            some = self.subset(index)
            values = some._of_image(site, texture, texture.levels[level], _only(fetch, index))
            if result is None:
                result = np.zeros((self.n, values.shape[1]), values.dtype)
            result[index] = values
        assert result is not None
        return result

    def _of_image(self, site: Site, texture: Texture, image: Image, fetch: Fetch) -> Array:
        linear = texture.linear and not fetch.integers
        axes = _axes(texture, image, fetch, linear=linear)
        if not linear:
            single = [each[0] for each in axes]
            return self._texels(site, texture, image, fetch, single, None)
        result = np.zeros((self.n, image.format.channels))
        for combination in product(*axes):
            weight = np.ones(self.n)
            for axis in combination:
                weight = weight * axis.weight
            read = weight != 0
            if read.any():
                values = self._texels(site, texture, image, fetch, list(combination), read)
                result += np.where(read[:, None], weight[:, None] * values, 0.0)
        return result

    def _texels(
        self,
        site: Site,
        texture: Texture,
        image: Image,
        fetch: Fetch,
        along: list[AxisTexels],
        read: NDArray[np.bool_] | None,
    ) -> Array:
        """Texels ``(lanes, channels)``; those outside have the border's colour. Only those to be ``read`` count."""
        inside = np.ones(self.n, np.bool_)
        for axis in along:
            inside &= axis.inside
        x, *others = (axis.index for axis in along)
        layer = fetch.layer
        if image.cubemap and texture.seamless:
            face, x, others[0] = across_edges(layer % _LAYERS_OF_A_CUBE, x, others[0], image.width)
            layer = layer - layer % _LAYERS_OF_A_CUBE + face
        place = x * image.format.nbytes
        for index, pitch in zip(others, (image.pitch, image.slice_pitch), strict=False):
            place = place + index * pitch
        if image.layers:
            place = place + layer * image.slice_pitch
        addresses = (place + image.address).astype(np.uint64)
        loaded = inside if read is None else inside & read
        element, count = image.format, image.format.channels
        lanes: Any = self
        if not loaded.all():
            lanes, addresses = self.subset(np.flatnonzero(loaded)), addresses[loaded]
        integers = not texture.reads_floats
        border = np.frombuffer(texture.border, element.dtype.kind + "4" if integers else "f4")[:count]
        # Linear memory has no border: what is read outside is zero.
        values = np.zeros((self.n, count), np.int64 if integers else np.float64)
        if not texture.fetched:
            values[:] = border
        if addresses.size:
            parts = lanes.load_global(site, addresses, 0, element.dtype, element.dtype.itemsize, count)
            values[loaded] = _converted(parts if count > 1 else [parts], texture)
        return values

    def gather(
        self,
        site: Site,
        handles: Array,
        geometry: str,
        ptx_type: str,
        component: int,
        coordinates: Sequence[Array],
        offsets: Sequence[Array] = (),
    ) -> list[Array]:
        """``tld4``: a component of the four texels that a linear filter would read."""
        form = GEOMETRIES[geometry]

        def results_of(handle: int, lanes: Any, index: Array | None) -> list[Array]:
            texture: Texture = image_named(lanes, site, handle, Texture)
            check_geometry(lanes, site, texture.levels[0], form, f".{geometry}")
            if not texture.gathers:
                what = "gathers texels of an array that was made without CUDA_ARRAY3D_TEXTURE_GATHER"
                raise self.launch.reports.bad_operand(lanes, site, 0, what)
            mine = [lanes.broadcast(chosen(each, index, self.n)) for each in coordinates]
            fetch, _ = _located(form, texture, mine, [chosen(each, index, self.n) for each in offsets])
            results: list[Array] = lanes.gathered(site, texture, fetch, component, ptx_type)
            return results

        return self._of_each(handles, results_of)

    def gathered(
        self, site: Site, texture: Texture, fetch: Fetch, component: int, ptx_type: str
    ) -> list[Array]:
        """The four texels' component, as arrays of ``ptx_type``."""
        image = texture.levels[0]
        axes = _axes(texture, image, fetch, linear=True)
        results = []
        for i, j in _GATHERED:
            values = self._texels(site, texture, image, fetch, [axes[0][i], axes[1][j]], None)
            results.append(_as_type(values, texture, ptx_type)[component])
        return results

    def query_texture(self, site: Site, handles: Array, query: str, level: Array | None = None) -> Array:
        """``txq``."""
        result = np.zeros(self.n, np.uint32)
        for handle, lanes, index in by_object(self, handles):
            texture: Texture = image_named(lanes, site, handle, Texture)
            numbers = np.array([_property(texture, image, query) for image in texture.levels], np.uint32)
            detail = 0 if level is None else lanes.broadcast(chosen(level, index, self.n)).astype(np.int64)
            result[slice(None) if index is None else index] = numbers[
                np.clip(detail, 0, len(texture.levels) - 1)
            ]
        return result


def _property(texture: Texture, image: Image, query: str) -> int:
    if query == "num_mipmap_levels":
        return len(texture.levels)
    if query == "normalized_coords":
        return int(texture.normalized)
    if query == "num_samples":
        return 1
    return image_property(image, query)


def image_property(image: Image, query: str) -> int:
    """What ``txq`` and ``suq`` tell of an image."""
    if query == "array_size":
        return image.layers // _LAYERS_OF_A_CUBE if image.cubemap else image.layers
    extents: dict[str, int] = {"width": image.width, "height": image.height, "depth": image.depth}
    return extents[query]


def _located(
    form: Geometry, texture: Texture, coordinates: list[Array], offsets: Sequence[Array]
) -> tuple[Fetch, Array]:
    """Where a fetch reads; and for cubemaps the length of the direction along its major axis."""
    image = texture.levels[0]
    layer = np.zeros(coordinates[0].shape, np.int64)
    along = list(coordinates)
    scale = np.ones(1)
    if form.layered:
        most = image.layers // (_LAYERS_OF_A_CUBE if form.cube else 1) - 1
        layer = np.clip(along.pop(0).view(np.uint32).astype(np.int64), 0, most)
    if form.cube:
        face, s, t, scale = cube_face(*along[:3])
        along, layer = [s, t], layer * _LAYERS_OF_A_CUBE + face
    along = along[: form.rank]
    return Fetch(along, layer, offsets, not form.cube and along[0].dtype.kind != "f"), scale


def _only(fetch: Fetch, index: Array) -> Fetch:
    offsets = [each if each.shape[0] == 1 else each[index] for each in fetch.offsets]
    return Fetch([each[index] for each in fetch.along], fetch.layer[index], offsets, fetch.integers)


def _axes(texture: Texture, image: Image, fetch: Fetch, *, linear: bool) -> list[list[AxisTexels]]:
    """For each dimension the texels that are read."""
    result = []
    sizes = (image.width, image.height, image.depth)
    for axis, coordinate in enumerate(fetch.along):
        normalized = (texture.normalized and not fetch.integers) or image.cubemap
        mode = effective_mode(texture.modes[axis], normalized=normalized)
        if image.cubemap:
            mode = CLAMP
        position = in_texels(coordinate, sizes[axis], mode, normalized=normalized)
        offset = fetch.offsets[axis].astype(np.int64) if fetch.offsets else 0
        if image.cubemap and texture.seamless:
            # What lies past an edge is another face's.
            result.append(_unclamped(position, linear=linear))
            continue
        read = texels_along(position, sizes[axis], mode, linear=linear, offset=offset)
        if texture.fetched:
            index = np.floor(position).astype(np.int64) + offset
            read[0].inside = (index >= 0) & (index < sizes[axis])
        result.append(read)
    return result


def _unclamped(position: Array, *, linear: bool) -> list[AxisTexels]:
    everywhere = np.ones(position.shape, np.bool_)
    base = np.floor(position - 0.5 if linear else position)
    index = base.astype(np.int64)
    if not linear:
        return [AxisTexels(index, np.ones(position.shape), everywhere)]
    fraction = fixed_point(position - 0.5 - base)
    return [AxisTexels(index, 1 - fraction, everywhere), AxisTexels(index + 1, fraction, everywhere)]


def _converted(parts: Sequence[Array], texture: Texture) -> Array:
    """Channels side by side, as floats or as integers."""
    if not texture.reads_floats:
        return np.stack([part.astype(np.int64) for part in parts], 1)
    if parts[0].dtype.kind == "f":
        return np.stack([part.astype(np.float64) for part in parts], 1)
    floats = [unnormalised_to_float(part) for part in parts]
    if texture.srgb:
        # Alpha is linear already.
        floats = [srgb_to_linear(part) for part in floats[:3]] + floats[3:]
    return np.stack(floats, 1)


def _as_type(values: Array, texture: Texture, ptx_type: str) -> list[Array]:
    """Four components ``(lanes,)``: those that the texels lack are 0, and alpha 1."""
    count = values.shape[1]
    if texture.reads_floats:
        known: list[Array] = [values[:, channel].astype(np.float32) for channel in range(count)]
        missing = np.zeros(len(values), np.float32), np.ones(len(values), np.float32)
    else:
        known = [values[:, channel].astype(np.int32) for channel in range(count)]
        missing = np.zeros(len(values), np.int32), np.ones(len(values), np.int32)
    result = known + [missing[channel == 3] for channel in range(count, 4)]
    if ptx_type == "f16":
        return [each.astype(np.float16) for each in result]
    # A register has the bits, whatever it is taken for.
    return [each.view({"f32": np.float32, "s32": np.int32, "u32": np.uint32}[ptx_type]) for each in result]
