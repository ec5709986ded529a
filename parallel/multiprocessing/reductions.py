"""How tensors go into messages: names of ``torch.multiprocessing.reductions``."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING

from nn.parameter import Buffer, Parameter
from tensor.core.names.absent import hints as _hints
from tensor.utils.shared_tensors import reduce_storage, reduce_tensor

__all__ = ["ForkingPickler", "init_reductions", "reduce_storage", "reduce_tensor"]


def init_reductions() -> None:
    """Let messages of ``multiprocessing`` share the memory of parameters and buffers, as of other CPU tensors.

    It is done when ``parallel.multiprocessing`` is imported; again changes nothing.
    """
    for cls in (Parameter, Buffer):
        ForkingPickler.register(cls, reduce_tensor)


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
