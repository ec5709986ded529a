"""Tensors that are joined and repeated, against PyTorch: types, sizes, dimensions, ``out=``, derivatives, errors."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
import tensor
from nvrtc_kernels import dtypes
from tests.pytorch import torch
from tests.tensor.comparison import assert_same, assert_same_outcome, outcome, torch_dtype, torch_of
from tests.tensor.operations.against_pytorch import TYPES, check, check_derivatives, make

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

JOINS = ["cat", "stack", "hstack", "vstack", "dstack", "column_stack", "row_stack", "concat", "concatenate"]
#: Shapes of tensors that are joined, among them some that cannot be.
SHAPES: list[list[tuple[int, ...]]] = [
    [()],
    [(), ()],
    [(3,)],
    [(3,), (2,)],
    [(3,), ()],
    [(2, 3), (2, 3)],
    [(2, 3), (1, 3)],
    [(2, 1), (2, 3), (2, 2)],
    [(2, 3), (3, 2)],
    [(2, 3), (3,)],
    [(2, 3), (2,)],
    [(0,), (2, 3)],
    [(0,), (0,)],
    [(2, 0), (2, 3)],
    [(0, 3), (2, 3)],
    [(2, 3, 4), (2, 3, 4)],
    [(2, 3, 4), (2, 1, 4), (2, 2, 4)],
    [(2, 3, 4), (2, 3)],
    [(1, 0), (1, 0)],
]


def check_join(name: str, given: Sequence[Any], *arguments: Any, **options: Any) -> None:
    """Assert that joining has the outcome that it has in PyTorch, also for tuples."""
    theirs = [torch_of(x) if isinstance(x, tensor.Tensor) else x for x in given]
    expected = outcome(getattr(torch, name), theirs, *arguments, **options)
    for sequence in (list, tuple):
        result = outcome(getattr(tensor, name), sequence(given), *arguments, **options)
        assert_same_outcome(result, expected)


@pytest.mark.parity
@pytest.mark.parametrize("name", JOINS)
def test_shapes_and_dimensions(name: str, checked_device: str) -> None:
    dims: list[tuple[int, ...]] = [()]
    if name in ("cat", "stack", "concat", "concatenate"):
        dims = [(), (0,), (1,), (-1,), (2,), (-2,), (4,)]
    for shapes in SHAPES:
        argument = [make(shape, device=checked_device) for shape in shapes]
        for dim in dims:
            check_join(name, argument, *dim)
    check_join(name, [])
    check_join(name, [make((2,), device=checked_device), 3])


@pytest.mark.parity
@pytest.mark.parametrize("name", ["cat", "stack", "hstack", "dstack", "column_stack"])
def test_layouts(name: str, checked_device: str) -> None:
    whole = make((4, 6, 3), device=checked_device)
    parts = [
        whole.permute(1, 0, 2)[::2],
        whole.permute(2, 0, 1)[:, :, 1:4].permute(0, 1, 2),
        make((3, 1, 1), device=checked_device).expand(3, 4, 3),
    ]
    check_join(name, parts)
    check_join(name, [part.transpose(0, 2) for part in parts])


@pytest.mark.parity
@pytest.mark.parametrize("name", ["cat", "stack"])
def test_types_are_promoted(name: str) -> None:
    for first, second in itertools.product(TYPES, TYPES):
        check_join(name, [make((2, 2), first), make((2, 2), second)])
    # A number without dimensions counts less, and an empty vector as much as any other.
    check_join("stack", [make((), "float32"), make((), "int64"), make((), "float64")])
    check_join("cat", [make((0,), "float64"), make((2,), "float32")])
    check_join("cat", [make((0,), "complex64"), make((2, 2), "int32")])


@pytest.mark.parity
@pytest.mark.parametrize("kind", TYPES)
def test_types(kind: str, checked_device: str) -> None:
    argument = [make((2, 3), kind, checked_device), make((2, 2), kind, checked_device)]
    check_join("cat", argument, 1)
    check_join("cat", [argument[0], make((1, 3), "float32", checked_device)])
    check_join("stack", [argument[0], argument[0]], -1)
    check(tensor.tile, torch.tile, argument[0], (2, 2))


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_out(checked_device: str) -> None:
    argument = [make((2, 3), device=checked_device), make((2, 3), device=checked_device)]
    for name in JOINS:
        for dtype in ("float32", "float64", "int64", "complex64"):
            for shape in ((0,), (4, 3), (3, 3)):
                out = tensor.zeros(shape, dtype=dtypes.dtype_named(dtype), device=checked_device)
                theirs = torch.zeros(shape, dtype=torch_dtype(out.dtype))
                expected = outcome(getattr(torch, name), [torch_of(x) for x in argument], out=theirs)
                result = outcome(getattr(tensor, name), argument, out=out)
                if assert_same_outcome(result, expected):
                    assert result is out
    turned = tensor.zeros(3, 4, device=checked_device).t()
    theirs = torch_of(turned)
    tensor.cat(argument, out=turned)
    assert_same(turned, torch.cat([torch_of(x) for x in argument], out=theirs))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        tensor.cat([argument[0].requires_grad_(), argument[1]], out=turned)


def test_two_devices_are_an_error() -> None:
    drv.simulator.install()
    for name in ("cat", "stack", "hstack"):
        with pytest.raises(RuntimeError, match=r"cpu.*cuda:0|cuda:0.*cpu"):
            getattr(tensor, name)([tensor.zeros(2), tensor.zeros(2, device="cuda")])


REPEATS: dict[str, list[tuple[Any, ...]]] = {
    "repeat": [(2,), (2, 3), ((2, 1, 3),), (0, 2), (1, 1), ((),), (2, -1), (2, 1, 1, 1), (1.5,), ([2, 2],)],
    "tile": [(2,), (2, 3), ((2, 1, 3),), ((0,),), ((),), ((2, 1, 1, 1),), (-1,)],
}


@pytest.mark.parity
@pytest.mark.parametrize("name", REPEATS)
def test_repetition(name: str, checked_device: str) -> None:
    for shape in ((), (3,), (2, 3), (0,), (2, 0), (2, 1, 3)):
        argument = make(shape, device=checked_device)
        for x in (argument, argument.mT if len(shape) >= 2 else argument):
            for arguments in REPEATS[name]:
                check(getattr(tensor.Tensor, name), getattr(torch.Tensor, name), x, *arguments)
    check(tensor.tile, torch.tile, make((2, 3), device=checked_device), (2,))


@pytest.mark.parity
def test_lifted_ranks(checked_device: str) -> None:
    tensors = [
        make(shape, device=checked_device) for shape in ((), (3,), (2, 3), (2, 3, 4), (0,), (2, 3, 1, 1))
    ]
    for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
        for x in tensors:
            check(getattr(tensor, name), getattr(torch, name), x)
        check(getattr(tensor, name), getattr(torch, name), *tensors)
        result = getattr(tensor, name)(tensors)
        for one, other in zip(result, getattr(torch, name)([torch_of(x) for x in tensors]), strict=True):
            assert_same(one, other)


@pytest.mark.parity
def test_blocks_and_products_of_vectors(checked_device: str) -> None:
    for shapes in ([(2, 3), (1, 1)], [(), (3,), (2, 2)], [(0, 2), (2, 0)], [(0,), (3,)], [(2, 2, 2)], [(3,)]):
        tensors = [make(shape, device=checked_device) for shape in shapes]
        check(tensor.block_diag, torch.block_diag, *tensors)
    mixed = [make((2, 2), "int32", checked_device), make((1, 2), "float64", checked_device)]
    check(tensor.block_diag, torch.block_diag, *mixed)
    for shapes in ([(2,), (3,)], [(2,), (1,), (3,)], [(3,)], [(2,), (0,)], [(2, 2), (3,)], [()], [(2,), ()]):
        tensors = [make(shape, "int64", checked_device) for shape in shapes]
        check(tensor.cartesian_prod, torch.cartesian_prod, *tensors)


#: Called with the library and three tensors of two dimensions.
DIFFERENTIABLE: dict[str, Callable[..., Any]] = {
    "CatBackward0": lambda lib, a, b, c: lib.cat([a, b, c], 1),
    "StackBackward0": lambda lib, a, b, c: lib.stack([a, b, a, c], -1),
    "hstack": lambda lib, a, b, c: lib.hstack([a, b * c]),
    "vstack": lambda lib, a, b, c: lib.vstack([a[0], b, c]),
    "dstack": lambda lib, a, b, c: lib.dstack([a, b, c]),
    "column_stack": lambda lib, a, b, c: lib.column_stack([a[:, 0], b, c]),
    "RepeatBackward0": lambda lib, a, b, c: (a * b * c).repeat(2, 1, 3),
    "tile": lambda lib, a, b, c: lib.tile(a * b * c, (2,)),
    "block_diag": lambda lib, a, b, c: lib.block_diag(a, b[0], c[0, 0]),
    "cartesian_prod": lambda lib, a, b, c: lib.cartesian_prod(a[0], b[1], c[0]),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives(name: str, checked_device: str) -> None:
    call = DIFFERENTIABLE[name]
    argument = [make((2, 3), device=checked_device) / 20 for _ in range(3)]
    check_derivatives(
        lambda *x: call(tensor, *x),
        lambda *x: call(torch, *x),
        *argument,
        name=name if name.endswith("Backward0") else "",
    )


def test_only_what_wants_gradients_gets_them() -> None:
    first, second = make((2, 3)).requires_grad_(), make((2, 3))
    result = tensor.cat([second, first, second.long()])
    result.backward(tensor.arange(18.0).reshape(6, 3))
    np.testing.assert_array_equal(first.grad.numpy(), np.arange(6.0, 12.0).reshape(2, 3))
    assert second.grad is None
    assert not tensor.stack([first.detach(), second]).requires_grad
    with tensor.no_grad():
        assert not tensor.cat([first, second]).requires_grad
