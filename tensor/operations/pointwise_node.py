"""Names of the nodes of pointwise operations, which are PyTorch's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tensor.core.base import TensorBase

if TYPE_CHECKING:
    from collections.abc import Callable


def node_name(name: str) -> str:
    """``Log1PBackward0`` for ``log1p``: the parts of a name, and what follows digits, begin with capitals."""
    parts = "".join(part.capitalize() for part in name.split("_"))
    return re.sub(r"(\d)([a-z])", lambda result: result[1] + result[2].upper(), parts) + "Backward0"


def numbered(name: str, tensors: int = 1, numbers: int = 0) -> Callable[..., str]:
    """Names of nodes that differ by whether the last operand is a tensor or a number."""
    result = f"{name}Backward{tensors}", f"{name}Backward{numbers}"
    return lambda *operands: result[not isinstance(operands[-1], TensorBase)]
