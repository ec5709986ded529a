"""The samples of every operation, with operands of other types that lie differently: PyTorch's results.

What PyTorch takes is taken, and gives the same type, shape and numbers; more types may be.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from tests.tensor.comparison import array_of, outcome
from tests.tensor.expressions import value

from .test_every_operation import ARRAYS, SAMPLES

pytestmark = pytest.mark.parity

#: Ties, or signs, may be decided in another way; or NaN, where PyTorch's half precision overflows on the way.
_AMBIGUOUS = {
    "topk",
    "kthvalue",
    "mode",
    "matrix_exp",
    "qr",
    "lu",
    "lu_unpack",
    "geqrf",
    "ormqr",
    "orgqr",
    "svd",
    "eig",
}
#: What is not here: complex numbers of half precision, integers of no elements in linear
#: algebra and softmax, windows that add up to 0, and views of storages with gaps that are written.
_MISSING = {
    "float16": {"complex", "istft"},
    "bool": {"istft"},
    "nothing": {"softmax", "log_softmax", "cholesky", "conv2d", "median", "nanmedian", "as_strided_scatter"},
}
_CASES = [
    ("float32", "reversed"),
    ("float16", "gaps"),
    ("bfloat16", "contiguous"),
    ("int64", "gaps"),
    ("uint8", "reversed"),
    ("bool", "gaps"),
    ("complex64", "gaps"),
    ("float64", "nothing"),
]
_TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "complex64": 2e-5}


def _laid_out(library: Any, x: Any, layout: str) -> Any:
    if layout == "nothing":
        return x[:0] if x.ndim > 1 else x
    if layout == "reversed":
        order = tuple(range(x.ndim))[::-1]
        return x.permute(order).contiguous().permute(order)
    if layout == "gaps" and x.ndim:
        *lead, last = x.shape
        wide = library.zeros((*lead, 2 * last + 1), dtype=x.dtype)
        wide[..., 1::2] = x
        return wide[..., 1::2]
    return x


def _operands(library: Any, kind: str, layout: str) -> dict[str, Any]:
    result = {}
    for name, array in ARRAYS.items():
        x = library.from_numpy(array.copy())
        if name in "xyzsvw":
            if kind in ("int64", "uint8", "bool"):
                x = (x * 3).abs() if kind == "uint8" else x * 3
            x = x.to(getattr(library, kind))
        result[name] = _laid_out(library, x, layout)
    return result


def _flat(result: Any) -> list[Any]:
    return [x for part in result for x in _flat(part)] if isinstance(result, (tuple, list)) else [result]


def _difference(found: Any, expected: Any) -> str:
    """What is different of two results; nothing where they are alike."""
    import torch

    ours, theirs = _flat(found), _flat(expected)
    if len(ours) != len(theirs):
        return f"{len(ours)} results instead of {len(theirs)}"
    for a, b in zip(ours, theirs, strict=True):
        if not isinstance(b, torch.Tensor):
            if str(a).replace("tensor.", "torch.") != str(b).replace("tensor.", "torch."):
                return f"{a} instead of {b}"
            continue
        kind = str(b.dtype).split(".")[1]
        if (str(a.dtype).split(".")[1], tuple(a.shape)) != (kind, tuple(b.shape)):
            return f"{a.dtype} {tuple(a.shape)} instead of {b.dtype} {tuple(b.shape)}"
        x, y = array_of(a), array_of(b)
        wide = np.complex128 if x.dtype.kind == "c" else np.float64
        limit = _TOLERANCE.get(kind, 1e-9)
        if not np.allclose(x.astype(wide), y.astype(wide), limit, limit, equal_nan=True):
            return f"{x} instead of {y}"
    return ""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "layout"), _CASES)
def test_samples(kind: str, layout: str) -> None:
    torch = pytest.importorskip("torch")
    left_out = _AMBIGUOUS | _MISSING.get(kind, set()) | _MISSING.get(layout, set())
    ours, theirs = (_operands(library, kind, layout) for library in (tensor, torch))
    wrong = {}
    for name, texts in SAMPLES.items():
        for text in texts if name not in left_out else ():
            expected = outcome(value, text, torch, **theirs)
            if isinstance(expected, Exception):
                continue
            result = outcome(value, text, tensor, **ours)
            different = repr(result) if isinstance(result, Exception) else _difference(result, expected)
            if different:
                wrong[text] = different
    assert not wrong
