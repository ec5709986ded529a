"""Differences, integrals and powers of neighbours, against PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import tensor
from tests.pytorch import torch
from tests.tensor.operations.against_pytorch import check, check_derivatives_of_call, inputs, make

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.parity

#: Functions with their arguments.
CALLS: dict[str, list[tuple[Any, ...]]] = {
    "diff": [(), (2,), (1, 0), (0, -1), (1, 1), (9,), (-1,), (1, 4)],
}


@pytest.mark.parametrize("name", CALLS)
def test_functions(name: str, checked_device: str) -> None:
    for argument in inputs(checked_device).values():
        for arguments in CALLS[name]:
            check(getattr(tensor, name), getattr(torch, name), argument, *arguments)
            check(getattr(tensor.Tensor, name), getattr(torch.Tensor, name), argument, *arguments)


#: Functions that are no methods.
FUNCTIONS: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "vander": [((), {}), ((2,), {}), ((0,), {}), ((3, True), {}), ((-1,), {}), ((), {"increasing": True})],
    "trapezoid": [((), {}), ((), {"dx": 0.5}), ((), {"dim": 0}), ((), {"dx": 3, "dim": 1}), ((), {"dim": 4})],
    "trapz": [((), {})],
    "cumulative_trapezoid": [((), {}), ((), {"dx": 0.5}), ((), {"dim": 0}), ((), {"dx": 3, "dim": 1})],
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.sampled(3)
def test_functions_that_are_no_methods(name: str, checked_device: str) -> None:
    for dtype in ("float32", "int64", "bool") if checked_device == "cpu" else ("float32",):
        for argument in inputs(checked_device, dtype).values():
            for arguments, options in FUNCTIONS[name]:
                check(getattr(tensor, name), getattr(torch, name), argument, *arguments, **options)


#: Called with the library and a tensor of three dimensions.
DIFFERENTIABLE: dict[str, Callable[[Any, Any], Any]] = {
    # PyTorch's own cannot be differentiated twice.
    "vander": lambda lib, x: (
        lib.vander(x[0, 0]) if lib is tensor else x[0, 0].unsqueeze(1) ** lib.arange(5, -1, -1)
    ),
    "trapezoid": lambda lib, x: lib.trapezoid(x, x * x, dim=1),
    "trapezoid of equal steps": lambda lib, x: lib.trapezoid(x, dx=2),
    "cumulative_trapezoid": lambda lib, x: lib.cumulative_trapezoid(x, x[0, 0]),
    "diff": lambda lib, x: lib.diff(x, 2, 1, prepend=x[:, :1], append=x),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives(name: str, checked_device: str) -> None:
    check_derivatives_of_call(DIFFERENTIABLE[name], checked_device, name)


def test_places_of_integrals(checked_device: str) -> None:
    y = make((3, 4), device=checked_device)
    devices = [(4,), (3, 4), (1, 4), (3, 1), (5,), ()]
    for name in ("trapezoid", "cumulative_trapezoid"):
        for shape in devices:
            check(getattr(tensor, name), getattr(torch, name), y, make(shape, device=checked_device))
        check(getattr(tensor, name), getattr(torch, name), y, make((3,), device=checked_device), dim=0)
        check(getattr(tensor, name), getattr(torch, name), y[:, :0], make((0,), device=checked_device))
        with pytest.raises(TypeError):
            getattr(tensor, name)(y, y, dx=2)


def test_differences_with_more_around(checked_device: str) -> None:
    for dtype in ("float32", "int32", "bool"):
        x, more = make((2, 3), dtype, checked_device), make((2, 1), dtype, checked_device)
        check(tensor.diff, torch.diff, x, prepend=more)
        check(tensor.diff, torch.diff, x, 2, append=x)
        check(tensor.diff, torch.diff, x, 1, 0, prepend=x, append=x)
        check(tensor.diff, torch.diff, x, 0, 1, prepend=more)
        check(tensor.diff, torch.diff, x, 1, 1, prepend=more[0])
        check(tensor.diff, torch.diff, x, 1, 0, prepend=more)
