"""RAdam."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .adam import MOMENTS, update_moments
from .stepping import (
    SteppingOptimizer,
    at_least_zero,
    check_betas,
    decay,
    decayed,
    number_of,
    sign,
    square_root,
    step,
    step_with_states,
    where_above,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor import Tensor

#: Length of the average of squares above which its variance is known well enough.
_LONG_ENOUGH = 5.0


@step(f"""{MOMENTS}
    p -= step_size * (rectified != 0 ? exp_avg / (square_root(exp_avg_sq) + eps) : exp_avg);
""")
def radam_step(
    p: Any,
    grad: Any,
    exp_avg: Any,
    exp_avg_sq: Any,
    *,
    sign: float,
    weight_decay: float,
    param_factor: float,
    one_minus_beta1: float,
    beta2: float,
    one_minus_beta2: float,
    eps: float,
    step_size: float,
    rectified: float,
) -> None:
    """Adam if ``rectified``, otherwise momentum."""
    g = decayed(sign, weight_decay, param_factor, grad, p)
    update_moments(g, exp_avg, exp_avg_sq, one_minus_beta1, beta2, one_minus_beta2)
    p -= step_size * (exp_avg / (np.sqrt(exp_avg_sq) + eps) if rectified else exp_avg)


class RAdam(SteppingOptimizer):
    """Rectified Adam: the adaptive learning rate is used once the variance of the averaged squares is tractable.

    Before that (while the length of the approximated simple moving average is at most 5) steps are those of momentum
    alone; afterwards the learning rate is multiplied by the rectification term.

    Parameters
    ----------
    params : iterable
        Parameters or groups; see :class:`Optimizer`.
    lr : float or Tensor
        Learning rate.
    betas : tuple of two floats
        Decay rates of the running averages of the gradient and of its square.
    eps : float
        Added to the denominator.
    weight_decay : float
        L2 penalty; with ``decoupled_weight_decay`` each step multiplies parameters by ``1 - lr * weight_decay``
        instead.
    decoupled_weight_decay : bool
        Whether weight decay is no part of the gradient.
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
    Liu et al., "On the Variance of the Adaptive Learning Rate and Beyond", 2019.
    """

    _step_supports_amp_scaling = True
    absent = SteppingOptimizer.absent | {"capturable": False, "decoupled_weight_decay": False}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
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
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "decoupled_weight_decay": decoupled_weight_decay,
                "differentiable": differentiable,
            },
        )

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """See :meth:`SteppingOptimizer.update`."""
        beta1, beta2 = group["betas"]
        longest = 2 / (1 - beta2) - 1
        lr = number_of(group["lr"], params)
        for t, operands in self.counted(group, params, grads, ("exp_avg", "exp_avg_sq")):
            correction2 = 1 - beta2**t
            length = longest - 2 * t * beta2**t / correction2
            plain = lr / (1 - beta1**t)
            self.apply(
                radam_step,
                operands,
                sign=sign(group),
                **decay(group, lr),
                one_minus_beta1=1 - beta1,
                beta2=beta2,
                one_minus_beta2=1 - beta2,
                eps=float(group["eps"]),
                step_size=where_above(
                    length,
                    _LONG_ENOUGH,
                    # Called before the next turn.
                    lambda: plain * _rectification(length, longest) * square_root(correction2),  # noqa: B023
                    lambda: plain,  # noqa: B023
                ),
                rectified=where_above(length, _LONG_ENOUGH, lambda: 1.0, lambda: 0.0),
            )


def _rectification(length: Any, longest: float) -> Any:
    """What a step is multiplied by where the variance is known well enough."""
    return square_root((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length))


def radam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
) -> None:
    """A step of :class:`RAdam` in place, with states that the caller keeps: its function form.

    Parameters
    ----------
    params, grads : list of Tensor
        Parameters and their gradients.
    exp_avgs, exp_avg_sqs, state_steps : list of Tensor
        States for each parameter, as state dicts have them.
    beta1, beta2, lr, weight_decay, eps, decoupled_weight_decay, maximize
        Options of :class:`RAdam`.
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
        RAdam,
        params,
        grads,
        {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "step": state_steps},
        {
            "lr": lr,
            "weight_decay": weight_decay,
            "eps": eps,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "betas": (beta1, beta2),
        },
        differentiable=differentiable,
    )
