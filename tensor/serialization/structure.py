"""Nested values as JSON, and back.

``None``, bools, strings, lists, finite floats and integers of up to 64 bits are what they are in JSON. Anything else is
an object with a tag, which says what it is: ``{"tuple": [1, 2]}``, ``{"dict": {"lr": 0.1}}``,
``{"dict": [[0, "keys that are no strings"]]}``, ``{"tensor": "model.weight"}``. A container or tensor that occurs again is
``{"same": n}``, the n-th that was begun.
"""

from __future__ import annotations

import math
import reprlib
from collections import Counter, OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from nvrtc_kernels import dtypes
from tensor.core.base import TensorBase
from tensor.core.devices.device import device
from tensor.core.size import Size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: How deep values may nest. Recursion stays far from Python's own limit, and a file cannot exhaust it.
DEPTH = 100
_WIDE = 1 << 63
_DTYPES = {each.name: each for each in dtypes.EVERY}
_MAPPINGS: dict[type[Any], str] = {
    dict: "dict",
    OrderedDict: "OrderedDict",
    Counter: "Counter",
    defaultdict: "defaultdict",
}
_SEQUENCES: dict[type[Any], str] = {tuple: "tuple", Size: "size"}
_FACTORIES: dict[str, type[Any]] = {
    each.__name__: each for each in (bool, dict, float, int, list, str, tuple)
}
_SCALARS: dict[str, np.dtype[Any]] = {
    np.dtype(each).name: np.dtype(each)
    for each in (
        *(np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
        *(np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64, np.complex128),
    )
}

#: Shortens what nests deep or is long.
_short = reprlib.Repr()
_short.maxstring = _short.maxother = 200

Path = tuple[Any, ...]


class UnreadableError(Exception):
    """Why a file is no checkpoint. The caller says which file."""


class TensorFound:
    """A tensor met on the way: where, and the JSON object that is to say how it is stored."""

    __slots__ = ("input", "node", "path")

    def __init__(self, input: Any, path: Path, node: dict[str, Any]) -> None:
        self.input = input
        self.path = path
        self.node = node


def shown(path: Path) -> str:
    """A path, as Python would write it."""
    return "checkpoint" + "".join(
        str(key) if isinstance(key, Attribute) else f"[{_short.repr(key)}]" for key in path
    )


class Attribute(str):
    """A step of a path to an attribute."""

    __slots__ = ()

    def __str__(self) -> str:
        return f".{self[:]}"


# To JSON


class Encoder:
    """Turns a value into JSON.

    Attributes
    ----------
    tensors : list of TensorFound
        Those that were met. Their objects do not say yet how they are stored.
    """

    def __init__(self) -> None:
        self.tensors: list[TensorFound] = []
        self._numbers: dict[int, int] = {}
        self._open: set[int] = set()

    def encode(self, value: Any, path: Path = ()) -> Any:
        """``value`` as JSON.

        Raises
        ------
        TypeError
            For something that a checkpoint does not hold.
        ValueError
            For what contains itself, or nests too deep.
        """
        cls = type(value)
        if value is None or cls is bool or cls is str:
            return value
        if cls is int:
            # Long numbers in hexadecimal, which Python reads whatever their length.
            return value if -_WIDE <= value < _WIDE else {"int": hex(value)}
        if cls is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if cls is complex:
            return {"complex": [self.encode(value.real), self.encode(value.imag)]}
        if cls is slice:
            return {"slice": [self.encode(each, path) for each in (value.start, value.stop, value.step)]}
        if cls is dtypes.dtype:
            return {"dtype": value.name}
        if cls is device:
            return {"device": str(value)}
        if isinstance(value, np.generic) and value.dtype.name in _SCALARS:
            return {"numpy": [value.dtype.name, value.tobytes().hex()]}
        if isinstance(value, TensorBase) or cls is list or cls in _SEQUENCES or cls in _MAPPINGS:
            return self._object(value, path)
        raise TypeError(f"cannot save {shown(path)}: {unwanted(value)}")

    def _object(self, value: Any, path: Path) -> Any:
        identity = id(value)
        if identity in self._open:
            raise ValueError(f"cannot save {shown(path)}: it is part of itself")
        if identity in self._numbers:
            return {"same": self._numbers[identity]}
        if len(path) > DEPTH:
            raise ValueError(f"cannot save {shown(path[:3])}...: it nests deeper than {DEPTH} levels")
        self._numbers[identity] = len(self._numbers)
        self._open.add(identity)
        if isinstance(value, TensorBase):
            result: Any = self._tensor(value, path)
        elif type(value) in _MAPPINGS:
            result = self._mapping(value, path)
        else:
            result = [self.encode(each, (*path, position)) for position, each in enumerate(value)]
            if type(value) is not list:
                result = {_SEQUENCES[type(value)]: result}
        self._open.discard(identity)
        return result

    def _tensor(self, value: Any, path: Path) -> dict[str, Any]:
        # Its name follows. The tag is the first key.
        node: dict[str, Any] = {"tensor": None}
        self.tensors.append(TensorFound(value, path, node))
        self._attributes(node, vars(value), path)
        return node

    def _mapping(self, value: dict[Any, Any], path: Path) -> dict[str, Any]:
        cls = type(value)
        if all(type(key) is str for key in value):
            entries: Any = {key: self.encode(each, (*path, key)) for key, each in value.items()}
        else:
            entries = []
            for key, each in value.items():
                entries.append([self._key(key, path), self.encode(each, (*path, key))])
        node = {_MAPPINGS[cls]: entries}
        if isinstance(value, defaultdict) and value.default_factory is not None:
            name = getattr(value.default_factory, "__name__", "")
            if _FACTORIES.get(name) is not value.default_factory:
                raise TypeError(
                    f"cannot save {shown(path)}: its default factory {value.default_factory!r} is code, which a "
                    f"checkpoint does not hold; make it a dict, or use one of {', '.join(_FACTORIES)}"
                )
            node["factory"] = name
        # The state dict of a module has an attribute, ``_metadata``.
        self._attributes(node, getattr(value, "__dict__", {}), path)
        return node

    def _key(self, key: Any, path: Path) -> Any:
        try:
            if not isinstance(key, TensorBase):
                return self.encode(key, (*path, key))
        except TypeError:
            pass
        raise TypeError(
            f"cannot save {shown(path)}: its key {_short.repr(key)} is a {type(key).__name__}; keys are strings, numbers, None, or "
            "tuples of them"
        )

    def _attributes(self, node: dict[str, Any], result: dict[str, Any], path: Path) -> None:
        if result:
            node["attributes"] = {
                name: self.encode(each, (*path, Attribute(name))) for name, each in result.items()
            }


def unwanted(value: Any) -> str:
    """What is wrong with a value that a checkpoint does not hold, and what to do."""
    what = f"it is a {type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return f"{what}, a named tuple: save tuple(it) or it._asdict()"
    if hasattr(value, "state_dict"):
        return f"{what}: save its state_dict()"
    if hasattr(value, "get_state"):
        return f"{what}: save its get_state()"
    if isinstance(value, np.ndarray):
        return f"{what}: save tensor.from_numpy(it)"
    return (
        f"{what}; a checkpoint holds dicts, lists and tuples of tensors, numbers, strings, bools and None, and nothing "
        "that would have to be run to be read"
    )


# From JSON


class Decoder:
    """Turns JSON into what it stands for.

    Parameters
    ----------
    tensor
        Makes the tensor that an object with the tag ``tensor`` describes.
    """

    def __init__(self, tensor: Callable[[dict[str, Any]], Any]) -> None:
        self._tensor = tensor
        self._objects: list[Any] = []

    def decode(self, node: Any, depth: int = 0) -> Any:
        """The value of ``node``.

        Raises
        ------
        UnreadableError
            If it is nothing that :class:`Encoder` makes.
        """
        cls = type(node)
        if node is None or cls in (bool, int, float, str):
            return node
        if depth > DEPTH:
            raise UnreadableError(f"its structure nests deeper than {DEPTH} levels")
        if cls is list:
            return self._filled(node, depth)
        if cls is not dict or not node:
            raise UnreadableError(f"its structure has {_excerpt(node)} where a value should be")
        tag = next(iter(node))
        result = self._atom(tag, node[tag], depth + 1) if len(node) == 1 else _NOTHING
        return self._tagged(tag, node, depth) if result is _NOTHING else result

    def _filled(self, nodes: list[Any], depth: int) -> list[Any]:
        result: list[Any] = []
        # Known from the start, so that numbers are those of the encoder, but not to be referred to before it is done.
        number = self._begin()
        result.extend(self.decode(each, depth + 1) for each in nodes)
        self._objects[number] = result
        return result

    def _begin(self) -> int:
        self._objects.append(_NOTHING)
        return len(self._objects) - 1

    def _atom(self, tag: str, data: Any, depth: int) -> Any:
        try:
            if tag == "int" and type(data) is str:
                return int(data, 16)
            if tag == "float" and data in ("nan", "inf", "-inf"):
                return float(data)
            if tag == "complex" and type(data) is list and len(data) == 2:
                real, imaginary = (float(self.decode(each, depth)) for each in data)
                return complex(real, imaginary)
            if tag == "slice" and type(data) is list and len(data) == 3:
                return slice(*(self.decode(each, depth) for each in data))
            if tag == "dtype":
                return _DTYPES[data]
            if tag == "device" and type(data) is str:
                return device(data)
            if tag == "numpy" and type(data) is list and len(data) == 2:
                (scalar,) = np.frombuffer(bytes.fromhex(data[1]), _SCALARS[data[0]])
                return scalar
        except (ValueError, TypeError, KeyError, RuntimeError):
            raise UnreadableError(f"its structure has {_excerpt({tag: data})}, which is no {tag}") from None
        if tag == "same" and type(data) is int and 0 <= data < len(self._objects):
            result = self._objects[data]
            if result is not _NOTHING:
                return result
        return _NOTHING

    def _tagged(self, tag: str, node: dict[str, Any], depth: int) -> Any:
        number = self._begin()
        result: Any
        if tag == "tensor":
            result = self._tensor(node)
            self._set_attributes(result, node, depth)
        elif tag in _SEQUENCES.values() and type(node[tag]) is list and len(node) == 1:
            result = tuple([self.decode(each, depth + 1) for each in node[tag]])
            if tag == "size":
                if not all(type(each) is int for each in result):
                    raise UnreadableError(f"its structure has {_excerpt(node)}, which is no size")
                result = Size(result)
        elif tag in _MAPPINGS.values():
            result = self._mapping(tag, node, depth)
            self._set_attributes(result, node, depth)
        else:
            raise UnreadableError(f"its structure has {_excerpt(node)}, which stands for nothing")
        self._objects[number] = result
        return result

    def _mapping(self, tag: str, node: dict[str, Any], depth: int) -> dict[Any, Any]:
        result: dict[Any, Any] = next(cls for cls, name in _MAPPINGS.items() if name == tag)()
        for key, value in self._entries(node[tag], depth):
            try:
                if key in result:
                    raise UnreadableError(f"its structure has the key {_excerpt(key)} twice")
            except TypeError:
                raise UnreadableError(f"its structure has the key {_excerpt(key)}, which is none") from None
            # Not through Counter or defaultdict, which do more.
            dict.__setitem__(result, key, value) if tag != "OrderedDict" else result.__setitem__(key, value)
        if isinstance(result, defaultdict) and "factory" in node:
            name = node["factory"]
            if type(name) is not str or name not in _FACTORIES:
                raise UnreadableError(f"its structure has the default factory {_excerpt(name)}")
            result.default_factory = _FACTORIES[name]
        return result

    def _entries(self, data: Any, depth: int) -> Iterable[tuple[Any, Any]]:
        if type(data) is dict:
            for key, node in data.items():
                yield key, self.decode(node, depth + 1)
        elif type(data) is list and all(type(pair) is list and len(pair) == 2 for pair in data):
            for key, node in data:
                yield self.decode(key, depth + 1), self.decode(node, depth + 1)
        else:
            raise UnreadableError(f"its structure has {_excerpt(data)} as a dict")

    def _set_attributes(self, output: Any, node: dict[str, Any], depth: int) -> None:
        result = node.get("attributes", {})
        if type(result) is not dict or (result and not hasattr(output, "__dict__")):
            raise UnreadableError(f"its structure has {_excerpt(node)}, whose attributes are none")
        for name, value in result.items():
            output.__dict__[name] = self.decode(value, depth + 1)


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


_NOTHING = _Nothing()


def _excerpt(node: Any) -> str:
    text = repr(node)
    return text if len(text) < 80 else f"{text[:77]}..."
