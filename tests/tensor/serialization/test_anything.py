"""Nested values and views of any kind come back."""

from __future__ import annotations

import io
import itertools
import random
from collections import OrderedDict
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import tensor
from nvrtc_kernels import dtypes
from tensor import Tensor

from .checkpoints import assert_same, numbers, through_file


def tensors() -> st.SearchStrategy[Tensor]:
    def made(kind: dtypes.dtype, shape: list[int], order: int, how: int, requires_grad: bool) -> Tensor:
        result = numbers(kind, *shape)
        dims = list(range(len(shape)))
        random.Random(order).shuffle(dims)
        result = result.permute(dims)
        if how == 1 and shape:
            result = result[::2]
        elif how == 2:
            result = result.unsqueeze(0).expand(3, *result.shape)
        elif how == 3 and result.numel():
            result = result.as_strided((2, 2), (0, 0))
        if kind.is_floating_point and requires_grad:
            result = result.detach().requires_grad_(True)
        return result

    return st.builds(
        made, st.sampled_from(dtypes.ALL), st.lists(st.integers(0, 3), max_size=3), st.integers(0, 9), st.integers(0, 5),
        st.booleans(),
    )  # fmt: skip


ATOMS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers()
    | st.text(st.characters(codec=None), max_size=5) | st.sampled_from([tensor.int8, tensor.device("cuda:1"), np.float32(2)])
)  # fmt: skip
KEYS = (
    st.text(max_size=4)
    | st.integers()
    | st.floats()
    | st.booleans()
    | st.none()
    | st.tuples(st.integers(), st.text())
)
NESTED = st.recursive(
    ATOMS | tensors(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=4), inner, max_size=4)
        | st.dictionaries(KEYS, inner, max_size=4).map(OrderedDict)
        | st.lists(inner, min_size=1, max_size=2).map(lambda values: values + values)
    ),
    max_leaves=12,
)


@settings(max_examples=150)
@given(NESTED)
def test_anything_nested_comes_back(value: Any) -> None:
    result = through_file(value)
    assert_same(result, value)
    # And that which came back can be saved in turn, as the same file.
    first, second = io.BytesIO(), io.BytesIO()
    tensor.save(result, first)
    tensor.save(through_file(result), second)
    assert first.getvalue() == second.getvalue()


@settings(max_examples=60)
@given(
    st.integers(0, 2**32),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 6)), min_size=2, max_size=6),
)
def test_views_of_one_memory(seed: int, parts: list[tuple[int, int, int]]) -> None:
    memory = tensor.arange(64, dtype=tensor.int32)
    chosen = random.Random(seed)
    argument = []
    for start, rows, columns in parts:
        size, stride = (rows, columns), (chosen.randrange(4), chosen.randrange(3))
        argument.append(memory.as_strided(size, stride, start + chosen.randrange(20)))
    result = through_file(argument)
    assert_same(result, argument)
    # Writing to one changes another where it did so before.
    for one, other in itertools.permutations(range(len(argument)), 2):
        if argument[one].numel() and argument[other].numel():
            for parts in (argument, result):
                parts[one].as_strided((1,), (1,)).fill_(-7)
            assert_same(result[other], argument[other])
            memory.copy_(tensor.arange(64))
            result = through_file(argument)
