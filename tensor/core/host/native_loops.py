"""Native loops over CPU tensors: what is called with addresses, as an operation's plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.core.base import TensorFields


def address(x: TensorFields, *, writes: bool = False) -> int:
    """Address of the first element of a CPU tensor that has elements, to read them or, with ``writes``, to change them."""
    storage = x._storage
    if storage.plain:
        return storage.address + x._offset
    result: int = (x._writable if writes else x._host).ctypes.data
    return result


def on_tensors(
    loop: Callable[..., None],
    otherwise: Callable[..., None],
    tensors: list[int],
    numbers: list[int],
    convert: Callable[[Any], Any],
) -> Callable[..., None]:
    """``run(out, *operands)`` that calls ``loop`` with the addresses of operands ``tensors`` and with ``numbers``.

    An operand in the memory of ``out``, but not the same elements, is computed by ``otherwise``, which takes what it reads
    before it writes.
    """

    def run(out: Any, *operands: Any) -> None:
        storage = out._storage
        addresses = []
        for position in tensors:
            x = operands[position]
            if x._storage is storage and x is not out and not _same_elements(x, out):
                otherwise(out, *operands)
                return
            addresses.append(address(x))
        loop(address(out, writes=True), *addresses, *[convert(operands[position]) for position in numbers])

    return run


def _same_elements(x: Any, out: Any) -> bool:
    ours, theirs = out._layout, x._layout
    same: bool = x._offset == out._offset and theirs.strides == ours.strides and theirs.shape == ours.shape
    return same and theirs.dtype.itemsize == ours.dtype.itemsize
