"""How operations are defined: ``@operation``, and the functions, methods and in-place forms that follow from it."""

from .operation import autocasted, operation

__all__ = ["autocasted", "operation"]
