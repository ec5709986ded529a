"""Results, layouts, gradients and errors of operations with sparse tensors, against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from tests.pytorch import torch
from tests.tensor.expressions import value

_RNG = np.random.default_rng(0)
_SHAPE = (4, 5)
_PLACES = np.array([[0, 0, 1, 3, 3, 3], [1, 4, 2, 0, 2, 3]])
#: Unordered, with a place that is named three times.
_REPEATED = np.array([[3, 0, 1, 0, 0, 2], [4, 1, 2, 1, 1, 0]])

#: Dense operands, by the names that expressions use.
ARRAYS = {
    "d": _RNG.standard_normal((5, 3)),
    "e": _RNG.standard_normal(_SHAPE),
    "f": _RNG.standard_normal((3, 4)),
    "g": _RNG.standard_normal((4, 3)),
    "v": _RNG.standard_normal(5),
    "w": _RNG.standard_normal(4),
    "o": np.array(1.5),
    "x": np.where(_RNG.random(_SHAPE) < 0.5, 0, _RNG.standard_normal(_SHAPE)),
}
_VALUES = {"s": _RNG.standard_normal(6), "u": _RNG.standard_normal(6), "h": _RNG.standard_normal((6, 2))}

#: Expressions of ``m``, the library, dense arrays, and sparse tensors: ``s`` coalesced, ``u`` not, ``c`` by rows, ``h`` with a
#: dense dimension. Gradients of all of them are compared.
EXPRESSIONS = [
    # Layouts
    "s.to_dense()", "u.to_dense()", "c.to_dense()", "h.to_dense()", "c.t().to_dense()", "u.coalesce()", "h.coalesce()",
    "x.to_sparse()", "x.to_sparse(1)", "x.to_sparse_csr()", "x.to_sparse_csc()", "s.to_sparse_csr()", "s.to_sparse_csc()",
    "c.to_sparse()", "c.to_sparse_coo()", "c.to_sparse_csc()", "s.to_sparse()", "x.to_sparse(layout=m.sparse_csr)",
    "e.sparse_mask(s)", "e.sparse_mask(c)", "s.sparse_mask(u.detach().coalesce())", "u.sparse_mask(s)",
    "s.values() * 2", "u.coalesce().values()", "c.values() * 2", "s.clone()", "s.double()", "s.to(m.float16).to_dense().float()",
    "m.sparse_coo_tensor(s.detach()._indices(), v.sum() * s.values(), (4, 5))",
    # Elementwise
    "s * 2", "2.5 * s", "u * 2", "s * o", "o * s", "c * 2", "s / 2", "s / o", "u / 4", "-s", "-c", "-u", "s - s", "s + s", "c + c",
    "s + u", "u + s", "s - u", "m.add(s, u, alpha=3)", "m.sub(s, u, alpha=3)", "s.add(u)", "s.sub(u)", "s * s", "s * u.coalesce()", "(s.detach() * u.detach()).to_dense()", "c * c",
    "s * e", "e * s", "c * e", "s * v", "h + h", "e + s", "e - s", "e + u", "e.add(s, alpha=2)", "e.sub(u, alpha=2)", "e + c", "c + e",
    "m.add(e, s)", "s ** 2", "s.pow(3)", "s // 2",
    *[f"s.{name}()" for name in ["abs", "asin", "asinh", "atan", "ceil", "conj", "deg2rad", "erf", "expm1", "floor", "isinf", "isnan", "nan_to_num", "neg", "rad2deg", "relu", "round", "sgn", "sign", "signbit", "sin", "sinh", "square", "tan", "tanh", "trunc"]],
    *[f"m.{name}(c)" for name in ["abs", "sin", "tanh", "neg", "expm1", "sign"]],
    "s.abs().sqrt()", "s.abs().log1p()", "u.coalesce().sin()",
    # Products
    "s @ d", "u @ d", "c @ d", "c.t() @ g", "s.t() @ g", "u.t() @ g", "f @ s", "f @ c", "s @ v", "c @ v", "w @ s", "s.mm(d)", "m.mm(s, d)", "m.mm(f, s)",
    "m.matmul(s, d)", "m.mv(s, v)", "m.spmm(s, d)", "m.smm(s, d)", "m.hspmm(s, d)", "m.sparse.mm(s, d)", "m.sparse.mm(u, d)", "m.sparse.mm(c, d)", *[f"m.sparse.mm(c, d, {each!r})" for each in ("sum", "mean", "amax", "amin")],
    "m.sparse.sampled_addmm(c, g, d.t(), alpha=2, beta=3)", "s @ s.t()", "u @ s.t()",
    "m.sparse.mm(s, u.t())", "m.addmm(g, s, d)", "m.addmm(g, s, d, beta=0.5, alpha=2)", "m.sparse.addmm(g, s, d, beta=2.0, alpha=3.0)",
    "m.nn.functional.linear(s, d.t())",
    # Shapes
    "s.t()", "u.t()", "s.T", "s.transpose(0, 1)", "s.permute(1, 0)", "s.permute(0, 1)", "h.transpose(0, 1)", "c.t()",
    "c.transpose(0, 1)", "s.unsqueeze(0)", "s.unsqueeze(1)", "s.unsqueeze(-1)", "h.unsqueeze(-1)", "s[1]", "s[3, 2]", "s[-1]", "h[0]",
    "s.select(1, 2)", "h.select(2, 1)", "s.index_select(0, m.tensor([3, 0, 3]))", "s.index_select(1, m.tensor([2]))",
    "h.index_select(2, m.tensor([1, 0, 1]))", "m.cat([s, s])", "m.cat([s, u], 1)", "m.cat([h, h], 2)", "m.stack([s, u])", "s.unbind()[3]",
    # Reductions
    "s.sum()", "u.sum()", "c.sum()", "h.sum()", "s.sum(0)", "s.sum(1, keepdim=True)", "m.sparse.sum(s)", "m.sparse.sum(s, 0)",
    "m.sparse.sum(s, 1)", "m.sparse.sum(s, (0, 1))", "m.sparse.sum(h, 2)", "m.sparse.sum(h, (0, 1))", "m.sparse.sum(h, (0, 2))", "m.sparse.sum(u, -1)",
    "s.norm()", "m.sparse.softmax(s, 1)", "m.sparse.softmax(s, 0)", "m.sparse.softmax(u, 1)", "m.sparse.softmax(h, 2)",
    "m.sparse.log_softmax(s, 1)", "m.sparse.log_softmax(s, 0)",
    # Others
    "m.zeros_like(s)", "m.zeros_like(h)", "m.empty_like(s)", "m.sparse_coo_tensor((2, 3))", "m.zeros(2, 3, layout=m.sparse_coo)",
    "m.zeros(2, 3, layout=m.sparse_csr)", "m.empty(2, 3, layout=m.sparse_coo)", "m.zeros_like(e, layout=m.sparse_coo)",
    "s.any()", "m.is_floating_point(s)", "s.dim()", "s.sparse_dim()", "h.dense_dim()", "e.dense_dim()", "s._nnz()", "u._nnz()", "c._nnz()",
    "s.is_coalesced()", "u.is_coalesced()", "u.coalesce().is_coalesced()", "s.t().is_coalesced()", "s.is_sparse", "c.is_sparse",
    "c.is_sparse_csr", "s.is_sparse_csr", "e.is_sparse", "len(s)", "s.numel()", "s.size(1)", "s.is_contiguous()", "s.stride()",
    "c.crow_indices()", "c.col_indices()", "s.indices()", "u._indices()", "u._values()", "c.t().ccol_indices()", "c.t().row_indices()",
    "str(s.layout).split('.')[1]", "str(c.layout).split('.')[1]", "str(e.layout).split('.')[1]",
]  # fmt: skip

#: Expressions that PyTorch refuses.
ERRORS = [
    "s + e", "s - e", "s + 1", "2 - s", "s / s", "e / s", "s + s[:1]", "m.exp(s)", "s.exp()", "s.view(20)", "s.reshape(20)", "s[:, 1:]", "s.item()",
    "s.numpy()", "s.tolist()", "s.data_ptr()", "s.untyped_storage()", "s.nbytes", "u.indices()", "u.values()", "s.crow_indices()",
    "c.indices()", "c.ccol_indices()", "c.coalesce()", "c.is_coalesced()", "e.coalesce()", "e.indices()", "e.values()", "e._nnz()",
    "e.crow_indices()", "s @ g", "s @ d.double() if d.dtype != m.float64 else s @ d.float()", "m.sparse.mm(s, s)", "m.mv(s, w)", "e + s.t()", "s + s.t()", "h.transpose(1, 2)",
    "h.t()", "s.max()", "s.mean()", "s.cumsum(0)", "s == s", "s > 0", "bool(s)", "m.softmax(s, 1)", "m.ones_like(s)", "m.rand_like(s)",
    "m.equal(s, s)", "s.flatten()", "s.expand(4, 5)", "s.nonzero()", "s.sort()", "s.det()", "m.zeros(4, 5).copy_(s)", "s.pow(0)",
    "m.sparse_coo_tensor(m.tensor([[0, 1]]), m.ones(3))", "m.sparse_coo_tensor(m.tensor([[0, 1]]), m.ones(2), (2, 2))",
    "m.sparse_coo_tensor(m.tensor([[0, -1]]), m.ones(2))", "m.sparse_coo_tensor(m.tensor([[0, 2]]), m.ones(2), (2,), check_invariants=True)",
    "m.sparse_coo_tensor(m.tensor([[1, 0]]), m.ones(2), (2,), is_coalesced=True, check_invariants=True)",
    "m.sparse_csr_tensor([0, 1, 4], [2, 0, 2], [3., 4., 5.], (2, 3), check_invariants=True)",
    "m.sparse_csr_tensor([1, 1, 3], [2, 0, 2], [3., 4., 5.], (2, 3), check_invariants=True)",
    "m.sparse_csr_tensor([0, 1, 3], [2, 0, 3], [3., 4., 5.], (2, 3), check_invariants=True)",
    "m.sparse_csr_tensor([0, 1, 3], [2, 2, 0], [3., 4., 5.], (2, 3), check_invariants=True)",
    "m.sparse_csr_tensor([0, 1], [2, 0, 2], [3., 4., 5.], (2, 3), check_invariants=True)",
    "m.sparse_csr_tensor([0, 1, 3], [2, 0], [3., 4., 5.], (2, 3), check_invariants=True)",
    "m.sparse_compressed_tensor([0, 1], [0], [3.], (1, 1))", "m.sparse.sum(s, (0, 0))", "m.sparse.sum(s, 2)", "m.sparse.softmax(e, 1)", "m.sparse.sum(e)",
]  # fmt: skip

LEAVES = ("s", "u", "h", "c", "d", "e", "f", "g", "v", "w", "o", "x")


def operands(library: Any, device: str) -> dict[str, Any]:
    """The leaves of expressions, which require grad."""
    result = {name: library.from_numpy(array.copy()).to(device) for name, array in ARRAYS.items()}
    at = {"s": _PLACES, "u": _REPEATED, "h": _REPEATED}
    for name, values in _VALUES.items():
        shape = (*_SHAPE, *values.shape[1:])
        indices, numbers = library.from_numpy(at[name].copy()), library.from_numpy(values.copy())
        result[name] = library.sparse_coo_tensor(indices.to(device), numbers.to(device), shape)
    result["s"] = result["s"].coalesce()
    result["c"] = result["s"].to_sparse_csr()
    return {name: each.detach().requires_grad_() for name, each in result.items()}


def dense(x: Any) -> Any:
    """The elements of a tensor of either library, of any layout."""
    x = x.detach()
    return (x if str(x.layout).endswith("strided") else x.to_dense()).cpu().numpy()


def assert_alike(found: Any, expected: Any) -> None:
    if not isinstance(expected, torch.Tensor):
        assert found == expected
        return
    assert str(found.layout).split(".")[1] == str(expected.layout).split(".")[1]
    assert str(found.dtype).split(".")[1] == str(expected.dtype).split(".")[1]
    assert tuple(found.shape) == tuple(expected.shape)
    np.testing.assert_allclose(dense(found), dense(expected), rtol=1e-6, atol=1e-9)
    assert found.requires_grad == expected.requires_grad
    if str(expected.layout) == "torch.sparse_coo":
        assert (found.sparse_dim(), found.dense_dim()) == (expected.sparse_dim(), expected.dense_dim())
        assert found.coalesce()._nnz() == expected.coalesce()._nnz()


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions(text: str, device_name: str) -> None:
    mine, theirs = operands(tensor, device_name), operands(torch, "cpu")
    found, expected = (
        value(text.replace("m.tensor([", "m.tensor(device=o.device, data=["), tensor, device_name, **mine),
        value(text, torch, "cpu", **theirs),
    )
    assert_alike(found, expected)
    if not (isinstance(expected, torch.Tensor) and expected.requires_grad):
        return
    weights = np.random.default_rng(1).standard_normal(tuple(expected.shape))

    def differentiate(library: Any, result: Any, where: str) -> None:
        whole = result if str(result.layout).endswith("strided") else result.to_dense()
        (whole.double() * library.from_numpy(weights).to(where)).sum().backward()

    try:
        differentiate(torch, expected, "cpu")
    except (RuntimeError, NotImplementedError):
        pytest.skip("PyTorch has no gradient here")
    differentiate(tensor, found, device_name)
    for name in LEAVES:
        gradient, wanted = mine[name].grad, theirs[name].grad
        assert (gradient is None) == (wanted is None), name
        if wanted is not None:
            np.testing.assert_allclose(dense(gradient), dense(wanted), rtol=1e-6, atol=1e-9, err_msg=name)


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", ERRORS)
def test_errors(text: str, device_name: str) -> None:
    with pytest.raises((RuntimeError, TypeError, IndexError, NotImplementedError, AttributeError)):
        value(text, torch, "cpu", **operands(torch, "cpu"))
    with pytest.raises((RuntimeError, TypeError, IndexError, NotImplementedError)):
        value(text, tensor, device_name, **operands(tensor, device_name))
