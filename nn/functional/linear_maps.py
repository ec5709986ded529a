"""Linear and bilinear maps."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tensor import addmm, bmm, matmul

if TYPE_CHECKING:
    from tensor import Tensor


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``.

    Parameters
    ----------
    input : Tensor
        Of shape (..., inputs).
    weight : Tensor
        Of shape (outputs, inputs), or (inputs,) for one output without a dimension.
    bias : Tensor, optional
        Of shape (outputs,).

    Returns
    -------
    Tensor
        Of shape (..., outputs).

    Raises
    ------
    RuntimeError
        If the shapes, dtypes or devices do not fit.
    """
    dims = input.dim()
    if dims == 2 and bias is not None and weight.dim() == 2:
        return addmm(bias, input, weight.t())
    if not dims or not weight.dim():
        raise RuntimeError(
            f"both arguments to linear need to be at least 1D, but they are {dims}D and {weight.dim()}D"
        )
    if weight.dim() == 1:
        product: Tensor = matmul(input, weight)
        return product if bias is None else product.add(bias)
    if bias is None:
        return matmul(input, weight.t())
    if bias.dim() > 1:
        return matmul(input, weight.t()).add(bias)
    shape = input.shape
    rows = input.reshape(prod(shape[:-1]), shape[-1])
    return addmm(bias, rows, weight.t()).view(*shape[:-1], weight.shape[0])


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input1 @ weight[k] @ input2`` for every output ``k``, plus ``bias``.

    Parameters
    ----------
    input1, input2 : Tensor
        Of shapes (..., inputs1) and (..., inputs2).
    weight : Tensor
        Of shape (outputs, inputs1, inputs2).
    bias : Tensor, optional
        Of shape (outputs,).

    Returns
    -------
    Tensor
        Of shape (..., outputs).

    Raises
    ------
    RuntimeError
        If the shapes, dtypes or devices do not fit.
    """
    first, second = input1.shape, input2.shape
    if weight.dim() != 3:
        raise RuntimeError(
            f"bilinear(): weight must be of shape (outputs, inputs1, inputs2), got {list(weight.shape)}"
        )
    if len(first) != len(second) or not first:
        raise RuntimeError(
            f"bilinear(): input dimensions do not match: got {len(first)} and {len(second)}, expected the same, and at "
            "least 1"
        )
    for dim, (one, other) in enumerate(zip(first[:-1], second[:-1], strict=True)):
        if one != other:
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {dim}: got {one} and {other}"
            )
    outputs = weight.shape[0]
    for number, shape in ((1, first), (2, second)):
        if shape[-1] != weight.shape[number]:
            raise RuntimeError(
                f"bilinear(): input{number} size does not match weight size: got {shape[-1]} but expected "
                f"{weight.shape[number]}"
            )
    if bias is not None and tuple(bias.shape) != (outputs,):
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {list(bias.shape)} but expected [{outputs}]"
        )
    count, (inputs1, inputs2) = prod(first[:-1]), weight.shape[1:]
    # One product for all outputs, then one row for each item of the batch.
    columns = weight.transpose(0, 1).reshape(inputs1, outputs * inputs2)
    half = (input1.reshape(count, inputs1) @ columns).view(count, outputs, inputs2)
    result = bmm(half, input2.reshape(count, inputs2, 1)).view(*first[:-1], outputs)
    return result if bias is None else result + bias
