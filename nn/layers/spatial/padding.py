"""Padding layers: constant, zero, reflection, replication and circular padding of the last dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn import functional
from nn.module import Module

from .dimensions import for_rank

if TYPE_CHECKING:
    from tensor import Tensor


class _Pad(Module):
    rank: int
    mode: str

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * self.rank) if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        """Pad the last dimensions of an input.

        They are preceded by (N, C) or (C,). The result has the input's dtype. Raises RuntimeError or NotImplementedError if the
        input has another number of dimensions, or is too small for the padding; circular padding raises ValueError for the
        former.
        """
        return functional.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: numbers of elements."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """Pads $signals with a constant.

    Parameters
    ----------
    padding : int or tuple of int
        Number of elements at each end, or at the ends (left, right, top, bottom, front, back), as many pairs as there
        are dimensions. A negative number removes elements.
    value : float
        The constant.

    Raises
    ------
    RuntimeError
        When it is called, if removing elements leaves a negative size.

    Examples
    --------
    >>> nn.ConstantPad1d((1, 2), 3.5)(tensor.zeros(1, 2))
    tensor([[3.5000, 0.0000, 0.0000, 3.5000, 3.5000]])
    """

    mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Pad the last dimensions of an input.

        The input may have any dtype, and at least as many dimensions as are padded; the result has its dtype. Raises RuntimeError
        otherwise, or if negative padding leaves a negative size.
        """
        return functional.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: numbers of elements, and the constant."""
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    """Pads $signals with zeros.

    Parameters
    ----------
    padding : int or tuple of int
        Number of elements at each end, or at the ends (left, right, top, bottom, front, back), as many pairs as there
        are dimensions. A negative number removes elements.

    Raises
    ------
    RuntimeError
        When it is called, if removing elements leaves a negative size.
    """

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: numbers of elements."""
        return f"{self.padding}"


class _ReflectionPad(_Pad):
    """Pads $signals with their reflection at the first and last elements, which are not repeated.

    Parameters
    ----------
    padding : int or tuple of int
        Number of elements at each end, or at the ends (left, right, top, bottom, front, back), as many pairs as there
        are dimensions.

    Raises
    ------
    RuntimeError
        When it is called, if a padding is not less than the size of its dimension.

    Examples
    --------
    >>> nn.ReflectionPad1d(2)(tensor.arange(4.0).reshape(1, 4))
    tensor([[2., 1., 0., 1., 2., 3., 2., 1.]])
    """

    mode = "reflect"


class _ReplicationPad(_Pad):
    """Pads $signals by repeating the first and last elements.

    Parameters
    ----------
    padding : int or tuple of int
        Number of elements at each end, or at the ends (left, right, top, bottom, front, back), as many pairs as there
        are dimensions.

    Examples
    --------
    >>> nn.ReplicationPad1d(2)(tensor.arange(4.0).reshape(1, 4))
    tensor([[0., 0., 0., 1., 2., 3., 3., 3.]])
    """

    mode = "replicate"


class _CircularPad(_Pad):
    """Pads $signals periodically, with elements of the opposite end.

    Parameters
    ----------
    padding : int or tuple of int
        Number of elements at each end, or at the ends (left, right, top, bottom, front, back), as many pairs as there
        are dimensions.

    Raises
    ------
    RuntimeError
        When it is called, if a padding is greater than the size of its dimension.
    ValueError
        When it is called, if the input has neither one nor two dimensions besides those that are padded.

    Examples
    --------
    >>> nn.CircularPad1d(2)(tensor.arange(4.0).reshape(1, 1, 4))
    tensor([[[2., 3., 0., 1., 2., 3., 0., 1.]]])
    """

    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input``, of shape (N, C, ...) or (C, ...), with the elements added.

        Raises
        ------
        ValueError
            If the input has another number of dimensions than the class is for.
        """
        if input.dim() not in (self.rank + 1, self.rank + 2):
            raise ValueError(
                f"expected {self.rank + 1}D or {self.rank + 2}D input (got {input.dim()}D input)"
            )
        return super().forward(input)


class ConstantPad1d(_ConstantPad):
    __doc__ = for_rank(_ConstantPad.__doc__, 1)
    rank = 1


class ConstantPad2d(_ConstantPad):
    __doc__ = for_rank(_ConstantPad.__doc__, 2)
    rank = 2


class ConstantPad3d(_ConstantPad):
    __doc__ = for_rank(_ConstantPad.__doc__, 3)
    rank = 3


class ZeroPad1d(_ZeroPad):
    __doc__ = for_rank(_ZeroPad.__doc__, 1)
    rank = 1


class ZeroPad2d(_ZeroPad):
    __doc__ = for_rank(_ZeroPad.__doc__, 2)
    rank = 2


class ZeroPad3d(_ZeroPad):
    __doc__ = for_rank(_ZeroPad.__doc__, 3)
    rank = 3


class ReflectionPad1d(_ReflectionPad):
    __doc__ = for_rank(_ReflectionPad.__doc__, 1)
    rank = 1


class ReflectionPad2d(_ReflectionPad):
    __doc__ = for_rank(_ReflectionPad.__doc__, 2)
    rank = 2


class ReflectionPad3d(_ReflectionPad):
    __doc__ = for_rank(_ReflectionPad.__doc__, 3)
    rank = 3


class ReplicationPad1d(_ReplicationPad):
    __doc__ = for_rank(_ReplicationPad.__doc__, 1)
    rank = 1


class ReplicationPad2d(_ReplicationPad):
    __doc__ = for_rank(_ReplicationPad.__doc__, 2)
    rank = 2


class ReplicationPad3d(_ReplicationPad):
    __doc__ = for_rank(_ReplicationPad.__doc__, 3)
    rank = 3


class CircularPad1d(_CircularPad):
    __doc__ = for_rank(_CircularPad.__doc__, 1)
    rank = 1


class CircularPad2d(_CircularPad):
    __doc__ = for_rank(_CircularPad.__doc__, 2)
    rank = 2


class CircularPad3d(_CircularPad):
    __doc__ = for_rank(_CircularPad.__doc__, 3)
    rank = 3
