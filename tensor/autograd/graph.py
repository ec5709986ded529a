"""Looking into the graph, and deciding how what it saves is kept."""

from __future__ import annotations

import contextlib
import threading
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from tensor.core.base import TensorBase
from tensor.core.names.absent import hints as _hints

from .engine.engine import pass_number, will_execute
from .offloading import save_on_cpu
from .recording import saved
from .recording.hooks import register_hook
from .recording.node import Node, edge_of
from .recording.saving import saved_tensors_hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tensor.methods.tensor import Tensor

    from .recording.node_hooks import RemovableHandle

__all__ = [
    "GradientEdge",
    "Node",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class GradientEdge(NamedTuple):
    """An output of a node. :func:`tensor.autograd.backward` and ``grad`` take it in place of the tensor.

    Attributes
    ----------
    node : Node
        The node.
    output_nr : int
        Which of its outputs.
    """

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of ``tensor``; unlike the tensor it keeps no memory.

    Raises
    ------
    RuntimeError
        If ``tensor`` is not a tensor that requires grad.
    """
    edge = edge_of(tensor) if isinstance(tensor, TensorBase) else None
    if edge is None:
        raise RuntimeError(
            "It is not possible to get the gradient edge of a Tensor that does not require gradients"
        )
    return GradientEdge(*edge)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside ``with``, have :class:`saved_tensors_hooks` raise RuntimeError with ``error_message``, in this thread.

    Raises
    ------
    RuntimeError
        If such hooks are in use already; with the same text.
    """
    if saved.hooks.stack:
        raise RuntimeError(error_message)
    before, saved.hooks.disabled = saved.hooks.disabled, error_message
    try:
        yield
    finally:
        saved.hooks.disabled = before


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Count a write in place that was done behind autograd's back, so that saved tensors are found modified.

    Parameters
    ----------
    tensor : Tensor or iterable of Tensor
        What was written. A backward pass that needs an earlier version raises RuntimeError.

    Raises
    ------
    TypeError
        If one is not a tensor; those before it have been counted.
    """
    for each in (tensor,) if isinstance(tensor, TensorBase) else tensor:
        if not isinstance(each, TensorBase):
            raise TypeError(f"increment_version() expects a Tensor or several, got {type(each).__name__}")
        each._storage.version += 1


class _Handles:
    """Handles of several hooks as one."""

    __slots__ = ("__weakref__", "handles")

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Take all hooks away."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., None], *, mode: str = "all"
) -> _Handles:
    """Call ``fn`` when the gradients of several tensors have been computed.

    >>> x, y = tensor.ones(1, requires_grad=True), tensor.ones(1, requires_grad=True)
    >>> handle = tensor.autograd.graph.register_multi_grad_hook([x, y], print)
    >>> (2 * x + 3 * y).sum().backward()
    [tensor([2.]), tensor([3.])]

    Parameters
    ----------
    tensors : sequence of Tensor
        The tensors, which require grad.
    fn : callable
        What is called.
    mode : str
        ``"all"``: ``fn(grads)`` is called in each backward pass once all of them are there, with ``None`` for
        those that the pass does not compute. ``"any"``: ``fn(grad)`` is called with the first one.

    Returns
    -------
    handle
        ``remove()`` takes the hooks away.

    Raises
    ------
    ValueError
        For another mode.
    RuntimeError
        If a tensor does not require grad.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    watch = _all(tensors, fn) if mode == "all" else _any(fn)
    return _Handles([register_hook(tensor, watch(position)) for position, tensor in enumerate(tensors)])


def _all(tensors: Sequence[Tensor], fn: Callable[..., None]) -> Callable[[int], Callable[[Tensor], None]]:
    # The hooks hang on the nodes, and must not keep them. A leaf's node is made anew for each graph.
    watched = [weakref.ref(tensor if tensor.is_leaf else tensor.grad_fn) for tensor in tensors]
    lock = threading.Lock()
    #: By the number of the pass: how many are missing, and the gradients.
    arrived: dict[int, tuple[list[int], list[Any]]] = {}

    def watch(position: int) -> Callable[[Tensor], None]:
        def hook(gradient: Tensor) -> None:
            number = pass_number()
            with lock:
                if number not in arrived:
                    arrived[number] = [sum(map(_will_run, watched))], [None] * len(watched)
                missing, grads = arrived[number]
                grads[position] = gradient
                missing[0] -= 1
                if missing[0]:
                    return
                del arrived[number]
            fn(grads)

        return hook

    return watch


def _will_run(reference: weakref.ref[Any]) -> bool:
    result = reference()
    if result is None:
        return False
    return will_execute(edge_of(result)[0] if isinstance(result, TensorBase) else result)


def _any(fn: Callable[..., None]) -> Callable[[int], Callable[[Tensor], None]]:
    lock = threading.Lock()
    last: list[int] = [-1]

    def hook(gradient: Tensor) -> None:
        number = pass_number()
        with lock:
            if last[0] == number:
                return
            last[0] = number
        fn(gradient)

    return lambda _: hook


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
