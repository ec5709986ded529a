"""Watching over the processes that a program starts, too: each leaves a report, and the first one gathers them."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import multiprocessing.util
import os
import pickle
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from graphroot.coexistence import own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drv.selection import Supervisor

#: The folder in which processes leave their reports, and how they are to watch.
_FOLDER = "GRAPHROOT_FOLLOWED"
_SUPERVISOR = "GRAPHROOT_SUPERVISOR"
_HOW = "observer"
#: A process's report is made after all that its program does at its end.
_LAST = -(10**6)


class Observer(Protocol):
    """A supervisor that has something to report at the end."""

    def simulator_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """See :class:`drv.selection.Supervisor`."""

    def started(self, runtime: Any) -> None:
        """See :class:`drv.selection.Supervisor`."""

    def ending(self, runtime: Any) -> None:
        """See :class:`drv.selection.Supervisor`."""

    def report(self, process: str) -> Any:
        """What is told of this process, which is called ``process``: something that can be pickled."""


class Followed:
    """What the processes that a program has started report.

    Attributes
    ----------
    reports : list
        Those of the processes that used a GPU and came to their end.

    Parameters
    ----------
    observer : str
        ``"module:class"`` of the :class:`Observer` that each of them makes.
    *arguments
        What the class is called with.
    """

    def __init__(self, observer: str, *arguments: Any) -> None:
        self._how = observer, arguments
        self.reports: list[Any] = []

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """Follow into the processes that are started in a block; then ``reports`` has what they left."""
        with tempfile.TemporaryDirectory(prefix="graphroot-reports-") as name:
            folder = Path(name)
            (folder / _HOW).write_bytes(pickle.dumps(self._how))
            before = {variable: os.environ.get(variable) for variable in (_FOLDER, _SUPERVISOR)}
            os.environ.update({_FOLDER: name, _SUPERVISOR: f"{__name__}:supervisor"})
            try:
                yield
            finally:
                for variable, value in before.items():
                    os.environ.pop(variable, None)
                    if value is not None:
                        os.environ[variable] = value
                self._gather(folder)

    def _gather(self, folder: Path) -> None:
        # The folder is this user's alone, and what is in it was written by this code.
        self.reports += [pickle.loads(path.read_bytes()) for path in sorted(folder.glob("*.report"))]


def supervisor() -> Supervisor | None:
    """What watches over this process, which a watched program has started; None if that has ended before it.

    See :func:`drv.selection.supervise`.
    """
    try:
        observer_class, arguments = pickle.loads(Path(os.environ[_FOLDER], _HOW).read_bytes())
    except FileNotFoundError:
        return None
    module, _, name = observer_class.partition(":")
    observer: Observer = getattr(own(module), name)(*arguments)
    report = _Report(observer, Path(os.environ[_FOLDER]))
    if multiprocessing.parent_process() is not None:
        # Such processes end without the interpreter's end.
        multiprocessing.util.Finalize(None, report, exitpriority=_LAST)
    atexit.register(report)
    return observer


class _Report:
    """Leaves this process's report to the one that gathers them."""

    def __init__(self, observer: Observer, folder: Path) -> None:
        self.observer = observer
        self.folder = folder
        self.process = os.getpid()

    def __call__(self) -> None:
        # A forked child has its own; one that was killed in the middle leaves nothing.
        if os.getpid() != self.process or not self.folder.is_dir():
            return
        report = self.observer.report(process_name())
        unfinished = self.folder / f"{self.process}.unfinished"
        unfinished.write_bytes(pickle.dumps(report))
        unfinished.replace(self.folder / f"{self.process}.report")


def process_name() -> str:
    """What reports call this process: its rank in a job, or what multiprocessing calls it, or its number."""
    rank = os.environ.get("RANK")
    if rank is not None and "WORLD_SIZE" in os.environ:
        return f"rank {rank}"
    if multiprocessing.parent_process() is not None:
        return multiprocessing.current_process().name
    return f"process {os.getpid()}"
