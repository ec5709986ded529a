"""Elements that come several times, combinations, and shapes that tensors are stretched to, against PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import drv
import tensor
from nvrtc_kernels import dtypes
from tests.pytorch import torch
from tests.tensor.comparison import outcome
from tests.tensor.operations.against_pytorch import check, check_derivatives_of_call, inputs, make

if TYPE_CHECKING:
    from collections.abc import Callable

#: Functions with their arguments.
CALLS: dict[str, list[tuple[Any, ...]]] = {
    "repeat_interleave": [(2,), (0,), (3, 0), (2, -1), (1, 1), (-1,), (2, 5), (2.5,), ([1, 2], 0)],
}


@pytest.mark.parity
@pytest.mark.parametrize("name", CALLS)
def test_functions(name: str, checked_device: str) -> None:
    for argument in inputs(checked_device).values():
        for arguments in CALLS[name]:
            check(getattr(tensor, name), getattr(torch, name), argument, *arguments)
            check(getattr(tensor.Tensor, name), getattr(torch.Tensor, name), argument, *arguments)


#: Functions that are no methods.
FUNCTIONS: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "combinations": [
        ((), {}),
        ((3,), {}),
        ((0,), {}),
        ((-1,), {}),
        ((1, True), {}),
        ((3, True), {}),
        ((8,), {}),
    ],
}


@pytest.mark.parity
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_are_no_methods(name: str, checked_device: str) -> None:
    for dtype in ("float32", "int64", "bool") if checked_device == "cpu" else ("float32",):
        for argument in inputs(checked_device, dtype).values():
            for arguments, options in FUNCTIONS[name]:
                check(getattr(tensor, name), getattr(torch, name), argument, *arguments, **options)


#: Called with the library and a tensor of three dimensions.
DIFFERENTIABLE: dict[str, Callable[[Any, Any], Any]] = {
    "repeat_interleave": lambda lib, x: lib.repeat_interleave(x, 3, 1),
    "repeats": lambda lib, x: lib.repeat_interleave(x, lib.tensor([2, 0, 3], device=x.device), 0),
    "combinations": lambda lib, x: lib.combinations(x[0, 0], 3),
    "broadcast_tensors": lambda lib, x: sum(lib.broadcast_tensors(x[:, :1], x[0], x[0, 0])),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives(name: str, checked_device: str) -> None:
    check_derivatives_of_call(DIFFERENTIABLE[name], checked_device, name)


@pytest.mark.parity
def test_repeats_for_each_slice(checked_device: str) -> None:
    def repeats(*numbers: int, kind: str = "int64") -> Any:
        return tensor.tensor(numbers, dtype=dtypes.dtype_named(kind), device=checked_device)

    for argument in (make((2, 3), device=checked_device), make((3, 2), "int16", checked_device).t()):
        for arguments in (
            (repeats(1, 0, 2), 1),
            (repeats(1, 0, 2, kind="int32"), -1),
            (repeats(2), 1),
            (tensor.tensor(2, device=checked_device), 0),
            (repeats(1, 2, 3, 0, 0, 1),),
            (repeats(0, 0), 0),
            (repeats(1, 2), 1),
            (repeats(1, -2), 0),
            (repeats(1, 2, kind="int16"), 0),
            (repeats(1, 2).reshape(1, 2), 0),
            (repeats(1, 2, 3),),
        ):
            check(tensor.repeat_interleave, torch.repeat_interleave, argument, *arguments)
            check(tensor.Tensor.repeat_interleave, torch.Tensor.repeat_interleave, argument, *arguments)
        check(tensor.repeat_interleave, torch.repeat_interleave, argument, repeats(1, 2), 0, output_size=3)
        check(tensor.repeat_interleave, torch.repeat_interleave, argument, 2, 0, output_size=4)
        check(tensor.repeat_interleave, torch.repeat_interleave, argument, 2, 0, output_size=5)
    for alone in (
        repeats(1, 0, 3),
        repeats(2, 1, kind="int32"),
        repeats(),
        tensor.tensor(3, device=checked_device),
    ):
        check(tensor.repeat_interleave, torch.repeat_interleave, alone)
        check(tensor.repeat_interleave, torch.repeat_interleave, repeats=alone)


def test_a_given_size_of_repeats_spares_a_wait() -> None:
    drv.simulator.install(schedule="lazy")
    argument = tensor.arange(3.0, device="cuda")
    repeats = tensor.tensor([2, 0, 1], device="cuda")
    result = argument.repeat_interleave(repeats, output_size=3)
    assert not tensor.cuda.current_stream().query()
    assert result.tolist() == [0, 0, 2]


@pytest.mark.parity
def test_broadcasting(checked_device: str) -> None:
    shapes: list[tuple[Any, ...]] = [
        ((2, 1), (3,)),
        ((),),
        ((1, 2), (4, 1, 1), 2),
        ((0, 1), (3,)),
        ((2,), (3,)),
        (),
    ]
    for argument in shapes:
        result, expected = (
            outcome(tensor.broadcast_shapes, *argument),
            outcome(torch.broadcast_shapes, *argument),
        )
        if not isinstance(expected, Exception):
            assert result == tuple(expected)
            assert type(result) is tensor.Size
        else:
            assert isinstance(result, type(expected))
    tensors = [make(shape, device=checked_device) for shape in ((2, 1), (3,), (4, 1, 1))]
    check(tensor.broadcast_tensors, torch.broadcast_tensors, *tensors)
    assert [x.shape for x in tensor.broadcast_tensors(tensors)] == [(4, 2, 3)] * 3
    with pytest.raises(RuntimeError, match="must match"):
        tensor.broadcast_tensors(make((2,)), make((3,)))
