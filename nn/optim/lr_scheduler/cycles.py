"""Schedules for every batch, of the momentum too: cycles, and one cycle."""

from __future__ import annotations

from math import cos, floor, pi
from typing import TYPE_CHECKING, Any

from tensor import Tensor

from .base import LRScheduler, Rate, checked_optimizer, for_each_group, set_rate, state_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from nn.optim.optimizer import Optimizer


def _prepare_momentum(
    optimizer: Optimizer, base_momentum: Any, max_momentum: Any, last_epoch: int
) -> tuple[bool, list[float], list[float]]:
    """Whether the momentum is a beta, and for each group the least and the greatest, which it begins with."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
    is_beta = "betas" in optimizer.defaults
    least = for_each_group("base_momentum", optimizer, base_momentum)
    greatest = for_each_group("max_momentum", optimizer, max_momentum)
    if last_epoch == -1:
        for group, low, high in zip(optimizer.param_groups, least, greatest, strict=True):
            _set_momentum(group, is_beta, high)
            group["max_momentum"] = high
            group["base_momentum"] = low
    return is_beta, least, greatest


def _set_momentum(group: dict[str, Any], is_beta: bool, value: float) -> None:
    if is_beta:
        beta, *others = group["betas"]
        if isinstance(beta, Tensor):
            # In place: a CUDA graph of the step may read it.
            beta.fill_(value)
        else:
            group["betas"] = (value, *others)
    else:
        group["momentum"] = value


class CyclicLR(LRScheduler):
    """Cyclical learning rates: the learning rate goes up and down between two bounds, the momentum down and up.

    Step it after each batch.

    Parameters
    ----------
    optimizer : Optimizer
        Wrapped optimizer.
    base_lr, max_lr : float or list of float
        Lower and upper bound, for all groups or for each.
    step_size_up, step_size_down : int
        Batches of the increasing and the decreasing half of a cycle; the second is equal to the first by default.
    mode : str
        ``"triangular"`` for cycles of equal amplitude, ``"triangular2"`` if it halves after each cycle,
        ``"exp_range"`` if it is ``gamma`` to the power of the number of batches.
    gamma : float
        For ``"exp_range"``.
    scale_fn : callable, optional
        The amplitude as a function of the number of the cycle, from 1, or of batches; replaces ``mode``.
    scale_mode : str
        Argument of ``scale_fn``: ``"cycle"`` or ``"iterations"``.
    cycle_momentum : bool
        Whether the momentum (or the first beta) cycles between ``max_momentum`` and ``base_momentum``.
    base_momentum, max_momentum : float or list of float
        Bounds of the momentum, for all groups or for each.
    last_epoch : int
        Index of the last batch when training is resumed; -1 to start.

    Raises
    ------
    ValueError
        If ``mode`` is unknown, a list has not a value for each group, or the optimizer has no momentum to cycle.

    References
    ----------
    Smith, "Cyclical Learning Rates for Training Neural Networks", 2015.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        checked_optimizer(optimizer)
        base_lrs = for_each_group("base_lr", optimizer, base_lr)
        self.max_lrs = for_each_group("max_lr", optimizer, max_lr)
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ValueError(
                f"mode is invalid and scale_fn is None: expected 'triangular', 'triangular2' or 'exp_range', got {mode!r}"
            )
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1, self.base_momentums, self.max_momentums = _prepare_momentum(
                optimizer, base_momentum, max_momentum, last_epoch
            )
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, base_lrs, strict=True):
                set_rate(group, rate)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """Amplitude at ``x``, the number of a cycle (from 1) or of a batch, as ``scale_mode`` says.

        What ``mode`` or the argument ``scale_fn`` says. It multiplies the distance of the learning rate from ``base_lr``.
        """
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular2":
            return float(1 / 2.0 ** (x - 1))
        return float(self.gamma**x) if self.mode == "exp_range" else 1.0

    def get_lr(self) -> list[Rate]:
        """See :meth:`LRScheduler.get_lr`; sets the momentum too."""
        self._warn_outside()
        cycle = floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True
            ):
                _set_momentum(group, self.use_beta1, high - (high - low) * height)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """See :meth:`LRScheduler.state_dict`; holds the attributes of a callable object, and nothing of a function."""
        return super().state_dict() | {"_scale_fn_custom": state_of(self._scale_fn_custom)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """See :meth:`LRScheduler.load_state_dict`."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        attributes = state_dict.get("_scale_fn_custom")
        if attributes is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(attributes)


class OneCycleLR(LRScheduler):
    """1cycle policy: up to ``max_lr``, and down to a learning rate far below the initial one, over the whole training.

    Step it after each batch.

    Parameters
    ----------
    optimizer : Optimizer
        Wrapped optimizer.
    max_lr : float or list of float
        Maximum learning rate, for all groups or for each.
    total_steps : int, optional
        Number of batches.
    epochs, steps_per_epoch : int, optional
        Their product is the number of batches, if ``total_steps`` is not given.
    pct_start : float
        Part of the batches in which the learning rate increases.
    anneal_strategy : str
        ``"cos"`` or ``"linear"``.
    cycle_momentum : bool
        Whether the momentum (or the first beta) goes from ``max_momentum`` to ``base_momentum`` and back.
    base_momentum, max_momentum : float or list of float
        Bounds of the momentum, for all groups or for each.
    div_factor : float
        The initial learning rate is ``max_lr / div_factor``.
    final_div_factor : float
        The final learning rate is the initial one divided by this.
    three_phase : bool
        Whether it decreases to the initial learning rate as fast as it increased, and then to the final one.
    last_epoch : int
        Index of the last batch when training is resumed; -1 to start.

    Raises
    ------
    ValueError
        If the number of batches is not determined or not positive, ``pct_start`` is not in [0, 1], or the strategy is
        unknown.

    References
    ----------
    Smith and Topin, "Super-Convergence: Very Fast Training of Neural Networks Using Large Learning Rates", 2017.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        checked_optimizer(optimizer)
        self.total_steps = _total(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        rise = pct_start * self.total_steps
        self._schedule_phases = [_phase(rise - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum")]
        if three_phase:
            self._schedule_phases += [
                _phase(2 * rise - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                _phase(self.total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            self._schedule_phases.append(
                _phase(self.total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")
            )
        self._anneal_func_type = anneal_strategy
        rates = for_each_group("max_lr", optimizer, max_lr)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1, *_ = _prepare_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["initial_lr"] = rate / div_factor
                group["max_lr"] = rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        super().__init__(optimizer, last_epoch)

    def _between(self, start: Any, end: Any, part: float) -> Any:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (cos(pi * part) + 1)
        return (end - start) * part + start

    def get_lr(self) -> list[Rate]:
        """See :meth:`LRScheduler.get_lr`; sets the momentum as well.

        Raises
        ------
        ValueError
            After the last batch.
        """
        self._warn_outside()
        number = self.last_epoch
        if number > self.total_steps:
            raise ValueError(
                f"Tried to step {number} times. The specified number of total steps is {self.total_steps}"
            )
        begin = 0.0
        for phase in self._schedule_phases[:-1]:
            if number <= phase["end_step"]:
                break
            begin = phase["end_step"]
        else:
            phase = self._schedule_phases[-1]
        part = (number - begin) / (phase["end_step"] - begin)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                start, end = group[phase["start_momentum"]], group[phase["end_momentum"]]
                _set_momentum(group, self.use_beta1, self._between(start, end, part))
        return rates


def _phase(end: float, start_lr: str, end_lr: str, start_momentum: str, end_momentum: str) -> dict[str, Any]:
    """A phase of the cycle: the batch at its end, and the options of a group that it interpolates between."""
    return {
        "end_step": end,
        "start_lr": start_lr,
        "end_lr": end_lr,
        "start_momentum": start_momentum,
        "end_momentum": end_momentum,
    }


def _total(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total_steps is None and (epochs is None or steps_per_epoch is None):
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    if total_steps is not None:
        return _positive("total_steps", total_steps)
    return _positive("epochs", epochs) * _positive("steps_per_epoch", steps_per_epoch)


def _positive(name: str, value: Any) -> int:
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"Expected positive integer {name}, but got {value}")
    return value
