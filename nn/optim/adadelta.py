"""Adadelta."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .stepping import SteppingOptimizer, at_least_zero, decayed, number_of, sign, step, step_with_states

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor import Tensor


@step("""
    const W g = decayed(sign, weight_decay, W(1), grad, p);
    square_avg = rho * square_avg + one_minus_rho * g * g;
    const W change = square_root(acc_delta + eps) / square_root(square_avg + eps) * g;
    acc_delta = rho * acc_delta + one_minus_rho * change * change;
    p -= lr * change;
""")
def adadelta_step(
    p: Any,
    grad: Any,
    square_avg: Any,
    acc_delta: Any,
    *,
    sign: float,
    weight_decay: float,
    rho: float,
    one_minus_rho: float,
    eps: float,
    lr: float,
) -> None:
    """Gradient descent by the ratio of the averages of squared changes and gradients."""
    g = decayed(sign, weight_decay, 1.0, grad, p)
    square_avg *= rho
    square_avg += one_minus_rho * g * g
    change = np.sqrt(acc_delta + eps)
    change /= np.sqrt(square_avg + eps)
    change *= g
    acc_delta *= rho
    acc_delta += one_minus_rho * change * change
    p -= lr * change


class Adadelta(SteppingOptimizer):
    """Adadelta: steps by the gradient times the ratio of running averages of squared updates and squared gradients.

    ``v = rho * v + (1 - rho) * g ** 2``, ``d = sqrt(u + eps) / sqrt(v + eps) * g``,
    ``u = rho * u + (1 - rho) * d ** 2`` and ``p -= lr * d``.

    Parameters
    ----------
    params : iterable
        Parameters or groups; see :class:`Optimizer`.
    lr : float or Tensor
        Factor of the update.
    rho : float
        Decay rate of the running averages.
    eps : float
        Added to both averages.
    weight_decay : float
        L2 penalty.
    maximize : bool
        Whether to maximize the objective.
    foreach, capturable, differentiable
        Accepted for compatibility; ``differentiable=True`` raises NotImplementedError.

    Raises
    ------
    ValueError
        If a number is negative, or ``rho`` not in [0, 1].

    References
    ----------
    Zeiler, "adadelta_step: An Adaptive Learning Rate Method", 2012.
    """

    _step_supports_amp_scaling = True
    absent = SteppingOptimizer.absent | {"capturable": False}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        at_least_zero(lr, "learning rate")
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        at_least_zero(eps, "epsilon value")
        at_least_zero(weight_decay, "weight_decay value")
        super().__init__(
            params,
            {
                "lr": lr,
                "rho": rho,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "capturable": capturable,
                "foreach": foreach,
                "differentiable": differentiable,
            },
        )

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """See :meth:`SteppingOptimizer.update`."""
        rho = float(group["rho"])
        self.apply(
            adadelta_step,
            [params, grads, *self.counted_together(group, params, ("square_avg", "acc_delta"))],
            sign=sign(group),
            weight_decay=float(group["weight_decay"]),
            rho=rho,
            one_minus_rho=1 - rho,
            eps=float(group["eps"]),
            lr=number_of(group["lr"], params),
        )


def adadelta(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    acc_deltas: list[Tensor],
    state_steps: list[Tensor],
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """A step of :class:`Adadelta` in place, with states that the caller keeps: its function form.

    Parameters
    ----------
    params, grads : list of Tensor
        Parameters and their gradients.
    square_avgs, acc_deltas, state_steps : list of Tensor
        States for each parameter, as state dicts have them.
    lr, rho, eps, weight_decay, maximize
        Options of :class:`Adadelta`.
    capturable, foreach, differentiable, has_complex
        Accepted for compatibility; ``differentiable=True`` raises.

    Raises
    ------
    NotImplementedError
        If ``differentiable``.
    RuntimeError
        If counts of steps are not tensors, or a gradient is sparse.
    """
    step_with_states(
        Adadelta,
        params,
        grads,
        {"square_avg": square_avgs, "acc_delta": acc_deltas, "step": state_steps},
        {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize},
        differentiable=differentiable,
    )
