"""RAdam."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any

from tensor.operations.optimizers.steps import RADAM

from .stepping import SteppingOptimizer, at_least_zero, check_betas, decay, sign

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor import Tensor

#: Length of the average of squares above which its variance is known well enough.
_LONG_ENOUGH = 5.0


class RAdam(SteppingOptimizer):
    """Adam whose learning rate is rectified: the first steps are by averages of gradients alone.

    Parameters
    ----------
    params : iterable
        See :class:`Optimizer`.
    lr : float
        Learning rate.
    betas : (float, float)
        How much of the averages of gradients and of squares remains at each step.
    eps : float
        Added to the root.
    weight_decay : float
        How much of a parameter is added to its gradient; with ``decoupled_weight_decay``, times the learning rate,
        taken from the parameter.
    maximize : bool
        Whether the objective is maximized.

    References
    ----------
    Liu et al., "On the Variance of the Adaptive Learning Rate and Beyond", 2019.
    """

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
        for t, operands in self.counted(group, params, grads, ("exp_avg", "exp_avg_sq")):
            correction2 = 1 - beta2**t
            length = longest - 2 * t * beta2**t / correction2
            step_size = float(group["lr"]) / (1 - beta1**t)
            rectified = length > _LONG_ENOUGH
            if rectified:
                step_size *= sqrt(
                    (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
                ) * sqrt(correction2)
            RADAM.update(
                operands,
                sign=sign(group),
                **decay(group),
                rest1=1 - beta1,
                beta2=beta2,
                rest2=1 - beta2,
                eps=float(group["eps"]),
                step_size=step_size,
                rectified=float(rectified),
            )
