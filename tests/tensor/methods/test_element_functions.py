"""``apply_`` and ``map_``, and writes of one value."""

from __future__ import annotations

import pytest

import drv
import tensor
from tests.tensor.expressions import assert_expression

TEXTS = [
    "m.arange(4).apply_(lambda x: x * x)",
    "m.arange(4.0).apply_(lambda x: x / 2)",
    "m.arange(4).apply_(lambda x: x / 2)",
    "m.arange(6).reshape(2, 3).t().apply_(lambda x: x + 1)",
    "m.tensor([True, False]).apply_(lambda x: not x)",
    "m.tensor(3.0).apply_(lambda x: x + 1)",
    "m.zeros(0).apply_(lambda x: x + 1)",
    "m.ones(2).apply_(lambda x: 'a')",
    "m.ones(2, requires_grad=True).apply_(lambda x: x)",
    "m.ones(2).map_(m.arange(2.0), lambda x, y: x - y)",
    "m.ones(2, 2).map_(m.arange(2.0), lambda x, y: x - y)",
    "m.ones(2).map_(m.arange(2), lambda x, y: x - y)",
    "m.ones(2).map_(3, lambda x, y: x - y)",
    "m.fill(m.ones(2), 3)",
    "m.fill(m.ones(2), m.tensor(2.5))",
    "m.fill(m.ones(2, dtype=m.int8), 300)",
    "m.fill_(m.ones(2), 3)",
    "m.zero_(m.ones(2))",
    "m.fill(m.ones(2, requires_grad=True), 3).requires_grad",
]


@pytest.mark.parity
@pytest.mark.parametrize("text", TEXTS)
def test_against_pytorch(text: str) -> None:
    assert_expression(text)


def test_a_device_tensor_is_refused() -> None:
    drv.simulator.install()
    x = tensor.ones(2, device="cuda")
    with pytest.raises(
        TypeError, match=r"apply_\(\) is only implemented on CPU tensors, this one is on cuda:0"
    ):
        x.apply_(lambda value: value)


def test_an_exception_leaves_the_elements_as_they_were() -> None:
    x = tensor.arange(3.0)
    with pytest.raises(ZeroDivisionError):
        x.apply_(lambda value: 1 / value)
    assert x.tolist() == [0, 1, 2]
    assert x._version == 0
    x.apply_(lambda value: value + 1)
    assert x._version == 1
