"""Rprop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import tensor

from .stepping import SteppingOptimizer, at_least_zero, decayed, sign, step, step_with_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tensor import Tensor

# Where the product of the gradients is NaN its sign counts as zero, as PyTorch's `sign` has it.


@step("""
    const W g = decayed(sign, W(0), W(1), grad, p);
    const W product = g * prev;
    step_size *= product > 0 ? eta_plus : product < 0 ? eta_minus : W(1);
    step_size = step_size < smallest ? smallest : step_size;
    step_size = step_size > largest ? largest : step_size;
    prev = product < 0 ? W(0) : g;
    p -= W((prev > 0) - (prev < 0)) * step_size;
""")
def rprop_step(
    p: Any,
    grad: Any,
    prev: Any,
    step_size: Any,
    *,
    sign: float,
    eta_minus: float,
    eta_plus: float,
    smallest: float,
    largest: float,
) -> None:
    """A step against the sign of the gradient, whose size grows until the sign changes."""
    g = decayed(sign, 0.0, 1.0, grad, p)
    product = g * prev
    turned = product < 0
    step_size[product > 0] *= eta_plus
    step_size[turned] *= eta_minus
    np.maximum(step_size, smallest, out=step_size)
    np.minimum(step_size, largest, out=step_size)
    np.copyto(prev, g)
    prev[turned] = 0
    p -= (prev > 0) * step_size - (prev < 0) * step_size


class Rprop(SteppingOptimizer):
    """Resilient backpropagation: each element has a step size of its own, and only the gradient's sign is used.

    Where the gradient has the sign of the step before, the step size is multiplied by ``etas[1]``; where the sign changed,
    it is multiplied by ``etas[0]``, and the element stays as it is in this step, and keeps its step size in the next one.
    It is for gradients of the whole data set, not for those of batches.

    Parameters
    ----------
    params : iterable
        Parameters or groups; see :class:`Optimizer`.
    lr : float or Tensor
        Initial step size.
    etas : tuple of two floats
        Factors by which step sizes shrink and grow.
    step_sizes : tuple of two floats
        The smallest and the largest step size.
    maximize : bool
        Whether to maximize the objective.
    foreach, capturable, differentiable
        Accepted for compatibility; ``differentiable=True`` raises NotImplementedError.

    Raises
    ------
    ValueError
        If ``lr`` is negative, or the factors do not lie in (0, 1) and above 1.

    References
    ----------
    Riedmiller and Braun, "A Direct Adaptive Method for Faster Backpropagation Learning: The RPROP Algorithm", 1993.
    """

    _step_supports_amp_scaling = True
    absent = SteppingOptimizer.absent | {"capturable": False}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        at_least_zero(lr, "learning rate")
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(
            params,
            {
                "lr": lr,
                "etas": etas,
                "step_sizes": step_sizes,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def prepare(self, group: dict[str, Any], parameter: Tensor, names: Sequence[str]) -> dict[str, Any]:
        """See :meth:`SteppingOptimizer.prepare`; step sizes start with the learning rate."""
        state: dict[str, Any] = self.state[parameter]
        if "step_size" not in state:
            state["step"] = self.number(group, parameter, 0.0)
            state["prev"] = tensor.zeros_like(parameter, memory_format=tensor.preserve_format)
            lr = float(group["lr"])
            state["step_size"] = tensor.full_like(
                parameter,
                complex(lr, lr) if parameter.is_complex() else lr,
                memory_format=tensor.preserve_format,
            )
        return state

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """See :meth:`SteppingOptimizer.update`."""
        eta_minus, eta_plus = group["etas"]
        smallest, largest = group["step_sizes"]
        self.apply(
            rprop_step,
            [params, grads, *self.counted_together(group, params, ("prev", "step_size"))],
            sign=sign(group),
            eta_minus=float(eta_minus),
            eta_plus=float(eta_plus),
            smallest=float(smallest),
            largest=float(largest),
        )


def rprop(
    params: list[Tensor],
    grads: list[Tensor],
    prevs: list[Tensor],
    step_sizes: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """A step of :class:`Rprop` in place, with states that the caller keeps: its function form.

    Parameters
    ----------
    params, grads : list of Tensor
        Parameters and their gradients.
    prevs, step_sizes, state_steps : list of Tensor
        States for each parameter, as state dicts have them.
    step_size_min, step_size_max, etaminus, etaplus, maximize
        Options of :class:`Rprop`.
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
        Rprop,
        params,
        grads,
        {"prev": prevs, "step_size": step_sizes, "step": state_steps},
        {"maximize": maximize, "etas": (etaminus, etaplus), "step_sizes": (step_size_min, step_size_max)},
        differentiable=differentiable,
    )
