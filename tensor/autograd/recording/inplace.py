"""Recording operations that write in place, also through views.

Writing a tensor gives it a new history. Writing a view gives its base a new history, of which the written
part came from the operation and the rest from before; the views of that base, the written one among them,
find their new history when they are asked for it.
"""

from __future__ import annotations

import gc
import weakref
from sys import getrefcount
from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import Category
from tensor.core.base import TensorBase, empty, view_of
from tensor.core.modes.grad_mode import modes, recording

from . import node as nodes
from .hooks import keep_gradient
from .node import Node, attach, place_in_graph, track_view
from .recorder import mask_of
from .saved import WrittenView, number_of
from .state import AutogradState, new_state
from .storage_views import AS_STRIDED, as_strided, view_as_complex, view_as_real
from .views import ViewNode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.core.devices.stream import Stream
    from tensor.core.layout import Layout
    from tensor.core.storage import Storage
    from tensor.methods.tensor import Tensor

    from .recorder import BackwardFormula


#: Looked up once: before Python 3.12 members of enumerations are found by Python code.
_FLOATING = Category.FLOATING


def check_in_place(tensor: Tensor) -> None:
    """Raise RuntimeError if recorded code must not write ``tensor``, such as a leaf whose gradient is wanted."""
    if not modes.recording:
        return
    if tensor._storage.version < 0:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a "
            "normal tensor before doing inplace update."
        )
    state = tensor._autograd
    if state is not None and state.requires_grad and state.edge is None:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation: do so inside "
            "tensor.no_grad(), or on a copy"
        )
    base = tensor._base
    if base is None:
        return
    if state is not None and state.origin is not None:
        raise RuntimeError(_refusal(state))
    above = base._autograd
    if above is None or not above.requires_grad:
        return
    if above.edge is None:
        raise RuntimeError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation: do so inside "
            "tensor.no_grad(), or on a copy"
        )
    _check_start(tensor, base)


def _check_start(view: Tensor, base: Tensor) -> None:
    if (view._offset - base._offset) % view._layout.itemsize:
        raise RuntimeError(
            f"in-place operations on a view as {view._layout.dtype!r} that starts {view._offset - base._offset} bytes "
            f"behind its base of {base._layout.dtype!r} cannot be recorded: write a copy instead"
        )


def _refusal(state: AutogradState) -> str:
    """Why a view that is no plain recorded one must not be written."""
    if state.edge is None:
        result, now = ("no_grad", "with grad mode enabled")
        if state.origin == "inference_mode":
            result, now = ("inference", "in normal mode")
        return (
            f"A view was created in {result} mode and is being modified inplace {now}. Whether the write belongs to the "
            "history of its base is not clear: make the view where gradients are recorded, or write inside "
            f"tensor.{state.origin}()."
        )
    return (
        f"Output {state.edge[1]} of {state.edge[0].name()} is a view and is being modified inplace. This view was "
        "created inside a custom Function (or because an input was returned as-is) and the autograd logic to handle "
        "view+inplace would override the custom backward associated with the custom Function, leading to incorrect "
        "gradients. You can fix this by cloning the output of the custom Function."
    )


def attach_in_place(
    node: Node, inputs: Sequence[Any], tensor: Tensor, number: int = 0, *, placed: bool = False
) -> None:
    """Put ``node`` into the graph: an operation on ``inputs`` that has written ``tensor``, its output ``number``.

    Where the operation has a derivative by the tensor's former value, the tensor is among ``inputs``.
    ``placed`` says that :func:`place_in_graph` was called already.
    """
    if not placed:
        place_in_graph(node, inputs, (tensor,))
    base = tensor._base
    if base is None:
        _new_history(tensor, node, number, None)
        return
    _check_start(tensor, base)
    whole = CopySlices.__new__(CopySlices)
    whole.function = node
    whole.view = tensor._layout
    whole.start = (tensor._offset - base._offset) // tensor._layout.itemsize
    whole.saved = ()
    place_in_graph(whole, (base,), (base,))
    # The former value of the view is part of the base's; the operation's other inputs stay its own.
    at = next((i for i, x in enumerate(inputs) if x is tensor), None)
    whole.former = at
    whole.next += node.next if at is None else node.next[:at] + node.next[at + 1 :]
    whole.stream = node.stream
    _new_history(base, whole, 0, tensor)
    renew(tensor)
    if node.saved:
        node.saved = tuple(
            [save_written(entry, tensor) if number_of(entry) == number else entry for entry in node.saved]
        )


def save_written(entry: Any, view: Tensor) -> Any:
    """``entry``, what a node keeps of the tensor ``view`` that its operation wrote, with the history that this has now.

    Gradients of what is restored later then go through the base, as all others do. The node alone is not part of
    the graph: what :class:`CopySlices` stands around runs, and is freed, with it.
    """
    base = view._base
    if base is None:
        return entry
    whole: CopySlices = base._autograd.edge[0]
    return WrittenView(entry, _History(whole))


class _History:
    """Gives values the history of the view that an operation wrote, which ``whole`` stands around.

    That one has the operation, whose node has this: it refers to it weakly.
    """

    __slots__ = ("_whole",)

    def __init__(self, whole: CopySlices) -> None:
        self._whole = weakref.ref(whole)

    def __call__(self, value: Tensor) -> None:
        whole = self._whole()
        assert whole is not None, "a node that runs stands in its CopySlices"
        layout, view = whole.layouts[0], whole.view
        edge = new_state(requires_grad=True, edge=(whole, 0))
        if view.dtype is layout.dtype:
            base = view_of(value._storage, layout, 0)
            base._autograd = edge
            _attach_region(base, value, view, whole.start)
        else:
            base = empty(layout)
            base._autograd = edge
            with recording():
                value._autograd = _region(base, view, whole.start)._autograd


def _attach_region(base: Tensor, view: Tensor, layout: Layout, start: int) -> None:
    """Let ``view`` come from ``base``, from its element ``start`` on, where it lies as ``layout`` says."""
    node = ViewNode.__new__(ViewNode)
    node.view, node.origin, node.saved = AS_STRIDED, base._layout, ()
    node.args = (layout.shape, layout.strides, start)
    attach(node, (base,), (view,))


def record_in_place(
    formula: BackwardFormula,
    written: Tensor,
    inputs: Sequence[Any],
    others: Sequence[Any] = (),
    context: tuple[Any, ...] = (),
) -> None:
    """:meth:`.BackwardFormula.record` for an operation that has written the tensor ``written``."""
    mask = mask_of(inputs)
    if mask is not None and written._layout.dtype.category >= _FLOATING:
        attach_in_place(formula.node(mask, (*inputs, *others), (written,), context), inputs, written)


def _new_history(tensor: Tensor, node: Node, number: int, written: Tensor | None) -> None:
    """Let ``tensor`` come from ``node``, which wrote its view ``written`` or, with ``None``, all of it."""
    state = tensor._autograd
    if state is None:
        state = tensor._autograd = new_state()
    former, had_history = state.edge, state.requires_grad
    state.requires_grad = True
    state.edge = (node, number)
    state.history += 1
    if former is not None:
        _keep_on(tensor, state, former)
    # Its own reference, this one, the argument's, and the written view's.
    storage = tensor._storage
    if not had_history and getrefcount(storage) > 3 + (written is not None):
        _tell_views(tensor, storage)


def _tell_views(base: Tensor, storage: Storage) -> None:
    """Let views that were made before ``base`` had a history have one too.

    Nothing refers from a base to its views, which are made far more often than such a base gets its first
    history while there are other views of it. So they are looked for, as what refers to the memory.
    """
    for each in gc.get_referrers(storage):
        if isinstance(each, TensorBase) and each._base is base:
            state = each._autograd
            if state is None or (not state.requires_grad and state.origin is None):
                renew(each)


def _keep_on(tensor: Tensor, former: AutogradState, edge: Any) -> None:
    """Where the gradient of ``tensor`` was kept, keep that of the tensor as it is now.

    Other hooks stay where they were registered.
    """
    state: AutogradState = tensor._autograd
    state.grad = former.grad
    if former.retains:
        edge[0].own_hooks().retain.pop(edge[1], None)
        keep_gradient(tensor)


def become(tensor: Tensor, view: Tensor) -> None:
    """Let ``tensor`` show what ``view``, a view of it, shows, and have its history."""
    check_in_place(tensor)
    state, former = view._autograd, tensor._autograd
    if state is not None and state.edge is not None:
        if tensor._base is None:
            node, number = state.edge
            _new_history(tensor, node, number, None)
        else:
            tensor._autograd = state
            if former.edge is not None:
                _keep_on(tensor, former, former.edge)
    tensor._layout, tensor._offset, tensor._array = view._layout, view._offset, None
    tensor._storage.version += 1


def renew(view: Tensor) -> None:
    """Let ``view``, whose base was written, start from the base's present history."""
    base, layout, former = view._base, view._layout, view._autograd
    if layout.dtype is base._layout.dtype:
        _attach_region(base, view, layout, (view._offset - base._offset) // layout.itemsize)
    else:
        with recording():
            same = _region(base, layout, view._offset // layout.itemsize)
        view._autograd = same._autograd
    track_view(view)
    if former is not None and former.edge is not None:
        _keep_on(view, former, former.edge)


def _region(whole: Tensor, layout: Layout, start: int) -> Tensor:
    """View of ``whole``'s storage as ``layout``, ``start`` of its elements from the start of the storage.

    The dtypes are one, or a complex and its real one.
    """
    if layout.dtype is not whole._layout.dtype:
        if layout.dtype.is_complex:
            pairs = whole._storage.nbytes() // layout.itemsize
            whole = view_as_complex(as_strided(whole, (pairs, 2), (2, 1), 0))
        else:
            whole = view_as_real(whole)
    return as_strided(whole, layout.shape, layout.strides, start)


class CopySlices(Node):
    """An operation that wrote a part of a tensor.

    It is a class of its own because it stands around another node: it runs that one on its part of the gradient, on
    that one's streams, and frees what that one has saved.

    Attributes
    ----------
    function : Node
        The operation.
    view : Layout
        Shape, strides and dtype of the part.
    start : int
        Elements of that dtype from the tensor's first one to the part's.
    former : int or None
        Which of the operation's inputs is the former value of the part.
    """

    __slots__ = ("former", "function", "start", "view")

    function: Node
    view: Layout
    start: int
    former: int | None

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return "CopySlices"

    def streams(self) -> tuple[Stream, ...]:
        """Those of the operation."""
        return self.function.streams()

    def release(self) -> None:
        """Free what the operation has saved."""
        self.function.release()

    def backward(self, *grads: Any) -> Any:
        """Gradients of the tensor's former value, and of the operation's other inputs."""
        layout = self.layouts[0]
        if 0 in layout.strides:
            layout = layout.as_dense()
        whole = grads[0].new_empty_strided(layout.shape, layout.strides).copy_(grads[0])
        region = _region(whole, self.view, self.start)
        results = self.function.backward(region.clone())
        if type(results) is not tuple:
            results = (results,)
        at = self.former
        former = None if at is None else results[at]
        if former is None:
            region.zero_()
        else:
            region.copy_(former)
        return whole, *(results if at is None else results[:at] + results[at + 1 :])


nodes.renew_with(renew)
