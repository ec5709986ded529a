"""Conversion between parameters and one vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor import Tensor, cat
from tensor.core.names.absent import hints as _hints

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _check_device(tensors: list[Tensor]) -> None:
    devices = {each.device for each in tensors}
    if len(devices) > 1:
        names = ", ".join(sorted(str(each) for each in devices))
        raise TypeError(
            f"Found two parameters on different devices, this is currently not supported: got {names}; move them to "
            "one first"
        )


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Concatenate the flattened parameters into one vector.

    Raises
    ------
    TypeError
        If they are on different devices.
    ValueError
        If there are none.
    """
    listed = list(parameters)
    if not listed:
        raise ValueError("parameters_to_vector(): expected at least one parameter, got none")
    _check_device(listed)
    return cat([each.reshape(-1) for each in listed])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Set the parameters to views of consecutive slices of the vector.

    Raises
    ------
    TypeError
        If ``vec`` is not a tensor, or the parameters are on different devices.
    RuntimeError
        If it has too few elements; nothing was changed then.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected tensor.Tensor, but got: {type(vec).__name__}")
    listed = list(parameters)
    _check_device(listed)
    size = sum(each.numel() for each in listed)
    if vec.dim() != 1 or vec.numel() < size:
        raise RuntimeError(
            f"vector_to_parameters(): the parameters have {size} elements, the vector has shape {list(vec.shape)}"
        )
    first = 0
    for each in listed:
        count = each.numel()
        each.data = vec[first : first + count].view(each.shape).data
        first += count


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
