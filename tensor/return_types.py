"""Types of results with several tensors, each by the name of the function that returns it.

Examples
--------
>>> result = tensor.tensor([3, 1, 2]).max(0)
>>> isinstance(result, tensor.return_types.max)
True
>>> result
tensor.return_types.max(
values=tensor(3),
indices=tensor(0))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .core.names.absent import hints as _hints
from .operations.return_types import return_types as _return_types

globals().update(_return_types)
__all__ = sorted(_return_types)

if TYPE_CHECKING:

    def __getattr__(name: str) -> type[Any]: ...
else:
    __getattr__ = _hints(__name__)
