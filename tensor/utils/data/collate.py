"""Samples to batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nvrtc_kernels.dtypes import float64
from tensor.core.base import TensorBase
from tensor.operations.creation.construction import as_tensor, tensor
from tensor.operations.shapes.joining import stack

from .nesting import is_named_tuple, mapping_like, sequence_like

_EXPECTED = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"

CollateMap = dict[type | tuple[type, ...], Callable[..., Any]]


def default_convert(data: Any) -> Any:
    """NumPy arrays and numbers in ``data`` as tensors, also within mappings and sequences; all else as it is.

    Arrays share their memory with the tensors. Tuples become lists, named tuples stay.

    >>> import numpy
    >>> tensor.utils.data.default_convert({"x": numpy.ones(2)})
    {'x': tensor([1., 1.], dtype=tensor.float64)}
    """
    if isinstance(data, TensorBase):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in "SUO" else as_tensor(data)
    if isinstance(data, Mapping):
        return mapping_like(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, (str, bytes)) or not isinstance(data, Sequence):
        return data
    parts = [default_convert(part) for part in data]
    return parts if _is_plain_tuple(data) else sequence_like(data, parts)


def default_collate(batch: Sequence[Any]) -> Any:
    """One batch of a list of samples: each tensor, array or number gets a first dim of the batch's size.

    Mappings, tuples and sequences are collated part by part, strings and bytes stay a list. A tuple of samples
    becomes a list of batches, a named tuple stays one.

    >>> tensor.utils.data.default_collate([(tensor.zeros(2), 3), (tensor.ones(2), 4)])
    [tensor([[0., 0.],
            [1., 1.]]), tensor([3, 4])]

    Raises
    ------
    RuntimeError
        If sequences differ in length, or tensors in shape.
    TypeError
        For samples of other types.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    """Like :func:`default_collate`, with the functions for types of one's own.

    Parameters
    ----------
    collate_fn_map : dict
        From a type, or a tuple of types, to ``function(batch, *, collate_fn_map)``. Subclasses that come first in
        the dict go before their bases.
    """
    first = batch[0]
    function = _function_for(type(first), collate_fn_map or {})
    if function is not None:
        return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        parts = {key: collate([each[key] for each in batch], collate_fn_map=collate_fn_map) for key in first}
        return mapping_like(first, parts)
    if not isinstance(first, Sequence):
        raise TypeError(_EXPECTED.format(type(first)))
    if not is_named_tuple(first) and len({len(each) for each in batch}) > 1:
        raise RuntimeError(
            f"each element in list of batch should be of equal size, got sizes {[len(each) for each in batch]}"
        )
    columns = list(zip(*batch, strict=True))
    result = [collate(column, collate_fn_map=collate_fn_map) for column in columns]
    return result if _is_plain_tuple(first) else sequence_like(first, result)


def _is_plain_tuple(data: Any) -> bool:
    return isinstance(data, tuple) and not is_named_tuple(data)


def _function_for(cls: type, functions: CollateMap) -> Callable[..., Any] | None:
    if cls in functions:
        return functions[cls]
    return next((function for each, function in functions.items() if issubclass(cls, each)), None)


def _tensors(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    return stack(list(batch), 0)


def _arrays(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    if batch[0].dtype.kind in "SUO":
        raise TypeError(_EXPECTED.format(batch[0].dtype))
    return stack([as_tensor(each) for each in batch], 0)


def _numpy_numbers(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    return as_tensor(np.stack([np.asarray(each) for each in batch]))


def _floats(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    return tensor(list(batch), dtype=float64)


def _integers(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    return tensor(list(batch))


def _as_given(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    return batch


#: What :func:`default_collate` uses; add types of your own to it.
default_collate_fn_map: CollateMap = {
    TensorBase: _tensors,
    np.ndarray: _arrays,
    (np.bool_, np.number, np.object_): _numpy_numbers,
    float: _floats,
    int: _integers,
    str: _as_given,
    bytes: _as_given,
}
