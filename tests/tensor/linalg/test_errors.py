"""What cannot be computed, and which matrix of a batch it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tensor
from tests.tensor.comparison import outcome
from tests.tensor.expressions import value

if TYPE_CHECKING:
    from nvrtc_kernels.dtypes import dtype

linalg = tensor.linalg
SINGULAR = np.stack([np.eye(3), np.diag([1.0, 2.0, 0.0]), np.diag([1.0, 0.0, 2.0])])
INDEFINITE = np.stack([np.eye(3), 2 * np.eye(3), np.diag([1.0, -2.0, 3.0]), -np.eye(3)]).reshape(2, 2, 3, 3)
NOT_FINITE = np.stack([np.eye(3), np.full((3, 3), np.nan), np.full((3, 3), np.inf)])
_INVERSION = "could not be completed because the input matrix is singular."

#: Calls with a batch in which a matrix is not as it should be, and the error.
BATCHES: dict[str, tuple[Any, str]] = {
    "m.linalg.inv(x)": (SINGULAR, rf"linalg.inv: \(Batch element 1\): The diagonal element 3 is zero, the inversion {_INVERSION}"),
    "m.linalg.inv(x[2])": (SINGULAR, f"linalg.inv: The diagonal element 2 is zero, the inversion {_INVERSION}"),
    "m.inverse(x)": (SINGULAR, r"linalg.inv: \(Batch element 1\): The diagonal element 3"),
    "m.linalg.inv_ex(x, check_errors=True)": (SINGULAR, r"\(Batch element 1\): The diagonal element 3"),
    "m.linalg.solve(x, x)": (SINGULAR, r"linalg.solve: \(Batch element 1\): The solver failed because the input matrix is singular."),
    "m.linalg.solve(x[1], x[0])": (SINGULAR, "linalg.solve: The solver failed"),
    "m.linalg.solve(x[:1], x, left=False)": (SINGULAR[1:], r"\(Batch element 0\): The solver failed"),
    "m.linalg.matrix_power(x, -2)": (SINGULAR, r"\(Batch element 1\): The diagonal element 3"),
    "m.linalg.tensorinv(x[1], ind=1)": (SINGULAR, "The diagonal element 3"),
    "m.linalg.lu_factor(x)": (SINGULAR, r"linalg.lu_factor: \(Batch element 1\): U\[3,3\] is zero and using it on lu_solve would"),
    "m.linalg.lu_factor_ex(x[2], check_errors=True)": (SINGULAR, r"U\[2,2\] is zero"),
    "m.linalg.cholesky(x)": (
        INDEFINITE,
        r"linalg.cholesky: \(Batch element 2\): The factorization could not be completed .* \(the leading minor of order 2 is",
    ),
    "m.linalg.cholesky(x[1, 1], upper=True)": (INDEFINITE, "linalg.cholesky: The factorization .* of order 1 is"),
    "m.linalg.cholesky_ex(x, check_errors=True)": (INDEFINITE, r"\(Batch element 2\)"),
    "m.cholesky(x)": (INDEFINITE, r"cholesky: \(Batch element 2\)"),
    "m.linalg.svd(x)": (NOT_FINITE, r"linalg.svd: \(Batch element 1\): The algorithm failed to converge because the input matrix contained non-finite"),
    "m.linalg.svdvals(x)": (NOT_FINITE, r"\(Batch element 1\): The algorithm failed to converge"),
    "m.linalg.pinv(x)": (NOT_FINITE, r"\(Batch element 1\): The algorithm failed to converge"),
    "m.linalg.matrix_rank(x)": (NOT_FINITE, r"\(Batch element 1\): The algorithm failed to converge"),
    "m.linalg.eigh(x)": (NOT_FINITE, r"linalg.eigh: \(Batch element 1\): The algorithm failed to converge"),
    "m.linalg.eigvalsh(x[1])": (NOT_FINITE, "linalg.eigh: The algorithm failed to converge"),
    "m.linalg.cond(x)": (NOT_FINITE, r"\(Batch element 1\)"),
}  # fmt: skip


@pytest.mark.parity
@pytest.mark.parametrize("text", BATCHES)
def test_the_matrix_is_named(text: str, device_name: str) -> None:
    array, needed = BATCHES[text]
    x = tensor.from_numpy(array.copy()).to(device_name)
    of_lu = "lu_factor" in text
    with pytest.raises(RuntimeError if of_lu else linalg.LinAlgError, match=needed) as caught:
        value(text, tensor, x=x)
    torch = pytest.importorskip("torch")
    expected = outcome(value, text, torch, x=torch.from_numpy(array.copy()))
    assert isinstance(expected, RuntimeError)
    assert isinstance(expected, torch.linalg.LinAlgError) is not of_lu
    assert ("Batch element" in str(expected)) is ("Batch element" in str(caught.value))


#: Calls, the function of NumPy that they come down to, and which values that finds.
WITHOUT_CONVERGENCE = {
    "m.linalg.svd(x)": ("svd", "singular"),
    "m.linalg.svdvals(x)": ("svd", "singular"),
    "m.linalg.eigh(x)": ("eigh", "eigen"),
    "m.linalg.eigvalsh(x)": ("eigvalsh", "eigen"),
    "m.linalg.eig(x)": ("eig", "eigen"),
    "m.linalg.eigvals(x)": ("eigvals", "eigen"),
    "m.linalg.pinv(x)": ("svd", "singular"),
    "m.linalg.pinv(x, hermitian=True)": ("eigh", "eigen"),
    "m.linalg.matrix_rank(x)": ("svd", "singular"),
    "m.linalg.matrix_rank(x, hermitian=True)": ("eigvalsh", "eigen"),
    "m.linalg.lstsq(x, x)": ("svd", "singular"),
}


@pytest.mark.parametrize("text", WITHOUT_CONVERGENCE)
def test_values_that_are_not_found(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, values = WITHOUT_CONVERGENCE[text]
    function = getattr(np.linalg, name)

    def failing(array: Any, **options: Any) -> Any:
        if (array == 7).any():
            raise np.linalg.LinAlgError("did not converge")
        return function(array, **options)

    monkeypatch.setattr(np.linalg, name, failing)
    x = tensor.from_numpy(np.stack([np.eye(3), np.diag([1.0, 7.0, 2.0])]))
    with pytest.raises(
        linalg.LinAlgError, match=rf"\(Batch element 1\): .* too many repeated {values} values"
    ):
        value(text, tensor, x=x)
    value(text, tensor, x=x[:1])


def test_eig_wants_finite_numbers(device_name: str) -> None:
    x = tensor.from_numpy(NOT_FINITE).to(device_name)
    for function in (linalg.eig, linalg.eigvals):
        with pytest.raises(
            RuntimeError, match=r"\(Batch element 1\): input tensor should not contain infs or NaNs"
        ):
            function(x)
    with pytest.raises(linalg.LinAlgError, match=r"linalg.lstsq: \(Batch element 1\): .* non-finite"):
        linalg.lstsq(x, x)


def test_factors_of_a_singular_symmetric_matrix(device_name: str) -> None:
    x = tensor.from_numpy(SINGULAR).to(device_name)
    with pytest.raises(RuntimeError, match=r"linalg.ldl_factor: \(Batch element 1\): D\[3,3\] is zero"):
        linalg.ldl_factor(x)
    factors, pivots, info = linalg.ldl_factor_ex(x)
    assert info.tolist() == [0, 3, 2]
    with pytest.raises(linalg.LinAlgError, match=r"linalg.ldl_solve: \(Batch element 1\): The solver failed"):
        linalg.ldl_solve(factors, pivots, x)
    leaf = tensor.eye(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="derivative for linalg_ldl_factor_ex is not implemented"):
        linalg.ldl_factor(leaf).LD.sum().backward()


def test_lstsq_wants_full_rank_for_gels(device_name: str) -> None:
    x = tensor.from_numpy(SINGULAR).to(device_name)
    with pytest.raises(
        linalg.LinAlgError, match=r"\(Batch element 1\): The least squares solution could not"
    ):
        linalg.lstsq(x, x, driver="gels")


def test_numbers_instead_of_errors(device_name: str) -> None:
    x = tensor.from_numpy(SINGULAR).to(device_name)
    inverse, info = linalg.inv_ex(x)
    assert info.dtype is tensor.int32
    assert info.tolist() == [0, 3, 2]
    np.testing.assert_array_equal(inverse[0].cpu().numpy(), np.eye(3))
    assert bool(inverse[1:].isnan().all())
    result, info = linalg.solve_ex(x, tensor.ones(3, 2, dtype=tensor.float64, device=device_name))
    assert info.tolist() == [0, 3, 2]
    assert result[0].tolist() == [[1.0, 1.0]] * 3
    assert linalg.lu_factor_ex(x).info.tolist() == [0, 3, 2]
    factor, info = linalg.cholesky_ex(tensor.from_numpy(INDEFINITE).to(device_name))
    assert info.tolist() == [[0, 0], [2, 1]]
    np.testing.assert_allclose(factor[0, 1].cpu().numpy(), np.sqrt(2) * np.eye(3))
    assert bool(factor[1].isnan().all())
    assert linalg.cholesky_ex(tensor.full((2, 2), np.nan)).info.item() == 1
    assert linalg.cond(x, 1).tolist() == [1.0, np.inf, np.inf]


def test_the_wrong_triangle_is_not_looked_at(device_name: str) -> None:
    array = np.array([[4.0, np.nan], [2.0, 5.0]])
    x = tensor.from_numpy(array).to(device_name)
    np.testing.assert_allclose(
        linalg.solve_triangular(x, x[:, :1], upper=False).cpu().numpy(), [[1.0], [0.0]]
    )
    upper = tensor.from_numpy(np.array([[4.0, 2.0], [9.0, 5.0]])).to(device_name)
    lower = tensor.from_numpy(np.array([[4.0, -7.0], [2.0, 5.0]])).to(device_name)
    for function in (
        linalg.eigvalsh,
        lambda x, uplo: linalg.cholesky(x, upper=uplo == "U").mT @ tensor.eye(2).to(x),
    ):
        first, second = function(upper, "U").cpu(), function(lower, "L").cpu()
        if first.dim() == 2:
            first = first.mT
        np.testing.assert_allclose(first.numpy(), second.numpy())


@pytest.mark.parametrize("kind", [tensor.float16, tensor.bfloat16, tensor.int64, tensor.bool])
@pytest.mark.parametrize(
    "name",
    ["inv", "det", "slogdet", "cholesky", "qr", "svd", "svdvals", "eigh", "eigvalsh", "eig", "eigvals", "pinv", "lu",
     "lu_factor", "matrix_rank", "cond"],
)  # fmt: skip
def test_types_that_are_not_computed_with(name: str, kind: dtype) -> None:
    x = tensor.eye(3).to(kind)
    text = (
        "Low precision dtypes not supported"
        if kind.is_floating_point
        else "Expected a floating point or complex"
    )
    with pytest.raises(RuntimeError, match=text):
        getattr(linalg, name)(x)


#: Wrong calls, with ``x`` (3, 4), ``s`` (2, 3, 3) and ``v`` (3,), all of double precision.
WRONG = """
m.linalg.inv(x)
m.linalg.inv(v)
m.linalg.det(x)
m.linalg.solve(x, x)
m.linalg.solve(s, x.mT)
m.linalg.solve(s, x.float())
m.linalg.solve(s, v, left=False)
m.linalg.solve(s, m.zeros(5, 3, 2, dtype=m.float64))
m.linalg.cholesky(x)
m.linalg.qr(x, 'some')
m.linalg.qr(v)
m.linalg.svd(v)
m.linalg.svd(x, driver='gesvd')
m.linalg.eigh(x)
m.linalg.eigh(s, 'X')
m.linalg.eig(x)
m.linalg.lstsq(x, x.mT)
m.linalg.lstsq(x, x, driver='none')
m.linalg.lstsq(v, v)
m.linalg.lstsq(x, v.sum())
m.linalg.lstsq(x, x.float())
m.linalg.lstsq(s, x)
m.linalg.pinv(v)
m.linalg.pinv(x, hermitian=True)
m.linalg.matrix_power(x, 2)
m.linalg.matrix_power(s, 1.5)
m.linalg.matrix_power(s.long(), -1)
m.linalg.multi_dot([x])
m.linalg.multi_dot([x, x])
m.linalg.multi_dot([x, s, x])
m.linalg.multi_dot([v, x.float()])
m.linalg.cond(x, 1)
m.linalg.cond(x, 3)
m.linalg.matrix_norm(x, 3)
m.linalg.matrix_norm(x, 'none')
m.linalg.matrix_norm(v)
m.linalg.matrix_norm(x, dim=(0,))
m.linalg.matrix_norm(x, dim=(0, 0))
m.linalg.matrix_norm(x.long())
m.linalg.matrix_norm(x.half(), 2)
m.linalg.matrix_norm(m.zeros(0, 0), -1)
m.linalg.norm(x, 'nuc', dim=0)
m.linalg.norm(s, 2)
m.linalg.norm(s, 'fro')
m.linalg.norm(v, 'nuc')
m.linalg.norm(s, dim=(0, 1, 2))
m.linalg.vector_norm(x, 'fro')
m.linalg.cross(x, x)
m.linalg.cross(s, v)
m.linalg.vecdot(x, x.long())
m.linalg.vecdot(x.long(), x.long())
m.linalg.vander(x, N=1)
m.linalg.vander(v.sum())
m.linalg.lu(v)
m.linalg.lu_solve(s[0], m.tensor([1, 2, 3], dtype=m.int32), v)
m.linalg.lu_solve(s[0], m.tensor([1, 2, 3]), s[0])
m.linalg.lu_solve(s[0], m.tensor([1, 2], dtype=m.int32), s[0])
m.linalg.lu_solve(s[0], m.tensor([1, 2, 3], dtype=m.int32), x[:2])
m.lu_unpack(s[0], m.tensor([1, 2, 9], dtype=m.int32))
m.linalg.ldl_factor(x)
m.linalg.ldl_solve(s, m.ones(2, 3, dtype=m.int32), x.float())
m.linalg.ldl_solve(s, m.ones(2, 2, dtype=m.int32), x)
m.linalg.ldl_solve(s, m.ones(2, 3), x)
m.linalg.ldl_solve(s, m.ones(2, 3, dtype=m.int32), x.mT)
m.linalg.solve_triangular(s, s)
m.linalg.solve_triangular(x, x, upper=True)
m.linalg.matrix_exp(x)
m.linalg.matrix_exp(s.long())
m.linalg.tensorinv(x, ind=1)
m.linalg.tensorinv(s, ind=0)
m.linalg.tensorsolve(x, v)
m.linalg.householder_product(x, v)
m.linalg.householder_product(x.mT, x[:, 0].float())
m.linalg.householder_product(x.mT, m.zeros(4, dtype=m.float64))
m.cholesky_solve(v, s)
m.cholesky_solve(x.mT, s)
m.ormqr(x, v, v)
m.ormqr(x.mT, v, x.mT[:3])
m.linalg.inv(s, out=m.zeros(2, 3, 3))
m.linalg.inv(s.clone().requires_grad_(), out=m.zeros(2, 3, 3, dtype=m.float64))
m.linalg.inv(4)
m.linalg.norm([1.0])
""".strip().splitlines()


@pytest.mark.parity
@pytest.mark.parametrize("text", WRONG)
def test_wrong_calls(text: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    arrays = {
        "x": rng.standard_normal((3, 4)),
        "s": rng.standard_normal((2, 3, 3)),
        "v": rng.standard_normal(3),
    }
    expected = outcome(value, text, torch, **{key: torch.from_numpy(x.copy()) for key, x in arrays.items()})
    result = outcome(value, text, tensor, **{key: tensor.from_numpy(x.copy()) for key, x in arrays.items()})
    assert isinstance(expected, Exception), expected
    assert isinstance(result, type(expected)), (result, expected)
    assert not isinstance(result, AttributeError)


def test_devices_do_not_mix(device_name: str) -> None:
    if device_name == "cpu":
        pytest.skip("needs two devices")
    a, b = tensor.eye(3), tensor.eye(3, device="cuda")
    for call in (
        linalg.solve,
        lambda a, b: linalg.solve_triangular(a, b, upper=True),
        linalg.lstsq,
        linalg.vecdot,
    ):
        with pytest.raises(RuntimeError, match="same device"):
            call(a, b)
