"""Nodes of operations have PyTorch's names."""

from __future__ import annotations

import types
from typing import Any

import pytest

import tensor
from nn import functional

from . import gradient_cases as cases
from .test_gradcheck_operations import inputs_of

pytestmark = pytest.mark.parity

TABLES = {
    name: getattr(cases, name)
    for name in ("REDUCTIONS", "ORDERED", "PRODUCTS", "JOINS", "VIEWS", "COMPLEX", "TYPES", "WRITES")
}
#: Made of other operations than in PyTorch.
OTHERS = {
    "block_diag",
    "cartesian_prod",
    "kron",
    "outer",
    "reshape",
    "tensordot",
    "trapezoid",
    "trapezoid dx",
    *(name for name in (*cases.ORDERED, *cases.PRODUCTS) if name.startswith(("quantile", "nanq"))),
    *(name for name in cases.PRODUCTS if name.startswith(("einsum", "matmul"))),
}
ROWS = [(table, name) for table, rows in TABLES.items() for name in rows if name not in OTHERS]


def names(output: Any) -> list[str]:
    """Names of the last node and of the one before it."""
    node = (output[0] if isinstance(output, (tuple, list)) else output).grad_fn
    result = []
    while node is not None and len(result) < 2:
        result.append(node.name().rsplit(":", 1)[-1])
        node = node.next_functions[0][0] if node.next_functions else None
    return result


@pytest.mark.parametrize(("table", "name"), ROWS, ids=[f"{t.lower()}-{name}" for t, name in ROWS])
def test_names_are_pytorchs(table: str, name: str) -> None:
    torch = pytest.importorskip("torch")
    case = TABLES[table][name]
    argument = inputs_of(name, case, "complex" if table == "COMPLEX" else "real")
    function = case[0]
    # The same function, whose `tensor` is the other library.
    theirs = types.FunctionType(function.__code__, {**function.__globals__, "tensor": torch})
    expected = theirs(*(torch.tensor(x.detach().numpy(), requires_grad=True) for x in argument))
    assert names(function(*argument)) == names(expected)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_names_of_gradients_of_linear(dims: int, bias: bool) -> None:
    torch = pytest.importorskip("torch")

    def shown(library: Any, linear: Any) -> list[Any]:
        x, w, b = (
            library.ones(*shape, dtype=library.float64, requires_grad=True)
            for shape in ((2, 4, 3)[3 - dims :], (5, 3), (5,))
        )
        result = linear(x, w, b if bias else None)
        gradients = library.autograd.grad((result * result).sum(), (x, w), create_graph=True)
        return [each.grad_fn.name() for each in gradients]

    expected = shown(torch, torch.nn.functional.linear)
    # A vector and a bias: PyTorch shows how it made a matrix of the vector.
    assert shown(tensor, functional.linear) == (["SqueezeBackward1", "TBackward0"] if dims == 1 else expected)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_names_of_gradients_of_softmax(name: str) -> None:
    torch = pytest.importorskip("torch")

    def shown(library: Any) -> list[str]:
        x = library.ones(2, 3, dtype=library.float64, requires_grad=True)
        result = getattr(library, name)(x, 1)
        (gradient,) = library.autograd.grad((result * result).sum(), x, create_graph=True)
        node = gradient.grad_fn
        return [node.name(), *(each.name() for each, _ in node.next_functions)]

    assert shown(tensor) == shown(torch)
