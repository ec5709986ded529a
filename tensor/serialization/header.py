"""The header of a safetensors file: eight bytes with its length, then JSON that says where each tensor's bytes are.

It is read here, and not by the ``safetensors`` package: that takes no file objects, makes copies of what it reads, and of
two tensors of one name keeps the last.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import dtypes

from .structure import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable

#: The longest header, in bytes, that the format allows.
LONGEST = 100_000_000
LENGTH_BYTES = 8
_MOST = 1 << 63
_CODES = {
    "BOOL": dtypes.bool_,
    "U8": dtypes.uint8,
    "I8": dtypes.int8,
    "I16": dtypes.int16,
    "I32": dtypes.int32,
    "I64": dtypes.int64,
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "F32": dtypes.float32,
    "F64": dtypes.float64,
    "C64": dtypes.complex64,
    "U16": dtypes.uint16,
    "U32": dtypes.uint32,
    "U64": dtypes.uint64,
    "F8_E4M3": dtypes.float8_e4m3fn,
    "F8_E5M2": dtypes.float8_e5m2,
}
#: What the format calls a dtype.
CODES = {dtype: code for code, dtype in _CODES.items()}
_FOREIGN = {
    b"\x80\x02": "a pickle, but none of torch.save's",
}


@dataclass(slots=True)
class Entry:
    """A tensor in a file: ``start`` and ``stop`` count bytes from the end of the header."""

    name: str
    dtype: dtypes.dtype
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(slots=True)
class Header:
    """What a header says. The entries follow each other in the file without gaps."""

    metadata: dict[str, str]
    entries: list[Entry]

    @property
    def data_bytes(self) -> int:
        """Size of all tensors."""
        return self.entries[-1].stop if self.entries else 0

    def described(self) -> list[list[Any]]:
        """Names, types and shapes, ordered by name."""
        return sorted([each.name, each.dtype.name, list(each.shape)] for each in self.entries)


def read_header(read: Callable[[int], bytes], size: int | None, *, whole: bool = False) -> Header:
    """Read and check a header.

    Parameters
    ----------
    read
        Gives that many bytes, or fewer at the end of the file.
    size
        Bytes from here to the end of the file, ``None`` where that is not known.
    whole
        Whether the file ends with its tensors.

    Raises
    ------
    UnreadableError
        If there is none, or it does not describe the file.
    """
    first = read(LENGTH_BYTES)
    try:
        return _after(first, read, size, whole)
    except UnreadableError:
        for magic, what in _FOREIGN.items():
            if first.startswith(magic):
                raise UnreadableError(
                    f"it is {what}, and not a safetensors file; reading a pickle can run any code, so it is not done "
                    "here: write the state dict with torch.save or safetensors.torch.save_file"
                ) from None
        raise


def _after(first: bytes, read: Callable[[int], bytes], size: int | None, whole: bool) -> Header:
    if len(first) < LENGTH_BYTES:
        raise UnreadableError(
            f"it ends after {len(first)} bytes, where a safetensors file has {LENGTH_BYTES} at least"
        )
    length = int.from_bytes(first, "little")
    rest = None if size is None else size - LENGTH_BYTES
    if length > LONGEST or (rest is not None and length > rest):
        raise UnreadableError(
            f"it is no safetensors file, or was cut off: its header would be {length} bytes long"
            + ("" if rest is None else f", of {rest} that follow")
        )
    text = read(length)
    if len(text) < length:
        raise UnreadableError(f"it was cut off: it ends within its header of {length} bytes")
    header = _parsed(text)
    result = header.data_bytes if rest is None else rest - length
    if result < header.data_bytes or (whole and result > header.data_bytes):
        raise UnreadableError(
            f"it was {'cut off' if result < header.data_bytes else 'added to'}: its tensors need {header.data_bytes} bytes, "
            f"and {result} are there"
        )
    return header


def parse_json(text: str | bytes) -> Any:
    """``text`` as JSON in which no object has a key twice.

    Raises
    ------
    UnreadableError
        If it is not that.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except RecursionError:
        raise UnreadableError("its JSON nests too deep") from None
    except ValueError as error:
        raise UnreadableError(f"its JSON is malformed: {error}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise UnreadableError(f"it has {twice!r} twice in one JSON object")
    return result


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number in JSON")


def _parsed(text: bytes) -> Header:
    try:
        result = parse_json(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UnreadableError(f"it is no safetensors file, its header is not text: {error}") from None
    if type(result) is not dict:
        raise UnreadableError("it is no safetensors file: its header is no JSON object")
    metadata = result.pop("__metadata__", {})
    if type(metadata) is not dict or not all(type(value) is str for value in metadata.values()):
        raise UnreadableError("its metadata is not a table of texts")
    entries = sorted(
        (_entry(name, value) for name, value in result.items()), key=lambda entry: (entry.start, entry.stop)
    )
    end = 0
    for entry in entries:
        if entry.start != end:
            wrong = "overlap another one's" if entry.start < end else "leave a gap before them"
            raise UnreadableError(
                f"the bytes of tensor {entry.name!r} ({entry.start} to {entry.stop}) {wrong}"
            )
        end = entry.stop
    return Header(metadata, entries)


def _entry(name: str, result: Any) -> Entry:
    if type(result) is not dict or result.keys() != {"dtype", "shape", "data_offsets"}:
        raise UnreadableError(
            f"its header describes tensor {name!r} by other things than dtype, shape and data_offsets"
        )
    code, shape, offsets = result["dtype"], result["shape"], result["data_offsets"]
    if type(code) is not str or code not in _CODES:
        raise UnreadableError(
            f"tensor {name!r} has type {code!r}, which there is no tensor of; known are {', '.join(_CODES)}"
        )
    shape, offsets = (
        sizes(shape, f"the shape of tensor {name!r}"),
        sizes(offsets, f"offsets of tensor {name!r}"),
    )
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise UnreadableError(f"offsets of tensor {name!r} are {list(offsets)}, which is no range")
    dtype = _CODES[code]
    if prod(shape) * dtype.itemsize != offsets[1] - offsets[0]:
        raise UnreadableError(
            f"tensor {name!r} of shape {list(shape)} and type {dtype.name} does not fill its bytes {offsets[0]} to "
            f"{offsets[1]}"
        )
    return Entry(name, dtype, shape, *offsets)


def sizes(result: Any, what: str) -> tuple[int, ...]:
    """``found``, a list of numbers that may be sizes, strides or offsets.

    Raises
    ------
    UnreadableError
        If it is no such list.
    """
    if type(result) is not list or not all(type(each) is int and 0 <= each < _MOST for each in result):
        raise UnreadableError(f"{what} should be a list of sizes, and is {repr(result)[:80]}")
    return tuple(result)
