"""L-BFGS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensor
from nn.optim.optimizer import Optimizer
from nn.optim.stepping import at_least_zero

from .line_search import Point, strong_wolfe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tensor import Tensor

#: Curvature below which a step says nothing about the Hessian.
_CURVED = 1e-10


class LBFGS(Optimizer):
    """L-BFGS: a quasi-Newton method whose inverse Hessian is approximated from the last steps.

    A step is up to ``max_iter`` iterations, each of which evaluates the closure at least once. All parameters are in
    one group, and on one device.

    Parameters
    ----------
    params : iterable
        Parameters; see :class:`Optimizer`.
    lr : float or Tensor
        Learning rate; with a line search, the step length that is tried first.
    max_iter : int
        Maximum of iterations in a step.
    max_eval : int, optional
        Maximum of evaluations of the closure in a step; 5/4 of ``max_iter`` by default.
    tolerance_grad : float
        A step ends when no element of the gradient is greater.
    tolerance_change : float
        A step ends when no parameter, or the loss, changes by more.
    history_size : int
        Number of past steps that approximate the Hessian; each takes twice the memory of the parameters.
    line_search_fn : str, optional
        ``"strong_wolfe"`` for a line search by the strong Wolfe conditions; without it the step length is ``lr``.

    Raises
    ------
    ValueError
        If there are several groups.
    RuntimeError
        When it steps, if ``line_search_fn`` is unknown.

    References
    ----------
    Nocedal and Wright, "Numerical Optimization", algorithm 7.4 (two-loop recursion).
    """

    absent = {}  # noqa: RUF012 - none

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        at_least_zero(lr, "learning rate")
        super().__init__(
            params,
            {
                "lr": lr,
                "max_iter": max_iter,
                "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Run up to ``max_iter`` iterations.

        Parameters
        ----------
        closure : callable
            Computes the loss and its gradients anew, and returns the loss. It is called several times.

        Returns
        -------
        The loss of the first evaluation.

        Raises
        ------
        TypeError
            Without a closure.
        RuntimeError
            If ``line_search_fn`` is neither ``None`` nor ``"strong_wolfe"``.
        """
        if closure is None:
            raise TypeError("LBFGS.step() wants a closure that computes the loss and its gradients anew")
        group = self.param_groups[0]
        search = group["line_search_fn"]
        if search not in (None, "strong_wolfe"):
            raise RuntimeError(f"only 'strong_wolfe' is supported as line_search_fn, got {search!r}")
        with tensor.no_grad():
            return self._step(closure, group, search is not None)

    def _step(self, closure: Callable[[], Any], group: dict[str, Any], search: bool) -> Any:
        lr, change = float(group["lr"]), group["tolerance_change"]
        state = self.state[group["params"][0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        with tensor.enable_grad():
            first_loss = closure()
        loss, gradient, calls = float(first_loss), self._gradient(), 1
        state["func_evals"] += 1
        if _greatest(gradient) <= group["tolerance_grad"]:
            return first_loss
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._direction(state, gradient, group["history_size"])
            if state.get("prev_flat_grad") is None:
                state["prev_flat_grad"] = gradient.clone()
            else:
                state["prev_flat_grad"].copy_(gradient)
            state["prev_loss"] = previous_loss = loss
            step = lr * min(1.0, 1.0 / float(gradient.abs().sum())) if state["n_iter"] == 1 else lr
            state["t"] = step
            slope = float(gradient.dot(direction))
            if slope > -change:
                break
            evaluations = 0
            if search:
                start = Point(0.0, loss, gradient, slope)
                point, evaluations = self._search(
                    closure, start, step, direction, change, group["max_eval"] - calls
                )
                loss, gradient, step = point.loss, point.gradient, point.step
                state["t"] = step
            self._move(step, direction)
            if not search and iteration < group["max_iter"]:
                with tensor.enable_grad():
                    loss = float(closure())
                gradient, evaluations = self._gradient(), 1
            calls += evaluations
            state["func_evals"] += evaluations
            if calls >= group["max_eval"] or _greatest(gradient) <= group["tolerance_grad"]:
                break
            if abs(step) * _greatest(direction) <= change or abs(loss - previous_loss) < change:
                break
        return first_loss

    def _direction(self, state: dict[str, Any], gradient: Tensor, history_size: int) -> Tensor:
        """Search direction of the next iteration, after the last step was put into the history."""
        if state["n_iter"] == 1:
            state["old_dirs"], state["old_stps"], state["ro"] = [], [], []
            state["H_diag"] = 1
            state["d"] = -gradient
            return state["d"]  # type: ignore[no-any-return]
        changes, steps, factors = state["old_dirs"], state["old_stps"], state["ro"]
        change = gradient - state["prev_flat_grad"]
        step = state["d"] * state["t"]
        curvature = change.dot(step)
        if float(curvature) > _CURVED:
            if len(changes) == history_size:
                for each in (changes, steps, factors):
                    each.pop(0)
            changes.append(change)
            steps.append(step)
            factors.append(1.0 / curvature)
            state["H_diag"] = curvature / change.dot(change)
        # The inverse Hessian times the gradient, in two loops over the history; the numbers stay on the device.
        direction = -gradient
        alphas = []
        for change, step, factor in zip(reversed(changes), reversed(steps), reversed(factors), strict=True):
            alpha = step.dot(direction) * factor
            direction.addcmul_(change, alpha, value=-1)
            alphas.append(alpha)
        direction.mul_(state["H_diag"])
        for change, step, factor, alpha in zip(changes, steps, factors, reversed(alphas), strict=True):
            direction.addcmul_(step, alpha - change.dot(direction) * factor)
        state["d"] = direction
        return direction

    def _search(
        self,
        closure: Callable[[], Any],
        start: Point,
        step: float,
        direction: Tensor,
        change: float,
        max_evaluations: int,
    ) -> tuple[Point, int]:
        params = self.param_groups[0]["params"]
        saved = [each.clone() for each in params]

        def evaluate(step: float) -> Point:
            self._move(step, direction)
            with tensor.enable_grad():
                loss = float(closure())
            gradient = self._gradient()
            for each, value in zip(params, saved, strict=True):
                each.copy_(value)
            return Point(step, loss, gradient, float(gradient.dot(direction)))

        return strong_wolfe(evaluate, start, step, _greatest(direction), change, max_evaluations)

    def _gradient(self) -> Tensor:
        """The gradients of all parameters as one vector."""
        flat = []
        for each in self.param_groups[0]["params"]:
            grad = each.grad
            if grad is None:
                grad = tensor.zeros_like(each)
            elif grad.layout is not tensor.strided:
                grad = grad.to_dense()
            flat.append((tensor.view_as_real(grad) if grad.is_complex() else grad).reshape(-1))
        return tensor.cat(flat)

    def _move(self, step: float, direction: Tensor) -> None:
        """Add ``step`` times ``direction`` to the parameters."""
        start = 0
        for each in self.param_groups[0]["params"]:
            real = tensor.view_as_real(each) if each.is_complex() else each
            part = direction[start : start + real.numel()]
            real.add_(part.view(real.shape), alpha=step)
            start += real.numel()


def _greatest(vector: Tensor) -> float:
    return float(vector.abs().max())
