"""Adam and AdamW."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor import Tensor

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
)

if TYPE_CHECKING:
    from collections.abc import Iterable


#: Running averages of the gradient and of its square.
MOMENTS = """
    const W g = decayed(sign, weight_decay, param_factor, grad, p);
    exp_avg += one_minus_beta1 * (g - exp_avg);
    exp_avg_sq = beta2 * exp_avg_sq + one_minus_beta2 * g * g;
"""


def update_moments(
    g: Any, exp_avg: Any, exp_avg_sq: Any, one_minus_beta1: float, beta2: float, one_minus_beta2: float
) -> None:
    """The same on arrays."""
    change = g - exp_avg
    change *= one_minus_beta1
    exp_avg += change
    exp_avg_sq *= beta2
    np.multiply(g, g, out=change)
    change *= one_minus_beta2
    exp_avg_sq += change


def _descend(p: Any, mean: Any, square: Any, step_size: float, root_correction2: float, eps: float) -> None:
    root = np.sqrt(square)
    root /= root_correction2
    root += eps
    np.divide(mean, root, out=root)
    root *= step_size
    p -= root


# `root_correction2` is sqrt(1 - beta2 ** t), `step_size` is lr / (1 - beta1 ** t).


@step(f"""{MOMENTS}
    p -= step_size * (exp_avg / (square_root(exp_avg_sq) / root_correction2 + eps));
""")
def adam_step(
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
    step_size: float,
    root_correction2: float,
    eps: float,
) -> None:
    """Adam."""
    g = decayed(sign, weight_decay, param_factor, grad, p)
    update_moments(g, exp_avg, exp_avg_sq, one_minus_beta1, beta2, one_minus_beta2)
    _descend(p, exp_avg, exp_avg_sq, step_size, root_correction2, eps)


@step(f"""{MOMENTS}
    max_exp_avg_sq = greater(max_exp_avg_sq, exp_avg_sq);
    p -= step_size * (exp_avg / (square_root(max_exp_avg_sq) / root_correction2 + eps));
""")
def amsgrad_step(
    p: Any,
    grad: Any,
    exp_avg: Any,
    exp_avg_sq: Any,
    max_exp_avg_sq: Any,
    *,
    sign: float,
    weight_decay: float,
    param_factor: float,
    one_minus_beta1: float,
    beta2: float,
    one_minus_beta2: float,
    step_size: float,
    root_correction2: float,
    eps: float,
) -> None:
    """Adam with the maximum of all averages of squares so far."""
    g = decayed(sign, weight_decay, param_factor, grad, p)
    update_moments(g, exp_avg, exp_avg_sq, one_minus_beta1, beta2, one_minus_beta2)
    np.maximum(max_exp_avg_sq, exp_avg_sq, out=max_exp_avg_sq)
    _descend(p, exp_avg, max_exp_avg_sq, step_size, root_correction2, eps)


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
        L2 penalty; with ``decoupled_weight_decay`` each step multiplies parameters by ``1 - lr * weight_decay``
        instead.
    amsgrad : bool
        Whether to divide by the maximum of all ``v`` so far (Reddi, Kale and Kumar, 2018).
    maximize : bool
        Whether to maximize the objective.
    capturable : bool
        Whether counts of steps are on the devices of parameters, so that CUDA graphs of the step can be replayed.
    foreach, differentiable, fused
        Accepted for compatibility; ``differentiable=True`` raises NotImplementedError.
    decoupled_weight_decay : bool
        Whether weight decay is no part of the gradient, as in :class:`AdamW`.

    Raises
    ------
    ValueError
        If a number is negative, or a decay rate not in [0, 1).

    References ---------- Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2014; Reddi, Kale and Kumar,
    "On the Convergence of Adam and Beyond", 2018.
    """

    instead_of_sparse = ", please consider SparseAdam instead"
    _step_supports_amp_scaling = True
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
        lr, beta1, beta2 = (number_of(each, params) for each in (group["lr"], *group["betas"]))
        for t, operands in self.counted(group, params, grads, names):
            self.apply(
                amsgrad_step if amsgrad else adam_step,
                operands,
                sign=sign(group),
                **decay(group, lr),
                one_minus_beta1=1 - beta1,
                beta2=beta2,
                one_minus_beta2=1 - beta2,
                step_size=lr / (1 - beta1**t),
                root_correction2=square_root(1 - beta2**t),
                eps=float(group["eps"]),
            )


class AdamW(Adam):
    """Adam with decoupled weight decay: each step first multiplies parameters by ``1 - lr * weight_decay``.

    Parameters
    ----------
    params, lr, betas, eps, amsgrad
        See :class:`Adam`, as for the errors.
    weight_decay : float
        As for :class:`Adam`; 1e-2 by default.
    maximize, foreach, capturable, differentiable, fused
        See :class:`Adam`.

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


def adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """A step of :class:`Adam` in place, with states that the caller keeps: its function form.

    Parameters
    ----------
    params, grads : list of Tensor
        Parameters and their gradients.
    exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps : list of Tensor
        States for each parameter, as state dicts have them; ``max_exp_avg_sqs`` may be empty without ``amsgrad``.
    amsgrad, beta1, beta2, lr, weight_decay, eps, maximize, decoupled_weight_decay
        Options of :class:`Adam`.
    foreach, capturable, differentiable, fused, has_complex
        Accepted for compatibility; ``differentiable=True`` raises.
    grad_scale, found_inf : Tensor, optional
        Gradients are divided by the first; nothing is done if the second is not 0.

    Raises
    ------
    NotImplementedError
        If ``differentiable``.
    RuntimeError
        If counts of steps are not tensors, or a gradient is sparse.
    """
    step_with_states(
        Adam,
        params,
        grads,
        {
            "exp_avg": exp_avgs,
            "exp_avg_sq": exp_avg_sqs,
            "max_exp_avg_sq": max_exp_avg_sqs,
            "step": state_steps,
        },
        {
            "amsgrad": amsgrad,
            "lr": lr,
            "weight_decay": weight_decay,
            "eps": eps,
            "maximize": maximize,
            "decoupled_weight_decay": decoupled_weight_decay,
            "betas": (beta1, beta2),
        },
        differentiable=differentiable,
        grad_scale=grad_scale,
        found_inf=found_inf,
    )


def adamw(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """A step of :class:`AdamW` in place, with states that the caller keeps: its function form.

    Parameters
    ----------
    params, grads : list of Tensor
        Parameters and their gradients.
    exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps : list of Tensor
        States for each parameter, as state dicts have them; ``max_exp_avg_sqs`` may be empty without ``amsgrad``.
    amsgrad, beta1, beta2, lr, weight_decay, eps, maximize
        Options of :class:`AdamW`.
    foreach, capturable, differentiable, fused, has_complex
        Accepted for compatibility; ``differentiable=True`` raises.
    grad_scale, found_inf : Tensor, optional
        Gradients are divided by the first; nothing is done if the second is not 0.

    Raises
    ------
    NotImplementedError
        If ``differentiable``.
    RuntimeError
        If counts of steps are not tensors, or a gradient is sparse.
    """
    step_with_states(
        AdamW,
        params,
        grads,
        {
            "exp_avg": exp_avgs,
            "exp_avg_sq": exp_avg_sqs,
            "max_exp_avg_sq": max_exp_avg_sqs,
            "step": state_steps,
        },
        {
            "amsgrad": amsgrad,
            "lr": lr,
            "weight_decay": weight_decay,
            "eps": eps,
            "maximize": maximize,
            "betas": (beta1, beta2),
            "decoupled_weight_decay": True,
        },
        differentiable=differentiable,
        grad_scale=grad_scale,
        found_inf=found_inf,
    )
