"""Adamax."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .stepping import (
    SteppingOptimizer,
    at_least_zero,
    check_betas,
    decayed,
    number_of,
    sign,
    step,
    step_with_states,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor import Tensor


@step("""
    const W g = decayed(sign, weight_decay, W(1), grad, p);
    exp_avg += one_minus_beta1 * (g - exp_avg);
    exp_inf = greater(beta2 * exp_inf, magnitude(g) + eps);
    p -= step_size * (exp_avg / exp_inf);
""")
def adamax_step(
    p: Any,
    grad: Any,
    exp_avg: Any,
    exp_inf: Any,
    *,
    sign: float,
    weight_decay: float,
    one_minus_beta1: float,
    beta2: float,
    eps: float,
    step_size: float,
) -> None:
    """Adam with the infinity norm; ``step_size`` is ``lr / (1 - beta1 ** t)``."""
    g = decayed(sign, weight_decay, 1.0, grad, p)
    exp_avg += one_minus_beta1 * (g - exp_avg)
    exp_inf *= beta2
    np.maximum(exp_inf, np.abs(g) + eps, out=exp_inf)
    p -= step_size * (exp_avg / exp_inf)


class Adamax(SteppingOptimizer):
    """Adamax, the variant of Adam with the infinity norm.

    ``m = beta1 * m + (1 - beta1) * g``, ``u = max(beta2 * u, abs(g) + eps)`` and
    ``p -= lr / (1 - beta1 ** t) * m / u`` at step t.

    Parameters
    ----------
    params : iterable
        Parameters or groups; see :class:`Optimizer`.
    lr : float or Tensor
        Learning rate.
    betas : tuple of two floats
        Decay rates of the running average and of the norm.
    eps : float
        Added to the magnitude of the gradient.
    weight_decay : float
        L2 penalty.
    maximize : bool
        Whether to maximize the objective.
    foreach, capturable, differentiable
        Accepted for compatibility; ``differentiable=True`` raises NotImplementedError.

    Raises
    ------
    ValueError
        If a number is negative, or a decay rate not in [0, 1).

    References
    ----------
    Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2014.
    """

    _step_supports_amp_scaling = True
    absent = SteppingOptimizer.absent | {"capturable": False}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        at_least_zero(lr, "learning rate")
        at_least_zero(eps, "epsilon value")
        check_betas(betas)
        at_least_zero(weight_decay, "weight_decay value")
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """See :meth:`SteppingOptimizer.update`."""
        beta1, beta2 = group["betas"]
        lr = number_of(group["lr"], params)
        for t, operands in self.counted(group, params, grads, ("exp_avg", "exp_inf")):
            self.apply(
                adamax_step,
                operands,
                sign=sign(group),
                weight_decay=float(group["weight_decay"]),
                one_minus_beta1=1 - beta1,
                beta2=beta2,
                eps=float(group["eps"]),
                step_size=lr / (1 - beta1**t),
            )


def adamax(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_infs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
) -> None:
    """A step of :class:`Adamax` in place, with states that the caller keeps: its function form.

    Parameters
    ----------
    params, grads : list of Tensor
        Parameters and their gradients.
    exp_avgs, exp_infs, state_steps : list of Tensor
        States for each parameter, as state dicts have them.
    eps, beta1, beta2, lr, weight_decay, maximize
        Options of :class:`Adamax`.
    foreach, differentiable, capturable, has_complex
        Accepted for compatibility; ``differentiable=True`` raises.

    Raises
    ------
    NotImplementedError
        If ``differentiable``.
    RuntimeError
        If counts of steps are not tensors, or a gradient is sparse.
    """
    step_with_states(
        Adamax,
        params,
        grads,
        {"exp_avg": exp_avgs, "exp_inf": exp_infs, "step": state_steps},
        {"eps": eps, "lr": lr, "weight_decay": weight_decay, "maximize": maximize, "betas": (beta1, beta2)},
        differentiable=differentiable,
    )
