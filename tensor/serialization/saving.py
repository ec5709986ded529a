"""``save``: a checkpoint into a file."""

from __future__ import annotations

import io
import json
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.layouts import contiguous_strides
from tensor.core.devices.state import cpu
from tensor.methods.tensor import Tensor
from tensor.operations.creation.copies import copy_into_new

from .blocks import Block, blocks_of
from .classes import name_of
from .safetensors_file import AS_PAIRS, Item, bytes_of, form_of, header, ordered, write_all
from .structure import Encoder, TensorFound, shown
from .torch_format.writing import Archive
from .writing import is_special, replaced

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The key of the metadata that holds the structure, after a checksum. There is one only, for the package writes several
#: in any order, and the same checkpoint should be the same file.
KEY = "graphroot.checkpoint"
#: The version of the structure, which is the first thing in it.
VERSION_KEY, VERSION = "graphroot", 1
#: The longest checksum of a tensor, in decimal digits.
_LAST_CRC32 = (1 << 32) - 1
_AS_TEXT = "save(): the file is opened as text, open it with mode 'wb'"


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
    *,
    format: str = "safetensors",
) -> None:
    """Write ``obj`` to a checkpoint file, which :func:`load` reads.

    The file is a safetensors file: any program that reads those finds the tensors under the names of their paths, such
    as ``model.conv.weight``. (Complex numbers of double precision are pairs of floats there, in a last dimension.)

    Parameters
    ----------
    obj
        Dicts, lists and tuples, nested, of tensors, numbers, strings, bools and ``None``; also sizes, dtypes, devices,
        slices, NumPy's scalars, ``OrderedDict``, ``Counter`` and ``defaultdict``. What is the same object twice, or shares
        memory, does so after loading. Tensors keep dtype, device, strides (without gaps), ``requires_grad``, attributes and
        whether they are parameters, but not their gradient.
    f : str, os.PathLike or file object
        Where to. A file of this name is replaced once the new one is complete; until then, and if anything goes wrong,
        it stays what it was.
    pickle_module, pickle_protocol
        As in PyTorch; they make no difference, as nothing is pickled by a module.
    format : str
        ``"safetensors"``, or ``"torch"`` for the ZIP archive of ``torch.save``, which ``torch.load(weights_only=True)`` reads
        without further ado. That has whole storages, as in PyTorch, also where tensors view little of them; of the
        above it does not hold slices, NumPy's scalars and ``defaultdict``, but bytes and sets.

    Raises
    ------
    TypeError
        If ``obj`` holds anything else, which the error names by its path. Nothing is written then.
    ValueError
        If something is part of itself, or nests more than 100 levels deep; or for another ``format``.
    """
    if format not in ("safetensors", "torch"):
        raise ValueError(f"save(): argument 'format' must be 'safetensors' or 'torch', not {format!r}")
    if not hasattr(f, "write") and not isinstance(f, (str, os.PathLike)):
        raise TypeError(
            f"save(): argument 'f' must be a path or a file opened for writing, not {type(f).__name__}"
        )
    if format == "torch":
        _save_archive(Archive(obj), f)
        return
    encoder = Encoder()
    content = encoder.encode(obj)
    for result in encoder.tensors:
        _describe(result)
    contents = _Contents(content, blocks_of(encoder.tensors))
    if hasattr(f, "write"):
        if isinstance(f, io.TextIOBase):
            raise TypeError(_AS_TEXT)
        contents.write(f)
        return
    path = Path(os.fsdecode(f))
    if is_special(path):
        with path.open("wb") as file:
            contents.write(file)
        return
    with replaced(path) as output, output.open("wb", buffering=0) as file:
        contents.write_and_return(file)


class _Contents:
    """A checkpoint as it is written: one tensor of it is in host memory at a time, unless all are there anyway.

    Parameters
    ----------
    content
        The structure, as JSON.
    blocks
        What it refers to.
    """

    def __init__(self, content: Any, blocks: list[Block]) -> None:
        self._content = content
        self._blocks = {block.name: block for block in blocks}
        self._items = ordered([_item(block) for block in blocks])
        # With the longest checksums. Which they are is known later, and the length may not depend on it.
        self._length = len(header(self._items, self._metadata(dict.fromkeys(self._blocks, _LAST_CRC32))))

    def write(self, file: Any) -> None:
        """Write it to a file that may not be able to go back: tensors are read for their checksums first."""
        crcs = {item.name: zlib.crc32(bytes_of(item).data) for item in self._items}
        write_all(file, self._header(crcs))
        for item in self._items:
            write_all(file, bytes_of(item).data)

    def write_and_return(self, file: Any) -> None:
        """Write it to a file that is at its beginning, and the header last, so that each tensor is read once."""
        write_all(file, bytes(self._length))
        crcs = {}
        for item in self._items:
            data = bytes_of(item).data
            crcs[item.name] = zlib.crc32(data)
            write_all(file, data)
            # Not two at a time.
            del data
        file.seek(0)
        write_all(file, self._header(crcs))

    def _header(self, crcs: dict[str, int]) -> bytes:
        return header(self._items, self._metadata(crcs), self._length)

    def _metadata(self, crcs: dict[str, int]) -> dict[str, str]:
        described = {name: _description(block, crcs[name]) for name, block in self._blocks.items()}
        text = json.dumps(
            {VERSION_KEY: VERSION, "content": self._content, "blocks": described}, allow_nan=False
        )
        shapes = sorted([item.name, item.dtype.name, list(item.shape)] for item in self._items)
        return {KEY: f"{checksum(text, shapes)} {text}"}


def _item(block: Block) -> Item:
    layout = block.elements._layout
    return Item(block.name, *form_of(layout.dtype, layout.shape), lambda: host_array(block.elements))


def _save_archive(archive: Archive, f: Any) -> None:
    if hasattr(f, "write"):
        if isinstance(f, io.TextIOBase):
            raise TypeError(_AS_TEXT)
        archive.write(f)
        return
    path = Path(os.fsdecode(f))
    if is_special(path):
        with path.open("wb") as file:
            archive.write(file)
        return
    with replaced(path) as output, output.open("wb") as file:
        archive.write(file)


def checksum(text: str, shapes: list[list[Any]]) -> str:
    """What tells a damaged header: a number that follows from the structure, and from what is said of the tensors."""
    return f"{zlib.crc32(json.dumps([text, shapes]).encode()):08x}"


def _describe(result: TensorFound) -> None:
    """Note what a tensor is beside its elements."""
    cls = type(result.input)
    if cls is not Tensor:
        name = name_of(cls)
        if name is None:
            raise TypeError(
                f"cannot save {shown(result.path)}: it is a {cls.__module__}.{cls.__qualname__}, a kind of tensor that "
                "checkpoints do not know; save it.as_subclass(Tensor), or announce the class with "
                "tensor.serialization.keep_class"
            )
        result.node["class"] = name
    if result.input.requires_grad:
        result.node["requires_grad"] = True


def host_array(elements: Tensor) -> NDArray[Any]:
    """The elements in row-major order, in host memory."""
    layout = elements._layout
    if layout.device_state.is_cuda:
        elements = copy_into_new(elements, layout.as_contiguous().on(cpu))
    return np.ascontiguousarray(elements._host).reshape(layout.shape)


def _description(block: Block, crc32: int) -> dict[str, Any]:
    """What is said of a block beside its type and shape in the file."""
    layout = block.elements._layout
    result: dict[str, Any] = {"crc32": crc32}
    if block.strides != contiguous_strides(layout.shape):
        result["strides"] = list(block.strides)
    if layout.device_state.is_cuda:
        result["device"] = str(layout.device)
    if layout.dtype in AS_PAIRS:
        result["dtype"] = layout.dtype.name
    return result
