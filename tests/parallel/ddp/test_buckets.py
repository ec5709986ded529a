"""Which parameters go into which bucket, and what lies where in one."""

from __future__ import annotations

import pytest

import drv
import tensor
from parallel.ddp.buckets import Bucket, GradBucket, assign
from tensor import float32, float64


@pytest.fixture(params=["cpu", "cuda"])
def where(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not request.config.getoption("--gpu"):
        drv.simulator.install(check="full")
    return str(request.param)


def sized(*sizes: int, dtype: tensor.dtype = float32) -> list[tensor.Tensor]:
    return [tensor.zeros(size, dtype=dtype) for size in sizes]


def test_parameters_are_taken_from_the_last_to_the_first() -> None:
    assert assign(sized(1, 2, 3), [1000]) == [[2, 1, 0]]
    assert assign(sized(1, 2, 3), [1]) == [[2], [1], [0]]


def test_a_bucket_takes_no_more_once_it_has_reached_its_limit() -> None:
    # Bytes: 40, 40, 40, 40, 40.
    assert assign(sized(10, 10, 10, 10, 10), [40, 80]) == [[4], [3, 2], [1, 0]]
    assert assign(sized(10, 10, 10, 10, 10), [41, 80]) == [[4, 3], [2, 1], [0]]
    assert assign(sized(1000, 1, 1), [8, 8]) == [[2, 1], [0]]


def test_types_are_apart_and_each_begins_with_the_first_limit() -> None:
    one, other = sized(2, 2, 2), sized(1, 1, 1, dtype=float64)
    mixed = [each for pair in zip(one, other, strict=True) for each in pair]
    assert assign(mixed, [8, 100]) == [[5], [4], [3, 1], [2, 0]]


def test_buckets_follow_the_order_in_which_they_are_full() -> None:
    argument = [*sized(1), *sized(1, dtype=float64), *sized(1)]
    assert assign(argument, [100]) == [[1], [2, 0]]
    assert assign(argument, [100], order=[0, 2, 1]) == [[0, 2], [1]]
    assert assign(argument, [100], order=[1, 2, 0]) == [[1], [2, 0]]


def test_gradients_lie_side_by_side(where: str) -> None:
    parameters = [
        tensor.ones(shape, device=where, requires_grad=True) for shape in [(2, 3), (), (4,), (0, 2)]
    ]
    parameters[0].grad = tensor.arange(6.0, device=where).view(2, 3)
    parameters[2].grad = tensor.arange(4.0, device=where)
    bucket = Bucket(0, [3, 1, 2, 0], parameters)
    bucket.fill(0.5, as_views=None)
    assert bucket.flat.tolist() == [0, 0.5, 1, 1.5, 2, 2.5, 0, 0, 0.5, 1, 1.5]
    assert bucket.views[0].tolist() == [[0, 0.5, 1], [1.5, 2, 2.5]]
    assert parameters[0].grad.tolist() == [[0, 1, 2], [3, 4, 5]]
    bucket.fill(1, as_views=[1] * 4)
    assert bucket.flat.tolist() == [0, 1, 2, 3, 4, 5, 0, 0, 1, 2, 3]
    bucket.flat.zero_()
    assert parameters[2].grad.tolist() == [0, 0, 0, 0]
    bucket.flat.fill_(3)
    bucket.fill(2, as_views=[1, 1, 0, 1])
    assert bucket.flat.tolist() == [6, 6, 6, 6, 6, 6, 0, 6, 6, 6, 6]
    assert parameters[0].grad.tolist() == [[6, 6, 6], [6, 6, 6]]
    assert parameters[2].grad.tolist() == [3, 3, 3, 3]
    # There was no gradient, and there is none.
    assert parameters[1].grad is None


def test_missing_gradients_are_zero(where: str) -> None:
    parameters = [tensor.ones(2, device=where, requires_grad=True) for _ in range(3)]
    bucket = Bucket(0, [0, 1, 2], parameters)
    bucket.fill(1)
    assert bucket.flat.tolist() == [0] * 6
    parameters[1].grad = tensor.ones(2, device=where)
    bucket.flat.fill_(5)
    bucket.fill(1, as_views=[1, 1, 1])
    assert bucket.flat.tolist() == [0, 0, 1, 1, 0, 0]
    bucket.flat.fill_(5)
    bucket.fill(2, as_views=[1, 1, 1])
    assert bucket.flat.tolist() == [0, 0, 10, 10, 0, 0]
    assert parameters[1].grad.tolist() == [10, 10]
    assert parameters[0].grad is None


def test_gradients_lie_as_their_parameters_do() -> None:
    parameter = tensor.zeros(3, 2).T.requires_grad_()
    parameter.grad = tensor.arange(6.0).view(3, 2).T
    bucket = Bucket(0, [0], [parameter])
    bucket.fill(1, as_views=[1] * 4)
    assert bucket.flat.tolist() == [0, 1, 2, 3, 4, 5]
    assert parameter.grad.stride() == parameter.stride() == (1, 2)
    assert parameter.grad.tolist() == [[0, 2, 4], [1, 3, 5]]


def test_what_a_hook_gets() -> None:
    parameters = [tensor.zeros(shape, requires_grad=True) for shape in [(2,), (1, 3)]]
    bucket = Bucket(4, [1, 0], parameters)
    bucket.flat.copy_(tensor.arange(5.0))
    argument = GradBucket(bucket, bucket.flat, is_last=True)
    assert argument.index() == 4
    assert argument.is_last()
    assert argument.buffer() is bucket.flat
    assert all(a is b for a, b in zip(argument.parameters(), parameters, strict=True))
    assert [each.tolist() for each in argument.gradients()] == [[0, 1], [[2, 3, 4]]]
    argument.set_buffer(tensor.arange(5.0, 10.0))
    assert [each.tolist() for each in argument.gradients()] == [[5, 6], [[7, 8, 9]]]
    with pytest.raises(ValueError, match="expects 5 elements.*got 4"):
        argument.set_buffer(tensor.zeros(4))
