"""Operators of a program's own, by PyTorch's names: ``tensor.library`` registers them, ``tensor.ops`` calls them.

=========================  =====================================================================================
``schemas``                what an operator takes and returns, as text and as parameters
``operators``              operators, their kernels by dispatch key, and how a call finds one
``registration``           ``Library`` and the functions that register
``custom_operators``       ``custom_op``, and operators as objects with ``register_...`` methods
``own_operators``          ``tensor.ops.aten``: the operations of this library
``torchvision_operators``  torchvision's compiled operators
``namespaces``             ``tensor.ops`` itself
=========================  =====================================================================================

There is no dispatcher below the operations: kernels are Python functions, and only registered operators have keys.
"""

from tensor.core.names.absent import hints as _hints

from .custom_operators import (
    CustomOpDef,
    custom_op,
    register_autocast,
    register_autograd,
    register_fake,
    register_kernel,
)
from .registration import Library, define, fallthrough_kernel, impl
from .schemas import infer_schema

impl_abstract = register_fake

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "impl",
    "impl_abstract",
    "infer_schema",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
]

__getattr__ = _hints(__name__)
