"""Gradients of views of a storage that show elements several times: sums in single precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import drv
import tensor

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Shape and strides of a view of 24 elements: one that repeats rows, one whose windows overlap, and both.
VIEWS = {
    "repeated": ((600, 24), (0, 1)),
    "windows": ((600, 20, 3), (0, 1, 1)),
    "windows in a row": ((5, 1, 4), (4, 0, 2)),
    "diagonals": ((300, 2, 4), (0, 1, 1)),
}


@pytest.fixture(autouse=True)
def simulator() -> Iterator[None]:
    drv.simulator.install(check="full", schedule="random")
    yield
    assert not drv.simulator.findings()


@pytest.mark.parametrize("dtype", [tensor.bfloat16, tensor.float16], ids=str)
@pytest.mark.parametrize("name", VIEWS)
def test_sums_of_half_precision_are_rounded_once(name: str, dtype: Any) -> None:
    shape, strides = VIEWS[name]
    generator = tensor.Generator().manual_seed(3)
    seed = tensor.rand(shape, generator=generator).to(dtype)
    x = tensor.zeros(24, dtype=dtype, device="cuda", requires_grad=True)
    x.as_strided(shape, strides).backward(seed.cuda())
    exact = tensor.zeros(24, dtype=tensor.float64, requires_grad=True)
    exact.as_strided(shape, strides).backward(seed.double())
    assert x.grad is not None and exact.grad is not None
    assert x.grad.dtype is dtype
    tensor.testing.assert_close(x.grad.cpu(), exact.grad.to(dtype), rtol=tensor.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("dtype", [tensor.bfloat16, tensor.float16], ids=str)
def test_many_elements_share_a_gradient(dtype: Any) -> None:
    """3000 of them, which half precision does not count."""
    x = tensor.ones(1, dtype=dtype, device="cuda").expand(3000).detach().requires_grad_()
    x.as_strided((1,), (1,)).backward(tensor.ones(1, dtype=dtype, device="cuda"))
    assert x.grad is not None
    expected = tensor.full((3000,), 1 / 3000, dtype=tensor.float64).to(dtype)
    tensor.testing.assert_close(x.grad.cpu(), expected)
