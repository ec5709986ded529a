"""One value in every element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.autograd.recording.inplace import check_in_place, record_in_place
from tensor.autograd.recording.recorder import BackwardFormula
from tensor.core.dtypes.scalars import element
from tensor.core.plans.fills import FILL, ZERO
from tensor.operations.definition import operation

from .copies import copy_

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor


@operation()
def fill_(input: Tensor, value: Any) -> Tensor:
    """Write ``value`` to every element. Returns ``input``.

    Parameters
    ----------
    value : number or Tensor
        A number, or a 0-dim tensor, converted to the dtype of ``input``: an integer one drops the fraction.

    Raises
    ------
    RuntimeError
        If the dtype cannot hold the number, ``value`` has dimensions, or ``input`` is a leaf that requires grad.

    Examples
    --------
    >>> tensor.zeros(3).fill_(2)
    tensor([2., 2., 2.])
    """
    origin = getattr(value, "_layout", None)
    if origin is not None:
        if origin.shape:
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {len(origin.shape)} dimensions."
            )
        return copy_(input, value.clone() if value._storage is input._storage else value)
    check_in_place(input)
    layout = input._layout
    layout.device_state.plans[FILL, layout](input, element(value, layout.dtype))
    input._storage.version += 1
    if input._autograd is not None:
        record_in_place(_FILLED, input, (input,))
    return input


#: What was there before has no influence.
_FILLED = BackwardFormula("FillBackward0", "input", [lambda grad: grad.new_zeros(grad.shape)])
_ZEROED = _FILLED.named("ZeroBackward0")


@operation()
def zero_(input: Tensor) -> Tensor:
    """Write 0 to every element. Returns ``input``.

    Raises
    ------
    RuntimeError
        If ``input`` is a leaf that requires grad.

    Examples
    --------
    >>> tensor.ones(3).zero_()
    tensor([0., 0., 0.])
    """
    check_in_place(input)
    layout = input._layout
    layout.device_state.plans[ZERO, layout](input)
    input._storage.version += 1
    if input._autograd is not None:
        record_in_place(_ZEROED, input, (input,))
    return input


@operation(method=False)
def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor like ``input``, filled with ``value``, a number or a 0-dim tensor.

    Raises
    ------
    RuntimeError
        If the dtype cannot hold the number, or ``value`` has dimensions.

    Examples
    --------
    >>> tensor.fill(tensor.zeros(2, 2), 3)
    tensor([[3., 3.],
            [3., 3.]])
    """
    return fill_(input.clone(), value)
