"""New tensors of random numbers: shapes, types, devices and places in memory."""

from __future__ import annotations

from typing import Any

import pytest

import drv
import tensor
from nvrtc_kernels import dtypes

from .test_fills import COMPLEX, FLOATS, INTEGERS, assert_same_bits

CALLS = {
    "rand": lambda **named: tensor.rand(3, 5, **named),
    "randn": lambda **named: tensor.randn((3, 5), **named),
    "randint": lambda **named: tensor.randint(-4, 90, (3, 5), **named),
    "randperm": lambda **named: tensor.randperm(40, **named),
    "normal": lambda **named: tensor.normal(2.0, 3.0, (3, 5), **named),
}
LIKE = {
    "rand_like": ("rand", ()),
    "randn_like": ("randn", ()),
    "randint_like": ("randint", (-4, 90)),
}


@pytest.mark.parametrize("name", CALLS)
def test_devices_types_and_generators(device: drv.Device, name: str) -> None:
    call = CALLS[name]
    integral = name in ("randint", "randperm")
    assert call().dtype is (dtypes.int64 if integral else dtypes.float32)
    assert call().is_cpu
    for kind in [*FLOATS, *(INTEGERS[1:] if integral else COMPLEX)]:
        tensor.manual_seed(8)
        on_cpu = call(dtype=kind)
        assert on_cpu.dtype is kind
        on_cuda = call(dtype=kind, device="cuda")
        assert str(on_cuda.device) == "cuda:0"
        pinned = call(dtype=kind, pin_memory=True, generator=tensor.Generator().manual_seed(8))
        assert pinned.is_pinned()
        elsewhere = call(dtype=kind, device="cuda", generator=tensor.Generator("cuda").manual_seed(8))
        for other in (on_cuda, pinned, elsewhere):
            assert_same_bits(other, on_cpu)
        assert on_cpu.tolist() != call(dtype=kind).tolist()


def test_the_default_dtype() -> None:
    tensor.set_default_dtype(dtypes.float64)
    try:
        assert tensor.rand(2).dtype is tensor.randn(2).dtype is dtypes.float64
        assert tensor.normal(0, 1, (2,)).dtype is dtypes.float64
        assert tensor.randint(3, (2,)).dtype is dtypes.int64
    finally:
        tensor.set_default_dtype(dtypes.float32)


@pytest.mark.parametrize("where", ["cpu", "cuda"])
@pytest.mark.parametrize("name", CALLS)
def test_out(device: drv.Device, name: str, where: str) -> None:
    call = CALLS[name]
    tensor.manual_seed(3)
    expected = call(device=where, dtype=dtypes.float64)
    shape = expected.shape
    empty = tensor.empty(0, dtype=dtypes.float64, device=where)
    strided = tensor.empty(*reversed(shape), 2, dtype=dtypes.float64, device=where)[..., 1].permute(
        *reversed(range(len(shape)))
    )
    strides = strided.stride()
    for out in (empty, strided):
        tensor.manual_seed(3)
        assert call(out=out) is out
        assert_same_bits(out, expected)
    assert strided.stride() == strides


@pytest.mark.parametrize("name", LIKE)
def test_like(device: drv.Device, name: str) -> None:
    make, arguments = getattr(tensor, name), LIKE[name][1]
    call = CALLS[LIKE[name][0]]
    model = tensor.empty(5, 3, dtype=dtypes.float64, device="cuda").t()
    tensor.manual_seed(1)
    expected = call(dtype=dtypes.float64)
    result = make(model, *arguments)
    assert result.stride() == model.stride() == (1, 3)
    assert result.device == model.device
    assert_same_bits(result, expected)
    other = make(
        model, *arguments, dtype=dtypes.float32, device="cpu", memory_format=tensor.contiguous_format,
        requires_grad=True, generator=tensor.Generator().manual_seed(1),
    )  # fmt: skip
    assert other.is_contiguous()
    assert other.requires_grad
    assert_same_bits(other.detach(), call(dtype=dtypes.float32, generator=tensor.Generator().manual_seed(1)))


def test_forms_of_arguments() -> None:
    assert tensor.rand(()).shape == ()
    assert tensor.rand(2, 3).shape == tensor.rand([2, 3]).shape == tensor.rand(size=(2, 3)).shape == (2, 3)
    assert tensor.randn(tensor.Size((4, 0))).shape == (4, 0)
    low_and_high: list[Any] = [
        tensor.randint(5, 6, (7,)),
        tensor.randint(5, 6, size=(7,)),
        tensor.randint(5, high=6, size=(7,)),
        tensor.randint(low=5, high=6, size=[7]),
        tensor.randint_like(tensor.empty(7), 5, 6),
        tensor.randint_like(tensor.empty(7), low=5, high=6),
        tensor.randint_like(tensor.empty(7), 5, high=6),
        tensor.randint_like(tensor.empty(7), 6, low=5),
    ]
    for drawn in low_and_high:
        assert drawn.tolist() == [5] * 7
    for drawn in (
        tensor.randint(1, (7,)),
        tensor.randint(1, size=(7,)),
        tensor.randint(high=1, size=(7,)),
        tensor.randint(tensor.tensor(1), (7,)),
        tensor.randint_like(tensor.empty(7), 1),
        tensor.randint_like(tensor.empty(7), high=1),
    ):
        assert drawn.tolist() == [0] * 7
    with pytest.raises(TypeError):
        tensor.rand(2, size=(2,))
    assert tensor.rand(2, requires_grad=True).requires_grad


@pytest.mark.parametrize("where", ["cpu", "cuda"])
@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_permutations(device: drv.Device, where: str, count: int) -> None:
    tensor.manual_seed(9)
    one, other = tensor.randperm(count, device=where), tensor.randperm(count, device=where)
    assert one.device.type == where
    assert sorted(one.tolist()) == list(range(count))
    assert sorted(other.tolist()) == list(range(count))
    if count > 2:
        assert one.tolist() != other.tolist()
        assert one.tolist() != list(range(count))


def test_types_of_permutations_hold_all_numbers() -> None:
    for dtype, most in (
        (dtypes.uint8, 256),
        (dtypes.int8, 128),
        (dtypes.float16, 2049),
        (dtypes.bfloat16, 257),
    ):
        assert sorted(tensor.randperm(most, dtype=dtype).tolist()) == list(range(most))
        with pytest.raises(RuntimeError, match=f"n cannot be greater than {most}"):
            tensor.randperm(most + 1, dtype=dtype)
