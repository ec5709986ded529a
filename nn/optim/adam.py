"""Adam and AdamW."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any

from tensor import Tensor
from tensor.operations.optimizers.steps import ADAM, AMSGRAD

from .stepping import SteppingOptimizer, at_least_zero, check_betas, decay, sign

if TYPE_CHECKING:
    from collections.abc import Iterable


class Adam(SteppingOptimizer):
    """Adam: steps by averages of gradients over the root of averages of their squares.

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
    amsgrad : bool
        Whether the greatest average of squares so far is used.
    maximize : bool
        Whether the objective is maximized.

    References
    ----------
    Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2014; Reddi, Kale and Kumar, "On the Convergence
    of Adam and Beyond", 2018.
    """

    absent = SteppingOptimizer.absent | {
        "amsgrad": False,
        "capturable": False,
        "fused": None,
        "decoupled_weight_decay": False,
    }

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        at_least_zero(lr, "learning rate")
        at_least_zero(eps, "epsilon value")
        check_betas(betas)
        at_least_zero(weight_decay, "weight_decay value")
        if isinstance(betas[0], Tensor) is not isinstance(betas[1], Tensor):
            raise ValueError("betas must be either both floats or both Tensors")
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": tuple(betas),
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
                "fused": fused,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
        )

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """See :meth:`SteppingOptimizer.update`."""
        amsgrad = group["amsgrad"]
        names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if amsgrad else ("exp_avg", "exp_avg_sq")
        beta1, beta2 = map(float, group["betas"])
        for t, operands in self.counted(group, params, grads, names):
            (AMSGRAD if amsgrad else ADAM).update(
                operands,
                sign=sign(group),
                **decay(group),
                rest1=1 - beta1,
                beta2=beta2,
                rest2=1 - beta2,
                step_size=float(group["lr"]) / (1 - beta1**t),
                scale=sqrt(1 - beta2**t),
                eps=float(group["eps"]),
            )


class AdamW(Adam):
    """Adam with weight decay that is no part of the gradient; the options are :class:`Adam`'s.

    References
    ----------
    Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2017.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # State dicts from before the option was one have other values.
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
