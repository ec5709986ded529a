"""RMSprop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .stepping import SteppingOptimizer, at_least_zero, decayed, number_of, sign, step, step_with_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tensor import Tensor


_AVERAGE = """
    const W g = decayed(sign, weight_decay, W(1), grad, p);
    square_avg = alpha * square_avg + one_minus_alpha * g * g;
"""
_PLAIN = """
    const W change = g / (square_root(square_avg) + eps);
"""
_CENTERED = """
    grad_avg += one_minus_alpha * (g - grad_avg);
    const W change = g / (square_root(square_avg - grad_avg * grad_avg) + eps);
"""
_DESCENT = """
    p -= lr * change;
"""
_MOMENTUM = """
    momentum_buffer = momentum * momentum_buffer + change;
    p -= lr * momentum_buffer;
"""


def _rmsprop(
    p: Any,
    grad: Any,
    square_avg: Any,
    grad_avg: Any,
    momentum_buffer: Any,
    sign: float,
    weight_decay: float,
    alpha: float,
    one_minus_alpha: float,
    eps: float,
    lr: float,
    momentum: float,
) -> None:
    """The same on arrays, where the last two states may be ``None``."""
    g = decayed(sign, weight_decay, 1.0, grad, p)
    square_avg *= alpha
    square_avg += one_minus_alpha * g * g
    variance = square_avg
    if grad_avg is not None:
        grad_avg += one_minus_alpha * (g - grad_avg)
        variance = square_avg - grad_avg * grad_avg
    change = g / (np.sqrt(variance) + eps)
    if momentum_buffer is not None:
        momentum_buffer *= momentum
        momentum_buffer += change
        change = momentum_buffer
    p -= lr * change


@step(_AVERAGE + _PLAIN + _DESCENT)
def rmsprop_step(
    p: Any,
    grad: Any,
    square_avg: Any,
    *,
    sign: float,
    weight_decay: float,
    alpha: float,
    one_minus_alpha: float,
    eps: float,
    lr: float,
    momentum: float,
) -> None:
    """RMSprop."""
    _rmsprop(p, grad, square_avg, None, None, sign, weight_decay, alpha, one_minus_alpha, eps, lr, momentum)


@step(_AVERAGE + _CENTERED + _DESCENT)
def centered_rmsprop_step(
    p: Any,
    grad: Any,
    square_avg: Any,
    grad_avg: Any,
    *,
    sign: float,
    weight_decay: float,
    alpha: float,
    one_minus_alpha: float,
    eps: float,
    lr: float,
    momentum: float,
) -> None:
    """RMSprop by the variance."""
    _rmsprop(
        p, grad, square_avg, grad_avg, None, sign, weight_decay, alpha, one_minus_alpha, eps, lr, momentum
    )


@step(_AVERAGE + _PLAIN + _MOMENTUM)
def momentum_rmsprop_step(
    p: Any,
    grad: Any,
    square_avg: Any,
    momentum_buffer: Any,
    *,
    sign: float,
    weight_decay: float,
    alpha: float,
    one_minus_alpha: float,
    eps: float,
    lr: float,
    momentum: float,
) -> None:
    """RMSprop with momentum."""
    _rmsprop(
        p,
        grad,
        square_avg,
        None,
        momentum_buffer,
        sign,
        weight_decay,
        alpha,
        one_minus_alpha,
        eps,
        lr,
        momentum,
    )


@step(_AVERAGE + _CENTERED + _MOMENTUM)
def centered_momentum_rmsprop_step(
    p: Any,
    grad: Any,
    square_avg: Any,
    grad_avg: Any,
    momentum_buffer: Any,
    *,
    sign: float,
    weight_decay: float,
    alpha: float,
    one_minus_alpha: float,
    eps: float,
    lr: float,
    momentum: float,
) -> None:
    """RMSprop by the variance, with momentum."""
    _rmsprop(
        p,
        grad,
        square_avg,
        grad_avg,
        momentum_buffer,
        sign,
        weight_decay,
        alpha,
        one_minus_alpha,
        eps,
        lr,
        momentum,
    )


#: By whether it is centered, and whether it has momentum.
_STEPS = {
    (False, False): rmsprop_step,
    (True, False): centered_rmsprop_step,
    (False, True): momentum_rmsprop_step,
    (True, True): centered_momentum_rmsprop_step,
}


class RMSprop(SteppingOptimizer):
    """RMSprop: steps by the gradient over the root of a running average of its square.

    ``v = alpha * v + (1 - alpha) * g ** 2`` and ``p -= lr * g / (sqrt(v) + eps)``; with ``momentum``,
    ``b = momentum * b + g / (sqrt(v) + eps)`` and ``p -= lr * b``; with ``centered``, the variance takes the place of
    v.

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

    References ---------- Tieleman and Hinton, "Lecture 6.5: RMSProp", 2012; Graves, "Generating Sequences With
    Recurrent Neural Networks", 2013.
    """

    _step_supports_amp_scaling = True
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
        self.apply(
            _STEPS[centered, momentum > 0],
            operands,
            sign=sign(group),
            weight_decay=float(group["weight_decay"]),
            alpha=float(group["alpha"]),
            one_minus_alpha=1 - float(group["alpha"]),
            eps=float(group["eps"]),
            lr=number_of(group["lr"], params),
            momentum=momentum,
        )


def rmsprop(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    grad_avgs: list[Tensor],
    momentum_buffer_list: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
) -> None:
    """A step of :class:`RMSprop` in place, with states that the caller keeps: its function form.

    Parameters
    ----------
    params, grads : list of Tensor
        Parameters and their gradients.
    square_avgs, grad_avgs, momentum_buffer_list, state_steps : list of Tensor
        States for each parameter, as state dicts have them; those that the options do not use may be empty.
    lr, alpha, eps, weight_decay, momentum, centered, maximize
        Options of :class:`RMSprop`.
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
        RMSprop,
        params,
        grads,
        {
            "square_avg": square_avgs,
            "grad_avg": grad_avgs,
            "momentum_buffer": momentum_buffer_list,
            "step": state_steps,
        },
        {
            "lr": lr,
            "alpha": alpha,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "centered": centered,
            "maximize": maximize,
        },
        differentiable=differentiable,
    )
