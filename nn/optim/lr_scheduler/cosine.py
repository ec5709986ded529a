"""Schedules that follow a cosine."""

# ruff: noqa: N803 - names of arguments are PyTorch's

from __future__ import annotations

from math import cos, floor, log, pi
from typing import TYPE_CHECKING

from tensor.core.plans.steps import repeated

from .base import LRScheduler, Rate

if TYPE_CHECKING:
    from nn.optim.optimizer import Optimizer


class CosineAnnealingLR(LRScheduler):
    """Cosine annealing: from the initial learning rate to ``eta_min`` in ``T_max`` epochs, and back.

    ``eta_min + (initial - eta_min) * (1 + cos(pi * epoch / T_max)) / 2``, computed from the current learning rate, so
    that changes by other schedulers persist.

    Parameters
    ----------
    optimizer : Optimizer
        Wrapped optimizer.
    T_max : int
        Epochs from the maximum to the minimum.
    eta_min : float
        Minimum learning rate.
    last_epoch : int
        Index of the last epoch when training is resumed; -1 to start.

    References
    ----------
    Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2016; without the restarts.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """See :meth:`LRScheduler.get_lr`."""
        if self._is_initial:
            return self._scaled()
        self._warn_outside()
        epoch, groups, eta_min = self.last_epoch, self.optimizer.param_groups, self.eta_min
        if self._step_count == 1 and epoch > 0:
            return self._get_closed_form_lr()
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # The last one was the least: no factor leads away from it.
            rise = (1 - cos(pi / self.T_max)) / 2
            return [
                group["lr"] + (rate - eta_min) * rise
                for rate, group in zip(self.base_lrs, groups, strict=True)
            ]
        factor = (1 + cos(pi * epoch / self.T_max)) / (1 + cos(pi * (epoch - 1) / self.T_max))
        return [factor * (group["lr"] - eta_min) + eta_min for group in groups]

    def _get_closed_form_lr(self) -> list[Rate]:
        height = (1 + cos(pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (rate - self.eta_min) * height for rate in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing with warm restarts: from the initial learning rate to ``eta_min``, then the same again.

    Parameters
    ----------
    optimizer : Optimizer
        Wrapped optimizer.
    T_0 : int
        Epochs until the first restart.
    T_mult : int
        Factor of the number of epochs after each restart.
    eta_min : float
        Minimum learning rate.
    last_epoch : int
        Index of the last epoch when training is resumed; -1 to start.

    Raises
    ------
    ValueError
        If ``T_0`` or ``T_mult`` is not a positive int, or ``eta_min`` is not a number.

    References
    ----------
    Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2016.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """See :meth:`LRScheduler.get_lr`."""
        self._warn_outside()
        height = (1 + cos(pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (rate - self.eta_min) * height for rate in self.base_lrs]

    @repeated
    def step(self, epoch: float | None = None) -> None:
        """Advance to the next epoch, or to ``epoch``, and set its learning rates.

        Parameters
        ----------
        epoch : float, optional
            May be fractional, such as ``epoch + batch / batches`` to anneal within an epoch.

        Raises
        ------
        ValueError
            If it is negative.
        """
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        elif epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            # After n restarts there were T_0 * (1 + T_mult + ... + T_mult^(n-1)) epochs.
            times = self.T_mult - 1
            n = int(log(epoch / self.T_0 * times + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / times
            self.T_i = self.T_0 * self.T_mult**n
        self.last_epoch = floor(epoch)
        with self._within_step():
            rates = self.get_lr()
        self._set(rates)
