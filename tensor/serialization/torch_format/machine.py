"""The machine that carries out pickles. It calls nothing but the constructors that it is given.

It knows the instructions of the protocols 2 to 5, without those that import, call or change things in other ways: the
instructions of protocol 0 and 1 for instances, the extension registry, and buffers outside the pickle.
"""

from __future__ import annotations

import pickle
import struct
from collections import Counter, OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dtypes
from tensor.core.base import TensorBase
from tensor.core.devices.device import device

from .errors import RefusedError, excerpt

if TYPE_CHECKING:
    from collections.abc import Callable

    from .constructors import Constructors

_MAPPINGS = (dict, OrderedDict, Counter, defaultdict)
#: How deep values nest at most. ``torch.save`` itself recurses, and stops before.
DEPTH = 1000
#: How many values a key may consist of, and how deep they nest: Python recurses through keys to compare them.
_KEY_VALUES = 100
_KEY_DEPTH = 10
#: The hash of a longer integer may be chosen: a table of many that are alike takes forever.
_KEY_INTEGERS = 1 << 64
_INT = 4
_SIZES = {1: "B", 2: "<H", 4: "<I", 8: "<Q"}


class Machine:
    """Carries out one pickle.

    Parameters
    ----------
    data
        The pickle.
    constructors
        What stands for the names in it, and for its persistent ids.
    """

    def __init__(self, data: bytes, constructors: Constructors) -> None:
        self._data = data
        self._at = 0
        self._constructors = constructors
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:
        """The value of the pickle.

        Raises
        ------
        RefusedError
            If it asks for anything that is not done, or is malformed.
        """
        while True:
            code = self._take(1)
            if code == pickle.STOP:
                result = self._value()
                check_depth(result)
                return result
            carry_out = _INSTRUCTIONS.get(code)
            if carry_out is None:
                raise RefusedError(f"its pickle has {instruction(code)}")
            carry_out(self)

    # Bytes of the pickle

    def _take(self, count: int) -> bytes:
        result = self._data[self._at : self._at + count]
        if len(result) < count:
            raise RefusedError("its pickle was cut off")
        self._at += count
        return result

    def _number(self, size: int) -> int:
        result: int = struct.unpack(_SIZES[size], self._take(size))[0]
        return result

    def _line(self) -> str:
        end = self._data.find(b"\n", self._at, self._at + 1000)
        if end < 0:
            raise RefusedError("its pickle is malformed: a name in it has no end")
        result = self._data[self._at : end]
        self._at = end + 1
        return _text(result)

    # The stack

    def _pop(self) -> Any:
        if not self._stack:
            raise RefusedError("its pickle is malformed: it takes from an empty stack")
        return self._stack.pop()

    def _top(self) -> Any:
        if not self._stack:
            raise RefusedError("its pickle is malformed: it takes from an empty stack")
        return self._stack[-1]

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _drop(self) -> None:
        self._pop()

    def _value(self) -> Any:
        result = self._pop()
        self._constructors.check_value(result)
        return result

    def _mark(self) -> None:
        self._below.append(self._stack)
        self._stack = []

    def _pop_mark(self) -> list[Any]:
        if not self._below:
            raise RefusedError("its pickle is malformed: it looks for a mark where there is none")
        result = self._stack
        self._stack = self._below.pop()
        return result

    # Instructions

    def _protocol(self) -> None:
        protocol = self._number(1)
        if protocol > pickle.HIGHEST_PROTOCOL:
            raise RefusedError(f"its pickle is of protocol {protocol}, which there is not")

    def _frame(self) -> None:
        if self._number(8) > len(self._data) - self._at:
            raise RefusedError("its pickle was cut off")

    def _long(self, size: int) -> None:
        self._push(int.from_bytes(self._take(self._number(size)), "little", signed=True))

    def _string(self, size: int) -> None:
        self._push(_text(self._take(self._number(size))))

    def _bytes(self, size: int) -> None:
        self._push(self._take(self._number(size)))

    def _tuple(self, count: int) -> None:
        self._push(tuple([self._pop() for _ in range(count)][::-1]))

    def _put(self, number: int) -> None:
        self._memo[number] = self._top()

    def _get(self, size: int) -> None:
        number = self._number(size)
        if number not in self._memo:
            raise RefusedError(f"its pickle is malformed: it refers to value {number}, which is not there")
        self._push(self._memo[number])

    def _global(self) -> None:
        module = self._line()
        self._push(self._constructors.named(module, self._line()))

    def _stack_global(self) -> None:
        name, module = self._pop(), self._pop()
        if type(name) is not str or type(module) is not str:
            raise RefusedError(f"its pickle is malformed: {excerpt(module)} is no name of a module")
        self._push(self._constructors.named(module, name))

    def _reduce(self) -> None:
        arguments, function = self._pop(), self._pop()
        self._push(self._constructors.call(function, arguments))

    def _new_object(self) -> None:
        arguments, cls = self._pop(), self._pop()
        self._push(self._constructors.new(cls, arguments))

    def _build(self) -> None:
        state = self._pop()
        self._constructors.build(self._top(), state)

    def _persistent(self) -> None:
        self._push(self._constructors.persistent(self._pop()))

    def _append(self) -> None:
        self._extend([self._pop()])

    def _extend(self, values: list[Any]) -> None:
        target = self._top()
        if type(target) is not list:
            raise RefusedError(f"its pickle appends to {excerpt(target)}, which is no list")
        for value in values:
            self._constructors.check_value(value)
        target.extend(values)

    def _set_item(self) -> None:
        value = self._pop()
        self._set_items([self._pop(), value])

    def _set_items(self, values: list[Any]) -> None:
        target = self._top()
        if type(target) not in _MAPPINGS or len(values) % 2:
            raise RefusedError(f"its pickle sets items of {excerpt(target)}, which is no dict")
        for key, value in zip(values[::2], values[1::2], strict=True):
            check_key(key)
            self._constructors.check_value(value)
            target[key] = value

    def _add_items(self, values: list[Any]) -> None:
        target = self._top()
        if type(target) is not set:
            raise RefusedError(f"its pickle adds to {excerpt(target)}, which is no set")
        for value in values:
            check_key(value)
            target.add(value)

    def _frozen_set(self, values: list[Any]) -> None:
        for value in values:
            check_key(value)
        self._push(frozenset(values))


def instruction(code: bytes) -> str:
    """What to say of an instruction that is not carried out."""
    name = _NAMES.get(code)
    if name is None:
        return "a byte that is no instruction: it is malformed"
    return f"the instruction {name}, which files of torch.save do not need; it is not carried out"


def check_key(key: Any) -> None:
    """Check what is to be a key or an element of a set: strings, numbers, ``None``, or short tuples of them.

    Raises
    ------
    RefusedError
        For anything else, of which Python may be long in computing a hash.
    """
    kind = type(key)
    if kind is str or (kind is int and -_KEY_INTEGERS < key < _KEY_INTEGERS):
        return
    pending = [(key, 0)]
    for count, (value, depth) in enumerate(pending):
        if isinstance(value, tuple) and depth < _KEY_DEPTH and len(pending) + len(value) <= _KEY_VALUES:
            pending.extend((each, depth + 1) for each in value)
        elif not (
            (type(value) is int and -_KEY_INTEGERS < value < _KEY_INTEGERS)
            or value is None
            or type(value) in (bool, float, str, bytes, dtypes.dtype, device)
            or (isinstance(value, np.generic) and value.dtype.kind in "biufSU")
            or (isinstance(value, TensorBase) and not count)
        ):
            raise RefusedError(
                f"its pickle has the key {excerpt(value)}, which is none; keys are strings, numbers, None, or short tuples "
                "of them"
            )


def check_depth(value: Any) -> None:
    """Check that ``value`` does not nest deeper than programs that walk through it can bear.

    Raises
    ------
    RefusedError
        If it does.
    """
    seen: set[int] = set()
    level = [value]
    for _ in range(DEPTH):
        following: list[Any] = []
        for each in level:
            attributes = getattr(each, "__dict__", None) if isinstance(each, (dict, TensorBase)) else None
            is_container = isinstance(each, (dict, list, tuple, set, frozenset))
            if not (is_container or attributes) or id(each) in seen:
                continue
            seen.add(id(each))
            if is_container:
                following.extend(each.values() if isinstance(each, dict) else each)
            if attributes:
                following.extend(attributes.values())
        if not following:
            return
        level = following
    raise RefusedError(f"its values nest deeper than {DEPTH} levels")


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise RefusedError(f"its pickle is malformed: a string in it is no text: {error}") from None


_NAMES = {
    getattr(pickle, name): name
    for name in pickle.__all__
    if name.isupper() and type(getattr(pickle, name)) is bytes
}
_INSTRUCTIONS: dict[bytes, Callable[[Machine], None]] = {
    pickle.PROTO: Machine._protocol,
    pickle.FRAME: Machine._frame,
    pickle.MARK: Machine._mark,
    pickle.POP: Machine._drop,
    pickle.POP_MARK: lambda self: self._pop_mark().clear(),
    pickle.DUP: lambda self: self._push(self._top()),
    pickle.NONE: lambda self: self._push(None),
    pickle.NEWTRUE: lambda self: self._push(True),
    pickle.NEWFALSE: lambda self: self._push(False),
    pickle.BININT: lambda self: self._push(int.from_bytes(self._take(_INT), "little", signed=True)),
    pickle.BININT1: lambda self: self._push(self._number(1)),
    pickle.BININT2: lambda self: self._push(self._number(2)),
    pickle.LONG1: lambda self: self._long(1),
    pickle.LONG4: lambda self: self._long(4),
    pickle.BINFLOAT: lambda self: self._push(struct.unpack(">d", self._take(8))[0]),
    pickle.SHORT_BINSTRING: lambda self: self._string(1),
    pickle.BINSTRING: lambda self: self._string(4),
    pickle.SHORT_BINUNICODE: lambda self: self._string(1),
    pickle.BINUNICODE: lambda self: self._string(4),
    pickle.BINUNICODE8: lambda self: self._string(8),
    pickle.SHORT_BINBYTES: lambda self: self._bytes(1),
    pickle.BINBYTES: lambda self: self._bytes(4),
    pickle.BINBYTES8: lambda self: self._bytes(8),
    pickle.BYTEARRAY8: lambda self: self._push(bytearray(self._take(self._number(8)))),
    pickle.EMPTY_TUPLE: lambda self: self._push(()),
    pickle.TUPLE1: lambda self: self._tuple(1),
    pickle.TUPLE2: lambda self: self._tuple(2),
    pickle.TUPLE3: lambda self: self._tuple(3),
    pickle.TUPLE: lambda self: self._push(tuple(self._pop_mark())),
    pickle.EMPTY_LIST: lambda self: self._push([]),
    pickle.APPEND: Machine._append,
    pickle.APPENDS: lambda self: self._extend(self._pop_mark()),
    pickle.EMPTY_DICT: lambda self: self._push({}),
    pickle.SETITEM: Machine._set_item,
    pickle.SETITEMS: lambda self: self._set_items(self._pop_mark()),
    pickle.EMPTY_SET: lambda self: self._push(set()),
    pickle.ADDITEMS: lambda self: self._add_items(self._pop_mark()),
    pickle.FROZENSET: lambda self: self._frozen_set(self._pop_mark()),
    pickle.BINPUT: lambda self: self._put(self._number(1)),
    pickle.LONG_BINPUT: lambda self: self._put(self._number(4)),
    pickle.MEMOIZE: lambda self: self._put(len(self._memo)),
    pickle.BINGET: lambda self: self._get(1),
    pickle.LONG_BINGET: lambda self: self._get(4),
    pickle.GLOBAL: Machine._global,
    pickle.STACK_GLOBAL: Machine._stack_global,
    pickle.REDUCE: Machine._reduce,
    pickle.NEWOBJ: Machine._new_object,
    pickle.BUILD: Machine._build,
    pickle.BINPERSID: Machine._persistent,
}
#: How many bytes follow an instruction.
FIXED = dict.fromkeys((*_INSTRUCTIONS, pickle.STOP), 0) | {
    pickle.PROTO: 1,
    pickle.FRAME: 8,
    pickle.BININT: 4,
    pickle.BININT1: 1,
    pickle.BININT2: 2,
    pickle.BINFLOAT: 8,
    pickle.BINPUT: 1,
    pickle.LONG_BINPUT: 4,
    pickle.BINGET: 1,
    pickle.LONG_BINGET: 4,
}
#: How many bytes after an instruction say how many bytes follow.
COUNTED = {
    pickle.LONG1: 1,
    pickle.LONG4: 4,
    pickle.SHORT_BINSTRING: 1,
    pickle.BINSTRING: 4,
    pickle.SHORT_BINUNICODE: 1,
    pickle.BINUNICODE: 4,
    pickle.BINUNICODE8: 8,
    pickle.SHORT_BINBYTES: 1,
    pickle.BINBYTES: 4,
    pickle.BINBYTES8: 8,
    pickle.BYTEARRAY8: 8,
}
