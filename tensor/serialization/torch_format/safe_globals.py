"""Classes and functions that the user allows files of ``torch.save`` to call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Self

#: Modules of which nothing may be called for a file, whatever the user allowed.
_BLOCKED = frozenset(("sys", "os", "posix", "nt", "subprocess", "importlib", "ctypes", "runpy"))
_BLOCKED_BUILTINS = frozenset(
    ("__import__", "breakpoint", "compile", "delattr", "eval", "exec", "getattr", "open", "setattr")
)

_allowed: dict[str, Any] = {}


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Allow files of ``torch.save`` to call classes and functions, which :func:`~tensor.load` refuses otherwise.

    Allow only what does no harm whatever its arguments are: the file chooses them, and the attributes of the objects, too.

    Parameters
    ----------
    safe_globals : iterable
        Classes and functions; or pairs of one and the name that files have for it, such as ``"their_module.Config"``.

    Raises
    ------
    TypeError
        For something else. Nothing is allowed then.

    Examples
    --------
    >>> import fractions
    >>> tensor.serialization.add_safe_globals([fractions.Fraction])
    >>> tensor.serialization.get_safe_globals()
    [<class 'fractions.Fraction'>]
    >>> tensor.serialization.clear_safe_globals()
    """
    _allowed.update(_named(safe_globals))


def get_safe_globals() -> list[Any]:
    """What is allowed by :func:`add_safe_globals` now: classes, functions, and pairs with names.

    The list is a copy; a pair is ``(object, "module.name")``, for what was allowed under another name.
    """
    return [value if name == _name_of(value) else (value, name) for name, value in _allowed.items()]


def clear_safe_globals() -> None:
    """Allow nothing any more of what :func:`add_safe_globals` was given."""
    _allowed.clear()


class safe_globals:  # noqa: N801 - PyTorch's name
    """Context manager in which files may call classes and functions; see :func:`add_safe_globals`.

    Parameters
    ----------
    safe_globals : iterable
        Classes, functions, and pairs of one and a name.

    Raises
    ------
    TypeError
        For something else.
    """

    def __init__(self, safe_globals: Iterable[Any]) -> None:
        self._added = _named(safe_globals)
        self._former: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self._former = {name: _allowed[name] for name in self._added if name in _allowed}
        _allowed.update(self._added)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for name in self._added:
            _allowed.pop(name, None)
        _allowed.update(self._former)


def allowed(name: str) -> Any:
    """What the user allows under ``name``, ``None`` for nothing."""
    return _allowed.get(name)


def is_blocked(module: str, name: str) -> bool:
    """Whether no one can allow this name."""
    if module.partition(".")[0] in _BLOCKED:
        return True
    return module in ("builtins", "__builtin__") and name.partition(".")[0] in _BLOCKED_BUILTINS


def _named(values: Iterable[Any]) -> dict[str, Any]:
    result = {}
    for value in values:
        if isinstance(value, tuple):
            if len(value) != 2 or not callable(value[0]) or type(value[1]) is not str:
                raise TypeError(
                    f"add_safe_globals() takes classes, functions, and pairs of one and its name in files, not {value!r}"
                )
            result[value[1]] = value[0]
        elif callable(value) and _name_of(value) is not None:
            result[_name_of(value)] = value
        else:
            raise TypeError(
                f"add_safe_globals() takes a list of classes and functions, and found {value!r} in it"
            )
    return result


def _name_of(value: Any) -> Any:
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    return f"{module}.{name}" if type(module) is str and type(name) is str else None
