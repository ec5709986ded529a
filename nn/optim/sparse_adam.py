"""Adam for sparse gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensor

from .optimizer import Optimizer
from .stepping import check_betas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tensor import Tensor


def at_places_of(like: Tensor, values: Tensor) -> Tensor:
    """The sparse tensor of ``values`` at the positions of the coalesced tensor ``like``."""
    return tensor.sparse_coo_tensor(
        like.indices(), values, like.shape, is_coalesced=True, check_invariants=False
    )


class SparseAdam(Optimizer):
    """Adam in which only the moments and the elements are updated that a sparse gradient has.

    With the moments ``m`` and ``v`` of :class:`Adam`, ``p -= lr * sqrt(1 - beta2 ** t) / (1 - beta1 ** t) * m / (sqrt(v) + eps)``
    at step t, for the rows that appear in the gradient; the moments of the others do not decay.

    Parameters
    ----------
    params : iterable
        Dense parameters or groups; see :class:`Optimizer`. Their gradients are sparse, as those of
        ``nn.Embedding(sparse=True)``.
    lr : float or Tensor
        Learning rate.
    betas : tuple of two floats
        Decay rates of the running averages of the gradient and of its square.
    eps : float
        Added to the denominator.
    maximize : bool
        Whether to maximize the objective.

    Raises
    ------
    ValueError
        If ``lr`` or ``eps`` is not positive, a decay rate not in [0, 1), or a parameter sparse.

    Examples
    --------
    >>> table = nn.Embedding(10, 3, sparse=True)
    >>> optimizer = nn.optim.SparseAdam(table.parameters(), lr=1e-2)
    >>> table(tensor.tensor([1, 2])).sum().backward()
    >>> optimizer.step()
    """

    on_host = ()

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, tensor.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, "maximize": maximize})
        wrong = [
            [number, position]
            for number, group in enumerate(self.param_groups)
            for position, each in enumerate(group["params"])
            if each.layout is not tensor.strided
        ]
        if wrong:
            raise ValueError(f"Sparse params at indices {wrong}: SparseAdam requires dense parameter tensors")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters by their sparse gradients; parameters without a gradient are skipped.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss and its gradients anew, and returns the loss.

        Returns
        -------
        What ``closure`` returned, or ``None``.

        Raises
        ------
        RuntimeError
            If a gradient is dense; nothing is updated then.
        """
        loss = None
        if closure is not None:
            with tensor.enable_grad():
                loss = closure()
        pairs = [
            (group, each, each.grad)
            for group in self.param_groups
            for each in group["params"]
            if each.grad is not None
        ]
        for _, _, grad in pairs:
            if not grad.is_sparse:
                raise RuntimeError(
                    "SparseAdam does not support dense gradients, please consider Adam instead"
                )
        with tensor.no_grad():
            for group, each, grad in pairs:
                self._update(group, each, grad)
        return loss

    def _update(self, group: dict[str, Any], parameter: Tensor, grad: Tensor) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = 0
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = tensor.zeros_like(parameter, memory_format=tensor.preserve_format)
        state["step"] += 1
        beta1, beta2 = map(float, group["betas"])
        sparse_adam(
            [parameter],
            [grad],
            [state["exp_avg"]],
            [state["exp_avg_sq"]],
            [state["step"]],
            eps=float(group["eps"]),
            beta1=beta1,
            beta2=beta2,
            lr=float(group["lr"]),
            maximize=group["maximize"],
        )


def sparse_adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[int],
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float,
    maximize: bool,
) -> None:
    """A step of :class:`SparseAdam` in place, with states that the caller keeps: its function form.

    Parameters
    ----------
    params, grads : list of Tensor
        Dense parameters and their sparse gradients. Those without elements change nothing.
    exp_avgs, exp_avg_sqs : list of Tensor
        Running averages of gradients and of their squares, dense, for each parameter.
    state_steps : list of int
        Which step it is for each parameter, from 1.
    eps, beta1, beta2, lr, maximize
        Options of :class:`SparseAdam`.
    """
    for parameter, grad, exp_avg, exp_avg_sq, step in zip(
        params, grads, exp_avgs, exp_avg_sqs, state_steps, strict=True
    ):
        rows = (-grad if maximize else grad).coalesce()
        g = rows.values()
        if not g.numel():
            continue
        first = _moved(exp_avg, rows, g, 1 - beta1)
        second = _moved(exp_avg_sq, rows, g * g, 1 - beta2)
        rate = lr * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
        parameter.add_(at_places_of(rows, first / (second.sqrt() + eps)), alpha=-rate)


def _moved(average: Tensor, rows: Tensor, target: Tensor, share: float) -> Tensor:
    """A running average moved by ``share`` of the way to ``target`` at the positions of ``rows``; what it is there then."""
    before = average.sparse_mask(rows).values()
    change = (target - before) * share
    average.add_(at_places_of(rows, change))
    return before + change
