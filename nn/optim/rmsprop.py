"""RMSprop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.operations.optimizers.steps import RMSPROP

from .stepping import SteppingOptimizer, at_least_zero, sign

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tensor import Tensor


class RMSprop(SteppingOptimizer):
    """RMSprop: steps by the gradient over the root of a running average of its square.

    ``v = alpha * v + (1 - alpha) * g ** 2`` and ``p -= lr * g / (sqrt(v) + eps)``; with ``momentum``,
    ``b = momentum * b + g / (sqrt(v) + eps)`` and ``p -= lr * b``; with ``centered``, the variance takes the place of v.

    Parameters
    ----------
    params : iterable
        Parameters or groups; see :class:`Optimizer`.
    lr : float or Tensor
        Learning rate.
    alpha : float
        Decay rate of the running averages.
    eps : float
        Added to the denominator.
    weight_decay : float
        L2 penalty.
    momentum : float
        Momentum factor.
    centered : bool
        Whether to divide by an estimate of the gradient's standard deviation (Graves, 2013).
    maximize : bool
        Whether to maximize the objective.
    capturable, foreach, differentiable
        Accepted for compatibility; ``differentiable=True`` raises NotImplementedError.

    Raises
    ------
    ValueError
        If a number is negative.

    References
    ----------
    Tieleman and Hinton, "Lecture 6.5: RMSProp", 2012; Graves, "Generating Sequences With Recurrent Neural Networks", 2013.
    """

    absent = SteppingOptimizer.absent | {"momentum": 0, "centered": False, "capturable": False}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        at_least_zero(lr, "learning rate")
        at_least_zero(eps, "epsilon value")
        at_least_zero(momentum, "momentum value")
        at_least_zero(weight_decay, "weight_decay value")
        at_least_zero(alpha, "alpha value")
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "alpha": alpha,
                "eps": eps,
                "centered": centered,
                "weight_decay": weight_decay,
                "capturable": capturable,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
            },
        )

    def prepare(self, group: dict[str, Any], parameter: Tensor, names: Sequence[str]) -> dict[str, Any]:
        """See :meth:`SteppingOptimizer.prepare`; states are created in the order of PyTorch's state dicts."""
        if not self.state[parameter] and len(names) > 2:
            names = ("square_avg", "momentum_buffer", "grad_avg")
        return super().prepare(group, parameter, names)

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """See :meth:`SteppingOptimizer.update`."""
        centered, momentum = bool(group["centered"]), float(group["momentum"])
        names = ["square_avg"]
        if centered:
            names.append("grad_avg")
        if momentum > 0:
            names.append("momentum_buffer")
        # Nothing here depends on how many steps there were, so all parameters go together.
        operands = [params, grads, *self.counted_together(group, params, names)]
        RMSPROP[centered, momentum > 0].update(
            operands,
            sign=sign(group),
            weight_decay=float(group["weight_decay"]),
            alpha=float(group["alpha"]),
            rest=1 - float(group["alpha"]),
            eps=float(group["eps"]),
            lr=float(group["lr"]),
            momentum=momentum,
        )
