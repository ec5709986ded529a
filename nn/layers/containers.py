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
    number = operator.index(index)
    if not -length <= number < length:
        raise IndexError(f"index {number} is out of range")
    return number % length


def check_module(value: Any) -> None:
    """Raise TypeError unless ``value`` is a module, or ``None``."""
    if value is not None and not isinstance(value, Module):
        raise TypeError(f"{type(value).__name__} is not a Module subclass")


def check_iterable(values: Any, name: str, expected: str = "an iterable") -> None:
    """Raise TypeError unless ``values`` is iterable."""
    if not isinstance(values, Iterable):
        raise TypeError(f"{name} should be called with {expected}, but got {type(values).__name__}")


class _Row(Module):
    """Base class of :class:`Sequential` and :class:`ModuleList`: modules by position."""

    def _names(self) -> list[str]:
        return list(self._modules)

    def _set_modules(self, modules: Iterable[Any]) -> None:
        """Replace the modules, which are named by their positions."""
        self._modules = {str(number): module for number, module in enumerate(modules)}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._names()[position(idx, len(self))], module)

    def __delitem__(self, idx: int | slice) -> None:
        remaining = list(self._modules.items())
        if isinstance(idx, slice):
            del remaining[idx]
        else:
            del remaining[position(idx, len(self))]
        self._set_modules(module for _, module in remaining)

    def append(self, module: Module) -> Self:
        """Add a module at the end.

        Raises
        ------
        TypeError
            If it is not a Module.
        """
        self.add_module(str(len(self)), module)
        return self

    def _added(self, modules: Iterable[Any]) -> Self:
        listed = list(modules)
        for module in listed:
            check_module(module)
        for module in listed:
            self.append(module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Remove the module at the index ``key``, or those of a slice, and return it.

        Raises
        ------
        IndexError
            If ``key`` is out of range.
        """
        removed = self[key]
        del self[key]
        return removed

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return self._part(idx)
        return self._modules[self._names()[position(idx, len(self))]]

    def _part(self, idx: slice) -> Self:
        raise NotImplementedError

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]


class Sequential(_Row):
    """Chain of modules: each is called with the output of the one before it.

    Parameters
    ----------
    *args : Module or OrderedDict
        Modules, or one ``OrderedDict`` of names and modules.

    Examples
    --------
    >>> model = nn.Sequential(nn.Conv2d(1, 20, 5), nn.ReLU(), nn.Conv2d(20, 64, 5), nn.ReLU())
    >>> model[0]
    Conv2d(1, 20, kernel_size=(5, 5), stride=(1, 1))
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
        """Call all modules in turn; without modules the input is returned.

        Parameters
        ----------
        input
            What the first module takes.

        Returns
        -------
        object
            What the last module returns. Errors are those of the modules, and a TypeError where one does not take what the one
            before it returned.
        """
        for module in self._modules.values():
            input = module(input)
        return input

    def _part(self, idx: slice) -> Self:
        return type(self)(OrderedDict(list(self._modules.items())[idx]))

    def insert(self, index: int, module: Module) -> Self:
        """Insert a module before position ``index``.

        Raises
        ------
        TypeError
            If it is not a Module.
        IndexError
            If ``index`` is out of range.
        """
        if not isinstance(module, Module):
            raise TypeError(f"module should be of type Module, got {type(module).__name__}")
        length = len(self)
        if not -length <= index <= length:
            raise IndexError(f"Index out of range: {index}")
        row = list(self)
        row.insert(index, module)
        self._set_modules(row)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Add the modules of ``sequential``, an iterable, at the end.

        Raises
        ------
        TypeError
            If one of them is not a Module; then none is added.
        """
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
    """List of modules, which registers them so that their parameters are the model's; it cannot be called itself.

    Parameters
    ----------
    modules : iterable of Module, optional
        Initial content.

    Examples
    --------
    >>> model = nn.Module()
    >>> model.layers = nn.ModuleList([nn.Linear(10, 10) for _ in range(3)])
    >>> len(list(model.parameters()))
    6
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
        """Insert a module before position ``index``.

        Raises
        ------
        TypeError
            If it is not a Module.
        """
        check_module(module)
        row = list(self)
        row.insert(index, module)
        self._set_modules(row)

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end.

        Raises
        ------
        TypeError
            If ``modules`` is not iterable, or one of them is not a Module; then none is added.
        """
        check_iterable(modules, "ModuleList.extend")
        return self._added(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __repr__(self) -> str:
        """Text in which consecutive equal modules are written once."""
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
    """Dictionary of modules, which registers them so that their parameters are the model's; it cannot be called itself.

    Parameters
    ----------
    modules : mapping or iterable of pairs, optional
        Initial content.

    Examples
    --------
    >>> activations = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
    >>> activations["relu"](tensor.tensor([-1.0, 1.0]))
    tensor([0., 1.])
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
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove the module of a key and return it.

        Raises
        ------
        KeyError
            If there is no such key.
        """
        module = self[key]
        del self[key]
        return module

    def keys(self) -> Iterable[str]:
        """The keys, strings, in the order of insertion.

        The view follows later changes of the dictionary.
        """
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Module]]:
        """Pairs of key and module, in the order of insertion.

        The view follows later changes of the dictionary.
        """
        return self._modules.items()

    def values(self) -> Iterable[Module]:
        """The modules, in the order of insertion.

        The view follows later changes of the dictionary.
        """
        return self._modules.values()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add the modules of a mapping or of pairs of key and module, replacing those of equal keys.

        Raises
        ------
        TypeError, ValueError
            If ``modules`` is neither.
        """
        for key, module in pairs_of(modules, "ModuleDict"):
            self[key] = module


def pairs_of(values: Any, name: str) -> list[tuple[Any, Any]]:
    """Pairs of a mapping or an iterable of pairs.

    Raises
    ------
    TypeError, ValueError
        If ``values`` is neither.
    """
    check_iterable(values, f"{name}.update", "an iterable of key/value pairs")
    if isinstance(values, Mapping) or hasattr(values, "items"):
        return list(values.items())
    pairs = []
    for number, pair in enumerate(values):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{name} update sequence element #{number} should be Iterable; is {type(pair).__name__}"
            )
        items = list(pair)
        if len(items) != 2:
            raise ValueError(
                f"{name} update sequence element #{number} has length {len(items)}; 2 is required"
            )
        pairs.append((items[0], items[1]))
    return pairs


def _as_parameter(value: Any) -> Any:
    """A tensor as a parameter, anything else as it is."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _line(key: Any, value: Any, type_name: str) -> str:
    if not isinstance(value, Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    size = "x".join(str(each) for each in value.shape)
    class_name = "Parameter" if isinstance(value, Parameter) else "Tensor"
    where = f" (GPU {value.get_device()})" if value.is_cuda else ""
    return f"  ({key}): {class_name} containing: [{type_name} of size {size}{where}]"


class ParameterList(Module):
    """List of values; the tensors among them become parameters, which are registered.

    Parameters
    ----------
    values : iterable, optional
        Initial content.

    Examples
    --------
    >>> weights = nn.ParameterList([tensor.randn(10, 10) for _ in range(3)])
    >>> len(list(weights.parameters()))
    3
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
        setattr(self, str(position(idx, self._size)), _as_parameter(param))

    def append(self, value: Any) -> Self:
        """Add ``value`` at the end; a tensor becomes a parameter.

        Returns
        -------
        ParameterList
            The list itself.
        """
        setattr(self, str(self._size), _as_parameter(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add values at the end; tensors become parameters.

        Raises
        ------
        TypeError
            If ``values`` is not iterable.
        """
        check_iterable(values, "ParameterList.extend")
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, parameters: Iterable[Any]) -> Self:
        return self.extend(parameters)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise RuntimeError: it is only a container."""
        raise RuntimeError("ParameterList should not be called.")

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: one line for each value."""
        return "\n".join(_line(key, each, str(getattr(each, "dtype", ""))) for key, each in enumerate(self))


class ParameterDict(Module):
    """Dictionary of values; the tensors among them become parameters, which are registered.

    Parameters
    ----------
    parameters : mapping or iterable of pairs, optional
        Initial content. The entries of a plain mapping are sorted by key, those of an ``OrderedDict`` or of pairs are
        not.
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
        setattr(self, self._attribute(key), _as_parameter(value))
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
        """A new dictionary of the same values.

        The copy has the same parameters, not copies of them, in the same order.
        """
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, which is set to ``default`` first if it is missing.

        A tensor becomes a parameter.

        Raises
        ------
        TypeError
            If ``key`` is not a string.
        """
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all values."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove the value of a key and return it.

        Raises
        ------
        AttributeError
            If there is no such key.
        """
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the entry that was added last and return it as (key, value).

        Raises
        ------
        KeyError
            If the dictionary is empty.
        """
        key = next(reversed(self), None)
        if key is None:
            raise KeyError("popitem(): the ParameterDict is empty")
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, or ``default`` if it is missing.

        Nothing is added. Keys are strings; ``default`` is returned as it is, and a tensor does not become a parameter.
        """
        if key not in self:
            return default
        return self[key]

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dictionary with ``default`` for each of ``keys``.

        The dictionary that it is called on stays as it is. A tensor becomes a new parameter for each key, with the same memory.

        Raises
        ------
        TypeError
            If a key is not a string.
        """
        return ParameterDict([(key, default) for key in keys])

    def keys(self) -> Iterable[str]:
        """The keys, strings, in the order of insertion.

        The view follows later changes of the dictionary.
        """
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Iterate over pairs of key and value, in the order of insertion.

        Values are parameters, or what is no tensor as it is.
        """
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """Iterate over the values, in the order of insertion.

        They are parameters, or what is no tensor as it is.
        """
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Add the values of a mapping or of pairs of key and value, replacing those of equal keys.

        Raises
        ------
        TypeError, ValueError
            If ``parameters`` is neither, or a key is not a string.
        """
        pairs = pairs_of(parameters, "ParameterDict")
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs.sort(key=lambda pair: str(pair[0]))
        for key, _ in pairs:
            self._attribute(key)
        for key, value in pairs:
            self[key] = value

    def __or__(self, other: Any) -> ParameterDict:
        merged = self.copy()
        merged.update(other)
        return merged

    def __ror__(self, other: Any) -> Any:
        merged = other.copy()
        merged.update(dict(self.items()))
        return merged

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def __call__(self, input: Any) -> Any:
        """Raise RuntimeError: it is only a container."""
        raise RuntimeError("ParameterDict should not be called.")

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: one line for each value."""
        return "\n".join(
            _line(key, value, value.type() if isinstance(value, Tensor) else "")
            for key, value in self.items()
        )
