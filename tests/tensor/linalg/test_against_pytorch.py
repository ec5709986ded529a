"""Values and gradients against PyTorch, on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from tests.tensor.comparison import array_of
from tests.tensor.expressions import value

from .cases import CASES, PLAIN, operands
from .cases import random as _random

pytestmark = pytest.mark.parity


def _compare(found: Any, expected: Any, text: str) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            _compare(one, other, text)
        return
    assert str(found.dtype).split(".")[1] == str(expected.dtype).split(".")[1], text
    assert tuple(found.shape) == tuple(expected.shape), text
    np.testing.assert_allclose(array_of(found), array_of(expected), rtol=1e-8, atol=1e-8, err_msg=text)


def _differentiable(found: Any) -> list[Any]:
    results = list(found) if isinstance(found, (tuple, list)) else [found]
    return [each for each in results if each.requires_grad]


@pytest.mark.parametrize("of_complex", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str, of_complex: bool) -> None:
    for text in CASES[name]:
        _check(text, operands(of_complex=of_complex), "cpu")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("device")
def test_on_a_device(name: str) -> None:
    # The rest of the expressions takes no other way there.
    _check(CASES[name][0], operands(of_complex=False), "cuda")


def _check(text: str, arrays: dict[str, Any], device_name: str) -> None:
    torch = pytest.importorskip("torch")
    ours = {key: tensor.from_numpy(x.copy()).to(device_name).requires_grad_() for key, x in arrays.items()}
    theirs = {key: torch.from_numpy(x.copy()).requires_grad_() for key, x in arrays.items()}
    result, expected = value(text, tensor, device_name, **ours), value(text, torch, **theirs)
    _compare(result, expected, text)
    roots, needed = _differentiable(result), _differentiable(expected)
    assert len(roots) == len(needed), text
    grads = [_random(*each.shape, of_complex=each.is_complex()) for each in needed]
    tensor.autograd.backward(roots, [tensor.from_numpy(x.copy()).to(device_name) for x in grads])
    torch.autograd.backward(needed, [torch.from_numpy(x.copy()) for x in grads])
    for key in arrays:
        mine, other = ours[key].grad, theirs[key].grad
        assert (mine is None) is (other is None), (text, key)
        if other is not None:
            _compare(mine, other, f"{text}: {key}")


@pytest.mark.parametrize("of_complex", [False, True], ids=["real", "complex"])
def test_what_has_no_derivative(of_complex: bool) -> None:
    torch = pytest.importorskip("torch")
    arrays = operands(of_complex=of_complex)
    for text in PLAIN:
        ours = {key: tensor.from_numpy(x.copy()) for key, x in arrays.items()}
        theirs = {key: torch.from_numpy(x.copy()) for key, x in arrays.items()}
        _compare(value(text, tensor, **ours), value(text, torch, **theirs), text)


def test_names_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    public = {
        name for name, each in vars(torch.linalg).items() if callable(each) and not name.startswith("_")
    }
    assert public <= set(tensor.linalg.__all__)


#: Names that PyTorch's nodes have.
NODES = {
    "inv(s)": "LinalgInvExBackward0",
    "solve(s, s)": "LinalgSolveExBackward0",
    "det(s)": "LinalgDetBackward0",
    "slogdet(s)[1]": "LinalgSlogdetBackward0",
    "cholesky(s @ s.mH)": "LinalgCholeskyExBackward0",
    "solve_triangular(s, s, upper=True)": "LinalgSolveTriangularBackward0",
    "qr(s)[0]": "LinalgQrBackward0",
    "svd(s)[1]": "LinalgSvdBackward0",
    "svdvals(s)": "LinalgSvdBackward0",
    "eigh(s)[0]": "LinalgEighBackward0",
    "eigvalsh(s)": "LinalgEighBackward0",
    "eig(s)[1]": "LinalgEigBackward0",
    "lu(s)[2]": "LinalgLuBackward0",
    "lu_factor(s)[0]": "LinalgLuFactorExBackward0",
    "lu_solve(*m.linalg.lu_factor(s), s)": "LinalgLuSolveBackward0",
    "pinv(s)": "LinalgPinvBackward0",
    "lstsq(s, s)[0]": "LinalgLstsqBackward0",
    "matrix_exp(s)": "LinalgMatrixExpBackward0",
}


@pytest.mark.parametrize("text", NODES)
def test_node_names(text: str) -> None:
    torch = pytest.importorskip("torch")
    array = operands(of_complex=False)["s"]
    for library in (tensor, torch):
        x = library.from_numpy(array.copy()).requires_grad_()
        assert value(f"m.linalg.{text}", library, s=x).grad_fn.name() == NODES[text]
