"""Linear and bilinear maps."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tensor import bmm
from tensor.operations.autocast import AS_GIVEN, WIDEST, Autocast
from tensor.operations.definition import operation

if TYPE_CHECKING:
    from tensor import Tensor


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=WIDEST, cpu=AS_GIVEN))
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Bilinear map: output k is ``input1 @ weight[k] @ input2 + bias[k]``.

    Parameters
    ----------
    input1, input2 : Tensor
        Shapes (..., n) and (..., m), with the same leading dimensions.
    weight : Tensor
        Shape (outputs, n, m).
    bias : Tensor, optional
        Shape (outputs,).

    Returns
    -------
    Tensor
        Shape (..., outputs).

    Raises
    ------
    RuntimeError
        If the last dimensions of the inputs are not those of ``weight``, their other dimensions differ, ``bias`` has
        not one element for each output, or dtypes or devices differ.
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
