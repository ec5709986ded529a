"""Copying and pickling tensors.

A pickle holds plain data: the bytes of a storage once, however many tensors view it, and for each tensor how
its elements lie there. With protocol 5 the bytes can travel beside the pickle, without a copy.
"""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING, Any, SupportsIndex

from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import dtype_named
from nvrtc_kernels.layouts import extent
from tensor.core import layout as layouts
from tensor.core.base import tensor_class, view_of

if TYPE_CHECKING:
    from tensor.core.storage import Storage

    from .tensor import Tensor

_NAMES = tuple(each.name for each in dtypes.EVERY)


def reduce(input: Tensor, protocol: SupportsIndex) -> tuple[Any, ...]:
    """What a pickle keeps of a tensor. The gradient, and how the tensor was made, are left out.

    A tensor on a CUDA device comes back on the device of that index; one in pinned memory comes back in pageable
    memory. ``copy.copy`` uses this too: the copy shares the memory.
    """
    state = input._autograd
    if state is not None and state.hooks:
        warnings.warn(
            f"{len(state.hooks)} backward hook(s) on the tensor will not be serialized: register them again on "
            "the tensor that is read back",
            stacklevel=2,
        )
    layout = input._layout
    cls: type[Any] = type(input)
    described = (
        input._storage,
        layout.dtype.name,
        tuple(layout.shape),
        layout.strides,
        input._offset,
        input.requires_grad,
    )
    result = _attributes(input)
    how = (rebuild, described if cls is tensor_class() else (*described, cls))
    return how if result is None else (*how, result)


def rebuild(
    storage: Storage,
    dtype_name: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
    requires_grad: bool,
    cls: type[Any] | None = None,
) -> Tensor:
    """The tensor of which :func:`reduce` tells.

    Raises
    ------
    ValueError
        If the elements do not lie within the storage, or are of an unknown type.
    """
    if dtype_name not in _NAMES:
        raise ValueError(
            f"the pickle has a tensor of type {dtype_name!r}, expected one of {', '.join(_NAMES)}"
        )
    dtype = dtype_named(dtype_name)
    if (
        len(shape) != len(strides)
        or min((*shape, *strides, offset), default=0) < 0
        or offset + extent(shape, strides)[1] * dtype.itemsize > storage.capacity
    ):
        raise ValueError(
            f"the pickle is damaged: a tensor of shape {list(shape)}, strides {list(strides)} and type {dtype_name} at "
            f"byte {offset} does not lie in a storage of {storage.capacity} bytes"
        )
    layout = layouts.strided[tuple(shape), tuple(strides), dtype, storage.device_state]
    result = view_of(storage, layout, offset)
    if cls is not None:
        result = result.as_subclass(cls)
    return result.requires_grad_(True) if requires_grad else result


def deepcopy(input: Tensor, memo: dict[int, Any]) -> Tensor:
    """A copy with memory of its own, its gradient and attributes included, for ``copy.deepcopy``.

    What views the same storage within one call does so in the copies.

    Raises
    ------
    RuntimeError
        If the tensor is no leaf.
    """
    result: Tensor | None = memo.get(id(input))
    if result is not None:
        return result
    if not input.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment. "
            "Copy a computed tensor with detach().clone() instead."
        )
    output = view_of(copy.deepcopy(input._storage, memo), input._layout, input._offset)
    if type(input) is not tensor_class():
        output = output.as_subclass(type(input))
    memo[id(input)] = output
    if input.requires_grad:
        output.requires_grad_(True)
    if input.grad is not None:
        output.grad = copy.deepcopy(input.grad, memo)
    _set_attributes(output, copy.deepcopy(_attributes(input), memo))
    return output


def _attributes(input: Tensor) -> Any:
    """What users and subclasses have set on a tensor, as pickle keeps it."""
    cls = type(input)
    if cls.__getstate__ is not object.__getstate__:
        return input.__getstate__()
    slots = {name: getattr(input, name) for name in _slots(cls) if hasattr(input, name)}
    return (input.__dict__, slots) if slots else input.__dict__ or None


def _slots(cls: type[Any]) -> list[str]:
    result = []
    for each in cls.__mro__[: cls.__mro__.index(tensor_class())]:
        argument = vars(each).get("__slots__", ())
        for name in (argument,) if isinstance(argument, str) else argument:
            if name.startswith("__") and not name.endswith("__"):
                result.append(f"_{each.__name__.lstrip('_')}{name}")
            elif name not in ("__dict__", "__weakref__"):
                result.append(name)
    return result


def _set_attributes(result: Tensor, state: Any) -> None:
    if state is None:
        return
    accept = getattr(result, "__setstate__", None)
    if accept is not None:
        accept(state)
        return
    attributes, slots = state if isinstance(state, tuple) else (state, {})
    result.__dict__.update(attributes or {})
    for name, value in slots.items():
        setattr(result, name, value)
