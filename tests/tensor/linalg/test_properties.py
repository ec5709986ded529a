"""What factors multiply to, in every precision, at every size, and where there is nothing."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tensor
from tests.tensor.comparison import array_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nvrtc_kernels.dtypes import dtype

linalg = tensor.linalg
KINDS = [tensor.float32, tensor.float64, tensor.complex64, tensor.complex128]
_BOUNDS = {"float32": 1e-4, "complex64": 1e-4, "float64": 1e-11, "complex128": 1e-11}


def _made(kind: dtype, *shape: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    result = rng.standard_normal(shape)
    if kind.is_complex:
        result = result + 1j * rng.standard_normal(shape)
    return tensor.from_numpy(result.astype(kind.numpy))


def _close(found: Any, expected: Any) -> None:
    dtype = expected.dtype
    assert found.dtype is dtype
    np.testing.assert_allclose(array_of(found), array_of(expected), atol=_BOUNDS[dtype.name] * 30)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(2, 50, 50), (70, 40), (40, 70), (3, 1, 1)])
def test_factors_multiply_to_the_matrix(kind: dtype, shape: tuple[int, ...]) -> None:
    a = _made(kind, *shape)
    rank = min(shape[-2:])
    q, r = linalg.qr(a)
    _close(q @ r, a)
    _close(q.mH @ q, tensor.eye(rank, dtype=kind).expand(*shape[:-2], rank, rank))
    u, s, vh = linalg.svd(a, full_matrices=False)
    assert s.dtype is kind.to_real()
    _close((u * s.unsqueeze(-2)) @ vh, a)
    _close(linalg.svdvals(a), s)
    p, lower, upper = linalg.lu(a)
    _close(p @ lower @ upper, a)
    assert float(lower.abs().max()) <= 1 + 1e-6 or kind.is_complex
    _close(a @ linalg.pinv(a) @ a, a)
    reflectors, scales = tensor.geqrf(a)
    if shape[-2] >= shape[-1]:
        _close(linalg.householder_product(reflectors, scales), q)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 33, 70])
def test_solutions_solve(kind: dtype, n: int) -> None:
    a = _made(kind, 2, n, n) + n * tensor.eye(n, dtype=kind)
    b = _made(kind, n, 3, seed=1)
    wide = b.expand(2, n, 3)
    _close(a @ linalg.solve(a, b), wide)
    _close(linalg.solve(a, b.mT, left=False) @ a, wide.mT)
    _close(a @ linalg.inv(a), tensor.eye(n, dtype=kind).expand(2, n, n))
    factors = linalg.lu_factor(a)
    _close(a @ linalg.lu_solve(*factors, b), wide)
    _close(a.mH @ linalg.lu_solve(*factors, b, adjoint=True), wide)
    for upper in (True, False):
        triangle = a.triu() if upper else a.tril()
        _close(triangle @ linalg.solve_triangular(a, b, upper=upper), wide)
    definite = a @ a.mH
    lower = linalg.cholesky(definite)
    _close((lower @ lower.mH) / n, definite / n)
    _close(definite @ tensor.cholesky_solve(b, lower), wide)
    values, vectors = linalg.eigh(definite)
    _close((vectors * values.to(kind).unsqueeze(-2)) @ vectors.mH / n, definite / n)
    result, vectors = linalg.eig(a)
    assert result.dtype is vectors.dtype is (kind if kind.is_complex else kind.to_complex())
    _close(a.to(result.dtype) @ vectors / n, vectors * result.unsqueeze(-2) / n)


@pytest.mark.parametrize("kind", [tensor.float64, tensor.complex128])
@pytest.mark.parametrize("hermitian", [False, True])
def test_factors_of_indefinite_matrices(kind: dtype, hermitian: bool, device_name: str) -> None:
    for a in _indefinite_matrices(kind, hermitian, device_name):
        b = _made(kind, a.shape[-1], 2).to(device_name)
        factors = linalg.ldl_factor(a, hermitian=hermitian)
        x = linalg.ldl_solve(*factors, b, hermitian=hermitian)
        _close(a @ x, b.expand(3, -1, 2))


@pytest.mark.parity
@pytest.mark.parametrize("kind", [tensor.float64, tensor.complex128])
@pytest.mark.parametrize("hermitian", [False, True])
def test_factors_of_indefinite_matrices_are_pytorchs(kind: dtype, hermitian: bool, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    for a in _indefinite_matrices(kind, hermitian, device_name):
        factors = linalg.ldl_factor(a, hermitian=hermitian)
        expected = torch.linalg.ldl_factor(torch.from_numpy(array_of(a).copy()), hermitian=hermitian)
        np.testing.assert_array_equal(array_of(factors.pivots), expected.pivots.numpy())
        np.testing.assert_allclose(np.tril(array_of(factors.LD)), np.tril(expected.LD.numpy()), atol=1e-9)


def _indefinite_matrices(kind: dtype, hermitian: bool, device_name: str) -> Iterator[tensor.Tensor]:
    for n in range(1, 9):
        for diagonal in (1, 0):
            a = _made(kind, 3, n, n, seed=n)
            a = a + (a.mH if hermitian else a.mT)
            # Without a diagonal there are blocks of two rows; an odd matrix is regular all the same.
            yield (a if diagonal or n == 1 else a - a.diagonal(0, 1, 2).diag_embed()).to(device_name)


@pytest.mark.parametrize("shape", [(30, 20), (20, 30), (2, 25, 25)])
def test_low_ranks(shape: tuple[int, ...], device_name: str) -> None:
    tensor.manual_seed(0)
    a = (_made(tensor.float64, *shape[:-1], 4) @ _made(tensor.float64, *shape[:-2], 4, shape[-1])).to(
        device_name
    )
    u, s, v = tensor.svd_lowrank(a, q=5)
    assert s.shape == (*shape[:-2], 5)
    _close((u * s.unsqueeze(-2)) @ v.mT, a)
    _close(s, linalg.svdvals(a)[..., :5])
    mean = a.mean(-2, keepdim=True)
    u, s, v = tensor.pca_lowrank(a, q=5)
    _close((u * s.unsqueeze(-2)) @ v.mT, a - mean)
    x = a.detach().requires_grad_()
    tensor.svd_lowrank(x, q=4)[1].sum().backward()
    _close(x.grad, (lambda f: f.U[..., :4] @ f.Vh[..., :4, :])(linalg.svd(a)))


def test_zeros_on_the_diagonal_of_a_triangle() -> None:
    a = tensor.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 4.0], [0.0, 0.0, 2.0]], dtype=tensor.float64)
    x = linalg.solve_triangular(a, tensor.ones(3, 1, dtype=tensor.float64), upper=True)
    assert x[2].item() == 0.5
    assert x[1].item() == -np.inf
    assert x[0].item() == np.inf


@pytest.mark.parametrize("size", [1e-3, 0.5, 4.0, 30.0])
def test_exponentials(size: float) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((5, 5))
    values = rng.uniform(-size, size, 5)
    array = vectors @ np.diag(values) @ np.linalg.inv(vectors)
    expected = vectors @ np.diag(np.exp(values)) @ np.linalg.inv(vectors)
    result = linalg.matrix_exp(tensor.from_numpy(array)).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max())
    single = linalg.matrix_exp(tensor.from_numpy(array).float())
    assert single.dtype is tensor.float32
    mixed = tensor.from_numpy(np.stack([array, 0 * array, np.full((5, 5), np.nan)]))
    result = linalg.matrix_exp(mixed).numpy()
    np.testing.assert_allclose(result[0], expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_array_equal(result[1], np.eye(5))
    assert np.isnan(result[2]).all()


def test_chains_are_multiplied_in_the_best_order(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensor.linalg import products

    multiplications: list[int] = []

    def counted(a: Any, b: Any) -> Any:
        multiplications.append(a.shape[0] * a.shape[1] * b.shape[1])
        return a @ b

    monkeypatch.setattr(products, "matmul", counted)
    sizes = (30, 35, 15, 5, 10, 20, 25)
    chain = [_made(tensor.float64, n, m) for n, m in pairwise(sizes)]
    result = linalg.multi_dot(chain)
    # The example in Introduction to Algorithms.
    assert sum(multiplications) == 15125
    np.testing.assert_allclose(result.numpy(), np.linalg.multi_dot([x.numpy() for x in chain]))


EMPTY = """
m.linalg.inv(m.zeros(0, 3, 3))
m.linalg.inv(m.zeros(2, 0, 0))
m.linalg.det(m.zeros(0, 0))
m.linalg.slogdet(m.zeros(2, 0, 0))
m.linalg.solve(m.zeros(0, 0), m.zeros(0, 4))
m.linalg.solve(m.eye(3), m.zeros(3, 0))
m.linalg.solve(m.zeros(0, 3, 3), m.zeros(3, 2))
m.linalg.cholesky(m.zeros(2, 0, 0))
m.linalg.cholesky(m.zeros(0, 3, 3))
m.linalg.qr(m.zeros(0, 3))
m.linalg.qr(m.zeros(3, 0), 'complete')
m.linalg.qr(m.zeros(2, 3, 0))
m.linalg.svd(m.zeros(0, 3))
m.linalg.svd(m.zeros(3, 0), full_matrices=False)
m.linalg.svd(m.zeros(0, 2, 3))
m.linalg.svdvals(m.zeros(0, 3))
m.linalg.eigh(m.zeros(0, 0))
m.linalg.eig(m.zeros(0, 0))
m.linalg.eigvals(m.zeros(0, 3, 3))
m.linalg.lu(m.zeros(2, 0, 3))
m.linalg.lu(m.zeros(3, 0))
m.linalg.lu_factor(m.zeros(0, 3, 3))
m.linalg.pinv(m.zeros(0, 3))
m.linalg.pinv(m.zeros(2, 3, 0))
m.linalg.lstsq(m.zeros(0, 3), m.zeros(0, 2))
m.linalg.lstsq(m.zeros(3, 0), m.zeros(3, 2))
m.linalg.matrix_rank(m.zeros(2, 0, 3))
m.linalg.cond(m.zeros(2, 0, 0))
m.linalg.cond(m.zeros(0, 0), 1)
m.linalg.cond(m.zeros(0, 3, 3), 'fro')
m.linalg.matrix_norm(m.zeros(0, 3))
m.linalg.matrix_norm(m.zeros(0, 3), 2)
m.linalg.matrix_norm(m.zeros(0, 3), 'nuc')
m.linalg.matrix_norm(m.zeros(0, 3), 1)
m.linalg.matrix_norm(m.zeros(3, 0), 1)
m.linalg.matrix_norm(m.zeros(3, 0), m.inf, keepdim=True)
m.linalg.matrix_exp(m.zeros(0, 0))
m.linalg.matrix_exp(m.zeros(0, 2, 2))
m.linalg.matrix_power(m.zeros(0, 0), 3)
m.linalg.matrix_power(m.zeros(0, 2, 2), -1)
m.linalg.multi_dot([m.zeros(2, 0), m.zeros(0, 3)])
m.linalg.solve_triangular(m.zeros(0, 0), m.zeros(0, 2), upper=True)
m.linalg.solve_triangular(m.eye(2), m.zeros(4, 2, 0), upper=False)
m.linalg.householder_product(m.zeros(3, 0), m.zeros(0))
m.cholesky_solve(m.zeros(0, 2), m.zeros(0, 0))
m.cholesky_inverse(m.zeros(0, 0))
m.lu_unpack(*m.lu(m.zeros(0, 3)))
m.geqrf(m.zeros(0, 3))
""".strip().splitlines()


@pytest.mark.parity
@pytest.mark.parametrize("text", EMPTY)
def test_nothing(text: str) -> None:
    torch = pytest.importorskip("torch")

    def alike(found: Any, expected: Any) -> None:
        if isinstance(expected, tuple):
            for one, other in zip(found, expected, strict=True):
                alike(one, other)
            return
        assert tuple(found.shape) == tuple(expected.shape)
        assert str(found.dtype).split(".")[1] == str(expected.dtype).split(".")[1]
        np.testing.assert_array_equal(array_of(found), array_of(expected))

    alike(eval(text, {"m": tensor}), eval(text, {"m": torch}))


def test_gradients_of_nothing() -> None:
    for name in ("inv", "det", "svdvals", "eigvalsh", "matrix_exp"):
        x = tensor.zeros(2, 0, 0, requires_grad=True)
        getattr(linalg, name)(x).sum().backward()
        assert x.grad is not None
        assert x.grad.shape == (2, 0, 0)


def test_results_go_to_out(device_name: str) -> None:
    a = _made(tensor.float64, 3, 3).to(device_name)

    def fresh() -> Any:
        return tensor.empty(0, dtype=tensor.float64, device=device_name)

    out = fresh()
    assert linalg.inv(a, out=out) is out
    np.testing.assert_array_equal(array_of(out), array_of(linalg.inv(a)))
    outs = fresh(), fresh(), fresh()
    result = linalg.svd(a, out=outs)
    assert all(one is other for one, other in zip(result, outs, strict=True))
    np.testing.assert_allclose(array_of(outs[1]), array_of(linalg.svdvals(a)))
    same = a.clone()
    linalg.cholesky(same @ same.mT, out=same)
    np.testing.assert_array_equal(array_of(same), array_of(linalg.cholesky(a @ a.mT)))


def test_results_have_names() -> None:
    a = _made(tensor.float64, 3, 3)
    assert linalg.slogdet(a)._fields == ("sign", "logabsdet")
    assert linalg.svd(a)._fields == ("U", "S", "Vh")
    assert tensor.svd(a)._fields == ("U", "S", "V")
    assert linalg.eigh(a)._fields == ("eigenvalues", "eigenvectors")
    assert linalg.lstsq(a, a)._fields == ("solution", "residuals", "rank", "singular_values")
    assert linalg.lu_factor_ex(a)._fields == ("LU", "pivots", "info")


def test_least_squares_on_devices_are_for_full_rank(device_name: str) -> None:
    # As in PyTorch, where "gels" is what devices have.
    a, b = _made(tensor.float64, 5, 3).to(device_name), _made(tensor.float64, 5, 2).to(device_name)
    result = linalg.lstsq(a, b)
    distances = ((a @ result.solution - b) ** 2).sum(0)
    if a.is_cuda:
        np.testing.assert_allclose(array_of(result.residuals), array_of(distances), rtol=1e-10)
        assert not result.rank.numel()
    else:
        assert not result.residuals.numel()
        assert result.rank.item() == 3


def test_strides_and_views(device_name: str) -> None:
    base = _made(tensor.float64, 4, 3, 5).to(device_name)
    turned = base.permute(0, 2, 1)[:, ::2]
    np.testing.assert_allclose(array_of(linalg.inv(turned)), np.linalg.inv(array_of(turned)), rtol=1e-10)
    spread = base[0, :, :3].expand(2, 3, 3)
    np.testing.assert_allclose(array_of(linalg.inv(spread)), np.linalg.inv(array_of(spread)), rtol=1e-10)
