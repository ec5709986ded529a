"""Every public operation that is not pointwise has samples, which give what PyTorch gives, on every device.

The pointwise ones have theirs in :mod:`.samples`. An operation that is in neither table fails
:func:`test_every_operation_has_samples`.
"""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

import tensor
from tests.tensor.comparison import array_of, assert_same_outcome, outcome
from tests.tensor.expressions import value

from . import samples

_RNG = np.random.default_rng(0)
#: What expressions may use: matrices of floats, a vector, integers, bools, complex numbers, nothing, a number.
ARRAYS = {
    "x": _RNG.standard_normal((3, 4)),
    "y": _RNG.standard_normal((3, 4)),
    "z": _RNG.standard_normal((2, 3, 4)),
    "s": _RNG.standard_normal((4, 4)),
    "v": _RNG.standard_normal(4),
    "w": _RNG.standard_normal(3),
    "i": _RNG.integers(0, 3, (3, 4)),
    "b": _RNG.random((3, 4)) > 0.5,
    "c": _RNG.standard_normal((3, 4)) + 1j * _RNG.standard_normal((3, 4)),
    "e": np.zeros((0, 4)),
    "o": np.array(1.5),
    "p": np.array([2, 0, 1]),
}

#: Operations, and expressions of ``m``, the library, and the arrays above. The last ones of many are errors.
SAMPLES: dict[str, list[str]] = {
    # Reductions
    **{
        name: [
            f"m.{name}(x)", f"m.{name}(x, 1)", f"m.{name}(z, (0, 2), True)", f"m.{name}(x.t(), 0)", f"m.{name}(o)",
            f"m.{name}(e)" if name in ("sum", "nansum", "mean", "nanmean") else f"m.{name}(e, 1)", f"m.{name}(x, 2)",
        ]
        for name in ("sum", "nansum", "mean", "nanmean", "amax", "amin", "var", "std", "logsumexp")
        if name not in ("amax", "amin", "logsumexp")
    },
    "amax": ["m.amax(x)", "m.amax(x, 1)", "m.amax(z, (0, 2), True)", "m.amax(o)", "m.amax(i, 0)", "m.amax(e)", "m.amax(x, 2)"],
    "amin": ["m.amin(x)", "m.amin(x, 1)", "m.amin(z, (0, 2), True)", "m.amin(o)", "m.amin(i, 0)", "m.amin(e)", "m.amin(x, 2)"],
    "logsumexp": ["m.logsumexp(x, 1)", "m.logsumexp(z, (0, 2), True)", "m.logsumexp(x.t(), 0)", "m.logsumexp(x, 2)"],
    "prod": ["m.prod(x)", "m.prod(x, 1)", "m.prod(z, 0, True)", "m.prod(i)", "m.prod(o)", "m.prod(e)", "m.prod(x, 2)"],
    "aminmax": ["m.aminmax(x)", "m.aminmax(x, dim=1)", "m.aminmax(i, dim=0, keepdim=True)", "m.aminmax(e)"],
    **{
        name: [f"m.{name}(x)", f"m.{name}(x, 1)", f"m.{name}(z, 1, True)", f"m.{name}(i, 0)", f"m.{name}(o)", f"m.{name}(e)"]
        for name in ("max", "min", "argmax", "argmin", "median", "nanmedian")
    },
    "any": ["m.any(b)", "m.any(b, 1)", "m.any(x)", "m.any(i, 0, True)", "m.any(e)", "m.any(x, 2)"],
    "all": ["m.all(b)", "m.all(b, 1)", "m.all(x)", "m.all(i, 0, True)", "m.all(e)", "m.all(x, 2)"],
    "norm": ["m.norm(x)", "m.norm(x, 1, 1)", "m.norm(x, m.inf, 0)", "m.norm(c)", "m.norm(x, 'nuc')", "m.norm(i)"],
    "std_mean": ["m.std_mean(x, 1)", "m.std_mean(z, (0, 2), keepdim=True)"],
    "var_mean": ["m.var_mean(x, 1)", "m.var_mean(c, 0)"],
    "mode": ["m.mode(i, 1)", "m.mode(o)"],
    "kthvalue": ["m.kthvalue(x, 2)", "m.kthvalue(x, 1, 0, True)", "m.kthvalue(x, 9)"],
    "quantile": ["m.quantile(x, 0.3)", "m.quantile(x, 0.5, 1)", "m.quantile(x, v.abs().clamp(max=1), 0)", "m.quantile(x, 2.0)"],
    "nanquantile": ["m.nanquantile(x, 0.3)", "m.nanquantile(x, 0.5, 1, True)"],
    "count_nonzero": ["m.count_nonzero(i)", "m.count_nonzero(b, 1)", "m.count_nonzero(e)"],
    "dist": ["m.dist(x, y)", "m.dist(x, v, 1)"],
    "cdist": ["m.cdist(x, y)", "m.cdist(x, y, 1.0)", "m.cdist(x, w)"],
    "pdist": ["m.pdist(x)", "m.pdist(x, 1.0)", "m.pdist(v)"],
    # Scans
    "cumsum": ["m.cumsum(x, 1)", "m.cumsum(i, 0)", "m.cumsum(o, 0)", "m.cumsum(e, 0)", "m.cumsum(x, 2)"],
    "cumprod": ["m.cumprod(x, 1)", "m.cumprod(c, 0)", "m.cumprod(x, 2)"],
    "cummax": ["m.cummax(x, 1)", "m.cummax(i, 0)"],
    "cummin": ["m.cummin(x, 1)", "m.cummin(i, 0)"],
    "logcumsumexp": ["m.logcumsumexp(x, 1)", "m.logcumsumexp(z, 1)"],
    "diff": ["m.diff(x)", "m.diff(x, 2, 0)", "m.diff(i)", "m.diff(o)"],
    "trapezoid": ["m.trapezoid(x)", "m.trapezoid(x, dx=0.5, dim=0)", "m.trapezoid(x, v)"],
    "trapz": ["m.trapz(x)", "m.trapz(x, v)"],
    "gradient": [
        "m.gradient(x)", "m.gradient(x, spacing=0.5, dim=1)", "m.gradient(x, spacing=[0.5, 2.0], edge_order=2)",
        "m.gradient(x, spacing=(v.sort()[0],), dim=1)", "m.gradient(x, spacing=(v.sort()[0],), dim=1, edge_order=2)",
        "m.gradient(i, dim=(0,))", "m.gradient(x, edge_order=3)", "m.gradient(o, dim=0)",
    ],
    "cov": [
        "m.cov(x)", "m.cov(v)", "m.cov(i)", "m.cov(c)", "m.cov(x, correction=0)", "m.cov(z)", "m.cov(b)",
        "m.cov(x, fweights=i[0] + 1, aweights=v.abs())", "m.cov(x, aweights=v.abs())", "m.cov(x, fweights=w)",
        "m.cov(x, fweights=i[0] - 5)",
    ],
    "corrcoef": ["m.corrcoef(x)", "m.corrcoef(v)", "m.corrcoef(c)", "m.corrcoef(i)", "m.corrcoef(z)"],
    "histogram": [
        "m.histogram(x, 5)", "m.histogram(x, 4, range=(-1, 0.5), density=True)", "m.histogram(x, v.sort()[0], weight=y)",
        "m.histogram(e, 3)", "m.histogram(o, 3)", "m.histogram(i, 3)", "m.histogram(x, 0)", "m.histogram(x, 3, range=(1, 0))",
        "m.histogram(x, 3, weight=v)",
    ],
    "histogramdd": [
        "m.histogramdd(x, [2, 3, 2, 1])", "m.histogramdd(s, 2, density=True)", "m.histogramdd(x, [v.sort()[0]] * 4, weight=w)",
        "m.histogramdd(x[:, :1], [3], range=[-1.0, 1.0])", "m.histogramdd(v, 3)", "m.histogramdd(x, [2, 3])",
    ],
    "renorm": [
        "m.renorm(x, 2, 0, 1.0)", "m.renorm(x, 1, 1, 0.5)", "m.renorm(z, 3, 1, 1.0)", "m.renorm(c, 2, 0, 1.0)",
        "m.renorm(v, 2, 0, 1.0)", "m.renorm(x, 0, 0, 1.0)", "m.renorm(x, 2, 0, -1.0)", "m.renorm(i, 2, 0, 1.0)",
    ],
    "cumulative_trapezoid": ["m.cumulative_trapezoid(x)", "m.cumulative_trapezoid(x, v)"],
    # Comparison and counting
    "allclose": ["m.allclose(x, x)", "m.allclose(x, y)"],
    "equal": ["m.equal(x, x)", "m.equal(x, v)"],
    "isin": ["m.isin(i, p)", "m.isin(i, 2)"],
    "histc": ["m.histc(x, 4, -1, 1)", "m.histc(x, 5)"],
    "bincount": ["m.bincount(p)", "m.bincount(p, w)", "m.bincount(p, minlength=6)", "m.bincount(i)"],
    "unique": ["m.unique(i)", "m.unique(i, return_inverse=True, return_counts=True)", "m.unique(i, dim=0)"],
    "unique_consecutive": ["m.unique_consecutive(p)", "m.unique_consecutive(i.flatten(), return_counts=True)"],
    # Order
    "sort": ["m.sort(x)", "m.sort(x, 1, True)", "m.sort(o)", "m.sort(e)", "m.sort(c)"],
    "argsort": ["m.argsort(x)", "m.argsort(x, descending=True)"],
    "msort": ["m.msort(v)"],
    "topk": ["m.topk(x, 2)", "m.topk(x, 2, 1, False)", "m.topk(x, 9)"],
    "searchsorted": ["m.searchsorted(v.sort()[0], x)", "m.searchsorted(v.sort()[0], x, right=True, out_int32=True)"],
    "bucketize": ["m.bucketize(x, v.sort()[0])", "m.bucketize(x, v.sort()[0], right=True)"],
    # Views and shapes
    "reshape": ["m.reshape(x, (2, 6))", "m.reshape(x.t(), (-1,))", "m.reshape(x, (5, 5))"],
    "flatten": ["m.flatten(z)", "m.flatten(z, 1)", "m.flatten(o)"],
    "unflatten": ["m.unflatten(x, 1, (2, 2))", "m.unflatten(x, 1, (3, 2))"],
    "ravel": ["m.ravel(x.t())"],
    "squeeze": ["m.squeeze(x[:1])", "m.squeeze(x[:1], 0)", "m.squeeze(x, 5)"],
    "unsqueeze": ["m.unsqueeze(x, 1)", "m.unsqueeze(x, -1)", "m.unsqueeze(x, 5)"],
    "broadcast_to": ["m.broadcast_to(v, (3, 4))", "m.broadcast_to(x, (4, 4))"],
    "broadcast_tensors": ["m.broadcast_tensors(x, v, o)", "m.broadcast_tensors(x, w)"],
    "broadcast_shapes": ["m.broadcast_shapes((3, 1), (4,))", "m.broadcast_shapes((3,), (4,))"],
    "transpose": ["m.transpose(z, 0, 2)", "m.transpose(x, 0, 2)"],
    "swapaxes": ["m.swapaxes(z, 0, 2)"],
    "swapdims": ["m.swapdims(z, 0, 2)"],
    "t": ["m.t(x)", "m.t(v)", "m.t(z)"],
    "adjoint": ["m.adjoint(c)"],
    "permute": ["m.permute(z, (2, 0, 1))", "m.permute(z, (0, 0, 1))"],
    "movedim": ["m.movedim(z, 0, 2)", "m.movedim(z, (0, 1), (2, 0))"],
    "moveaxis": ["m.moveaxis(z, 0, 2)"],
    "narrow": ["m.narrow(x, 1, 1, 2)", "m.narrow(x, 1, 3, 2)"],
    "select": ["m.select(x, 0, 1)", "m.select(x, 0, 3)"],
    "chunk": ["m.chunk(x, 3, 1)", "m.chunk(x, 0)"],
    "split": ["m.split(x, 3, 1)", "m.split(x, [1, 3], 1)", "m.split(x, [1, 1], 1)"],
    "unsafe_split": ["m.unsafe_split(x, 3, 1)"],
    "unsafe_split_with_sizes": ["m.unsafe_split_with_sizes(x, [1, 3], 1)"],
    "unsafe_chunk": ["m.unsafe_chunk(x, 3, 1)"],
    "narrow_copy": ["m.narrow_copy(x, 1, 1, 2)", "m.narrow_copy(x, 1, 3, 2)"],
    "split_with_sizes": ["m.split_with_sizes(x, [1, 3], 1)"],
    "tensor_split": ["m.tensor_split(x, 3, 1)", "m.tensor_split(x, (1, 2), 1)"],
    "hsplit": ["m.hsplit(x, 2)", "m.hsplit(x, 3)"],
    "vsplit": ["m.vsplit(x, 3)"],
    "dsplit": ["m.dsplit(z, 2)"],
    "unbind": ["m.unbind(x)", "m.unbind(x, 1)"],
    "as_strided": ["m.as_strided(x, (2, 2), (1, 3), 1)", "m.as_strided(x, (9, 9), (9, 9))"],
    "as_strided_": ["m.as_strided_(x.clone(), (2, 2), (1, 3), 1)", "m.as_strided_(x.clone(), (9, 9), (9, 9))"],
    "detach_": ["m.detach_(x.clone())"],
    "resize_as_": ["m.resize_as_(y.clone(), x)"],
    "diagonal": ["m.diagonal(x)", "m.diagonal(z, 1, 1, 2)"],
    "view_as_real": ["m.view_as_real(c)", "m.view_as_real(x)"],
    "view_as_complex": ["m.view_as_complex(m.view_as_real(c))", "m.view_as_complex(x)"],
    "detach": ["m.detach(x)"],
    "atleast_1d": ["m.atleast_1d(o)", "m.atleast_1d(o, x)"],
    "atleast_2d": ["m.atleast_2d(v)"],
    "atleast_3d": ["m.atleast_3d(v)", "m.atleast_3d(x)"],
    "diag": ["m.diag(v)", "m.diag(x, 1)", "m.diag(z)"],
    "diag_embed": ["m.diag_embed(x)", "m.diag_embed(x, -1, 0, 2)"],
    "diagflat": ["m.diagflat(x)", "m.diagflat(v, -1)"],
    "as_strided_scatter": [
        "m.as_strided_scatter(x, v[:3], (3,), (2,))", "m.as_strided_scatter(x.t(), v, (2, 2), (1, 2), 1)",
        "m.as_strided_scatter(x, s[:2, :2], (2, 2), (4, 1), 2)", "m.as_strided_scatter(x, s, (4, 4), (4, 1))",
    ],
    "diagonal_scatter": ["m.diagonal_scatter(s, v)"],
    "select_scatter": ["m.select_scatter(x, v, 0, 1)"],
    "slice_scatter": ["m.slice_scatter(x, y[:2], 0, 1)"],
    # Rearranged, joined, repeated
    "flip": ["m.flip(x, (0,))", "m.flip(z, (0, 2))", "m.flip(x, (0, 0))"],
    "fliplr": ["m.fliplr(x)", "m.fliplr(v)"],
    "flipud": ["m.flipud(x)"],
    "roll": ["m.roll(x, 2)", "m.roll(x, (1, -1), (0, 1))", "m.roll(x, (1, 2), (0,))"],
    "rot90": ["m.rot90(x)", "m.rot90(z, 3, (1, 2))"],
    "tril": ["m.tril(x)", "m.tril(z, -1)", "m.tril(v)"],
    "triu": ["m.triu(x)", "m.triu(z, 1)", "m.triu(v)"],
    "cat": ["m.cat((x, y))", "m.cat((x, i), 1)", "m.cat((x, e))", "m.cat((x, z))", "m.cat(())"],
    "concat": ["m.concat((x, y))"],
    "concatenate": ["m.concatenate((x, y), 1)"],
    "stack": ["m.stack((x, y))", "m.stack((x, y), -1)", "m.stack((x, v))"],
    "hstack": ["m.hstack((x, y))", "m.hstack((v, w))"],
    "vstack": ["m.vstack((x, y))", "m.vstack((v, v))"],
    "dstack": ["m.dstack((x, y))", "m.dstack((v, v))"],
    "row_stack": ["m.row_stack((v, v))"],
    "column_stack": ["m.column_stack((w, x))"],
    "tile": ["m.tile(x, (2, 1))", "m.tile(v, (2, 2))"],
    "repeat_interleave": ["m.repeat_interleave(x, 2)", "m.repeat_interleave(x, p, 0)", "m.repeat_interleave(p)"],
    "cartesian_prod": ["m.cartesian_prod(v, w)"],
    "combinations": ["m.combinations(v)", "m.combinations(v, 2, True)"],
    "block_diag": ["m.block_diag(x, v)"],
    "meshgrid": ["m.meshgrid(v, w, indexing='ij')", "m.meshgrid(v, w, indexing='xy')"],
    "vander": ["m.vander(v)", "m.vander(v, 3, True)"],
    # Indices
    "index_select": ["m.index_select(x, 1, p)", "m.index_select(x, 1, i)"],
    "gather": ["m.gather(x, 0, i)", "m.gather(x, 0, p)"],
    "take": ["m.take(x, p)"],
    "take_along_dim": ["m.take_along_dim(x, i, 0)"],
    "masked_select": ["m.masked_select(x, b)", "m.masked_select(x, i)"],
    "masked_fill": ["m.masked_fill(x, b, 1.5)"],
    "masked_scatter": ["m.masked_scatter(x, b, y)"],
    "nonzero": ["m.nonzero(i)", "m.nonzero(b, as_tuple=True)"],
    "nonzero_static": ["m.nonzero_static(b, size=3)", "m.nonzero_static(b, size=20, fill_value=7)", "m.nonzero_static(o, size=2)"],
    "argwhere": ["m.argwhere(b)"],
    "where": ["m.where(b, x, y)", "m.where(b, x, 2.0)", "m.where(b)"],
    "index_add": ["m.index_add(x, 0, p, y)"],
    "index_copy": ["m.index_copy(x, 0, p, y)"],
    "index_fill": ["m.index_fill(x, 1, p, 2.5)"],
    "index_put": ["m.index_put(x, (p, p), w)", "m.index_put(x, (p,), v, True)"],
    "index_put_": ["m.index_put_(x.clone(), (p, p), w)"],
    "put": ["m.put(x, p, w)"],
    "scatter": ["m.scatter(x, 0, i[:1], y)", "m.scatter(x, 0, i[:1], 2.0)"],
    "scatter_add": ["m.scatter_add(x, 0, i, y)"],
    "scatter_reduce": ["m.scatter_reduce(x, 0, i, y, 'amax')", "m.scatter_reduce(x, 0, i, y, 'none')"],
    "index_reduce": [
        f"m.index_reduce({text})" for text in (
            "x, 0, p, y, 'amax'", "x, 0, p.clamp(max=1), y, 'prod'", "x, 0, p.clamp(max=1), y, 'mean', include_self=False",
            "x, 1, p[:2], y[:, :2], 'amin'", "i, 0, p * 0, i, 'mean'", "o, 0, p[1:2], o, 'prod'", "x, 0, p, y, 'sum'",
            "x, 0, p, s, 'amax'", "x, 0, p, i, 'amax'",
        )
    ],
    "unravel_index": ["m.unravel_index(p, (2, 2))"],
    # Products
    "matmul": ["m.matmul(x, y.t())", "m.matmul(z, v)", "m.matmul(z, s)", "m.matmul(v, v)", "m.matmul(i, i.t())", "m.matmul(x, x)"],
    "mm": ["m.mm(x, s)", "m.mm(c, c.t())", "m.mm(x, x)"],
    "bmm": ["m.bmm(z, z.transpose(1, 2))", "m.bmm(x, y)"],
    "mv": ["m.mv(x, v)", "m.mv(x, w)"],
    "dot": ["m.dot(v, v)", "m.dot(v, w)"],
    "vdot": ["m.vdot(c[0], c[1])"],
    "outer": ["m.outer(v, w)"],
    "ger": ["m.ger(v, w)"],
    "inner": ["m.inner(x, y)", "m.inner(v, v)"],
    "addmm": ["m.addmm(v, x, s)", "m.addmm(v, x, s, beta=0.5, alpha=2)", "m.addmm(w, x, s)"],
    "addmv_": ["m.addmv_(w.clone(), x, v)", "m.addmv_(v.clone(), x, v)"],
    "addmv": ["m.addmv(w, x, v)"],
    "addr": ["m.addr(x, w, v)"],
    "addbmm": ["m.addbmm(m.zeros_like(x[:, :3]), z, z.transpose(1, 2))"],
    "baddbmm": ["m.baddbmm(o, z, z.transpose(1, 2))"],
    "einsum": ["m.einsum('ij,kj->ik', x, y)", "m.einsum('bij,j', z, v)", "m.einsum('ii', s)", "m.einsum('ij,jk', x, y)"],
    "tensordot": ["m.tensordot(z, x, ([1, 2], [0, 1]))", "m.tensordot(x, s, 1)"],
    "kron": ["m.kron(x, v)"],
    "cross": ["m.cross(x, y, 0)", "m.cross(x, y, 1)"],
    "trace": ["m.trace(s)", "m.trace(v)"],
    # Matrices; tests/tensor/linalg has more
    "inverse": ["m.inverse(s)", "m.inverse(x)", "m.inverse(0 * s)"],
    "pinverse": ["m.pinverse(x)", "m.pinverse(v)"],
    "det": ["m.det(s)", "m.det(0 * s)", "m.det(x)", "m.det(i[:, :3])"],
    "slogdet": ["m.slogdet(s)", "m.slogdet(x)"],
    "logdet": ["m.logdet(s @ s.t())", "m.logdet(x)"],
    "matrix_power": ["m.matrix_power(s, 3)", "m.matrix_power(s, -1)", "m.matrix_power(x, 2)", "m.matrix_power(s, 1.5)"],
    "matrix_exp": ["m.matrix_exp(s)", "m.matrix_exp(x)"],
    "chain_matmul": ["m.chain_matmul(x, s, x.t())", "m.chain_matmul(x, x)"],
    "cholesky": ["m.cholesky(x @ x.t())", "m.cholesky(x @ x.t(), upper=True)", "m.cholesky(-x @ x.t())"],
    "cholesky_solve": ["m.cholesky_solve(x.t(), s)", "m.cholesky_solve(x.t(), s, True)", "m.cholesky_solve(x, s)"],
    "cholesky_inverse": ["m.cholesky_inverse(s)", "m.cholesky_inverse(x)"],
    "triangular_solve": ["m.triangular_solve(x.t(), s)", "m.triangular_solve(x, s)"],
    "qr": ["m.qr(x)", "m.qr(x.t(), some=False)", "m.qr(v)"],
    "svd": ["m.svd(x, compute_uv=False)", "m.svd(x)[1]", "m.svd(v)"],
    "svd_lowrank": ["m.svd_lowrank(x)[1]", "m.svd_lowrank(z, M=z * 0)[1]", "m.svd_lowrank(v)"],
    "pca_lowrank": ["m.pca_lowrank(x)[1]", "m.pca_lowrank(x, 7)"],
    "lu": ["m.lu(s)", "m.lu(x, get_infos=True)", "m.lu(v)"],
    "lu_solve": ["m.lu_solve(x.t(), *m.lu(s))", "m.lu_solve(x, *m.lu(s))"],
    "lu_unpack": ["m.lu_unpack(*m.lu(x))", "m.lu_unpack(s, p)"],
    "geqrf": ["m.geqrf(x)", "m.geqrf(v)"],
    "orgqr": ["m.orgqr(*m.geqrf(x.t()))", "m.orgqr(x, v)"],
    "ormqr": ["m.ormqr(*m.geqrf(x), y)", "m.ormqr(x, w, v)"],
    # Spectra
    "stft": [
        "m.stft(z.flatten(), 6, window=y.flatten()[:6], return_complex=True)", "m.stft(c.flatten(), 4, 2, window=v)",
        "m.stft(x.flatten(), 4, window=v)", "m.stft(x, 9, return_complex=True)",
    ],
    "istft": ["m.istft(c, 4, window=m.ones_like(v), onesided=True)", "m.istft(c, 4, 3, window=v * 0)", "m.istft(x, 4, window=v)"],
    # More
    "fill": ["m.fill(x, 2.0)", "m.fill(i, o)", "m.fill(x, v)"],
    "fill_": ["m.fill_(x.clone(), 2.0)"],
    "zero_": ["m.zero_(x.clone())"],
    "real": ["m.real(c)", "m.real(x)"],
    "imag": ["m.imag(c)", "m.imag(x)"],
    "prelu": ["m.prelu(x, v)", "m.prelu(x, o)", "m.prelu(x, w)"],
    "frexp": ["m.frexp(x)", "m.frexp(e)", "m.frexp(i)"],
    "polygamma": ["m.polygamma(1, x.abs())", "m.polygamma(0, x.abs())"],
    "softmax": ["m.softmax(x, 1)", "m.softmax(z, 1)", "m.softmax(i, 0)"],
    "log_softmax": ["m.log_softmax(x, 1)", "m.log_softmax(x, 2)"],
    "clone": ["m.clone(x.t())"],
    "complex": ["m.complex(x, y)", "m.complex(x, i)"],
    "polar": ["m.polar(x.abs(), y)"],
    "conv1d": ["m.conv1d(z, z)"],
    "conv2d": ["m.conv2d(z[None], z[:, None, :, :2].transpose(0, 1))"],
    "conv3d": ["m.conv3d(z[None, None], z[None, None, :, :2])"],
    "conv_transpose1d": ["m.conv_transpose1d(z.transpose(0, 1)[:2], z[:, :2, :2].transpose(0, 1)[:2])"],
    "conv_transpose2d": ["m.conv_transpose2d(z[None], z[:, None])"],
    "conv_transpose3d": ["m.conv_transpose3d(z[None, None], z[None, None])"],
    "is_same_size": ["m.is_same_size(x, y)", "m.is_same_size(x, v)"],
    "is_nonzero": ["m.is_nonzero(o)", "m.is_nonzero(x)"],
}  # fmt: skip

#: Public functions that are no operations, or are tested by tables of their own: creation, random numbers, settings,
#: types, descriptions of tensors, sparse layouts, and what carries data in and out.
NO_OPERATIONS = frozenset(
    """
    poisson binomial arange are_deterministic_algorithms_enabled as_tensor asarray bernoulli can_cast empty empty_like empty_permuted
    empty_strided enable_grad eye from_dlpack from_numpy frombuffer full full_like get_default_device
    get_default_dtype get_device get_device_module get_float32_matmul_precision get_rng_state initial_seed
    is_complex is_conj is_deterministic_algorithms_warn_only_enabled is_floating_point is_grad_enabled
    is_inference is_inference_mode_enabled is_neg is_signed is_storage is_tensor linspace logspace manual_seed
    multinomial normal numel ones ones_like promote_types rand rand_like randint randint_like randn randn_like
    randperm range resolve_conj resolve_neg result_type scalar_tensor seed set_default_device set_default_dtype
    set_default_tensor_type set_deterministic_debug_mode set_float32_matmul_precision set_grad_enabled
    set_printoptions set_rng_state tensor tril_indices triu_indices typename use_deterministic_algorithms
    zeros zeros_like set_num_threads get_num_threads set_num_interop_threads get_num_interop_threads load save
    autocast_decrement_nesting
    autocast_increment_nesting clear_autocast_cache get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype
    is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_enabled set_autocast_cache_enabled
    set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype
    dropout embedding embedding_bag layer_norm batch_norm group_norm instance_norm rms_norm
    alpha_dropout feature_alpha_dropout feature_dropout binary_cross_entropy_with_logits cosine_embedding_loss
    cosine_similarity ctc_loss hinge_embedding_loss kl_div margin_ranking_loss pairwise_distance
    poisson_nll_loss triplet_margin_loss dropout_ feature_dropout_ alpha_dropout_ feature_alpha_dropout_
    gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell
    bartlett_window blackman_window hamming_window hann_window kaiser_window get_deterministic_debug_mode
    compile is_anomaly_check_nan_enabled is_anomaly_enabled set_anomaly_enabled set_flush_denormal
    hspmm hsmm smm spmm dsmm sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor
    sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum
    """.split()  # noqa: SIM905
)


def test_every_operation_has_samples() -> None:
    pointwise = {name for sample in samples.SAMPLES for name in _names(sample)}
    # Other names of an operation have its own.
    public = {
        name
        for name in tensor.__all__
        if isinstance(getattr(tensor, name), types.FunctionType)
        and (getattr(tensor, name).__name__ == name or getattr(tensor, name).__name__ not in pointwise)
    }
    missing = public - pointwise - set(SAMPLES) - NO_OPERATIONS
    assert not missing, f"write samples for {sorted(missing)}"
    assert not set(SAMPLES) - public, "samples of what there is not"


def _names(sample: Any) -> list[str]:
    return [str(sample.name), f"{sample.name}_"]


def _operands(library: Any, device: str) -> dict[str, Any]:
    result = {name: library.from_numpy(array.copy()) for name, array in ARRAYS.items()}
    return {name: each.to(device) for name, each in result.items()}


def _alike(found: Any, expected: Any) -> None:
    import torch

    if isinstance(expected, torch.Tensor):
        assert str(found.dtype).split(".")[1] == str(expected.dtype).split(".")[1]
        assert tuple(found.shape) == tuple(expected.shape)
        np.testing.assert_allclose(array_of(found), array_of(expected), rtol=1e-9, atol=1e-12)
    elif isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            _alike(one, other)
    else:
        assert found == expected


@pytest.mark.parity
@pytest.mark.parametrize("name", SAMPLES)
def test_samples(name: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    for text in SAMPLES[name]:
        result = outcome(value, text, tensor, device_name, **_operands(tensor, device_name))
        expected = outcome(value, text, torch, **_operands(torch, "cpu"))
        if isinstance(expected, Exception):
            assert isinstance(result, Exception), f"{text} is an error in PyTorch: {expected}"
            continue
        if isinstance(result, Exception):
            raise AssertionError(text) from result
        try:
            assert_same_outcome(result, expected, _alike)
        except AssertionError as error:
            raise AssertionError(f"{text}: {error}") from error
