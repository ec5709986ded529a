"""Nodes of operations have PyTorch's names."""

from __future__ import annotations

import types
from typing import Any

import pytest

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
