"""Numbers of elements that top-k and k-th values are asked for."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensor

VALUES = [3.0, 1.0, 2.0]


@pytest.mark.parametrize("name", ["topk", "kthvalue"])
@pytest.mark.parametrize("k", [1.5, 2.0, "2", None])
def test_numbers_that_are_no_integers(name: str, k: Any) -> None:
    message = f"{name}(): argument 'k' must be int, not {type(k).__name__}"
    with pytest.raises(TypeError, match=re.escape(message)):
        getattr(tensor.tensor(VALUES), name)(k)


@pytest.mark.parametrize("k", [2, np.int64(2), tensor.tensor(2)])
def test_integers_of_other_types(k: Any) -> None:
    x = tensor.tensor(VALUES)
    assert x.topk(k).values.tolist() == [3, 2]
    assert x.kthvalue(k).values.item() == 2


@pytest.mark.parametrize(
    ("name", "k"), [("topk", 4), ("topk", -1), ("topk", np.int64(4)), ("kthvalue", 0), ("kthvalue", 4)]
)
def test_more_than_there_are(name: str, k: Any) -> None:
    with pytest.raises(RuntimeError, match=f"k out of range.*{k} of 3"):
        getattr(tensor.tensor(VALUES), name)(k)


def test_a_dimension_without_elements_has_no_kth_value(checked_device: str) -> None:
    with pytest.raises(IndexError, match=r"dim -2 to have non-zero size, but input has shape \[0, 4\]"):
        tensor.zeros(0, 4, device=checked_device).kthvalue(1, -2)
    assert tensor.zeros(4, 0, device=checked_device).kthvalue(1, 0).values.shape == (0,)
