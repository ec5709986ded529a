"""ASGD."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import tensor
from tensor import Tensor

from .optimizer import count
from .stepping import Number, SteppingOptimizer, at_least_zero, decayed, sign, step, step_with_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@step("""
    const W g = decayed(sign, weight_decay, param_factor, grad, p);
    p -= eta * g;
    ax = mu == W(1) ? p : ax + mu * (p - ax);
""")
def asgd_step(
    p: Any,
    grad: Any,
    ax: Any,
    *,
    sign: float,
    weight_decay: float,
    param_factor: float,
    eta: float,
    mu: float,
) -> None:
    """Gradient descent, and the average of the parameters that it passes."""
    g = decayed(sign, weight_decay, param_factor, grad, p)
    p -= eta * g
    if mu == 1:
        ax[...] = p
    else:
        ax += mu * (p - ax)


@step("""
    eta = W(lr / pow(1 + double(lambd) * lr * step, double(alpha)));
    mu = W(1 / fmax(1.0, double(step) - t0));
""")
def factors_step(eta: Any, step: Any, mu: Any, *, lr: float, lambd: float, alpha: float, t0: float) -> None:
    """The factors of the next step."""
    eta[...] = lr / (1 + lambd * lr * step) ** alpha
    mu[...] = 1 / np.maximum(1, step - t0)


class ASGD(SteppingOptimizer):
    """Averaged stochastic gradient descent: the average of the parameters is in the state ``"ax"``.

    ``p = (1 - lambd * eta) * p - eta * g`` and ``ax += mu * (p - ax)``. After step t, for the next one,
    ``eta = lr / (1 + lambd * lr * t) ** alpha`` and ``mu = 1 / max(1, t - t0)``: up to ``t0`` the average is the parameter.

    Parameters
    ----------
    params : iterable
        Parameters or groups; see :class:`Optimizer`.
    lr : float or Tensor
        Learning rate.
    lambd : float
        Decay of the parameters and of the learning rate.
    alpha : float
        Power of the decay of the learning rate.
    t0 : float
        Step at which averaging begins.
    weight_decay : float
        L2 penalty.
    maximize : bool
        Whether to maximize the objective.
    foreach, differentiable, capturable
        Accepted for compatibility; ``differentiable=True`` raises NotImplementedError.

    Raises
    ------
    ValueError
        If the learning rate or ``weight_decay`` is negative.

    References
    ----------
    Polyak and Juditsky, "Acceleration of Stochastic Approximation by Averaging", 1992.
    """

    _step_supports_amp_scaling = True
    absent = SteppingOptimizer.absent | {"capturable": False}
    on_host = ("step", "eta", "mu")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        at_least_zero(lr, "learning rate")
        at_least_zero(weight_decay, "weight_decay value")
        super().__init__(
            params,
            {
                "lr": lr,
                "lambd": lambd,
                "alpha": alpha,
                "t0": t0,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for values in self.state.values():
            for name in ("eta", "mu"):
                if name in values and not isinstance(values[name], Tensor):
                    values[name] = count(float(values[name]))

    def prepare(self, group: dict[str, Any], parameter: Tensor, names: Sequence[str]) -> dict[str, Any]:
        """See :meth:`SteppingOptimizer.prepare`; also the factors of the next step, which are numbers on the host."""
        state: dict[str, Any] = self.state[parameter]
        if "eta" not in state:
            for name, value in (("step", 0.0), ("eta", float(group["lr"])), ("mu", 1.0)):
                state[name] = self.number(group, parameter, value)
            state["ax"] = tensor.zeros_like(parameter, memory_format=tensor.preserve_format)
        return state

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """See :meth:`SteppingOptimizer.update`."""
        lr, lambd, alpha = float(group["lr"]), float(group["lambd"]), float(group["alpha"])
        for t, operands in self.counted(group, params, grads, ("ax",)):
            states = [self.state[each] for each in operands[0]]
            together: list[tuple[Any, Any, list[int]]]
            if isinstance(t, Number):
                etas, mus = ([state[name] for state in states] for name in ("eta", "mu"))
                together = [(Number.of_each(etas), Number.of_each(mus), list(range(len(states))))]
            else:
                # Those with the same count differ where some were left out of steps with another learning rate.
                factors = [(float(state["eta"]), float(state["mu"])) for state in states]
                together = [
                    (*pair, [i for i, each in enumerate(factors) if each == pair])
                    for pair in dict.fromkeys(factors)
                ]
            for eta, mu, members in together:
                self.apply(
                    asgd_step,
                    [[column[i] for i in members] for column in operands],
                    sign=sign(group),
                    weight_decay=float(group["weight_decay"]),
                    param_factor=1 - lambd * eta,
                    eta=eta,
                    mu=mu,
                )
            if isinstance(t, Number):
                counts = [state["step"] for state in states]
                self.apply(
                    factors_step, [etas, counts, mus], lr=lr, lambd=lambd, alpha=alpha, t0=float(group["t0"])
                )
                continue
            for state in states:
                state["eta"].fill_(lr / (1 + lambd * lr * t) ** alpha)
                state["mu"].fill_(1 / max(1, t - group["t0"]))


def asgd(
    params: list[Tensor],
    grads: list[Tensor],
    axs: list[Tensor],
    mus: list[Tensor],
    etas: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lambd: float,
    lr: float | Tensor,
    t0: float,
    alpha: float,
    weight_decay: float,
) -> None:
    """A step of :class:`ASGD` in place, with states that the caller keeps: its function form.

    Parameters
    ----------
    params, grads : list of Tensor
        Parameters and their gradients.
    axs, mus, etas, state_steps : list of Tensor
        States for each parameter, as state dicts have them.
    lambd, lr, t0, alpha, weight_decay, maximize
        Options of :class:`ASGD`.
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
        ASGD,
        params,
        grads,
        {"ax": axs, "mu": mus, "eta": etas, "step": state_steps},
        {
            "lambd": lambd,
            "lr": lr,
            "t0": t0,
            "alpha": alpha,
            "weight_decay": weight_decay,
            "maximize": maximize,
        },
        differentiable=differentiable,
    )
