"""Names of ``torch._dynamo``, which programs call beside ``torch.compile``: there is no compiler that they would tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    """``fn`` itself.

    There is no graph that it would be left out of.
    """
    return fn


def graph_break(msg: str = "") -> None:
    """Do nothing, whatever ``msg`` says.

    There is no graph to break.
    """


def mark_dynamic(t: Any, index: Any, **options: Any) -> None:
    """Do nothing: nothing is compiled for sizes of tensors.

    The tensor ``t``, its dimension ``index`` and ``options`` are taken.
    """


def mark_static(t: Any, index: Any = None) -> None:
    """Do nothing: nothing is compiled for sizes of tensors.

    The tensor ``t`` and its dimension ``index`` are taken.
    """


maybe_mark_dynamic = mark_dynamic


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Do nothing, with ``guard`` or without.

    No graph of launches holds the address of the tensor ``t``.
    """


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
