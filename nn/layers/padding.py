"""Padding layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn import functional
from nn.module import Module

if TYPE_CHECKING:
    from tensor import Tensor


class _Pad(Module):
    rank: int
    mode: str

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * self.rank) if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        """The input with its last dimensions padded."""
        return functional.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        """Numbers of elements."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """The input with its last dimensions padded."""
        return functional.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Numbers of elements, and what they are."""
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Numbers of elements."""
        return f"{self.padding}"


class ConstantPad1d(_ConstantPad):
    """A number at the ends of signals; see :func:`nn.functional.pad`."""

    rank = 1


class ConstantPad2d(_ConstantPad):
    """A number at the ends of images; see :func:`nn.functional.pad`."""

    rank = 2


class ConstantPad3d(_ConstantPad):
    """A number at the ends of volumes; see :func:`nn.functional.pad`."""

    rank = 3


class ZeroPad1d(_ZeroPad):
    """Zeros at the ends of signals; see :func:`nn.functional.pad`."""

    rank = 1


class ZeroPad2d(_ZeroPad):
    """Zeros at the ends of images; see :func:`nn.functional.pad`."""

    rank = 2


class ZeroPad3d(_ZeroPad):
    """Zeros at the ends of volumes; see :func:`nn.functional.pad`."""

    rank = 3


class ReflectionPad1d(_Pad):
    """Elements reflected at the ends of signals; see :func:`nn.functional.pad`."""

    rank = 1
    mode = "reflect"


class ReflectionPad2d(_Pad):
    """Elements reflected at the ends of images; see :func:`nn.functional.pad`."""

    rank = 2
    mode = "reflect"


class ReflectionPad3d(_Pad):
    """Elements reflected at the ends of volumes; see :func:`nn.functional.pad`."""

    rank = 3
    mode = "reflect"


class ReplicationPad1d(_Pad):
    """The end elements again at the ends of signals; see :func:`nn.functional.pad`."""

    rank = 1
    mode = "replicate"


class ReplicationPad2d(_Pad):
    """The end elements again at the ends of images; see :func:`nn.functional.pad`."""

    rank = 2
    mode = "replicate"


class ReplicationPad3d(_Pad):
    """The end elements again at the ends of volumes; see :func:`nn.functional.pad`."""

    rank = 3
    mode = "replicate"


class CircularPad1d(_Pad):
    """Elements of the other end at the ends of signals; see :func:`nn.functional.pad`."""

    rank = 1
    mode = "circular"


class CircularPad2d(_Pad):
    """Elements of the other end at the ends of images; see :func:`nn.functional.pad`."""

    rank = 2
    mode = "circular"


class CircularPad3d(_Pad):
    """Elements of the other end at the ends of volumes; see :func:`nn.functional.pad`."""

    rank = 3
    mode = "circular"
