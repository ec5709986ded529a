"""Schedules composed of others: one after another, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from tensor.core.plans.steps import repeated

from .base import LRScheduler, copied, current_rates, set_rate
from .plateau import ReduceLROnPlateau

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nn.optim.optimizer import Optimizer


class _Combined(LRScheduler):
    """Base class of schedulers that hold several schedulers of one optimizer."""

    _schedulers: Sequence[LRScheduler]

    def _check(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None) -> Optimizer:
        name = type(self).__name__
        if len(schedulers) < 1:
            raise ValueError(f"{name} expects at least one scheduler, but got no scheduler.")
        for number, each in enumerate(schedulers):
            if not hasattr(each, "optimizer"):
                raise TypeError(f"{name} at index {number} should have `optimizer` as its attribute.")
            if isinstance(each, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be specified "
                    f"when calling `step`, but got one at index {number} in the given schedulers sequence."
                )
            optimizer = optimizer or each.optimizer
            if each.optimizer is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                    f"{type(each).__name__} at index {number} of another {type(each.optimizer).__name__}."
                )
        assert optimizer is not None
        return optimizer

    def state_dict(self) -> dict[str, Any]:
        """See :meth:`LRScheduler.state_dict`; with the state dicts of all schedulers."""
        return super().state_dict() | {"_schedulers": [each.state_dict() for each in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """See :meth:`LRScheduler.load_state_dict`."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for each, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            each.load_state_dict(state)


class SequentialLR(_Combined):
    """Runs schedulers one after another, each from its milestone on.

    Parameters
    ----------
    optimizer : Optimizer
        Wrapped optimizer.
    schedulers : list of LRScheduler
        Schedulers of this optimizer.
    milestones : list of int
        Epochs at which the second, third, ... scheduler starts with its epoch 0.
    last_epoch : int
        Index of the last epoch when training is resumed; -1 to start.

    Raises
    ------
    ValueError
        If the schedulers are not one more than the milestones, one is of another optimizer, or a ReduceLROnPlateau.
    TypeError
        If one has no ``optimizer``.

    Examples
    --------
    >>> optimizer = nn.optim.SGD(nn.Linear(4, 1).parameters(), lr=1.0)
    >>> warmup = nn.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=5)
    >>> decay = nn.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
    >>> scheduler = nn.optim.lr_scheduler.SequentialLR(optimizer, schedulers=[warmup, decay], milestones=[5])
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        self._check(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone "
                f"points, but got number of schedulers {len(schedulers)} and the number of milestones to be equal to "
                f"{len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Every scheduler has set its initial learning rates when it was constructed; only the first one should have.
        for group in optimizer.param_groups:
            set_rate(group, copied(group["initial_lr"]))
        _take_back(self)
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    @repeated
    def step(self) -> None:  # type: ignore[override]
        """Advance to the next epoch and set its learning rates."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _take_back(scheduler: LRScheduler) -> None:
    """Undo the initial step of every scheduler in ``scheduler``, recursively."""
    if isinstance(scheduler, _Combined):
        for each in scheduler._schedulers:
            _take_back(each)
    else:
        scheduler.last_epoch -= 1


class ChainedScheduler(_Combined):
    """Runs all schedulers at every epoch, each on the result of the one before it.

    Parameters
    ----------
    schedulers : sequence of LRScheduler
        Schedulers of one optimizer.
    optimizer : Optimizer, optional
        That optimizer.

    Raises
    ------
    ValueError
        If there is none, they are of several optimizers, or one is a ReduceLROnPlateau.
    TypeError
        If one has no ``optimizer``.
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self.optimizer = self._check(schedulers, optimizer)
        self._schedulers = schedulers
        self._last_lr = current_rates(self.optimizer)

    @repeated
    def step(self) -> None:  # type: ignore[override]
        """Advance to the next epoch and set its learning rates."""
        for each in self._schedulers:
            each.step()
        self._last_lr = current_rates(self.optimizer)
