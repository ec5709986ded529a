"""Lazy layers: they take their input sizes from the first input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn.layers.spatial.convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from nn.module.lazy import LazyModuleMixin
from nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from tensor import int64, no_grad
from tensor import tensor as scalar

from .linear import Linear
from .normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)

if TYPE_CHECKING:
    from tensor import Tensor, dtype


def _materialize(x: Any, shape: tuple[int, ...]) -> None:
    """Give ``x`` a shape if it has none."""
    if is_lazy(x):
        x.materialize(shape)


class _LazyLayer(LazyModuleMixin):
    """Base class of the lazy layers; the layer that they become is their second base."""

    #: Attribute with the size of the input, which is 0 until it is known.
    _size: str

    def _leave_open(self, bias: bool, device: Any, dtype: dtype | None) -> None:
        """Register uninitialized ``weight`` and, if ``bias``, ``bias``."""
        layer: Any = self
        layer.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            layer.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw initial values, once the parameters have shapes."""
        if getattr(self, self._size) and not self.has_uninitialized_params():
            super().reset_parameters()  # type: ignore[misc]


class LazyLinear(_LazyLayer, Linear):
    """A :class:`Linear` whose ``in_features`` is inferred from its first input.

    After the first call it is a :class:`Linear`; before, its parameters have no shape.

    Parameters
    ----------
    out_features : int
        Size of the last dimension of the output.
    bias : bool
        Whether to add a learned bias.
    device, dtype
        Of the parameters.

    Examples
    --------
    >>> model = nn.Sequential(nn.LazyLinear(64), nn.ReLU(), nn.LazyLinear(10))
    >>> model(tensor.randn(2, 32)).shape  # shapes are inferred
    tensor.Size([2, 10])
    >>> optimizer = nn.optim.SGD(model.parameters(), lr=0.1)
    """

    cls_to_become = Linear
    _size = "in_features"

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: dtype | None = None
    ) -> None:
        # Without elements, which would be replaced at once.
        super().__init__(0, 0, False)
        self.out_features = out_features
        self._leave_open(bias, device, dtype)

    def initialize_parameters(self, input: Tensor) -> None:
        """Take ``in_features`` from the last dimension of ``input``.

        Parameters
        ----------
        input : Tensor
            (..., H_in). Its dtype does not matter: the parameters keep theirs.
        """
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                _materialize(self.weight, (self.out_features, self.in_features))
                _materialize(self.bias, (self.out_features,))
                self.reset_parameters()
        elif not self.in_features:
            # They were loaded.
            self.in_features = self.weight.shape[-1]


class _LazyConvolution(_LazyLayer):
    _size = "in_channels"

    def _set_up(self, out_channels: int, bias: bool, device: Any, dtype: dtype | None) -> None:
        layer: Any = self
        if out_channels % layer.groups:
            raise ValueError(
                f"out_channels must be divisible by groups, got {out_channels} and {layer.groups}"
            )
        layer.out_channels = out_channels
        self._leave_open(bias, device, dtype)

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Take ``in_channels`` from ``input``.

        Raises
        ------
        RuntimeError
            If the input has another rank than the layer takes.
        ValueError
            If its channels are not divisible by the groups.
        """
        layer: Any = self
        if not self.has_uninitialized_params():
            if not layer.in_channels:
                # They were loaded.
                layer.in_channels = (
                    layer.weight.shape[0] if layer.transposed else layer.weight.shape[1] * layer.groups
                )
            return
        sample = layer.rank + 1
        if input.dim() not in (sample, sample + 1):
            raise RuntimeError(
                f"Expected {sample}D (unbatched) or {sample + 1}D (batched) input to {type(self).__name__}, but got input "
                f"of size: {input.shape}"
            )
        channels = input.shape[-sample]
        if channels % layer.groups:
            raise ValueError(f"in_channels must be divisible by groups, got {channels} and {layer.groups}")
        layer.in_channels = channels
        first, second = (channels, layer.out_channels) if layer.transposed else (layer.out_channels, channels)
        with no_grad():
            _materialize(layer.weight, (first, second // layer.groups, *layer.kernel_size))
            _materialize(layer.bias, (layer.out_channels,))
            self.reset_parameters()


class _LazyForward(_LazyConvolution):
    def __init__(
        self,
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
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype
        )
        self._set_up(out_channels, bias, device, dtype)


class _LazyTransposed(_LazyConvolution):
    def __init__(
        self,
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
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype
        )  # fmt: skip
        self._set_up(out_channels, bias, device, dtype)


class LazyConv1d(_LazyForward, Conv1d):
    """A :class:`Conv1d` whose ``in_channels`` is inferred from its first input.

    The other parameters are those of :class:`Conv1d`, which it becomes with the first call; before, its weights have
    no shape.
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyForward, Conv2d):
    """A :class:`Conv2d` whose ``in_channels`` is inferred from its first input.

    The other parameters are those of :class:`Conv2d`, which it becomes with the first call; before, its weights have
    no shape.
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyForward, Conv3d):
    """A :class:`Conv3d` whose ``in_channels`` is inferred from its first input.

    The other parameters are those of :class:`Conv3d`, which it becomes with the first call; before, its weights have
    no shape.
    """

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyTransposed, ConvTranspose1d):
    """A :class:`ConvTranspose1d` whose ``in_channels`` is inferred from its first input.

    The other parameters are those of :class:`ConvTranspose1d`, which it becomes with the first call; before, its
    weights have no shape.
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed, ConvTranspose2d):
    """A :class:`ConvTranspose2d` whose ``in_channels`` is inferred from its first input.

    The other parameters are those of :class:`ConvTranspose2d`, which it becomes with the first call; before, its
    weights have no shape.
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed, ConvTranspose3d):
    """A :class:`ConvTranspose3d` whose ``in_channels`` is inferred from its first input.

    The other parameters are those of :class:`ConvTranspose3d`, which it becomes with the first call; before, its
    weights have no shape.
    """

    cls_to_become = ConvTranspose3d


class _LazyNorm(_LazyLayer):
    _size = "num_features"

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self._leave_open(bias, device, dtype)
        layer: Any = self
        if track_running_stats:
            layer.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            layer.running_var = UninitializedBuffer(device=device, dtype=dtype)
            layer.num_batches_tracked = scalar(0, dtype=int64, device=device)

    def initialize_parameters(self, input: Tensor) -> None:
        """Take ``num_features`` from the channels of ``input``.

        Raises
        ------
        ValueError
            If the input has another rank than the layer takes.
        """
        layer: Any = self
        tensors = layer.weight, layer.bias, layer.running_mean, layer.running_var
        if not self.has_uninitialized_params():
            if not layer.num_features:
                # They were loaded, unless there are none.
                layer.num_features = next(
                    (len(each) for each in tensors if each is not None), self._channels(input)
                )
            return
        layer._check_input_dim(input)
        layer.num_features = self._channels(input)
        with no_grad():
            for each in tensors:
                _materialize(each, (layer.num_features,))
            self.reset_parameters()

    def _channels(self, input: Tensor) -> int:
        return int(input.shape[1])


class _LazyInstanceNorm(_LazyNorm):
    def _channels(self, input: Tensor) -> int:
        layer: Any = self
        return int(input.shape[1 - max(layer.ranks) + input.dim()])


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """A :class:`BatchNorm1d` whose ``num_features`` is inferred from the channels of its first input.

    The other parameters are those of :class:`BatchNorm1d`, which it becomes with the first call; before, its
    parameters and buffers have no shape.
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """A :class:`BatchNorm2d` whose ``num_features`` is inferred from the channels of its first input.

    The other parameters are those of :class:`BatchNorm2d`, which it becomes with the first call; before, its
    parameters and buffers have no shape.
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """A :class:`BatchNorm3d` whose ``num_features`` is inferred from the channels of its first input.

    The other parameters are those of :class:`BatchNorm3d`, which it becomes with the first call; before, its
    parameters and buffers have no shape.
    """

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """An :class:`InstanceNorm1d` whose ``num_features`` is inferred from the channels of its first input.

    The other parameters are those of :class:`InstanceNorm1d`, which it becomes with the first call; before, its
    parameters and buffers have no shape.
    """

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """An :class:`InstanceNorm2d` whose ``num_features`` is inferred from the channels of its first input.

    The other parameters are those of :class:`InstanceNorm2d`, which it becomes with the first call; before, its
    parameters and buffers have no shape.
    """

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """An :class:`InstanceNorm3d` whose ``num_features`` is inferred from the channels of its first input.

    The other parameters are those of :class:`InstanceNorm3d`, which it becomes with the first call; before, its
    parameters and buffers have no shape.
    """

    cls_to_become = InstanceNorm3d
