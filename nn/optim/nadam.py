"""NAdam."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .adam import MOMENTS, update_moments
from .stepping import (
    Number,
    SteppingOptimizer,
    at_least_zero,
    check_betas,
    decay,
    decayed,
    number_of,
    sign,
    step,
    step_with_states,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tensor import Tensor


@step(f"""{MOMENTS}
    const W root = square_root(exp_avg_sq / correction2) + eps;
    p -= gradient_step * (g / root);
    p -= moment_step * (exp_avg / root);
""")
def nadam_step(
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
    correction2: float,
    eps: float,
    gradient_step: float,
    moment_step: float,
) -> None:
    """Adam with Nesterov momentum; ``correction2`` is ``1 - beta2 ** t``."""
    g = decayed(sign, weight_decay, param_factor, grad, p)
    update_moments(g, exp_avg, exp_avg_sq, one_minus_beta1, beta2, one_minus_beta2)
    root = exp_avg_sq / correction2
    np.sqrt(root, out=root)
    root += eps
    p -= gradient_step * (g / root)
    p -= moment_step * (exp_avg / root)


@step("mu_product *= W(beta1 * (1 - 0.5 * pow(0.96, double(step) * growth)));")
def momentum_product_step(mu_product: Any, step: Any, *, beta1: float, growth: float) -> None:
    """The product of all momenta so far, after a step."""
    mu_product *= beta1 * (1 - 0.5 * 0.96 ** (step * growth))


class NAdam(SteppingOptimizer):
    """Adam with Nesterov momentum, whose factor grows with the steps: ``beta1 * (1 - 0.5 * 0.96 ** (t * momentum_decay))``.

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
    momentum_decay : float
        How fast the momentum factor approaches the first of ``betas``.
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
    Dozat, "Incorporating Nesterov Momentum into Adam", 2016.
    """

    _step_supports_amp_scaling = True
    absent = SteppingOptimizer.absent | {"capturable": False, "decoupled_weight_decay": False}
    on_host = ("step", "mu_product")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
        at_least_zero(momentum_decay, "momentum_decay value")
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
            },
        )

    def prepare(self, group: dict[str, Any], parameter: Tensor, names: Sequence[str]) -> dict[str, Any]:
        """See :meth:`SteppingOptimizer.prepare`; also the product of all momenta."""
        state = self.state[parameter]
        if "mu_product" not in state:
            state["step"] = self.number(group, parameter, 0.0)
            state["mu_product"] = self.number(group, parameter, 1.0)
        return super().prepare(group, parameter, names)

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """See :meth:`SteppingOptimizer.update`."""
        beta1, beta2 = group["betas"]
        growth = group["momentum_decay"]
        lr = number_of(group["lr"], params)
        for t, operands in self.counted(group, params, grads, ("exp_avg", "exp_avg_sq")):
            mu, next_mu = (beta1 * (1 - 0.5 * 0.96 ** (n * growth)) for n in (t, t + 1))
            states = [self.state[each] for each in operands[0]]
            products = [state["mu_product"] for state in states]
            together: list[tuple[Any, list[int]]]
            if isinstance(t, Number):
                counts = [state["step"] for state in states]
                self.apply(momentum_product_step, [products, counts], beta1=beta1, growth=growth)
                together = [(Number.of_each(products), list(range(len(products))))]
            else:
                values = [float(each.mul_(mu)) for each in products]
                together = [
                    (value, [i for i, each in enumerate(values) if each == value])
                    for value in sorted(set(values))
                ]
            for product, members in together:
                self.apply(
                    nadam_step,
                    [[column[i] for i in members] for column in operands],
                    sign=sign(group),
                    **decay(group, lr),
                    one_minus_beta1=1 - beta1,
                    beta2=beta2,
                    one_minus_beta2=1 - beta2,
                    correction2=1 - beta2**t,
                    eps=float(group["eps"]),
                    gradient_step=lr * (1 - mu) / (1 - product),
                    moment_step=lr * next_mu / (1 - product * next_mu),
                )


def nadam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    mu_products: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
    momentum_decay: float,
    eps: float,
) -> None:
    """A step of :class:`NAdam` in place, with states that the caller keeps: its function form.

    Parameters
    ----------
    params, grads : list of Tensor
        Parameters and their gradients.
    exp_avgs, exp_avg_sqs, mu_products, state_steps : list of Tensor
        States for each parameter, as state dicts have them.
    beta1, beta2, lr, weight_decay, momentum_decay, eps, decoupled_weight_decay, maximize
        Options of :class:`NAdam`.
    foreach, capturable, differentiable, has_complex
        Accepted for compatibility; ``differentiable=True`` raises.

    Raises
    ------
    NotImplementedError
        If ``differentiable``.
    RuntimeError
        If counts of steps are not tensors, or a gradient is sparse.
    """
    step_with_states(
        NAdam,
        params,
        grads,
        {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "mu_product": mu_products, "step": state_steps},
        {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "eps": eps,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "betas": (beta1, beta2),
        },
        differentiable=differentiable,
    )
