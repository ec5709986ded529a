"""The bytes of a storage, read and written as a tensor of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import uint8
from tensor.core import layout as layouts
from tensor.core.base import view_of
from tensor.core.devices.state import cpu, place_of
from tensor.core.storage import HostStorage, Storage
from tensor.operations.creation.copies import copy_, copy_into_new
from tensor.operations.creation.fills import fill_
from tensor.operations.shapes.slices import select

if TYPE_CHECKING:
    from .tensor import Tensor


def as_bytes(storage: Storage) -> Tensor:
    """A tensor of all bytes of ``storage``, which it shares."""
    return view_of(storage, layouts.contiguous[(storage.nbytes(),), uint8, storage.place], 0)


def clone(storage: Storage) -> Storage:
    """A copy of the bytes, on the same device; on the host in pageable memory."""
    if isinstance(storage, HostStorage):
        return HostStorage(storage.bytes().copy())
    whole = as_bytes(storage)
    return copy_into_new(whole, whole._layout)._storage


def read(storage: Storage, at: Any) -> int:
    """The byte at ``at``. Waits for a device."""
    number: int = _byte(storage, at).item()
    return number


def write(storage: Storage, at: Any, value: int) -> None:
    """Write one byte; a number that it cannot hold loses its higher bits."""
    fill_(_byte(storage, at), value & 255)


def _byte(storage: Storage, at: Any) -> Tensor:
    if not hasattr(at, "__index__"):
        raise TypeError(f"can't index a storage with {type(at).__name__}, only with an int")
    size = storage.nbytes()
    if not -size <= at.__index__() < size:
        raise IndexError(f"index {at} out of range for storage of size {size}")
    return select(as_bytes(storage), 0, at)


def to_list(storage: Storage) -> list[int]:
    """All bytes as numbers. Waits for a device."""
    found: list[int] = as_bytes(storage).tolist()
    return found


def fill(storage: Storage, value: int) -> Storage:
    """Write ``value``, of which the lowest eight bits count, to every byte."""
    fill_(as_bytes(storage), value & 255)
    return storage


def copy(storage: Storage, source: Any, *, non_blocking: bool) -> Storage:
    """Copy the bytes of ``source``, a storage of the same size on any device."""
    if not isinstance(source, Storage):
        raise TypeError(f"copy_(): argument 'source' must be a storage, not {type(source).__name__}")
    if source.nbytes() != storage.nbytes():
        raise RuntimeError(
            f"size does not match, self was {storage.nbytes()} bytes but source was {source.nbytes()} bytes"
        )
    copy_(as_bytes(storage), as_bytes(source), non_blocking)
    return storage


def moved(storage: Storage, device: Any, *, non_blocking: bool = False) -> Storage:
    """The bytes on ``device``: the storage itself where they are there already, else a copy."""
    place = cpu if device == "cpu" else place_of(device)
    if place is storage.place:
        return storage
    whole = as_bytes(storage)
    return copy_into_new(whole, whole._layout.on(place), non_blocking=non_blocking)._storage
