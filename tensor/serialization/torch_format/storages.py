"""Storages of a file of ``torch.save``, as its pickle refers to them, and the limit of what reading it may copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nvrtc_kernels import dtypes
from tensor.serialization.structure import UnreadableError

from .errors import RefusedError, excerpt

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from tensor.core.storage import Storage
    from tensor.serialization.locations import Locations

    #: Gives the bytes of a storage by its key, of which it must have the given number, and its element type.
    Bytes = Callable[[str, int, dtypes.dtype], NDArray[np.uint8]]

#: What small files may have copied beside their own size.
_FREE = 1 << 20
#: How often a byte of a file may be copied. A genuine file needs each once or twice.
_COPIES = 8


class StorageType(NamedTuple):
    """A class of storages, such as ``torch.FloatStorage``, by the type of its elements."""

    dtype: dtypes.dtype
    untyped: bool


class Stored(NamedTuple):
    """A storage of the file, as a pickle hands it to the functions that make tensors."""

    storage: Storage
    type: StorageType


class Budget:
    """How many bytes may yet be copied because a file says so, in proportion to its size.

    A pickle can name the same long string, list or tensor again and again, and have it copied each time.
    """

    def __init__(self, size: int) -> None:
        self._left = _COPIES * size + _FREE

    def charge(self, size: int) -> None:
        """Account for ``size`` bytes, before they are taken.

        Raises
        ------
        RefusedError
            If that is more than is left.
        """
        self._left -= size
        if self._left < 0:
            raise RefusedError("its pickle has the same data copied more often than a genuine file does")


class Storages:
    """The storages of a file, each read once.

    Parameters
    ----------
    read
        Gives the bytes of one.
    locations
        Where they go.
    """

    def __init__(self, read: Bytes, locations: Locations) -> None:
        self._read = read
        self._locations = locations
        self._known: dict[str, Storage] = {}

    def of(self, reference: Any) -> Stored:
        """The storage that a persistent id of a pickle refers to: ``("storage", type, key, location, count)``.

        Raises
        ------
        RefusedError
            If it is no such tuple.
        UnreadableError
            If the storage is not in the file, or of another size.
        """
        check_reference(reference)
        _, storage_type, key, location, count = reference[:5]
        size = count * storage_type.dtype.itemsize
        storage = self._known.get(key)
        if storage is None:
            array = self._read(key, size, storage_type.dtype)
            storage = self._known[key] = self._locations.placed(array, (1,), location)._storage
        elif storage.capacity != size:
            raise UnreadableError(
                f"its storage {excerpt(key)} is {storage.capacity} bytes long, and also {size}"
            )
        return Stored(storage, storage_type)


def check_reference(reference: Any) -> None:
    """Check that a persistent id is that of a storage.

    Raises
    ------
    RefusedError
        If it is not.
    """
    if (
        type(reference) is not tuple
        or len(reference) not in (5, 6)
        or type(reference[0]) is not str
        or reference[0] != "storage"
        or type(reference[1]) is not StorageType
        or type(reference[2]) is not str
        or type(reference[3]) is not str
        or type(reference[4]) is not int
        or reference[4] < 0
    ):
        raise RefusedError(f"its pickle refers to {excerpt(reference)}, which is no storage")
    if len(reference) > 5 and reference[5] is not None:
        raise RefusedError("its pickle refers to a view of a storage, as PyTorch wrote before version 0.4")


def check_bools(data: NDArray[np.uint8], dtype: dtypes.dtype, key: str) -> None:
    """Check that a storage of bools has no other bytes than 0 and 1.

    Raises
    ------
    UnreadableError
        If it has.
    """
    if dtype is dtypes.bool_ and data.size and data.max() > 1:
        raise UnreadableError(f"its storage {excerpt(key)} has bools that are neither 0 nor 1")
