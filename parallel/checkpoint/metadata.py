"""What a checkpoint holds: shapes and dtypes of whole tensors, and in which file each part of them is."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import dtypes
from tensor.core.size import Size
from tensor.serialization.header import parse_json
from tensor.serialization.structure import UnreadableError

if TYPE_CHECKING:
    import tensor

__all__ = [
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "TensorProperties",
    "TensorStorageMetadata",
]

#: By name.
DTYPES = {each.name: each for each in dtypes.EVERY}
_VERSION = 1


@dataclass(frozen=True, slots=True)
class TensorProperties:
    """What a tensor is beside its shape.

    Attributes
    ----------
    dtype : dtype
        Of its elements.
    """

    dtype: tensor.dtype


@dataclass(frozen=True, slots=True)
class ChunkStorageMetadata:
    """A part of a tensor, which a rank has written.

    Attributes
    ----------
    offsets, sizes : Size
        Where it begins in the whole tensor, and its shape.
    file : str
        The file in the checkpoint's folder that has it, under the tensor's name.
    checksums : tuple of int
        CRC-32 of each block of its bytes.
    """

    offsets: Size
    sizes: Size
    file: str = ""
    checksums: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TensorStorageMetadata:
    """A tensor in a checkpoint.

    Attributes
    ----------
    properties : TensorProperties
        Its dtype.
    size : Size
        Shape of the whole tensor.
    chunks : list of ChunkStorageMetadata
        Its parts, which do not overlap.
    """

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass(frozen=True, slots=True)
class BytesStorageMetadata:
    """A value in a checkpoint that is no tensor.

    Attributes
    ----------
    value
        As JSON: see :mod:`tensor.serialization.structure`.
    """

    value: Any = None


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a checkpoint holds.

    Attributes
    ----------
    state_dict_metadata : dict
        By name, :class:`TensorStorageMetadata` and :class:`BytesStorageMetadata`.
    """

    state_dict_metadata: dict[str, TensorStorageMetadata | BytesStorageMetadata] = field(default_factory=dict)

    def files(self) -> set[str]:
        """The files that the parts of tensors are in.

        A set of their names in the checkpoint's folder.
        """
        return {
            chunk.file
            for each in self.state_dict_metadata.values()
            if isinstance(each, TensorStorageMetadata)
            for chunk in each.chunks
        }


def to_text(metadata: Metadata) -> str:
    """``metadata`` as JSON, with a checksum."""
    tensors, values = {}, {}
    for name, each in metadata.state_dict_metadata.items():
        if isinstance(each, BytesStorageMetadata):
            values[name] = each.value
            continue
        tensors[name] = {
            "dtype": each.properties.dtype.name,
            "shape": list(each.size),
            "chunks": [
                [list(chunk.offsets), list(chunk.sizes), chunk.file, list(chunk.checksums)]
                for chunk in each.chunks
            ],
        }
    content = json.dumps({"tensors": tensors, "values": values}, allow_nan=False)
    return json.dumps({"graphroot": _VERSION, "crc32": zlib.crc32(content.encode()), "content": content})


def from_text(text: str) -> Metadata:
    """What :func:`to_text` was called with.

    Raises
    ------
    UnreadableError
        If it was called with nothing of the kind.
    """
    document = parse_json(text)
    if type(document) is not dict or type(document.get("content")) is not str:
        raise UnreadableError("it does not describe a checkpoint of parallel.checkpoint")
    if document.get("graphroot") != _VERSION:
        raise UnreadableError(
            f"it is of version {document.get('graphroot')!r}, and this program reads version {_VERSION}: update graphroot"
        )
    if zlib.crc32(document["content"].encode()) != document.get("crc32"):
        raise UnreadableError("its content is not what was written")
    content = parse_json(document["content"])
    try:
        result: dict[str, TensorStorageMetadata | BytesStorageMetadata] = {
            name: _tensor(each) for name, each in content["tensors"].items()
        }
        result.update({name: BytesStorageMetadata(each) for name, each in content["values"].items()})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableError(f"it describes tensors in another way: {error!r}") from None
    return Metadata(result)


def _tensor(node: Any) -> TensorStorageMetadata:
    size = Size(node["shape"])
    chunks = [
        ChunkStorageMetadata(Size(offsets), Size(sizes), str(file), tuple(checksums))
        for offsets, sizes, file, checksums in node["chunks"]
    ]
    for chunk in chunks:
        ends = [offset + length for offset, length in zip(chunk.offsets, chunk.sizes, strict=True)]
        if len(ends) != len(size) or any(
            end > length or offset < 0 for end, length, offset in zip(ends, size, chunk.offsets, strict=True)
        ):
            raise ValueError(f"a part at {list(chunk.offsets)} of {list(chunk.sizes)} of {list(size)}")
    if sum(prod(chunk.sizes) for chunk in chunks) != prod(size):
        raise ValueError(f"parts that are not all of {list(size)}")
    return TensorStorageMetadata(TensorProperties(DTYPES[node["dtype"]]), size, chunks)
