"""``compile`` and what goes with it: the names of ``torch.compiler``. Nothing is compiled yet.

A program that compiles its model runs as if it had not: each operation is launched when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.names.absent import hints as _hints

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "nested_compile_region",
    "reset",
    "set_stance",
]

_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """``model`` itself, a module or a function, until there is compilation; without it, a decorator that does the same.

    A module stays what it is: PyTorch wraps it, so that the names in the state dict of its wrapper begin with
    ``_orig_mod.``, and here they do not. ``mode`` and ``options`` are checked as PyTorch checks them. ``fullgraph``,
    ``dynamic``, ``backend``, ``name``, ``disable``, ``recompile_limit``, ``isolate_recompiles`` and ``shapes_spec``
    are taken, and change nothing.

    >>> @tensor.compile
    ... def double(x):
    ...     return 2 * x
    >>> double(tensor.ones(2))
    tensor([2., 2.])

    Raises
    ------
    RuntimeError
        If both ``mode`` and ``options`` are given, or for an unknown mode.
    TypeError
        If ``model`` cannot be called.
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    return _same if model is None else _same(model)


def _same(model: Any) -> Any:
    if not callable(model):
        raise TypeError(f"compile() takes a module or a function, but {type(model).__name__} is provided")
    return model


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """``fn`` itself, which is not compiled anyway; without it, a decorator that does the same.

    ``recursive`` and ``reason`` change nothing. Raises as :func:`compile`.
    """
    return _same if fn is None else _same(fn)


def allow_in_graph(fn: Any) -> Any:
    """``fn`` itself, a function or several in a list or tuple: there is no graph.

    For programs that are also compiled by PyTorch. Nothing is checked.
    """
    return fn


def assume_constant_result(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` itself: its result is computed in each call.

    For programs that are also compiled by PyTorch, where the result of the first call is kept.
    """
    return fn


def is_compiling() -> bool:
    """False: nothing is being compiled."""
    return False


def is_dynamo_compiling() -> bool:
    """False: nothing is being compiled."""
    return False


def is_exporting() -> bool:
    """False: nothing is being exported."""
    return False


def list_backends(exclude_tags: tuple[str, ...] = ("debug", "experimental")) -> list[str]:
    """Backends of :func:`compile`: none, whatever ``exclude_tags`` leaves out.

    Always an empty list of strings.
    """
    return []


def reset() -> None:
    """Forget what was compiled, which is nothing."""


def cudagraph_mark_step_begin() -> None:
    """Say that an iteration begins, which nothing here needs to know."""


class set_stance:  # noqa: N801 - PyTorch's name
    """Accept how compiled functions would behave, by a call, with ``with`` or as a decorator: they run as Python.

    Parameters
    ----------
    stance : str
        ``"default"``, ``"force_eager"``, ``"eager_on_recompile"``, ``"eager_then_compile"``, ``"fail_on_recompile"`` or
        ``"aot_eager_then_compile"``.
    skip_guard_eval_unsafe : bool
        Changes nothing.
    force_backend : str or callable, optional
        Changes nothing.

    Raises
    ------
    RuntimeError
        For any other ``stance``.
    """

    _STANCES = (
        "default",
        "force_eager",
        "eager_on_recompile",
        "fail_on_recompile",
        "eager_then_compile",
        "aot_eager_then_compile",
    )

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        if stance not in self._STANCES:
            raise RuntimeError(f"invalid torch.compile stance {stance!r}, expected one of {self._STANCES}")

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return fn

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


def nested_compile_region(fn: Any = None, **options: Any) -> Any:
    """``fn`` itself, or a decorator that returns it: nothing is compiled, whatever the ``options``.

    Usable as ``@nested_compile_region`` and ``@nested_compile_region(...)``.
    """
    return fn if fn is not None else lambda function: function


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
