"""Arguments divided into micro-batches, and outputs put together."""

from __future__ import annotations

from typing import Any

import pytest

import tensor
from parallel.pipelining.microbatch import TensorChunkSpec, merge_chunks, split_args_kwargs_into_chunks


def test_arguments_are_divided_as_specs_say() -> None:
    x, y = tensor.arange(8).reshape(2, 4), tensor.arange(4)
    spec = TensorChunkSpec(1)
    args, kwargs = split_args_kwargs_into_chunks(
        (x, [y, "sum"]), {"mask": y}, 2, (spec, [None, None]), TensorChunkSpec.from_dict({"mask": 0})
    )
    assert [[each[0].tolist(), each[1][0] is y, each[1][1]] for each in args] == [
        [[[0, 1], [4, 5]], True, "sum"],
        [[[2, 3], [6, 7]], True, "sum"],
    ]
    assert [each["mask"].tolist() for each in kwargs] == [[0, 1], [2, 3]]
    assert split_args_kwargs_into_chunks((), None, 2) == ([(), ()], [{}, {}])


def test_outputs_are_put_together() -> None:
    x = tensor.arange(4).reshape(2, 2)
    chunks: list[Any] = [{"x": x, "n": 3}, {"x": x + 4, "n": 3}]
    merged = merge_chunks(chunks, {"x": TensorChunkSpec(1), "n": None})
    assert merged["x"].tolist() == [[0, 1, 4, 5], [2, 3, 6, 7]] and merged["n"] == 3
    assert merge_chunks([x, x], None).shape == (4, 2)
    with pytest.raises(ValueError, match="that are to be the same"):
        merge_chunks([{"x": x, "n": 3}, {"x": x, "n": 4}], None)
    with pytest.raises(ValueError, match="1 entries for 2 values"):
        merge_chunks(chunks, (None,))
