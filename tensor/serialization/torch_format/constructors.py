"""The names that pickles of ``torch.save`` use, and what stands for them here."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nvrtc_kernels import dtypes
from tensor.core.base import TensorBase
from tensor.core.devices.device import device
from tensor.core.size import Size
from tensor.serialization.classes import class_named

from .errors import RefusedError, excerpt
from .machine import check_key
from .numbers import Numbers
from .safe_globals import allowed, is_blocked
from .storages import Storages, StorageType, Stored
from .tensors import Tensors, as_tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.methods.tensor import Tensor

    from .storages import Budget

#: Storage classes by the dtype of their elements.
STORAGES = {each: f"{each.scalar_type}Storage" for each in dtypes.ALL}
_VALUES: dict[str, Any] = {
    **{f"torch.{each.name}": each for each in dtypes.EVERY},
    **{
        f"{module}.{name}": StorageType(each, untyped=False)
        for each, name in STORAGES.items()
        for module in ("torch", "torch.cuda")
    },
    "torch.storage.UntypedStorage": StorageType(dtypes.uint8, untyped=True),
}
#: Names of Python 2, which protocol 2 writes.
_RENAMED = {
    "builtins.long": "builtins.int",
    "builtins.unicode": "builtins.str",
    "builtins.xrange": "builtins.range",
}
_FACTORIES = {f"builtins.{each.__name__}": each for each in (bool, dict, float, int, list, set, str, tuple)}
_LATIN = ("latin1", "latin-1")
#: Bytes that an element of a list or a dict takes at least, when it is copied.
_POINTER = 8


class Named(NamedTuple):
    """What the pickle has for a class or function that it named.

    Attributes
    ----------
    name : str
        Its name in the file.
    construct : callable
        Makes what a call of it would make.
    cls : type, optional
        The class that the user allowed under this name.
    """

    name: str
    construct: Callable[..., Any]
    cls: type[Any] | None = None


class Constructors:
    """What one pickle may call.

    Parameters
    ----------
    storages
        The storages of the file.
    budget
        The limit of what is copied.
    """

    def __init__(self, storages: Storages, budget: Budget) -> None:
        self._storages = storages
        self._budget = budget
        self._numbers = numbers = Numbers(budget)
        self._tensors = tensors = Tensors(budget)
        self._users: set[type[Any]] = set()
        self._table: dict[str, Callable[..., Any]] = {
            "torch._utils._rebuild_tensor": tensors.tensor,
            "torch._utils._rebuild_tensor_v2": tensors.tensor,
            "torch._utils._rebuild_tensor_v3": tensors.tensor_of_dtype,
            "torch._utils._rebuild_parameter": tensors.parameter,
            "torch._utils._rebuild_parameter_with_state": tensors.parameter,
            "torch._tensor._rebuild_from_type_v2": self._of_class,
            "torch.Tensor": as_tensor,
            "torch.nn.parameter.Parameter": tensors.as_parameter,
            "torch.Size": self._size,
            "torch.device": _device,
            "torch.serialization._get_layout": _refuse_layout,
            "collections.OrderedDict": self._ordered_dict,
            "collections.Counter": self._counter,
            "collections.defaultdict": self._defaultdict,
            "builtins.set": self._set,
            "builtins.frozenset": lambda values=(): frozenset(self._set(values)),
            "builtins.bytes": _no_bytes,
            "builtins.bytearray": self._bytearray,
            "builtins.complex": _complex,
            "builtins.slice": _slice,
            "builtins.range": _range,
            "_codecs.encode": self._encode,
            "numpy.dtype": numbers.dtype,
            "numpy.ndarray": _refuse_call,
            **{
                f"{module}.multiarray.{name}": function
                for module in ("numpy.core", "numpy._core")
                for name, function in (("_reconstruct", self._array), ("scalar", numbers.scalar))
            },
        }

    # What the machine asks

    def named(self, module: str, name: str) -> Any:
        """What stands for a global.

        Raises
        ------
        RefusedError
            If nothing does.
        """
        full = f"{'builtins' if module == '__builtin__' else module}.{name}"
        full = _RENAMED.get(full, full)
        if full in _VALUES:
            return _VALUES[full]
        if full in self._table:
            return Named(full, self._table[full])
        value = allowed(full)
        if is_blocked(module, name):
            raise RefusedError(f"its pickle names {full}, which no file may call")
        if value is not None:
            if not isinstance(value, type):
                return Named(full, value)
            self._users.add(value)
            return Named(full, value, value)
        if full in _FACTORIES:
            return Named(full, _refuse_call)
        raise RefusedError(_advice(full))

    def call(self, function: Any, arguments: Any) -> Any:
        """The result of a call of something named.

        Raises
        ------
        RefusedError
            If it was not named, or does not take these arguments.
        """
        if type(function) is not Named or type(arguments) is not tuple:
            raise RefusedError(f"its pickle calls {excerpt(function)}, which is no function that it named")
        if self._table.get(function.name) is not function.construct:
            return function.construct(*arguments)
        try:
            return function.construct(*arguments)
        except (TypeError, ValueError) as error:
            raise RefusedError(
                f"its pickle calls {function.name} with {len(arguments)} arguments that it does not take: {error}"
            ) from None

    def new(self, cls: Any, arguments: Any) -> Any:
        """A new object of a class."""
        if type(cls) is Named and cls.cls is not None and type(arguments) is tuple:
            return cls.cls.__new__(cls.cls, *arguments)
        return self.call(cls, arguments)

    def build(self, target: Any, state: Any) -> None:
        """Give an object that the pickle made its attributes.

        Raises
        ------
        RefusedError
            If it is not such an object, or the state is none.
        """
        if isinstance(target, (np.dtype, np.ndarray)):
            self._numbers.describe(target, state)
        elif type(target) is OrderedDict:
            self._tensors.set_attributes(target, state)
        elif type(target) in self._users:
            _build_allowed(target, state)
        else:
            raise RefusedError(f"its pickle sets the state of {excerpt(target)}, which has none")

    def persistent(self, reference: Any) -> Stored:
        """The storage that a persistent id refers to."""
        return self._storages.of(reference)

    def check_value(self, value: Any) -> None:
        """Check that ``value`` is a value, and not a step on the way to one.

        Raises
        ------
        RefusedError
            If it is a storage, a class or a function.
        """
        if type(value) in (Named, Stored, StorageType):
            what = value.name if type(value) is Named else "a storage"
            raise RefusedError(
                f"it holds {what} itself, which is not read; save a tensor, or the name of the class"
            )

    # Classes of tensors

    def _of_class(self, function: Any, cls: Any, arguments: Any, state: Any) -> Tensor:
        if (
            type(function) is not Named
            or type(cls) is not Named
            or function.construct is self._table.get(_SELF)
        ):
            raise RefusedError(f"its pickle makes a tensor by {excerpt(function)} of class {excerpt(cls)}")
        output: Tensor = self.call(function, arguments)
        if not isinstance(output, TensorBase):
            raise RefusedError(f"its pickle makes {excerpt(output)} a tensor")
        if type(state) is tuple and len(state) == 2 and not state[1]:
            # The second is of slots.
            state = state[0]
        if cls.cls is not None:
            if not issubclass(cls.cls, TensorBase):
                raise RefusedError(
                    f"its pickle makes a tensor of class {cls.name}, which is no class of tensors"
                )
            output = output.as_subclass(cls.cls)
        elif cls.name == "torch.Tensor" and type(state) is dict and state.get("_is_buffer") is True:
            buffer = class_named("Buffer")
            if buffer is not None:
                output = output.as_subclass(buffer)
                state = {key: value for key, value in state.items() if key != "_is_buffer"}
        elif cls.name == "torch.nn.parameter.Parameter":
            output = self._tensors.parameter(output, output.requires_grad, None)
        elif cls.name != "torch.Tensor":
            raise RefusedError(f"its pickle makes a tensor of class {cls.name}, which is no class of tensors")
        self._tensors.set_attributes(output, state)
        return output

    # Containers and numbers

    def _size(self, sizes: Any = ()) -> Size:
        if type(sizes) not in (tuple, list) or not all(type(each) is int for each in sizes):
            raise RefusedError(f"its pickle has a size of {excerpt(sizes)}")
        self._budget.charge(_POINTER * len(sizes))
        return Size(sizes)

    def _pairs(self, entries: Any) -> list[tuple[Any, Any]]:
        if isinstance(entries, dict):
            self._budget.charge(2 * _POINTER * len(entries))
            return list(entries.items())
        if type(entries) is not list or not all(
            type(pair) in (list, tuple) and len(pair) == 2 for pair in entries
        ):
            raise RefusedError(f"its pickle makes a dict of {excerpt(entries)}")
        self._budget.charge(2 * _POINTER * len(entries))
        for key, value in entries:
            check_key(key)
            self.check_value(value)
        return [(key, value) for key, value in entries]

    def _ordered_dict(self, entries: Any = ()) -> OrderedDict[Any, Any]:
        return OrderedDict(self._pairs([] if type(entries) is tuple and not entries else entries))

    def _counter(self, entries: Any = ()) -> Counter[Any]:
        result: Counter[Any] = Counter()
        for key, value in self._pairs([] if type(entries) is tuple and not entries else entries):
            result[key] = value
        return result

    def _defaultdict(self, factory: Any = None) -> defaultdict[Any, Any]:
        if factory is None:
            return defaultdict(None)
        if type(factory) is not Named or factory.name not in _FACTORIES:
            raise RefusedError(f"its pickle has a defaultdict of {excerpt(factory)}, which is code")
        return defaultdict(_FACTORIES[factory.name])

    def _set(self, values: Any = ()) -> set[Any]:
        if type(values) not in (list, tuple):
            raise RefusedError(f"its pickle makes a set of {excerpt(values)}")
        self._budget.charge(_POINTER * len(values))
        for value in values:
            check_key(value)
        return set(values)

    def _bytearray(self, data: Any = b"", encoding: Any = None) -> bytearray:
        if encoding is not None:
            data = self._encode(data, encoding)
        if type(data) is not bytes:
            raise RefusedError(f"its pickle makes a bytearray of {excerpt(data)}")
        self._budget.charge(len(data))
        return bytearray(data)

    def _encode(self, text: Any, encoding: Any) -> bytes:
        if type(text) is not str or type(encoding) is not str or encoding not in _LATIN:
            raise RefusedError(
                f"its pickle encodes {excerpt(text)} as {excerpt(encoding)}; bytes are latin1 there"
            )
        self._budget.charge(len(text))
        try:
            return text.encode("latin1")
        except UnicodeEncodeError as error:
            raise RefusedError(f"its pickle has bytes that are none: {error}") from None

    def _array(self, cls: Any, shape: Any, code: Any) -> Any:
        if type(cls) is not Named or cls.name != "numpy.ndarray":
            raise RefusedError(f"its pickle makes an array of {excerpt(cls)}")
        return self._numbers.empty(shape)


_SELF = "torch._tensor._rebuild_from_type_v2"


def _device(device_type: Any, index: Any = None) -> device:
    if type(device_type) is not str or (index is not None and type(index) is not int):
        raise RefusedError(f"its pickle has a device {excerpt((device_type, index))}")
    try:
        return device(device_type, index)
    except (RuntimeError, ValueError, OverflowError) as error:
        raise RefusedError(f"its pickle has a device that is not known here: {error}") from None


def _refuse_layout(name: Any) -> Any:
    raise RefusedError(
        f"its pickle has the layout {excerpt(name)}: sparse tensors are not read; save to_dense()"
    )


def _no_bytes() -> bytes:
    # Others are a string that is encoded.
    return b""


def _complex(real: Any, imaginary: Any) -> complex:
    if type(real) is not float or type(imaginary) is not float:
        raise RefusedError(f"its pickle has a complex number of {excerpt(real)} and {excerpt(imaginary)}")
    return complex(real, imaginary)


def _slice(*bounds: Any) -> slice:
    if len(bounds) != 3 or not all(each is None or type(each) is int for each in bounds):
        raise RefusedError(f"its pickle has a slice of {excerpt(bounds)}")
    return slice(*bounds)


def _range(*bounds: Any) -> range:
    if len(bounds) != 3 or not all(type(each) is int for each in bounds) or not bounds[2]:
        raise RefusedError(f"its pickle has a range of {excerpt(bounds)}")
    return range(*bounds)


def _refuse_call(*arguments: Any) -> Any:
    raise RefusedError(
        f"its pickle calls a type with {len(arguments)} arguments, which only names one in files of torch.save"
    )


def _build_allowed(target: Any, state: Any) -> None:
    """What :mod:`pickle` does with the state of an object, for a class that the user allowed."""
    if hasattr(target, "__setstate__"):
        target.__setstate__(state)
        return
    slots: Any = {}
    if type(state) is tuple and len(state) == 2:
        state, slots = state
    for each in (state or {}, slots or {}):
        if type(each) is not dict or not all(type(key) is str and not key.startswith("__") for key in each):
            raise RefusedError(f"its pickle sets the attributes of {excerpt(target)} to {excerpt(each)}")
    if state:
        vars(target).update(state)
    for name, value in (slots or {}).items():
        setattr(target, name, value)


def _advice(name: str) -> str:
    """What to do about a name that is not known."""
    if name.startswith("torch.") and name.removeprefix("torch.") in _FOREIGN_DTYPES:
        return f"it has the dtype {name}, which there are no tensors of here"
    text = (
        f"its pickle names {name}, which may run code; only names that make tensors, containers and numbers are known, and "
        "nothing else is called, with weights_only=False too. Save a state_dict() instead"
    )
    if name.startswith(("torch.", "numpy.")):
        return text
    return (
        f"{text}; or, if you trust it whatever its arguments are, allow it: "
        f"tensor.serialization.add_safe_globals([{name}])"
    )


_FOREIGN_DTYPES = frozenset(
    ("complex32", "quint8", "qint8", "qint32")
    + ("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2")
)
