"""Functions without parameters of their own; the modules of :mod:`nn` call them."""

from tensor.core.names.absent import missing as _missing
from tensor.operations.definition.catalogue import bind as _bind
from tensor.operations.definition.catalogue import published as _published

from . import (  # noqa: F401 - which publish what is found here, beside the families of tensor.operations
    activations,
    attention,
    dropout,
    embedding,
    indexed_pooling,
    linear_maps,
    normalization,
    probabilities,
    resampling,
)

__all__ = [*_published("nn.functional")]
_bind("nn.functional", globals())


def __getattr__(name: str) -> object:
    raise _missing(__name__, name)
