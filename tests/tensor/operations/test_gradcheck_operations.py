"""First and second derivatives of reductions, scans, sorts, products, joins, views, copies and writes."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import tensor
from tensor.autograd import gradcheck, gradgradcheck

from . import gradient_cases as cases


def inputs_of(name: str, case: tuple[Any, ...], kind: str, device: str = "cpu") -> list[Any]:
    """Leaves with numbers that differ by a tenth at least, so that no order and no largest one is in doubt."""
    random = np.random.default_rng(zlib.crc32(name.encode()))

    def numbers(shape: Any) -> Any:
        if isinstance(shape, np.ndarray):
            return shape
        count = int(np.prod(shape, dtype=int))
        apart = (random.permutation(count) - count / 2) * 0.2 + random.uniform(0.05, 0.15, count)
        return apart.reshape(shape)

    result = []
    for shape in case[1:]:
        values = numbers(shape)
        if kind == "complex":
            imaginary = numbers(values.shape)
            # A zero stays one.
            values = np.where(values == 0, 0, values + 1j * imaginary)
        result.append(tensor.tensor(np.asarray(values), device=device).requires_grad_())
    return result


def check(name: str, table: dict[str, Any], kind: str, device: str = "cpu", **options: Any) -> None:
    case = table[name]
    argument = inputs_of(name, case, kind, device)
    assert gradcheck(case[0], argument, check_grad_dtypes=True, **options)
    assert gradgradcheck(case[0], argument, gen_non_contig_grad_outputs=True, **options)


kinds = pytest.mark.parametrize("kind", ["real", "complex"])


@kinds
@pytest.mark.parametrize("name", cases.REDUCTIONS)
@pytest.mark.sampled(4)
def test_reductions(name: str, kind: str) -> None:
    check(name, cases.REDUCTIONS, kind)


@pytest.mark.parametrize("name", cases.ORDERED)
def test_reductions_of_real_numbers(name: str) -> None:
    check(name, cases.ORDERED, "real")


@kinds
@pytest.mark.parametrize("name", cases.PRODUCTS)
@pytest.mark.sampled(4)
def test_products(name: str, kind: str) -> None:
    check(name, cases.PRODUCTS, kind)


@kinds
@pytest.mark.parametrize("name", [name for name in cases.JOINS if name != "cat types"])
@pytest.mark.sampled(4)
def test_joins(name: str, kind: str) -> None:
    check(name, cases.JOINS, kind)


@kinds
@pytest.mark.parametrize("name", cases.VIEWS)
@pytest.mark.sampled(4)
def test_views(name: str, kind: str) -> None:
    check(name, cases.VIEWS, kind)


@pytest.mark.parametrize("name", cases.COMPLEX)
def test_parts_of_complex_numbers(name: str) -> None:
    check(name, cases.COMPLEX, "complex")


@pytest.mark.parametrize("name", cases.TYPES)
def test_types(name: str) -> None:
    check(name, cases.TYPES, "real")


@kinds
@pytest.mark.parametrize("name", cases.WRITES)
@pytest.mark.sampled(4)
def test_writes(name: str, kind: str) -> None:
    check(name, cases.WRITES, kind)


#: One of each kind that has kernels or a derivative of its own; the simulator is slow.
ON_DEVICE = [
    *((cases.REDUCTIONS, name) for name in ("sum dims", "prod zeros", "var dim", "norm 3", "cumsum", "diff")),
    *((cases.ORDERED, name) for name in ("amax", "max dim", "cummax", "sort", "topk", "median", "quantile")),
    *((cases.ORDERED, name) for name in ("logcumsumexp", "nanmean nan", "logsumexp")),
    *((cases.PRODUCTS, name) for name in ("mv", "addmm", "bmm stretched", "einsum diagonal")),
    *((cases.JOINS, name) for name in ("cat", "block_diag")),
    *((cases.VIEWS, name) for name in ("steps", "unfold", "as_strided overlapping", "copy")),
    *((cases.TYPES, name) for name in ("to complex", "complex")),
    *((cases.WRITES, name) for name in ("part", "view")),
]


@pytest.mark.parametrize(("table", "name"), ON_DEVICE, ids=[name for _, name in ON_DEVICE])
@pytest.mark.sampled(4)
def test_on_a_device(device: Any, table: dict[str, Any], name: str) -> None:
    check(name, table, "real", "cuda", fast_mode=True)


@pytest.mark.parametrize("name", ["sum", "mm", "real"])
def test_complex_numbers_on_a_device(device: Any, name: str) -> None:
    table = next(t for t in (cases.REDUCTIONS, cases.PRODUCTS, cases.COMPLEX) if name in t)
    check(name, table, "complex", "cuda", fast_mode=True)


def test_copies_between_devices(two_devices: Any) -> None:
    def there_and_back(x: Any, y: Any) -> Any:
        return (x.to("cuda:1") * y.to("cuda:1")).cpu() * x.cpu(), y.cuda(0) * x

    x, y = inputs_of("x", (None, (2, 2), (2,)), "real")
    x = x.detach().cuda(0).requires_grad_()
    assert gradcheck(there_and_back, (x, y), fast_mode=True)
    assert gradgradcheck(there_and_back, (x, y), fast_mode=True)


def test_where_nothing_was_added_up_yet() -> None:
    x = tensor.tensor([[-float("inf"), -float("inf"), 0.3, -0.2]], dtype=tensor.float64, requires_grad=True)
    (result,) = tensor.autograd.grad(x.logcumsumexp(1)[:, 2:].sum(), x, create_graph=True)
    assert result[:, :2].tolist() == [[0, 0]]
    assert result[:, 2:].sum().item() == pytest.approx(2)
    (second,) = tensor.autograd.grad(result.sum(), x)
    assert not second.isnan().any()
