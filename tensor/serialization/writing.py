"""Files that are replaced as a whole, or stay what they were."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Give the name of a new file in the same directory, which takes the place of ``path`` when the block ends.

    It is on the disk before it does. If the block raises, ``path`` is what it was, and the new file is gone. A symbolic
    link stays one: the file that it leads to is replaced. Permissions are those of the old file, or of any new one.
    """
    target = Path(os.path.realpath(path))
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".tmp", dir=target.parent)
    os.close(handle)
    result = Path(name)
    try:
        yield result
        result.chmod(_mode(target))
        flush(result)
        result.replace(target)
    except BaseException:
        result.unlink(missing_ok=True)
        raise
    # The directory's new entry, too.
    flush(target.parent)


def is_special(path: Path) -> bool:
    """Whether ``path`` is a device or a pipe, which is written to and not replaced."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _mode(target: Path) -> int:
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        return 0o666 & ~umask


def flush(path: Path) -> None:
    """Have a file, or the entries of a directory, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
