"""What anomaly mode does in backward passes."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from tensor.core.modes.grad_mode import no_grad

from . import anomaly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .node import Node


def report(node: Node) -> None:
    """Warn that ``node`` failed, with the place where it was made."""
    warnings.warn(anomaly.describe(node), stacklevel=2)


def check_gradients(node: Node, results: Sequence[Any]) -> None:
    """Raise RuntimeError if a gradient that ``node`` gave is NaN somewhere; says where ``node`` was made."""
    for position, result in enumerate(results):
        if result is None:
            continue
        with no_grad():
            found = bool(result.detach().isnan().any())
        if found:
            raise RuntimeError(
                f"Function '{node.name()}' returned nan values in its {position}th output.\n{anomaly.describe(node)}"
            )
