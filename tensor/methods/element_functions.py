"""Python functions of each element, on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.autograd.recording.inplace import check_in_place
from tensor.core.base import check_tensor
from tensor.operations.creation.nested_data import as_element

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .tensor import Tensor


def apply_(input: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace each element of the CPU tensor ``input`` by what ``callable`` gives for it. Slow: it is called for each.

    >>> tensor.tensor([1.0, 2.0]).apply_(lambda x: x + 1)
    tensor([2., 3.])

    Raises
    ------
    TypeError
        For a CUDA tensor, or where ``callable`` gives no number.
    RuntimeError
        For a tensor that requires grad.
    """
    _check(input, "apply_")
    return _write(input, [callable(each) for each in input._host.reshape(-1).tolist()])


def map_(input: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace each element of ``input`` by what ``callable`` gives for it and that of ``tensor``. Slow.

    ``tensor`` is expanded to the shape of ``input``.

    >>> tensor.tensor([1.0, 2.0]).map_(tensor.tensor([10.0]), lambda x, y: x * y)
    tensor([10., 20.])

    Raises
    ------
    TypeError
        For CUDA tensors, other dtypes, or where ``callable`` gives no number.
    RuntimeError
        For a tensor that requires grad, or if ``tensor`` cannot be expanded.
    """
    _check(input, "map_")
    check_tensor(tensor, "map_", "tensor")
    _check(tensor, "map_")
    if tensor._layout.dtype is not input._layout.dtype:
        raise TypeError(
            f"map_(): expected a tensor of {input._layout.dtype!r} for argument 'tensor', got {tensor._layout.dtype!r}"
        )
    others = tensor.expand(input._layout.shape)._host.reshape(-1).tolist()
    pairs = zip(input._host.reshape(-1).tolist(), others, strict=True)
    return _write(input, [callable(one, other) for one, other in pairs])


def _check(input: Tensor, function: str) -> None:
    if input._layout.device_state.is_cuda:
        raise TypeError(
            f"{function}() is only implemented on CPU tensors, this one is on {input._layout.device}"
        )
    if input.requires_grad:
        raise RuntimeError(
            f"Can't call {function}() on Variable that requires grad. Use var.detach().{function}()"
        )


def _write(input: Tensor, values: Iterable[Any]) -> Tensor:
    check_in_place(input)
    dtype = input._layout.dtype
    elements = np.array([as_element(value, dtype) for value in values], dtype.numpy)
    input._writable[...] = elements.reshape(input._layout.shape)
    input._storage.version += 1
    return input
