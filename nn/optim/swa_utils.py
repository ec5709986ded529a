"""Averages of models over the steps of training: stochastic weight averaging (SWA) and exponential moving averages (EMA)."""

from __future__ import annotations

from copy import deepcopy
from itertools import chain
from math import cos, pi
from typing import TYPE_CHECKING, Any

import tensor
from nn.layers.normalization import _BatchNorm
from nn.module import Module
from tensor import Tensor
from tensor.core.names.absent import hints as _hints

from .lr_scheduler.base import LRScheduler, Rate, checked_optimizer, for_each_group
from .stepping import step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from nn.optim.optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


# From the nearer end, so that a weight of 1 gives `value` itself.
@step("""
    average = weight < W(0.5) ? average + weight * (value - average) : value - (W(1) - weight) * (value - average);
""")
def weight_average_step(average: Any, value: Any, *, weight: float) -> None:
    """Linear interpolation of averages and values."""
    if weight < 0.5:
        average += weight * (value - average)
    else:
        average[...] = value - (1 - weight) * (value - average)


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _interpolates(x: Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]:
    """A function of many averages, as many new values and a number, for ``AveragedModel(..., multi_avg_fn=)``.

    It sets each average to ``decay * average + (1 - decay) * value``; on a device one launch serves many tensors.

    Raises
    ------
    ValueError
        If ``decay`` is not in [0, 1].
    """
    _check_decay(decay)

    def ema_update(averages: Sequence[Tensor], values: Sequence[Tensor], _: Any) -> None:
        with tensor.no_grad():
            if _interpolates(averages[0]):
                weight_average_step.update([averages, values], weight=1 - decay)
                return
            for average, value in zip(averages, values, strict=True):
                average.copy_(average * decay + value * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]:
    """A function of many averages, as many new values and a number, for ``AveragedModel(..., multi_avg_fn=)``.

    It sets each average of that number of values to the one that includes the new value; on a device one launch serves
    many tensors.
    """
    one = get_swa_avg_fn()

    def swa_update(averages: Sequence[Tensor], values: Sequence[Tensor], num_averaged: Tensor | int) -> None:
        with tensor.no_grad():
            if _interpolates(averages[0]):
                weight_average_step.update([averages, values], weight=1 / (int(num_averaged) + 1))
                return
            for average, value in zip(averages, values, strict=True):
                average.copy_(one(average, value, num_averaged))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Tensor, Tensor, Any], Tensor]:
    """A function that returns ``decay * average + (1 - decay) * value``, for ``AveragedModel(..., avg_fn=)``.

    Raises
    ------
    ValueError
        If ``decay`` is not in [0, 1].
    """
    _check_decay(decay)

    def ema_update(average: Tensor, value: Tensor, _: Any) -> Tensor:
        with tensor.no_grad():
            return decay * average + (1 - decay) * value

    return ema_update


def get_swa_avg_fn() -> Callable[[Tensor, Tensor, Any], Tensor]:
    """A function that returns ``average + (value - average) / (n + 1)``, for ``AveragedModel(..., avg_fn=)``.

    It takes two tensors of the same shape and the number ``n`` of models that ``average`` is of, and returns a new tensor: the
    mean of ``n + 1`` models. Nothing is recorded.
    """

    def swa_update(average: Tensor, value: Tensor, num_averaged: Tensor | int) -> Tensor:
        with tensor.no_grad():
            return average + (value - average) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of those that :meth:`update_parameters` was given.

    It is called as the model is. The first update copies parameters, the later ones average them. Functions of averaging
    are no part of state dicts.

    Parameters
    ----------
    model : Module
        Model to copy.
    device : Device, str or int, optional
        Where the copy is; by default where the model is.
    avg_fn : callable, optional
        ``avg_fn(average, value, n_averaged)`` returns the new average of a parameter. By default all updates have the
        same weight.
    multi_avg_fn : callable, optional
        ``multi_avg_fn(averages, values, n_averaged)`` updates lists of parameters in place, which have the same device
        and dtype.
    use_buffers : bool
        Whether buffers are averaged as parameters are; otherwise each update copies them.

    Attributes
    ----------
    module : Module
        The copy.
    n_averaged : Tensor
        Number of updates, of dtype int64.

    Raises
    ------
    AssertionError
        If both functions are given.

    Examples
    --------
    >>> model = nn.Linear(2, 1)
    >>> optimizer = nn.optim.SGD(model.parameters(), lr=0.1)
    >>> average = nn.optim.swa_utils.AveragedModel(
    ...     model, multi_avg_fn=nn.optim.swa_utils.get_ema_multi_avg_fn(0.99)
    ... )
    >>> for x, y in [(tensor.randn(8, 2), tensor.randn(8, 1))]:
    ...     optimizer.zero_grad()
    ...     nn.functional.mse_loss(model(x), y).backward()
    ...     optimizer.step()
    ...     average.update_parameters(model)
    >>> average.n_averaged
    tensor(1)
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[[Tensor, Tensor, Any], Tensor] | None = None,
        multi_avg_fn: Callable[[Any, Any, Any], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor.tensor(0, dtype=tensor.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged model returns for these arguments.

        Errors are those of the model. Buffers are what :meth:`update_parameters` and :func:`update_bn` left.
        """
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Average the parameters with those of ``model``, which has as many in the same order.

        Raises
        ------
        ValueError
            If the numbers of buffers differ; nothing was changed then.
        """
        with tensor.no_grad():
            buffers, new_buffers = list(self.module.buffers()), list(model.buffers())
            if len(buffers) != len(new_buffers):
                raise ValueError(
                    f"the averaged model has {len(buffers)} buffers, but the model has {len(new_buffers)}: update with the model "
                    "that was averaged"
                )
            averages: Iterable[Tensor] = self.parameters()
            values: Iterable[Tensor] = model.parameters()
            if self.use_buffers:
                averages, values = chain(self.module.parameters(), buffers), chain(values, new_buffers)
            pairs = [
                (average.detach(), value.detach().to(average.device))
                for average, value in zip(averages, values, strict=False)
            ]
            number = int(self.n_averaged)
            if number == 0:
                for average, value in pairs:
                    average.copy_(value)
            elif self.avg_fn is not None:
                for average, value in pairs:
                    average.copy_(self.avg_fn(average, value, self.n_averaged.to(average.device)))
            else:
                self._average_together(pairs, number)
            if not self.use_buffers:
                for buffer, new in zip(buffers, new_buffers, strict=True):
                    buffer.detach().copy_(new.detach())
            self.n_averaged.add_(1)

    def _average_together(self, pairs: Iterable[tuple[Tensor, Tensor]], number: int) -> None:
        groups: dict[Any, tuple[list[Tensor], list[Tensor]]] = {}
        for average, value in pairs:
            averages, values = groups.setdefault((average.device, average.dtype), ([], []))
            averages.append(average)
            values.append(value)
        for (device, _), (averages, values) in groups.items():
            if self.multi_avg_fn is None:
                get_swa_multi_avg_fn()(averages, values, number)
            else:
                self.multi_avg_fn(averages, values, self.n_averaged.to(device))


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of batch normalization anew, such as those of an averaged model.

    The model is run in training mode on each batch once; mean and variance of a layer are those over all batches. Modes
    and momenta are afterwards as they were. Without such layers nothing is run.

    Parameters
    ----------
    loader : iterable
        Batches: tensors, or lists or tuples whose first element is the model's input.
    model : Module
        Model whose statistics are computed.
    device : Device, str or int, optional
        Where batches are brought first.
    """
    with tensor.no_grad():
        momenta = {each: each.momentum for each in model.modules() if isinstance(each, _BatchNorm)}
        if not momenta:
            return
        was_training = model.training
        try:
            model.train()
            for each in momenta:
                each.reset_running_stats()
                each.momentum = None
            for batch in loader:
                input = batch[0] if isinstance(batch, (list, tuple)) else batch
                model(input if device is None else input.to(device))
        finally:
            for each, momentum in momenta.items():
                each.momentum = momentum
            model.train(was_training)


class SWALR(LRScheduler):
    """From the current learning rates to constant ones, which the steps of an averaged model are done with.

    Parameters
    ----------
    optimizer : Optimizer
        Wrapped optimizer.
    swa_lr : float or list of float
        The learning rate to come to, for all groups or for each.
    anneal_epochs : int
        Number of epochs until then.
    anneal_strategy : str
        ``"cos"`` to follow half a cosine wave, ``"linear"`` for a straight line.
    last_epoch : int
        Index of the last epoch when training is resumed; -1 to start.

    Raises
    ------
    TypeError
        If ``optimizer`` is not an Optimizer.
    ValueError
        If ``anneal_strategy`` is another, ``anneal_epochs`` is negative or no int, or a list does not have a learning
        rate for each group.

    Examples
    --------
    >>> optimizer = nn.optim.SGD(nn.Linear(4, 1).parameters(), lr=1.0)
    >>> scheduler = nn.optim.swa_utils.SWALR(
    ...     optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear"
    ... )
    >>> for epoch in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(scheduler.get_last_lr())
    [0.75]
    [0.5]
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = for_each_group("swa_lr", checked_optimizer(optimizer), swa_lr)
        if anneal_strategy not in _STRATEGIES:
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["swa_lr"] = rate
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    @property
    def anneal_func(self) -> Callable[[float], float]:
        """The share of ``swa_lr`` in the learning rate as a function of the share of epochs that are over."""
        return _STRATEGIES[self._anneal_strategy]

    def get_lr(self) -> list[Rate]:
        """See :meth:`LRScheduler.get_lr`."""
        self._warn_outside()
        epoch = self._step_count - 1
        if self.anneal_epochs == 0:
            epoch = max(1, epoch)
        before, share = (
            self.anneal_func(max(0, min(1, each / max(1, self.anneal_epochs)))) for each in (epoch - 1, epoch)
        )
        rates = []
        for group in self.optimizer.param_groups:
            rate, target = group["lr"], group["swa_lr"]
            # What the learning rate would be now without this schedule, which another one may have changed.
            initial = target if before == 1 else (rate - before * target) / (1 - before)
            rates.append(target * share + initial * (1 - share))
        return rates


def _linear(share: float) -> float:
    return share


def _cosine(share: float) -> float:
    return (1 - cos(pi * share)) / 2


_STRATEGIES = {"cos": _cosine, "linear": _linear}

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
