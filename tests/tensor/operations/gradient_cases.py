"""Differentiable operations with inputs to check their derivatives on: reductions, products, joins, views, copies.

A case is a function and the shapes of its inputs, or arrays where the numbers matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tensor

#: Numbers with zeros among them: one in the first row, two in the second.
ZEROS = np.array([[0.5, 0.0, -1.5], [0.0, 2.0, 0.0], [1.0, -0.7, 0.3]])
NANS = np.array([[0.5, np.nan, -1.5], [np.nan, 2.0, 1.0]])


def no(x: Any) -> Any:
    """First of several results."""
    return x[0]


#: For real and complex numbers.
REDUCTIONS: dict[str, tuple[Any, ...]] = {
    "sum": (lambda x: x.sum(), (2, 3)),
    "sum dim": (lambda x: x.sum(1), (2, 3)),
    "sum dims": (lambda x: x.sum((0, -1), keepdim=True), (2, 3, 2)),
    "sum 0-dim": (lambda x: x.sum(0), ()),
    "sum nothing": (lambda x: x.sum(1), (2, 0)),
    "sum transposed": (lambda x: x.t().sum(0), (2, 3)),
    "sum_to_size": (lambda x: x.sum_to_size(2, 1), (3, 2, 2)),
    "mean": (lambda x: x.mean(), (2, 3)),
    "mean dim": (lambda x: x.mean(0), (2, 3)),
    "mean dims": (lambda x: x.mean((0, 2), True), (2, 3, 2)),
    "prod": (lambda x: x.prod(), (2, 2)),
    "prod dim": (lambda x: x.prod(1), (2, 3)),
    "prod keepdim": (lambda x: x.prod(0, keepdim=True), (2, 3)),
    "prod zeros": (lambda x: x.prod(1), ZEROS),
    "prod all zeros": (lambda x: x.prod(), ZEROS[0]),
    "prod many zeros": (lambda x: x.prod(), ZEROS[1]),
    "prod 0-dim": (lambda x: x.prod(), ()),
    "var": (lambda x: x.var(), (2, 3)),
    "var dim": (lambda x: x.var(1, False), (2, 3)),
    "var dims": (lambda x: x.var((0, 1), keepdim=True, correction=2), (2, 3, 2)),
    "std": (lambda x: x.std(), (2, 3)),
    "std dim": (lambda x: x.std(1), (2, 3)),
    "std dims": (lambda x: x.std((0, 2), correction=0, keepdim=True), (2, 3, 2)),
    "var_mean": (lambda x: tensor.var_mean(x, 1), (2, 3)),
    "std_mean": (lambda x: tensor.std_mean(x, 0, keepdim=True), (3, 2)),
    "norm": (lambda x: x.norm(), (2, 3)),
    "norm dim": (lambda x: x.norm(2, 1), (2, 3)),
    "norm 1": (lambda x: x.norm(1, 0, True), (2, 3)),
    "norm 3": (lambda x: x.norm(3, 1), (2, 3)),
    "norm 1.5": (lambda x: x.norm(1.5), (2, 3)),
    "norm 0.5": (lambda x: x.norm(0.5, 1), (2, 3)),
    "norm -1": (lambda x: x.norm(-1, 1), (2, 3)),
    "norm inf": (lambda x: x.norm(float("inf"), 1), (2, 3)),
    "norm -inf": (lambda x: x.norm(-float("inf")), (2, 3)),
    "norm zeros": (lambda x: x.norm(3, 1), ZEROS[:1]),
    "cumsum": (lambda x: x.cumsum(1), (2, 3)),
    "cumsum 0-dim": (lambda x: x.cumsum(0), ()),
    "cumprod": (lambda x: x.cumprod(0), (3, 2)),
    "cumprod zeros": (lambda x: x.cumprod(1), ZEROS),
    "diff": (lambda x: x.diff(dim=0), (3, 2)),
    "diff twice": (lambda x, a: x.diff(2, prepend=a), (2, 3), (2, 1)),
    "trapezoid": (lambda y, x: tensor.trapezoid(y, x), (2, 3), (3,)),
    "trapezoid dx": (lambda y: tensor.trapezoid(y, dx=0.5, dim=0), (3, 2)),
}
#: For real numbers.
ORDERED: dict[str, tuple[Any, ...]] = {
    "nansum": (lambda x: x.nansum(1), (2, 3)),
    "nansum nan": (lambda x: x.nansum(0), NANS),
    "nanmean": (lambda x: x.nanmean(1), (2, 3)),
    "nanmean nan": (lambda x: x.nanmean(1, True), NANS),
    "logsumexp": (lambda x: x.logsumexp(1), (2, 3)),
    "logsumexp dims": (lambda x: x.logsumexp((0, 1), True), (2, 3)),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), (2, 3)),
    "amax": (lambda x: x.amax(1), (2, 3)),
    "amin": (lambda x: x.amin((0, 2), True), (2, 3, 2)),
    "amax all": (lambda x: x.amax(), (2, 3)),
    "aminmax": (lambda x: tuple(x.aminmax(dim=0)), (2, 3)),
    "max": (lambda x: x.max(), (2, 3)),
    "max dim": (lambda x: x.max(1).values, (2, 3)),
    "min dim": (lambda x: x.min(0, keepdim=True).values, (2, 3)),
    "max 0-dim": (lambda x: x.max(0).values, ()),
    "cummax": (lambda x: x.cummax(1).values, (2, 3)),
    "cummin": (lambda x: x.cummin(0).values, (3, 2)),
    "sort": (lambda x: x.sort().values, (2, 3)),
    "sort descending": (lambda x: x.sort(0, descending=True).values, (3, 2)),
    "msort": (lambda x: x.msort(), (3, 2)),
    "topk": (lambda x: x.topk(2).values, (2, 3)),
    "topk smallest": (lambda x: x.topk(2, 0, largest=False).values, (3, 2)),
    "kthvalue": (lambda x: x.kthvalue(2, 1).values, (2, 3)),
    "median": (lambda x: x.median(), (2, 3)),
    "median dim": (lambda x: x.median(1, True).values, (2, 3)),
    "nanmedian": (lambda x: x.nanmedian(), (2, 3)),
    "nanmedian nan": (lambda x: x.nanmedian(1).values, NANS),
    "quantile": (lambda x: x.quantile(0.4), (2, 3)),
    "quantile several": (
        lambda x: x.quantile(tensor.tensor([0.1, 0.7], dtype=x.dtype), 1, keepdim=True),
        (2, 3),
    ),
    "quantile lower": (lambda x: x.quantile(0.4, 0, interpolation="lower"), (3, 2)),
    "quantile midpoint": (lambda x: x.quantile(0.4, 0, interpolation="midpoint"), (3, 2)),
    "quantile nearest": (lambda x: x.quantile(0.4, 0, interpolation="nearest"), (3, 2)),
    "nanquantile": (lambda x: x.nanquantile(0.4, 1), NANS),
    "quantile higher": (lambda x: x.nanquantile(0.4, 1, interpolation="higher"), NANS),
}
#: For real and complex numbers.
PRODUCTS: dict[str, tuple[Any, ...]] = {
    "mm": (lambda a, b: a @ b, (2, 3), (3, 2)),
    "mm transposed": (lambda a, b: a.t().mm(b.t()), (3, 2), (2, 3)),
    "mm nothing": (lambda a, b: a.mm(b), (2, 0), (0, 2)),
    "bmm": (lambda a, b: a.bmm(b), (2, 2, 3), (2, 3, 1)),
    "bmm stretched": (lambda a, b: a.expand(2, 2, 3).bmm(b), (1, 2, 3), (2, 3, 2)),
    "mv": (lambda a, b: a.mv(b), (2, 3), (3,)),
    "dot": (lambda a, b: a.dot(b), (3,), (3,)),
    "vdot": (lambda a, b: a.vdot(b), (3,), (3,)),
    "matmul vector matrix": (lambda a, b: a.matmul(b), (3,), (3, 2)),
    "matmul matrices vector": (lambda a, b: a @ b, (2, 2, 3), (3,)),
    "matmul vector matrices": (lambda a, b: a @ b, (2,), (2, 2, 3)),
    "matmul tall": (lambda a, b: a @ b, (2, 2, 3), (3, 2)),
    "matmul broadcast": (lambda a, b: a @ b, (2, 1, 1, 3), (2, 3, 2)),
    "addmm": (lambda c, a, b: tensor.addmm(c, a, b, beta=0.5, alpha=2), (2,), (2, 3), (3, 2)),
    "addmm beta 0": (lambda c, a, b: c.addmm(a, b, beta=0), (2, 2), (2, 3), (3, 2)),
    "addmv": (lambda c, a, b: tensor.addmv(c, a, b, beta=3, alpha=2), (2,), (2, 3), (3,)),
    "baddbmm": (lambda c, a, b: c.baddbmm(a, b, beta=2, alpha=-1), (2, 1, 2), (2, 2, 3), (2, 3, 2)),
    "addbmm": (lambda c, a, b: c.addbmm(a, b, beta=2, alpha=-1), (2, 2), (2, 2, 3), (2, 3, 2)),
    "inner": (lambda a, b: a.inner(b), (2, 3), (3,)),
    "outer": (lambda a, b: a.outer(b), (2,), (3,)),
    "tensordot": (lambda a, b: tensor.tensordot(a, b, ([1, 0], [0, 2])), (2, 3), (3, 1, 2)),
    "kron": (lambda a, b: tensor.kron(a, b), (2, 2), (2, 1)),
    "einsum": (lambda a, b: tensor.einsum("bij,bjk->ibk", a, b), (2, 2, 3), (2, 3, 1)),
    "einsum trace": (lambda a: tensor.einsum("ii", a), (3, 3)),
    "einsum diagonal": (lambda a, b: tensor.einsum("ii,i->i", a, b), (3, 3), (3,)),
    "einsum three": (lambda a, b, c: tensor.einsum("i,ij,j", a, b, c), (2,), (2, 3), (3,)),
    "einsum dots": (lambda a, b: tensor.einsum("...i,ji->...j", a, b), (2, 1, 3), (2, 3)),
    "einsum one": (lambda a: tensor.einsum("ij->j", a), (2, 3)),
    "trace": (lambda a: a.trace(), (3, 2)),
    "cross": (lambda a, b: tensor.cross(a, b), (2, 3), (1, 3)),
}
#: For real and complex numbers.
JOINS: dict[str, tuple[Any, ...]] = {
    "cat": (lambda a, b: tensor.cat([a, b], 1), (2, 3), (2, 1)),
    "cat twice the same": (lambda a: tensor.cat([a, a, a * 2]), (2, 2)),
    "cat empty": (lambda a, b: tensor.cat([a, b], 0), (2, 2), (0,)),
    "cat types": (lambda a, b: tensor.cat([a, b.float() * 2, b]), (2,), (2,)),
    "stack": (lambda a, b: tensor.stack([a, b], -1), (2, 2), (2, 2)),
    "hstack": (lambda a, b: tensor.hstack([a, b]), (2,), (1,)),
    "vstack": (lambda a, b: tensor.vstack([a, b]), (2,), (3, 2)),
    "dstack": (lambda a, b: tensor.dstack([a, b]), (2,), (2,)),
    "column_stack": (lambda a, b: tensor.column_stack([a, b]), (2,), (2, 2)),
    "repeat": (lambda a: a.repeat(2, 1, 3), (2, 2)),
    "tile": (lambda a: a.tile(2), (2, 2)),
    "block_diag": (lambda a, b, c: tensor.block_diag(a, b, c), (2, 1), (2,), ()),
    "cartesian_prod": (lambda a, b: tensor.cartesian_prod(a, b), (2,), (3,)),
    "meshgrid": (lambda a, b: tensor.meshgrid(a, b, indexing="xy"), (2,), (3,)),
    "atleast_3d": (lambda a, b: tensor.atleast_3d(a, b), (2,), ()),
}
#: For real and complex numbers.
VIEWS: dict[str, tuple[Any, ...]] = {
    "view": (lambda x: x.view(3, 2), (2, 3)),
    "view_as": (lambda x, y: x.view_as(y) * y, (2, 3), (6, 1)),
    "reshape": (lambda x: x.t().reshape(-1), (2, 3)),
    "flatten": (lambda x: x.flatten(1), (2, 2, 2)),
    "ravel": (lambda x: x.t().ravel(), (2, 3)),
    "unflatten": (lambda x: x.unflatten(0, (2, -1)), (4, 2)),
    "permute": (lambda x: x.permute(2, 0, 1), (2, 1, 3)),
    "transpose": (lambda x: x.transpose(0, 2), (2, 1, 3)),
    "t": (lambda x: x.t(), (2, 3)),
    "mT": (lambda x: x.mT, (2, 1, 3)),
    "mH": (lambda x: x.mH, (2, 3)),
    "movedim": (lambda x: x.movedim((0, 1), (2, 0)), (2, 1, 3)),
    "squeeze": (lambda x: x.squeeze(), (1, 2, 1)),
    "squeeze dim": (lambda x: x.squeeze(0), (1, 2, 1)),
    "unsqueeze": (lambda x: x.unsqueeze(1), (2, 2)),
    "expand": (lambda x: x.expand(2, 3, 2), (3, 1)),
    "expand_as": (lambda x, y: x.expand_as(y) * y, (2, 1), (2, 2)),
    "broadcast_to": (lambda x: x.broadcast_to((2, 3)), ()),
    "select": (lambda x: x.select(1, -2), (2, 3)),
    "narrow": (lambda x: x.narrow(1, 1, 2), (2, 3)),
    "steps": (lambda x: x[:, 1::2], (2, 5)),
    "element": (lambda x: x[1, 2], (2, 3)),
    "None and dots": (lambda x: x[None, ..., 0], (2, 2, 2)),
    "split": (lambda x: x.split(2, 1), (2, 3)),
    "split sizes": (lambda x: x.split([1, 2]), (3, 2)),
    "chunk": (lambda x: x.chunk(2), (3, 2)),
    "tensor_split": (lambda x: x.tensor_split((1, 2), 1), (2, 4)),
    "unbind": (lambda x: x.unbind(1), (2, 3)),
    "iteration": (lambda x: no(list(x)) * 2, (2, 2)),
    "unfold": (lambda x: x.unfold(1, 2, 1), (2, 4)),
    "unfold with gaps": (lambda x: x.unfold(0, 2, 3), (5, 1)),
    "diagonal": (lambda x: x.diagonal(1), (3, 4)),
    "diagonal dims": (lambda x: x.diagonal(-1, 0, 2), (3, 2, 3)),
    "as_strided": (lambda x: x.as_strided((2, 2), (3, 1), 1), (2, 3)),
    "as_strided overlapping": (lambda x: x.as_strided((3, 2), (1, 1)), (4,)),
    "as_strided of a part": (lambda x: (x * 2)[1:].as_strided((2,), (2,), 3), (2, 3)),
    "conj": (lambda x: x.conj() * x, (2, 2)),
    "copy": (lambda x: x.t().clone(), (2, 3)),
    "as_strided of a stretched": (lambda x: x.expand(3, 2).as_strided((2, 2), (1, 0)), (1, 2)),
    "contiguous": (lambda x: x.t().contiguous(), (2, 3)),
    "nothing": (lambda x: x[:, 1:1], (2, 3)),
    "twice": (lambda x: x.t()[1] * x[:, 1], (2, 3)),
}
#: For complex numbers.
COMPLEX: dict[str, tuple[Any, ...]] = {
    "view_as_real": (lambda z: tensor.view_as_real(z), (2, 2)),
    "real": (lambda z: z.real, (2, 2)),
    "imag": (lambda z: z.imag * 2, (2, 2)),
    "abs of sums": (lambda z: z.sum(0).abs(), (2, 2)),
    "real of a product": (lambda z, w: (z @ w).real, (2, 2), (2, 2)),
    "copied parts": (lambda z: tensor.stack([z.real.clone(), z.imag]), (2,)),
    "to real": (lambda z: z.real.to(tensor.complex128) * z, (2,)),
}
#: For real numbers.
TYPES: dict[str, tuple[Any, ...]] = {
    "to complex": (lambda x: x.to(tensor.complex128) * (1 + 2j), (2, 2)),
    "cdouble": (lambda x: x.cdouble().abs(), (2, 2)),
    "view_as_complex": (lambda x: tensor.view_as_complex(x), (2, 2)),
    "complex": (lambda x, y: tensor.complex(x, y), (2,), (2,)),
    "double": (lambda x: x.double() * 2, (2,)),
    "times complex": (lambda x: x * (1 - 1j), (2, 2)),
    "dot of types": (lambda x: (x.to(tensor.complex128) @ x.to(tensor.complex128)).real, (2, 2)),
}


def write_part(x: Any, y: Any) -> Any:
    result = x * 2
    result[:, 1:] = y
    return result * result


def write_view(x: Any, y: Any) -> Any:
    result = x * 1
    view = result.t()[1]
    view.mul_(y)
    return result, view * 3


def write_all(x: Any, y: Any) -> Any:
    return (x * 1).copy_(y) * x


def write_stretched(x: Any, y: Any) -> Any:
    result = x.clone()
    result.copy_(y)
    return result * result


def write_number(x: Any) -> Any:
    result = x * 2
    result[0].fill_(3)
    result[1, 1] = 0
    return result * x


def write_twice(x: Any, y: Any) -> Any:
    result = x.new_zeros(2, 3)
    result[0] = x
    result[1] = result[0].clone() * y
    return result


def write_overlapping_part(x: Any) -> Any:
    result = x.clone()
    result[1:] += result[:-1].clone() * x[1:]
    return result


def write_type(x: Any) -> Any:
    result = x.new_zeros(3, dtype=tensor.complex128)
    result.copy_(x)
    return result * 2j


#: For real and complex numbers.
WRITES: dict[str, tuple[Any, ...]] = {
    "part": (write_part, (2, 3), (2, 2)),
    "view": (write_view, (2, 3), (2,)),
    "all": (write_all, (2, 2), (2, 2)),
    "stretched": (write_stretched, (2, 2), (2,)),
    "number": (write_number, (2, 2)),
    "from itself": (write_twice, (3,), (3,)),
    "overlapping": (write_overlapping_part, (3,)),
    "type": (write_type, (3,)),
    "zero_": (lambda x: (x * 2).zero_() * x, (2,)),
    "add_ of a stretched": (lambda x, y: (x * 1).add_(y), (2, 3), (3,)),
}
