"""Convolutions and transposed convolutions over signals, images and volumes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from nn import functional, init
from nn.module import Module
from nn.parameter import Parameter
from tensor import empty

if TYPE_CHECKING:
    from tensor import Tensor, dtype


def for_each_dimension(given: Any, rank: int) -> tuple[Any, ...]:
    """One value for all of ``rank`` dimensions, or one for each, as a tuple, which is how PyTorch shows them."""
    return tuple(given) if isinstance(given, Iterable) else (given,) * rank


_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _Convolution(Module):
    """What convolution layers share; ``rank`` is the number of spatial dimensions."""

    rank: int
    transposed = False

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        output_padding: Any,
        dilation: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: dtype | None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError(f"groups must be a positive integer, got {groups}")
        for what, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{what} must be divisible by groups, got {channels} and {groups}")
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of 'same', 'valid'")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {_PADDING_MODES}, but got padding_mode={padding_mode!r}"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = for_each_dimension(kernel_size, self.rank)
        self.stride = for_each_dimension(stride, self.rank)
        self.padding = padding if isinstance(padding, str) else for_each_dimension(padding, self.rank)
        if padding == "same" and any(step != 1 for step in self.stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
        self.dilation = for_each_dimension(dilation, self.rank)
        self.output_padding = for_each_dimension(output_padding, self.rank)
        self.groups = groups
        self.padding_mode = padding_mode
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (first, second // groups, *self.kernel_size)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            inputs = self.weight.size(1) * math.prod(self.kernel_size)
            if inputs:
                bound = 1 / math.sqrt(inputs)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """Sizes and options that are not the default."""
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        )
        zeros, ones = (0,) * self.rank, (1,) * self.rank
        if self.padding != zeros:
            text += f", padding={self.padding}"
        if self.dilation != ones:
            text += f", dilation={self.dilation}"
        if self.output_padding != zeros:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class _Forward(_Convolution):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, 0, dilation, groups, bias, padding_mode,
            device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of shape (items, out_channels, ...) for one of shape (items, in_channels, ...)."""
        convolve = getattr(functional, f"conv{self.rank}d")
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = functional.pad(input, self._ends(), self.padding_mode)
            padding = 0
        found: Tensor = convolve(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )
        return found

    def _ends(self) -> list[int]:
        """Padding of both ends of each dimension, the last one first."""
        ends: list[int] = []
        padding: Any = self.padding
        for axis in reversed(range(self.rank)):
            if padding == "valid":
                ends += [0, 0]
            elif padding == "same":
                total = self.dilation[axis] * (self.kernel_size[axis] - 1)
                ends += [total // 2, total - total // 2]
            else:
                ends += [padding[axis]] * 2
        return ends


class _Transposed(_Convolution):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f'Only "zeros" padding mode is supported for {type(self).__name__}, got {padding_mode!r}'
            )
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, output_padding, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """Tensor of shape (items, out_channels, ...); ``output_size`` chooses among the sizes it can have."""
        convolve = getattr(functional, f"conv_transpose{self.rank}d")
        extra = self.output_padding if output_size is None else self._extra(input, list(output_size))
        found: Tensor = convolve(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )
        return found

    def _extra(self, input: Tensor, output_size: list[int]) -> tuple[int, ...]:
        if len(output_size) == input.dim():
            output_size = output_size[-self.rank :]
        if len(output_size) != self.rank:
            raise ValueError(
                f"{type(self).__name__}: for {input.dim()}D input, output_size must have {self.rank} or {input.dim()} "
                f"elements (got {len(output_size)})"
            )
        extra = []
        for axis, wanted in enumerate(output_size):
            size = input.size(axis - self.rank)
            least = (
                (size - 1) * self.stride[axis]
                - 2 * self.padding[axis]
                + self.dilation[axis] * (self.kernel_size[axis] - 1)
                + 1
            )
            if not least <= wanted < least + self.stride[axis]:
                raise ValueError(
                    f"requested an output size of {output_size}, but valid sizes range from {least} to "
                    f"{least + self.stride[axis] - 1} in dimension {axis} (for an input of {list(input.shape)})"
                )
            extra.append(wanted - least)
        return tuple(extra)


class Conv1d(_Forward):
    """Convolution of signals (items, channels, length).

    Parameters
    ----------
    in_channels, out_channels : int
        Channels of input and output.
    kernel_size, stride, dilation
        Of the windows.
    padding
        At both ends, or ``"same"`` or ``"valid"``.
    groups : int
        Blocks of channels that are convolved apart.
    bias : bool
        Whether a number is added to each channel of the output.
    padding_mode : str
        ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    weight : Parameter
        Of shape (out_channels, in_channels / groups, *kernel_size), at first uniform in ``±1 / sqrt(inputs)``.
    bias : Parameter or None
        Of shape (out_channels,), likewise.
    """

    rank = 1


class Conv2d(_Forward):
    """Convolution of images (items, channels, height, width); see :class:`Conv1d`."""

    rank = 2


class Conv3d(_Forward):
    """Convolution of volumes (items, channels, depth, height, width); see :class:`Conv1d`."""

    rank = 3


class ConvTranspose1d(_Transposed):
    """Transposed convolution of signals: what the derivative of :class:`Conv1d` by its input is.

    Attributes
    ----------
    weight : Parameter
        Of shape (in_channels, out_channels / groups, *kernel_size).
    """

    rank = 1


class ConvTranspose2d(_Transposed):
    """Transposed convolution of images; see :class:`ConvTranspose1d`."""

    rank = 2


class ConvTranspose3d(_Transposed):
    """Transposed convolution of volumes; see :class:`ConvTranspose1d`."""

    rank = 3
