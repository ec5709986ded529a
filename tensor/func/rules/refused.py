"""What no batch can have: numbers for Python, shapes that depend on elements, and histories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.func.batched import BatchingError
from tensor.func.dispatch import rule

if TYPE_CHECKING:
    from tensor.func.dispatch import Call


@rule("item conversions.as_int conversions.as_float conversions.as_complex conversions.as_index")
def item(call: Call) -> Any:
    """A number for Python."""
    raise BatchingError(
        "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, "
        "please try to rewrite what you're doing with other operations."
    )


@rule("is_nonzero conversions.as_bool")
def truth(call: Call) -> Any:
    """A condition for Python."""
    raise BatchingError(
        "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that: "
        "use tensor.where to choose between results."
    )


@rule("nonzero argwhere masked_select unique unique_consecutive")
def dynamic(call: Call) -> Any:
    """Shapes that depend on elements."""
    raise BatchingError(
        "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over "
        f"{call.operation.name}(). Compute a mask, and use tensor.where"
    )


@rule("tolist conversions.numpy dlpack_exchange.from_dlpack")
def memory(call: Call) -> Any:
    """Memory."""
    raise BatchingError(
        f"vmap: Cannot access data pointer of a batched tensor, which {call.operation.name}() asks for: return the tensor, "
        "and do this outside of vmap"
    )


@rule("equality.equal equality.allclose")
def compared(call: Call) -> Any:
    """A comparison for Python."""
    raise BatchingError(
        f"vmap over {call.operation.name}() isn't supported: its result is one bool for Python. Compare elementwise, and reduce "
        "with all()"
    )


@rule("set_ resize_ resize_as_ as_strided as_strided_scatter")
def reshaped_memory(call: Call) -> Any:
    """Memory that is laid out otherwise."""
    raise BatchingError(
        f"vmap: {call.operation.name}() is not supported on a batched tensor: it is about memory, which a sample has none of"
    )
