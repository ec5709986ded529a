"""``FileSystemWriter`` and ``FileSystemReader``: checkpoints as folders of safetensors files.

A save writes files with new names, and then ``.metadata``, which names them, in one step. Until then, and if the job is
killed, the folder holds the checkpoint that it held before, whose files are removed last. Files that another save is still writing
are locked (``flock``), and stay.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import zlib
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nvrtc_kernels.dtypes import from_numpy
from tensor.core.base import wrap
from tensor.serialization.header import Entry, read_header
from tensor.serialization.safetensors_file import (
    AS_PAIRS,
    Item,
    bytes_of,
    form_of,
    header,
    ordered,
    write_all,
)
from tensor.serialization.sources import Mapped
from tensor.serialization.structure import UnreadableError
from tensor.serialization.writing import flush, replaced

from .metadata import Metadata, from_text, to_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    import tensor
    from tensor import Tensor

    from .metadata import ChunkStorageMetadata

__all__ = ["FileSystemReader", "FileSystemWriter"]

#: The file that says what is where.
_METADATA = ".metadata"
_SUFFIX = ".safetensors"
#: Bytes of tensors that have a checksum together.
_BLOCK = 1 << 22


class _Folder:
    """A folder that has a checkpoint, or will have one."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.reset(path)

    @property
    def checkpoint_id(self) -> Path:
        """The folder.

        A ``pathlib.Path``.
        """
        return self.path

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Go on with another checkpoint.

        Parameters
        ----------
        checkpoint_id : str or os.PathLike, optional
            Its folder; the same one by default.

        Raises
        ------
        TypeError
            If it is no path.
        """
        if checkpoint_id is None:
            return
        if not isinstance(checkpoint_id, (str, os.PathLike)):
            raise TypeError(f"a checkpoint is a folder: pass its path, not a {type(checkpoint_id).__name__}")
        self.path = Path(os.fsdecode(checkpoint_id))


_FolderT = TypeVar("_FolderT", bound=_Folder)


def folder_of(
    cls: type[_FolderT],
    checkpoint_id: str | os.PathLike[str] | None,
    passed: _FolderT | None,
    argument: str,
) -> _FolderT:
    """What reads or writes the checkpoint that the arguments of a function mean; ``argument`` names ``passed`` in messages.

    Raises
    ------
    RuntimeError
        If there is neither a folder nor ``passed``.
    TypeError
        If ``passed`` is of another class.
    """
    if passed is None:
        if checkpoint_id is None:
            raise RuntimeError(
                "`checkpoint_id` must be specified if storage_reader/storage_writer is None: the folder of the checkpoint"
            )
        return cls(checkpoint_id)
    if not isinstance(passed, cls):
        raise TypeError(f"{argument} is a {cls.__name__}, not {type(passed).__name__}")
    passed.reset(checkpoint_id)
    return passed


class FileSystemWriter(_Folder):
    """Writes a checkpoint to a folder.

    >>> import tempfile
    >>> writer = parallel.checkpoint.FileSystemWriter(tempfile.mkdtemp())
    >>> _ = parallel.checkpoint.save({"x": tensor.ones(2)}, storage_writer=writer)

    Parameters
    ----------
    path : str or os.PathLike
        The folder, which all ranks reach; it is made if it does not exist.
    single_file_per_rank : bool
        Accepted for compatibility: each rank writes one file.
    sync_files : bool
        Whether files are on the disk before the checkpoint counts, so that it outlives the machine's failure, too.
    thread_count, per_thread_copy_ahead, cache_staged_state_dict
        Accepted for compatibility.
    overwrite : bool
        Whether a checkpoint that is there may be replaced.

    Raises
    ------
    TypeError
        If ``path`` is no path.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
    ) -> None:
        super().__init__(path)
        self._syncs = sync_files
        self._overwrites = overwrite
        #: Files that are written and not yet part of a checkpoint, which no other save may remove.
        self._locked: dict[str, Any] = {}

    def set_up(self) -> None:
        """Make the folder. :func:`parallel.checkpoint.save` calls it.

        Raises
        ------
        RuntimeError
            If a checkpoint is there, and ``overwrite`` is False.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        if not self._overwrites and (self.path / _METADATA).exists():
            raise RuntimeError(f"Checkpoint already exists and overwrite=False: '{self.path}'")

    def write(self, file: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, tuple[int, ...]]:
        """Write a file, of which nobody reads before :meth:`finish`, and which is locked until :meth:`release`.

        Parameters
        ----------
        file : str
            Its name.
        arrays : dict of str to array
            What it holds.

        Returns
        -------
        dict of str to tuple of int
            Checksums of each array.
        """
        path = self.path / file
        items = ordered([_item(name, array) for name, array in arrays.items()])
        checksums = {}
        output = self._locked[file] = path.open("wb", buffering=0)
        _lock(output.fileno())
        write_all(output, header(items, {"format": "pt"}))
        for item in items:
            data = bytes_of(item)
            checksums[item.name] = _checksums(data)
            write_all(output, data.data)
        if self._syncs:
            flush(path)
            flush(self.path)
        return checksums

    def finish(self, metadata: Metadata) -> None:
        """Have the folder hold the checkpoint that ``metadata`` describes, and remove files of others.

        Parameters
        ----------
        metadata : Metadata
            Its files are written.

        Raises
        ------
        RuntimeError
            If one of them is gone.
        """
        with _alone_in(self.path):
            for file in sorted(metadata.files()):
                if not (self.path / file).exists():
                    raise RuntimeError(
                        f"'{self.path / file}' is gone, which this save has written: another save into the folder, or another "
                        "program, has removed it. The folder holds the checkpoint that it held before; save at one time from one "
                        "job, or to several folders"
                    )
            with replaced(self.path / _METADATA) as output:
                output.write_text(to_text(metadata), encoding="utf-8")
            # The checkpoint is there, whatever becomes of others.
            with contextlib.suppress(OSError):
                for each in self.path.glob(f"__*{_SUFFIX}"):
                    if each.name not in metadata.files() and not _is_locked(each):
                        self.discard(each.name)

    def holds(self, metadata: Metadata) -> bool:
        """Whether the folder holds the checkpoint that ``metadata`` describes, as far as can be told.

        Parameters
        ----------
        metadata : Metadata
            As :meth:`finish` was given it.

        Returns
        -------
        bool
            True, too, if the description cannot be read.
        """
        try:
            return (self.path / _METADATA).read_bytes() == to_text(metadata).encode()
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def release(self, file: str) -> None:
        """Let others remove a file, if it is no part of a checkpoint.

        Parameters
        ----------
        file : str
            Its name.
        """
        output = self._locked.pop(file, None)
        if output is not None:
            output.close()

    def discard(self, file: str) -> None:
        """Remove a file, if it can be done.

        Parameters
        ----------
        file : str
            Its name.
        """
        with contextlib.suppress(OSError):
            (self.path / file).unlink()


def _lock(handle: int, *, waits: bool = False) -> bool:
    """Lock an open file or folder until it is closed; whether that was done. Where there are no locks, it is."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _is_locked(path: Path) -> bool:
    handle = os.open(path, os.O_RDONLY)
    try:
        return not _lock(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Have other saves wait before they have the folder hold their checkpoint."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        _lock(handle, waits=True)
        yield
    finally:
        os.close(handle)


class FileSystemReader(_Folder):
    """Reads a checkpoint from a folder.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = parallel.checkpoint.save({"x": tensor.ones(2, 3)}, checkpoint_id=folder)
    >>> parallel.checkpoint.FileSystemReader(folder).read_metadata().state_dict_metadata["x"].size
    tensor.Size([2, 3])

    Parameters
    ----------
    path : str or os.PathLike
        The folder.

    Raises
    ------
    TypeError
        If ``path`` is no path.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self._files: dict[str, _File] = {}

    def read_metadata(self) -> Metadata:
        """What the checkpoint holds.

        Returns
        -------
        Metadata

        Raises
        ------
        FileNotFoundError
            If the folder has no checkpoint, or an incomplete one.
        RuntimeError
            If the description is damaged, or another program's.
        """
        path = self.path / _METADATA
        try:
            return from_text(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise FileNotFoundError(
                f"'{self.path}' has no complete checkpoint: it has no file {_METADATA}, which the first rank writes when all "
                "others have written theirs"
            ) from None
        except (UnreadableError, UnicodeDecodeError) as error:
            raise RuntimeError(f"cannot load '{path}': {error}") from None

    def open(self, file: str) -> _File:
        """A file of the checkpoint, with its header read; :meth:`close` closes it.

        Parameters
        ----------
        file : str
            Its name.

        Raises
        ------
        RuntimeError
            If it is missing, was cut off or is none of a checkpoint.
        """
        if Path(file).name != file:
            raise RuntimeError(f"cannot load '{self.path}': it names a file outside of the folder, {file!r}")
        opened = self._files.get(file)
        if opened is None:
            path = self.path / file
            try:
                opened = self._files[file] = _File(path)
            except FileNotFoundError:
                raise RuntimeError(f"'{self.path}' is incomplete: its file '{file}' is missing") from None
            except UnreadableError as error:
                raise RuntimeError(f"cannot load '{path}': {error}") from None
        return opened

    def close(self) -> None:
        """Close the files."""
        while self._files:
            self._files.popitem()[1].close()


class _File:
    """A file of a checkpoint, whose pages are read as they are used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Any = path.open("rb", buffering=0)
        try:
            self._source = Mapped(self._file)
            entries = read_header(self._source.read, self._source.size, whole=True).entries
        except BaseException:
            self._file.close()
            raise
        self._entries: dict[str, Entry] = {each.name: each for each in entries}
        self._checked: set[tuple[str, int]] = set()

    def check(self, name: str, chunk: ChunkStorageMetadata, dtype: tensor.dtype) -> None:
        """Check that the file has ``chunk`` of a tensor.

        Raises
        ------
        RuntimeError
            If it does not.
        """
        entry = self._entries.get(name)
        if entry is None or (entry.dtype, entry.shape) != form_of(dtype, tuple(chunk.sizes)):
            described = "nothing" if entry is None else f"{entry.dtype.name} of shape {list(entry.shape)}"
            raise RuntimeError(
                f"'{self._path}' has {described} as '{name}', and the checkpoint {dtype} of shape {list(chunk.sizes)}"
            )

    def part(
        self, name: str, chunk: ChunkStorageMetadata, dtype: tensor.dtype, region: tuple[slice, ...]
    ) -> Tensor:
        """Part of ``chunk``, a tensor on the CPU that shows the file's pages.

        Raises
        ------
        RuntimeError
            If its bytes are not those that were written.
        """
        array = self._source.array(self._entries[name])
        flat = array.reshape(-1).view(np.uint8)
        start, end = _extent(tuple(chunk.sizes), region)
        for block in range(start * dtype.itemsize // _BLOCK, -(-end * dtype.itemsize // _BLOCK)):
            if (name, block) not in self._checked:
                if zlib.crc32(flat[block * _BLOCK : (block + 1) * _BLOCK].data) != chunk.checksums[block]:
                    raise RuntimeError(
                        f"cannot load '{self._path}': the bytes of tensor '{name}' are not those that were written"
                    )
                self._checked.add((name, block))
        if dtype in AS_PAIRS:
            array = array.reshape(-1).view(dtype.numpy).reshape(tuple(chunk.sizes))
        return wrap(np.ascontiguousarray(array[region]).reshape([each.stop - each.start for each in region]))

    def close(self) -> None:
        self._file.close()


def _item(name: str, array: NDArray[Any]) -> Item:
    return Item(name, *form_of(from_numpy(array.dtype), array.shape), lambda: array)


def _checksums(data: NDArray[np.uint8]) -> tuple[int, ...]:
    return tuple(zlib.crc32(data[start : start + _BLOCK].data) for start in range(0, data.size, _BLOCK))


def _extent(shape: tuple[int, ...], region: tuple[slice, ...]) -> tuple[int, int]:
    """First element of a region in a contiguous array, and the one after its last."""
    if any(each.stop <= each.start for each in region):
        return 0, 0
    strides = [prod(shape[dim + 1 :]) for dim in range(len(shape))]
    first = sum(each.start * stride for each, stride in zip(region, strides, strict=True))
    last = sum((each.stop - 1) * stride for each, stride in zip(region, strides, strict=True))
    return first, last + 1
