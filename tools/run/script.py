"""Running a script as ``python script.py`` does, and forgetting it afterwards."""

from __future__ import annotations

import atexit
import builtins
import contextlib
import gc
import importlib.util
import os
import sys
import sysconfig
import threading
import traceback
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphroot.coexistence import is_ours, make_way, own, remark_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ROOT = Path(__file__).resolve().parents[2]
_OWN = str(Path(__file__).resolve().parent) + os.sep


class CannotRun(Exception):  # noqa: N818 - what is wrong is the command line
    """There is no such script or module."""


@dataclass(slots=True)
class Script:
    """A script, or a module, with its arguments.

    Attributes
    ----------
    target : tuple of str
        File or name of a module, and the arguments.
    status : int
        The exit status that ``python`` would end with, once :meth:`run` is done.
    """

    target: tuple[str, ...]
    module: bool = False
    status: int = 0
    _namespace: types.ModuleType | None = None
    _modules: set[str] = field(default_factory=set)
    _exits: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What the user calls it."""
        return f"-m {self.target[0]}" if self.module else self.target[0]

    def run(self) -> None:
        """Run it to its end, its threads' and its exit handlers' included; print the traceback of an exception.

        Raises
        ------
        CannotRun
            If it cannot be found.
        """
        with _restored():
            make = self._load_module if self.module else self._load_file
            namespace, code_of = make()
            # Its folder, which may have packages of our names, is on the search path now.
            make_way()
            self._namespace = namespace
            self._modules = set(sys.modules)
            sys.modules["__main__"] = namespace
            threads = set(threading.enumerate())
            with self._exits_diverted():
                self._guarded(lambda: exec(code_of(), namespace.__dict__))
                while started := [
                    thread for thread in threading.enumerate() if thread not in threads and not thread.daemon
                ]:
                    started[0].join()
                while self._exits:
                    function, arguments, keywords = self._exits.pop()
                    try:
                        function(*arguments, **keywords)
                    except BaseException:
                        print(f"Exception ignored in atexit callback: {function!r}", file=sys.stderr)
                        traceback.print_exc()
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()

    def forget(self) -> None:
        """Clear its globals and the modules of its own that it imported, and collect the garbage."""
        mine = [
            name
            # A copy, for what is asked of a module may import others (sysconfig does).
            for name, module in list(sys.modules.items())
            if name not in self._modules and isinstance(module, types.ModuleType) and _belongs_to_user(module)
        ]
        for name in mine:
            sys.modules.pop(name).__dict__.clear()
        if self._namespace is not None:
            self._namespace.__dict__.clear()
            self._namespace = None
        # What finalizers let go of is for the next round.
        for _ in range(3):
            if not gc.collect():
                break

    def _load_file(self) -> tuple[types.ModuleType, Callable[[], types.CodeType]]:
        argument = self.target[0]
        path = Path(argument).absolute()
        if path.is_dir():
            path = path / "__main__.py"
        try:
            source = path.read_bytes()
        except OSError as error:
            raise CannotRun(f"can't open file {argument!r}: [Errno {error.errno}] {error.strerror}") from None
        # As Python has it: the folder of the file that a link points to.
        sys.path[0] = str(Path(argument).resolve() if Path(argument).is_dir() else path.resolve().parent)
        sys.argv[:] = self.target
        return _main_module(str(path)), lambda: compile(source, str(path), "exec")

    def _load_module(self) -> tuple[types.ModuleType, Callable[[], types.CodeType]]:
        name = self.target[0]
        sys.path[0] = str(Path.cwd())
        try:
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.submodule_search_locations is not None:
                spec = importlib.util.find_spec(f"{name}.__main__")
        except (ImportError, ValueError) as error:
            raise CannotRun(f"No module named {name!r} can be run: {error}") from None
        if spec is None or spec.loader is None or not hasattr(spec.loader, "get_code"):
            raise CannotRun(f"No module named {name!r} can be run")
        namespace = _main_module(spec.origin)
        namespace.__spec__ = spec
        namespace.__package__ = spec.parent
        sys.argv[:] = (spec.origin or name, *self.target[1:])
        return namespace, lambda: spec.loader.get_code(spec.name)

    def _guarded(self, run: Callable[[], object]) -> None:
        """Run, and treat what is raised as the interpreter does at its end."""
        try:
            run()
        except SystemExit as end:
            self.status = _status_of(end.code)
        except BaseException as error:
            self.status = 130 if isinstance(error, KeyboardInterrupt) else 1
            _show(error)
            # Its frames hold the script's variables.
            traceback.clear_frames(error.__traceback__)
            error.__traceback__ = None

    @contextlib.contextmanager
    def _exits_diverted(self) -> Iterator[None]:
        """Keep the functions that the script registers with :mod:`atexit`, to call them before it is forgotten."""
        register, unregister = atexit.register, atexit.unregister

        def divert(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Callable[..., Any]:
            if is_ours(sys.modules.get(getattr(function, "__module__", ""))):
                return register(function, *arguments, **keywords)
            self._exits.append((function, arguments, keywords))
            return function

        def forget(function: Callable[..., Any]) -> None:
            self._exits[:] = [each for each in self._exits if each[0] != function]
            unregister(function)

        functions = vars(atexit)
        functions.update(register=divert, unregister=forget)
        try:
            yield
        finally:
            functions.update(register=register, unregister=unregister)


def become_torch(prog: str) -> bool:
    """Let ``import torch`` be graphroot for what is run; where that is impossible, say why in the name of ``prog``."""
    installation: Any = own("tensor.torch_names.installation")
    try:
        installation.install()
    except ImportError as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return False
    return True


def _main_module(file: str | None) -> types.ModuleType:
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=file, __builtins__=builtins, __annotations__={}, __cached__=None)
    return module


def _belongs_to_user(module: types.ModuleType) -> bool:
    """Whether a module is neither the project's, nor Python's, nor an installed package's."""
    if is_ours(module) or module.__name__.split(".")[0] == "torch":
        return False
    file = getattr(module, "__file__", None)
    if file is None:
        return hasattr(module, "__path__")
    installed = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return not Path(file).resolve().is_relative_to(sys.base_prefix) and not any(
        Path(file).resolve().is_relative_to(Path(path).resolve()) for path in installed
    )


def _status_of(code: object) -> int:
    """The exit status of ``sys.exit(code)``."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def _show(error: BaseException) -> None:
    """Print the traceback, without the frames of this tool."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith((_OWN, "<frozen ")):
        frames = frames.tb_next
    error.__traceback__ = frames
    remark = _remark_on(error)
    if remark is not None:
        error.add_note(remark)
    try:
        sys.excepthook(type(error), error, frames)
    except Exception:
        traceback.print_exc()


def _remark_on(error: BaseException) -> str | None:
    """What to say of an error that is not about the script itself."""
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        return "`graphroot run` runs a program that imports torch; with --memcheck it is checked as it runs"
    return remark_on(error)


@contextlib.contextmanager
def _restored() -> Iterator[None]:
    """What a script may find changed, or change, is put back: arguments, search path, ``__main__``."""
    argv, path, main = sys.argv[:], sys.path[:], sys.modules["__main__"]
    try:
        if not path:
            sys.path.append("")
        if str(_ROOT) not in path[1:]:
            # Where the project is not installed it was found in the current folder, whose place the script takes.
            sys.path.append(str(_ROOT))
        yield
    finally:
        sys.argv[:], sys.path[:] = argv, path
        sys.modules["__main__"] = main
