"""What a program depends on of a call: its arguments, and what operations depend on besides their operands.

A call is described by a value that can be hashed, which says which programs it may run. Once that is known, a generated
function tells at later calls whether nothing has changed, by comparisons alone; what it does not recognize is described again.
"""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tensor.core.base import TensorBase
from tensor.core.devices import state as devices
from tensor.core.dtypes import default as default_dtype
from tensor.core.modes.determinism import determinism
from tensor.core.modes.grad_mode import modes
from tensor.core.modes.precision import settings as precision
from tensor.methods.tensor import Tensor

from .generated import Code, listed
from .reading import CONTAINERS, PLAIN, is_module, is_signed_zero, same

if TYPE_CHECKING:
    from collections.abc import Callable

#: Types of values that are the same if they are equal.
_SIMPLE = (bool, int, float, complex, str, bytes)
#: What operations depend on besides their operands: what has it as an attribute, its name, and what people call it.
_SETTINGS: tuple[tuple[Any, str, str], ...] = (
    (modes, "recording", "grad mode"),
    (modes, "inference", "inference mode"),
    (modes, "autocast", "autocast"),
    (default_dtype, "_default_dtype", "the default dtype"),
    (determinism, "required", "determinism"),
    *[(precision, name, name) for name in precision.__slots__],
    # Counts the settings that plans have been made anew for.
    (devices, "_forgotten", ""),
)


class Special(Exception):  # noqa: N818 - never leaves this package
    """A tensor of a class that has a say in what operations do."""


def is_plain(x: Any) -> bool:
    """Whether operations do to ``x`` what they do to tensors: it is no batch of ``vmap``, and of no program's own class.

    A parameter that has no shape yet is not.
    """
    cls = type(x)
    return cls is Tensor or (cls.__module__ == "nn.parameter" and cls._layout is TensorBase._layout)


def described(value: Any, tensors: list[Tensor], objects: list[Any]) -> tuple[Any, ...]:
    """What a program depends on of an argument, which can be hashed.

    The tensors in it are added to ``tensors``, and what is told apart by its attributes to ``objects``.

    Raises
    ------
    Special
        If a tensor in it is of a class that has a say in what operations do.
    """
    if isinstance(value, TensorBase):
        if not is_plain(value):
            raise Special
        tensors.append(value)
        first = next(i for i, x in enumerate(tensors) if x._storage is value._storage)
        # What the function makes of one of them may be read by way of another.
        distance = value._offset - tensors[first]._offset
        is_aligned = value._offset % 16 == 0
        return type(value), value._layout, is_aligned, value.requires_grad, value.is_leaf, first, distance
    if isinstance(value, PLAIN):
        # 1, 1.0 and True are equal, and so are 0.0 and -0.0.
        if isinstance(value, slice):
            return slice, *(
                described(each, tensors, objects) for each in (value.start, value.stop, value.step)
            )
        return type(value), value, str(value) if is_signed_zero(value) else None
    if isinstance(value, (list, tuple)):
        own = _own_attributes(value, tensors, objects)
        return type(value), *(described(each, tensors, objects) for each in value), *own
    if isinstance(value, dict):
        own = _own_attributes(value, tensors, objects)
        return type(value), *((name, described(each, tensors, objects)) for name, each in value.items()), *own
    if _is_of_library(value):
        return type(value), value
    fields = _fields_of(value)
    if fields is not None:
        # Its methods may be called.
        objects.append(type(value))
        return type(value), *((name, described(each, tensors, objects)) for name, each in fields.items())
    objects.append(value)
    return type(value), id(value)


def _own_attributes(value: Any, tensors: list[Tensor], objects: list[Any]) -> list[Any]:
    """What a container of a class of the program's own has besides its elements."""
    if type(value) in CONTAINERS:
        return []
    objects.append(type(value))
    attributes = getattr(value, "__dict__", None) or {}
    return [(name, described(each, tensors, objects)) for name, each in attributes.items()]


def _fields_of(value: Any) -> dict[str, Any] | None:
    """What a record is told apart by: the attributes of an instance of a dataclass, or of a namespace; ``None`` for others."""
    is_record = dataclasses.is_dataclass(value) and not isinstance(value, type) and not is_module(value)
    if not is_record and type(value) is not SimpleNamespace:
        return None
    attributes: dict[str, Any] | None = getattr(value, "__dict__", None)
    if attributes is not None:
        return attributes
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}


def _is_of_library(value: Any) -> bool:
    """Whether ``value`` is told apart by equality: a device, a dtype, a layout."""
    return type(value).__module__.startswith(("tensor.core.", "nvrtc_kernels.dtypes"))


def environment() -> tuple[Any, ...]:
    """What operations depend on besides their operands."""
    return tuple([getattr(owner, name) for owner, name, _ in _SETTINGS])


def difference(before: tuple[Any, ...], now: tuple[Any, ...]) -> str:
    """What differs between the descriptions of two calls, for people."""
    for position, (one, other) in enumerate(zip(before[1][1:], now[1][1:], strict=False)):
        if one != other:
            return f"argument {position} was {_told(one)} and is {_told(other)}{_advice(one, other)}"
    named, others = dict(before[2][1:]), dict(now[2][1:])
    for name in {**named, **others}:
        if name in named and name in others and named[name] != others[name]:
            one, other = named[name], others[name]
            return f"argument {name!r} was {_told(one)} and is {_told(other)}{_advice(one, other)}"
    if len(before[1]) != len(now[1]) or named.keys() != others.keys():
        return "there are more or fewer of them"
    for (_, _, called), one, other in zip(_SETTINGS, before[3:], now[3:], strict=True):
        if called and one != other:
            return f"{called} was {one} and is {other}"
    return "settings changed"


def _advice(*descriptions: tuple[Any, ...]) -> str:
    """What to do about arguments that change, if they are numbers."""
    are_numbers = all(cls in (int, float) for cls, *_ in descriptions)
    return " (a tensor of no dimensions in its place may change)" if are_numbers else ""


def _told(description: tuple[Any, ...]) -> str:
    """An argument by its description, for people."""
    cls, *rest = description
    if isinstance(cls, type) and issubclass(cls, TensorBase):
        layout = rest[0]
        strides = "" if layout.contiguous else f" with strides {list(layout.strides)}"
        return f"a {layout.dtype!r} of shape {list(layout.shape)}{strides}"
    if isinstance(cls, type) and issubclass(cls, PLAIN) and cls is not slice:
        return repr(rest[0])[:40]
    return f"another {cls.__name__}"


def recognizer(args: Any, kwargs: Any) -> Callable[[Any, Any], list[Tensor] | None] | None:
    """A function that gives the tensors of a call that is described as this one is; ``None`` if it may be another.

    It is ``None`` itself where there are arguments that only a description tells.
    """
    code = Code("recognize", "args", "kwargs")
    constant, changes = code.constant, list[str]()
    for owner, name, _ in _SETTINGS:
        now = getattr(owner, name)
        differs = "!=" if isinstance(now, (int, tuple)) else "is not"
        changes.append(f"{constant(owner)}.{name} {differs} {constant(now)}")
    code.add(f"if {' or '.join(changes)}: return None")
    writer = _Recognizer(code)
    if not (writer.value("args", args) and writer.value("kwargs", kwargs)):
        return None
    names = [f"t{number}" for number in range(len(writer.tensors))]
    if len(names) > 1:
        storages = [x._storage for x in writer.tensors]
        if len(set(map(id, storages))) < len(storages):
            # Which of them share memory is more than one comparison tells.
            return None
        ids = ", ".join(f"{constant(id)}({name}._storage)" for name in names)
        code.add(f"if {constant(len)}({{{ids}}}) != {len(names)}: return None")
    code.add(f"return {listed(names)}")
    return code.function()


class _Recognizer:
    """Writes what recognizes arguments, part by part."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._count = 0
        self.tensors: list[Tensor] = []

    def _refuse_if(self, condition: str) -> None:
        self._code.add(f"if {condition}: return None")

    def value(self, source: str, value: Any) -> bool:
        """Recognize what ``source`` gives by what it gives now; whether it can be."""
        constant = self._code.constant
        is_other_type = f"{constant(type)}({source}) is not {constant(type(value))}"
        if isinstance(value, TensorBase):
            self._tensor(source, value, is_other_type)
        elif isinstance(value, _SIMPLE) and type(value) in _SIMPLE:
            name = constant(value)
            if not same(value, value) or is_signed_zero(value):
                return False
            self._refuse_if(f"{source} is not {name} and ({is_other_type} or {source} != {name})")
        elif value is None or value is ... or _is_of_library(value):
            self._refuse_if(f"{source} is not {constant(value)}")
        elif isinstance(value, PLAIN):
            return False
        elif isinstance(value, (list, tuple)):
            if getattr(value, "__dict__", None):
                return False
            self._refuse_if(f"{is_other_type} or {constant(len)}({source}) != {len(value)}")
            return all(self._element(f"{source}[{number}]", each) for number, each in enumerate(value))
        elif isinstance(value, dict):
            if type(value) is not dict or not all(type(name) is str for name in value):
                return False
            self._refuse_if(f"{is_other_type} or {constant(tuple)}({source}) != {constant(tuple(value))}")
            return all(self._element(f"{source}[{constant(name)}]", each) for name, each in value.items())
        elif (fields := _fields_of(value)) is not None:
            self._refuse_if(is_other_type)
            if hasattr(value, "__dict__"):
                return self._element(f"{source}.__dict__", fields)
            return all(self._element(f"{source}.{name}", each) for name, each in fields.items())
        else:
            self._refuse_if(f"{source} is not {constant(value)}")
        return True

    def _element(self, source: str, value: Any) -> bool:
        self._count += 1
        name = f"x{self._count}"
        self._code.add(f"{name} = {source}")
        return self.value(name, value)

    def _tensor(self, source: str, x: Tensor, is_other_type: str) -> None:
        name = f"t{len(self.tensors)}"
        self.tensors.append(x)
        constant, state = self._code.constant, x._autograd
        self._code.add(f"{name} = {source}")
        is_aligned = x._offset % 16 == 0
        self._refuse_if(
            f"{is_other_type} or {name}._layout is not {constant(x._layout)} or {name}._offset % 16 {'!=' if is_aligned else '=='} 0"
        )
        if state is None:
            self._refuse_if(f"{name}._autograd is not None")
            return
        self._code.add(f"state = {name}._autograd")
        self._refuse_if(
            f"state is None or state.requires_grad is not {state.requires_grad} or "
            f"(state.edge is None) is not {state.edge is None}"
        )
