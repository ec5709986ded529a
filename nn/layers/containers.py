"""Containers of modules and of parameters: Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from __future__ import annotations

import itertools
import operator
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, cast, overload

from nn.module.module import Module, indented
from nn.parameter import Parameter
from tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator


def position(index: Any, length: int) -> int:
    """``index`` counted from the start.

    Raises
    ------
    IndexError
        If there is no such position.
    """
    found = operator.index(index)
    if not -length <= found < length:
        raise IndexError(f"index {found} is out of range")
    return found % length


def check_module(value: Any) -> None:
    """Raise TypeError unless ``value`` is a module, or ``None``."""
    if value is not None and not isinstance(value, Module):
        raise TypeError(f"{type(value).__name__} is not a Module subclass")


def check_iterable(values: Any, name: str, expected: str = "an iterable") -> None:
    """Raise TypeError unless ``values`` can be gone through."""
    if not isinstance(values, Iterable):
        raise TypeError(f"{name} should be called with {expected}, but got {type(values).__name__}")


class _Row(Module):
    """What a :class:`Sequential` and a :class:`ModuleList` have in common: modules by position."""

    def _names(self) -> list[str]:
        return list(self._modules)

    def _renew(self, modules: Iterable[Any]) -> None:
        """Hold these modules, named by their positions."""
        self._modules = {str(number): module for number, module in enumerate(modules)}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._names()[position(idx, len(self))], module)

    def __delitem__(self, idx: int | slice) -> None:
        kept = list(self._modules.items())
        if isinstance(idx, slice):
            del kept[idx]
        else:
            del kept[position(idx, len(self))]
        self._renew(module for _, module in kept)

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def _added(self, modules: Iterable[Any]) -> Self:
        given = list(modules)
        for module in given:
            check_module(module)
        for module in given:
            self.append(module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Take a module, or a part of the row, out and return it."""
        found = self[key]
        del self[key]
        return found

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return self._part(idx)
        return self._modules[self._names()[position(idx, len(self))]]

    def _part(self, idx: slice) -> Self:
        raise NotImplementedError

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]


class Sequential(_Row):
    """Modules in a row: each is called with what the one before it returned.

    Parameters
    ----------
    *args : Module or OrderedDict
        Modules, or one ``OrderedDict`` of them by name.
    """

    @overload
    def __init__(self, *args: Module) -> None: ...
    @overload
    def __init__(self, arg: OrderedDict[str, Module], /) -> None: ...
    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = len(args) == 1 and isinstance(args[0], OrderedDict)
        modules = args[0].items() if named else ((str(number), each) for number, each in enumerate(args))
        for name, module in modules:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        """What the last module returns; ``input`` where there are no modules."""
        for module in self._modules.values():
            input = module(input)
        return input

    def _part(self, idx: slice) -> Self:
        return type(self)(OrderedDict(list(self._modules.items())[idx]))

    def insert(self, index: int, module: Module) -> Self:
        """Add a module before the position ``index``.

        Raises
        ------
        TypeError
            If it is no module.
        IndexError
            If there is no such position.
        """
        if not isinstance(module, Module):
            raise TypeError(f"module should be of type Module, got {type(module).__name__}")
        length = len(self)
        if not -length <= index <= length:
            raise IndexError(f"Index out of range: {index}")
        row = list(self)
        row.insert(index, module)
        self._renew(row)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Add modules at the end."""
        return self._added(sequential)

    def __add__(self, other: Sequential) -> Sequential:
        _check_sequential(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Self:
        _check_sequential(other)
        return self._added(other)

    def __mul__(self, other: int) -> Sequential:
        """The same modules ``other`` times in a row."""
        _check_factor(other)
        return Sequential(*itertools.chain(*[list(self)] * other))

    def __rmul__(self, other: int) -> Sequential:
        return self * other

    def __imul__(self, other: int) -> Self:
        _check_factor(other)
        return self._added(itertools.chain(*[list(self)] * (other - 1)))


def _check_sequential(other: Any) -> None:
    if not isinstance(other, Sequential):
        raise ValueError(
            f"add operator supports only objects of Sequential class, but {type(other)} is given."
        )


def _check_factor(factor: Any) -> None:
    if not isinstance(factor, int):
        raise TypeError(f"unsupported operand type(s) for *: {Sequential} and {type(factor)}")
    if factor <= 0:
        raise ValueError(f"Non-positive multiplication factor {factor} for {Sequential}")


class ModuleList(_Row):
    """Modules in a list, which registers them; to be called one by one.

    Parameters
    ----------
    modules
        To begin with.
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, idx: Any) -> Any:
        # A position is a name here, which spares going through all names.
        return self._part(idx) if isinstance(idx, slice) else self._modules[str(position(idx, len(self)))]

    def _part(self, idx: slice) -> Self:
        return type(self)(list(self)[idx])

    def insert(self, index: int, module: Module) -> None:
        """Add a module before the position ``index``."""
        check_module(module)
        row = list(self)
        row.insert(index, module)
        self._renew(row)

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end.

        Raises
        ------
        TypeError
            If there is something else among them; then none is added.
        """
        check_iterable(modules, "ModuleList.extend")
        return self._added(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __repr__(self) -> str:
        """Text in which equal modules in a row stand once."""
        lines = []
        first = 0
        for text, group in itertools.groupby(repr(module) for module in self):
            count = len(list(group))
            if count == 1:
                lines.append(f"({first}): {indented(text)}")
            else:
                lines.append(f"({first}-{first + count - 1}): {count} x {indented(text)}")
            first += count
        if not lines:
            return f"{self._get_name()}()"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """Modules by name, which it registers; to be called one by one.

    Parameters
    ----------
    modules
        To begin with: a mapping, or pairs.
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return cast("Module", self._modules[key])

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Take all modules out."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Take a module out and return it."""
        found = self[key]
        del self[key]
        return found

    def keys(self) -> Iterable[str]:
        """Names."""
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Module]]:
        """Names and modules."""
        return self._modules.items()

    def values(self) -> Iterable[Module]:
        """Modules."""
        return self._modules.values()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add the modules of a mapping, or pairs of name and module; former ones of the same name go.

        Raises
        ------
        TypeError, ValueError
            If it is neither.
        """
        for key, module in pairs_of(modules, "ModuleDict"):
            self[key] = module


def pairs_of(given: Any, name: str) -> list[tuple[Any, Any]]:
    """Pairs of a mapping or an iterable of pairs.

    Raises
    ------
    TypeError, ValueError
        If ``given`` is neither.
    """
    check_iterable(given, f"{name}.update", "an iterable of key/value pairs")
    if isinstance(given, Mapping) or hasattr(given, "items"):
        return list(given.items())
    pairs = []
    for number, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{name} update sequence element #{number} should be Iterable; is {type(pair).__name__}"
            )
        values = list(pair)
        if len(values) != 2:
            raise ValueError(
                f"{name} update sequence element #{number} has length {len(values)}; 2 is required"
            )
        pairs.append((values[0], values[1]))
    return pairs


def _kept(value: Any) -> Any:
    """A tensor as a parameter, anything else as it is."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _line(key: Any, value: Any, kind: str) -> str:
    if not isinstance(value, Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    size = "x".join(str(each) for each in value.shape)
    what = "Parameter" if isinstance(value, Parameter) else "Tensor"
    where = f" (GPU {value.get_device()})" if value.is_cuda else ""
    return f"  ({key}): {what} containing: [{kind} of size {size}{where}]"


class ParameterList(Module):
    """Values in a list; the tensors among them are registered as parameters.

    Parameters
    ----------
    values
        To begin with. Tensors become parameters.
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, str(number)) for number in range(self._size))

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)([getattr(self, str(number)) for number in range(*idx.indices(self._size))])
        return getattr(self, str(position(idx, self._size)))

    def __setitem__(self, idx: int, param: Any) -> None:
        setattr(self, str(position(idx, self._size)), _kept(param))

    def append(self, value: Any) -> Self:
        """Add a value at the end."""
        setattr(self, str(self._size), _kept(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add values at the end."""
        check_iterable(values, "ParameterList.extend")
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, parameters: Iterable[Any]) -> Self:
        return self.extend(parameters)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise RuntimeError."""
        raise RuntimeError("ParameterList should not be called.")

    def extra_repr(self) -> str:
        """One line for each value."""
        return "\n".join(_line(key, each, str(getattr(each, "dtype", ""))) for key, each in enumerate(self))


class ParameterDict(Module):
    """Values by name; the tensors among them are registered as parameters.

    Parameters
    ----------
    parameters
        To begin with: a mapping, or pairs. Tensors become parameters. Those of a plain mapping are sorted by
        name.
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _attribute(self, key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(
                f"Index given to ParameterDict cannot be used as a key as it is not a string (type is "
                f"'{type(key).__name__}')."
            )
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._attribute(key))

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, self._attribute(key), _kept(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """A new one with the same values."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, after setting it to ``default`` if there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Take all values out."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Take a value out and return it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Take the value out that was put in last, and return it with its name."""
        key = next(reversed(self), None)
        if key is None:
            raise KeyError("popitem(): the ParameterDict is empty")
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, or ``default``."""
        if key not in self:
            return default
        return self[key]

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new one with ``default`` for each of ``keys``."""
        return ParameterDict([(key, default) for key in keys])

    def keys(self) -> Iterable[str]:
        """Names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and values."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """Values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Add the values of a mapping, or pairs of name and value; former ones of the same name go."""
        pairs = pairs_of(parameters, "ParameterDict")
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs.sort(key=lambda pair: str(pair[0]))
        for key, _ in pairs:
            self._attribute(key)
        for key, value in pairs:
            self[key] = value

    def __or__(self, other: Any) -> ParameterDict:
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other: Any) -> Any:
        made = other.copy()
        made.update(dict(self.items()))
        return made

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def __call__(self, input: Any) -> Any:
        """Raise RuntimeError."""
        raise RuntimeError("ParameterDict should not be called.")

    def extra_repr(self) -> str:
        """One line for each value."""
        return "\n".join(
            _line(key, value, value.type() if isinstance(value, Tensor) else "")
            for key, value in self.items()
        )
