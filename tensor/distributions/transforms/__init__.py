"""Transforms: differentiable maps with the logarithm of how they change volumes."""

from typing import TYPE_CHECKING, Any

from tensor.core.names.absent import lazily as _lazily

from .elementwise import (
    AbsTransform,
    AffineTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
)
from .transform import (
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    Transform,
    identity_transform,
)
from .vectors import CatTransform, SoftmaxTransform, StackTransform, StickBreakingTransform

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]

# PyTorch has them here; they stand in a file of their own, which needs this one.
_LAZY = {
    name: f"tensor.distributions.constraint_registry:{name}"
    for name in ("CorrCholeskyTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform")
}

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker

    def __getattr__(name: str) -> Any:
        return _lazily(__name__, name, _LAZY)
