"""Names of ``torch.jit``. Programs are not scripted or traced: they run as Python, and so do their parts.

``script`` and ``trace`` return what they get, and say so once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from tensor.core.names.absent import hints as _hints
from tensor.core.warning import warn_caller

# The module takes the place of the feature of `__future__`, which has its name.
import tensor.jit.annotations as annotations  # type: ignore[assignment]  # isort: skip  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Final",
    "ScriptFunction",
    "ScriptModule",
    "annotate",
    "export",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "optimize_for_inference",
    "save",
    "script",
    "script_if_tracing",
    "trace",
    "trace_module",
    "unused",
]

_isinstance = isinstance


class _Notice:
    """What is said once in a process, by whichever function is first."""

    def __init__(self) -> None:
        self.is_given = False

    def give(self, function: str) -> None:
        if not self.is_given:
            self.is_given = True
            warn_caller(
                f"tensor.jit.{function}() returns what it is given, as do the other functions of tensor.jit: "
                "nothing is scripted or traced here, and the program runs as Python"
            )


_notice = _Notice()


class ScriptModule:
    """The class of scripted modules, of which there are none: ``isinstance(module, ScriptModule)`` is False.

    Raises
    ------
    RuntimeError
        Whenever one is made; derive from ``nn.Module``.
    """

    def __init__(self) -> None:
        raise RuntimeError("there are no scripted modules here: derive the class from nn.Module")


class ScriptFunction:
    """The class of scripted functions, of which there are none: ``isinstance(function, ScriptFunction)`` is False.

    Raises
    ------
    RuntimeError
        Whenever one is made.
    """

    def __init__(self) -> None:
        raise RuntimeError("there are no scripted functions here: call the function itself")


def script(
    obj: Any,
    optimize: None = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """``obj`` itself: a module, a function or a class. Warns at the first call of a process.

    ``optimize`` and ``example_inputs`` change nothing.

    >>> @tensor.jit.script  # doctest: +SKIP
    ... def double(x):
    ...     return 2 * x
    """
    _notice.give("script")
    return obj


def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: None = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: dict[str, Any] | None = None,
    _store_inputs: bool = True,
) -> Any:
    """``func`` itself, a module or a function, which is not called. Warns at the first call of a process.

    So branches of Python are taken anew in each call, where a trace repeats those of its example. ``example_inputs``,
    ``example_kwarg_inputs``, ``optimize``, ``check_trace``, ``check_inputs``, ``check_tolerance`` and ``strict``
    change nothing.
    """
    _notice.give("trace")
    return func


def trace_module(mod: Any, inputs: dict[str, Any], *options: Any, **named: Any) -> Any:
    """``mod`` itself, none of whose methods is called with ``inputs``. Warns at the first call of a process.

    Further arguments are those of PyTorch, and not looked at.
    """
    _notice.give("trace_module")
    return mod


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` itself: nothing is traced.

    For programs that are traced by PyTorch too, where it compiles ``fn`` then.
    """
    return fn


#: By the name that packages use.
_script_if_tracing = script_if_tracing


def _overload_method(func: Callable[..., Any]) -> Callable[..., Any]:
    """``func`` itself, which declares types for a compiler; the method that follows takes its name."""
    return func


def freeze(mod: Any, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> Any:
    """``mod`` itself; ``preserved_attrs`` and ``optimize_numerics`` change nothing.

    Weights stay parameters, and the module can be trained as before.
    """
    return mod


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> Any:
    """``mod`` itself; ``other_methods`` changes nothing.

    For programs that are scripted by PyTorch too, where a compiled module comes back.
    """
    return mod


def ignore(drop: Any = False, **options: Any) -> Any:
    """Decorator that leaves a method as it is, with ``@ignore`` and with ``@ignore(drop=True)``.

    For programs that are scripted by PyTorch too, where the method stays Python.
    """
    return drop if callable(drop) else _as_it_is


def unused(fn: Any) -> Any:
    """``fn`` itself, which can be called as without this decorator.

    For programs that are scripted by PyTorch too, where the method raises when it is called.
    """
    return fn


def export(fn: Any) -> Any:
    """``fn`` itself.

    For programs that are scripted by PyTorch too, where it names a method to compile.
    """
    return fn


def interface(obj: Any) -> Any:
    """``obj`` itself, a class.

    For programs that are scripted by PyTorch too, where it declares methods of modules.
    """
    return obj


def _as_it_is(fn: Any) -> Any:
    return fn


def annotate(the_type: Any, the_value: Any) -> Any:
    """``the_value``, whatever ``the_type`` is.

    For programs that are scripted by PyTorch too, which takes the type from it. Nothing is converted or checked.
    """
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Python's ``isinstance(obj, target_type)``.

    Raises TypeError as ``isinstance`` does, also for parametrized types such as ``list[int]``.
    """
    return _isinstance(obj, target_type)


def is_scripting() -> bool:
    """False: nothing is scripted."""
    return False


def is_tracing() -> bool:
    """False: nothing is traced."""
    return False


def save(m: Any, f: Any, _extra_files: Any = None) -> NoReturn:
    """Refuse to write a scripted module ``m`` to ``f``.

    Raises
    ------
    RuntimeError
        Always: there are no scripted modules.
    """
    raise RuntimeError(
        "tensor.jit.save(): there are no scripted modules here; save the state with "
        "tensor.save(module.state_dict(), f), and make the module anew to load it"
    )


def load(
    f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False
) -> NoReturn:
    """Refuse to read a scripted module from ``f``, to whichever ``map_location``.

    Raises
    ------
    RuntimeError
        Always: such a file holds a program, and none is run from a file.
    """
    raise RuntimeError(
        "tensor.jit.load(): a scripted module is a program, which is not run from a file; make the module in Python "
        "and load its state dict"
    )


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
