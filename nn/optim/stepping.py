"""Optimizers that apply the same elementwise update to every parameter, in one launch for many parameters.

Such an optimizer is one file: its step, defined by the decorator :func:`step` for device and host, and its class,
which defines the options and :meth:`SteppingOptimizer.update`. :mod:`nn.optim.adagrad` is a short example. The
optimizers of :mod:`nn.optim.matrices` define ``update`` by tensor operations instead.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import drv
import tensor
from drv.failures import called_by
from tensor import Tensor
from tensor.core.sparse import SparseLayout
from tensor.operations.optimizers.numbers import Number, number_of, square_root, where_above
from tensor.operations.optimizers.steps import advance, advance_on_device, decayed, step

from .optimizer import Optimizer, count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = [
    "Number",
    "SteppingOptimizer",
    "advance",
    "at_least_zero",
    "check_betas",
    "decay",
    "decayed",
    "first_step_outside_of_captures",
    "number_of",
    "sign",
    "square_root",
    "step",
    "step_with_states",
    "where_above",
]


class SteppingOptimizer(Optimizer):
    """Base class of these optimizers, which define :meth:`update`.

    Options that choose between implementations in PyTorch (``foreach``, ``fused``) are accepted and kept in state dicts;
    the one implementation here is fused. ``differentiable=True`` raises NotImplementedError.

    With ``capturable=True`` the counts of steps of parameters on CUDA devices are on the device, and what follows from them
    is computed there, so that a CUDA graph of the step counts at each replay.
    """

    #: A float32 tensor of one element on a device, set for the time of a step: where it is not 0, nothing is done.
    found_inf: Tensor | None = None
    #: Whether :meth:`update` does all steps with :meth:`apply`, which leaves them out where ``found_inf`` is not 0.
    _step_supports_amp_scaling = False
    #: Whether what a step without ``capturable`` computes on the host stays right at every replay of a graph.
    counts_nothing = False

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
        if capturing():
            self.check_capture()
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

    def check_capture(self) -> None:
        """Check, in a capture, that a CUDA graph of the step would do the same as the step.

        Raises
        ------
        CaptureError
            If it counts steps on the host.
        """
        if not self.counts_nothing and not all(group.get("capturable") for group in self.param_groups):
            name = type(self).__name__
            advice = (
                "pass capturable=True to the optimizer"
                if "capturable" in self.defaults
                else "capture the backward pass only, and step outside of the graph"
            )
            raise drv.CaptureError(
                f"{name}.step() while a stream is captured into a CUDA graph, and capturable is False: the host would count "
                f"one step, and every replay be that same step; {advice}\n{called_by()}"
            )

    def steps_on_device(self) -> bool:
        """Whether a step can be left out by a flag on the device, which the host does not read.

        All parameters are on CUDA devices then, and counts of steps with them.
        """
        return (
            self._step_supports_amp_scaling
            and all(
                group.get("capturable") or (self.counts_nothing and group.get("fused"))
                for group in self.param_groups
            )
            and all(each.is_cuda for group in self.param_groups for each in group["params"])
        )

    def apply(self, step: Any, operands: Sequence[Sequence[Tensor]], **numbers: Any) -> None:
        """Do ``step`` to ``operands``; see :meth:`tensor.operations.optimizers.steps.Step.update`.

        Parameters
        ----------
        step
            Made by the decorator :func:`step`.
        operands
            Parameters, gradients and states.
        numbers
            The step's.
        """
        step.update(operands, skip=self.found_inf, **numbers)

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
        on_device = parameter.is_cuda if group.get("capturable") else False
        steps = state.get("step")
        if steps is None:
            state["step"] = self.number(group, parameter, 0.0)
        elif steps._layout.device_state.is_cuda is not on_device:
            for name in self.on_host:
                if name in state:
                    state[name] = state[name].to(parameter.device if on_device else "cpu")
        for name in names:
            if name not in state:
                first_step_outside_of_captures(self)
                state[name] = tensor.zeros_like(parameter, memory_format=tensor.preserve_format)
        return state

    def columns(
        self, group: dict[str, Any], params: list[Tensor], names: Sequence[str]
    ) -> list[list[Tensor]]:
        """The counts of steps of ``params``, of ``group``, and their states ``names``, which :meth:`prepare` makes first.

        After the first step they are ready, which is told without a call for each parameter.
        """
        keys = ("step", *names)
        states = [self.state[each] for each in params]
        try:
            result = [[state[key] for state in states] for key in keys]
        except KeyError:
            ready = False
        else:
            on_device = any(layout.device_state.is_cuda for layout in {each._layout for each in result[0]})
            ready = not on_device and not group.get("capturable")
        if ready:
            return result
        states = [self.prepare(group, each, names) for each in params]
        return [[state[key] for state in states] for key in keys]

    def number(self, group: dict[str, Any], parameter: Tensor, value: float) -> Tensor:
        """A state of ``parameter`` that is one number, such as a count: on the host, or where ``group`` says on its device.

        Its first value is ``value``.
        """
        result = count(value)
        if group.get("capturable") and parameter.is_cuda:
            first_step_outside_of_captures(self)
            return result.to(parameter.device)
        return result

    def counted(
        self,
        group: dict[str, Any],
        params: list[Tensor],
        grads: list[Tensor],
        names: Sequence[str],
    ) -> Iterator[tuple[Any, list[list[Tensor]]]]:
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
            The count, and the columns of the update: parameters, gradients and their states ``names``. Counts on devices
            are one :class:`~tensor.operations.optimizers.numbers.Number`, whatever they are.
        """
        steps, *states = self.columns(group, params, names)
        operands = [params, grads, *states]
        # Otherwise all counts are on the host.
        on_device = [i for i, each in enumerate(steps) if each.is_cuda] if group.get("capturable") else []
        if on_device:
            counts_on_device = [steps[i] for i in on_device]
            advance_on_device(counts_on_device, self.found_inf)
            yield Number.of_each(counts_on_device), [[column[i] for i in on_device] for column in operands]
            rest = [i for i, each in enumerate(steps) if not each.is_cuda]
            if not rest:
                return
            steps, *operands = ([column[i] for i in rest] for column in (steps, *operands))
        counts = advance(steps)
        if min(counts) == max(counts):
            yield counts[0], operands
            return
        for number in sorted(set(counts)):
            members = [i for i, each in enumerate(counts) if each == number]
            yield number, [[column[i] for i in members] for column in operands]

    def counted_together(
        self, group: dict[str, Any], params: list[Tensor], names: Sequence[str]
    ) -> list[list[Tensor]]:
        """Count a step of each of ``params``, of ``group``; their states ``names`` in columns, whatever their counts.

        Returns
        -------
        list of lists of Tensor
            One list for each of ``names``, with the state of each of ``params``.
        """
        steps, *states = self.columns(group, params, names)
        if on_device := [each for each in steps if each.is_cuda]:
            advance_on_device(on_device, self.found_inf)
        advance([each for each in steps if not each.is_cuda])
        return states


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
    options = {"capturable": any(each.is_cuda for each in states.get("step", ())), **options}
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


def capturing() -> bool:
    """Whether the current stream of a device is captured into a CUDA graph."""
    return tensor.cuda.is_current_stream_capturing()


def first_step_outside_of_captures(optimizer: Optimizer) -> None:
    """Refuse to make states in a capture, where every replay would make them anew.

    Raises
    ------
    CaptureError
        In a capture.
    """
    if capturing():
        raise drv.CaptureError(
            f"{type(optimizer).__name__}.step() while a stream is captured into a CUDA graph would make states that are not "
            "there yet, and every replay would set them to their first values again: take a step before the capture (a "
            f"warm-up on a side stream), or load a state dict\n{called_by()}"
        )


def sign(group: dict[str, Any]) -> float:
    """-1 to maximize, 1 to minimize."""
    return -1.0 if group["maximize"] else 1.0


def decay(group: dict[str, Any], lr: Any = None) -> dict[str, Any]:
    """Factors of weight decay: as an L2 penalty in the gradient, or decoupled from it.

    ``lr`` is the learning rate, as :func:`number_of` gives it; that of ``group`` as a float if it is not given.
    """
    lr = float(group["lr"]) if lr is None else lr
    weight_decay = float(group["weight_decay"])
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
