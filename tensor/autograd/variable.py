"""``Variable``: what tensors with gradients were called once. Every tensor is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.base import TensorBase

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

__all__ = ["Variable"]


class _VariableType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TensorBase)

    def __call__(cls, data: Any = None, requires_grad: bool = False, volatile: Any = None) -> Tensor:
        if not isinstance(data, TensorBase):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        result: Tensor = data.detach()
        return result.requires_grad_(requires_grad)


class Variable(metaclass=_VariableType):
    """``Variable(data, requires_grad=False)`` of old programs: ``data.detach()``, with or without a gradient.

    The result is a plain tensor that shares the memory of ``data``, and ``isinstance(x, Variable)`` is True for every
    tensor. ``volatile``, which PyTorch ignores too, says nothing: use ``no_grad``.

    >>> x = tensor.autograd.Variable(tensor.ones(2), requires_grad=True)
    >>> isinstance(x, tensor.Tensor), x.requires_grad
    (True, True)

    Raises
    ------
    TypeError
        If ``data`` is no tensor.
    RuntimeError
        If ``requires_grad`` is asked of integers or bools.
    """
