"""Nodes of the graph: one for each recorded operation, one for each leaf."""

from __future__ import annotations

import itertools
import threading
import weakref
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from tensor.core.base import TensorBase

from . import anomaly
from .node_hooks import NodeHooks, RemovableHandle, run_hooks
from .state import AutogradState, recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tensor.core.devices.stream import Stream
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

#: A node, and which of its outputs.
Edge: TypeAlias = "tuple[Node, int]"

_sequence = itertools.count()
_LAST = 1 << 62
#: Two threads may use a leaf for the first time at once; only one of them makes its node.
_making = threading.Lock()


class Node:
    """A recorded operation, to be run backward: ``grad_fn`` of its results.

    Attributes
    ----------
    next : tuple
        For each input of the operation the edge that its gradient goes to; ``None`` where none is asked for.
    layouts : tuple of Layout
        What the gradients of the operation's outputs look like.
    sequence : int
        Grows with every recorded operation; a backward pass runs nodes from the newest to the oldest.
    stream : Stream or None
        The stream of the operation, on which its gradient is computed too; ``None`` for the CPU.
    saved : tuple or None
        What the derivative needs; ``None`` once it was freed.
    hooks : NodeHooks or None
        Hooks and metadata; most nodes have none.
    """

    __slots__ = ("__weakref__", "hooks", "layouts", "next", "saved", "sequence", "stream")

    next: tuple[Any, ...]
    layouts: tuple[Layout, ...]
    sequence: int
    stream: Stream | None
    saved: tuple[Any, ...] | None
    hooks: NodeHooks | None

    #: By output, those other outputs that are computed from it although their gradients do not pass through it: it gets a part
    #: of its gradient. Few nodes have such.
    derived: Mapping[int, Collection[int]] = MappingProxyType({})
    #: ``backward`` of a node that frees what was saved on the way, where the graph is not used afterwards; None where there
    #: is little to free.
    last_backward: Callable[..., Any] | None = None

    def streams(self) -> tuple[Stream, ...]:
        """The streams that are current while the node runs, one for each device that it works on; none on the CPU.

        A node runs backward on the streams on which its operation ran forward.
        """
        return () if self.stream is None else (self.stream,)

    def backward(self, *grads: Tensor | None) -> Any:
        """Gradients of the inputs from those of the outputs: one, or a tuple with one for each input.

        A gradient that is broadcast, or of another dtype of the same category, is reduced or converted by the
        engine. Subclasses define it; here NotImplementedError is raised.
        """
        raise NotImplementedError

    def gradients(self, grads: list[Any], keep_graph: bool) -> list[Any]:
        """Gradients of the inputs, one for each edge in ``next``: :meth:`backward` as the engine calls it.

        Parameters
        ----------
        grads : list of Tensor or None
            The gradients of the outputs.
        keep_graph : bool
            Whether what was saved is needed again.

        Raises
        ------
        RuntimeError
            If ``backward`` gives another number of gradients.
        """
        if grads[0] is None and all(grad is None for grad in grads):
            return [None] * len(self.next)
        backward = self.last_backward
        if backward is None or keep_graph:
            backward = self.backward
        results = backward(*grads)
        if type(results) is not tuple:
            results = (results,)
        if len(results) != len(self.next):
            raise RuntimeError(
                f"Function {self.name()} returned an incorrect number of gradients (expected {len(self.next)}, got "
                f"{len(results)})"
            )
        return list(results)

    def name(self) -> str:
        """Name as PyTorch shows it, such as ``"AddBackward0"``."""
        return type(self).__name__

    def release(self) -> None:
        """Free what was saved: a further pass through the node raises RuntimeError, unless nothing was."""
        if self.saved:
            self.saved = None

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """For each input the node that its gradient goes to, and which of its outputs; ``(None, 0)`` for none.

        >>> x = tensor.ones(2, requires_grad=True)
        >>> [(node.name(), number) for node, number in (2 * x).grad_fn.next_functions if node is not None]
        [('AccumulateGrad', 0)]
        """
        return tuple((None, 0) if edge is None else edge for edge in self.next)

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict for anything to be kept with the node; in anomaly mode it has the stack of the forward operation."""
        return self.own_hooks().metadata

    def own_hooks(self) -> NodeHooks:
        """The node's table of hooks, created at the first call.

        It is the same object at each call.
        """
        result = self.hooks
        if result is None:
            result = self.hooks = NodeHooks()
        return result

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call ``fn(grad_inputs, grad_outputs)`` after the node ran; what it returns replaces ``grad_inputs``.

        Both are tuples, with ``None`` for gradients that there are not; ``None`` as a result replaces nothing.
        Returns a handle, whose ``remove()`` takes the hook away.

        Raises
        ------
        TypeError
            If ``fn`` is not callable; in a backward pass, if it returns anything but gradients.
        RuntimeError
            In a backward pass, if it returns another number of gradients, or one of another shape, dtype or device.
        """
        return RemovableHandle.of(self.own_hooks().after, fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call ``fn(grad_outputs)`` before the node runs; what it returns replaces ``grad_outputs``.

        It is a tuple, with ``None`` for gradients that there are not; ``None`` as a result replaces nothing. Returns
        a handle, whose ``remove()`` takes the hook away. Raises as :meth:`register_hook` does.
        """
        return RemovableHandle.of(self.own_hooks().before, fn)

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


class AccumulateGrad(Node):
    """End of the graph: adds gradients up in a leaf's ``grad``.

    It is a class of its own because it is no operation: it has no inputs, the engine runs it before everything else,
    and the leaf has it as long as somebody uses it.

    Its stream is the one that was current at the leaf's first use in the recorded forward pass.
    """

    __slots__ = ("variable",)

    variable: Tensor

    def __init__(self, variable: Tensor) -> None:
        layout = variable._layout
        self.variable = variable
        self.next = ()
        self.layouts = (layout,)
        self.sequence = _LAST
        self.stream = layout.device_state.local.stream if layout.device_state.is_cuda else None
        self.saved = ()
        self.hooks = None

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return "AccumulateGrad"

    def hooked(self, gradient: Tensor | None) -> Tensor | None:
        """``gradient`` after the leaf's hooks."""
        state = self.variable._autograd
        if gradient is None or state is None or not state.hooks:
            return gradient
        return run_hooks(state.hooks, gradient)


#: Lets a view whose base was written start from the base's present history.
_renew: Callable[[Tensor], None]


def renew_with(function: Callable[[Tensor], None]) -> None:
    """Have ``function`` renew the history of views. The module of in-place operations, which builds on this one, does so."""
    global _renew
    _renew = function


def edge_of(tensor: Tensor) -> Any:
    """Where the gradient of ``tensor`` goes: its edge, or ``None`` where none is wanted."""
    state = tensor._autograd
    if state is None or not state.requires_grad:
        return None
    if state.edge is not None:
        base = tensor._base
        if base is not None and base._autograd is not None and base._autograd.history != state.history:
            _renew(tensor)
            return tensor._autograd.edge
        return state.edge
    result = state.accumulator
    node = None if result is None else result()
    return (_accumulator(tensor, state) if node is None else node), 0


def _accumulator(tensor: Tensor, state: AutogradState) -> AccumulateGrad:
    with _making:
        result = state.accumulator
        node: AccumulateGrad | None = None if result is None else result()
        if node is None:
            node = AccumulateGrad(tensor)
            state.accumulator = weakref.ref(node)
        return node


def track_view(view: Tensor) -> None:
    """Note how many in-place operations on its base a recorded view has seen."""
    state = view._base._autograd
    view._autograd.history = 0 if state is None else state.history


def place_in_graph(node: Node, inputs: Sequence[Any], outputs: Sequence[Tensor]) -> None:
    """Set what every node has: edges, what its outputs look like, its age and its stream.

    Inputs that are no tensors have no edge.
    """
    edges: list[Any] = []
    for x in inputs:
        state = x._autograd if isinstance(x, TensorBase) else None
        if state is None or not state.requires_grad:
            edges.append(None)
        elif state.edge is None:
            # As edge_of() would, without the call.
            accumulator = None if state.accumulator is None else state.accumulator()
            edges.append((_accumulator(x, state) if accumulator is None else accumulator, 0))
        elif x._base is None:
            edges.append(state.edge)
        else:
            edges.append(edge_of(x))
    node.next = tuple(edges)
    layout = outputs[0]._layout
    node.layouts = (layout,) if len(outputs) == 1 else tuple([output._layout for output in outputs])
    node.sequence = next(_sequence)
    node.hooks = None
    device_state = layout.device_state
    if device_state.is_cuda:
        node.stream = device_state.local.stream
    else:
        # What brings data to the host runs where the data were.
        node.stream = None
        for x in inputs:
            if isinstance(x, TensorBase) and x._layout.device_state.is_cuda:
                node.stream = x._layout.device_state.local.stream
                break
    if anomaly.mode.enabled:
        anomaly.note(node.metadata)


def attach(node: Node, inputs: Sequence[Any], outputs: Sequence[Tensor]) -> None:
    """Put ``node`` into the graph: the operation that made ``outputs`` of ``inputs``."""
    place_in_graph(node, inputs, outputs)
    if len(outputs) == 1:
        # As new_state() would, without the call.
        outputs[0]._autograd = state = AutogradState()
        state.requires_grad = True
        state.edge = node, 0
        state.history = 0
        state.origin = None
        return
    for number, output in enumerate(outputs):
        output._autograd = recorded(node, number)


def attach_one(node: Node, output: Tensor, layout: Layout) -> None:
    """As :func:`attach` of one output, where the node has its edges and inputs are on the output's device."""
    node.layouts = (layout,)
    node.sequence = next(_sequence)
    node.hooks = None
    device_state = layout.device_state
    node.stream = device_state.local.stream if device_state.is_cuda else None
    if anomaly.mode.enabled:
        anomaly.note(node.metadata)
    output._autograd = state = AutogradState()
    state.requires_grad = True
    state.edge = node, 0
    state.history = 0
    state.origin = None
