"""``einsum``, ``tensordot`` and products of other forms against PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tensor
from tests.pytorch import torch
from tests.tensor.comparison import assert_same_outcome, outcome, torch_of
from tests.tensor.operations.against_pytorch import check_derivatives

from .cases import assert_close, check, small

if TYPE_CHECKING:
    from collections.abc import Callable

# PyTorch has no TF32 on the CPU.
pytestmark = pytest.mark.usefixtures("full_precision")


#: Equations with the shapes of their operands.
EQUATIONS: list[tuple[str, list[tuple[int, ...]]]] = [
    ("i,i", [(3,), (3,)]),
    ("i,i->i", [(3,), (3,)]),
    ("i,j->ij", [(3,), (2,)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("ij,jk->ki", [(2, 3), (3, 4)]),
    ("ij,kj->ik", [(2, 3), (4, 3)]),
    ("ij->ji", [(2, 3)]),
    ("ij->", [(2, 3)]),
    ("ij->j", [(2, 3)]),
    ("ii", [(3, 3)]),
    ("ii->i", [(3, 3)]),
    ("iij->ij", [(3, 3, 2)]),
    ("iii->i", [(2, 2, 2)]),
    ("bij,bjk->bik", [(2, 2, 3), (2, 3, 4)]),
    ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 2, 4)]),
    ("...ij,...jk->...ik", [(2, 3), (4, 3, 2)]),
    ("...ij,jk", [(5, 2, 3), (3, 2)]),
    ("i...,i...->...", [(2, 3), (2, 3)]),
    ("...,...", [(2, 3), (3,)]),
    ("...->...", [(2, 3)]),
    ("i...", [(2, 3)]),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
    ("ab,bc,cd,da", [(2, 3), (3, 4), (4, 2), (2, 2)]),
    ("ij,ij->ij", [(2, 3), (2, 3)]),
    ("ij,ij", [(2, 1), (2, 3)]),
    ("ij,i->j", [(0, 3), (0,)]),
    ("Aa,aB->AB", [(2, 3), (3, 2)]),
    ("bn,anm,bm->ba", [(2, 3), (5, 3, 4), (2, 4)]),
    ("i j , j k -> i k", [(2, 3), (3, 4)]),
    (",", [(), ()]),
    (",i", [(), (3,)]),
    ("", [()]),
    ("i,", [(3,), ()]),
    ("ij,jk->il", [(2, 3), (3, 4)]),
    ("ij,jk->ii", [(2, 3), (3, 4)]),
    ("ij,jk", [(2, 3), (4, 4)]),
    ("ijk", [(2, 3)]),
    ("i", [(2, 3)]),
    ("i,i,i", [(2,), (2,)]),
    ("i1->i", [(2, 3)]),
    ("ii->i", [(2, 3)]),
    ("i.j", [(2, 3)]),
    ("ij->i->j", [(2, 3)]),
    ("...i...->i", [(2, 3)]),
]


@pytest.mark.parity
@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS, ids=[f"{e} {s}" for e, s in EQUATIONS])
def test_einsum(equation: str, shapes: list[tuple[int, ...]], checked_device: str) -> None:
    argument = [small(shape, device=checked_device) for shape in shapes]
    check("einsum", equation, *argument)
    if len(argument) > 1:
        turned = [x.mT.contiguous().mT if len(x.shape) > 1 else x for x in argument]
        theirs = outcome(torch.einsum, equation, [torch_of(x) for x in turned])
        assert_same_outcome(outcome(tensor.einsum, equation, turned), theirs, assert_close)


@pytest.mark.parity
def test_einsum_with_lists_of_dimensions(checked_device: str) -> None:
    a, b = small((2, 3), device=checked_device), small((3, 4), device=checked_device)
    for tail in ([[0, 2]], [[2, 0]], [], [[]], [[..., 2]]):
        check("einsum", a, [0, 1], b, [1, 2], *tail)
    check("einsum", a, [..., 0], b, [0, 1], [..., 1])
    check("einsum", a, [0, 60], b, [1, 2])
    check("einsum")


TENSORDOTS: list[tuple[tuple[int, ...], tuple[int, ...], Any]] = [
    ((2, 3), (3, 4), 1),
    ((2, 3, 4), (3, 4, 2), 2),
    ((2, 3), (4, 2), 0),
    ((2, 3, 4), (4, 3, 2), ([1, 2], [1, 0])),
    ((2, 3, 4), (4, 3, 2), ([-1], [0])),
    ((2, 3, 4), (2, 3, 4), 3),
    ((2, 3), (3, 4), ([1], [1])),
    ((2, 3), (3, 4), ([0, 1], [0])),
    ((2, 3), (3, 4), -1),
    ((2, 3), (3, 4), 3),
    ((2, 3), (2, 3), ([0, 0], [0, 0])),
    ((2, 1), (3, 4), 1),
    ((2, 0), (0, 4), 1),
    ((), (3,), 0),
    ((2, 3), (3, 4), ([5], [0])),
]


@pytest.mark.parity
def test_tensordot(checked_device: str) -> None:
    for left, right, dims in TENSORDOTS:
        check("tensordot", small(left, device=checked_device), small(right, device=checked_device), dims)
    check("tensordot", small((2, 3)), small((3, 2)), dims=torch.tensor([[1], [0]]).tolist())


@pytest.mark.parity
def test_cross(checked_device: str) -> None:
    for left, right, dim in (
        ((3,), (3,), ()),
        ((2, 3), (2, 3), ()),
        ((3, 2), (3, 2), ()),
        ((3, 3), (3, 3), ()),
        ((3, 3), (3, 3), (1,)),
        ((2, 3), (2, 3), (-1,)),
        ((2, 3), (1, 3), (1,)),
        ((2, 3), (3,), (-1,)),
        ((2, 2), (2, 2), ()),
        ((2, 3), (2, 3), (0,)),
        ((2, 3), (2, 3), (2,)),
        ((0, 3), (0, 3), ()),
        ((), (), ()),
        ((2, 3), (4, 3), (1,)),
    ):
        check("cross", small(left, device=checked_device), small(right, device=checked_device), *dim)
    for dtype in ("int32", "float16", "complex64"):
        check("cross", small((2, 3), dtype, checked_device), small((2, 3), dtype, checked_device))


@pytest.mark.parity
def test_trace(checked_device: str) -> None:
    for shape in ((3, 3), (2, 4), (0, 3), (3,), (), (2, 2, 2)):
        check("trace", small(shape, device=checked_device))
    check("trace", small((3, 3), "int32", checked_device))
    check("trace", small((3, 4), device=checked_device).t())


#: Called with the library and two tensors: of shape (2, 3, 3) and (3, 3).
DIFFERENTIABLE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "matmul broadcast": lambda lib, a, b: a[:, None] @ a.mT * b,
    "inner": lambda lib, a, b: lib.inner(a, b),
    "outer": lambda lib, a, b: lib.outer(a[0, 0], b[:, 2]),
    "kron": lambda lib, a, b: lib.kron(a[0], b),
    "trace": lambda lib, a, b: lib.trace(a[1]) * b,
    "cross": lambda lib, a, b: lib.cross(a, b.expand(2, 3, 3), 2),
    "einsum": lambda lib, a, b: lib.einsum("bij,jk,bki->ik", a, b, a),
    "einsum diagonal": lambda lib, a, b: lib.einsum("bii,ij->bj", a, b),
    "tensordot": lambda lib, a, b: lib.tensordot(a, b, ([0 - 1], [1])),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", DIFFERENTIABLE)
@pytest.mark.sampled(3)
def test_derivatives(name: str, checked_device: str) -> None:
    call = DIFFERENTIABLE[name]
    check_derivatives(
        lambda a, b: call(tensor, a, b),
        lambda a, b: call(torch, a, b),
        small((2, 3, 3), device=checked_device),
        small((3, 3), device=checked_device),
        name=name if name.endswith("Backward0") else "",
    )


@pytest.mark.parametrize(
    "equation",
    ["ij,jk->ik", "ij,kj->ki", "bij,bjk->bik", "bij,bjk", "ab,cd->dabc", "i,i->", "bij,jk->kbi", "ij,ij->ji"],
)
def test_einsum_of_operands_as_they_lie(equation: str, device_name: str) -> None:
    terms = equation.partition("->")[0].split(",")
    sizes = dict(zip("abcdijk", (2, 3, 4, 5, 3, 4, 2), strict=True))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal([sizes[label] for label in term]) for term in terms]
    plain = [tensor.from_numpy(array).to(device_name) for array in arrays]
    # A view that begins later, with other strides.
    shifted = [tensor.stack([x, x], -1)[..., 1] for x in plain]
    expected = np.einsum(equation, *arrays)
    for operands in (plain, shifted, [x.clone().requires_grad_() for x in plain]):
        for _ in range(2):
            result = tensor.einsum(equation, *operands)
            np.testing.assert_allclose(result.detach().cpu().numpy(), expected, atol=1e-12)
            assert result.requires_grad == operands[0].requires_grad
