"""Stochastic gradient descent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensor

from .stepping import (
    SteppingOptimizer,
    at_least_zero,
    decayed,
    first_step_outside_of_captures,
    number_of,
    sign,
    step,
    step_with_states,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor import Tensor


@step("""
    const W g = decayed(sign, weight_decay, W(1), grad, p);
    p -= lr * g;
""")
def sgd_step(p: Any, grad: Any, *, sign: float, lr: float, weight_decay: float) -> None:
    """Gradient descent."""
    p -= lr * decayed(sign, weight_decay, 1.0, grad, p)


@step("""
    const W g = decayed(sign, weight_decay, W(1), grad, p);
    momentum_buffer = momentum * momentum_buffer + undamped * g;
    p -= lr * (nesterov != 0 ? g + momentum * momentum_buffer : momentum_buffer);
""")
def momentum_sgd_step(
    p: Any,
    grad: Any,
    momentum_buffer: Any,
    *,
    sign: float,
    lr: float,
    weight_decay: float,
    momentum: float,
    undamped: float,
    nesterov: float,
) -> None:
    """Gradient descent with momentum; ``undamped`` is ``1 - dampening``."""
    g = decayed(sign, weight_decay, 1.0, grad, p)
    momentum_buffer *= momentum
    momentum_buffer += undamped * g
    p -= lr * (g + momentum * momentum_buffer if nesterov else momentum_buffer)


class SGD(SteppingOptimizer):
    """Stochastic gradient descent, optionally with momentum.

    With ``g = grad + weight_decay * p``, the buffer is ``b = momentum * b + (1 - dampening) * g`` (``b = g`` at the
    first step), and ``p -= lr * b``; with ``nesterov``, ``p -= lr * (g + momentum * b)``.

    Parameters
    ----------
    params : iterable
        Parameters or groups; see :class:`Optimizer`.
    lr : float or Tensor
        Learning rate.
    momentum : float
        Momentum factor.
    dampening : float
        Dampening of the gradient in the momentum buffer.
    weight_decay : float
        L2 penalty.
    nesterov : bool
        Whether to use Nesterov momentum (Sutskever et al., "On the importance of initialization and momentum", 2013).
    maximize : bool
        Whether to maximize the objective.
    foreach, differentiable, fused
        Accepted for compatibility; ``differentiable=True`` raises NotImplementedError.

    Raises
    ------
    ValueError
        If a number is negative, or ``nesterov`` comes without momentum or with dampening.

    Examples
    --------
    >>> model = nn.Linear(4, 1)
    >>> optimizer = nn.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    """

    counts_nothing = True
    _step_supports_amp_scaling = True
    absent = SteppingOptimizer.absent | {"nesterov": False, "fused": False}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        at_least_zero(lr, "learning rate")
        at_least_zero(momentum, "momentum value")
        at_least_zero(weight_decay, "weight_decay value")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
                "foreach": foreach,
                "differentiable": differentiable,
                "fused": fused,
            },
        )

    def check_sparse(self, group: dict[str, Any]) -> None:
        """See :meth:`SteppingOptimizer.check_sparse`."""
        if float(group["weight_decay"]):
            raise RuntimeError(
                "SGD: weight_decay is not compatible with sparse gradients: set it to 0 for their parameters, in a group of "
                "their own"
            )

    def update_sparse(self, group: dict[str, Any], parameter: Tensor, grad: Tensor) -> None:
        """See :meth:`SteppingOptimizer.update_sparse`; the momentum is sparse too."""
        step = grad * sign(group)
        momentum = float(group["momentum"])
        if momentum:
            state = self.state[parameter]
            buffer = state.get("momentum_buffer")
            if buffer is None:
                state["momentum_buffer"] = buffer = step.clone()
            else:
                buffer.mul_(momentum).add_(step, alpha=1 - float(group["dampening"]))
            step = step.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        parameter.add_(step, alpha=-float(group["lr"]))

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """See :meth:`SteppingOptimizer.update`."""
        numbers = {
            "sign": sign(group),
            "lr": number_of(group["lr"], params),
            "weight_decay": float(group["weight_decay"]),
        }
        momentum = float(group["momentum"])
        if not momentum:
            self.apply(sgd_step, [params, grads], **numbers)
            return
        numbers["nesterov"] = float(group["nesterov"])
        new: tuple[list[Tensor], ...] = ([], [], [])
        existing: tuple[list[Tensor], ...] = ([], [], [])
        for each, grad in zip(params, grads, strict=True):
            buffer = self.state[each].get("momentum_buffer")
            columns = existing
            if buffer is None:
                columns = new
                buffer = tensor.zeros_like(each, memory_format=tensor.preserve_format)
            for column, x in zip(columns, (each, grad, buffer), strict=True):
                column.append(x)
        # The first gradient is the buffer, without dampening.
        if new[0]:
            first_step_outside_of_captures(self)
            self.apply(momentum_sgd_step, new, momentum=momentum, undamped=1.0, **numbers)
            for each, buffer in zip(new[0], new[2], strict=True):
                self.state[each]["momentum_buffer"] = buffer
        if existing[0]:
            undamped = 1 - float(group["dampening"])
            self.apply(momentum_sgd_step, existing, momentum=momentum, undamped=undamped, **numbers)


def sgd(
    params: list[Tensor],
    d_p_list: list[Tensor],
    momentum_buffer_list: list[Tensor | None],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float | Tensor,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """A step of :class:`SGD` in place, with states that the caller keeps: its function form.

    Parameters
    ----------
    params, d_p_list : list of Tensor
        Parameters and their gradients.
    momentum_buffer_list : list of Tensor
        States for each parameter, as state dicts have them: None before the first step, and put there by it; it is not used without momentum.
    weight_decay, momentum, lr, dampening, nesterov, maximize
        Options of :class:`SGD`.
    has_sparse_grad, foreach, fused
        Accepted for compatibility.
    grad_scale, found_inf : Tensor, optional
        Gradients are divided by the first; nothing is done if the second is not 0.

    Raises
    ------
    RuntimeError
        If a gradient is sparse and there is weight decay.
    """
    step_with_states(
        SGD,
        params,
        d_p_list,
        {"momentum_buffer": momentum_buffer_list},
        {
            "weight_decay": weight_decay,
            "momentum": momentum,
            "lr": lr,
            "dampening": dampening,
            "nesterov": nesterov,
            "maximize": maximize,
        },
        grad_scale=grad_scale,
        found_inf=found_inf,
    )
