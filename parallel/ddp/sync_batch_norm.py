"""``SyncBatchNorm``: batch normalisation over the batches of all ranks together.

Forward, each rank finds the mean and variance of each channel of its own samples; with the number of samples they are
gathered, and every rank combines them alike. Backward, the two sums of each channel that the gradient of the input
needs are summed over the ranks. Ranks may have batches of different sizes, and empty ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensor
from nn.layers.normalization import _BatchNorm
from nvrtc_kernels.normalization import statistics_type
from parallel.groups.collectives.tensor_collectives import all_gather_into_tensor, all_reduce
from parallel.groups.process_groups import checked_group, get_world_size, is_initialized
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.operations.normalization import batch_normalization as operations

if TYPE_CHECKING:
    from nn import Module
    from parallel.groups.process_groups import ProcessGroup
    from tensor import Tensor

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over the batches of all ranks together: ``(N, C, ...)`` to the same shape.

    Each channel gets mean 0 and variance 1 over the samples of all ranks, times a weight and plus a bias. In
    evaluation, and without a process group of several ranks, it is what ``nn.BatchNorm1d`` and its like are. Ranks may
    have batches of different sizes, and empty ones; where all are empty, the running averages stay as they are. It has
    no second derivatives.

    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
    >>> model = parallel.SyncBatchNorm.convert_sync_batchnorm(model)
    >>> type(model[1]).__name__
    'SyncBatchNorm'
    >>> model = parallel.DistributedDataParallel(model)  # in a process group

    Parameters
    ----------
    num_features : int
        Channels C of the input.
    eps : float
        Added to the variance.
    momentum : float or None
        Weight of a batch in the running averages; None for the plain average over all batches.
    affine : bool
        Whether there are weights and biases, ``(C,)``. Their gradients are those of this rank's samples, for
        :class:`parallel.DistributedDataParallel` to average.
    track_running_stats : bool
        Whether there are running averages, which are used in evaluation.
    process_group : ProcessGroup, optional
        The ranks whose batches count; all by default.
    device, dtype
        Of parameters and buffers.
    bias : bool
        Whether there are biases, if ``affine``.

    Raises
    ------
    ValueError
        In a forward pass, if the input has less than two dimensions or another number of channels.
    DistBackendError
        In a forward or backward pass, if a rank died or did not come in time.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: ProcessGroup | None = None,
        device: Any = None,
        dtype: tensor.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        """The normalised input, of its shape ``(N, C, ...)`` and dtype.

        Raises
        ------
        ValueError
            If the input has less than two dimensions, or another number of channels than ``num_features``.
        DistBackendError
            If a rank died or did not come in time.
        """
        self._check_input_dim(input)
        if input.size(1) != self.num_features:
            raise ValueError(
                f"SyncBatchNorm expects input with {self.num_features} channels, got shape {list(input.shape)}"
            )
        if not (self.training and is_initialized()):
            return super().forward(input)
        ranks = checked_group(self.process_group)
        if get_world_size(ranks) == 1:
            return super().forward(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        return _normalize(
            input, self.weight, self.bias, self.running_mean, self.running_var, momentum, self.eps, ranks
        )

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: ProcessGroup | None = None) -> Module:
        """Replace all batch normalisation layers in ``module`` by layers of this class with the same state.

        Parameters
        ----------
        module : Module
            Any module; other layers are left as they are.
        process_group : ProcessGroup, optional
            The ranks whose batches count; all by default.

        Returns
        -------
        Module
            ``module`` itself, or its replacement if it is such a layer.
        """
        converted: Module = module
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            replacement = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
            )
            replacement.weight, replacement.bias = module.weight, module.bias
            replacement.running_mean, replacement.running_var = module.running_mean, module.running_var
            replacement.num_batches_tracked = module.num_batches_tracked
            replacement.training = module.training
            converted = replacement
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted


def _normalize(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    ranks: ProcessGroup,
) -> Tensor:
    """The normalised input, recorded; running averages are updated."""
    x = operations.packed(input)
    layout = x._layout
    plans = layout.device_state.plans
    with tensor.no_grad():
        mean, var, count = _moments(x, ranks)
        total = count.clamp(min=1)
        # No value has no mean, and a single one no variance: nothing enters the running averages then.
        if running_mean is not None:
            weight_of_mean = count.clamp(max=1) * momentum
            running_mean.lerp_(mean.to(running_mean.dtype), weight_of_mean.to(running_mean.dtype))
        if running_var is not None:
            others = count - 1
            unbiased = var * (total / others.clamp(min=1))
            weight_of_var = others.clamp(0, 1) * momentum
            running_var.lerp_(unbiased.to(running_var.dtype), weight_of_var.to(running_var.dtype))
        w = None if weight is None else weight.detach().contiguous()
        b = None if bias is None else bias.detach().contiguous()
        layouts = [None if each is None else each._layout for each in (mean, var, w, b)]
        output: Tensor = plans[(operations.APPLY, layout, *layouts)](x, mean, var, w, b, eps)
    context = None if bias is None else bias.dtype, eps, ranks
    _FORMULA.record((output,), (input, weight, bias), (mean, var, total), context)
    return output


def _moments(x: Tensor, ranks: ProcessGroup) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and variance (biased) of each channel over all ranks, and how many values they are of, ``(1,)``.

    Without values both are 0.
    """
    layout = x._layout
    channels = layout.shape[1]
    count = layout.numel // channels if channels else 0
    dtype = statistics_type(layout.dtype)
    local = tensor.zeros(2 * channels + 1, dtype=dtype, device=layout.device)
    if count:
        var, mean = layout.device_state.plans[operations.MOMENTS, layout](x)
        local[:channels] = mean
        local[channels:-1] = var
        local[-1] = count
    size = get_world_size(ranks)
    gathered = tensor.empty(size, len(local), dtype=dtype, device=layout.device)
    all_gather_into_tensor(gathered, local, group=ranks)
    means, variances, counts = gathered.split([channels, channels, 1], 1)
    count_of_all = counts.sum(0)
    shares = counts / count_of_all.clamp(min=1)
    mean = (means * shares).sum(0)
    # The variance of all is the mean of the ranks', and the variance of their means.
    away = means - mean
    return mean, ((variances + away * away) * shares).sum(0), count_of_all


def _gradients(
    needs_grad: tuple[bool, ...],
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    var: Tensor,
    total: Tensor,
    bias: Any,
    eps: float,
    ranks: ProcessGroup,
) -> tuple[Tensor | None, ...]:
    if tensor.is_grad_enabled():
        raise RuntimeError(
            "SyncBatchNorm has no second derivatives: call backward() without create_graph=True, or use "
            "nn.BatchNorm2d and its like"
        )
    x = operations.packed(input)
    grad = operations.laid_out_like(grad, x._layout)
    layout = x._layout
    channels = layout.shape[1]
    count = layout.numel // channels if channels else 0
    plans = layout.device_state.plans
    layouts = grad._layout, layout, mean._layout, var._layout
    both = tensor.zeros(2, channels, dtype=mean.dtype, device=layout.device)
    if count:
        both[0], both[1] = plans[(operations.SUMS, *layouts)](grad, x, mean, var, eps)
    gradients: list[Tensor | None] = [None, None, None]
    if needs_grad[1] and weight is not None:
        gradients[1] = both[1].to(weight.dtype, copy=True)
    if needs_grad[2] and bias is not None:
        gradients[2] = both[0].to(bias, copy=True)
    if needs_grad[0]:
        all_reduce(both, group=ranks)
        if count:
            # The kernel takes means over this rank's values.
            both *= count / total
            w = None if weight is None else weight.detach().contiguous()
            run = plans[(operations.INPUT_GRADIENT, True, *layouts, None if w is None else w._layout)]
            gradients[0] = run(grad, x, mean, var, w, (both[0], both[1]), eps)
        else:
            gradients[0] = tensor.zeros_like(input)
    return tuple(gradients)


_FORMULA = BackwardFormula(
    "SyncBatchNormBackward",
    "input weight bias mean var total",
    joint=Derivative(_gradients, needs="input weight mean var total"),
)
