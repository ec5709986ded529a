"""The methods that definitions of operations publish."""

from __future__ import annotations

from tensor.operations import families as families
from tensor.operations.definition.catalogue import bind


class OperationMethods:
    """Methods of tensors that are operations; their stubs are generated (``python -m tools.stubs``)."""

    __slots__ = ()


bind("Tensor", OperationMethods)
