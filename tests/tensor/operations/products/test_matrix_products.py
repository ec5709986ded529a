"""Products of matrices and vectors against PyTorch: shapes, types, layouts, ``out=``, errors, derivatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import drv
import tensor
from nvrtc_kernels import dtypes
from tests.pytorch import torch
from tests.tensor.comparison import assert_same_outcome, outcome, torch_dtype, torch_of
from tests.tensor.operations.against_pytorch import check_derivatives

from .cases import TYPES, assert_close, check, small

if TYPE_CHECKING:
    from collections.abc import Callable

# PyTorch has no TF32 on the CPU.
pytestmark = pytest.mark.usefixtures("full_precision")

#: Functions of two operands.
PAIRS = ["mm", "bmm", "mv", "dot", "vdot", "inner", "outer", "matmul", "kron", "ger"]


#: Shapes of two operands, for every function.
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3), (3, 4)),
    ((2, 3), (2, 3)),
    ((1, 3), (3, 1)),
    ((2, 0), (0, 3)),
    ((0, 2), (2, 3)),
    ((2, 3), (3, 0)),
    ((2, 3), (3,)),
    ((2, 3), (2,)),
    ((3,), (3, 2)),
    ((3,), (3,)),
    ((3,), (1,)),
    ((0,), (0,)),
    ((3,), (4,)),
    ((), (3,)),
    ((), ()),
    ((3,), ()),
    ((2, 2, 3), (2, 3, 2)),
    ((2, 2, 3), (2, 2, 3)),
    ((1, 2, 3), (2, 3, 2)),
    ((2, 2, 3), (3, 2)),
    ((2, 3), (2, 3, 2)),
    ((2, 2, 3), (3,)),
    ((3,), (2, 3, 2)),
    ((0, 2, 3), (0, 3, 2)),
    ((2, 0, 3), (2, 3, 2)),
    ((2, 2, 0), (2, 0, 3)),
    ((2, 1, 2, 3), (3, 3, 2)),
    ((3, 1, 2), (2, 1, 2, 3)),
    ((2, 1, 2, 3), (3, 1)),
    ((2, 2, 2, 3), (3, 3, 2)),
]


@pytest.mark.parity
@pytest.mark.parametrize("name", PAIRS)
def test_shapes(name: str, checked_device: str) -> None:
    for left, right in SHAPES:
        if name == "mv" and not left:
            # PyTorch looks for dimensions that are not there before it says so.
            continue
        check(name, small(left, device=checked_device), small(right, device=checked_device))


@pytest.mark.parity
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.sampled(3)
def test_types(kind: str, checked_device: str) -> None:
    matrix, other = small((3, 4), kind, checked_device), small((4, 2), kind, checked_device)
    batch = small((2, 3, 4), kind, checked_device)
    vector = small((4,), kind, checked_device)
    check("mm", matrix, other)
    check("bmm", batch, batch.mT)
    check("mv", matrix, vector)
    check("dot", vector, vector)
    check("vdot", vector, other[:, 0])
    check("matmul", batch, other)
    check("inner", matrix, matrix)
    check("outer", vector, matrix[0])
    check("kron", matrix, other)
    check("trace", matrix)
    check("einsum", "bij,jk->kb", batch, other)
    check("tensordot", batch, other, 1)
    check("addmm", matrix[:, :2], matrix, other)
    check("addmm", matrix[0, 0], matrix, other, beta=2, alpha=3)
    check("baddbmm", batch[:, :, :3], batch, batch.mT, beta=2)


@pytest.mark.parity
@pytest.mark.parametrize("name", ["mm", "matmul", "dot", "addmm", "einsum"])
def test_types_must_be_the_same(name: str) -> None:
    shapes = {"dot": ((3,), (3,))}.get(name, ((3, 3), (3, 3)))
    for first, second in (
        ("float32", "float64"),
        ("float32", "int64"),
        ("float32", "complex64"),
        ("int8", "uint8"),
    ):
        argument = [small(shapes[0], first), small(shapes[1], second)]
        if name == "addmm":
            check(name, argument[0], *argument)
            check(name, argument[1], argument[0], argument[0])
        elif name == "einsum":
            check(name, "ij,jk", *argument)
        else:
            check(name, *argument)


def layouts(shape: tuple[int, ...], kind: str, device: str) -> list[Any]:
    """Matrices that lie in memory in all ways."""
    rows, columns = shape[-2:]
    lead = shape[:-2]
    return [
        small(shape, kind, device),
        small((*lead, columns, rows), kind, device).mT,
        small((*lead, rows + 1, columns + 3), kind, device)[..., 1:, 2:-1],
        small((*lead, columns + 1, rows + 3), kind, device).mT[..., 3:, 1:],
        small((*lead, rows, 2 * columns), kind, device)[..., ::2],
        small((*lead, rows, 1), kind, device).expand(shape),
        small((*lead, 1, columns), kind, device).expand(shape),
    ]


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["float32", "float16", "complex64", "int32"])
@pytest.mark.sampled(3)
def test_layouts(kind: str, checked_device: str) -> None:
    for left in layouts((3, 4), kind, checked_device):
        for right in layouts((4, 2), kind, checked_device):
            check("mm", left, right)
        check("mv", left, small((8,), kind, checked_device)[::2])
    # One row or column, whose strides are of no importance.
    check("mm", small((4, 3), kind, checked_device)[:, :1].t(), small((4, 3), kind, checked_device)[:, 1:2])
    check("dot", small((9,), kind, checked_device)[::3], small((3, 2), kind, checked_device)[:, 1])
    for left in layouts((2, 3, 4), kind, checked_device):
        check("bmm", left, small((2, 2, 4), kind, checked_device).mT)
    turned = small((4, 2, 3), kind, checked_device).permute(1, 2, 0)
    check("bmm", turned, turned.mT)
    check("matmul", turned, small((4, 2), kind, checked_device))
    check("bmm", small((1, 3, 4), kind, checked_device).expand(2, 3, 4), turned.mT)


#: Shapes of the operands of products that are added to something.
ADDED: dict[str, list[tuple[tuple[int, ...], ...]]] = {
    "addmm": [
        ((2, 4), (2, 3), (3, 4)),
        ((4,), (2, 3), (3, 4)),
        ((2, 1), (2, 3), (3, 4)),
        ((), (2, 3), (3, 4)),
        ((2, 4), (2, 0), (0, 4)),
        ((0, 4), (0, 3), (3, 4)),
        ((3, 4), (2, 3), (3, 4)),
        ((2, 4), (2, 3), (2, 4)),
        ((2, 4), (2, 3), (3,)),
        ((1, 2, 4), (2, 3), (3, 4)),
    ],
    "addmv": [
        ((2,), (2, 3), (3,)),
        ((), (2, 3), (3,)),
        ((1,), (2, 3), (3,)),
        ((3,), (2, 3), (3,)),
        ((2,), (2, 3), (2,)),
    ],
    "addr": [
        ((2, 3), (2,), (3,)),
        ((3,), (2,), (3,)),
        ((), (2,), (3,)),
        ((2, 2), (2,), (3,)),
        ((2, 3), (2, 1), (3,)),
    ],
    "addbmm": [
        ((2, 4), (5, 2, 3), (5, 3, 4)),
        ((4,), (5, 2, 3), (5, 3, 4)),
        ((2, 4), (0, 2, 3), (0, 3, 4)),
        ((2, 4), (5, 2, 3), (4, 3, 4)),
    ],
    "baddbmm": [
        ((5, 2, 4), (5, 2, 3), (5, 3, 4)),
        ((4,), (5, 2, 3), (5, 3, 4)),
        ((5, 1, 1), (5, 2, 3), (5, 3, 4)),
        ((5, 2, 4), (5, 2, 0), (5, 0, 4)),
        ((5, 2, 4), (5, 2, 3), (4, 3, 4)),
        ((5, 2, 4), (5, 2, 3), (5, 2, 4)),
    ],
}
FACTORS: list[dict[str, Any]] = [{}, {"beta": 0.5, "alpha": -2}, {"beta": 0}, {"alpha": 0}]


@pytest.mark.parity
@pytest.mark.parametrize("name", ADDED)
def test_added_products(name: str, checked_device: str) -> None:
    for shapes in ADDED[name]:
        argument = [small(shape, device=checked_device) for shape in shapes]
        for factors in FACTORS:
            check(name, *argument, **factors)
            mine, theirs = argument[0].clone(), torch_of(argument[0])
            expected = outcome(getattr(theirs, f"{name}_"), *map(torch_of, argument[1:]), **factors)
            result = outcome(getattr(mine, f"{name}_"), *argument[1:], **factors)
            if assert_same_outcome(result, expected, assert_close):
                assert result is mine


@pytest.mark.parity
@pytest.mark.parametrize("name", ADDED)
def test_numbers_for_added_products(name: str) -> None:
    shapes = ADDED[name][0]
    check(name, *(small(shape, "int64") for shape in shapes), beta=2, alpha=3)
    check(name, *(small(shape, "int64") for shape in shapes), beta=1.5)
    check(name, *(small(shape, "complex64") for shape in shapes), beta=1j, alpha=2 - 1j)
    check(name, *(small(shape, "float64") for shape in shapes), alpha=1j)


@pytest.mark.parametrize("number", ["2", None, [2.0]])
@pytest.mark.parametrize("factor", ["beta", "alpha"])
def test_factors_are_numbers(factor: str, number: Any, checked_device: str) -> None:
    x = tensor.ones(2, 2, device=checked_device)
    message = f"beta and alpha must be numbers, not {type(number).__name__}"
    vector, batch = x[0], x[None]
    for name, operands in {
        "addmm": (x, x, x), "addmv": (vector, x, vector), "addr": (x, vector, vector), "baddbmm": (batch, batch, batch),
        "addbmm": (x, batch, batch), "addmm_": (x, x, x),
    }.items():  # fmt: skip
        with pytest.raises(TypeError, match=message):
            getattr(operands[0], name)(*operands[1:], **{factor: number})
    assert (x == 1).all()


def test_nothing_is_read_where_beta_is_zero(checked_device: str) -> None:
    nothing = tensor.full((2, 2), float("nan"), device=checked_device)
    ones = tensor.ones(2, 2, device=checked_device)
    assert tensor.addmm(nothing, ones, ones, beta=0).tolist() == [[2, 2], [2, 2]]
    assert nothing.clone().addmm_(ones, ones, beta=0).tolist() == [[2, 2], [2, 2]]
    assert tensor.baddbmm(nothing, ones[None], ones[None], beta=0).tolist() == [[[2, 2], [2, 2]]]
    assert tensor.addmv(nothing[0], ones, ones[0], beta=0).tolist() == [2, 2]
    assert tensor.addr(nothing, ones[0], ones[0], beta=0).tolist() == [[1, 1], [1, 1]]
    assert tensor.addbmm(nothing, ones[None], ones[None], beta=0).tolist() == [[2, 2], [2, 2]]


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_out(checked_device: str) -> None:
    matrix, batch, vector = (small(shape, device=checked_device) for shape in ((3, 3), (2, 3, 3), (3,)))
    calls: dict[str, tuple[Any, ...]] = {
        "mm": (matrix, matrix),
        "bmm": (batch, batch),
        "mv": (matrix, vector),
        "dot": (vector, vector),
        "vdot": (vector, vector),
        "inner": (matrix, matrix),
        "outer": (vector, vector),
        "matmul": (batch, matrix),
        "kron": (matrix, vector),
        "addmm": (matrix, matrix, matrix),
        "addmv": (vector, matrix, vector),
        "addbmm": (matrix, batch, batch),
        "baddbmm": (batch, batch, batch),
        "tensordot": (matrix, matrix, 1),
    }
    for name, argument in calls.items():
        for dtype in ("float32", "int64"):
            for shape in ((0,), (3, 3), (2, 3, 3)):
                out = tensor.zeros(shape, dtype=dtypes.dtype_named(dtype), device=checked_device)
                theirs = torch.zeros(shape, dtype=torch_dtype(out.dtype))
                arguments = [torch_of(x) if isinstance(x, tensor.Tensor) else x for x in argument]
                expected = outcome(getattr(torch, name), *arguments, out=theirs)
                result = outcome(getattr(tensor, name), *argument, out=out)
                if assert_same_outcome(result, expected, assert_close):
                    assert result is out, name
    turned = tensor.zeros(3, 3, device=checked_device).t()
    assert_close(tensor.mm(matrix, matrix, out=turned), torch.mm(torch_of(matrix), torch_of(matrix)))
    assert turned.stride() == (1, 3)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        tensor.mm(matrix.requires_grad_(), matrix, out=turned)


@pytest.mark.parity
def test_in_place_products_of_what_is_written(checked_device: str) -> None:
    matrix = small((3, 3), device=checked_device)
    theirs = torch_of(matrix)
    expected = torch.addmm(theirs, theirs.clone(), theirs.clone().t())
    assert_close(matrix.addmm_(matrix, matrix.t()), expected)


def test_operands_on_two_devices() -> None:
    drv.simulator.install()
    here, there = tensor.ones(2, 2), tensor.ones(2, 2, device="cuda")
    for call in (
        lambda: tensor.mm(here, there),
        lambda: here @ there,
        lambda: tensor.addmm(here, there, there),
        lambda: tensor.einsum("ij,jk", here, there),
        lambda: tensor.dot(here[0], there[0]),
    ):
        with pytest.raises(RuntimeError, match=r"cpu.*cuda:0|cuda:0.*cpu"):
            call()


#: Called with the library and two tensors: of shape (2, 3, 3) and (3, 3).
DIFFERENTIABLE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "MmBackward0": lambda lib, a, b: lib.mm(a[0], b),
    "BmmBackward0": lambda lib, a, b: lib.bmm(a, (a * b).mT),
    "MvBackward0": lambda lib, a, b: lib.mv(a[0], b[1]),
    "DotBackward0": lambda lib, a, b: lib.dot(a[0, 1], b[:, 1]),
    "vdot": lambda lib, a, b: lib.vdot(a[0, 1], b[:, 1]),
    "matmul": lambda lib, a, b: a @ b,
    "matmul of vectors": lambda lib, a, b: b[0] @ a @ b[1],
    "AddmmBackward0": lambda lib, a, b: lib.addmm(b[0], a[0], a[1], beta=2, alpha=3),
    "addmm_": lambda lib, a, b: (2 * b).addmm_(a[0], a[1], beta=2, alpha=3),
    "AddmvBackward0": lambda lib, a, b: lib.addmv(b[0], a[0], a[1, 0], alpha=2),
    "AddbmmBackward0": lambda lib, a, b: lib.addbmm(b, a, a.mT, beta=0.5),
    "BaddbmmBackward0": lambda lib, a, b: lib.baddbmm(b, a, a, beta=0.5, alpha=-1),
    "AddrBackward0": lambda lib, a, b: lib.addr(b, a[0, 0], a[1, :, 0], beta=0.5),
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
