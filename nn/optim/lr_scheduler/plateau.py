"""A schedule that follows a metric."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, SupportsFloat

from .base import LRScheduler, checked_optimizer, current_rates, set_rate, warn_of_epoch

if TYPE_CHECKING:
    from nn.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the learning rate by ``factor`` when a metric has stopped improving.

    Parameters
    ----------
    optimizer : Optimizer
        Wrapped optimizer.
    mode : str
        ``"min"`` if a lower metric is better, ``"max"`` if a higher one is.
    factor : float
        Factor of the learning rate, less than 1.
    patience : int
        Number of epochs without improvement that are tolerated.
    threshold : float
        Improvement over the best metric that counts.
    threshold_mode : str
        ``"rel"`` if the threshold is a part of the best metric, ``"abs"`` if it is a difference.
    cooldown : int
        Number of epochs after a reduction that do not count.
    min_lr : float or list of float
        Lower bound of the learning rate, for all groups or for each.
    eps : float
        A smaller reduction is not carried out.

    Raises
    ------
    ValueError
        If ``factor`` is not less than 1, a mode is unknown, or ``min_lr`` has not a value for each group.

    Examples
    --------
    >>> optimizer = nn.optim.SGD(nn.Linear(4, 1).parameters(), lr=1.0)
    >>> scheduler = nn.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "min", factor=0.5, patience=1)
    >>> for validation_loss in (3.0, 2.0, 2.0, 2.0):
    ...     optimizer.step()  # where the epoch trains
    ...     scheduler.step(validation_loss)
    >>> scheduler.get_last_lr()
    [0.5]
    """

    keeps_books: ClassVar[frozenset[str]] = frozenset({"best", "cooldown_counter", "num_bad_epochs"})

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.factor = factor
        self.optimizer = checked_optimizer(optimizer)
        count = len(optimizer.param_groups)
        is_list = isinstance(min_lr, (list, tuple))
        self.default_min_lr = None if is_list else min_lr
        self.min_lrs: list[Any] = list(min_lr) if isinstance(min_lr, (list, tuple)) else [min_lr] * count
        if len(self.min_lrs) != count:
            raise ValueError(f"expected {count} min_lrs, got {len(self.min_lrs)}")
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = current_rates(optimizer)
        self.mode_worse = inf if mode == "min" else -inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether the last reduction is less than ``cooldown`` epochs ago."""
        return self.cooldown_counter > 0

    def step(self, metrics: SupportsFloat, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take the metric of an epoch into account.

        Parameters
        ----------
        metrics : float or Tensor
            The metric.
        epoch : int, optional
            Deprecated.

        Raises
        ------
        RuntimeError
            If groups were added to the optimizer since ``min_lr`` was passed as a list.
        """
        current = float(metrics)
        if epoch is not None:
            warn_of_epoch()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = current_rates(self.optimizer)

    def _is_better(self, current: float) -> bool:
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "rel":
            limit = self.best * (1 + sign * self.threshold)
        else:
            limit = self.best + sign * self.threshold
        return current > limit if self.mode == "max" else current < limit

    def _reduce(self) -> None:
        groups = self.optimizer.param_groups
        if len(self.min_lrs) != len(groups):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when `ReduceLROnPlateau` was "
                    f"initialized ({len(self.min_lrs)}), usually due to a new param group being added to the optimizer. Please "
                    "modify the `min_lrs` field to match the length of the `optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, min_lr in zip(groups, self.min_lrs, strict=True):
            old_lr = float(group["lr"])
            new_lr = max(old_lr * self.factor, min_lr)
            if old_lr - new_lr > self.eps:
                set_rate(group, new_lr)
