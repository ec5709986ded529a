"""What is called with which matrices: expressions of ``m``, the library, with results that no phase changes."""

from __future__ import annotations

from typing import Any

import numpy as np

_RNG = np.random.default_rng(0)


def random(*shape: int, of_complex: bool) -> Any:
    """Normal numbers of double precision."""
    result = _RNG.standard_normal(shape)
    return np.asarray(result + 1j * _RNG.standard_normal(shape) if of_complex else result)


def operands(*, of_complex: bool) -> dict[str, Any]:
    """Regular, wide, tall, positive definite, Hermitian matrices; right sides and vectors."""

    def made(*shape: int) -> Any:
        return random(*shape, of_complex=of_complex)

    s = made(2, 3, 3)
    adjoint = np.conj(np.swapaxes(s, -1, -2))
    return {
        "a": made(3, 3),
        "s": s,
        "w": made(2, 2, 4),
        "t": made(2, 4, 2),
        "p": s @ adjoint + np.eye(3),
        "h": s + adjoint,
        "b": made(3, 2),
        "c": made(5, 1, 3, 2),
        "r": made(2, 4, 3),
        "v": made(3),
        "u": made(2, 3),
    }


#: Functions of ``linalg`` and the top level, and expressions. Each is differentiated twice with respect to all
#: operands it names.
CASES: dict[str, list[str]] = {
    "inv": ["m.linalg.inv(a)", "m.linalg.inv(s)", "m.inverse(s)", "s.inverse()"],
    "inv_ex": ["m.linalg.inv_ex(s).inverse"],
    "solve": [
        "m.linalg.solve(s, b)",
        "m.linalg.solve(a, c[:2])",
        "m.linalg.solve(s, u)",
        "m.linalg.solve(s, v)",
        "m.linalg.solve(s, c.mT, left=False)",
    ],
    "solve_ex": ["m.linalg.solve_ex(s, b).result"],
    "det": ["m.linalg.det(s)", "m.det(a)", "s.det()"],
    "slogdet": ["m.linalg.slogdet(s)[1]", "m.slogdet(a).sign", "s.slogdet().logabsdet"],
    "logdet": ["m.logdet(p)", "p.logdet()"],
    "cholesky": [
        "m.linalg.cholesky(s @ s.mH)",
        "m.linalg.cholesky(s @ s.mH, upper=True)",
        "m.cholesky(a @ a.mH, True)",
        "(a @ a.mH).cholesky()",
    ],
    "cholesky_ex": ["m.linalg.cholesky_ex(s @ s.mH).L"],
    "cholesky_solve": ["m.cholesky_solve(b, s.tril())", "m.cholesky_solve(b, a.triu(), True)", "b.cholesky_solve(a.tril())"],
    "cholesky_inverse": [
        "m.cholesky_inverse(m.linalg.cholesky(s @ s.mH))",
        "m.cholesky_inverse(m.linalg.cholesky(s @ s.mH, upper=True), upper=True)",
        "m.linalg.cholesky(s @ s.mH).cholesky_inverse()",
    ],
    "solve_triangular": [
        "m.linalg.solve_triangular(s, b, upper=True)",
        "m.linalg.solve_triangular(s, b, upper=False, unitriangular=True)",
        "m.linalg.solve_triangular(a, c.mT, upper=False, left=False)",
    ],
    "triangular_solve": [
        "m.triangular_solve(b, s)[0]",
        "m.triangular_solve(b, s, False).solution",
        "m.triangular_solve(b, a, True, True)[0]",
        "b.triangular_solve(a, unitriangular=True)[0]",
    ],
    "qr": ["m.linalg.qr(t)", "m.linalg.qr(w)", "m.linalg.qr(s, 'complete')", "m.linalg.qr(w, mode='complete').R", "m.qr(t)"],
    "householder_product": ["m.linalg.householder_product(t, t[:, 0])", "m.orgqr(t, t[:, 1, :1])"],
    "ormqr": [
        f"m.ormqr(t, t[:, 0], {x}, {left}, {transpose})"
        for left, x in ((True, "r"), (False, "r.mT"))
        for transpose in (True, False)
    ],
    "svd": [
        "(lambda f: (f.U.abs(), f.S, f.Vh.abs()))(m.linalg.svd(t, full_matrices=False))",
        "(lambda f: f.U @ m.diag_embed(f.S).to(f.U.dtype) @ f.Vh)(m.linalg.svd(w, False))",
        "m.linalg.svd(s)[0].abs()",
        "m.svd(w).V.abs()",
    ],
    "svdvals": ["m.linalg.svdvals(t)", "m.linalg.svdvals(w)", "m.svd(s, compute_uv=False)[1]"],
    "eigh": [
        "(lambda f: (f.eigenvalues, f.eigenvectors.abs()))(m.linalg.eigh(s + s.mH))",
        "m.linalg.eigh(s + s.mH, UPLO='U')[1].abs()",
    ],
    "eigvalsh": ["m.linalg.eigvalsh(s + s.mH)"],
    "eig": ["m.linalg.eig(h)[1].abs()", "m.linalg.eig(s)[0].sum()", "m.linalg.eig(s)[1].abs().sum()"],
    "eigvals": ["(m.linalg.eigvals(s) ** 3).sum()"],
    "lu": ["m.linalg.lu(s)[1]", "m.linalg.lu(t)", "m.linalg.lu(w).U", "m.lu_unpack(*m.lu(t))[1:]"],
    "lu_factor": ["m.linalg.lu_factor(s)[0]", "m.linalg.lu_factor_ex(t).LU", "m.lu(w)[0]", "w.lu()[0]"],
    "lu_solve": [
        f"m.linalg.lu_solve(*m.linalg.lu_factor(s), {right}, left={left}, adjoint={adjoint})"
        for left, right in ((True, "b"), (False, "b[None].mT"))
        for adjoint in (True, False)
    ]
    + ["m.lu_solve(b, *m.lu(s))", "b.lu_solve(*m.lu(a))"],
    "pinv": [
        "m.linalg.pinv(t)",
        "m.linalg.pinv(w)",
        "m.linalg.pinv(s + s.mH, hermitian=True)",
        "m.linalg.pinv(w.mH @ w, rtol=1e-4)",
        "m.pinverse(s)",
        "a.pinverse()",
    ],
    "lstsq": [
        "m.linalg.lstsq(t, r)[0]",
        "m.linalg.lstsq(t, r, driver='gels')[:2]",
        "m.linalg.lstsq(w, w[..., :3], driver='gelsd')[0]",
        "m.linalg.lstsq(s, u).solution",
        "m.linalg.lstsq(t, r, driver='gelss').residuals",
    ],
    "cond": [f"m.linalg.cond({x}, {p})" for x in "st" for p in ("None", "2", "-2")],
    "matrix_norm": [
        f"m.linalg.matrix_norm({x}, {p})"
        for x in "tw"
        for p in ("'fro'", "'nuc'", "1", "-1", "2", "-2", "m.inf", "-m.inf")
    ]
    + ["m.linalg.matrix_norm(w, 'nuc', (0, 2), True)", "m.linalg.matrix_norm(w, 1, dim=(2, 0), keepdim=True)"],
    "norm": [
        "m.linalg.norm(w)",
        "m.linalg.norm(a, 2)",
        "m.linalg.norm(v, 3)",
        "m.linalg.norm(w, m.inf, dim=1)",
        "m.linalg.norm(w, -1, dim=(0, 2), keepdim=True)",
        "m.linalg.norm(a, 'nuc')",
        "m.norm(a, 'nuc')",
        "w.norm('nuc', (0, 2))",
    ],
    "vector_norm": ["m.linalg.vector_norm(w)", "m.linalg.vector_norm(w, 3, (0, 2))"],
    "matrix_exp": ["m.linalg.matrix_exp(a)", "m.matrix_exp(s * 3)", "s.matrix_exp()"],
    "matrix_power": [f"m.linalg.matrix_power(s, {n})" for n in (-2, 0, 1, 2, 5)]
    + ["m.matrix_power(a, 3)", "a.matrix_power(2)"],
    "multi_dot": ["m.linalg.multi_dot([v, a, b, b.mT])", "m.linalg.multi_dot([a, v])", "m.chain_matmul(a, a, b)"],
    "vecdot": ["m.linalg.vecdot(s, v)", "m.linalg.vecdot(s, a, dim=0)"],
    "cross": ["m.linalg.cross(s, a[None])", "m.linalg.cross(s, s[:1], dim=1)"],
    "diagonal": ["m.linalg.diagonal(w)", "m.linalg.diagonal(w, offset=1, dim1=0, dim2=2)"],
    "matmul": ["m.linalg.matmul(s, b)"],
    "vander": ["m.linalg.vander(u)", "m.linalg.vander(v, N=5)"],
    "tensorinv": ["m.linalg.tensorinv(s.reshape(2, 3, 3)[0].reshape(3, 1, 3), ind=1)"],
    "tensorsolve": ["m.linalg.tensorsolve(a.reshape(3, 1, 3), v)", "m.linalg.tensorsolve(a, v, dims=(0,))"],
}  # fmt: skip

#: What has no derivative.
PLAIN = [
    # PyTorch differentiates these for single matrices only.
    *[f"m.linalg.cond(s, {p})" for p in ("1", "-1", "m.inf", "-m.inf", "'fro'", "'nuc'")],
    "m.linalg.matrix_rank(t @ w)",
    "m.linalg.matrix_rank(t @ w, tol=1e-3)",
    "m.linalg.matrix_rank(s, atol=m.linalg.svdvals(s)[:, 1] * 0.99)",
    "m.linalg.matrix_rank(p, hermitian=True, rtol=0.3)",
    "m.linalg.pinv(t @ w)",
    "m.linalg.pinv(s, rtol=m.ones(2, dtype=m.float64, device=s.device) * 0.2)",
    "m.linalg.pinv(s, atol=0.7, rtol=0.1)",
    "m.linalg.lstsq(t @ w, r, driver='gelsd')",
    "m.linalg.lstsq(w, w, driver='gelss')[2:]",
    "m.linalg.inv_ex(s).info",
    "m.linalg.cholesky_ex(p).info",
    "m.linalg.lu_factor(t)[1]",
    "m.linalg.lu(t).P",
    "m.linalg.lu(w)",
    "m.lu(s, get_infos=True)",
    "m.lu_unpack(*m.lu(t))",
    "m.lu_unpack(*m.lu(t), unpack_data=False)",
    "m.lu_unpack(*m.lu(t), unpack_pivots=False)",
    "m.linalg.ldl_solve(*m.linalg.ldl_factor(s + s.mT), b)",
    "m.linalg.ldl_solve(*m.linalg.ldl_factor(h, hermitian=True), b, hermitian=True)",
    "m.linalg.ldl_factor_ex(s + s.mH, hermitian=True)[1:]",
    "m.linalg.ldl_factor(h, hermitian=True).LD.tril()",
    "m.linalg.qr(t, 'complete')",
    "m.linalg.qr(t, 'r')",
    "m.qr(t, some=False)",
    "m.geqrf(t)",
    "t.geqrf()",
    "m.triangular_solve(b, s)[1]",
    "m.linalg.svd(w)[1]",
    "m.linalg.matrix_norm(w, 1, dtype=w.dtype)",
    "m.linalg.cond(s * 0)",
    "m.linalg.cond(s * 0, 1)",
    "m.linalg.slogdet(s * 0)",
    "m.linalg.det(s * 0)",
]
