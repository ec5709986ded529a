"""Names of ``torch.hub``, without network: nothing is downloaded, and what is on the disk already is used."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import unquote, urlparse

from tensor import serialization

from .core.names.absent import hints as _hints

if TYPE_CHECKING:
    from builtins import list as _List
    from collections.abc import Callable
    from types import ModuleType

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

#: The beginning of a file's SHA-256, as it stands in names like ``resnet18-f37072fd.pth``. Packages import it.
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
#: The file of a repository whose functions make models.
_ENTRY_FILE = "hubconf.py"


class _Folder:
    """Where files are looked for, if a program set that."""

    def __init__(self) -> None:
        self.path: str | None = None


_folder = _Folder()


def get_dir() -> str:
    """The folder whose subfolder ``checkpoints`` has files that were downloaded, PyTorch's own.

    It is what :func:`set_dir` set, or ``$TORCH_HOME/hub``, or ``$XDG_CACHE_HOME/torch/hub``, or
    ``~/.cache/torch/hub``. So checkpoints that PyTorch downloaded are found.
    """
    return str(Path(_get_torch_home()) / "hub") if _folder.path is None else _folder.path


def _get_torch_home() -> str:
    """The folder whose subfolders have what PyTorch and packages for it downloaded; they ask for it by this name."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("TORCH_HOME", str(Path(cache) / "torch"))
    return str(Path(home).expanduser())


def set_dir(d: str | os.PathLike[str]) -> None:
    """Look for downloaded files in the folder ``d`` from now on.

    ``~`` stands for the home folder. The folder is created when something is stored in it.
    """
    _folder.path = str(Path(d).expanduser())


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """Load a state dict from a local file, or from where an earlier download of its address left it.

    Parameters
    ----------
    url : str
        A path, a ``file://`` address, or the address of a file that is in ``model_dir`` already.
    model_dir : str, optional
        Where downloaded files are; ``checkpoints`` in :func:`get_dir` by default.
    map_location
        As for ``tensor.load``.
    progress : bool
        Taken for PyTorch's sake: nothing takes long.
    check_hash : bool
        Whether the file has to begin with the SHA-256 that its name says, as ``resnet18-f37072fd.pth`` does.
    file_name : str, optional
        The file's name in ``model_dir``, if it is not the last part of ``url``.
    weights_only : bool
        As for ``tensor.load``, which runs nothing from a file in either case.

    Raises
    ------
    RuntimeError
        If the file is not on this machine, with the address and the place to put it, or if its hash is another one.
    """
    path = _local_path(url, model_dir, file_name)
    if check_hash:
        _check_hash(path, file_name or Path(urlparse(url).path).name)
    state: dict[str, Any] = serialization.load(path, map_location, weights_only=weights_only)
    return state


def _local_path(url: str, model_dir: str | None, file_name: str | None) -> Path:
    address = urlparse(url)
    if address.scheme in ("", "file"):
        path = Path(url if address.scheme == "" else unquote(address.path)).expanduser()
        if not path.is_file():
            raise RuntimeError(f"load_state_dict_from_url(): there is no file {path}")
        return path
    folder = Path(get_dir()) / "checkpoints" if model_dir is None else Path(model_dir)
    path = folder / (file_name or Path(address.path).name)
    if not path.is_file():
        raise RuntimeError(f"nothing is downloaded here: fetch {url} and put it at {path}")
    return path


def _check_hash(path: Path, name: str) -> None:
    expected = HASH_REGEX.search(name)
    if expected is None or not expected.group(1):
        return
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    prefix = expected.group(1)
    if not digest.startswith(prefix):
        raise RuntimeError(
            f'invalid hash value (expected "{prefix}", got "{digest}"): {path} is damaged or another file; fetch it again'
        )


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> NoReturn:
    """Refuse to download ``url`` to ``dst``, whatever ``hash_prefix`` and ``progress`` are.

    Raises
    ------
    RuntimeError
        Always, with what to do.
    """
    raise RuntimeError(f"nothing is downloaded here: fetch {url} and put it at {dst}")


def load(
    repo_or_dir: str | os.PathLike[str],
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """What the function ``model`` of a repository's ``hubconf.py`` returns for ``args`` and ``kwargs``.

    ``repo_or_dir`` is a folder, and ``source`` is ``"local"``. The code in it is run. ``trust_repo``,
    ``force_reload``, ``verbose`` and ``skip_validation`` are about downloads and change nothing.

    Raises
    ------
    RuntimeError
        For a repository on GitHub, which is not downloaded, with what to do; for a function that is not there.
    ValueError
        For another ``source``.
    FileNotFoundError
        If the folder has no ``hubconf.py``.
    """
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    return _entry(_entries(repo_or_dir, source == "local"), model)(*args, **kwargs)


def list(
    github: str | os.PathLike[str],
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
    verbose: bool = True,
) -> _List[str]:
    """Names of the functions that make models, in ``hubconf.py`` of the folder ``github``.

    ``force_reload``, ``skip_validation``, ``trust_repo`` and ``verbose`` are about downloads and change nothing.

    Raises
    ------
    RuntimeError
        If there is no such folder: nothing is downloaded.
    FileNotFoundError
        If the folder has no ``hubconf.py``.
    """
    module = _entries(github, Path(github).is_dir())
    return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


def help(
    github: str | os.PathLike[str],
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
) -> str | None:
    """The docstring of the function ``model`` in ``hubconf.py`` of the folder ``github``.

    ``force_reload``, ``skip_validation`` and ``trust_repo`` are about downloads and change nothing.

    Raises
    ------
    RuntimeError
        If there is no such folder, as nothing is downloaded, or no such function.
    FileNotFoundError
        If the folder has no ``hubconf.py``.
    """
    return _entry(_entries(github, Path(github).is_dir()), model).__doc__


def _entries(folder: str | os.PathLike[str], is_local: bool) -> ModuleType:
    """The module ``hubconf.py`` of a folder, run anew."""
    if not is_local:
        raise RuntimeError(
            f"nothing is downloaded here: clone https://github.com/{str(folder).partition(':')[0]} and load it by its "
            "folder with source='local'"
        )
    path = Path(folder).expanduser() / _ENTRY_FILE
    if not path.is_file():
        raise FileNotFoundError(f"{path.parent} has no {_ENTRY_FILE}, whose functions make the models")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # It imports its neighbours.
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def _entry(module: ModuleType, name: str) -> Callable[..., Any]:
    function: Callable[..., Any] | None = vars(module).get(name)
    if not callable(function):
        raise RuntimeError(f"Cannot find callable {name} in {_ENTRY_FILE}")
    return function


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    _missing = _hints(__name__)

    def __getattr__(name: str) -> Any:
        if name == "tqdm":
            # Progress bars, which packages import from here; the package is optional.
            from tqdm.auto import tqdm

            return tqdm
        return _missing(name)
