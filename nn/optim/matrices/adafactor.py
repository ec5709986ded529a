"""Adafactor."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any

import tensor
from nn.optim.optimizer import count
from nn.optim.stepping import SteppingOptimizer
from tensor import Tensor
from tensor.operations.optimizers.steps import advance

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Adafactor(SteppingOptimizer):
    """Adafactor: steps by the gradient over the root of its mean square, of which only rows and columns are kept.

    For a matrix G of m by n the running averages R of the means of squares of its rows, and C of those of its columns,
    take the place of one for each element: ``V = R @ C / max(mean(R), eps[0])``. With more dimensions the last two are
    the matrices; with fewer V is the average of all squares. The averages have the weight ``t ** beta2_decay`` for the
    new square at step t. Then ``U = G / max(sqrt(V), eps[0])`` and
    ``p -= max(eps[1], rms(p)) * min(lr, 1 / sqrt(t)) * U / max(1, rms(U) / d)``, where ``rms`` is the root of the mean
    square. Nothing is read from the device in a step.

    Parameters
    ----------
    params : iterable
        Parameters or groups; see :class:`Optimizer`. Complex ones are refused by the step.
    lr : float or Tensor
        The largest relative step size, and the factor of weight decay.
    beta2_decay : float
        Power of the step's number that is the weight of a new square; at most 0.
    eps : tuple of a float or None, and a float
        The smallest root of a mean square, by default the resolution of the dtype of the group's first parameter with
        a gradient; and the smallest root mean square of a parameter that its step is proportional to.
    d : float
        Root mean square above which updates are scaled down; at least 1.
    weight_decay : float
        Each step multiplies parameters by ``1 - lr * weight_decay``.
    foreach
        Accepted for compatibility.
    maximize : bool
        Whether to maximize the objective.

    Raises
    ------
    ValueError
        If a number is not in its range.

    References
    ----------
    Shazeer and Stern, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", 2018.
    """

    absent = {"foreach": None}  # noqa: RUF012 - read only

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError(f"Tensor lr must be 1-element, got one of shape {list(lr.shape)}")
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        super().__init__(
            params,
            {
                "lr": lr,
                "beta2_decay": beta2_decay,
                "eps": eps,
                "d": d,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
            },
        )

    def prepare(self, group: dict[str, Any], parameter: Tensor, names: Sequence[str]) -> dict[str, Any]:
        """See :meth:`SteppingOptimizer.prepare`; averages of rows and columns, or of all elements."""
        state: dict[str, Any] = self.state[parameter]
        if "step" not in state:
            state["step"] = count()
            if parameter.ndim > 1:
                *others, rows, columns = parameter.shape
                state["row_var"] = parameter.new_zeros((*others, rows, 1))
                state["col_var"] = parameter.new_zeros((*others, 1, columns))
            else:
                state["variance"] = tensor.zeros_like(parameter, memory_format=tensor.preserve_format)
        return state

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """See :meth:`SteppingOptimizer.update`.

        Raises
        ------
        RuntimeError
            If a parameter is complex; nothing of the group was changed then.
        """
        for each in params:
            if each.is_complex():
                raise RuntimeError(
                    f"Adafactor does not support complex parameters, got one of {each.dtype} and shape {list(each.shape)}"
                )
        smallest = tensor.finfo(params[0].dtype).eps if group["eps"][0] is None else float(group["eps"][0])
        for each, grad in zip(params, grads, strict=True):
            state = self.prepare(group, each, ())
            (t,) = advance([state["step"]])
            if each.numel():
                _update(each, -grad if group["maximize"] else grad, state, t, group, smallest)


def _update(
    p: Tensor, grad: Tensor, state: dict[str, Any], t: float, group: dict[str, Any], smallest: float
) -> None:
    lr, weight_decay = float(group["lr"]), float(group["weight_decay"])
    weight = t ** float(group["beta2_decay"])
    scale = _at_least(_root_mean_square(p), float(group["eps"][1])) * min(lr, 1 / sqrt(t))
    if weight_decay:
        p.mul_(1 - lr * weight_decay)
    if p.ndim > 1:
        row_var, col_var = state["row_var"], state["col_var"]
        for average, dim in ((row_var, -1), (col_var, -2)):
            squares = grad.norm(2, dim=dim, keepdim=True).square_().div_(grad.shape[dim])
            average.lerp_(squares, weight)
        variance = (row_var * col_var).div_(row_var.mean(dim=-2, keepdim=True).clamp_(min=smallest))
    else:
        variance = state["variance"].lerp_(grad * grad, weight).clone()
    update = variance.clamp_(min=smallest * smallest).rsqrt_().mul_(grad)
    scale = scale / _at_least(_root_mean_square(update) / float(group["d"]), 1.0)
    p.sub_(update.to(scale.dtype).mul_(scale))


def _root_mean_square(x: Tensor) -> Tensor:
    dtype = tensor.float64 if x.dtype is tensor.float64 else tensor.float32
    return x.norm(2, dtype=dtype) / sqrt(x.numel())


def _at_least(x: Tensor, smallest: float) -> Tensor:
    """The greater one, and ``smallest`` where ``x`` is NaN."""
    return tensor.where(x > smallest, x, smallest)
