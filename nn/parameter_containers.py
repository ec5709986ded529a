"""Modules that hold parameters: in a list, by name."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from tensor import Tensor

from .containers import check_iterable, pairs_of, position
from .module import Module
from .parameter import Parameter

if TYPE_CHECKING:
    from collections.abc import Iterator


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
