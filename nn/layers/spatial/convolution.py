"""Convolutions and transposed convolutions over signals, images and volumes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from nn import functional, init
from nn.module import Module
from nn.parameter import Parameter
from tensor import empty

from .dimensions import for_each_dimension, for_rank

if TYPE_CHECKING:
    from tensor import Tensor, dtype


_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _Convolution(Module):
    """Base class of the convolution layers; ``rank`` is the number of spatial dimensions."""

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
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{name} must be divisible by groups, got {channels} and {groups}")
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
        """Draw new initial values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            inputs = self.weight.size(1) * math.prod(self.kernel_size)
            if inputs:
                bound = 1 / math.sqrt(inputs)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: sizes, and options that are not the default."""
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
    """Convolution (cross-correlation) of $signals with learned filters.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels of input and output.
    kernel_size : int or tuple of int
        Size of the filters, for all dimensions or for each.
    stride : int or tuple of int
        Distance between windows.
    padding : int, tuple of int or str
        Elements added at both ends of each dimension; ``"valid"`` for none, ``"same"`` for as many as keep the size.
    dilation : int or tuple of int
        Distance between the elements of a window.
    groups : int
        Number of blocks of channels that are convolved separately; ``in_channels`` makes a depthwise convolution.
    bias : bool
        Whether to add a learned bias to each output channel.
    padding_mode : str
        ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    weight : Parameter
        Shape ``(out_channels, in_channels / groups, *kernel_size)``, initialized uniformly in ``±1 / sqrt(n)``, with
        n the number of inputs of an output element.
    bias : Parameter or None
        Shape (out_channels,), initialized in the same way.

    Raises
    ------
    ValueError
        If the channels are not divisible by ``groups``, a padding or its mode is unknown, or ``padding="same"`` comes
        with a stride.

    Notes
    -----
    The output has size ``floor((size + 2 * padding - dilation * (kernel_size - 1) - 1) / stride + 1)`` in
    each dimension. See :func:`nn.functional.conv${rank}d`.
    """

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
        """Convolve an input of shape (N, in_channels, ...) or (in_channels, ...).

        Raises
        ------
        RuntimeError
            If the input has another rank or number of channels, or a padded size is less than the dilated filter's.
        """
        convolve = getattr(functional, f"conv{self.rank}d")
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = functional.pad(input, self._ends(), self.padding_mode)
            padding = 0
        output: Tensor = convolve(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )
        return output

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
    """Transposed convolution of $signals: the gradient of :class:`Conv${rank}d` with respect to its input.

    It is also called fractionally strided convolution, and upsamples by ``stride``.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels of input and output.
    kernel_size : int or tuple of int
        Size of the filters, for all dimensions or for each.
    stride : int or tuple of int
        Distance in the output between the windows of neighbouring input elements.
    padding : int or tuple of int
        Elements that are removed from both ends of each dimension of the output.
    output_padding : int or tuple of int
        Elements that are added to one end of each dimension of the output; less than stride or dilation.
    groups : int
        Number of blocks of channels that are convolved separately.
    bias : bool
        Whether to add a learned bias to each output channel.
    dilation : int or tuple of int
        Distance between the elements of a window.
    padding_mode : str
        ``"zeros"``.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    weight : Parameter
        Shape ``(in_channels, out_channels / groups, *kernel_size)``, initialized uniformly.
    bias : Parameter or None
        Shape (out_channels,), initialized in the same way.

    Raises
    ------
    ValueError
        If the channels are not divisible by ``groups``, or ``padding_mode`` is not ``"zeros"``.

    Notes
    -----
    The output has size ``(size - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1`` in each
    dimension. See :func:`nn.functional.conv_transpose${rank}d`.
    """

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
        """Convolve an input of shape (N, in_channels, ...) or (in_channels, ...).

        Parameters
        ----------
        output_size : tuple of int, optional
            Size of the output, which replaces ``output_padding``: ``stride`` sizes are possible in each dimension.

        Raises
        ------
        ValueError
            If ``output_size`` is not possible.
        """
        convolve = getattr(functional, f"conv_transpose{self.rank}d")
        extra = self.output_padding if output_size is None else self._extra(input, list(output_size))
        output: Tensor = convolve(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )
        return output

    def _extra(self, input: Tensor, output_size: list[int]) -> tuple[int, ...]:
        if len(output_size) == input.dim():
            output_size = output_size[-self.rank :]
        if len(output_size) != self.rank:
            raise ValueError(
                f"{type(self).__name__}: for {input.dim()}D input, output_size must have {self.rank} or {input.dim()} "
                f"elements (got {len(output_size)})"
            )
        extra = []
        for axis, requested in enumerate(output_size):
            size = input.size(axis - self.rank)
            least = (
                (size - 1) * self.stride[axis]
                - 2 * self.padding[axis]
                + self.dilation[axis] * (self.kernel_size[axis] - 1)
                + 1
            )
            if not least <= requested < least + self.stride[axis]:
                raise ValueError(
                    f"requested an output size of {output_size}, but valid sizes range from {least} to "
                    f"{least + self.stride[axis] - 1} in dimension {axis} (for an input of {list(input.shape)})"
                )
            extra.append(requested - least)
        return tuple(extra)


class Conv1d(_Forward):
    __doc__ = for_rank(_Forward.__doc__, 1)
    rank = 1


class Conv2d(_Forward):
    __doc__ = for_rank(_Forward.__doc__, 2)
    rank = 2


class Conv3d(_Forward):
    __doc__ = for_rank(_Forward.__doc__, 3)
    rank = 3


class ConvTranspose1d(_Transposed):
    __doc__ = for_rank(_Transposed.__doc__, 1)
    rank = 1


class ConvTranspose2d(_Transposed):
    __doc__ = for_rank(_Transposed.__doc__, 2)
    rank = 2


class ConvTranspose3d(_Transposed):
    __doc__ = for_rank(_Transposed.__doc__, 3)
    rank = 3
