"""``save``: a checkpoint into a file."""

from __future__ import annotations

import io
import json
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import TensorSpec, serialize, serialize_file

from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import from_numpy
from nvrtc_kernels.layouts import contiguous_strides
from tensor.core.devices.state import cpu
from tensor.methods.tensor import Tensor
from tensor.operations.creation.copies import copy_into_new

from .blocks import Block, blocks_of
from .classes import name_of
from .header import LENGTH_BYTES, LONGEST
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
#: Stored as pairs of floats: the format has no such type.
AS_PAIRS = {dtypes.complex128: dtypes.float64}
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
    blocks = blocks_of(encoder.tensors)
    arrays = {block.name: host_array(block.elements) for block in blocks}
    described = {block.name: _description(block, arrays[block.name]) for block in blocks}
    text = json.dumps({VERSION_KEY: VERSION, "content": content, "blocks": described}, allow_nan=False)
    stored = {name: as_stored(array) for name, array in arrays.items()}
    shapes = sorted([name, array.dtype.name, list(array.shape)] for name, array in stored.items())
    metadata = {KEY: f"{checksum(text, shapes)} {text}"}
    if hasattr(f, "write"):
        _write_all(f, serialize(specified(stored), metadata=metadata))
        return
    path = Path(os.fsdecode(f))
    if is_special(path):
        path.write_bytes(serialize(specified(stored), metadata=metadata))
        return
    with replaced(path) as output:
        serialize_file(specified(stored), output, metadata=metadata)
        _check_length(output)


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


def _description(block: Block, array: NDArray[Any]) -> dict[str, Any]:
    """What is said of a block beside its type and shape in the file."""
    layout = block.elements._layout
    result: dict[str, Any] = {"crc32": zlib.crc32(array.reshape(-1).view(np.uint8).data)}
    if block.strides != contiguous_strides(layout.shape):
        result["strides"] = list(block.strides)
    if layout.device_state.is_cuda:
        result["device"] = str(layout.device)
    if layout.dtype in AS_PAIRS:
        result["dtype"] = layout.dtype.name
    return result


def as_stored(array: NDArray[Any]) -> NDArray[Any]:
    """``array`` in a dtype that the format has."""
    pair = AS_PAIRS.get(from_numpy(array.dtype))
    return array if pair is None else array.reshape(-1).view(pair.numpy).reshape(*array.shape, 2)


def specified(arrays: dict[str, NDArray[Any]]) -> dict[str, TensorSpec]:
    """``arrays`` as the package ``safetensors`` takes them; they are to stay alive meanwhile."""
    return {
        name: TensorSpec(
            dtype=array.dtype.name, shape=array.shape, data_ptr=array.ctypes.data, data_len=array.nbytes
        )
        for name, array in arrays.items()
    }


def _write_all(file: Any, data: bytes) -> None:
    """Write ``data`` to a file object, which may take less at a time."""
    if isinstance(file, io.TextIOBase):
        raise TypeError(_AS_TEXT)
    rest = memoryview(data)
    while rest:
        count = file.write(rest)
        rest = rest[len(rest) if count is None else count :]


def _check_length(path: Path) -> None:
    with path.open("rb") as result:
        length = int.from_bytes(result.read(LENGTH_BYTES), "little")
    if length > LONGEST:
        raise ValueError(
            f"cannot save the checkpoint: what is no tensor in it takes {length} bytes, and {LONGEST} are the most that the "
            "format allows; make long lists of numbers tensors"
        )
