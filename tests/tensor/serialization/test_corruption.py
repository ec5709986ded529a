"""Checkpoints with bits flipped, cut off, or replaced: an error, or what was saved."""

from __future__ import annotations

import io
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tensor
from nvrtc_kernels.dtypes import dtype_named
from tensor.serialization import sources

from .checkpoints import assert_same, file_of

RICH = {
    "model": OrderedDict({"w": tensor.arange(6.0).reshape(2, 3).t(), "b": tensor.tensor([True, False])}),
    "state": {0: {"step": tensor.tensor(3.0), "z": tensor.ones(2, dtype=tensor.complex128)}},
    "lr": 0.1, "names": ["a", ("b", None)], "counter": Counter({3: 1}), "half": tensor.ones(3, dtype=tensor.bfloat16),
}  # fmt: skip
RICH["model"]._metadata = OrderedDict({"": {"version": 1}})


def rich_bytes() -> bytes:
    file = io.BytesIO()
    tensor.save(RICH, file)
    return file.getvalue()


def same_or_refused(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    for source in (path, io.BytesIO(content)):
        try:
            result = tensor.load(source)
        except RuntimeError as error:
            assert str(error).startswith("cannot load")
        else:
            assert_same(result, RICH)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_flipped_bits_are_found(tmp_path: Path, place: int, bits: int) -> None:
    content = bytearray(rich_bytes())
    content[place % len(content)] ^= bits
    same_or_refused(bytes(content), tmp_path / "it")


def test_every_truncation_is_found(tmp_path: Path) -> None:
    content = rich_bytes()
    for length in range(len(content)):
        with pytest.raises(RuntimeError, match="cannot load"):
            tensor.load(io.BytesIO(content[:length]))


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.binary(max_size=30))
def test_replaced_bytes_are_found(tmp_path: Path, start: int, count: int, new: bytes) -> None:
    content = rich_bytes()
    start %= len(content)
    same_or_refused(content[:start] + new + content[start + count % 40 :], tmp_path / "it")


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_bytes_without_meaning(content: bytes) -> None:
    for file in (content, file_of(content), file_of(b'{"a":' + content + b"}", bytes(8))):
        try:
            result = tensor.load(io.BytesIO(file))
        except RuntimeError as error:
            assert str(error).startswith("cannot load")
        else:
            assert type(result) is dict


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.text(max_size=3),
        st.fixed_dictionaries(
            {
                "dtype": st.sampled_from(["F32", "U8", "BOOL", "C64", "F99"]),
                "shape": st.lists(st.integers(-1, 4) | st.just(2**62), max_size=3),
                "data_offsets": st.lists(st.integers(-1, 16), min_size=1, max_size=3),
            }
        ),
        max_size=3,
    ),
    st.integers(0, 16),
)
def test_headers_that_the_package_refuses_are_refused(
    tmp_path: Path, header: dict[str, Any], size: int
) -> None:
    content = file_of(header, bytes(size))
    (tmp_path / "it").write_bytes(content)
    try:
        result = tensor.load(tmp_path / "it")
    except RuntimeError:
        return
    theirs = dict(safetensors.deserialize(content))
    assert {name: list(each.shape) for name, each in result.items()} == {
        name: each["shape"] for name, each in theirs.items()
    }


def test_names_of_dtypes_are_those_of_the_package() -> None:
    for name in ("bool", "bfloat16", "complex64"):
        assert dtype_named(name).numpy.name == name


class Trickle(io.RawIOBase):
    """A file that cannot go back, and gives a few bytes at a time."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part, self._content = self._content[: min(len(buffer), 5)], self._content[min(len(buffer), 5) :]
        buffer[: len(part)] = part
        return len(part)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8, 9, 30])
def test_large_tensors_are_checked_while_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    # Large is two pieces.
    monkeypatch.setattr(sources, "_PIECE", 16)
    path = tmp_path / "x"
    argument = [tensor.arange(float(count)), tensor.ones(7)]
    tensor.save(argument, path)
    assert_same(tensor.load(path), argument)
    whole = path.read_bytes()
    assert_same(tensor.load(Trickle(whole)), argument)
    for at in range(len(whole) - 4 * (count + 7), len(whole)):
        with pytest.raises(RuntimeError, match="not those that were written"):
            tensor.load(io.BytesIO(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :]))
    with pytest.raises(RuntimeError, match="it was cut off: it ends within tensor"):
        tensor.load(Trickle(whole[:-1]))
