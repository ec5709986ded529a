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
    """Adam: steps by bias-corrected running averages of the gradient over the root of those of its square.

    ``m = beta1 * m + (1 - beta1) * g``, ``v = beta2 * v + (1 - beta2) * g ** 2`` and
    ``p -= lr * m / (1 - beta1 ** t) / (sqrt(v / (1 - beta2 ** t)) + eps)`` at step t.

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
        L2 penalty; with ``decoupled_weight_decay`` each step multiplies parameters by ``1 - lr * weight_decay`` instead.
    amsgrad : bool
        Whether to divide by the maximum of all ``v`` so far (Reddi, Kale and Kumar, 2018).
    maximize : bool
        Whether to maximize the objective.
    foreach, capturable, differentiable, fused
        Accepted for compatibility; ``differentiable=True`` raises NotImplementedError.
    decoupled_weight_decay : bool
        Whether weight decay is no part of the gradient, as in :class:`AdamW`.

    Raises
    ------
    ValueError
        If a number is negative, or a decay rate not in [0, 1).

    References
    ----------
    Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2014; Reddi, Kale and Kumar, "On the Convergence of Adam and
    Beyond", 2018.
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
    """Adam with decoupled weight decay: each step first multiplies parameters by ``1 - lr * weight_decay``.

    The parameters are those of :class:`Adam`, with ``weight_decay=1e-2`` by default.

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
