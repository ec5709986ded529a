"""``to_dlpack`` and ``from_dlpack``: capsules passed by hand, as in old scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.names.absent import hints as _hints
from tensor.operations.creation.interchange.dlpack import DLDeviceType
from tensor.operations.creation.interchange.dlpack_exchange import from_dlpack

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """A ``"dltensor"`` capsule over the tensor's memory, without any wait between streams.

    A capsule can be consumed once. ``from_dlpack(tensor)`` needs none.

    >>> x = tensor.ones(2)
    >>> tensor.utils.dlpack.from_dlpack(tensor.utils.dlpack.to_dlpack(x))
    tensor([1., 1.])

    Parameters
    ----------
    tensor : Tensor
        On any device; not one that requires grad.

    Raises
    ------
    BufferError
        If it requires grad.
    """
    return tensor.__dlpack__(stream=-1)


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
