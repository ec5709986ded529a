"""What a function reads besides its arguments: the guards of a compiled program, and the tensors it takes by reference.

A compiled program is right for as long as the Python code would do the same. Beside its arguments, that follows from
globals, cells of closures, and attributes of the modules and objects that these lead to. All of that is looked through
before the function is recorded; :meth:`Readings.hold` tells later whether it still is as it was. The code that ran while it
was recorded must be code that was looked through: :func:`watched` notes what else ran, and what is never the same twice, such
as the clock.
"""

from __future__ import annotations

import dis
import functools
import gc
import importlib
import os
import sys
import sysconfig
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from contextlib import contextmanager
from itertools import chain
from operator import attrgetter, call, getitem, is_, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.core.base import TensorBase

from .methods import Methods, attribute_of, function_of, is_implied, names_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_ROOT = Path(__file__).resolve().parents[2]
#: Where this library's code is, and Python's and NumPy's, which does not depend on what a program sets.
_OWN = tuple(
    str(_ROOT / name) + "/" for name in ("tensor", "nn", "drv", "nvrtc_kernels", "parallel", "graphroot")
)
_TRUSTED = (
    *_OWN,
    *(sysconfig.get_paths()[name] + "/" for name in ("stdlib", "platstdlib")),
    "<frozen",
    "<string",
)
#: Code whose calls are not the function's.
_INCIDENTAL = (
    *(str(_ROOT / name) + "/" for name in ("drv", "graphroot")),
    str(Path(importlib.__file__).parent) + "/",
    "<frozen importlib",
)
_HERE = str(Path(__file__).parent) + "/"
#: Packages that this library stands on.
_BINDINGS = ("-packages/cuda/", "-packages/numpy/", "-packages/ml_dtypes/", "-packages/llvmlite/")
_SITE_PACKAGES = ("/site-packages/", "/dist-packages/")
#: Modules whose functions give something else at each call, or do something that a later call would not.
_CHANGING = ("random", "_random", "time", "secrets", "numpy.random", "uuid", "builtins.input")
#: Functions of NumPy that read what is known to nobody before.
_READING = frozenset({"load", "fromfile", "loadtxt", "genfromtxt", "memmap"})
#: Methods of the classes of ``datetime`` that do so.
_OF_TODAY = ("now", "today", "utcnow")
#: Functions that read what is known to nobody before.
_UNFOLLOWED = frozenset({"globals", "eval", "exec"})
#: Types of values that are equal only to what means the same.
PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), slice, range, np.generic)
_MAX_DEPTH = 50
#: Bytes of an array of NumPy that are compared at each call.
_MAX_ARRAY = 4096
#: Containers whose objects have nothing besides their elements.
CONTAINERS = (list, tuple, dict, deque, OrderedDict, defaultdict)
#: Modules whose objects do not change, or are asked for what changes by what is recorded.
_UNCHANGING = ("tensor.core.", "tensor.operations.", "tensor.compilation.", "nvrtc_kernels.", "drv.")
_DESCRIPTORS = (
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodWrapperType,
    types.BuiltinMethodType,
    property,
    staticmethod,
    classmethod,
)


class Unreadable(Exception):  # noqa: N818 - a reason, which becomes Unsupported
    """What a function reads cannot be guarded."""


@functools.lru_cache(maxsize=4096)
def _is_trusted(file: str) -> bool:
    """Whether code of ``file`` does nothing that depends on what a program sets."""
    if file.startswith(_OWN) or any(each in file for each in _BINDINGS):
        return True
    return file.startswith(_TRUSTED) and not any(each in file for each in _SITE_PACKAGES)


def _is_own(cls: type) -> bool:
    """Whether a class is the program's own."""
    return not _is_trusted(getattr(sys.modules.get(cls.__module__), "__file__", None) or "<string")


def is_own_code(code: types.CodeType) -> bool:
    """Whether ``code`` is part of this library."""
    return code.co_filename.startswith(_OWN)


def _is_incidental(frame: types.FrameType) -> bool:
    """Whether a frame belongs to the driver, such as a simulated kernel's, or to an import, and not to the function."""
    caller = frame.f_back
    while caller is not None and not caller.f_code.co_filename.startswith(_HERE):
        if caller.f_code.co_filename.startswith(_INCIDENTAL):
            return True
        caller = caller.f_back
    return False


def is_module(x: Any) -> bool:
    """Whether ``x`` is a module of layers: :mod:`nn` stands above this package."""
    # A class of a program's own may do anything where it is asked for an attribute that it does not have.
    attributes = attribute_of(x, "__dict__")
    return isinstance(attributes, dict) and attributes.keys() >= {"_parameters", "_modules", "_buffers"}


class Readings:
    """What a function reads, as it was when this was made.

    Parameters
    ----------
    function : callable
        A function, a method, or a module.
    objects : object
        Arguments whose attributes it may read.

    Attributes
    ----------
    tensors : list of (container, key)
        Where the tensors are that it may read: ``container[key]`` is one.
    codes : set
        The code that was looked through.

    Raises
    ------
    Unreadable
        If something cannot be guarded.
    """

    def __init__(self, function: Any, *objects: Any) -> None:
        self.tensors: list[tuple[Any, Any]] = []
        self.codes: set[types.CodeType] = set()
        self._items: list[tuple[Any, Any, Any]] = []
        self._cells: list[tuple[types.CellType, Any]] = []
        self._sizes: list[tuple[Any, int]] = []
        self._seen: dict[int, Any] = {}
        self._flat: _Flat | None = None
        #: Classes of optimizers and the like, which are not looked into, and what changes with each of their steps.
        self._books: list[tuple[str, frozenset[str]]] = []
        self._orders: list[tuple[dict[Any, Any], list[Any]]] = []
        self._absent: list[tuple[dict[str, Any], frozenset[str]]] = []
        #: Attributes of functions and classes, of which those are guarded whose names are in some code.
        self._named: list[Any] = []
        #: Attributes of objects, of which those matter whose names are in code that may run, with the classes of these.
        self._pending: list[tuple[dict[str, Any], str, int]] = []
        self._objects: list[dict[str, Any]] = []
        self._methods = Methods()
        for each in (function, *objects):
            self._value(each, 0)
        self._attributes_that_matter()
        #: Why code that was looked through cannot be compiled if it runs.
        self.refused = self._reading_books()
        #: The containers and the keys of the tensors.
        self._columns = [each[0] for each in self.tensors], [each[1] for each in self.tensors]

    def guard(self, owner: Any, name: str) -> None:
        """Guard an attribute of something that everybody may change, such as the device that is current."""
        self._items.append((_Attributes(owner), name, getattr(owner, name)))

    def hold(self) -> bool:
        """Whether everything that was read is as it was."""
        flat = self._flat
        if flat is None:
            flat = self._flat = _Flat(self._items, self._cells, self._sizes, self._orders, self._absent)
        if flat.holds():
            return True
        if self.change() is not None:
            return False
        # Something was set to what is equal: the objects that are there now are those to compare with.
        self._items = [(container, key, container[key]) for container, key, _ in self._items]
        self._cells = [(cell, cell.cell_contents) for cell, _ in self._cells]
        self._orders = [(each, list(each)) for each, _ in self._orders]
        self._flat = None
        return True

    def read(self) -> list[Any]:
        """The tensors that are read now, in the order of ``tensors``."""
        return list(map(getitem, *self._columns))

    def replaced(self, tensors: Sequence[Any]) -> list[tuple[Any, Any, Any]]:
        """Where others are in the place of ``tensors``, which were read before: the container, the key, and what is there now.

        That is ``None`` where nothing is there.
        """
        result = []
        for (container, key), before in zip(self.tensors, tensors, strict=True):
            try:
                now = container[key]
            except (KeyError, IndexError, ValueError):
                now = None
            if now is not before:
                result.append((container, key, now))
        return result

    def change(self) -> str | None:
        """What is no longer as it was, for people; ``None`` if nothing."""
        try:
            for container, key, value in self._items:
                now = container[key]
                if now is not value and not same(now, value):
                    return f"{key!r} was {_short(value)} and is {_short(now)}"
            for cell, value in self._cells:
                now = cell.cell_contents
                if now is not value and not same(now, value):
                    return f"a variable of the enclosing function was {_short(value)} and is {_short(now)}"
            for container, size in self._sizes:
                if len(container) != size:
                    return f"a container has {len(container)} elements instead of {size}"
            for container, keys in self._orders:
                if any(
                    one is not other and not same(one, other)
                    for one, other in zip(container, keys, strict=True)
                ):
                    return "the elements of a dictionary are in another order"
            for namespace, names in self._absent:
                if there := names & namespace.keys():
                    return f"there was no {min(there)!r}, and there is one"
        except (KeyError, IndexError, ValueError) as error:
            return f"{error} is gone"
        return None

    def was_set_up(self) -> bool:
        """Whether what has changed is of the sort that happens once: what was ``None``, or no attribute or entry, is there now.

        So do functions that make a mask or a table in their first call, and modules that wait for it to have parameters.
        """
        changed = False
        for container, key, value in (
            *self._items,
            *((_CellContents(cell), 0, x) for cell, x in self._cells),
        ):
            try:
                now = container[key]
            except (KeyError, IndexError, ValueError):
                continue
            if now is not value and not same(now, value):
                changed = True
                if value is not None and key != "__class__":
                    return False
        for container, size in self._sizes:
            if len(container) != size:
                changed = True
                if not isinstance(container, dict):
                    return False
        return changed or any(names & namespace.keys() for namespace, names in self._absent)

    # Looking through

    def _reading_books(self) -> dict[types.CodeType, str]:
        """Code that reads what optimizers and the like keep, and why that is refused: it changes with each step."""
        result = {}
        for owner, changing in self._books:
            for code in self.codes:
                if read := {*names_in(code)} & changing:
                    result[code] = (
                        f"it reads {owner}.{min(read)}, which changes with each step: only what is outside of a compiled "
                        "function may read and set it"
                    )
        return result

    def _item(self, container: Any, key: Any, depth: int) -> None:
        value = container[key]
        if isinstance(value, TensorBase):
            self.tensors.append((container, key))
            return
        self._items.append((container, key, value))
        self._value(value, depth)

    def _value(self, value: Any, depth: int, *, is_member: bool = False) -> None:
        """Look through a value; functions are called by whoever has them, but for members of classes, which are asked for."""
        if not is_member and isinstance(value, types.FunctionType):
            self._methods.begin(value)
        if isinstance(value, PLAIN) or id(value) in self._seen:
            return
        if depth > _MAX_DEPTH:
            raise Unreadable(
                f"what it reads leads through more than {_MAX_DEPTH} objects, the last a {type(value).__name__}"
            )
        self._seen[id(value)] = value
        if isinstance(value, types.FunctionType):
            self._function(value, depth)
        elif isinstance(value, types.MethodType):
            self._value(value.__func__, depth)
            self._value(value.__self__, depth + 1)
        elif isinstance(value, functools.partial):
            for each in (value.func, value.args, value.keywords):
                self._value(each, depth + 1)
        elif is_module(value) and not isinstance(value, type):
            self._module(value, depth)
        elif isinstance(value, (list, tuple, deque, dict, types.MappingProxyType)):
            self._container(value, depth)
        elif isinstance(value, (set, frozenset)):
            self._contents(value, _elements)
            for each in value:
                self._value(each, depth + 1)
        elif isinstance(value, np.ndarray):
            if value.nbytes > _MAX_ARRAY or value.dtype.hasobject:
                raise Unreadable(
                    "it reads an array of NumPy, whose contents cannot be told apart from later ones"
                )
            self._contents(value, _bytes_of)
        elif isinstance(value, type):
            self._class(value, depth)
        elif isinstance(value, weakref.ref):
            self._item(_Referent(value), 0, depth + 1)
        elif isinstance(
            value, (types.ModuleType, types.BuiltinFunctionType, np.ufunc, attrgetter, itemgetter)
        ):
            return
        else:
            self._object(value, depth)

    def _container(self, value: Any, depth: int) -> None:
        if not isinstance(value, tuple):
            self._sizes.append((value, len(value)))
        keys = range(len(value)) if isinstance(value, (list, tuple, deque)) else list(value)
        if isinstance(value, dict) and len(value) > 1:
            self._orders.append((value, list(value)))
        for key in keys:
            self._item(value, key, depth + 1)
        if type(value) not in CONTAINERS and not isinstance(value, types.MappingProxyType):
            self._instance(value, depth)

    def _contents(self, value: Any, take: Callable[[Any], Any]) -> None:
        """Guard what ``take(value)`` gives."""
        contents = _Contents(value, take)
        self._items.append((contents, 0, contents[0]))

    def _object(self, value: Any, depth: int) -> None:
        inner = attribute_of(value, "__wrapped__")
        if isinstance(inner, (types.FunctionType, types.MethodType)):
            self._value(inner, depth)
        cls = type(value)
        if type(attribute_of(value, "__self__")).__module__.startswith("numpy.random"):
            name = attribute_of(value, "__name__")
            raise Unreadable(f"it calls numpy.random.{name}(), which gives something else each time")
        books: frozenset[str] = frozenset().union(
            *(vars(each).get("keeps_books", ()) for each in cls.__mro__)
        )
        if books:
            self._books.append((cls.__name__, books))
            self._parameters(value)
            return
        if cls.__module__.startswith(_UNCHANGING) or isinstance(value, _DESCRIPTORS):
            return
        attributes = attribute_of(value, "__dict__")
        if attributes is None and (cls.__module__ == "builtins" or not hasattr(cls, "__slots__")):
            raise Unreadable(
                f"it reads a {cls.__name__}, whose contents cannot be told apart from later ones"
            )
        self._instance(value, depth)

    def _parameters(self, optimizer: Any) -> None:
        """Guard which parameters an optimizer has: their gradients are cleared, and they are written, where it is called."""
        groups = attribute_of(optimizer, "param_groups")
        if not isinstance(groups, list):
            return
        self._items.append((_Attributes(optimizer), "param_groups", groups))
        for each in (groups, *(group["params"] for group in groups)):
            self._sizes.append((each, len(each)))
            self._items += [(each, number, element) for number, element in enumerate(each)]

    def _instance(self, value: Any, depth: int) -> None:
        """Attributes of an object, and its class."""
        cls, shown = type(value), _Attributes(value)
        self._items.append((shown, "__class__", cls))
        self._class(cls, depth)
        attributes = attribute_of(value, "__dict__")
        if attributes is not None and self._methods.add(cls, _is_own):
            self._objects.append(attributes)
            self._pending += [(attributes, name, depth + 1) for name in attributes]
        elif attributes is not None:
            self._sizes.append((attributes, len(attributes)))
            for name in list(attributes):
                self._item(attributes, name, depth + 1)
        for each in cls.__mro__:
            slots = vars(each).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if not name.startswith("__") and hasattr(value, name):
                    self._item(shown, name, depth + 1)

    def _module(self, module: Any, depth: int) -> None:
        attributes = vars(module)
        self._sizes.append((attributes, len(attributes)))
        for name in list(attributes):
            if name == "forward":
                self._value(attributes[name], depth + 1)
            else:
                self._item(attributes, name, depth)
        self._items.append((_Attributes(module), "__class__", type(module)))
        self._class(type(module), depth)

    def _class(self, cls: type, depth: int) -> None:
        for each in cls.__mro__:
            if id(each) in self._seen and each is not cls:
                continue
            self._seen[id(each)] = each
            members = vars(each)
            if not _is_own(each):
                self._trusted_class(members, depth)
                continue
            self._sizes.append((members, len(members)))
            self._named.append(members)
            for name, member in members.items():
                if isinstance(member, PLAIN):
                    self._items.append((members, name, member))
                function = function_of(member)
                if function is not None:
                    # Another one may be set in its place.
                    self._items.append((members, name, member))
                    self._value(function, depth + 1, is_member=True)
        if type(cls) is not type:
            self._value(type(cls), depth + 1)

    def _trusted_class(self, members: Mapping[str, Any], depth: int) -> None:
        """A class of this library's, or Python's: of modules what every call depends on, and what may be set in its place."""
        for each in members.get("_calls_depend_on", ()):
            self._value(each, depth + 1)
        forward = members.get("forward")
        if isinstance(forward, types.FunctionType):
            self._items.append((members, "forward", forward))
            self._value(forward, depth + 1)

    def _function(self, function: types.FunctionType, depth: int) -> None:
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            self._value(wrapped, depth)
        if _is_trusted(function.__code__.co_filename):
            # What it calls back is among what it was made of.
            for cell in function.__closure__ or ():
                content = _content(cell)
                if isinstance(content, (types.FunctionType, types.MethodType)) or is_module(content):
                    self._cells.append((cell, content))
                    self._value(content, depth + 1)
            return
        for cell in function.__closure__ or ():
            content = _content(cell)
            if isinstance(content, TensorBase):
                self.tensors.append((_CellContents(cell), 0))
                continue
            self._cells.append((cell, content))
            self._value(content, depth + 1)
        parts = _Attributes(function)
        self._items.append((parts, "__code__", function.__code__))
        for name in ("__defaults__", "__kwdefaults__"):
            self._item(parts, name, depth + 1)
        if function.__dict__:
            self._named.append(function.__dict__)
        self._code(function.__code__, function.__globals__, depth)

    def _attributes_that_matter(self) -> None:
        """Guard attributes of objects, functions and classes that code may read which may run."""
        while True:
            self._named_attributes()
            names = self._methods.names(self.codes)
            ready = [each for each in self._pending if _matters(each[1], names)]
            if not ready:
                break
            self._pending = [each for each in self._pending if not _matters(each[1], names)]
            for attributes, name, depth in ready:
                self._item(attributes, name, depth)
        for attributes in self._objects:
            if names is None:
                self._sizes.append((attributes, len(attributes)))
            else:
                self._absent.append((attributes, names - attributes.keys()))
        self.unexpected = self._methods.left_out(self.codes)

    def _named_attributes(self) -> None:
        """Guard attributes of functions and classes that some code may read: others, such as marks of tests, do not matter."""
        while self._named:
            members = self._named.pop()
            names = {name for code in self.codes for name in names_in(code)}
            for name in sorted((names & members.keys()) - {"_abc_impl"}):
                member = members[name]
                if function_of(member) is None and not _is_descriptor_of_python(member):
                    self._item(members, name, 1)

    def _code(self, code: types.CodeType, namespace: dict[str, Any], depth: int) -> None:
        self.codes.add(code)
        names, imports = _globals_in(code)
        absent = names - namespace.keys()
        if unfollowed := absent & _UNFOLLOWED:
            raise Unreadable(f"it calls {min(unfollowed)}(), and what that reads cannot be told")
        if absent:
            self._absent.append((namespace, absent))
        modules = [
            sys.modules.get(name)
            for each in imports
            for name in (each, f"{namespace.get('__package__')}.{each}")
        ]
        for name in names - absent:
            self._item(namespace, name, depth + 1)
            modules.append(namespace[name])
        for each in modules:
            if isinstance(each, types.ModuleType):
                self._members(each, code.co_names, depth, {id(each)})
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._code(constant, namespace, depth)

    def _members(self, module: types.ModuleType, names: Sequence[str], depth: int, seen: set[int]) -> None:
        """What a module has by the names that some code reads, and the modules among that."""
        members = vars(module)
        is_own = not _is_trusted(getattr(module, "__file__", None) or "<frozen")
        for name in names:
            if name not in members:
                continue
            member = members[name]
            # Calls of what is compiled from Cython are not seen while the function is recorded.
            if module is np and name in _READING:
                raise Unreadable(
                    f"it reads with numpy.{name}(), and what that gives cannot be told apart from later"
                )
            if module is np.random and callable(member):
                raise Unreadable(f"it calls numpy.random.{name}(), which gives something else each time")
            if isinstance(member, types.ModuleType):
                if id(member) not in seen:
                    seen.add(id(member))
                    self._members(member, names, depth, seen)
            elif is_own or isinstance(member, os._Environ):
                self._item(members, name, depth + 1)
            elif isinstance(member, (*PLAIN, types.FunctionType, types.BuiltinFunctionType, type)):
                # Another one may be set in its place, as tests do.
                self._items.append((members, name, member))


def _is_descriptor_of_python(member: Any) -> bool:
    """Whether a member of a class finds attributes in a way of Python's own, as those of named tuples do."""
    cls = type(member)
    return isinstance(member, _DESCRIPTORS) or (
        hasattr(cls, "__get__") and cls.__module__.partition(".")[0] in sys.stdlib_module_names
    )


class _Flat:
    """Readings in the form in which they are compared with the fewest steps of Python: none for each.

    Parameters
    ----------
    items : list of (container, key, value)
        What containers had.
    cells : list of (cell, contents)
        What variables of enclosing functions were.
    sizes : list of (container, int)
        How many elements containers had.
    orders : list of (dict, list)
        In which order dictionaries had their keys.
    absent : list of (dict, frozenset)
        Names that were no globals.
    """

    def __init__(
        self,
        items: list[tuple[Any, Any, Any]],
        cells: list[tuple[types.CellType, Any]],
        sizes: list[tuple[Any, int]],
        orders: list[tuple[dict[Any, Any], list[Any]]],
        absent: list[tuple[dict[str, Any], frozenset[str]]],
    ) -> None:
        grouped: dict[int, list[tuple[Any, Any, Any]]] = {}
        for item in items:
            grouped.setdefault(id(item[0]), []).append(item)
        self._looks, self._containers, self._values = [], [], []
        for members in grouped.values():
            # itemgetter() of one key gives no tuple: that one is compared twice.
            several = members if len(members) > 1 else members * 2
            container, keys = members[0][0], [key for _, key, _ in several]
            is_object = isinstance(container, _Attributes)
            self._looks.append(attrgetter(*keys) if is_object else itemgetter(*keys))
            self._containers.append(container.owner if is_object else container)
            self._values += [value for _, _, value in several]
        self._cells, self._contents = [cell for cell, _ in cells], [content for _, content in cells]
        self._sized, self._sizes = [container for container, _ in sizes], [size for _, size in sizes]
        self._ordered, self._keys = [each for each, _ in orders], [key for _, keys in orders for key in keys]
        self._are_absent = [namespace.keys().isdisjoint for namespace, _ in absent]
        self._absent = [names for _, names in absent]

    def holds(self) -> bool:
        """Whether the same objects are there, and as many."""
        try:
            return (
                all(map(is_, chain.from_iterable(map(call, self._looks, self._containers)), self._values))
                and list(map(len, self._sized)) == self._sizes
                and all(map(is_, map(_cell_contents, self._cells), self._contents))
                and all(map(is_, chain.from_iterable(self._ordered), self._keys))
                and all(map(call, self._are_absent, self._absent))
            )
        except (AttributeError, KeyError, IndexError, ValueError):
            return False


_cell_contents = attrgetter("cell_contents")


class _Attributes:
    """The attributes of an object that are not in a ``__dict__`` as a container."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self.owner, name)
        except AttributeError as error:
            raise KeyError(name) from error

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self.owner, name, value)


class _Referent:
    """What a weak reference refers to, as a container of one element."""

    def __init__(self, reference: weakref.ref[Any]) -> None:
        self._reference = reference

    def __getitem__(self, key: int) -> Any:
        return self._reference()


class _Contents:
    """What ``take(owner)`` gives, as a container of one element: the same object as long as it is equal."""

    def __init__(self, owner: Any, take: Callable[[Any], Any]) -> None:
        self._owner, self._take = owner, take
        self._before = take(owner)

    def __getitem__(self, key: int) -> Any:
        now = self._take(self._owner)
        return self._before if now == self._before else now


@functools.lru_cache(maxsize=4096)
def _globals_in(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """The names of globals that some code reads, and of modules that it imports; attributes may be of the same names."""
    names, imports = set(), set()
    for each in dis.get_instructions(code):
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME", "DELETE_GLOBAL"):
            names.add(each.argval)
        elif each.opname == "IMPORT_NAME":
            imports |= {each.argval, each.argval.partition(".")[0]}
    return frozenset(names), frozenset(imports)


def _matters(name: str, names: frozenset[str] | None) -> bool:
    """Whether code that asks for ``names``, of which ``None`` is any, may ask for an attribute."""
    return names is None or name in names or is_implied(name)


def _elements(values: Any) -> Any:
    """Elements of a set in the order in which it gives them; 1 and True are not the same."""
    return [(type(each), each) for each in values]


def _bytes_of(array: Any) -> Any:
    return array.shape, array.dtype.str, array.tobytes()


class _CellContents:
    """A cell as a container of one element."""

    def __init__(self, cell: types.CellType) -> None:
        self._cell = cell

    def __getitem__(self, key: int) -> Any:
        return self._cell.cell_contents

    def __setitem__(self, key: int, value: Any) -> None:
        self._cell.cell_contents = value


#: Containers whose elements a program may replace, as the function has done.
REPLACEABLE = (list, dict, deque, _CellContents, _Attributes)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def same(now: Any, value: Any) -> bool:
    """Whether two values of plain types are the same to a program: 1, 1.0 and True are not, nor are 0.0 and -0.0."""
    if type(now) is not type(value) or not isinstance(value, PLAIN):
        return False
    if is_signed_zero(value):
        return str(now) == str(value)
    return bool(now == value or (now != now and value != value))


def is_signed_zero(value: Any) -> bool:
    """Whether another value is equal to ``value`` and not the same: 0.0, -0.0, or such a complex number."""
    return isinstance(value, (float, complex)) and not value


def _short(value: Any) -> str:
    # The elements of a tensor would be waited for.
    text = "a tensor" if isinstance(value, TensorBase) else repr(value)
    return text if len(text) <= 40 else f"a {type(value).__name__}"


@contextmanager
def watched(readings: Readings, refuse: Callable[[str, types.FrameType], None]) -> Iterator[None]:
    """Inside, ``refuse(reason, frame)`` is called for code that runs and was not looked through, in this thread."""
    codes, refused, unexpected = readings.codes, readings.refused, readings.unexpected

    def note(frame: types.FrameType, event: str, argument: Any) -> None:
        if event == "call":
            code = frame.f_code
            if _is_trusted(code.co_filename):
                caller = frame.f_back
                module = frame.f_globals.get("__name__", "")
                if module in _CHANGING and caller is not None and caller.f_code in codes:
                    refuse(
                        f"it calls {module}.{code.co_name}(), which gives something else each time", caller
                    )
            elif code not in codes and not _is_incidental(frame):
                refuse(f"it calls {code.co_qualname}(), and what that reads cannot be told", frame)
            elif code in unexpected:
                refuse(f"it calls {code.co_qualname}(), which no code that it reads names", frame)
            elif code in refused:
                refuse(refused[code], frame)
        elif event == "c_call" and frame.f_code in codes:
            owner = getattr(argument, "__self__", None)
            if isinstance(owner, type) and owner.__module__ == "datetime" and argument.__name__ in _OF_TODAY:
                refuse(f"it calls {argument.__qualname__}(), which gives something else each time", frame)
            module = getattr(argument, "__module__", None) or type(owner).__module__
            if str(module).startswith(_CHANGING) or argument is input or argument is open:
                refuse(
                    f"it calls {getattr(argument, '__name__', argument)}(), which gives something else each time",
                    frame,
                )

    before, collects = sys.getprofile(), gc.isenabled()
    # What a collection of garbage finalizes has nothing to do with the function.
    gc.disable()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
