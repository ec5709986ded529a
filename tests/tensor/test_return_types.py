"""Results with several tensors: classes under PyTorch's names, which print as PyTorch's."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import tensor
from tests.tensor.expressions import value

CALLS = {
    "max": "x.max(0)",
    "min": "x.min(0)",
    "aminmax": "x.aminmax()",
    "sort": "x.sort(1)",
    "topk": "x.topk(2)",
    "kthvalue": "x.kthvalue(2)",
    "median": "x.median(0)",
    "nanmedian": "x.nanmedian(0)",
    "mode": "x.mode(0)",
    "cummax": "x.cummax(0)",
    "cummin": "x.cummin(0)",
    "frexp": "m.frexp(x)",
    "histogram": "m.histogram(x, 3)",
    "histogramdd": "m.histogramdd(x, [1, 1, 1])",
    "slogdet": "m.slogdet(x)",
    "qr": "m.qr(x)",
    "svd": "m.svd(x)",
    "geqrf": "m.geqrf(x)",
    "triangular_solve": "m.triangular_solve(x, x)",
    "lu_unpack": "m.lu_unpack(*m.linalg.lu_factor(x))",
    "linalg_slogdet": "m.linalg.slogdet(x)",
    "linalg_qr": "m.linalg.qr(x)",
    "linalg_svd": "m.linalg.svd(x)",
    "linalg_eig": "m.linalg.eig(x)",
    "linalg_eigh": "m.linalg.eigh(x)",
    "linalg_lu": "m.linalg.lu(x)",
    "linalg_lu_factor": "m.linalg.lu_factor(x)",
    "linalg_lu_factor_ex": "m.linalg.lu_factor_ex(x)",
    "linalg_ldl_factor": "m.linalg.ldl_factor(x + x.t())",
    "linalg_ldl_factor_ex": "m.linalg.ldl_factor_ex(x + x.t())",
    "linalg_inv_ex": "m.linalg.inv_ex(x)",
    "linalg_solve_ex": "m.linalg.solve_ex(x, x)",
    "linalg_cholesky_ex": "m.linalg.cholesky_ex(x @ x.t())",
    "linalg_lstsq": "m.linalg.lstsq(x, x)",
}
#: Whose numbers are not the only right ones, or not exact.
_INEXACT = frozenset(
    ("linalg_eig", "linalg_eigh", "linalg_svd", "svd", "linalg_solve_ex", "linalg_lstsq", "kthvalue")
)


def _matrix(library: Any, device: str) -> Any:
    return library.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0], [1.0, 1.5, 9.0]], device=device)


def test_every_type_has_a_call() -> None:
    assert set(tensor.return_types.__all__) == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_results_are_of_the_functions_type(name: str, device_name: str) -> None:
    result = value(CALLS[name], tensor, device_name, x=_matrix(tensor, device_name))
    cls = getattr(tensor.return_types, name)
    assert type(result) is cls
    assert isinstance(result, tuple)
    fields = ",\n".join(f"{field}={getattr(result, field)!r}" for field in cls._fields)
    assert repr(result) == str(result) == f"tensor.return_types.{name}(\n{fields})"
    same = pickle.loads(pickle.dumps(result))
    assert type(same) is type(copy.copy(result)) is cls
    assert repr(same) == repr(result)


def test_out_gives_the_type_too(device_name: str) -> None:
    x = _matrix(tensor, device_name)
    out = tensor.empty(3, device=device_name), tensor.empty(3, dtype=tensor.int64, device=device_name)
    result = tensor.max(x, 0, out=out)
    assert type(result) is tensor.return_types.max
    assert result.values is out[0]


@pytest.mark.parity
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore")
def test_texts_are_pytorchs(name: str) -> None:
    import torch

    result = value(CALLS[name], tensor, "cpu", x=_matrix(tensor, "cpu"))
    expected = value(CALLS[name], torch, "cpu", x=_matrix(torch, "cpu"))
    assert type(result).__name__ == type(expected).__name__
    assert type(result).__module__.replace("tensor.", "torch.") == type(expected).__module__
    if name in _INEXACT:
        assert repr(result).split("\n")[0] == repr(expected).split("\n")[0].replace("torch.", "tensor.")
        assert [each for each in result._fields if not hasattr(expected, each)] == []
    else:
        assert repr(result) == repr(expected).replace("torch.", "tensor.")


@pytest.mark.parity
def test_every_type_of_pytorch_is_here() -> None:
    import torch

    public = {
        name
        for name, cls in vars(torch.return_types).items()
        if isinstance(cls, type) and issubclass(cls, tuple) and name[0] != "_" and not name.endswith("_out")
    }
    assert public == set(tensor.return_types.__all__)
