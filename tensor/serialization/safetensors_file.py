"""Writing a safetensors file: the header, then one tensor at a time, whatever the number of them.

The ``safetensors`` package needs all tensors in host memory at once, and gives a file object the whole file as one ``bytes``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from nvrtc_kernels import dtypes

from .header import CODES, LENGTH_BYTES, LONGEST

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

#: Stored as pairs of floats: the format has no such type.
AS_PAIRS = {dtypes.complex128: dtypes.float64}
#: What the tensors that follow a header are aligned to.
_ALIGNMENT = 8


class Output(Protocol):
    """A file opened for writing."""

    def write(self, data: Any, /) -> Any: ...


class Item(NamedTuple):
    """A tensor of a file.

    Attributes
    ----------
    name : str
        Its name.
    dtype : dtype
        The type of its elements in the file.
    shape : tuple of int
        Its shape in the file.
    array : callable
        Gives its elements in host memory in row-major order, which nothing holds afterwards.
    """

    name: str
    dtype: dtypes.dtype
    shape: tuple[int, ...]
    array: Callable[[], NDArray[Any]]


def form_of(dtype: dtypes.dtype, shape: tuple[int, ...]) -> tuple[dtypes.dtype, tuple[int, ...]]:
    """The dtype and shape that a tensor has in a file."""
    pair = AS_PAIRS.get(dtype)
    return (dtype, shape) if pair is None else (pair, (*shape, 2))


def write_all(file: Output, data: Any) -> None:
    """Write ``data`` to a file, which may take less at a time."""
    rest = memoryview(data)
    while rest:
        count = file.write(rest)
        rest = rest[len(rest) if count is None else count :]


def ordered(items: Sequence[Item]) -> list[Item]:
    """Items in the order in which they stand in a file: each is aligned then, and the same ones give the same file."""
    return sorted(items, key=lambda each: (-each.dtype.itemsize, each.name))


def bytes_of(item: Item) -> NDArray[np.uint8]:
    """The bytes of a tensor in the file."""
    return item.array().reshape(-1).view(np.uint8)


def header(items: Sequence[Item], metadata: dict[str, str], length: int = 0) -> bytes:
    """The first bytes of a file: a length, and as many of JSON.

    Parameters
    ----------
    items
        The tensors, in order.
    metadata
        Texts beside them.
    length
        How many bytes all of it takes, at least; spaces fill it.

    Raises
    ------
    ValueError
        If it is longer than the format allows.
    """
    content: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for item in items:
        start, end = end, end + item.dtype.itemsize * int(np.prod(item.shape, dtype=object))
        content[item.name] = {
            "dtype": CODES[item.dtype],
            "shape": list(item.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(content, separators=(",", ":")).encode()
    size = max(length - LENGTH_BYTES, len(text) + -len(text) % _ALIGNMENT)
    if size > LONGEST:
        raise ValueError(
            f"cannot save the checkpoint: what is no tensor in it takes {size} bytes, and {LONGEST} are the most that the "
            "format allows; make long lists of numbers tensors"
        )
    return size.to_bytes(LENGTH_BYTES, "little") + text.ljust(size)
