"""All parameters as one vector, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor import Tensor, cat

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _check_device(given: list[Tensor]) -> None:
    places = {each.device for each in given}
    if len(places) > 1:
        names = ", ".join(sorted(str(each) for each in places))
        raise TypeError(
            f"Found two parameters on different devices, this is currently not supported: got {names}; move them to "
            "one first"
        )


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The elements of all parameters in a row.

    Raises
    ------
    TypeError
        If they are on different devices.
    ValueError
        If there are none.
    """
    given = list(parameters)
    if not given:
        raise ValueError("parameters_to_vector(): expected at least one parameter, got none")
    _check_device(given)
    return cat([each.reshape(-1) for each in given])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let the parameters show parts of the vector, from its start on.

    Raises
    ------
    TypeError
        If ``vec`` is no tensor, or the parameters are on different devices.
    RuntimeError
        If it has too few elements; then nothing was changed.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected tensor.Tensor, but got: {type(vec).__name__}")
    given = list(parameters)
    _check_device(given)
    wanted = sum(each.numel() for each in given)
    if vec.dim() != 1 or vec.numel() < wanted:
        raise RuntimeError(
            f"vector_to_parameters(): the parameters have {wanted} elements, the vector has shape {list(vec.shape)}"
        )
    first = 0
    for each in given:
        count = each.numel()
        each.data = vec[first : first + count].view(each.shape).data
        first += count
