"""What a node keeps for its derivative: tensors with the version they had, numbers, or what hooks packed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tensor.core.base import TensorBase, view_of
from tensor.core.modes.grad_mode import Blocks, unrecorded

from .node import edge_of
from .state import new_state

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.methods.tensor import Tensor

    from .node import Node


class _Hooks(threading.local):
    """Pairs of functions that pack and unpack saved tensors; the last one holds."""

    def __init__(self) -> None:
        self.stack: list[tuple[Callable[[Tensor], Any], Callable[[Any], Tensor]]] = []
        self.disabled: str | None = None


hooks = _Hooks()
#: Blocks of all threads in which saved tensors are packed. Nodes ask for this thread's hooks only if there are any.
packing_blocks = Blocks()


class _Packed:
    """What a hook made of a tensor, and how to get the tensor back.

    ``origin`` is the tensor's edge, the state of a leaf, or the number of the node's own output.
    """

    __slots__ = ("origin", "packed", "unpack")

    def __init__(self, packed: Any, unpack: Callable[[Any], Tensor], origin: Any) -> None:
        self.packed = packed
        self.unpack = unpack
        self.origin = origin


class WrittenView:
    """An output that the node's operation wrote into a view: its history is that of the view, which goes through the base.

    Parameters
    ----------
    entry
        The output as it is kept otherwise.
    history : callable
        ``history(value)`` gives the restored value this history.
    """

    __slots__ = ("entry", "history")

    def __init__(self, entry: Any, history: Callable[[Tensor], None]) -> None:
        self.entry = entry
        self.history = history


#: The position of a value that a derivative does without this time.
NOTHING = -(1 << 30)


def save(value: Any) -> Any:
    """``value`` as a node keeps it: an input of the operation, or a number."""
    if not isinstance(value, TensorBase):
        return value
    version = value._storage.version
    if version < 0:
        raise RuntimeError(
            "Inference tensors cannot be saved for backward. To work around you can make a clone to get a normal tensor "
            f"and use it in autograd. It was made in inference_mode() and has shape {list(value._layout.shape)}."
        )
    if hooks.stack:
        state = value._autograd
        if state is None or not state.requires_grad:
            return _pack(value, None)
        # A leaf's state stays the one that its gradients go to; a history is that of now.
        return _pack(value, state if state.edge is None else edge_of(value))
    return value, version


def save_operands(
    positions: Sequence[int], operands: Sequence[Any], outputs: Sequence[Tensor]
) -> tuple[Any, ...]:
    """What ``positions`` name, as a node keeps it: operands by position, outputs by the complement of their number.

    Without ``outputs``, which are still to be written, their entries are ``None``, as for :data:`NOTHING`.
    """
    packing = packing_blocks.count and hooks.stack
    entries: list[Any] = []
    for position in positions:
        if position >= 0:
            x = operands[position]
            # As save() would mostly, without the call.
            if isinstance(x, TensorBase) and x._storage.version >= 0 and not packing:
                entries.append((x, x._storage.version))
            else:
                entries.append(save(x))
        elif outputs and position != NOTHING:
            entries.append(save_output(outputs[~position], ~position))
        else:
            entries.append(None)
    return tuple(entries)


def saver(positions: Sequence[int]) -> Callable[[Sequence[Any], Sequence[Tensor]], tuple[Any, ...]]:
    """What saves ``positions`` of an operation's values and outputs: :func:`save_operands`, with fewer steps for one or two."""
    if not positions or len(positions) > 2 or min(positions) < 0:
        return lambda operands, outputs: save_operands(positions, operands, outputs)
    first, last = positions[0], positions[-1]
    single = len(positions) == 1

    def save_inputs(operands: Sequence[Any], outputs: Sequence[Tensor]) -> tuple[Any, ...]:
        packing = packing_blocks.count and hooks.stack
        x = operands[first]
        if isinstance(x, TensorBase) and x._storage.version >= 0 and not packing:
            one: Any = x, x._storage.version
        else:
            one = save(x)
        if single:
            return (one,)
        x = operands[last]
        if isinstance(x, TensorBase) and x._storage.version >= 0 and not packing:
            return one, (x, x._storage.version)
        return one, save(x)

    return save_inputs


def save_output(value: Tensor, number: int = 0) -> Any:
    """An output of the node's own operation, as the node keeps it: without a reference to the node."""
    plain = view_of(value._storage, value._layout, value._offset)
    if hooks.stack:
        return _pack(plain, number)
    return plain, value._storage.version, number


def number_of(entry: Any) -> int | None:
    """Which of the node's own outputs was kept; ``None`` for something else."""
    if type(entry) is tuple:
        return entry[2] if len(entry) == 3 else None
    return entry.origin if type(entry) is _Packed and type(entry.origin) is int else None


def _pack(value: Tensor, origin: Any) -> Any:
    pack, unpack = hooks.stack[-1]
    before = value._storage.version
    with unrecorded():
        packed = pack(view_of(value._storage, value._layout, value._offset))
    if value._storage.version != before:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can "
            "not be modified by in-place operations as this can lead to unexpected side-effects: modify a clone."
        )
    return _Packed(packed, unpack, origin)


def restore(entry: Any, node: Node) -> Any:
    """The value that :func:`save` or :func:`save_output` kept.

    Raises
    ------
    RuntimeError
        If the tensor was written in place since.
    """
    cls = type(entry)
    if cls is tuple:
        tensor, version = entry[0], entry[1]
        if tensor._storage.version != version:
            raise _modified(tensor, version, node, entry[2] if len(entry) == 3 else None)
        if len(entry) == 3:
            return _reattached(tensor, node, entry[2])
        return tensor
    if cls is _Packed:
        value = entry.unpack(entry.packed)
        if not isinstance(value, TensorBase):
            raise TypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(value).__name__}"
            )
        origin = entry.origin
        if type(origin) is int:
            return _reattached(value, node, origin)
        result = view_of(value._storage, value._layout, value._offset)
        if origin is not None:
            is_edge = type(origin) is tuple
            result._autograd = new_state(requires_grad=True, edge=origin) if is_edge else origin
        return result
    if cls is WrittenView:
        value = restore(entry.entry, node)
        entry.history(value)
        return value
    return entry


def restore_all(entries: Sequence[Any], node: Node) -> list[Any]:
    """:func:`restore` for each of ``entries``."""
    values = []
    for entry in entries:
        if type(entry) is tuple and len(entry) == 2 and entry[0]._storage.version == entry[1]:
            values.append(entry[0])
        else:
            values.append(restore(entry, node))
    return values


def _reattached(tensor: Tensor, node: Node, number: int) -> Tensor:
    result = view_of(tensor._storage, tensor._layout, tensor._offset)
    result._autograd = new_state(requires_grad=True, edge=(node, number))
    return result


def _modified(tensor: Tensor, version: int, node: Node, number: int | None) -> RuntimeError:
    result = tensor.grad_fn if number is None else node
    if result is not None and number is None:
        number = tensor.output_nr
    origin = "" if result is None else f", which is output {number} of {result.name()},"
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{tensor.type()} {list(tensor.shape)}]{origin} is at version {tensor._storage.version}; expected version "
        f"{version} instead (needed by {node.name()}). Write to a clone, or after backward(). Hint: enable anomaly "
        "detection to find the operation that failed to compute its gradient, with "
        "tensor.autograd.set_detect_anomaly(True)."
    )


def freed(node: Node) -> RuntimeError:
    """The error of a second backward pass through ``node``."""
    return RuntimeError(
        f"Trying to backward through the graph a second time (or directly access saved tensors after they have "
        f"already been freed) in {node.name()}. Saved intermediate values of the graph are freed when you call "
        ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a "
        "second time or if you need to access saved tensors after calling backward."
    )
