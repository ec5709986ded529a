"""Normalization layers: batch, instance, layer, group, RMS and local response normalization."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from nn import functional, init
from nn.layers.spatial.dimensions import for_rank
from nn.module import Module
from nn.parameter import Parameter
from tensor import empty, int64, ones, zeros
from tensor import tensor as scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor import Tensor, dtype


class Affine(Module):
    """Base class of normalization layers with a learned scale and shift.

    Attributes
    ----------
    weight, bias : Parameter or None
        Scale and shift, initialized to 1 and 0.
    """

    weight: Parameter | None
    bias: Parameter | None

    def add_parameters(
        self, shape: int | tuple[int, ...], weight: bool, bias: bool | None, device: Any, dtype: dtype | None
    ) -> None:
        """Register parameters ``weight`` and ``bias`` of ``shape``, ``device`` and ``dtype``.

        ``None`` is registered where the argument is False, and no bias where ``bias`` is ``None``.
        """
        for name, present in (("weight", weight), ("bias", bias)):
            if present is not None:
                parameter = Parameter(empty(shape, device=device, dtype=dtype)) if present else None
                self.register_parameter(name, parameter)

    def reset_parameters(self) -> None:
        """Set weights to 1 and biases to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        bias = getattr(self, "bias", None)
        if bias is not None:
            init.zeros_(bias)


class _Norm(Affine):
    """Base class of batch and instance normalization: channelwise affine parameters, and running statistics.

    ``ranks`` are the numbers of dimensions that inputs may have.
    """

    ranks: tuple[int, ...]

    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: Any,
        dtype: dtype | None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self.add_parameters(num_features, affine, affine and bias, device, dtype)
        tracked: tuple[Tensor | None, ...] = (None, None, None)
        if track_running_stats:
            tracked = (
                zeros(num_features, device=device, dtype=dtype),
                ones(num_features, device=device, dtype=dtype),
                scalar(0, dtype=int64, device=device),
            )
        for name, buffer in zip(("running_mean", "running_var", "num_batches_tracked"), tracked, strict=True):
            self.register_buffer(name, buffer)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Reset the running statistics: mean 0, variance 1, no batches."""
        if self.track_running_stats:
            assert self.running_mean is not None
            assert self.running_var is not None
            assert self.num_batches_tracked is not None
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Set weights to 1 and biases to 0, and reset the running statistics."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self.ranks:
            expected = " or ".join(f"{rank}D" for rank in self.ranks)
            raise ValueError(f"expected {expected} input (got {input.dim()}D input)")

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        # Old states, and those of layers that counted nothing, have no number of batches.
        version = local_metadata.get("version")
        key = f"{prefix}num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            assert self.num_batches_tracked is not None
            state_dict[key] = self.num_batches_tracked.detach().clone()
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: options."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_Norm):
    """Batch normalization of each channel over the samples and positions of a batch (Ioffe and Szegedy, 2015).

    ``(x - mean) / sqrt(var + eps) * weight + bias``. In training mode mean and variance (biased) are those of the
    batch, and running statistics are updated as ``running = (1 - momentum) * running + momentum * batch``, with the
    unbiased variance. In evaluation mode the running statistics are used.

    Parameters
    ----------
    num_features : int
        Channels C of inputs of shape (N, C, $dims); :class:`BatchNorm1d` takes (N, C) too.
    eps : float
        Added to the variance.
    momentum : float or None
        Weight of the new batch in the running statistics; ``None`` for the cumulative average.
    affine : bool
        Whether there are ``weight`` and ``bias``.
    track_running_stats : bool
        Whether to keep running statistics; without them the batch's are used in evaluation mode too.
    device, dtype
        Of parameters and buffers.
    bias : bool
        Whether there is a ``bias``, if ``affine``.

    Attributes
    ----------
    weight, bias : Parameter or None
        Shape (C,), initialized to 1 and 0.
    running_mean, running_var : Tensor or None
        Buffers of shape (C,), initialized to 0 and 1.
    num_batches_tracked : Tensor or None
        int64 scalar buffer.

    Raises
    ------
    ValueError
        When it is called, if the input has another rank, or, in training, one value for each channel.
    """

    _version = 2

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalize an input, with the statistics of the batch in training and the running ones in evaluation.

        Raises
        ------
        ValueError
            If the input has another number of dimensions than the class is for, or one value per channel in training.
        RuntimeError
            If it has not ``num_features`` channels.
        """
        self._check_input_dim(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        uses_batch_statistics = self.training or (self.running_mean is None and self.running_var is None)
        uses_buffers = not self.training or self.track_running_stats
        return functional.batch_norm(
            input,
            self.running_mean if uses_buffers else None,
            self.running_var if uses_buffers else None,
            self.weight,
            self.bias,
            uses_batch_statistics,
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    __doc__ = for_rank(_BatchNorm.__doc__, 1)
    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    __doc__ = for_rank(_BatchNorm.__doc__, 2)
    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    __doc__ = for_rank(_BatchNorm.__doc__, 3)
    ranks = (5,)


class _InstanceNorm(_Norm):
    """Instance normalization of each channel of each sample over its positions (Ulyanov, Vedaldi and Lempitsky, 2016).

    ``(x - mean) / sqrt(var + eps) * weight + bias``, with the biased variance.

    Parameters
    ----------
    num_features : int
        Channels C of inputs of shape $N.
    eps : float
        Added to the variance.
    momentum : float
        Weight of the new batch in the running statistics.
    affine : bool
        Whether there are ``weight`` and ``bias``.
    track_running_stats : bool
        Whether to keep running statistics, which are used in evaluation mode.
    device, dtype
        Of parameters and buffers.
    bias : bool
        Whether there is a ``bias``, if ``affine``.

    Attributes
    ----------
    weight, bias : Parameter or None
        Shape (C,), initialized to 1 and 0.
    running_mean, running_var : Tensor or None
        Buffers of shape (C,).

    Raises
    ------
    ValueError
        When it is called, if the input has another rank, if ``affine`` another number of channels (a warning
        otherwise), or, in training, one position.
    """

    _version = 2

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalize an input, each sample and channel by itself.

        Raises
        ------
        ValueError
            If the input has another number of dimensions than the class is for, or with ``affine`` other than
            ``num_features`` channels.
        """
        self._check_input_dim(input)
        batched = input.dim() == max(self.ranks)
        channels = input.size(1 if batched else 0)
        if channels != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={int(batched)} to match num_features ({self.num_features}), but got: "
                    f"{channels}."
                )
            warnings.warn(
                f"input's size at dim={int(batched)} does not match num_features. You can silence this warning by not "
                "passing in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        output = functional.instance_norm(
            input if batched else input.unsqueeze(0),
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return output if batched else output.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    __doc__ = for_rank(_InstanceNorm.__doc__, 1)
    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    __doc__ = for_rank(_InstanceNorm.__doc__, 2)
    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    __doc__ = for_rank(_InstanceNorm.__doc__, 3)
    ranks = (4, 5)


def _shape_of(normalized_shape: Any) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(Affine):
    """Layer normalization over the last dimensions of each sample (Ba, Kiros and Hinton, 2016).

    ``(x - mean) / sqrt(var + eps) * weight + bias``, with the biased variance.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        Sizes of the last dimensions, over which mean and variance are computed.
    eps : float
        Added to the variance.
    elementwise_affine : bool
        Whether there are ``weight`` and ``bias``.
    bias : bool
        Whether there is a ``bias``, if ``elementwise_affine``.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    weight, bias : Parameter or None
        Shape ``normalized_shape``, initialized to 1 and 0.

    Examples
    --------
    >>> nn.LayerNorm(512)(tensor.randn(20, 5, 512)).shape
    tensor.Size([20, 5, 512])
    """

    normalized_shape: tuple[int, ...]

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape_of(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.add_parameters(
            self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype
        )
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """Normalize an input of shape ``(..., *normalized_shape)``.

        Raises
        ------
        RuntimeError
            If its last dimensions differ from ``normalized_shape``.
        """
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: options."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Affine):
    """Root mean square normalization over the last dimensions (Zhang and Sennrich, 2019).

    ``x / sqrt(mean(x ** 2) + eps) * weight``: as :class:`LayerNorm`, without the subtraction of the mean.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        Sizes of the last dimensions, over which the mean square is computed.
    eps : float, optional
        Added to the mean square; by default the machine epsilon of the input's dtype.
    elementwise_affine : bool
        Whether there is a ``weight``.
    device, dtype
        Of the weight.

    Attributes
    ----------
    weight : Parameter or None
        Shape ``normalized_shape``, initialized to 1.
    """

    normalized_shape: tuple[int, ...]

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape_of(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.add_parameters(self.normalized_shape, elementwise_affine, None, device, dtype)
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """Normalize an input ``x`` of shape ``(..., *normalized_shape)``.

        Raises
        ------
        RuntimeError
            If its last dimensions differ from ``normalized_shape``.
        """
        return functional.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: options."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Affine):
    """Group normalization: mean and variance over groups of channels of each sample (Wu and He, 2018).

    ``(x - mean) / sqrt(var + eps) * weight + bias``, with the biased variance. One group is layer normalization, a
    group for each channel instance normalization.

    Parameters
    ----------
    num_groups : int
        Number of groups, which divides ``num_channels``.
    num_channels : int
        Channels C of inputs of shape (N, C, ...).
    eps : float
        Added to the variance.
    affine : bool
        Whether there are ``weight`` and ``bias``.
    device, dtype
        Of the parameters.
    bias : bool
        Whether there is a ``bias``, if ``affine``.

    Attributes
    ----------
    weight, bias : Parameter or None
        Shape (C,), initialized to 1 and 0.

    Raises
    ------
    ValueError
        If ``num_channels`` is not divisible by ``num_groups``.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self.add_parameters(num_channels, affine, affine and bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """Normalize an input of shape (N, C, ...).

        Raises
        ------
        RuntimeError
            If its channels are not divisible by ``num_groups``.
        """
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: options."""
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"


class LocalResponseNorm(Module):
    """Local response normalization over neighbouring channels (Krizhevsky, Sutskever and Hinton, 2012).

    ``x / (k + alpha / size * sum(x ** 2)) ** beta``, with the sum over ``size`` channels around each.

    Parameters
    ----------
    size : int
        Number of channels in the sum; channels outside count as 0.
    alpha, beta, k : float
        Constants of the formula.

    Raises
    ------
    ValueError
        When it is called, if the input has fewer than 3 dimensions.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """Normalize an input of shape (N, C, ...).

        Parameters
        ----------
        input : Tensor
            Of at least 3 dimensions.

        Returns
        -------
        Tensor
            Of the input's shape.

        Raises
        ------
        ValueError
            If the input has less than 3 dimensions.
        """
        return functional.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: options."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """Older name of :class:`LocalResponseNorm`.

    Parameters
    ----------
    size, alpha, beta, k
        See that class.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)
