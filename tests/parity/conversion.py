"""Arguments of PyTorch's samples, and the functions that its tests wrap operations by, for this library."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import numpy as np

import nn
import tensor
from tests.pytorch import torch
from tests.tensor.comparison import array_of as array_of_tensor

if TYPE_CHECKING:
    from collections.abc import Callable


def converted(value: Any, device: str = "cpu") -> Any:
    """``value`` with PyTorch's objects, also inside of tuples, lists and dictionaries, as this library's.

    A tensor is a copy of the whole storage with the same shape, strides and offset.
    """
    if isinstance(value, torch.Tensor):
        return _converted_tensor(value, device)
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return getattr(tensor, str(value).removeprefix("torch."))
    if isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu"):
        return device
    if isinstance(value, torch.nn.Module):
        return getattr(nn, type(value).__name__)()
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, dict):
        return {key: converted(each, device) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        items = [converted(each, device) for each in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, slice):
        return slice(*converted((value.start, value.stop, value.step), device))
    return value


def _converted_tensor(value: Any, device: str) -> Any:
    if value.layout is not torch.strided:
        return _converted_sparse_tensor(value, device)
    whole = value.detach().resolve_conj().resolve_neg()
    count = whole.untyped_storage().nbytes() // whole.itemsize
    flat = tensor.from_numpy(array_of(whole.as_strided((count,), (1,), 0)).copy()).to(device)
    result = flat.as_strided(tuple(whole.shape), whole.stride(), whole.storage_offset()).detach()
    return result.requires_grad_() if value.requires_grad else result


def _converted_sparse_tensor(value: Any, device: str) -> Any:
    if value.layout is torch.sparse_coo:
        parts = [value.detach()._indices(), value.detach()._values()]
        make = tensor.sparse_coo_tensor
    else:
        parts = [value.detach().crow_indices(), value.detach().col_indices(), value.detach().values()]
        make = tensor.sparse_csr_tensor
    result = make(*converted(parts, device), size=tuple(value.shape))
    return result.requires_grad_() if value.requires_grad else result


def array_of(value: Any) -> Any:
    """Elements of a tensor of either library, as a NumPy array of their own dtype; dense for a sparse one."""
    if not str(value.layout).endswith("strided"):
        value = value.detach().to_dense()
    if isinstance(value, torch.Tensor) and value._is_zerotensor():
        return np.zeros(tuple(value.shape), array_of(value.new_empty(0)).dtype)
    return array_of_tensor(value)


class _Namespace:
    """This library under the name ``torch``."""

    nn = nn

    def __getattr__(self, name: str) -> Any:
        return getattr(tensor, name)


def counterpart(name: str) -> Any:
    """Function or method of this library that has the name of an operation of PyTorch's samples, or None."""
    for owner in (_Namespace(), tensor.Tensor):
        value: Any = owner
        for part in name.split("."):
            value = getattr(value, part, None)
        if callable(value):
            return value
    # Properties, as T.
    return getattr(tensor.Tensor, name, None)


def operation(info: Any, *, seeds: bool = True) -> Callable[..., Any] | None:
    """What does in this library what ``info.op`` does in PyTorch, or None where there is nothing of the name.

    An operation that PyTorch's tests wrap in a function of theirs is wrapped by the same code, in which ``torch`` is
    this library. Where PyTorch's seed the generators at each call, so does that, unless ``seeds`` is false.
    """
    # Random numbers that are written in place stand there without the underscore.
    function: Callable[..., Any] | None = counterpart(info.name) or counterpart(f"{info.name}_")
    wrapper = info.op
    if function is None or not isinstance(wrapper, types.FunctionType):
        return function
    if not wrapper.__module__.startswith("torch.testing"):
        return function
    names = {"torch": _Namespace(), "wrapper_set_seed": _with_fixed_seed if seeds else _as_it_is}
    return types.FunctionType(
        wrapper.__code__,
        wrapper.__globals__ | names,
        info.name,
        wrapper.__defaults__,
        wrapper.__closure__,
    )


def _as_it_is(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return function(*args, **options)


def _with_fixed_seed(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    tensor.manual_seed(42)
    return function(*args, **options)
