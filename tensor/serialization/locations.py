"""Where the bytes of a checkpoint go: ``map_location``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tensor.core import layout as layouts
from tensor.core.base import view_of, wrap
from tensor.core.devices.device import device
from tensor.core.devices.state import cpu, device_state_of
from tensor.core.storage import Storage
from tensor.operations.creation.copies import copy_into_new

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensor.core.devices.state import DeviceState
    from tensor.methods.tensor import Tensor


class Locations:
    """Where blocks go.

    Raises
    ------
    TypeError
        For a ``map_location`` that is none.
    """

    def __init__(self, map_location: Any) -> None:
        if map_location is not None and not callable(map_location):
            if isinstance(map_location, Mapping):
                map_location = {str(key): str(value) for key, value in map_location.items()}
            elif not isinstance(map_location, (str, int, device)):
                raise TypeError(
                    "load(): argument 'map_location' must be a device, a dict of devices, or a function, not "
                    f"{type(map_location).__name__}"
                )
        self._map_location = map_location

    def placed(self, array: NDArray[Any], strides: tuple[int, ...], location: str) -> Tensor:
        """A tensor of the elements of ``array`` on the device that tensors of ``location`` go to."""
        shown = wrap(array)
        expected = self._map_location
        if callable(expected):
            whole = _copied(shown, strides, cpu)
            storage = expected(whole._storage, location)
            if storage is None:
                return _copied(whole, strides, _place(location))
            if not isinstance(storage, Storage) or storage.capacity != whole._storage.capacity:
                raise TypeError(
                    "load(): map_location(storage, location) must return a storage of the same size, or None, not "
                    f"{storage!r}"
                )
            return view_of(storage, whole._layout.on(storage.device_state), 0)
        if isinstance(expected, dict):
            expected = expected.get(location)
        return _copied(shown, strides, _place(location if expected is None else expected))


def _copied(input: Tensor, strides: tuple[int, ...], device_state: DeviceState) -> Tensor:
    """``input`` itself where it lies as wanted, else a copy."""
    layout = input._layout
    if layout.strides == strides and layout.device_state is device_state:
        return input
    return copy_into_new(input, layouts.strided[layout.shape, strides, layout.dtype, device_state])


def _place(name: Any) -> DeviceState:
    try:
        return device_state_of(name)
    except RuntimeError as error:
        raise RuntimeError(
            f"tensors of the checkpoint belong on {name}, which is not here: {error}. To read them elsewhere, say where: "
            "load(f, map_location='cpu')"
        ) from error
