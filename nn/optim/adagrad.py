"""Adagrad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import tensor

from .optimizer import count
from .sparse_adam import at_places_of
from .stepping import SteppingOptimizer, advance, at_least_zero, decayed, sign, step, step_with_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tensor import Tensor


@step("""
    const W g = decayed(sign, weight_decay, W(1), grad, p);
    sum += g * g;
    p -= lr * (g / (square_root(sum) + eps));
""")
def adagrad_step(
    p: Any, grad: Any, sum: Any, *, sign: float, weight_decay: float, eps: float, lr: float
) -> None:
    """Gradient descent by the root of the sum of squares."""
    g = decayed(sign, weight_decay, 1.0, grad, p)
    sum += g * g
    p -= lr * (g / (np.sqrt(sum) + eps))


class Adagrad(SteppingOptimizer):
    """Adagrad: steps by the gradient over the root of the sum of all squared gradients.

    ``s += g ** 2`` and ``p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)`` at step t.

    Parameters
    ----------
    params : iterable
        Parameters or groups; see :class:`Optimizer`.
    lr : float or Tensor
        Learning rate.
    lr_decay : float
        Decay of the learning rate.
    weight_decay : float
        L2 penalty.
    initial_accumulator_value : float
        Initial value of the sum.
    eps : float
        Added to the denominator.
    maximize : bool
        Whether to maximize the objective.
    foreach, differentiable, fused
        Accepted for compatibility; ``differentiable=True`` raises NotImplementedError.

    Raises
    ------
    ValueError
        If a number is negative.

    References
    ----------
    Duchi, Hazan and Singer, "Adaptive Subgradient Methods for Online Learning and Stochastic Optimization", 2011.
    """

    absent = SteppingOptimizer.absent | {"fused": None}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        at_least_zero(lr, "learning rate")
        at_least_zero(lr_decay, "lr_decay value")
        at_least_zero(weight_decay, "weight_decay value")
        at_least_zero(initial_accumulator_value, "initial_accumulator_value value")
        at_least_zero(eps, "epsilon value")
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "eps": eps,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "fused": fused,
            },
        )
        for group in self.param_groups:
            for each in group["params"]:
                self.prepare(group, each, ("sum",))

    def prepare(self, group: dict[str, Any], parameter: Tensor, names: Sequence[str]) -> dict[str, Any]:
        """See :meth:`SteppingOptimizer.prepare`; the sum starts with ``initial_accumulator_value``."""
        state: dict[str, Any] = self.state[parameter]
        if "sum" not in state:
            state["step"] = count()
            value = group["initial_accumulator_value"]
            if parameter.is_complex():
                value = complex(value, value)
            state["sum"] = tensor.full_like(parameter, value, memory_format=tensor.preserve_format)
        return state

    def check_sparse(self, group: dict[str, Any]) -> None:
        """See :meth:`SteppingOptimizer.check_sparse`."""
        if float(group["weight_decay"]):
            raise RuntimeError(
                "weight_decay option is not compatible with sparse gradients: set it to 0 for their parameters, in a group of "
                "their own"
            )

    def update_sparse(self, group: dict[str, Any], parameter: Tensor, grad: Tensor) -> None:
        """See :meth:`SteppingOptimizer.update_sparse`; the rows that the gradient has are updated."""
        state = self.prepare(group, parameter, ("sum",))
        (t,) = advance([state["step"]])
        rows = (grad * sign(group)).coalesce()
        state["sum"].add_(rows * rows)
        step = rows.values() / (state["sum"].sparse_mask(rows).values().sqrt() + float(group["eps"]))
        lr = float(group["lr"]) / (1 + (t - 1) * float(group["lr_decay"]))
        parameter.add_(at_places_of(rows, step), alpha=-lr)

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """See :meth:`SteppingOptimizer.update`."""
        for t, operands in self.counted(group, params, grads, ("sum",)):
            self.apply(
                adagrad_step,
                operands,
                sign=sign(group),
                weight_decay=float(group["weight_decay"]),
                eps=float(group["eps"]),
                lr=float(group["lr"]) / (1 + (t - 1) * float(group["lr_decay"])),
            )


def adagrad(
    params: list[Tensor],
    grads: list[Tensor],
    state_sums: list[Tensor],
    state_steps: list[Tensor],
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    weight_decay: float,
    lr_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """A step of :class:`Adagrad` in place, with states that the caller keeps: its function form.

    Parameters
    ----------
    params, grads : list of Tensor
        Parameters and their gradients.
    state_sums, state_steps : list of Tensor
        States for each parameter, as state dicts have them.
    lr, weight_decay, lr_decay, eps, maximize
        Options of :class:`Adagrad`.
    fused, has_sparse_grad, foreach, differentiable, has_complex
        Accepted for compatibility; ``differentiable=True`` raises.
    grad_scale, found_inf : Tensor, optional
        Gradients are divided by the first; nothing is done if the second is not 0.

    Raises
    ------
    NotImplementedError
        If ``differentiable``.
    RuntimeError
        If counts of steps are not tensors, or a gradient is sparse and there is weight decay.
    """
    step_with_states(
        Adagrad,
        params,
        grads,
        {"sum": state_sums, "step": state_steps},
        {"lr": lr, "weight_decay": weight_decay, "lr_decay": lr_decay, "eps": eps, "maximize": maximize},
        differentiable=differentiable,
        grad_scale=grad_scale,
        found_inf=found_inf,
    )
