"""Hooks on the backward pass through one call of a module.

The tensors among the inputs and outputs of the call pass through identity nodes. The node on the side of the
outputs receives their gradients first; the one on the side of the inputs receives the gradients that the module
computed, and calls the hooks with both.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from tensor import Tensor, is_grad_enabled
from tensor.autograd import Function

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .module import Module


class _Boundary(Function):
    """The identity, as a node of its own in the graph."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.mark_non_differentiable(*[each for each in tensors if not each.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        return grads


class BackwardHooks:
    """The full backward hooks of one call of ``module``.

    Parameters
    ----------
    before
        Hooks ``(module, grad_output)``.
    after
        Hooks ``(module, grad_input, grad_output)``.
    """

    def __init__(
        self, module: Module, before: Sequence[Callable[..., Any]], after: Sequence[Callable[..., Any]]
    ) -> None:
        self._module = module
        self._before, self._after = before, after
        self._grad_outputs: Any = None
        self._inputs = 0
        #: Positions of the arguments that are tensors; ``None`` where no gradient flows to the arguments.
        self._input_positions: list[int] | None = None

    def watch_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments to call ``forward`` with."""
        self._inputs = len(args)
        args, self._input_positions = _through_boundary(args, self._input_gradients_computed)
        return args

    def watch_outputs(self, result: Any) -> Any:
        """The result to return to the caller."""
        outputs = result if isinstance(result, tuple) else (result,)
        positions: list[int] | None = None

        def received(_: Any, grads: tuple[Any, ...]) -> tuple[Any, ...] | None:
            return self._output_gradients_computed(grads, positions or [], len(outputs))

        passed, positions = _through_boundary(outputs, received)
        return passed if isinstance(result, tuple) else passed[0]

    def _output_gradients_computed(
        self, grads: tuple[Any, ...], positions: list[int], count: int
    ) -> tuple[Any, ...]:
        gradients: Any = _per_channel(positions, grads, count)
        for hook in self._before:
            changed = hook(self._module, gradients)
            if changed is None:
                continue
            changed = changed if isinstance(changed, tuple) else (changed,)
            if len(changed) != count:
                raise RuntimeError(
                    "Backward pre hook returned an invalid number of grad_output, got "
                    f"{len(changed)}, but expected {count}"
                )
            gradients = changed
        if self._input_positions is not None:
            self._grad_outputs = gradients
        elif self._after:
            self._call_without_inputs(gradients)
        return tuple(gradients[position] for position in positions)

    def _call_without_inputs(self, grad_outputs: Any) -> None:
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
            "require gradients: its grad_input holds None for each of them",
            stacklevel=2,
        )
        for hook in self._after:
            result = hook(self._module, (None,) * self._inputs, grad_outputs)
            if result is not None and not (isinstance(result, tuple) and all(x is None for x in result)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for "
                    "all gradients."
                )

    def _input_gradients_computed(self, results: tuple[Any, ...], _: Any) -> tuple[Any, ...] | None:
        positions = self._input_positions
        if self._grad_outputs is None or positions is None:
            # The gradient reached the inputs by another way than through the outputs.
            return None
        gradients: Any = _per_channel(positions, results, self._inputs)
        for hook in self._after:
            changed = hook(self._module, gradients, self._grad_outputs)
            if changed is None:
                continue
            changed = changed if isinstance(changed, tuple) else (changed,)
            if len(changed) != self._inputs:
                raise RuntimeError(
                    "Backward hook returned an invalid number of grad_input, got "
                    f"{len(changed)}, but expected {self._inputs}"
                )
            gradients = changed
        self._grad_outputs = None
        return tuple(gradients[position] for position in positions)


def _through_boundary(
    values: tuple[Any, ...], hook: Callable[..., Any]
) -> tuple[tuple[Any, ...], list[int] | None]:
    """``values`` with their tensors passed through a node that has ``hook``, and the positions of the tensors."""
    positions = [position for position, value in enumerate(values) if isinstance(value, Tensor)]
    if not is_grad_enabled() or not any(values[position].requires_grad for position in positions):
        return values, None
    passed = _Boundary.apply(*[values[position] for position in positions])
    node = next(each.grad_fn for each in passed if each.requires_grad)
    node.register_hook(hook)
    replaced = list(values)
    for position, tensor in zip(positions, passed, strict=True):
        replaced[position] = tensor
    cls: Any = type(values)
    return (tuple(replaced) if cls is tuple else cls(*replaced)), positions


def _per_channel(positions: Sequence[int], grads: Sequence[Any], count: int) -> tuple[Any, ...]:
    """The gradients as a tuple of ``count``, ``None`` where the value is no tensor."""
    spread: list[Any] = [None] * count
    for position, grad in zip(positions, grads, strict=True):
        spread[position] = grad
    return tuple(spread)


def register_on_output(module: Module, result: Any, hooks: Sequence[Callable[..., Any]]) -> None:
    """Register non-full backward hooks, on the node of the first tensor of ``result``."""
    while not isinstance(result, Tensor):
        if isinstance(result, dict):
            result = next(value for value in result.values() if isinstance(value, Tensor))
        else:
            result = result[0]
    node = result.grad_fn
    if node is None:
        return
    warnings.warn(
        "Using a non-full backward hook is deprecated: it sees the gradients of the operation that made the first "
        "output, which need not be those of the module's inputs. Use register_full_backward_hook instead.",
        FutureWarning,
        stacklevel=4,
    )

    def bound(hook: Callable[..., Any]) -> Callable[..., Any]:
        return lambda grad_inputs, grad_outputs: hook(module, grad_inputs, grad_outputs)

    for hook in hooks:
        node.register_hook(bound(hook))
