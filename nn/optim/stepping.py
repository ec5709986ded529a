"""Optimizers that apply the same elementwise update to every parameter, in one launch for many parameters.

Such an optimizer is one file: its step, defined by the decorator :func:`step` for device and host, and its class,
which defines the options and :meth:`SteppingOptimizer.update`. :mod:`nn.optim.adagrad` is a short example. The
optimizers of :mod:`nn.optim.matrices` define ``update`` by tensor operations instead.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import tensor
from tensor import Tensor
from tensor.core.sparse import SparseLayout
from tensor.operations.optimizers.steps import advance, decayed, step

from .optimizer import Optimizer, count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = [
    "SteppingOptimizer",
    "advance",
    "at_least_zero",
    "check_betas",
    "decay",
    "decayed",
    "sign",
    "step",
    "step_with_states",
]


class SteppingOptimizer(Optimizer):
    """Base class of these optimizers, which define :meth:`update`.

    Options that choose between implementations in PyTorch (``foreach``, ``fused``, ``capturable``) are accepted and
    kept in state dicts; the one implementation here is fused. ``differentiable=True`` raises NotImplementedError.
    """

    #: What PyTorch's error about a sparse gradient goes on with.
    instead_of_sparse = ""

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if defaults.get("differentiable"):
            if defaults.get("fused"):
                raise RuntimeError("`fused` does not support `differentiable`")
            raise NotImplementedError(
                f"{type(self).__name__} with differentiable=True: steps are not recorded. To differentiate through an "
                "update, write it with operations on tensors"
            )
        if defaults.get("fused") and defaults["foreach"]:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        super().__init__(params, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters by their gradients; parameters without a gradient are skipped.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss and its gradients anew, and returns the loss.

        Returns
        -------
        What ``closure`` returned, or ``None``.
        """
        loss = None
        if closure is not None:
            with tensor.enable_grad():
                loss = closure()
        with tensor.no_grad():
            for group in self.param_groups:
                params, grads = [], []
                sparse: list[tuple[Tensor, Tensor]] = []
                for each in group["params"]:
                    grad = each.grad
                    if grad is not None:
                        if type(grad._layout) is SparseLayout:
                            self.check_sparse(group)
                            sparse.append((each, grad))
                            continue
                        params.append(each)
                        grads.append(grad)
                if len(set(map(id, params))) < len(params):
                    # One that is listed twice is updated twice, and not by two threads at once.
                    for pair in zip(params, grads, strict=True):
                        self.update(group, [pair[0]], [pair[1]])
                elif params:
                    self.update(group, params, grads)
                for each, grad in sparse:
                    self.update_sparse(group, each, grad)
        return loss

    def check_sparse(self, group: dict[str, Any]) -> None:
        """Check, before anything is updated, that the optimizer takes sparse gradients with the options of ``group``.

        Raises
        ------
        RuntimeError
            If it does not.
        """
        raise RuntimeError(
            f"{type(self).__name__} does not support sparse gradients{self.instead_of_sparse}: use SparseAdam, SGD or Adagrad, "
            "or a layer without sparse=True"
        )

    def update_sparse(self, group: dict[str, Any], parameter: Tensor, grad: Tensor) -> None:
        """Update ``parameter`` of ``group`` by its sparse gradient ``grad``, where :meth:`check_sparse` lets it.

        Parameters
        ----------
        group : dict
            The parameter's group, with its options.
        parameter : Tensor
            Dense; it is updated in place.
        grad : Tensor
            Of the parameter's shape and dtype, in the layout ``tensor.sparse_coo``.

        Raises
        ------
        NotImplementedError
            Of an optimizer that does not define it.
        """
        raise NotImplementedError

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """Update ``params``, some or all of ``group``, by ``grads``."""
        raise NotImplementedError

    def prepare(self, group: dict[str, Any], parameter: Tensor, names: Sequence[str]) -> dict[str, Any]:
        """The state of ``parameter``: from its first step on a count of steps, and a tensor under each of ``names``.

        The tensors are zeros at first. ``group`` has the options of the parameter.
        """
        state: dict[str, Any] = self.state[parameter]
        if "step" not in state:
            state["step"] = count()
        for name in names:
            if name not in state:
                state[name] = tensor.zeros_like(parameter, memory_format=tensor.preserve_format)
        return state

    def counted(
        self,
        group: dict[str, Any],
        params: list[Tensor],
        grads: list[Tensor],
        names: Sequence[str],
    ) -> Iterator[tuple[float, list[list[Tensor]]]]:
        """Count a step of each parameter, and group those that have the same count.

        Parameters
        ----------
        group : dict
            Their options.
        params, grads : list of Tensor
            The parameters and their gradients.
        names : sequence of str
            Which states the update takes.

        Yields
        ------
        tuple
            The count, and the columns of the update: parameters, gradients and their states ``names``.
        """
        states = [self.prepare(group, each, names) for each in params]
        counts = advance([state["step"] for state in states])
        columns = [[state[name] for state in states] for name in names]
        if min(counts) == max(counts):
            yield counts[0], [params, grads, *columns]
            return
        for number in sorted(set(counts)):
            members = [i for i, each in enumerate(counts) if each == number]
            yield number, [[column[i] for i in members] for column in (params, grads, *columns)]

    def counted_together(
        self, group: dict[str, Any], params: list[Tensor], names: Sequence[str]
    ) -> list[list[Tensor]]:
        """Count a step of each of ``params``, of ``group``; their states ``names`` in columns, whatever their counts.

        Returns
        -------
        list of lists of Tensor
            One list for each of ``names``, with the state of each of ``params``.
        """
        states = [self.prepare(group, each, names) for each in params]
        advance([state["step"] for state in states])
        return [[state[name] for state in states] for name in names]


def step_with_states(
    optimizer: type[SteppingOptimizer],
    params: list[Tensor],
    grads: list[Tensor],
    states: dict[str, list[Any]],
    options: dict[str, Any],
    *,
    differentiable: bool = False,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:
    """A step of ``optimizer`` without an instance: what its function form does, with states that the caller keeps.

    Parameters
    ----------
    optimizer : type
        The class, whose :meth:`SteppingOptimizer.update` computes the step.
    params, grads : list of Tensor
        Parameters, updated in place, and a gradient for each; strided or, where the class takes them, sparse.
    states : dict
        By the names of state dicts, a tensor for each parameter, updated in place. A list may be empty where its state is
        not used, and have None where a state begins, which is then put into the list.
    options : dict
        What a parameter group has.
    differentiable : bool
        True raises.
    grad_scale, found_inf : Tensor, optional
        One element each: gradients are divided by the first; nothing is done if the second is not 0.

    Raises
    ------
    NotImplementedError
        If ``differentiable``.
    RuntimeError
        If counts of steps are not tensors, or a gradient is sparse that the class does not take.
    """
    if differentiable:
        raise NotImplementedError(
            f"{optimizer.__name__} with differentiable=True: steps are not recorded. To differentiate through an update, "
            "write it with operations on tensors"
        )
    if not all(isinstance(each, Tensor) for each in states.get("step", ())):
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
    if found_inf is not None and bool(found_inf):
        return
    one = optimizer.__new__(optimizer)
    with tensor.no_grad():
        if grad_scale is not None:
            grads = [grad / grad_scale.to(grad.device) for grad in grads]
        dense: list[int] = []
        for number, grad in enumerate(grads):
            if type(grad._layout) is SparseLayout:
                one.check_sparse(options)
            else:
                dense.append(number)
        # One that is listed twice has two states.
        together = len({id(params[number]) for number in dense}) == len(dense)
        for numbers in [dense] if together and dense else [[number] for number in dense]:
            one.state = _states_of(states, params, numbers)
            one.update(options, [params[number] for number in numbers], [grads[number] for number in numbers])
            _keep(states, one.state, params, numbers)
        for number in sorted({*range(len(params))} - {*dense}):
            one.state = _states_of(states, params, [number])
            one.update_sparse(options, params[number], grads[number])
            _keep(states, one.state, params, [number])


def _states_of(
    states: dict[str, list[Any]], params: list[Tensor], numbers: list[int]
) -> defaultdict[Any, Any]:
    result: defaultdict[Any, Any] = defaultdict(dict)
    for number in numbers:
        for name, column in states.items():
            if number < len(column) and column[number] is not None:
                result[params[number]][name] = column[number]
    return result


def _keep(
    states: dict[str, list[Any]], state: dict[Any, Any], params: list[Tensor], numbers: list[int]
) -> None:
    for number in numbers:
        for name, column in states.items():
            if number < len(column):
                column[number] = state[params[number]].get(name)


def sign(group: dict[str, Any]) -> float:
    """-1 to maximize, 1 to minimize."""
    return -1.0 if group["maximize"] else 1.0


def decay(group: dict[str, Any]) -> dict[str, float]:
    """Factors of weight decay: as an L2 penalty in the gradient, or decoupled from it."""
    lr, weight_decay = float(group["lr"]), float(group["weight_decay"])
    if group.get("decoupled_weight_decay"):
        return {"weight_decay": 0.0, "param_factor": 1 - lr * weight_decay}
    return {"weight_decay": weight_decay, "param_factor": 1.0}


def at_least_zero(value: Any, what: str) -> None:
    """Raise ValueError if ``value`` is negative, NaN, or a tensor of several elements."""
    if isinstance(value, Tensor) and value.numel() != 1:
        raise ValueError(
            f"the {what} must be a number or a 1-element Tensor, got one of shape {list(value.shape)}"
        )
    if not value >= 0.0:  # true for NaN too
        raise ValueError(f"Invalid {what}: {value}")


def check_betas(betas: Any) -> None:
    """Raise ValueError unless both decay rates are in [0, 1)."""
    for number in (0, 1):
        if not 0.0 <= betas[number] < 1.0:
            raise ValueError(f"Invalid beta parameter at index {number}: {betas[number]}")
