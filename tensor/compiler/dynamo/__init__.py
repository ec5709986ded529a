"""Names of ``torch._dynamo``, which programs call beside ``torch.compile``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.compilation.compiled import refuse
from tensor.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    reset,
    set_stance,
)
from tensor.core.names.absent import hints as _hints

from . import config, utils

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "disallow_in_graph",
    "graph_break",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "reset",
    "set_stance",
    "utils",
]


def disallow_in_graph(fn: Any) -> Any:
    """As :func:`disable`: a function that does what ``fn`` does.

    What calls it is not compiled. Raises TypeError if ``fn`` cannot be called.
    """
    return disable(fn)


def graph_break(msg: str = "") -> None:
    """Have the function that is being compiled run as it is, with ``msg`` in the warning that says so.

    With ``fullgraph=True`` its call raises CompilationError. In other functions it does nothing.
    """
    refuse(f"it calls graph_break({msg!r})" if msg else "it calls graph_break()")


def mark_dynamic(t: Any, index: Any, **options: Any) -> None:
    """Do nothing: each shape is compiled for itself.

    The tensor ``t``, its dimension ``index`` and ``options`` are taken.
    """


def mark_static(t: Any, index: Any = None) -> None:
    """Do nothing: each shape is compiled for itself.

    The tensor ``t`` and its dimension ``index`` are taken.
    """


maybe_mark_dynamic = mark_dynamic


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Do nothing, with ``guard`` or without.

    What is compiled does not hold the address of the tensor ``t``.
    """


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
