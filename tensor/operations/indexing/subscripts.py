"""``x[...]`` and ``x[...] = value``.

Ints, slices, ``...`` and None make a view. Tensors, lists, arrays and bools among them then choose elements of
that view.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dtypes
from tensor.core.base import TensorBase
from tensor.core.dtypes.scalars import element
from tensor.core.warning import warn_caller
from tensor.operations.autocast import WIDEST, Autocast
from tensor.operations.creation.construction import tensor
from tensor.operations.creation.copies import copy_
from tensor.operations.creation.fills import fill_
from tensor.operations.definition import operation
from tensor.operations.shapes import slices, views

from .advanced_indexing import Indexing
from .gather import true_indices
from .masks import masked_fill_
from .recorded_indexing import add, add_, read, write, write_
from .scatter import number_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tensor.methods.tensor import Tensor

_WHOLE = slice(None)


def get(input: Tensor, key: Any) -> Tensor:
    """The part that ``key`` names: a view, or a new tensor where index tensors choose.

    Raises
    ------
    IndexError
        For too many indices, one outside, index tensors of types that are no integers or bools, or shapes that do
        not fit.
    ValueError
        For a step that is not positive.
    """
    cls = type(key)
    if cls is int:
        return _select(input, 0, key, 0)
    if cls is slice:
        return _slice(input, 0, key)
    part, chosen = _walk(input, _keys(key))
    if chosen is None:
        return part
    return read(part, Indexing("index", "advanced", _indices(part, chosen)))


def put(input: Tensor, key: Any, value: Any) -> None:
    """Write ``value``, a number or a tensor that broadcasts, to the part that ``key`` names."""
    cls = type(key)
    if cls is bool:
        # All of it, or nothing.
        if not key:
            if not isinstance(value, TensorBase):
                element(value, input._layout.dtype)
            return
        key, cls = None, type(None)
    part, chosen = (get(input, key), None) if cls is int or cls is slice else _walk(input, _keys(key))
    is_tensor = isinstance(value, TensorBase)
    if not is_tensor and isinstance(value, (np.ndarray, list, tuple)):
        value = tensor(value, dtype=input._layout.dtype, device=input._layout.device)
        is_tensor = True
    if chosen is None:
        if is_tensor:
            copy_(part, _trimmed(value, len(part._layout.shape)))
        else:
            fill_(part, value)
        return
    if _fills_by_mask(chosen, value):
        masked_fill_(part, _mask_of(part, chosen), value)
        return
    if not is_tensor:
        value = part.new_full((), value)
    value = _of_same_type(part, chosen, value)
    write_(part, Indexing("index_put", "advanced", _indices(part, chosen)), value)


def _keys(key: Any) -> tuple[Any, ...]:
    if isinstance(key, tuple):
        return key
    if isinstance(key, TensorBase) or not _is_sequence(key):
        return (key,)
    if len(key) < _LONGEST_OLD_TUPLE and any(map(_means_tuple, key)):
        warn_caller(
            "Using a non-tuple sequence for multidimensional indexing is deprecated, as its meaning will change with "
            "PyTorch's: x[seq] means x[tuple(seq)] now and x[tensor.tensor(seq)] later. Write one of the two"
        )
        return tuple(key)
    return (key,)


#: NumPy's old rule, which PyTorch still has: a sequence shorter than this with a part that is no number means a tuple.
_LONGEST_OLD_TUPLE = 32


def _means_tuple(part: Any) -> bool:
    return (
        part is None
        or part is Ellipsis
        or isinstance(part, (slice, TensorBase, np.ndarray))
        or _is_sequence(part)
    )


def _is_sequence(key: Any) -> bool:
    return isinstance(key, (list, tuple, range)) or (
        isinstance(key, Sequence) and not isinstance(key, (str, bytes))
    )


def _trimmed(value: Tensor, rank: int) -> Tensor:
    """``value`` without leading dimensions of size 1 that the written part does not have."""
    shape = value._layout.shape
    extra = len(shape) - rank
    if extra > 0 and all(size == 1 for size in shape[:extra]):
        value = views.view(value, shape[extra:]) if value._layout.contiguous else value.reshape(shape[extra:])
    return value


# Views first


def _walk(input: Tensor, keys: tuple[Any, ...]) -> tuple[Tensor, list[Any] | None]:
    """The view that ints, slices, ``...`` and None make, and what chooses from each of its dimensions.

    The second is ``None`` where nothing chooses; else a list with an index tensor or ``None`` for each of the
    leading dimensions; a mask stands for as many dimensions as it has.
    """
    rank = len(input._layout.shape)
    origin = input
    keys = tuple([_plain(input, key) for key in keys])
    used = sum([_width(key) for key in keys])
    if used > rank:
        raise IndexError(f"too many indices for tensor of dimension {rank}")
    dim = 0
    seen = False
    chosen: list[Any] = []
    for position, key in enumerate(keys):
        if key is None:
            input = views.unsqueeze(input, dim)
            dim += 1
        elif key is Ellipsis:
            if not seen:
                dim += rank - used
                seen = True
        elif isinstance(key, slice):
            if key != _WHOLE:
                input = _slice(input, dim, key)
            dim += 1
        elif isinstance(key, bool):
            input = views.unsqueeze(input, dim)
            chosen += [None] * (dim - len(chosen))
            chosen.append(tensor([0] if key else [], dtype=dtypes.int64, device=input._layout.device))
            dim += 1
        elif isinstance(key, TensorBase):
            _check_mask_shape(key, input, dim)
            chosen += [None] * (dim - len(chosen))
            chosen.append(key)
            # The other dimensions of a mask belong to it.
            chosen += [_OF_MASK] * (_width(key) - 1)
            dim += _width(key)
        else:
            input = _select(input, dim, key, position)
    if chosen:
        return input, chosen
    return (views.alias(input) if input is origin else input), None


#: Stands for the dimensions of a mask after its first.
_OF_MASK: Any = object()


def _plain(input: Tensor, key: Any) -> Any:
    """``key`` as an int, a bool, a slice, ``...``, None, or an index tensor with dimensions."""
    if key is None or key is Ellipsis or isinstance(key, (slice, bool)) or type(key) is int:
        return key
    if isinstance(key, TensorBase):
        dtype = key._layout.dtype
        if dtype.is_floating_point or dtype.is_complex or dtype.name in ("int8", "int16"):
            raise IndexError(
                f"tensors used as indices must be long, int, byte or bool tensors, got {dtype!r}"
            )
        if not key._layout.shape:
            return bool(key) if _is_mask(key) else int(key)
        return key
    if isinstance(key, np.ndarray) or _is_sequence(key):
        result = tensor(key, device=input._layout.device)
        if not isinstance(key, np.ndarray) and not result._layout.numel:
            result = result.to(dtypes.int64)
        return _plain(input, result)
    if isinstance(key, np.bool_):
        return bool(key)
    if hasattr(key, "__index__"):
        return key.__index__()
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
        f"(got {type(key).__name__})"
    )


def _is_mask(key: Tensor) -> bool:
    return key._layout.dtype is dtypes.bool_ or key._layout.dtype is dtypes.uint8


def _width(key: Any) -> int:
    """Dimensions of the indexed tensor that ``key`` is for."""
    if key is None or key is Ellipsis or isinstance(key, bool):
        return 0
    return len(key._layout.shape) if isinstance(key, TensorBase) and _is_mask(key) else 1


def _check_mask_shape(key: Tensor, input: Tensor, dim: int) -> None:
    if not _is_mask(key):
        return
    if key._layout.dtype is dtypes.uint8:
        warn_caller(
            "indexing with dtype tensor.uint8 is now deprecated, please use a dtype tensor.bool instead."
        )
    mask, shape = key._layout.shape, input._layout.shape
    for axis, size in enumerate(mask):
        if size != shape[dim + axis]:
            raise IndexError(
                f"The shape of the mask {list(mask)} at index {axis} does not match the shape of the indexed tensor "
                f"{list(shape)} at index {dim + axis}"
            )


def _select(input: Tensor, dim: int, at: int, position: int) -> Tensor:
    shape = input._layout.shape
    if not shape:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a number"
        )
    if not -shape[dim] <= at < shape[dim]:
        raise IndexError(f"index {at} is out of bounds for dimension {position} with size {shape[dim]}")
    return slices.select(input, dim, at)


def _slice(input: Tensor, dim: int, key: slice) -> Tensor:
    step = 1 if key.step is None else key.step.__index__()
    if step <= 0:
        raise ValueError(f"step must be greater than zero, got {step}")
    shape = input._layout.shape
    if not shape:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    start, stop, _ = key.indices(shape[dim])
    length = max(-((start - stop) // step), 0)
    return slices.step_through(input, dim, start if length else min(start, shape[dim]), length, step)


# Then what chooses


def _indices(part: Tensor, chosen: Sequence[Any]) -> list[Any]:
    """Index tensors for the leading dimensions, all of one integer type, on the device of ``part``."""
    result: list[Any] = []
    for key in chosen:
        if key is None:
            result.append(None)
        elif key is _OF_MASK:
            continue
        elif _is_mask(key):
            result += true_indices(_moved(key, part))
        else:
            result.append(_moved(key, part))
    element_dtypes = {x._layout.dtype for x in result if x is not None}
    if len(element_dtypes) > 1:
        result = [None if x is None else x.to(dtypes.int64) for x in result]
    return result


def _moved(key: Tensor, part: Tensor) -> Tensor:
    device_state = part._layout.device_state
    if key._layout.device_state is device_state:
        return key
    if key._layout.device_state.is_cuda:
        raise RuntimeError(
            f"indices should be either on cpu or on the same device as the indexed tensor ({part._layout.device}), got "
            f"{key._layout.device}"
        )
    moved: Tensor = key.to(part._layout.device)
    return moved


def _fills_by_mask(chosen: Sequence[Any], value: Any) -> bool:
    """Whether one number goes to where one mask is true: no indices are needed for that."""
    if isinstance(value, TensorBase) and value._layout.shape:
        return False
    return _is_one_mask(chosen)


def _is_one_mask(chosen: Sequence[Any]) -> bool:
    """Whether one mask of bools is all that chooses."""
    keys = [key for key in chosen if key is not None and key is not _OF_MASK]
    return len(keys) == 1 and keys[0]._layout.dtype is dtypes.bool_


def _mask_of(part: Tensor, chosen: Sequence[Any]) -> Tensor:
    """The only mask, with dimensions of size 1 for those of ``part`` that it leaves whole."""
    start = next(at for at, key in enumerate(chosen) if key is not None)
    mask = _moved(chosen[start], part)
    for _ in range(len(part._layout.shape) - len(chosen)):
        mask = views.unsqueeze(mask, -1)
    return mask


def iterate(input: Tensor) -> Iterator[Tensor]:
    """Views of the slices of the first dimension.

    Raises
    ------
    TypeError
        For a 0-dim tensor.
    """
    if not input._layout.shape:
        raise TypeError("iteration over a 0-d tensor")
    return iter(slices.unbind(input, 0))


# As functions


@operation(autocast=Autocast(cuda=WIDEST))
def index_put(
    input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor:
    """A copy of ``input`` with ``values`` written at ``input[indices]``, or added there with ``accumulate``.

    Parameters
    ----------
    indices : sequence of Tensor or None
        One for each dimension from the first: int64 or int32, broadcast together, where negative indices count from the
        end; a mask of bools, which stands for as many dimensions as it has; or ``None`` for a whole dimension.
    values : Tensor
        Of the dtype of ``input``, broadcast to the shape of ``input[indices]``. One element for a single mask may have
        any dtype whose value ``input`` can hold.
    accumulate : bool
        Whether to add; elements sent to the same position are then all added. Otherwise, which of them stays is undefined
        on CUDA.

    Returns
    -------
    Tensor
        Of the shape and dtype of ``input``.

    Raises
    ------
    IndexError
        For too many indices, indices of other dtypes, masks of other shapes, or an index out of range (on CUDA a device
        assert, which a later synchronising call raises).
    RuntimeError
        If dtypes differ, or the values do not broadcast.
    TypeError
        If ``indices`` is not a tuple or list of tensors.

    Examples
    --------
    >>> rows, columns = tensor.tensor([0, 1, 1]), tensor.tensor([2, 0, 0])
    >>> tensor.zeros(2, 3).index_put((rows, columns), tensor.tensor([1.0, 2.0, 3.0]), accumulate=True)
    tensor([[0., 0., 1.],
            [5., 0., 0.]])
    """
    return (add if accumulate else write)(input, *_to_put(input, indices, values, accumulate))


@operation()
def index_put_(
    input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor:
    """:func:`index_put` in place: ``input[indices] = values``, or ``+=`` with ``accumulate``. Returns ``input``.

    Arguments and errors are those of :func:`index_put`.

    Examples
    --------
    >>> tensor.zeros(3).index_put_((tensor.tensor([-1]),), tensor.tensor(5.0))
    tensor([0., 0., 5.])
    """
    return (add_ if accumulate else write_)(input, *_to_put(input, indices, values, accumulate))


def _to_put(
    input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool
) -> tuple[Indexing, Tensor]:
    if not isinstance(indices, (tuple, list)):
        raise TypeError(
            f"index_put(): argument 'indices' must be tuple of Tensors, not {type(indices).__name__}"
        )
    chosen: list[Any] = []
    for index in indices:
        if index is None:
            chosen.append(None)
            continue
        if not isinstance(index, TensorBase):
            raise TypeError(f"index_put(): expected Tensors or None as indices, got {type(index).__name__}")
        if _is_mask(index):
            _check_mask_shape(index, input, len(chosen))
        dtype = index._layout.dtype
        if not _is_mask(index) and dtype not in (dtypes.int32, dtypes.int64):
            raise IndexError(
                f"tensors used as indices must be long, int, byte or bool tensors, got {dtype!r}"
            )
        chosen.append(index)
        chosen += [_OF_MASK] * (_width(index) - 1)
    if accumulate:
        _check_same_type(input, values)
    else:
        values = _of_same_type(input, chosen, values)
    return Indexing("index_put", "advanced", _indices(input, chosen)), values


def _of_same_type(input: Tensor, chosen: Sequence[Any], values: Tensor) -> Tensor:
    """``values``, of which one element goes to where one mask is true whatever its dtype; else dtypes must be the same."""
    if values._layout.dtype is not input._layout.dtype and values._layout.numel == 1 and _is_one_mask(chosen):
        return number_of(input, values.reshape(()), "index_put()")
    _check_same_type(input, values)
    return values


def _check_same_type(input: Tensor, values: Tensor) -> None:
    if values._layout.dtype is not input._layout.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {input._layout.dtype!r} for the "
            f"destination and {values._layout.dtype!r} for the source."
        )
