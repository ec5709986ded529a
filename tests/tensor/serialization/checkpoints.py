"""Checkpoints through files, compared to the last bit; and files with headers of one's own."""

from __future__ import annotations

import io
import json
import math
import struct
from collections import defaultdict
from typing import Any

import pytest

import tensor
from nvrtc_kernels import dtypes
from tensor import Tensor
from tests.tensor.comparison import array_of, assert_same_elements

KINDS = pytest.mark.parametrize("kind", dtypes.ALL, ids=lambda kind: kind.name)


def through_file(given: Any, **options: Any) -> Any:
    file = io.BytesIO()
    tensor.save(given, file)
    file.seek(0)
    result = tensor.load(file, **options)
    assert not file.read()
    return result


def assert_same(found: Any, expected: Any, where: str = "it") -> None:
    """Assert that two checkpoints are equal to the last bit and type."""
    assert type(found) is type(expected), where
    if isinstance(expected, Tensor):
        assert found.dtype is expected.dtype, where
        assert found.device == expected.device, where
        assert found.requires_grad == expected.requires_grad, where
        assert_same_elements(array_of(found), array_of(expected))
        assert_same(vars(found), vars(expected), f"{where}.__dict__")
    elif isinstance(expected, dict):
        assert [*map(repr, found)] == [*map(repr, expected)], where
        for (key, one), (_, other) in zip(found.items(), expected.items(), strict=True):
            assert_same(one, other, f"{where}[{key!r}]")
        if isinstance(expected, defaultdict):
            assert found.default_factory is expected.default_factory
        if hasattr(expected, "__dict__"):
            assert_same(vars(found), vars(expected), f"{where}.__dict__")
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected), where
        for device, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_same(one, other, f"{where}[{device}]")
    else:
        assert repr(found) == repr(expected), where


def numbers(kind: dtypes.dtype, *shape: int) -> Tensor:
    return tensor.arange(math.prod(shape)).reshape(shape).to(kind)


def file_of(header: Any, data: bytes = b"") -> bytes:
    text = (
        header
        if isinstance(header, bytes)
        else header.encode()
        if isinstance(header, str)
        else json.dumps(header).encode()
    )
    return struct.pack("<Q", len(text)) + text + data


def entry(kind: str = "F32", shape: Any = (1,), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": offsets}
