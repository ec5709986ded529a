"""Schedules that multiply the learning rate by a factor."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any

from .base import LRScheduler, Rate, checked_optimizer, state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nn.optim.optimizer import Optimizer


class LambdaLR(LRScheduler):
    """The initial learning rate times ``lr_lambda(epoch)``.

    State dicts hold the attributes of callable objects, and nothing of functions.

    Parameters
    ----------
    optimizer : Optimizer
        Wrapped optimizer.
    lr_lambda : callable or list of callables
        The factor as a function of the epoch, for all groups or for each.
    last_epoch : int
        Index of the last epoch when training is resumed; -1 to start.

    Raises
    ------
    ValueError
        If a list does not have a function for each group.
    TypeError
        If one of them is not callable.

    Examples
    --------
    >>> optimizer = nn.optim.SGD(nn.Linear(4, 1).parameters(), lr=1.0)
    >>> scheduler = nn.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=lambda epoch: 0.5**epoch)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        count = len(checked_optimizer(optimizer).param_groups)
        functions = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        if len(functions) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(functions)}")
        for each in functions:
            if not callable(each):
                raise TypeError(f"lr_lambda should be a function, but got {type(each).__name__}")
        self.lr_lambdas = functions
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """See :meth:`LRScheduler.state_dict`."""
        return super().state_dict() | {"lr_lambdas": [state_of(each) for each in self.lr_lambdas]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """See :meth:`LRScheduler.load_state_dict`."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, state in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if state is not None:
                function.__dict__.update(state)

    def get_lr(self) -> list[Rate]:
        """See :meth:`LRScheduler.get_lr`."""
        self._warn_outside()
        return [
            rate * function(self.last_epoch)
            for function, rate in zip(self.lr_lambdas, self.base_lrs, strict=True)
        ]


class MultiplicativeLR(LambdaLR):
    """The current learning rate times ``lr_lambda(epoch)``; the parameters are those of :class:`LambdaLR`.

    Examples
    --------
    >>> optimizer = nn.optim.SGD([nn.Parameter(tensor.ones(1))], lr=1.0)
    >>> scheduler = nn.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> optimizer.step(); scheduler.step(); scheduler.get_last_lr()
    [0.5]
    """

    def get_lr(self) -> list[Rate]:
        """See :meth:`LRScheduler.get_lr`."""
        if self._is_initial:
            return self._scaled()
        self._warn_outside()
        return [
            group["lr"] * function(self.last_epoch)
            for function, group in zip(self.lr_lambdas, self.optimizer.param_groups, strict=True)
        ]


class StepLR(LRScheduler):
    """The learning rate is multiplied by ``gamma`` every ``step_size`` epochs.

    Parameters
    ----------
    optimizer : Optimizer
        Wrapped optimizer.
    step_size : int
        Period of the decay, in epochs.
    gamma : float
        Factor.
    last_epoch : int
        Index of the last epoch when training is resumed; -1 to start.
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """See :meth:`LRScheduler.get_lr`."""
        due = self.last_epoch != 0 and self.last_epoch % self.step_size == 0
        return self._scaled(self.gamma if due else 1.0)

    def _get_closed_form_lr(self) -> list[Rate]:
        return [rate * self.gamma ** (self.last_epoch // self.step_size) for rate in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The learning rate is multiplied by ``gamma`` at each epoch of ``milestones``.

    Parameters
    ----------
    optimizer : Optimizer
        Wrapped optimizer.
    milestones : iterable of int
        Epochs; one that is listed twice counts twice.
    gamma : float
        Factor.
    last_epoch : int
        Index of the last epoch when training is resumed; -1 to start.
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """See :meth:`LRScheduler.get_lr`."""
        # A milestone may be given several times. A loaded state dict may have plain dicts.
        return self._scaled(self.gamma ** self.milestones.get(self.last_epoch, 0))

    def _get_closed_form_lr(self) -> list[Rate]:
        passed = bisect_right(sorted(Counter(self.milestones).elements()), self.last_epoch)
        return [rate * self.gamma**passed for rate in self.base_lrs]


class ConstantLR(LRScheduler):
    """The learning rate is multiplied by ``factor`` until epoch ``total_iters``.

    Parameters
    ----------
    optimizer : Optimizer
        Wrapped optimizer.
    factor : float
        In [0, 1].
    total_iters : int
        Epoch from which the factor is 1.
    last_epoch : int
        Index of the last epoch when training is resumed; -1 to start.

    Raises
    ------
    ValueError
        If ``factor`` is not in [0, 1].
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """See :meth:`LRScheduler.get_lr`."""
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        return self._scaled(1.0 / self.factor if self.last_epoch == self.total_iters else 1.0)

    def _get_closed_form_lr(self) -> list[Rate]:
        factor = self.factor if self.last_epoch < self.total_iters else 1.0
        return [rate * factor for rate in self.base_lrs]


class LinearLR(LRScheduler):
    """The learning rate is multiplied by a factor that changes linearly in the first epochs, such as a warm-up.

    Parameters
    ----------
    optimizer : Optimizer
        Wrapped optimizer.
    start_factor : float
        Factor at epoch 0, in (0, 1].
    end_factor : float
        Factor from epoch ``total_iters`` on, in [0, 1].
    total_iters : int
        Epochs of the change.
    last_epoch : int
        Index of the last epoch when training is resumed; -1 to start.

    Raises
    ------
    ValueError
        If a factor is out of range.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal to 1."
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        """Factor of the initial learning rate."""
        part = min(epoch, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * part

    def get_lr(self) -> list[Rate]:
        """See :meth:`LRScheduler.get_lr`."""
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._scaled()
        return self._scaled(self._factor(self.last_epoch) / self._factor(self.last_epoch - 1))

    def _get_closed_form_lr(self) -> list[Rate]:
        return [rate * self._factor(self.last_epoch) for rate in self.base_lrs]


class ExponentialLR(LRScheduler):
    """The learning rate is multiplied by ``gamma`` every epoch.

    Parameters
    ----------
    optimizer : Optimizer
        Wrapped optimizer.
    gamma : float
        Factor.
    last_epoch : int
        Index of the last epoch when training is resumed; -1 to start.
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """See :meth:`LRScheduler.get_lr`."""
        return self._scaled(1.0 if self._is_initial else self.gamma)

    def _get_closed_form_lr(self) -> list[Rate]:
        return [rate * self.gamma**self.last_epoch for rate in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Polynomial decay to 0: the initial learning rate times ``(1 - epoch / total_iters) ** power``.

    Parameters
    ----------
    optimizer : Optimizer
        Wrapped optimizer.
    total_iters : int
        Epochs of the decay.
    power : float
        Power of the polynomial.
    last_epoch : int
        Index of the last epoch when training is resumed; -1 to start.
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """See :meth:`LRScheduler.get_lr`."""
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._scaled()
        left = self.total_iters - self.last_epoch
        return self._scaled((left / (left + 1)) ** self.power)

    def _get_closed_form_lr(self) -> list[Rate]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [rate * left**self.power for rate in self.base_lrs]
