"""Reading, writing and adding to selected elements, recorded: each is the other's derivative."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import layouts
from tensor.autograd.recording.inplace import check_in_place, record_in_place
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.arguments import two_devices
from tensor.core.base import check_tensor
from tensor.core.memory_format import contiguous_format, preserve_format
from tensor.core.modes.determinism import determinism
from tensor.core.modes.grad_mode import modes
from tensor.core.plans.copies import check_no_overlap
from tensor.operations.shapes import views

from .advanced_indexing import READ, REDUCE, WRITE, WRITE_LAST, Indexing, shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

#: The operation that adds where another one read, and the other way round.
_ADDS = {"gather": "scatter_add", "index_select": "index_add", "index": "index_put", "take": "put"}
_KEEP_STRIDES = {"index", "index_fill", "index_put", "put", "take"}
_READS = {adds: reads for reads, adds in _ADDS.items()} | {"scatter": "gather", "index_copy": "index_select"}


@cache
def _node_name(name: str) -> str:
    """Name as PyTorch shows it."""
    return f"{''.join(part.capitalize() for part in name.split('_'))}Backward0"


def _read_gradient(grad: Tensor, *rest: Any) -> Tensor:
    """Zeros, with the gradients of all reads of an element added up."""
    *tensors, indexing, shape = rest
    return add_(
        grad.new_zeros(shape), indexing.by(tensors).named(_ADDS.get(indexing.name, indexing.name)), grad
    )


def _add_gradients(mask: tuple[bool, bool], grad: Tensor, *rest: Any) -> tuple[Any, Any]:
    """The gradient, and what was selected of it."""
    if not mask[1]:
        return grad, None
    *tensors, indexing = rest
    return grad, read(grad, indexing.by(tensors).named(_READS.get(indexing.name, indexing.name)))


def _write_gradients(mask: tuple[bool, bool], grad: Tensor, *rest: Any) -> tuple[Any, Any]:
    """The gradient with zeros at the written positions, and what was selected of it."""
    *tensors, plain = rest
    indexing: Indexing = plain.by(tensors)
    return (
        write(grad, indexing, grad.new_zeros(())) if mask[0] else None,
        read(grad, indexing.named(_READS.get(indexing.name, indexing.name))) if mask[1] else None,
    )


@cache
def _formula(name: str, gradients: Callable[..., Any], count: int) -> BackwardFormula:
    """How an operation with so many index tensors is run backward.

    Only what is saved, and can be freed, holds them.
    """
    tensors = " ".join([f"index{number}" for number in range(count)])
    if gradients is _read_gradient:
        return BackwardFormula(
            _node_name(name), f"input {tensors}", [Derivative(_read_gradient, needs=tensors)]
        )
    needs = (tensors if gradients is _write_gradients else "", tensors)
    return BackwardFormula(
        _node_name(name), f"input values {tensors}", joint=Derivative(gradients, needs=needs)
    )


def check_indices(name: str, input: Tensor, *tensors: Any, types: Sequence[str] = ("int64",)) -> None:
    """Raise if index tensors are no tensors of integers on the indexed tensor's device."""
    for x in tensors:
        check_tensor(x, name, "index")
        if x._layout.dtype.name not in types:
            raise RuntimeError(
                f"{name}(): Expected dtype {' or '.join(types)} for index, but got {x._layout.dtype!r}"
            )
        if x._layout.device_state is not input._layout.device_state:
            raise two_devices(name, input._layout.device, x._layout.device)


def read(input: Tensor, indexing: Indexing) -> Tensor:
    """The selected elements, as a new tensor."""
    layout = input._layout
    result: Tensor = layout.device_state.plans[READ, layout, *indexing.key()](input, indexing.tensors)
    state = input._autograd
    if state is not None and state.requires_grad and modes.recording and _differentiable(layout):
        context = indexing.without_tensors(), layout.shape
        formula = _formula(indexing.name, _read_gradient, len(indexing.tensors))
        formula.record((result,), (input,), indexing.tensors, context)
    return result


def _differentiable(layout: Layout) -> bool:
    return layout.dtype.is_floating_point or layout.dtype.is_complex


def fitted(target: Tensor, indexing: Indexing, values: Tensor) -> Tensor:
    """``values`` in the shape of what is selected, on the target's device.

    Raises
    ------
    RuntimeError
        If they do not broadcast to it, or are on another device.
    """
    layout = target._layout
    shape = shape_of(layout, indexing)
    argument = values._layout
    if argument.device_state is not layout.device_state:
        if argument.shape:
            raise two_devices(indexing.name, layout.device, argument.device)
        values = values.to(layout.device)
        argument = values._layout
    if argument.shape != shape:
        lead = len(argument.shape) - len(shape)
        if lead > 0 and all(size == 1 for size in argument.shape[:lead]):
            values = values.reshape(argument.shape[lead:])
        if values._layout.shape != shape:
            values = _expanded(values, tuple(shape))
    if values._storage is target._storage:
        # What is read must not change while it is written.
        values = values.clone()
    return values


def _expanded(values: Tensor, shape: tuple[int, ...]) -> Tensor:
    argument = values._layout.shape
    try:
        fits = tuple(layouts.broadcast_shapes(shape, argument)) == shape
    except RuntimeError:
        fits = False
    if not fits:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(argument)} cannot be broadcast to indexing result of shape "
            f"{list(shape)}"
        )
    return views.expand(values, shape)


def _run(operation: Any, target: Tensor, indexing: Indexing, values: Tensor) -> None:
    layout = target._layout
    run = layout.device_state.plans[operation, layout, *indexing.key(), values._layout]
    if values._layout.numel:
        run(target, indexing.tensors, values)


def change_(operation: Any, target: Tensor, indexing: Indexing, values: Tensor) -> None:
    """Carry ``operation`` out on selected elements of ``target``; nothing is recorded."""
    _run(operation, target, indexing, values)
    target._storage.version += 1


def _in_place(
    operation: Any, gradients: Callable[..., Any], target: Tensor, indexing: Indexing, values: Tensor
) -> Tensor:
    check_in_place(target)
    check_no_overlap(target._layout)
    values = fitted(target, indexing, values)
    change_(operation, target, indexing, values)
    if modes.recording and (target._autograd is not None or values._autograd is not None):
        formula = _formula(indexing.name, gradients, len(indexing.tensors))
        record_in_place(formula, target, (target, values), indexing.tensors, (indexing.without_tensors(),))
    return target


def _copied(
    operation: Any, gradients: Callable[..., Any], input: Tensor, indexing: Indexing, values: Tensor
) -> Tensor:
    values = fitted(input, indexing, values)
    plain: Tensor = input.detach()
    # As in PyTorch, only some keep the order of dimensions.
    form = preserve_format if indexing.name in _KEEP_STRIDES else contiguous_format
    result: Tensor = plain.clone(memory_format=form)
    _run(operation, result, indexing, values)
    if modes.recording and (input._autograd is not None or values._autograd is not None):
        formula = _formula(indexing.name, gradients, len(indexing.tensors))
        formula.record((result,), (input, values), indexing.tensors, (indexing.without_tensors(),))
    return result


def _adding(indexing: Indexing) -> Any:
    # As in PyTorch, what adds at positions of x[...] is the same in every run.
    return REDUCE["sum", determinism.required or indexing.name == "index_put"]


def _writing() -> Any:
    return WRITE_LAST if determinism.required else WRITE


def add_(target: Tensor, indexing: Indexing, values: Tensor) -> Tensor:
    """Add ``values`` to the selected elements; an element that is selected twice gets both."""
    return _in_place(_adding(indexing), _add_gradients, target, indexing, values)


def add(input: Tensor, indexing: Indexing, values: Tensor) -> Tensor:
    """:func:`add_` on a copy."""
    return _copied(_adding(indexing), _add_gradients, input, indexing, values)


def write_(target: Tensor, indexing: Indexing, values: Tensor) -> Tensor:
    """Overwrite the selected elements; of an element that is selected twice one of the values stays."""
    return _in_place(_writing(), _write_gradients, target, indexing, values)


def write(input: Tensor, indexing: Indexing, values: Tensor) -> Tensor:
    """:func:`write_` on a copy."""
    return _copied(_writing(), _write_gradients, input, indexing, values)
