"""Text of arrays: fixed examples, and PyTorch's own text where it is importable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tensor import printing


@pytest.fixture(autouse=True)
def default_options() -> Iterator[None]:
    printing.set_printoptions(profile="default")
    yield
    printing.set_printoptions(profile="default")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 20, -3], "tensor([ 1, 20, -3])"),
        ([True, False], "tensor([ True, False])"),
        ([1.0, 2.5], "tensor([1.0000, 2.5000])"),
        ([1.0, 2.0], "tensor([1., 2.])"),
        ([1.0, np.nan, -np.inf], "tensor([1., nan, -inf])"),
        ([1e-5, 1.0], "tensor([1.0000e-05, 1.0000e+00])"),
        ([1 + 2j, 0.5 - 1j], "tensor([1.0000+2.j, 0.5000-1.j])"),
        (3.0, "tensor(3.)"),
        ([], "tensor([])"),
        ([[1, 2], [3, 4]], "tensor([[1, 2],\n        [3, 4]])"),
        ([[[1], [2]], [[3], [4]]], "tensor([[[1],\n         [2]],\n\n        [[3],\n         [4]]])"),
    ],
)
def test_text(values: Any, expected: str) -> None:
    assert printing.tensor_text("tensor(", np.array(values), []) == expected


def test_long_arrays_are_shortened() -> None:
    text = printing.tensor_text("tensor(", np.arange(2000), [])
    assert text == "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"


def test_suffixes_wrap_at_the_line_width() -> None:
    printing.set_printoptions(linewidth=30)
    text = printing.tensor_text("tensor(", np.arange(5), ["device='cuda:0'", "dtype=tensor.int32"])
    assert text == "tensor([0, 1, 2, 3, 4],\n       device='cuda:0',\n       dtype=tensor.int32)"


def test_an_unknown_profile_changes_nothing() -> None:
    before = printing.get_printoptions()
    with pytest.raises(
        ValueError, match="unknown print profile 'long'; expected one of default, short, full"
    ):
        printing.set_printoptions(precision=7, profile="long")
    assert printing.get_printoptions() == before


DTYPES = st.sampled_from(["float32", "float64", "int64", "bool", "complex64"])
SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=7)
VALUES = st.one_of(
    arrays.arrays(dtype=DTYPES, shape=SHAPES),
    arrays.arrays(dtype="float32", shape=SHAPES, elements=st.integers(-(10**6), 10**6)),
    arrays.arrays(dtype="float32", shape=SHAPES, elements=st.floats(-10, 10, width=16)),
)


@given(
    VALUES,
    st.sampled_from([2, 4, 6]),
    st.sampled_from([1, 3]),
    st.sampled_from([40, 80]),
    st.sampled_from([10, 1000]),
    st.sampled_from([None, True, False]),
)
def test_text_is_pytorchs(
    array: Any, precision: int, edgeitems: int, linewidth: int, threshold: int, sci_mode: bool | None
) -> None:
    torch = pytest.importorskip("torch")
    options: dict[str, Any] = {
        "precision": precision,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
        "threshold": threshold,
        "sci_mode": sci_mode,
    }
    torch.set_printoptions(**options)
    printing.set_printoptions(**options)
    theirs = torch.from_numpy(array.copy())
    suffixes = ["dtype=torch.float64"] if array.dtype == np.float64 else []
    assert printing.tensor_text("tensor(", array, suffixes) == repr(theirs)
