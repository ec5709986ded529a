"""Weights and biases of layers that normalise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor import empty

from . import init
from .module import Module
from .parameter import Parameter

if TYPE_CHECKING:
    from tensor import dtype


class Affine(Module):
    """A layer with what its normalised input is multiplied with, and what is added to it.

    Attributes
    ----------
    weight, bias : Parameter or None
        1 and 0 at first.
    """

    weight: Parameter | None
    bias: Parameter | None

    def add_parameters(
        self, shape: int | tuple[int, ...], weight: bool, bias: bool | None, device: Any, dtype: dtype | None
    ) -> None:
        """Register those parameters that are wanted; ``None`` for a layer that knows of no bias."""
        for name, wanted in (("weight", weight), ("bias", bias)):
            if wanted is not None:
                made = Parameter(empty(shape, device=device, dtype=dtype)) if wanted else None
                self.register_parameter(name, made)

    def reset_parameters(self) -> None:
        """Weights 1, biases 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        bias = getattr(self, "bias", None)
        if bias is not None:
            init.zeros_(bias)
