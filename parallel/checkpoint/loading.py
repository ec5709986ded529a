"""``load``: a checkpoint, read by all ranks into the tensors that they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensor
from parallel.sharding.dtensor import DTensor
from tensor import Tensor
from tensor.serialization.structure import Decoder, UnreadableError

from .default_planner import DefaultLoadPlanner
from .filesystem import FileSystemReader, folder_of
from .metadata import BytesStorageMetadata
from .nesting import filled, flattened
from .ranks import Ranks
from .saving import check_no_sums, local_part
from .stateful import Stateful

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from parallel.groups.process_groups import ProcessGroup

    from .metadata import ChunkStorageMetadata, Metadata, TensorStorageMetadata

__all__ = ["load"]


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: FileSystemReader | None = None,
    planner: DefaultLoadPlanner | None = None,
    process_group: ProcessGroup | None = None,
    no_dist: bool = False,
) -> None:
    """Read a checkpoint that :func:`save` wrote, on any number of ranks. All ranks call this.

    Each rank reads the parts that it has, into its tensors; other values are replaced in ``state_dict``.

    Parameters
    ----------
    state_dict : dict
        What to read: tensors of the shapes that the checkpoint has, on any devices, of any dtypes, whole or divided in whatever
        way; and values of any kind in place of those that are no tensors. Of a :class:`parallel.checkpoint.Stateful` object the
        ``state_dict()`` is read, and passed to ``load_state_dict()``.
    checkpoint_id : str or os.PathLike, optional
        The folder.
    storage_reader : FileSystemReader, optional
        In place of ``checkpoint_id``, or with it as its folder.
    planner : DefaultLoadPlanner, optional
        ``DefaultLoadPlanner(allow_partial_load=True)`` leaves alone what the checkpoint lacks.
    process_group : ProcessGroup, optional
        The ranks; all by default.
    no_dist : bool
        Whether this process loads alone. It does without :func:`parallel.init_process_group`.

    Raises
    ------
    CheckpointException
        On all ranks, if a rank fails: the checkpoint is incomplete (FileNotFoundError, RuntimeError), lacks a name (RuntimeError),
        or has another shape under it (ValueError), all before anything was changed; or bytes are not those that were written
        (RuntimeError).
    RuntimeError
        Without ``checkpoint_id`` and ``storage_reader``.
    TypeError
        For arguments that are not supported.
    DistBackendError
        If a rank died, or did not come within the group's timeout.
    """
    reader = _reader(checkpoint_id, storage_reader, planner)
    partial = planner is not None and planner.allow_partial_load
    ranks = Ranks.of(process_group, alone=no_dist)
    states: dict[str, Any] = {}
    reads: list[Callable[[], None]] = []
    values: dict[str, Any] = {}

    def check() -> None:
        if not isinstance(state_dict, dict):
            raise TypeError(f"a state dict is a dict, not {type(state_dict).__name__}")
        metadata = reader.read_metadata()
        # In one order on all ranks: making them may take collectives.
        for key in sorted(state_dict, key=str):
            each = state_dict[key]
            states[key] = each.state_dict() if isinstance(each, Stateful) else each
        for name, target in flattened(states).items():
            if name not in metadata.state_dict_metadata:
                if not partial:
                    raise RuntimeError(_missing(name, metadata, reader))
            elif isinstance(target, Tensor):
                reads.extend(_reads(name, target, metadata, reader))
            else:
                values[name] = _value(name, target, metadata, reader)

    def read() -> None:
        with tensor.no_grad():
            for each in reads:
                each()

    try:
        ranks.step("load", check, _agreed)
        ranks.step("load", read, _agreed)
    finally:
        reader.close()
    for key in sorted(state_dict, key=str):
        # Of a mapping of names to dicts, each dict is filled by itself.
        result = filled({key: states[key]}, values)[key]
        if isinstance(state_dict[key], Stateful):
            state_dict[key].load_state_dict(result)
        elif state_dict[key] is not result:
            state_dict[key] = result


def _agreed(results: list[None]) -> list[None]:
    return results


def _reader(
    checkpoint_id: str | os.PathLike[str] | None,
    reader: FileSystemReader | None,
    planner: DefaultLoadPlanner | None,
) -> FileSystemReader:
    if planner is not None and not isinstance(planner, DefaultLoadPlanner):
        raise TypeError(f"load(): planner is a DefaultLoadPlanner, not {type(planner).__name__}")
    return folder_of(FileSystemReader, checkpoint_id, reader, "load(): storage_reader")


def _missing(name: str, metadata: Metadata, reader: FileSystemReader) -> str:
    names = sorted(metadata.state_dict_metadata)
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return f"Missing key in checkpoint state_dict: {name}. '{reader.path}' has {shown or 'none'}"


def _value(name: str, target: Any, metadata: Metadata, reader: FileSystemReader) -> Any:
    stored = metadata.state_dict_metadata[name]
    if not isinstance(stored, BytesStorageMetadata):
        raise ValueError(
            f"'{name}' is a tensor of shape {list(stored.size)} in '{reader.path}': pass one to read it into, not "
            f"{type(target).__name__}"
        )
    try:
        return Decoder(_no_tensor).decode(stored.value)
    except UnreadableError as error:
        raise RuntimeError(f"cannot load '{reader.path}': {error}") from None


def _no_tensor(node: Any) -> Any:
    raise UnreadableError(f"a value has a tensor in it: {repr(node)[:80]}")


def _reads(
    name: str, target: Tensor, metadata: Metadata, reader: FileSystemReader
) -> list[Callable[[], None]]:
    """What is to be done to read a tensor, all of it checked."""
    stored = metadata.state_dict_metadata[name]
    if isinstance(stored, BytesStorageMetadata):
        raise ValueError(
            f"'{name}' is no tensor in '{reader.path}', and one of shape {list(target.shape)} in the state dict: pass any other "
            "value there"
        )
    if stored.size != target.shape:
        raise ValueError(f"Size mismatch between saved {stored.size} and current: {target.shape} for {name}")
    offsets: tuple[int, ...] = (0,) * target.dim()
    if isinstance(target, DTensor):
        check_no_sums(name, target)
        if target.device_mesh.get_coordinate() is None:
            return []
        offsets = target._sharding.local_offsets()
    local = local_part(target)
    result = []
    for chunk in stored.chunks:
        overlap = _overlap(chunk, offsets, tuple(local.shape))
        if overlap is not None:
            reader.open(chunk.file).check(name, chunk, stored.properties.dtype)
            result.append(_read(name, chunk, overlap, local, stored, reader))
    return result


def _read(
    name: str,
    chunk: ChunkStorageMetadata,
    overlap: tuple[tuple[slice, ...], tuple[slice, ...]],
    local: Tensor,
    stored: TensorStorageMetadata,
    reader: FileSystemReader,
) -> Callable[[], None]:
    here, there = overlap

    def read() -> None:
        part = reader.open(chunk.file).part(name, chunk, stored.properties.dtype, there)
        (local[here] if here else local).copy_(part)

    return read


def _overlap(
    chunk: ChunkStorageMetadata, offsets: tuple[int, ...], sizes: tuple[int, ...]
) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """Where a part of a tensor and one that was saved meet, in each of both; None if they do not."""
    here, there = [], []
    for start, size, first, count in zip(offsets, sizes, chunk.offsets, chunk.sizes, strict=True):
        low, high = max(start, first), min(start + size, first + count)
        if high <= low:
            return None
        here.append(slice(low - start, high - start))
        there.append(slice(low - first, high - first))
    return tuple(here), tuple(there)
