"""Lines of source for reports: of Python files, of kernels that scripts hold as text, of the project's own kernels."""

from __future__ import annotations

import functools
import linecache
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from nvrtc_kernels.kernel_cache import KernelCache

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drv import Runtime
    from drv.python_stack import Frame

    from .findings import Stack

_ROOT = Path(__file__).resolve().parents[2]


class Sources:
    """Finds lines by file and number.

    Kernels that scripts hold as text are known by the file names that reports give them. Where two texts have the
    same name, neither is quoted.
    """

    def __init__(self) -> None:
        self._kernels: dict[str, str | None] = {}

    def learn(self, runtime: Runtime) -> None:
        """Note the texts of the kernels that ``runtime`` has loaded."""
        self.add(KernelCache.of(runtime).sources)

    def add(self, kernels: Mapping[str, str | None]) -> None:
        """Note texts that another process knows."""
        for name, text in kernels.items():
            if self._kernels.setdefault(name, text) != text:
                self._kernels[name] = None

    @property
    def kernels(self) -> Mapping[str, str | None]:
        """The texts that are known, by name."""
        return self._kernels

    def python(self, frame: Frame) -> str:
        """The line of a frame, without indentation; empty where it cannot be had."""
        return linecache.getline(frame[0], frame[1]).strip()

    def cuda(self, file: str, line: int) -> str:
        """The line of a CUDA source; empty where it cannot be had."""
        text = self._kernels.get(file)
        if text is None:
            return linecache.getline(file, line).strip() if Path(file).is_file() else ""
        lines = text.splitlines()
        return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def own(stack: Stack) -> Stack:
    """A stack without Python's own modules, such as ``threading``, unless nothing else is in it."""
    frames = tuple(frame for frame in stack if not _is_pythons(frame[0]))
    return frames or stack


@functools.cache
def _is_pythons(file: str) -> bool:
    # A process that multiprocessing has spawned begins with a line of a program on its command line.
    if file.startswith("<frozen ") or file == "<string>":
        return True
    for name in ("stdlib", "platstdlib"):
        folder = Path(sysconfig.get_path(name)).resolve()
        if Path(file).is_relative_to(folder):
            return Path(file).relative_to(folder).parts[0] not in ("site-packages", "dist-packages")
    return False


def short(file: str) -> str:
    """A path as people read it: from the current folder on, or the project's own, where it lies in one of them."""
    path = Path(file)
    for folder in (Path.cwd(), _ROOT):
        if path.is_absolute() and path.is_relative_to(folder):
            return str(path.relative_to(folder))
    return file
