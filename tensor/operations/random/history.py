"""What differentiation knows of random numbers: they do not depend on their inputs, whose gradients are zeros."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from tensor.autograd.recording.inplace import record_in_place as write
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.base import TensorBase
from tensor.operations.creation.factories import zeros

if TYPE_CHECKING:
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


def record(drawn: Tensor, name: str, *inputs: Any) -> None:
    """Record that new numbers were drawn with parameters among which are tensors."""
    tensors = [each for each in inputs if isinstance(each, TensorBase)]
    _formula(name).record((drawn,), tensors, (), (tuple([each._layout for each in tensors]),))


def record_in_place(written: Tensor, name: str, *inputs: Any) -> None:
    """Record that numbers were written over what was in a tensor."""
    tensors = [each for each in (written, *inputs) if isinstance(each, TensorBase)]
    write(_formula(name), written, tensors, (), (tuple([each._layout for each in tensors]),))


def _zeros(mask: tuple[bool, ...], _: Any, origins: tuple[Layout, ...]) -> tuple[Tensor | None, ...]:
    """Zeros for the inputs whose gradients are asked for."""
    return tuple(
        [
            zeros(origin.shape, dtype=origin.dtype, device=origin.device) if asked else None
            for asked, origin in zip(mask, origins, strict=True)
        ]
    )


@cache
def _formula(name: str) -> BackwardFormula:
    return BackwardFormula(name, "", joint=Derivative(_zeros, needs=""))
