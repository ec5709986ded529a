"""Stochastic gradient descent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensor
from tensor.operations.optimizers.steps import MOMENTUM_SGD
from tensor.operations.optimizers.steps import SGD as PLAIN_SGD

from .stepping import SteppingOptimizer, at_least_zero, sign

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor import Tensor


class SGD(SteppingOptimizer):
    """Stochastic gradient descent, with momentum if wanted.

    Parameters
    ----------
    params : iterable
        See :class:`Optimizer`.
    lr : float
        Learning rate.
    momentum : float
        How much of the former steps goes on.
    dampening : float
        How much of the gradient does not go into the momentum.
    weight_decay : float
        How much of a parameter is added to its gradient.
    nesterov : bool
        Whether the step is taken from where the momentum leads to.
    maximize : bool
        Whether the objective is maximized.
    """

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

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """See :meth:`SteppingOptimizer.update`."""
        numbers = {
            "sign": sign(group),
            "lr": float(group["lr"]),
            "weight_decay": float(group["weight_decay"]),
        }
        momentum = float(group["momentum"])
        if not momentum:
            PLAIN_SGD.update([params, grads], **numbers)
            return
        numbers["nesterov"] = float(group["nesterov"])
        fresh: tuple[list[Tensor], ...] = ([], [], [])
        known: tuple[list[Tensor], ...] = ([], [], [])
        for each, grad in zip(params, grads, strict=True):
            buffer = self.state[each].get("momentum_buffer")
            columns = known
            if buffer is None:
                columns = fresh
                buffer = tensor.zeros_like(each, memory_format=tensor.preserve_format)
            for column, x in zip(columns, (each, grad, buffer), strict=True):
                column.append(x)
        # The first gradient is the buffer, without dampening.
        if fresh[0]:
            MOMENTUM_SGD.update(fresh, momentum=momentum, share=1.0, **numbers)
            for each, buffer in zip(fresh[0], fresh[2], strict=True):
                self.state[each]["momentum_buffer"] = buffer
        if known[0]:
            share = 1 - float(group["dampening"])
            MOMENTUM_SGD.update(known, momentum=momentum, share=share, **numbers)
