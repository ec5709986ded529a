"""Names of ``torch.ao.quantization``: marks in models, which do nothing until a model is quantized, as none is here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn.module import Module
from tensor.core.names.absent import hints as _hints

if TYPE_CHECKING:
    from tensor import Tensor

__all__ = ["DeQuantStub", "QuantStub"]


class QuantStub(Module):
    """Marks where a quantized model would begin: returns its input, of any shape and dtype.

    Parameters
    ----------
    qconfig : object, optional
        How it would be quantized: kept as an attribute.
    """

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        """Returns ``x``.

        It is the same object.
        """
        return x


class DeQuantStub(QuantStub):
    """Marks where a quantized model would end: returns its input, of any shape and dtype.

    Parameters
    ----------
    qconfig : object, optional
        How it would be quantized: kept as an attribute.
    """


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
