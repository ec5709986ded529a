"""Tensors that a module keeps: parameters, which are trained, and buffers, which are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor import Tensor, empty, preserve_format
from tensor.serialization import keep_class

if TYPE_CHECKING:
    from typing import Self


@keep_class
class Parameter(Tensor):
    """A tensor that becomes a parameter of the :class:`~nn.Module` it is assigned to.

    Parameters
    ----------
    data : Tensor, optional
        The elements, whose memory the parameter shares. Without it the parameter has none, shape (0,).
    requires_grad : bool
        Whether it is trained.

    Raises
    ------
    TypeError
        If ``data`` is no tensor.
    """

    __slots__ = ()

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        """Parameter over the memory of ``data``."""
        if data is None:
            data = empty(0)
        elif not isinstance(data, Tensor):
            raise TypeError(
                f"{cls.__name__}() wants a Tensor, got {type(data).__name__}: make one with tensor.tensor(data)"
            )
        made: Self = data.detach().as_subclass(cls)
        made.requires_grad_(requires_grad)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        found: Self | None = memo.get(id(self))
        if found is None:
            copied = self.detach().clone(memory_format=preserve_format)
            found = memo[id(self)] = type(self)(copied, self.requires_grad)
        return found

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    __str__ = __repr__


@keep_class
class Buffer(Tensor):
    """A tensor that becomes a buffer of the :class:`~nn.Module` it is assigned to.

    Parameters
    ----------
    data : Tensor, optional
        The elements, whose memory the buffer shares. Without it the buffer has none, shape (0,).
    persistent : bool
        Whether the buffer is part of the module's state dict.
    """

    __slots__ = ()

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Self:
        """Buffer over the memory of ``data``."""
        if data is None:
            data = empty(0)
        elif not isinstance(data, Tensor):
            raise TypeError(
                f"{cls.__name__}() wants a Tensor, got {type(data).__name__}: make one with tensor.tensor(data)"
            )
        made: Self = data.detach().as_subclass(cls)
        made.requires_grad_(data.requires_grad)
        made.persistent = persistent
        return made
