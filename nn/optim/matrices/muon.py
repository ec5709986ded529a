"""Muon."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any

import tensor
from nn.optim.stepping import SteppingOptimizer
from tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable

_RULES = ("original", "match_rms_adamw")
#: Iterations from which on orthogonalization is refused, as they cost more than a decomposition.
_TOO_MANY = 100


class Muon(SteppingOptimizer):
    """Muon: steps by the nearest orthogonal matrix to the momentum, for the matrices of hidden layers.

    ``B += (1 - momentum) * (G - B)`` and ``p = (1 - lr * weight_decay) * p - rate * O``, where O is B, or with
    ``nesterov`` ``G + momentum * (B - G)``, made almost orthogonal by Newton and Schulz's iteration in bfloat16: singular
    values come near to 1. ``rate`` is ``lr * sqrt(max(1, rows / columns))``, or with
    ``adjust_lr_fn="match_rms_adamw"`` ``lr * 0.2 * sqrt(max(rows, columns))``, with which learning rates of AdamW do.

    Biases, embeddings and the like need another optimizer, such as AdamW.

    Parameters
    ----------
    params : iterable
        Parameters with two dimensions, or groups; see :class:`Optimizer`. Complex ones are refused by the step.
    lr : float or Tensor
        Learning rate.
    weight_decay : float
        Each step multiplies parameters by ``1 - lr * weight_decay``.
    momentum : float
        Decay rate of the running average of gradients.
    nesterov : bool
        Whether to use Nesterov momentum.
    ns_coefficients : tuple of three floats
        Coefficients a, b, c of the iteration ``X = a * X + (b * A + c * A @ A) @ X`` with ``A = X @ X.T``.
    eps : float
        The smallest norm that the matrix is divided by before the iteration.
    ns_steps : int
        Number of iterations, less than 100.
    adjust_lr_fn : str, optional
        ``"original"``, the default, or ``"match_rms_adamw"``.

    Raises
    ------
    ValueError
        If a number is negative, ``adjust_lr_fn`` is unknown, or a parameter does not have two dimensions.

    References
    ----------
    Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024; Liu et al., "Muon is Scalable for
    LLM Training", 2025.

    Examples
    --------
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1))
    >>> muon = nn.optim.Muon([each for each in model.parameters() if each.ndim == 2], lr=0.02)
    >>> adamw = nn.optim.AdamW([each for each in model.parameters() if each.ndim != 2])
    """

    absent = {}  # noqa: RUF012 - none

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError(f"Tensor lr must be 1-element, got one of shape {list(lr.shape)}")
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not momentum >= 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn is not None and adjust_lr_fn not in _RULES:
            raise ValueError(
                f"Adjust learning rate function {adjust_lr_fn} is not supported: it is one of {', '.join(_RULES)}"
            )
        super().__init__(
            params,
            {
                "lr": lr,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "nesterov": nesterov,
                "ns_coefficients": ns_coefficients,
                "eps": eps,
                "ns_steps": ns_steps,
                "adjust_lr_fn": adjust_lr_fn,
            },
        )
        for group in self.param_groups:
            for each in group["params"]:
                if each.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {each.shape}. Give the "
                        "others to another optimizer, such as AdamW"
                    )

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """See :meth:`SteppingOptimizer.update`.

        Raises
        ------
        RuntimeError
            If a parameter is complex.
        ValueError
            If there are not three coefficients, 100 iterations or more, or a parameter of a group that was added later
            does not have two dimensions. In either case nothing of the group was changed.
        """
        coefficients, iterations = group["ns_coefficients"], group["ns_steps"]
        if iterations >= _TOO_MANY:
            raise ValueError(
                f"Number of steps must be less than 100 for computational efficiency, got {iterations}"
            )
        if len(coefficients) != 3:
            raise ValueError(f"Coefficients must be a tuple of exactly 3 values, got {coefficients}")
        for each in params:
            if each.is_complex():
                raise RuntimeError(
                    f"Muon does not support complex parameters, got one of {each.dtype} and shape {list(each.shape)}"
                )
            if each.ndim != 2:
                raise ValueError(f"Param gradient must be a 2D matrix, got one of shape {list(each.shape)}")
        lr, momentum = float(group["lr"]), float(group["momentum"])
        for each, grad in zip(params, grads, strict=True):
            state = self.state[each]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = tensor.zeros_like(grad, memory_format=tensor.preserve_format)
            if not each.numel():
                continue
            average = state["momentum_buffer"].lerp_(grad, 1 - momentum)
            direction = grad.lerp(average, momentum) if group["nesterov"] else average
            update = _orthogonalized(direction, coefficients, iterations, float(group["eps"]))
            each.mul_(1 - lr * float(group["weight_decay"]))
            each.add_(update, alpha=-lr * _ratio(group["adjust_lr_fn"], *each.shape))


def _orthogonalized(
    matrix: Tensor, coefficients: tuple[float, float, float], iterations: int, smallest_norm: float
) -> Tensor:
    """``matrix`` with singular values near 1, in bfloat16."""
    a, b, c = coefficients
    # The smaller of both products of the matrix with its transpose is the cheaper one.
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.bfloat16()
    x = x.t() if tall else x
    # With a norm of at most 1 no singular value is greater.
    x = x / x.norm().clamp(min=smallest_norm)
    for _ in range(iterations):
        gram = x @ x.t()
        x = tensor.addmm(x, tensor.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.t() if tall else x


def _ratio(rule: str | None, rows: int, columns: int) -> float:
    """What the learning rate is multiplied by for a matrix of this shape."""
    if rule is None or rule == "original":
        return sqrt(max(1, rows / columns))
    if rule == "match_rms_adamw":
        return 0.2 * sqrt(max(rows, columns))
    # Groups may have any other: PyTorch leaves their learning rates as they are.
    return 1.0
