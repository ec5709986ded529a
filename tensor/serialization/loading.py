"""``load``: a checkpoint from a file, and its tensors to where they are wanted."""

from __future__ import annotations

import os
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dtypes
from nvrtc_kernels.layouts import contiguous_strides, extent, is_dense
from tensor.core import layout as layouts
from tensor.core.base import view_of

from .classes import class_named
from .header import Entry, Header, parse_json, read_header, sizes
from .locations import Locations
from .safetensors_file import AS_PAIRS
from .saving import KEY, VERSION, VERSION_KEY, checksum
from .sources import Checked, Mapped
from .structure import Decoder, UnreadableError
from .torch_format.errors import RefusedError, UnpicklingError
from .torch_format.reading import FIRST, is_torch_file, read_torch_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

_NAMED = {each.name: each for each in dtypes.EVERY}
_VIEW = frozenset(("shape", "strides", "offset", "dtype"))
_KEYS = _VIEW | {"tensor", "class", "requires_grad", "attributes"}


#: Keywords of ``pickle.load``, which PyTorch passes on.
_PICKLE_ARGUMENTS = frozenset(("encoding", "errors", "fix_imports"))


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = True,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read a checkpoint that :func:`save` wrote, a file of ``torch.save``, or the dict of tensors of a safetensors file.

    Which of them it is, its first bytes say. Nothing in the file is run, whatever it is: of a pickle, names that make
    tensors, containers and numbers are known, and those that :func:`~tensor.serialization.add_safe_globals` was given.

    Parameters
    ----------
    f : str, os.PathLike or file object
        The file. Of a file object, as many bytes are read as belong to the checkpoint; it must be able to seek for a file of
        ``torch.save``.
    map_location : str, device, dict or callable, optional
        Where tensors go, if not to the devices they were on: a device for all; names of devices by names of devices
        (``{"cuda:1": "cuda:0"}``); or a function of a storage on the CPU and the name of its device, which gives
        a storage, or ``None`` for no other device.
    pickle_module : module, optional
        As in PyTorch; it makes no difference, as nothing is unpickled by a module.
    weights_only : bool, optional
        As in PyTorch; it makes no difference, for there is nothing else: a file of ``torch.save`` that needs more is refused
        whatever it says.
    mmap : bool, optional
        Whether tensors on the CPU show the file's own pages, which are read when they are used, and changed only in
        memory; what they hold is not checked then.
    **pickle_load_args
        ``encoding``, ``errors`` and ``fix_imports`` as in PyTorch, where they are about files of Python 2; without effect.

    Raises
    ------
    UnpicklingError
        If a file of ``torch.save`` holds anything else, which the error names. It is also a RuntimeError.
    RuntimeError
        If the file is damaged or of another format, if a device is not here, or for ``mmap=True`` with a file
        object.
    TypeError
        If ``f`` is neither a path nor a file opened for reading, ``map_location`` none of the above, or a keyword another
        one.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO()
    >>> tensor.save({"weight": tensor.ones(2), "step": 3}, file)
    >>> _ = file.seek(0)
    >>> tensor.load(file)
    {'weight': tensor([1., 1.]), 'step': 3}
    """
    unknown = next((name for name in pickle_load_args if name not in _PICKLE_ARGUMENTS), None)
    if unknown is not None:
        raise TypeError(f"load() got an unexpected keyword argument {unknown!r}")
    locations = Locations(map_location)
    if hasattr(f, "read"):
        if mmap:
            raise RuntimeError("load(): mmap=True takes the path of a file, not a file object")
        return _read(f, getattr(f, "name", type(f).__name__), locations, whole=False)
    if not isinstance(f, (str, os.PathLike)):
        raise TypeError(
            f"load(): argument 'f' must be a path or a file opened for reading, not {type(f).__name__}"
        )
    path = Path(os.fsdecode(f))
    with path.open("rb", buffering=0) as file:
        return _read(file, path, locations, whole=True, mapped=bool(mmap))


def _read(file: Any, name: Any, locations: Locations, *, whole: bool, mapped: bool = False) -> Any:
    source = Mapped(file) if mapped else Checked(file)
    try:
        first = source.peek(FIRST)
        if is_torch_file(first):
            return read_torch_file(file, first, locations, mapped=mapped)
        return _Checkpoint(source, locations).read(whole=whole)
    except RefusedError as error:
        raise UnpicklingError(f"cannot load {str(name)!r}: {error}") from None
    except UnreadableError as error:
        raise RuntimeError(f"cannot load {str(name)!r}: {error}") from None


class _Checkpoint:
    """A checkpoint as it is read: its blocks, then the structure that shows them.

    Parameters
    ----------
    source
        Where the bytes come from.
    locations
        Where the blocks go.
    """

    def __init__(self, source: Checked | Mapped, locations: Locations) -> None:
        self._source = source
        self._locations = locations
        self._blocks: dict[str, Tensor] = {}
        self._shown: set[str] = set()

    def read(self, *, whole: bool) -> Any:
        """All of it. ``whole`` says that the file ends with it.

        Raises
        ------
        UnreadableError
            If it is none.
        """
        header = read_header(self._source.read, self._source.size, whole=whole)
        document = _document(header)
        described = {} if document is None else document["blocks"]
        for entry in header.entries:
            said = described.get(entry.name, {} if document is None else None)
            if type(said) is not dict:
                raise UnreadableError(f"its structure does not know tensor {entry.name!r}")
            self._blocks[entry.name] = self._block(entry, said)
        if document is None:
            return self._blocks
        result = Decoder(self._tensor).decode(document["content"])
        unused = self._blocks.keys() - self._shown
        if unused:
            raise UnreadableError(f"its structure does not know tensor {min(unused)!r}")
        return result

    def _block(self, entry: Entry, said: dict[str, Any]) -> Tensor:
        array = self._source.array(entry)
        if isinstance(self._source, Checked):
            data = array.reshape(-1).view(np.uint8)
            if said and said.get("crc32") != self._source.crc32:
                raise UnreadableError(f"the bytes of tensor {entry.name!r} are not those that were written")
            if entry.dtype is dtypes.bool_ and data.size and data.max() > 1:
                raise UnreadableError(
                    f"tensor {entry.name!r} has type BOOL and bytes that are neither 0 nor 1"
                )
        if "dtype" in said:
            array = _from_pairs(array, entry, said["dtype"])
        strides = contiguous_strides(array.shape)
        if "strides" in said:
            strides = sizes(said["strides"], f"strides of tensor {entry.name!r}")
            if len(strides) != array.ndim or not is_dense(array.shape, strides):
                raise UnreadableError(
                    f"strides {list(strides)} of tensor {entry.name!r} are no order of its shape {list(array.shape)}"
                )
        location = said.get("device", "cpu")
        if type(location) is not str:
            raise UnreadableError(f"tensor {entry.name!r} was on {location!r}, which is no device")
        return self._locations.placed(array, strides, location)

    def _tensor(self, node: dict[str, Any]) -> Tensor:
        name = node["tensor"]
        if type(name) is not str or not _KEYS.issuperset(node):
            raise UnreadableError(f"its structure describes a tensor by {repr(node)[:80]}")
        block = self._blocks.get(name)
        if block is None:
            raise UnreadableError(f"it lacks tensor {name!r}")
        self._shown.add(name)
        result = self._view(name, block, node) if _VIEW.intersection(node) else block.detach()
        cls = class_named(node["class"]) if type(node.get("class")) is str else None
        if cls is not None:
            result = result.as_subclass(cls)
        if node.get("requires_grad") is True:
            if not (result._layout.dtype.is_floating_point or result._layout.dtype.is_complex):
                raise UnreadableError(
                    f"tensor {name!r} of type {result._layout.dtype.name} cannot require a gradient"
                )
            result.requires_grad_(True)
        return result

    def _view(self, name: str, block: Tensor, node: dict[str, Any]) -> Tensor:
        dtype = _NAMED.get(str(node.get("dtype", block._layout.dtype.name)))
        shape = sizes(node.get("shape"), f"the shape of a view of {name!r}")
        strides = contiguous_strides(shape)
        if "strides" in node:
            strides = sizes(node["strides"], f"strides of a view of {name!r}")
        (offset,) = sizes([node.get("offset", 0)], f"the offset of a view of {name!r}")
        if (
            dtype is None
            or len(strides) != len(shape)
            or prod(shape) >= 1 << 63
            or offset % dtype.itemsize
            or offset + extent(shape, strides)[1] * dtype.itemsize > block._storage.capacity
        ):
            raise UnreadableError(
                f"a view of shape {list(shape)}, strides {list(strides)} and type {node.get('dtype', 'the same')} at byte "
                f"{offset} does not lie in tensor {name!r} of {block._storage.capacity} bytes"
            )
        return view_of(
            block._storage, layouts.strided[shape, strides, dtype, block._layout.device_state], offset
        )


def _document(header: Header) -> dict[str, Any] | None:
    """What our metadata say; ``None`` in a file of another program."""
    if KEY not in header.metadata:
        if any(f'"{VERSION_KEY}"' in text for text in header.metadata.values()):
            raise UnreadableError("its header is not the one that was written")
        return None
    argument, _, text = header.metadata[KEY].partition(" ")
    if argument != checksum(text, header.described()):
        raise UnreadableError("its header is not the one that was written")
    result = parse_json(text)
    if type(result) is not dict or type(result.get("blocks")) is not dict or "content" not in result:
        raise UnreadableError("its structure is none of ours")
    if result.get(VERSION_KEY) != VERSION:
        raise UnreadableError(
            f"it is of version {result.get(VERSION_KEY)!r}, and this program reads version {VERSION}: update graphroot"
        )
    return result


def _from_pairs(array: NDArray[Any], entry: Entry, name: Any) -> NDArray[Any]:
    dtype = _NAMED.get(name) if type(name) is str else None
    pair = None if dtype is None else AS_PAIRS.get(dtype)
    if dtype is None or pair is not entry.dtype or array.shape[-1:] != (2,):
        raise UnreadableError(f"tensor {entry.name!r} of shape {list(array.shape)} does not hold {name!r}")
    whole: NDArray[Any] = array.reshape(-1).view(dtype.numpy)
    return whole.reshape(array.shape[:-1])
