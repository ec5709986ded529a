"""Files of ``torch.save`` before PyTorch 1.6: five pickles in a row, then the storages, each after its length."""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from tensor.serialization.structure import UnreadableError

from .archive import read_bytes
from .constructors import Constructors
from .errors import RefusedError, excerpt
from .machine import COUNTED, FIXED, Machine, instruction
from .storages import Budget, Storages, check_bools, check_reference

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nvrtc_kernels import dtypes
    from tensor.serialization.locations import Locations

_NUMBER = 0x1950A86A20F9469CFC6C
#: The pickle of the number that such a file begins with.
MAGIC = b"\x80\2\x8a\n" + _NUMBER.to_bytes(10, "little") + b"."
_VERSION = 1001
_LENGTH_BYTES = 8
_LONGEST_NAME = 1000


def read_legacy(file: Any, locations: Locations) -> Any:
    """The value in a file, from its position on. Of what follows it nothing is read.

    Parameters
    ----------
    file
        A file that can seek.
    locations
        Where storages go.

    Raises
    ------
    UnreadableError
        If it is damaged, or no such file.
    """
    return _Legacy(file, locations).read()


class _Survey(Constructors):
    """Notes which storages a pickle refers to, and makes nothing: where they are in the file follows from their types."""

    def __init__(self, storages: Storages, budget: Budget) -> None:
        super().__init__(storages, budget)
        #: Size in bytes of an element of each storage.
        self.itemsizes: dict[str, int] = {}

    def call(self, function: Any, arguments: Any) -> Any:
        """Something that takes items, in place of any result."""
        return OrderedDict()

    def new(self, cls: Any, arguments: Any) -> Any:
        """See :meth:`call`."""
        return OrderedDict()

    def build(self, target: Any, state: Any) -> None:
        """Nothing."""

    def persistent(self, reference: Any) -> Any:
        """Note a storage."""
        check_reference(reference)
        self.itemsizes.setdefault(reference[2], reference[1].dtype.itemsize)
        return OrderedDict()


class _Legacy:
    def __init__(self, file: Any, locations: Locations) -> None:
        self._file = file
        here = file.tell()
        self._end = file.seek(0, os.SEEK_END)
        file.seek(here)
        self._budget = Budget(self._end - here)
        self._storages = Storages(self._storage, locations)
        #: Where each storage begins, and how many bytes it has.
        self._places: dict[str, tuple[int, int]] = {}
        self._after = here

    def read(self) -> Any:
        """All of it."""
        number, version = self._plain(), self._plain()
        if type(number) is not int or number != _NUMBER:
            raise UnreadableError("it does not begin as a file of torch.save")
        if type(version) is not int or version != _VERSION:
            raise UnreadableError(
                f"it is of version {excerpt(version)} of torch.save's format, and not {_VERSION}"
            )
        system = self._plain()
        if type(system) is not dict or system.get("little_endian") is not True:
            raise UnreadableError("it was written on a machine of byte order big: write it anew on another")
        content = self._next()
        self._find(self._plain(), content)
        result = Machine(content, Constructors(self._storages, self._budget)).run()
        self._file.seek(self._after)
        return result

    def _plain(self) -> Any:
        """The value of the next pickle, which has no tensors."""
        return Machine(self._next(), Constructors(self._storages, self._budget)).run()

    def _next(self) -> bytes:
        """The bytes of the next pickle."""
        start = self._file.tell()
        while self._skip() != pickle.STOP:
            pass
        end = self._file.tell()
        self._file.seek(start)
        result: bytes = self._file.read(end - start)
        return result

    def _skip(self) -> bytes:
        """Skip an instruction of a pickle, and return it."""
        code: bytes = self._file.read(1)
        size = FIXED.get(code)
        if code in COUNTED:
            size = int.from_bytes(self._file.read(COUNTED[code]), "little")
        elif code == pickle.GLOBAL:
            self._file.readline(_LONGEST_NAME)
            self._file.readline(_LONGEST_NAME)
            return code
        if size is None or size > self._end - self._file.tell():
            raise RefusedError(
                "its pickle was cut off" if size or not code else f"its pickle has {instruction(code)}"
            )
        self._file.seek(size, os.SEEK_CUR)
        return code

    def _find(self, keys: Any, content: bytes) -> None:
        """Find the storages, whose order the last pickle says."""
        if type(keys) is not list or not all(type(key) is str for key in keys):
            raise UnreadableError(f"its list of storages is {excerpt(keys)}")
        survey = _Survey(self._storages, self._budget)
        Machine(content, survey).run()
        at = self._file.tell()
        for key in keys:
            if key in self._places or key not in survey.itemsizes:
                raise UnreadableError(
                    f"its list of storages has {excerpt(key)}, which its pickle does not refer to, or twice"
                )
            self._file.seek(at)
            count = int.from_bytes(self._file.read(_LENGTH_BYTES), "little")
            at += _LENGTH_BYTES
            size = count * survey.itemsizes[key]
            if size > self._end - at:
                raise UnreadableError(f"it was cut off: its storage {excerpt(key)} would have {size} bytes")
            self._places[key] = (at, size)
            at += size
        self._after = at

    def _storage(self, key: str, size: int, dtype: dtypes.dtype) -> NDArray[np.uint8]:
        """The bytes of a storage."""
        start, there = self._places.get(key, (0, -1))
        if there != size:
            raise UnreadableError(
                f"it lacks the storage {excerpt(key)}"
                if there < 0
                else f"its storage {excerpt(key)} has {there} bytes, and should have {size}"
            )
        self._file.seek(start)
        result = read_bytes(self._file, size, f"storage {key}")
        check_bools(result, dtype, key)
        return result
