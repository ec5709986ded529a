"""Recording operations that write in place, also through views.

Writing a tensor gives it a new history. Writing a view gives its base a new history, of which the written
part came from the operation and the rest from before; the views of that base, the written one among them,
find their new history when they are asked for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..parts import AS_STRIDED, as_strided
from ..viewing import ViewNode
from .modes import modes
from .node import Node, attach, place_in_graph, track_view
from .state import AutogradState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..layout import Layout
    from ..tensors import Tensor


def check_in_place(tensor: Tensor) -> None:
    """Raise RuntimeError if recorded code must not write ``tensor``: a leaf whose gradient is wanted."""
    if not modes.recording:
        return
    state = tensor._autograd
    if state is not None and state.requires_grad and state.edge is None:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation: do so inside "
            "tensor.no_grad(), or on a copy"
        )
    base = tensor._base
    if base is not None and base._autograd is not None:
        above = base._autograd
        if above.requires_grad and above.edge is None:
            raise RuntimeError(
                "a view of a leaf Variable that requires grad is being used in an in-place operation: do so inside "
                "tensor.no_grad(), or on a copy"
            )


def attach_in_place(node: Node, inputs: Sequence[Any], tensor: Tensor) -> None:
    """Put ``node`` into the graph: an operation on ``inputs`` that has written ``tensor``.

    Where the operation reads the tensor's former value, that is the first of ``inputs``.
    """
    place_in_graph(node, inputs, (tensor,))
    base = tensor._base
    if base is None:
        _new_history(tensor, node)
        return
    if base._layout.dtype is not tensor._layout.dtype:
        raise RuntimeError(
            f"in-place operations on a view as {tensor._layout.dtype!r} of a tensor of {base._layout.dtype!r} cannot "
            "be recorded: write a copy instead"
        )
    whole = CopySlices.__new__(CopySlices)
    whole.function = node
    whole.view = tensor._layout
    whole.start = (tensor._offset - base._offset) // tensor._layout.itemsize
    whole.saved = ()
    place_in_graph(whole, (base,), (base,))
    # The former value of the view is part of the base's; the operation's other inputs stay its own.
    first_is_view = bool(inputs) and inputs[0] is tensor
    whole.reads_view = first_is_view
    whole.next += node.next[1:] if first_is_view else node.next
    whole.stream = node.stream
    _new_history(base, whole)
    renew(tensor)


def _new_history(tensor: Tensor, node: Node) -> None:
    state = tensor._autograd
    if state is None:
        state = tensor._autograd = AutogradState()
    state.requires_grad = True
    state.edge = (node, 0)
    state.history += 1
    state.retains = False


def renew(view: Tensor) -> None:
    """Let ``view``, whose base was written, start from the base's present history."""
    base, layout = view._base, view._layout
    node = ViewNode.__new__(ViewNode)
    node.view, node.origin, node.saved = AS_STRIDED, base._layout, ()
    node.args = (layout.shape, layout.strides, (view._offset - base._offset) // layout.itemsize)
    attach(node, (base,), (view,))
    track_view(view)


class CopySlices(Node):
    """An operation that wrote a part of a tensor.

    Attributes
    ----------
    function : Node
        The operation.
    view : Layout
        Shape and strides of the part.
    start : int
        Elements from the tensor's first one to the part's.
    reads_view : bool
        Whether the operation's first input is the former value of the part.
    """

    __slots__ = ("function", "reads_view", "start", "view")

    function: Node
    view: Layout
    start: int
    reads_view: bool

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return "CopySlices"

    def release(self) -> None:
        """Free what the operation has saved."""
        self.function.release()

    def backward(self, *grads: Any) -> Any:
        """Gradients of the tensor's former value, and of the operation's other inputs."""
        layout = self.layouts[0].as_dense()
        whole = grads[0].new_empty_strided(layout.shape, layout.strides).copy_(grads[0])
        part = as_strided(whole, self.view.shape, self.view.strides, self.start)
        results = self.function.backward(part.clone())
        if type(results) is not tuple:
            results = (results,)
        former = results[0] if self.reads_view else None
        rest = results[1:] if self.reads_view else results
        if former is None:
            part.zero_()
        else:
            part.copy_(former)
        return whole, *rest
