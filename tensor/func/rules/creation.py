"""Tensors like a sample, and conversions of one: like all samples at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.func.dispatch import rule

from .dimensions import numbers

if TYPE_CHECKING:
    from tensor.func.dispatch import Call


@rule("zeros_like ones_like empty_like full_like")
def like(call: Call) -> Any:
    """With a batch, to be written."""
    if call.is_batched(call.get("fill_value")):
        return NotImplemented
    if not call.is_batched(call["input"]):
        return NotImplemented
    return call.run()


@rule("new_zeros new_ones new_empty new_full")
def new(call: Call) -> Any:
    """With a batch, to be written."""
    if call.is_batched(call.get("fill_value")) or not call.is_batched(call["input"]):
        return NotImplemented
    if call.operation.name == "new_full":
        size = call["size"]
        size = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    else:
        size = numbers(call.get("sizes", ()), call.get("size"))
    changes: dict[str, Any] = {"size": (call.size, *size)}
    if call.operation.name != "new_full":
        changes["sizes"] = ()
    return call.run(**changes)


@rule("conversions.to conversions.cuda conversions.cpu_ type_as type_")
def to(call: Call) -> Any:
    """All samples converted."""
    if not call.is_batched(call["input"]):
        other = next(x for x in (*call.get("args", ()), *call.arguments.values()) if call.is_batched(x))
        return call["input"].to(other.device, other.dtype)
    name = call.operation.name
    return call.run(non_blocking=call.get("non_blocking", False)) if name == "to" else call.run()
