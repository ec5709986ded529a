"""Batches from one process to another: pickled, their arrays in shared memory.

The receiver copies the arrays out and unlinks the block at once. Who asks for a batch chooses the name of its block,
and so can remove what a sender left that was killed.
"""

from __future__ import annotations

import io
import pickle
from multiprocessing import shared_memory
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.core.host.shared_memory import reserve
from tensor.methods.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    Packed = tuple[str | None, list[int], list[bytes]]

#: Bytes up to which a batch goes through the pipe itself.
_INLINE = 16 * 1024
_ALIGNED = 64
_OUT_OF_BAND = 5


class _Pickler(pickle.Pickler):
    """Takes of a tensor that views part of a storage only its elements: the storage may be a whole dataset."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is not Tensor or value._layout.device_state.is_cuda:
            return NotImplemented
        if value._layout.nbytes >= value.untyped_storage().nbytes():
            return NotImplemented
        return value.detach().clone().requires_grad_(value.requires_grad).__reduce_ex__(_OUT_OF_BAND)


def pack(value: Any, name: str) -> Packed:
    """``value`` as a small message; what is large goes into a block of shared memory named ``name``.

    Where there is no shared memory left, all goes into the message.
    """
    buffers: list[pickle.PickleBuffer] = []
    body = io.BytesIO()
    _Pickler(body, _OUT_OF_BAND, buffer_callback=buffers.append).dump(value)
    pieces = [body.getbuffer(), *(buffer.raw() for buffer in buffers)]
    sizes = [piece.nbytes for piece in pieces]
    if sum(sizes) > _INLINE and _into_shared_memory(pieces, name):
        return name, sizes, []
    return None, sizes, [piece.tobytes() for piece in pieces]


def unpack(packed: Packed) -> Any:
    """What :func:`pack` was given; the block is gone afterwards."""
    name, sizes, inline = packed
    pieces: Sequence[Any]
    if name is None:
        pieces = [inline[0], *(bytearray(piece) for piece in inline[1:])]
    else:
        pieces = _out_of_shared_memory(name, sizes)
    return pickle.loads(pieces[0], buffers=pieces[1:])


def remove(name: str) -> None:
    """Unlink a block that may or may not exist."""
    try:
        block = shared_memory.SharedMemory(name)
    except (FileNotFoundError, ValueError):
        return
    block.close()
    block.unlink()


def _offsets(sizes: Sequence[int]) -> list[int]:
    """Where the pieces begin, and last where they end."""
    result = [0]
    for size in sizes:
        result.append(result[-1] + -(-size // _ALIGNED) * _ALIGNED)
    return result


def _into_shared_memory(pieces: Sequence[memoryview], name: str) -> bool:
    offsets = _offsets([piece.nbytes for piece in pieces])
    try:
        block = shared_memory.SharedMemory(name, create=True, size=offsets[-1])
    except OSError:
        return False
    try:
        if not reserve(getattr(block, "_fd", -1), offsets[-1]):
            block.unlink()
            return False
        shown = np.frombuffer(block.buf, np.uint8)  # type: ignore[arg-type]
        for piece, start in zip(pieces, offsets, strict=False):
            shown[start : start + piece.nbytes] = np.frombuffer(piece, np.uint8) if piece.nbytes else 0
        del shown
    finally:
        block.close()
    return True


def _out_of_shared_memory(name: str, sizes: Sequence[int]) -> list[Any]:
    block = shared_memory.SharedMemory(name)
    try:
        shown = np.frombuffer(block.buf, np.uint8)  # type: ignore[arg-type]
        pieces = [
            shown[start : start + size].copy() for start, size in zip(_offsets(sizes), sizes, strict=False)
        ]
        del shown
    finally:
        block.close()
        block.unlink()
    return pieces
