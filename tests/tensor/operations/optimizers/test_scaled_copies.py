"""Many tensors copied at once, times a number."""

from __future__ import annotations

import numpy as np
import pytest

import tensor
from tensor.operations.optimizers.scaled_copies import scaled_copies

SHAPES = [(3,), (4, 5), (), (0, 3), (2, 3, 5, 7), (1023,), (5000,)]
KINDS = ["float32", "float64", "float16", "bfloat16", "complex64", "int64", "int32", "uint8", "bool"]


def some(kind: str, shape: tuple[int, ...], device: str) -> tensor.Tensor:
    numbers = np.arange(int(np.prod(shape)), dtype=np.float64).reshape(shape) % 7
    return tensor.tensor(numbers, dtype=getattr(tensor, kind), device=device)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(4)
def test_all_types_are_copied(checked_device: str, kind: str) -> None:
    sources = [some(kind, shape, checked_device) for shape in SHAPES]
    targets = [tensor.empty_like(each) for each in sources]
    scaled_copies(targets, sources)
    for target, source in zip(targets, sources, strict=True):
        assert tensor.equal(target, source)


@pytest.mark.parametrize("kind", KINDS[:5])
def test_copies_are_multiplied(checked_device: str, kind: str) -> None:
    sources = [some(kind, shape, checked_device) for shape in SHAPES]
    targets = [tensor.empty_like(each) for each in sources]
    scaled_copies(targets, sources, 1 / 3)
    for target, source in zip(targets, sources, strict=True):
        wide = source.float() if source.dtype.itemsize == 2 else source
        expected = (wide * (1 / 3)).to(source.dtype).cpu().to(tensor.complex128)
        np.testing.assert_allclose(target.cpu().to(tensor.complex128).numpy(), expected.numpy(), rtol=1e-6)


def test_order_in_memory_and_types_may_differ(checked_device: str) -> None:
    """Parts of one flat tensor, in place, of other strides, and of several types at once."""
    flat = tensor.zeros(40, device=checked_device)
    turned = some("float32", (4, 3), checked_device).T
    long = some("int64", (5,), checked_device)
    own = flat[30:33]
    own.fill_(2)
    strided = flat[0:24:2].view(3, 4)
    into = tensor.empty_like(long)
    before = flat._version
    scaled_copies(
        [strided, flat[24:30].view(2, 3).T, into], [turned, some("float32", (3, 2), checked_device), long]
    )
    scaled_copies([own], [own], 0.5)
    assert flat._version > before
    assert tensor.equal(strided, turned)
    assert flat[24:30].tolist() == [0, 2, 4, 1, 3, 5]
    assert flat[1:24:2].tolist() == [0] * 12
    assert own.tolist() == [1, 1, 1]
    assert tensor.equal(into, long)


def test_nothing_is_recorded_and_there_may_be_many(checked_device: str) -> None:
    sources = [tensor.full((2,), float(n), device=checked_device, requires_grad=True) for n in range(300)]
    flat = tensor.empty(600, device=checked_device)
    scaled_copies([flat[2 * n : 2 * n + 2] for n in range(300)], sources, 2.0)
    assert flat.tolist() == [2.0 * (n // 2) for n in range(600)]
    assert not flat.requires_grad
