"""Tensors in notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor.core.memory_format import strided

if TYPE_CHECKING:
    from .tensor import Tensor

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP = 1024


def html_of(tensor: Tensor) -> str:
    """A line that says what the tensor is, and its elements as they are printed."""
    from html import escape  # has tables that only notebooks need

    facts = [
        f"<b>{escape(type(tensor).__name__)}</b>",
        escape(" × ".join(map(str, tensor.shape)) or "scalar"),
        escape(repr(tensor.dtype).rpartition(".")[2]),
        escape(str(tensor.device)),
        # A sparse tensor has no size of its own, but those of its parts, which are printed.
        *([size_text(tensor.nbytes)] if tensor.layout is strided else []),
    ]
    if tensor.requires_grad:
        facts.append("leaf with grad" if tensor.is_leaf else escape(type(tensor.grad_fn).__name__))
    return f"<div>{' · '.join(facts)}</div><pre>{escape(repr(tensor))}</pre>"


def size_text(count: float) -> str:
    """A number of bytes as people read it."""
    unit = 0
    while count >= _STEP and unit < len(_UNITS) - 1:
        count /= _STEP
        unit += 1
    return f"{count:.0f} {_UNITS[unit]}" if unit == 0 else f"{count:.1f} {_UNITS[unit]}"
