"""Values as a pickle of protocol 2 that ``torch.load(weights_only=True)`` reads: with the names only that it knows."""

from __future__ import annotations

import pickle
import struct
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dtypes
from tensor.core.base import TensorBase
from tensor.core.devices.device import device
from tensor.core.size import Size
from tensor.methods.tensor import Tensor
from tensor.serialization.classes import name_of
from tensor.serialization.structure import DEPTH, Attribute, shown, unwanted

from .constructors import STORAGES

if TYPE_CHECKING:
    from tensor.core.storage import Storage
    from tensor.serialization.structure import Path

#: The longest integer that PyTorch's reader takes, in bytes.
_LONGEST = 255
_BYTE, _SHORT, _INT = 1 << 8, 1 << 16, 1 << 31
#: An attribute by which PyTorch tells buffers.
_IS_BUFFER = "_is_buffer"


class Pickler:
    """Turns a value into a pickle.

    Attributes
    ----------
    storages : list of Storage
        Those of the tensors that were met, in this order. The pickle refers to them by their positions.
    """

    def __init__(self) -> None:
        self.storages: list[Storage] = []
        self._numbers: dict[int, int] = {}
        #: Of each storage, the dtype of the tensors that view it; none if they differ, do not fill it, or have a
        #: dtype that there are no typed storages of.
        self._dtypes: dict[int, dtypes.dtype | None] = {}
        self._output = bytearray()
        self._memo: dict[Any, int] = {}
        self._count = 0
        self._open: set[int] = set()
        #: The address of an object that is gone may become another's.
        self._alive: list[Any] = []

    def pickle(self, value: Any) -> bytes:
        """The pickle of ``value``.

        Raises
        ------
        TypeError
            For something that ``torch.load(weights_only=True)`` does not read.
        ValueError
            For what contains itself, or nests too deep.
        """
        self._find_storages(value)
        self._write(pickle.PROTO, b"\2")
        self._save(value, ())
        self._write(pickle.STOP)
        return bytes(self._output)

    def _find_storages(self, value: Any) -> None:
        """Note how the storages are viewed, which each reference to them says."""
        pending, seen = [value], set()
        while pending:
            each = pending.pop()
            if not isinstance(each, (TensorBase, dict, list, tuple)) or id(each) in seen:
                continue
            seen.add(id(each))
            if isinstance(each, TensorBase):
                self._note(each)
            pending.extend(getattr(each, "__dict__", {}).values())
            if not isinstance(each, TensorBase):
                pending.extend(each.values() if isinstance(each, dict) else each)

    def _note(self, input: Tensor) -> None:
        storage, dtype = input._storage, input._layout.dtype
        known = self._dtypes.setdefault(id(storage), dtype)
        # PyTorch has no typed storages of what it came to know later.
        if dtype.is_storage_only or known is not dtype or storage.capacity % dtype.itemsize:
            self._dtypes[id(storage)] = None

    # Instructions

    def _write(self, *parts: bytes) -> None:
        for part in parts:
            self._output += part

    def _put(self, key: Any) -> None:
        """Give the value on top of the stack a number, by which ``key`` is found again."""
        number = self._count
        self._count += 1
        self._memo[key] = number
        if number < _BYTE:
            self._write(pickle.BINPUT, bytes((number,)))
        else:
            self._write(pickle.LONG_BINPUT, struct.pack("<I", number))

    def _is_memoized(self, key: Any) -> bool:
        number = self._memo.get(key)
        if number is None:
            return False
        if number < _BYTE:
            self._write(pickle.BINGET, bytes((number,)))
        else:
            self._write(pickle.LONG_BINGET, struct.pack("<I", number))
        return True

    def _global(self, module: str, name: str) -> None:
        if not self._is_memoized((module, name)):
            self._write(pickle.GLOBAL, f"{module}\n{name}\n".encode())
            self._put((module, name))

    # Values

    def _save(self, value: Any, path: Path) -> None:
        cls = type(value)
        if value is None or cls is bool:
            self._write({None: pickle.NONE, True: pickle.NEWTRUE, False: pickle.NEWFALSE}[value])
        elif cls is int:
            self._integer(value, path)
        elif cls is float:
            self._write(pickle.BINFLOAT, struct.pack(">d", value))
        elif cls is str:
            self._string(value)
        elif cls in (bytes, bytearray):
            self._bytes(value)
        elif cls is complex:
            self._called("__builtin__", "complex", (value.real, value.imag), path)
        elif cls is dtypes.dtype:
            self._global("torch", value.name)
        elif cls is device:
            of_device = (value.type,) if value.index is None else (value.type, value.index)
            self._called("torch", "device", of_device, path)
        elif isinstance(value, TensorBase) or cls in (list, tuple, dict, OrderedDict, Counter, Size, set):
            self._object(value, path)
        else:
            raise TypeError(f"cannot save {shown(path)}: {_unread(value)}")

    def _integer(self, value: int, path: Path) -> None:
        if 0 <= value < _BYTE:
            self._write(pickle.BININT1, bytes((value,)))
        elif 0 <= value < _SHORT:
            self._write(pickle.BININT2, struct.pack("<H", value))
        elif -_INT <= value < _INT:
            self._write(pickle.BININT, struct.pack("<i", value))
        else:
            data = pickle.encode_long(value)
            if len(data) > _LONGEST:
                raise TypeError(
                    f"cannot save {shown(path)}: it is a number of {len(data)} bytes, and torch.load reads {_LONGEST} at most; "
                    "save it as a string"
                )
            self._write(pickle.LONG1, bytes((len(data),)), data)

    def _string(self, value: str) -> None:
        if not self._is_memoized(("", value)):
            data = value.encode("utf-8", "surrogatepass")
            self._write(pickle.BINUNICODE, struct.pack("<I", len(data)), data)
            self._put(("", value))

    def _bytes(self, value: bytes | bytearray) -> None:
        if type(value) is bytearray:
            self._global("__builtin__", "bytearray")
        self._global("_codecs", "encode")
        self._string(value.decode("latin1"))
        self._string("latin1")
        self._write(pickle.TUPLE2, pickle.REDUCE)
        if type(value) is bytearray:
            self._write(pickle.TUPLE1, pickle.REDUCE)

    def _called(self, module: str, name: str, arguments: tuple[Any, ...], path: Path) -> None:
        self._global(module, name)
        self._elements(arguments, path)
        self._write(pickle.REDUCE)

    def _elements(self, values: tuple[Any, ...], path: Path) -> None:
        """A tuple."""
        self._write(pickle.MARK)
        for position, each in enumerate(values):
            self._save(each, (*path, position))
        self._write(pickle.TUPLE)

    def _object(self, value: Any, path: Path) -> None:
        identity = id(value)
        if identity in self._open:
            raise ValueError(f"cannot save {shown(path)}: it is part of itself")
        if self._is_memoized(identity):
            return
        if len(path) > DEPTH:
            raise ValueError(f"cannot save {shown(path[:3])}...: it nests deeper than {DEPTH} levels")
        self._open.add(identity)
        cls = type(value)
        if isinstance(value, TensorBase):
            self._tensor(value, path)
            self._put(identity)
        elif cls is tuple:
            self._elements(value, path)
            self._put(identity)
        elif cls is Size:
            self._called("torch", "Size", (tuple(value),), path)
            self._put(identity)
        elif cls is set:
            # In an order that is the same whenever the set is.
            self._called(
                "__builtin__", "set", (sorted(value, key=lambda each: (str(type(each)), repr(each))),), path
            )
            self._put(identity)
        elif cls is list:
            self._write(pickle.EMPTY_LIST)
            self._put(identity)
            self._write(pickle.MARK)
            for position, each in enumerate(value):
                self._save(each, (*path, position))
            self._write(pickle.APPENDS)
        else:
            self._mapping(value, path)
        self._open.discard(identity)
        self._alive.append(value)

    def _mapping(self, value: dict[Any, Any], path: Path) -> None:
        cls = type(value)
        if cls is dict:
            self._write(pickle.EMPTY_DICT)
        else:
            self._called("collections", cls.__name__, (), path)
        self._put(id(value))
        self._write(pickle.MARK)
        for key, each in value.items():
            if isinstance(key, TensorBase):
                raise TypeError(
                    f"cannot save {shown(path)}: it has a tensor as a key; keys are strings, numbers, None, or tuples of them"
                )
            self._save(key, (*path, key))
            self._save(each, (*path, key))
        self._write(pickle.SETITEMS)
        state = getattr(value, "__dict__", {})
        if state:
            if cls is not OrderedDict:
                raise TypeError(
                    f"cannot save {shown(path)}: it is a {cls.__name__} with attributes; make it a dict"
                )
            self._state(state, path)
            self._write(pickle.BUILD)

    def _state(self, state: dict[str, Any], path: Path) -> None:
        self._write(pickle.EMPTY_DICT, pickle.MARK)
        for name, each in state.items():
            self._string(name)
            self._save(each, (*path, Attribute(name)))
        self._write(pickle.SETITEMS)

    # Tensors

    def _tensor(self, value: Tensor, path: Path) -> None:
        if id(value._storage) not in self._dtypes:
            raise TypeError(
                f"cannot save {shown(path)}: it is a tensor in a set or a key; put tensors in lists and dicts"
            )
        cls, state = type(value), dict(vars(value))
        name = None if cls is Tensor else name_of(cls)
        if cls is not Tensor and name not in ("Parameter", "Buffer"):
            raise TypeError(
                f"cannot save {shown(path)}: it is a {cls.__module__}.{cls.__qualname__}, a class of tensors that torch.load "
                "does not know; save it.as_subclass(Tensor)"
            )
        if name == "Buffer":
            state[_IS_BUFFER] = True
        if name == "Parameter":
            self._global("torch._utils", "_rebuild_parameter_with_state" if state else "_rebuild_parameter")
            self._write(pickle.MARK)
            self._view(value, False, path)
            self._write(pickle.NEWTRUE if value.requires_grad else pickle.NEWFALSE)
            self._no_hooks()
        elif state:
            self._global("torch._tensor", "_rebuild_from_type_v2")
            self._write(pickle.MARK)
            self._global("torch._utils", self._function(value))
            self._global("torch", "Tensor")
            self._arguments(value, value.requires_grad, path)
        else:
            self._view(value, value.requires_grad, path)
            return
        if state:
            self._state(state, path)
        self._write(pickle.TUPLE, pickle.REDUCE)

    def _function(self, value: Tensor) -> str:
        return "_rebuild_tensor_v3" if self._dtypes[id(value._storage)] is None else "_rebuild_tensor_v2"

    def _view(self, value: Tensor, requires_grad: bool, path: Path) -> None:
        self._global("torch._utils", self._function(value))
        self._arguments(value, requires_grad, path)
        self._write(pickle.REDUCE)

    def _arguments(self, value: Tensor, requires_grad: bool, path: Path) -> None:
        layout = value._layout
        if value._offset % layout.itemsize:
            raise TypeError(
                f"cannot save {shown(path)}: it begins within an element of its storage; save its clone()"
            )
        self._write(pickle.MARK)
        self._storage(value._storage, path)
        self._save(value._offset // layout.itemsize, path)
        self._elements(tuple(layout.shape), path)
        self._elements(layout.strides, path)
        self._write(pickle.NEWTRUE if requires_grad else pickle.NEWFALSE)
        self._no_hooks()
        if self._dtypes[id(value._storage)] is None:
            self._global("torch", layout.dtype.name)
        self._write(pickle.TUPLE)

    def _storage(self, storage: Storage, path: Path) -> None:
        dtype = self._dtypes[id(storage)]
        number = self._numbers.setdefault(id(storage), len(self.storages))
        if number == len(self.storages):
            self.storages.append(storage)
        self._write(pickle.MARK)
        self._string("storage")
        if dtype is None:
            self._global("torch.storage", "UntypedStorage")
        else:
            self._global("torch", STORAGES[dtype])
        self._string(str(number))
        self._string(str(storage.device))
        self._save(storage.capacity // (1 if dtype is None else dtype.itemsize), path)
        self._write(pickle.TUPLE, pickle.BINPERSID)

    def _no_hooks(self) -> None:
        self._global("collections", "OrderedDict")
        self._write(pickle.EMPTY_TUPLE, pickle.REDUCE)


def _unread(value: Any) -> str:
    """What is wrong with a value, and what to do."""
    what = f"it is a {type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, np.generic):
        return f"{what}, which torch.load(weights_only=True) does not read: save it.item()"
    if isinstance(value, np.ndarray):
        return f"{what}, which torch.load(weights_only=True) does not read: save tensor.from_numpy(it)"
    if isinstance(value, dict):
        return f"{what}, which torch.load(weights_only=True) does not read: save dict(it)"
    return unwanted(value)
