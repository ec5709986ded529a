"""First and second derivatives against differences, and those that there are not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tensor
from tests.tensor.expressions import value

from .cases import CASES, operands

if TYPE_CHECKING:
    from collections.abc import Callable

linalg = tensor.linalg
#: Results that are constant.
_CONSTANT = {"m.linalg.matrix_power(s, 0)", "m.slogdet(a).sign"}


def _check(text: str, *, of_complex: bool, fast: bool) -> None:
    arrays = operands(of_complex=of_complex)
    names = [name for name in arrays if re.search(rf"\b{name}\b(?!\()", text)]
    leaves = [tensor.from_numpy(arrays[name].copy()).requires_grad_() for name in names]

    def call(*leaves: Any) -> Any:
        return value(text, tensor, **dict(zip(names, leaves, strict=True)))

    assert tensor.autograd.gradcheck(call, tuple(leaves), fast_mode=fast), text
    assert tensor.autograd.gradgradcheck(call, tuple(leaves), fast_mode=fast), text


@pytest.mark.parametrize("name", CASES)
def test_of_real_matrices(name: str) -> None:
    for number, text in enumerate(CASES[name]):
        if text not in _CONSTANT:
            _check(text, of_complex=False, fast=number > 0)


@pytest.mark.parametrize(
    "name", [name for name in CASES if name not in ("norm", "vector_norm", "matrix_norm")]
)
def test_of_complex_matrices(name: str) -> None:
    # Of the forms of a call two are enough: they have one derivative.
    for text in CASES[name][:2]:
        _check(text, of_complex=True, fast=True)


def _leaf(array: Any) -> Any:
    return tensor.from_numpy(np.asarray(array, float)).requires_grad_()


@pytest.mark.parametrize("rank", [2, 1, 0])
def test_determinants_of_singular_matrices(rank: int) -> None:
    rng = np.random.default_rng(rank)
    matrices = rng.standard_normal((3, 3, 3))
    matrices[1, rank:] = 0
    # Differences of a determinant that is zero are those of a polynomial.
    x = _leaf(matrices)
    assert tensor.autograd.gradcheck(linalg.det, (x,))
    assert tensor.autograd.gradgradcheck(linalg.det, (x,))
    y = tensor.from_numpy(matrices + 1j * matrices[::-1] * (np.arange(3) < rank)[:, None]).requires_grad_()
    assert tensor.autograd.gradcheck(linalg.det, (y,))
    assert tensor.autograd.gradgradcheck(linalg.det, (y,))


@pytest.mark.parametrize("p", [1, -1, np.inf, -np.inf, "fro", "nuc"])
def test_condition_numbers_of_batches(p: Any) -> None:
    x = _leaf(operands(of_complex=False)["s"])
    assert tensor.autograd.gradcheck(lambda x: linalg.cond(x, p), (x,))


@pytest.mark.parametrize("hermitian", [False, True])
def test_right_sides_of_factored_symmetric_matrices(hermitian: bool) -> None:
    a = tensor.from_numpy(operands(of_complex=True)["s"].copy())
    factors = linalg.ldl_factor(a + (a.mH if hermitian else a.mT), hermitian=hermitian)
    b = tensor.from_numpy(operands(of_complex=True)["b"].copy()).requires_grad_()
    for check in (tensor.autograd.gradcheck, tensor.autograd.gradgradcheck):
        assert check(lambda b: linalg.ldl_solve(*factors, b, hermitian=hermitian), (b,))


def _complex_hermitian() -> Any:
    return tensor.from_numpy(operands(of_complex=True)["p"].copy()).requires_grad_()


#: Losses that have no derivative, and what is said of them.
WITHOUT: dict[str, tuple[Callable[[], Any], str]] = {
    "qr r": (lambda: linalg.qr(_leaf(np.eye(3)), "r").R, "depends on Q, which is not computed when mode='r'"),
    "qr complete": (
        lambda: linalg.qr(_leaf(np.eye(4)[:, :2]), "complete").Q,
        "mode='complete' and nrows > ncols",
    ),
    "ldl factors": (
        lambda: linalg.ldl_factor(_leaf(np.eye(3))).LD,
        "linalg_ldl_factor_ex is not implemented",
    ),
    "ldl_solve factors": (
        lambda: linalg.ldl_solve(
            _leaf(np.eye(2)), tensor.tensor([1, 2], dtype=tensor.int32), _leaf(np.eye(2))
        ),
        "linalg_ldl_solve with respect to LD is not implemented",
    ),
    "svd full U": (lambda: linalg.svd(_leaf(np.arange(6.0).reshape(3, 2))).U, "no singular value"),
    "svd full Vh": (lambda: linalg.svd(_leaf(np.arange(6.0).reshape(2, 3))).Vh, "no singular value"),
    "svd phase": (
        lambda: linalg.svd(_complex_hermitian()).U.imag,
        r"svd_backward: The singular vectors.* ill-defined",
    ),
    "eigh phase": (lambda: linalg.eigh(_complex_hermitian())[1].imag, "The eigenvectors in the complex case"),
    "eig phase": (lambda: linalg.eig(_complex_hermitian())[1].imag, "The eigenvectors in the complex case"),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_losses_without_a_derivative(name: str) -> None:
    call, text = WITHOUT[name]
    result = call()
    weights = tensor.from_numpy(np.random.default_rng(0).standard_normal(tuple(result.shape)))
    with pytest.raises(RuntimeError, match=text):
        (result * weights).sum().backward()


def test_vectors_of_full_matrices_that_belong_to_values() -> None:
    x = _leaf(np.random.default_rng(0).standard_normal((2, 4, 3)))
    for full in (True, False):
        x.grad = None
        result = linalg.svd(x, full_matrices=full)
        (result.U[..., :3].abs() * result.S[:, None]).sum().backward()
        if full:
            expected = x.grad
    np.testing.assert_allclose(x.grad.numpy(), expected.numpy(), atol=1e-12)


def test_saved_results_that_were_written_are_an_error() -> None:
    x = _leaf(np.diag([1.0, 2.0, 4.0]))
    result = linalg.inv(x)
    with tensor.no_grad():
        result += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()
