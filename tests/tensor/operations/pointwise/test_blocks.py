"""NumPy forms with several steps are computed block by block for large tensors; the blocks must not show."""

from __future__ import annotations

import pytest

import nn
import tensor
from tensor.operations import pointwise_operation as pointwise

SIZE = 2 * pointwise._BLOCK + 1001
#: Functions of ``(x, y, mask)``.
CALLS = {
    "gelu": lambda x, y, mask: nn.functional.gelu(x),
    "erf": lambda x, y, mask: x.erf(),
    "addcmul": lambda x, y, mask: tensor.addcmul(x, x, y, value=2),
    "lerp": lambda x, y, mask: tensor.lerp(x, y, 0.25),
    "xlogy": lambda x, y, mask: tensor.xlogy(x, y.abs()),
    "where": lambda x, y, mask: tensor.where(mask, x, y),
    "lerp_": lambda x, y, mask: x.clone().lerp_(y, 0.5),
    "out of another type": lambda x, y, mask: tensor.xlogy(
        x, y.abs(), out=tensor.empty(0, dtype=tensor.float64)
    ),
    "two types": lambda x, y, mask: tensor.xlogy(x, y.double().abs()),
    "number": lambda x, y, mask: tensor.xlogy(2, y.abs()),
}


@pytest.mark.parametrize("dtype", [tensor.float32, tensor.float64, tensor.float16], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_large_tensors_are_computed_as_small_ones(name, dtype):
    tensor.manual_seed(1)
    x, y = tensor.randn(SIZE, dtype=dtype), tensor.randn(SIZE, dtype=dtype)
    mask = tensor.rand(SIZE) < 0.5
    whole = CALLS[name](x, y, mask)
    pieces = [
        CALLS[name](*parts) for parts in zip(x.split(1000), y.split(1000), mask.split(1000), strict=True)
    ]
    assert whole.dtype is pieces[0].dtype
    assert tensor.equal(whole, tensor.cat(pieces))


def test_other_orders_of_elements_are_computed_too():
    x = tensor.randn(SIZE // 100, 100)
    assert tensor.equal(nn.functional.gelu(x.t()), nn.functional.gelu(x).t())
    assert tensor.equal(tensor.lerp(x, x[0], 0.5), tensor.stack([tensor.lerp(row, x[0], 0.5) for row in x]))
