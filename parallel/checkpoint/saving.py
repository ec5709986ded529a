"""``save`` and ``async_save``: a checkpoint, written by all ranks."""

from __future__ import annotations

import threading
import uuid
import weakref
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import tensor
from parallel.groups.process_groups import job
from parallel.sharding.dtensor import DTensor
from tensor import Tensor
from tensor.core.size import Size
from tensor.serialization.saving import host_array
from tensor.serialization.structure import Encoder

from .default_planner import DefaultSavePlanner
from .exceptions import CheckpointException
from .filesystem import FileSystemWriter, folder_of
from .metadata import (
    DTYPES,
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from .nesting import flattened
from .ranks import Ranks, failure_of
from .stateful import Stateful

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from parallel.groups.process_groups import ProcessGroup

    from .exceptions import Failure

__all__ = ["async_save", "save"]

#: What is being saved, by groups of ranks.
_under_way: weakref.WeakKeyDictionary[Any, Future[Metadata]] = weakref.WeakKeyDictionary()


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: DefaultSavePlanner | None = None,
    process_group: ProcessGroup | None = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Save a state to a folder that all ranks reach. All ranks call this, and each writes the parts that it has.

    The folder holds the new checkpoint once all is written; until then, and if a rank is killed or fails, it holds what it held
    before, as a whole. :func:`load` reads it on any number of ranks. Of several saves into one folder at the same time it holds the
    one that ends last.

    Parameters
    ----------
    state_dict : dict
        Of tensors, :class:`parallel.tensor.DTensor` among them, dicts and lists of them, what :func:`tensor.save` takes
        otherwise, and, at the top, objects that are :class:`parallel.checkpoint.Stateful`. Of a DTensor each part is written by a
        rank that has it; anything else is taken to be the same on all ranks that have it, and written by one.
    checkpoint_id : str or os.PathLike, optional
        The folder.
    storage_writer : FileSystemWriter, optional
        In place of ``checkpoint_id``, or with it as its folder.
    planner : DefaultSavePlanner, optional
        Accepted for compatibility.
    process_group : ProcessGroup, optional
        The ranks; all by default.
    no_dist : bool
        Whether this process saves alone. It does without :func:`parallel.init_process_group`.
    use_collectives : bool
        False is not supported.

    Returns
    -------
    Metadata
        What the checkpoint holds; on all ranks.

    Raises
    ------
    CheckpointException
        On all ranks, if a rank fails: it has something that checkpoints do not hold (TypeError), ranks have different tensors under
        a name, or not all of one (ValueError), or a file cannot be written (OSError).
    RuntimeError
        Without ``checkpoint_id`` and ``storage_writer``.
    TypeError, NotImplementedError
        For arguments that are not supported.
    DistBackendError
        If a rank died, or did not come within the group's timeout.
    """
    writer = _writer("save", checkpoint_id, storage_writer, planner, use_collectives)
    saving = _Saving(writer, Ranks.of(process_group, alone=no_dist))
    _wait_for_previous(saving.ranks)
    saving.plan(state_dict)
    saving.stage(copies=False)
    return saving.write()


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: DefaultSavePlanner | None = None,
    process_group: ProcessGroup | None = None,
    async_checkpointer_type: Any = None,
    async_stager: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[Metadata]:
    """As :func:`save`, but written while the program goes on.

    When this returns, the state is copied: tensors of GPUs to pinned memory, behind what the current streams hold, for which the
    program does not wait. It may change them at once. One state is saved at a time: a further call waits for the last one. So does
    :func:`parallel.destroy_process_group`.

    >>> import tempfile
    >>> future = parallel.checkpoint.async_save({"x": tensor.ones(2)}, checkpoint_id=tempfile.mkdtemp())
    >>> list(future.result().state_dict_metadata)
    ['x']

    Parameters
    ----------
    state_dict, checkpoint_id, storage_writer, planner, process_group, no_dist, use_collectives
        See :func:`save`. The ranks get another group like ``process_group``, for what they tell each other meanwhile.
    async_checkpointer_type, async_stager
        None: a thread writes.

    Returns
    -------
    concurrent.futures.Future
        Of what :func:`save` returns; or its error.

    Raises
    ------
    CheckpointException, RuntimeError, TypeError, NotImplementedError, DistBackendError
        See :func:`save`; for what happens before this returns.
    """
    if async_stager is not None:
        raise NotImplementedError("async_save() has no async_stager: tensors are copied to pinned memory")
    if async_checkpointer_type is not None and getattr(async_checkpointer_type, "value", None) != "thread":
        raise NotImplementedError(f"async_save() writes in a thread, not by {async_checkpointer_type!r}")
    writer = _writer("async_save", checkpoint_id, storage_writer, planner, use_collectives)
    ranks = Ranks.of(process_group, alone=no_dist)
    _wait_for_previous(ranks)
    saving = _Saving(writer, ranks.apart())
    saving.plan(state_dict)
    saving.stage(copies=True)
    future: Future[Metadata] = Future()
    future.set_running_or_notify_cancel()

    def finish() -> None:
        try:
            metadata = saving.write()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(metadata)

    _under_way[ranks.group or job] = future
    if ranks.group is not None:
        job.require().add_under_way(future)
    threading.Thread(target=finish, name="checkpoint").start()
    return future


def _wait_for_previous(ranks: Ranks) -> None:
    previous = _under_way.get(ranks.group or job)
    if previous is not None:
        wait([previous])


def _writer(
    name: str,
    checkpoint_id: str | os.PathLike[str] | None,
    writer: FileSystemWriter | None,
    planner: DefaultSavePlanner | None,
    use_collectives: bool,
) -> FileSystemWriter:
    if not use_collectives:
        raise NotImplementedError(f"{name}(use_collectives=False): ranks agree on what each of them writes")
    if planner is not None and not isinstance(planner, DefaultSavePlanner):
        raise TypeError(f"{name}(): planner is a DefaultSavePlanner, not {type(planner).__name__}")
    return folder_of(FileSystemWriter, checkpoint_id, writer, f"{name}(): storage_writer")


@dataclass(frozen=True, slots=True)
class _Piece:
    """Something that a rank has: part of a tensor, or a value, whose ``dtype`` is empty."""

    name: str
    dtype: str = ""
    size: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()

    def nbytes(self) -> int:
        return prod(self.sizes) * DTYPES[self.dtype].itemsize if self.dtype else 0


class _Saving:
    """A checkpoint as this rank writes it.

    Parameters
    ----------
    writer
        Where to.
    ranks
        Which write it.
    """

    def __init__(self, writer: FileSystemWriter, ranks: Ranks) -> None:
        self._writer = writer
        self.ranks = ranks
        self._file = ""
        self._values: dict[str, Any] = {}
        self._pieces: list[_Piece] = []
        self._staged: dict[str, Tensor] = {}
        self._is_written = False
        self._encoded: dict[str, Any] = {}
        self._events: list[Any] = []
        self._failure: Exception | None = None

    def plan(self, state_dict: dict[str, Any]) -> None:
        """Agree on which rank writes what."""

        def local() -> list[_Piece]:
            if not isinstance(state_dict, dict):
                raise TypeError(f"a state dict is a dict, not {type(state_dict).__name__}")
            self._writer.set_up()
            self._values = flattened(
                {
                    key: each.state_dict() if isinstance(each, Stateful) else each
                    for key, each in state_dict.items()
                }
            )
            pieces = [piece for name, value in self._values.items() for piece in _pieces(name, value)]
            for piece in pieces:
                if not piece.dtype:
                    self._encoded[piece.name] = Encoder().encode(self._values[piece.name], (piece.name,))
            return pieces

        def combine(plans: list[list[_Piece]]) -> list[Any]:
            token = uuid.uuid4().hex[:12]
            return [(token, pieces) for pieces in assigned(plans)]

        token, self._pieces = self.ranks.step("save", local, combine)
        self._file = f"__{self.ranks.rank}_{token}.safetensors"

    def stage(self, *, copies: bool) -> None:
        """Get hold of what this rank writes in host memory; ``copies`` of it if it may change before it is written.

        Ranks hear from :meth:`write` of one that fails here, as from one that cannot write its file: they would wait for it.
        """
        try:
            self._stage(copies)
        except Exception as error:
            self._failure = error
        # What was not copied is not needed, and may be large.
        self._values = {}

    def _stage(self, copies: bool) -> None:
        devices = set()
        with tensor.no_grad():
            for piece in self._pieces:
                if not piece.dtype:
                    continue
                local = local_part(self._values[piece.name])
                if local.device.type == "cuda":
                    devices.add(local.device)
                    pinned = tensor.empty(local.shape, dtype=local.dtype, pin_memory=True)
                    local = pinned.copy_(local, non_blocking=True)
                elif copies:
                    local = local.clone()
                self._staged[piece.name] = local
        for device in devices:
            event = tensor.cuda.Event()
            event.record(tensor.cuda.current_stream(device))
            self._events.append(event)

    def write(self) -> Metadata:
        """Write this rank's file; the first rank makes the checkpoint whole when all have done so."""
        try:
            metadata: Metadata
            metadata, failure = self.ranks.step("save", self._write, self._finish)
        except BaseException as error:
            # If ranks could not hear of each other, the first one may have made the checkpoint whole, of this file too; otherwise
            # the next save removes it.
            if isinstance(error, CheckpointException) or not self._is_written:
                self._writer.discard(self._file)
            raise
        finally:
            self._writer.release(self._file)
        if failure is not None:
            raise CheckpointException("save", {0: failure})
        return metadata

    def _write(self) -> Any:
        if self._failure is not None:
            raise self._failure
        for event in self._events:
            event.synchronize()
        arrays = {name: host_array(local) for name, local in self._staged.items()}
        checksums = self._writer.write(self._file, arrays) if arrays else {}
        pieces = [
            (
                piece,
                ChunkStorageMetadata(
                    Size(piece.offsets), Size(piece.sizes), self._file, checksums[piece.name]
                )
                if piece.dtype
                else self._encoded[piece.name],
            )
            for piece in self._pieces
        ]
        self._staged = {}
        self._is_written = True
        return pieces

    def _finish(self, results: list[list[tuple[_Piece, Any]]]) -> list[tuple[Metadata, Failure | None]]:
        described: dict[str, TensorStorageMetadata | BytesStorageMetadata] = {}
        for pieces in results:
            for piece, written in pieces:
                if not piece.dtype:
                    described[piece.name] = BytesStorageMetadata(written)
                    continue
                whole = described.setdefault(
                    piece.name,
                    TensorStorageMetadata(TensorProperties(DTYPES[piece.dtype]), Size(piece.size), []),
                )
                assert isinstance(whole, TensorStorageMetadata)
                whole.chunks.append(written)
        metadata = Metadata(described)
        failure = None
        try:
            self._writer.finish(metadata)
        except Exception as error:
            if not self._writer.holds(metadata):
                raise
            # The folder names the files that were written now, so that they stay. It may not be on the disk, which is an error.
            failure = failure_of(error)
        return [(metadata, failure)] * self.ranks.size


def assigned(plans: list[list[_Piece]]) -> list[list[_Piece]]:
    """What each rank writes of what each has: what several have is written by the one with the least to write.

    Raises
    ------
    ValueError
        If ranks have different things under a name, or a part of a tensor is nowhere.
    """
    holders: dict[_Piece, list[int]] = {}
    first: dict[str, tuple[_Piece, int]] = {}
    for rank, pieces in enumerate(plans):
        for piece in pieces:
            known, other = first.setdefault(piece.name, (piece, rank))
            if (known.dtype, known.size) != (piece.dtype, piece.size):
                raise ValueError(
                    f"'{piece.name}' is {_described(known)} on rank {other}, and {_described(piece)} on rank {rank}: ranks save "
                    "equal values, or parts of one tensor, under a name"
                )
            holders.setdefault(piece, []).append(rank)
    counts: dict[str, int] = {}
    for piece in holders:
        counts[piece.name] = counts.get(piece.name, 0) + prod(piece.sizes)
    for name, (piece, _) in first.items():
        if piece.dtype and counts[name] != prod(piece.size):
            raise ValueError(
                f"the parts of '{name}' have {counts[name]} elements together, and {_described(piece)} has {prod(piece.size)}: "
                "all ranks of its mesh save it"
            )
    result: list[list[_Piece]] = [[] for _ in plans]
    loads = [0] * len(plans)
    for piece, ranks in sorted(holders.items(), key=lambda item: len(item[1])):
        rank = min(ranks, key=loads.__getitem__)
        loads[rank] += piece.nbytes()
        result[rank].append(piece)
    return result


def _described(piece: _Piece) -> str:
    return f"{piece.dtype} of shape {list(piece.size)}" if piece.dtype else "no tensor"


def _pieces(name: str, value: Any) -> Iterable[_Piece]:
    """What this rank has of ``value``; nothing if all its elements are others'."""
    if not isinstance(value, Tensor):
        return [_Piece(name)]
    dtype, size = value.dtype.name, tuple(value.shape)
    whole = _Piece(name, dtype, size, (0,) * len(size), size)
    if not isinstance(value, DTensor):
        return [whole]
    check_no_sums(name, value)
    if value.device_mesh.get_coordinate() is None:
        return []
    sizes = value._sharding.local_shape()
    if not prod(sizes):
        return [] if prod(size) else [whole]
    return [replace(whole, offsets=value._sharding.local_offsets(), sizes=sizes)]


def check_no_sums(name: str, value: DTensor) -> None:
    """Refuse a tensor whose elements no rank has, but terms of them.

    Raises
    ------
    ValueError
        If a placement of ``value`` is partial.
    """
    if any(each.is_partial() for each in value.placements):
        raise ValueError(
            f"'{name}' has the placements {value.placements}: ranks have terms of its elements, and a checkpoint has elements. "
            "Save, or load, what redistribute() makes of it with Replicate() or Shard() in place of Partial()"
        )


def local_part(value: Tensor) -> Tensor:
    """The elements that this rank has, without a graph."""
    return (value.to_local() if isinstance(value, DTensor) else value).detach()
