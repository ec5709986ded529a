"""What anomaly mode does in backward passes."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from tensor.comparisons import isnan
from tensor.recording import anomaly
from tensor.recording.modes import no_grad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.recording.node import Node


def report(node: Node) -> None:
    """Warn that ``node`` failed, with the place where it was made."""
    warnings.warn(anomaly.describe(node), stacklevel=2)


def check_gradients(node: Node, results: Sequence[Any]) -> None:
    """Raise RuntimeError if a gradient that ``node`` gave is NaN somewhere; says where ``node`` was made."""
    for position, result in enumerate(results):
        if result is None:
            continue
        with no_grad():
            found = bool(isnan(result.detach()).any())
        if found:
            raise RuntimeError(
                f"Function '{node.name()}' returned nan values in its {position}th output.\n{anomaly.describe(node)}"
            )
