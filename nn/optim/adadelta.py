"""Adadelta."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.operations.optimizers.steps import ADADELTA

from .stepping import SteppingOptimizer, at_least_zero, sign

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor import Tensor


class Adadelta(SteppingOptimizer):
    """Gradient descent by the averages of squares of changes over those of gradients.

    Parameters
    ----------
    params : iterable
        See :class:`Optimizer`.
    lr : float
        What changes are multiplied by.
    rho : float
        How much of the averages remains at each step.
    eps : float
        Added to both averages.
    weight_decay : float
        How much of a parameter is added to its gradient.
    maximize : bool
        Whether the objective is maximized.

    References
    ----------
    Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012.
    """

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
        ADADELTA.update(
            [params, grads, *self.counted_together(group, params, ("square_avg", "acc_delta"))],
            sign=sign(group),
            weight_decay=float(group["weight_decay"]),
            rho=rho,
            rest=1 - rho,
            eps=float(group["eps"]),
            lr=float(group["lr"]),
        )
