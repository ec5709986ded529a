"""Making views, and their derivatives.

A view is recorded like any operation. Its derivative is the inverse view where there is one (a transpose is
undone by a transpose), and else zeros with the gradient put in the place of the view. Views that are made together, as by
a split, have one node, which writes their gradients side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.base import empty, view_of
from tensor.core.modes.grad_mode import modes, unrecorded

from .node import Node, attach, track_view
from .recorder import BackwardFormula, Derivative
from .state import AutogradState, new_state

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


class View:
    """A kind of view.

    Parameters
    ----------
    name : str
        As users call it.
    function : callable
        ``function(input, *args)``: the view.
    inverse : callable, optional
        ``inverse(grad, layout, *args)``: the input's gradient as a view (or sum) of the view's; ``layout`` is
        the input's.
    node : str, optional
        Name of the node; by default as ``name``.
    """

    __slots__ = ("function", "inverse", "name", "node_name", "spread")

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        inverse: Callable[..., Any] | None = None,
        node: str | None = None,
    ) -> None:
        self.name = name
        self.function = function
        self.inverse = inverse
        self.node_name = node or f"{''.join(part.capitalize() for part in name.split('_'))}Backward0"
        #: How the gradient of what was viewed is run backward.
        self.spread = BackwardFormula(f"{self.node_name}Backward", "grad", [Derivative(_viewed, needs="")])


def show(input: Tensor, layout: Layout, offset: int, view: View, *args: Any) -> Tensor:
    """View of ``input``'s storage with another layout, ``offset`` bytes after ``input``'s first element.

    ``view`` and ``args`` say which view of ``input`` it is.
    """
    # As _shown() would, without the call: nothing is asked for more often.
    result = view_of(input._storage, layout, input._offset + offset)
    result._base = input if input._base is None else input._base
    state = input._autograd
    if state is None:
        return result
    if state.requires_grad and state.edge is None:
        result._base = input
    if state.requires_grad and modes.recording and _has_derivative(layout):
        node = ViewNode.__new__(ViewNode)
        node.view, node.args, node.origin = view, args, input._layout
        node.saved = ()
        attach(node, (input,), (result,))
        track_view(result)
        result._autograd.origin = state.origin
    elif state.requires_grad or state.origin is not None:
        _leave_out(result, state)
    return result


def _shown(input: Tensor, layout: Layout, offset: int) -> Tensor:
    result = view_of(input._storage, layout, input._offset + offset)
    state = input._autograd
    # A leaf may be a view itself, of what takes no part in differentiation.
    is_leaf = state is not None and state.requires_grad and state.edge is None
    result._base = input if is_leaf or input._base is None else input._base
    return result


def _leave_out(view: Tensor, state: AutogradState) -> None:
    """Note why a view of a tensor with this state is not recorded."""
    output = view._autograd = new_state()
    output.origin = state.origin or ("inference_mode" if modes.inference else "no_grad")


def _has_derivative(layout: Layout) -> bool:
    return layout.dtype.is_floating_point or layout.dtype.is_complex


class ViewNode(Node):
    """A recorded view.

    It is a class of its own because it saves nothing and is never used up: it says how the view is taken, from which
    its derivative follows; and because views are recorded more often than anything else.
    """

    __slots__ = ("args", "origin", "view")

    view: View
    args: tuple[Any, ...]
    origin: Layout

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return self.view.node_name

    def release(self) -> None:
        """Keep everything: nothing was saved."""

    def backward(self, *grads: Any) -> Any:
        """Gradient of the viewed tensor."""
        if self.view.inverse is not None:
            return self.view.inverse(grads[0], self.origin, *self.args)
        return spread(grads[0], self.origin, self.view, self.args)


def spread(grad: Tensor, layout: Layout, view: View, args: tuple[Any, ...]) -> Tensor:
    """Zeros of ``layout``'s shape with ``grad`` in the place of a view."""
    with unrecorded():
        result = empty(layout.with_dtype(grad._layout.dtype).as_dense())
        result.zero_()
        view.function(result, *args).copy_(grad)
    if modes.recording:
        view.spread.record((result,), (grad,), (), (view, args))
    return result


def _viewed(grad: Tensor, view: View, args: tuple[Any, ...]) -> Tensor:
    """Gradient of the gradient: its view."""
    result: Tensor = view.function(grad, *args)
    return result


class Division:
    """A kind of views that are made together, none of which shows what another one does.

    Parameters
    ----------
    name : str
        As users call it.
    function : callable
        ``function(input, *args)``: the views, a tuple.
    """

    __slots__ = ("formula", "function", "node_name")

    def __init__(self, name: str, function: Callable[..., tuple[Tensor, ...]]) -> None:
        self.function = function
        self.node_name = f"{''.join(part.capitalize() for part in name.split('_'))}Backward0"
        #: How the gradient of what was divided is run backward.
        self.formula = BackwardFormula(f"{self.node_name}Backward", "", joint=Derivative(_divided, needs=""))


def divide(
    input: Tensor, parts: Sequence[tuple[Layout, int]], division: Division, *args: Any
) -> tuple[Tensor, ...]:
    """Views of ``input``'s storage: of each the layout, and how many bytes behind ``input``'s first element it begins.

    ``division`` and ``args`` say which views of ``input`` they are.
    """
    results = tuple([_shown(input, layout, offset) for layout, offset in parts])
    state = input._autograd
    if state is None or not results:
        return results
    if state.requires_grad and modes.recording and _has_derivative(input._layout):
        node = DivisionNode.__new__(DivisionNode)
        node.division, node.args, node.origin = division, args, input._layout
        node.saved = ()
        attach(node, (input,), results)
        for result in results:
            track_view(result)
            result._autograd.origin = state.origin
    elif state.requires_grad or state.origin is not None:
        for result in results:
            _leave_out(result, state)
    return results


class DivisionNode(Node):
    """Recorded views that were made together.

    It is a class of its own for the reasons of :class:`ViewNode`, whose outputs it has several of.
    """

    __slots__ = ("args", "division", "origin")

    division: Division
    args: tuple[Any, ...]
    origin: Layout

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return self.division.node_name

    def release(self) -> None:
        """Keep everything: nothing was saved."""

    def backward(self, *grads: Any) -> Any:
        """Gradient of the divided tensor: those of the views side by side, zeros for what has none."""
        division, args = self.division, self.args
        dtype = next(grad._layout.dtype for grad in grads if grad is not None)
        with unrecorded():
            result = empty(self.origin.with_dtype(dtype).as_dense())
            parts = division.function(result, *args)
            if None in grads or sum(part._layout.numel for part in parts) < result._layout.numel:
                result.zero_()
            for part, grad in zip(parts, grads, strict=True):
                if grad is not None:
                    part.copy_(grad)
            del parts
        if modes.recording:
            division.formula.record((result,), grads, (), (division, args))
        return result


def _divided(
    mask: tuple[bool | None, ...], grad: Tensor, division: Division, args: tuple[Any, ...]
) -> tuple[Tensor | None, ...]:
    """Gradients of the gradients: the views of the gradient."""
    parts = division.function(grad, *args)
    return tuple([part if asked else None for part, asked in zip(parts, mask, strict=True)])
