"""What a checkpoint stores of the memory of its tensors.

Tensors that reach the same bytes are stored as one *block*, and share its memory again when they are read back. A block
is what other programs see: where one of the tensors has all of it, its elements in row-major order, whatever their order
in memory; else the bytes that the tensors reach, in one dimension. Of a tensor that skips elements of its memory (a
slice) only its own elements are stored, and of one that repeats them (``expand``) each once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import uint8
from nvrtc_kernels.layouts import contiguous_strides, dense_strides_like
from tensor.core import layout as layouts
from tensor.core.base import view_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tensor.core.layout import Layout
    from tensor.core.storage import Storage
    from tensor.methods.tensor import Tensor

    from .structure import Path, TensorFound

    Ints = tuple[int, ...]


@dataclass(slots=True)
class Block:
    """What is stored under one name.

    Attributes
    ----------
    name : str
        The name.
    elements : Tensor
        What is stored, in row-major order.
    strides : tuple of int
        How they lie in the memory that they are read back to: in any order, without gaps.
    """

    name: str
    elements: Tensor
    strides: Ints


def blocks_of(tensors: Sequence[TensorFound]) -> list[Block]:
    """The blocks of which all ``tensors`` are views. Which view of which block, their JSON objects are told."""
    names = _Names()
    return [
        _block(storage, group, names)
        for storage, members in _by_storage(tensors)
        for group in _overlapping(members)
    ]


def _by_storage(tensors: Sequence[TensorFound]) -> Iterator[tuple[Storage, list[TensorFound]]]:
    result: dict[int, list[TensorFound]] = {}
    for each in tensors:
        result.setdefault(id(each.input._storage), []).append(each)
    for members in result.values():
        yield members[0].input._storage, members


def _overlapping(members: list[TensorFound]) -> Iterator[list[TensorFound]]:
    """Groups that share bytes."""
    group: list[TensorFound] = []
    end = 0
    for each in sorted(members, key=lambda each: each.input._offset):
        start, size = each.input._offset, each.input._layout.nbytes
        if not size:
            yield [each]
            continue
        if group and start >= end:
            yield group
            group = []
        group.append(each)
        end = max(end, start + size)
    if group:
        yield group


def _block(storage: Storage, group: list[TensorFound], names: _Names) -> Block:
    start = group[0].input._offset
    end = max(each.input._offset + each.input._layout.nbytes for each in group)
    for each in group:
        layout = each.input._layout
        if layout.dense and layout.nbytes == end - start:
            return _told(group, _of(storage, layout, start), layout.strides, start, names.of(each.path))
    first = group[0].input._layout
    name = names.of(group[0].path)
    if all(each.input._layout is first and each.input._offset == start for each in group):
        packed = _packed(first)
        if packed is not None:
            elements, strides, shown = packed
            for each in group:
                if (shown.shape, shown.strides) == (elements.shape, strides):
                    each.node["tensor"] = name
                else:
                    _tell(each, name, shown, 0)
            return Block(name, _of(storage, elements, start), strides)
    dtype = first.dtype
    if any(
        each.input._layout.dtype is not dtype or (each.input._offset - start) % dtype.itemsize
        for each in group
    ):
        dtype = uint8
    flat = layouts.contiguous[((end - start) // dtype.itemsize,), dtype, storage.device_state]
    return _told(group, _of(storage, flat, start), flat.strides, start, name)


def _of(storage: Storage, layout: Layout, offset: int) -> Tensor:
    return view_of(storage, layout, offset)


def _packed(layout: Layout) -> tuple[Layout, Ints, Layout] | None:
    """What is stored of a tensor with gaps or repetitions: the elements, their strides later, and the tensor's.

    ``None`` where elements overlap in some other way than by repeating a dimension.
    """
    shape = tuple(
        1 if stride == 0 else size for size, stride in zip(layout.shape, layout.strides, strict=True)
    )
    reach = 1
    for stride, size in sorted(zip(layout.strides, shape, strict=True)):
        if size > 1:
            if stride < reach:
                return None
            reach += stride * (size - 1)
    strides = dense_strides_like(shape, layout.strides)
    shown = tuple(0 if old == 0 else new for old, new in zip(layout.strides, strides, strict=True))
    return layout.with_strides(shape, layout.strides), strides, layout.with_strides(layout.shape, shown)


def _told(group: list[TensorFound], elements: Tensor, strides: Ints, start: int, name: str) -> Block:
    whole = elements._layout
    for each in group:
        layout, offset = each.input._layout, each.input._offset - start
        if layout is whole and not offset:
            each.node["tensor"] = name
        else:
            _tell(each, name, layout, offset, None if layout.dtype is whole.dtype else layout.dtype.name)
    return Block(name, elements, strides)


def _tell(each: TensorFound, name: str, layout: Layout, offset: int, dtype: str | None = None) -> None:
    node = each.node
    node["tensor"] = name
    node["shape"] = list(layout.shape)
    if layout.strides != contiguous_strides(layout.shape):
        node["strides"] = list(layout.strides)
    if offset:
        node["offset"] = offset
    if dtype is not None:
        node["dtype"] = dtype


class _Names:
    """Names after paths: each once, and none that the format has a use for."""

    def __init__(self) -> None:
        self._taken = {"__metadata__"}

    def of(self, path: Path) -> str:
        joined = ".".join(map(_text, path)) or "tensor"
        name, count = joined, 1
        while name in self._taken:
            count += 1
            name = f"{joined}.{count}"
        self._taken.add(name)
        return name


def _text(key: Any) -> str:
    # A string may hold halves of characters, which no encoding has.
    return str(key).encode("utf-8", "backslashreplace").decode("utf-8")
