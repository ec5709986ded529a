"""``LRScheduler``: sets the learning rates of an optimizer's groups, epoch by epoch."""

from __future__ import annotations

import types
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from nn.optim.optimizer import Optimizer
from tensor import Tensor
from tensor.core.plans.steps import repeated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: A learning rate: a number, or a tensor with one element.
Rate = Any


class LRScheduler:
    """Base class of the schedulers, which define :meth:`get_lr`.

    Call :meth:`step` after the optimizer's, once an epoch (or once a batch, as the schedule says). Its attributes are
    its state dict.

    Parameters
    ----------
    optimizer : Optimizer
        Wrapped optimizer, whose current learning rates become ``initial_lr`` of its groups.
    last_epoch : int
        Index of the last epoch when training is resumed; -1 to start.

    Raises
    ------
    TypeError
        If ``optimizer`` is not an Optimizer.
    KeyError
        If ``last_epoch`` is set, but the groups have no ``initial_lr``.

    Examples
    --------
    >>> optimizer = nn.optim.SGD(nn.Linear(4, 1).parameters(), lr=1.0)
    >>> scheduler = nn.optim.lr_scheduler.StepLR(optimizer, step_size=30, gamma=0.1)
    >>> for epoch in range(40):
    ...     optimizer.step()  # where the epoch trains
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.1]
    """

    #: What changes with each step, which compiled functions do not read: they call the steps, each at its place. The
    #: optimizer is reached through it.
    keeps_books: ClassVar[frozenset[str]] = Optimizer.keeps_books | {
        "last_epoch", "base_lrs", "get_lr", "get_last_lr", "_last_lr"
    }  # fmt: skip
    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = checked_optimizer(optimizer)
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{number}] when resuming scheduler with last_epoch "
                    f"{last_epoch}: load the optimizer's state dict before, or begin with last_epoch=-1"
                )
        self.base_lrs: list[Rate] = [copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the initial learning rates."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimizer, by name.

        Numbers, lists of numbers, and what subclasses add. It holds the same lists, not copies of them.
        """
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore ``state_dict``, which :meth:`state_dict` returned; its entries become attributes.

        Names are not checked. The optimizer's learning rates stay as they are: its own state dict has them.
        """
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Rate]:
        """The learning rates that were set last, one for each group.

        Floats, or tensors where the groups have tensors as learning rates.
        """
        return self._last_lr

    def get_lr(self) -> list[Rate]:
        """Compute the learning rates of epoch ``last_epoch``, one for each group.

        Subclasses define it; here NotImplementedError is raised.
        """
        raise NotImplementedError(f"{type(self).__name__} has no get_lr()")

    @repeated
    def step(self, epoch: int | None = None) -> None:
        """Advance to the next epoch and set its learning rates.

        Parameters
        ----------
        epoch : int, optional
            Deprecated: the epoch to set, by the closed form of the schedule if it has one.
        """
        if self._step_count == 1 and not self.optimizer.__dict__.get(
            "_opt_called", "step" in vars(self.optimizer)
        ):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: call them in the opposite order, or the "
                "first value of the learning rate schedule is skipped",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is not None:
            warn_of_epoch()
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        with self._within_step():
            self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
            closed = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
            rates = self.get_lr() if closed is None else closed()
        self._set(rates)

    @contextmanager
    def _within_step(self) -> Iterator[None]:
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    def _set(self, rates: list[Rate]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_rate(group, rate)
        self._last_lr = current_rates(self.optimizer)

    # For get_lr() of the schedules

    def _scaled(self, factor: float = 1.0) -> list[Rate]:
        """The current learning rates times a factor."""
        self._warn_outside()
        if factor == 1.0:
            return current_rates(self.optimizer)
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _warn_outside(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=4,
            )


def checked_optimizer(optimizer: Any) -> Optimizer:
    """``optimizer``; raises TypeError if it is not an Optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


def copied(value: Any) -> Any:
    """``value``, or a copy of it where it is a tensor, which others may change."""
    return value.clone() if isinstance(value, Tensor) else value


def current_rates(optimizer: Optimizer) -> list[Rate]:
    """The current learning rates of the groups."""
    return [copied(group["lr"]) for group in optimizer.param_groups]


def set_rate(group: dict[str, Any], rate: Rate) -> None:
    """Set the learning rate of a group; a tensor is filled in place."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate.squeeze() if isinstance(rate, Tensor) else rate)
    else:
        group["lr"] = rate


def for_each_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """``value`` for every group, or a list's values one for each."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [copied(value) for _ in range(count)]
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, param_groups has "
            f"{count}."
        )
    return [copied(each) for each in value]


def state_of(function: Callable[..., Any] | None) -> dict[str, Any] | None:
    """What a state dict holds of a callable: the attributes of an object, ``None`` for a function."""
    if function is None or isinstance(function, types.FunctionType):
        return None
    return function.__dict__.copy()


def warn_of_epoch() -> None:
    """Warn that the argument ``epoch`` of ``step`` is deprecated."""
    warnings.warn(
        "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
        "`scheduler.step()` to step the scheduler. With an epoch the closed form is used, where there is one.",
        UserWarning,
        stacklevel=3,
    )
