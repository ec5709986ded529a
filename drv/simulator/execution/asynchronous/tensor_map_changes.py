"""``tensormap`` instructions: tensor maps that a kernel changes, and their fences."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.memory.tensor_map import BYTES, TensorMap

from .bulk_copies import broadcast_address

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from drv.simulator.execution.launch_state import LaunchState
    from drv.simulator.execution.translation.code import Site

    Array = NDArray[Any]

#: ``CUtensorMapDataType`` of each element type as PTX numbers them.
_ELEMENT_TYPES = (0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 11, 12)
#: ``CUtensorMapSwizzle`` by the mode and the atomicity as PTX numbers them.
_SWIZZLES = {(0, 0): 0, (1, 0): 1, (2, 0): 2, (3, 0): 3, (3, 1): 4, (3, 2): 5, (3, 3): 6}
_HALF = BYTES // 2


class TensorMapAccess:
    """The ``tensormap`` instructions of :class:`~drv.simulator.execution.lanes.Lanes`."""

    __slots__ = ()

    if TYPE_CHECKING:
        launch: LaunchState
        n: int

        def broadcast(self, value: Array) -> Array: ...
        def constant(self, name: str, axis: int | None = None) -> Array: ...
        def subset(self, index: Array) -> Any: ...
        def tensor_map(
            self, site: Site, lane: int, address: int, *, used: bool = True, empty: bool = False
        ) -> TensorMap: ...

    def replace_tensor_map(
        self, site: Site, address: tuple[Array, int], field: str, ordinal: int, value: Array
    ) -> None:
        """``tensormap.replace`` of the map at a generic address."""
        addresses, values = broadcast_address(self, address), self.broadcast(value)
        for lane in range(self.n):
            tensor = self.tensor_map(site, lane, int(addresses[lane]), used=False, empty=True)
            changed = _changed(tensor, field, ordinal, int(values[lane]))
            if changed is None:
                what = f"gives the field {field} of a tensor map the value {int(values[lane])}, which it cannot have"
                raise self.launch.reports.bad_operand(self, site, lane, what)
            self._write_map(site, lane, int(addresses[lane]), changed.encode())

    def _write_map(self, site: Site, lane: int, address: int, data: bytes) -> None:
        one = self.subset(np.array([lane]))
        words = np.frombuffer(data, np.uint64)
        for at in range(0, BYTES, _HALF):
            half = tuple(words[at // 8 + each : at // 8 + each + 1] for each in range(_HALF // 8))
            one.store_generic(site, np.array([address + at], np.uint64), 0, np.uint64, 8, _HALF // 8, half)

    def copy_tensor_map(self, site: Site, into: tuple[Array, int], origin: tuple[Array, int]) -> None:
        """``tensormap.cp_fenceproxy``: a map goes from shared to global memory, by one lane of each warp."""
        targets, sources = broadcast_address(self, into), broadcast_address(self, origin)
        warps = self.broadcast(self.constant("warp_slot")) >> 5
        for lane in np.unique(warps, return_index=True)[1].tolist():
            tensor = self.tensor_map(site, lane, int(sources[lane]), used=False)
            self._write_map(site, lane, int(targets[lane]), tensor.encode())

    def fence_tensor_maps(self) -> None:
        """``fence.proxy.tensormap``: maps that were changed before are seen by copies after it."""
        if self.launch.observer is not None:
            self.launch.observer.fence_tensor_maps(self)  # type: ignore[arg-type]


def _changed(tensor: TensorMap, field: str, ordinal: int, value: int) -> TensorMap | None:
    """A map with another value of a field; ``None`` where it cannot have that."""

    def with_item(items: tuple[int, ...], item: int) -> tuple[int, ...]:
        padded = [*items, *[1] * (ordinal + 1 - len(items))]
        padded[ordinal] = item
        return tuple(padded)

    if field == "global_address":
        return replace(tensor, address=value) if value % 16 == 0 else None
    if field == "rank":
        if not 0 <= value < 5:
            return None
        rank = value + 1
        grown = {
            name: (*getattr(tensor, name), *[one] * 5)[: rank - (name == "strides")]
            for name, one in (("sizes", 1), ("strides", 16), ("box", 1), ("steps", 1))
        }
        return replace(tensor, rank=rank, **grown)  # type: ignore[arg-type]
    if field in ("box_dim", "global_dim", "element_stride", "global_stride"):
        name = {"box_dim": "box", "global_dim": "sizes", "element_stride": "steps"}.get(field, "strides")
        if not ordinal < len(getattr(tensor, name)):
            return None
        return replace(tensor, **{name: with_item(getattr(tensor, name), value)})  # type: ignore[arg-type]
    if field == "elemtype":
        return replace(tensor, data_type=_ELEMENT_TYPES[value]) if 0 <= value < len(_ELEMENT_TYPES) else None
    if field == "interleave_layout":
        return replace(tensor, interleave=value) if value in range(3) else None
    if field == "fill_mode":
        return replace(tensor, fill=value) if value in range(2) else None
    mode, atomicity = next(key for key, swizzle in _SWIZZLES.items() if swizzle == tensor.swizzle)
    mode_and_atomicity = (value, atomicity if value == 3 else 0) if field == "swizzle_mode" else (mode, value)
    return replace(tensor, swizzle=_SWIZZLES[mode_and_atomicity]) if mode_and_atomicity in _SWIZZLES else None
