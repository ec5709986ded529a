"""What CUDA's driver library exports, from CUDA's own headers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from drv.compiler import cuda_include_dirs
from drv.errors import LibraryNotInstalledError

_TYPEDEF = re.compile(r"typedef CUresult ?\(CUDAAPI \*PFN_(cu\w+?)_v(\d+)(_ptds|_ptsz)?\)\(([^;]*)\);")
_TYPEDEFS = ("cudaTypedefs.h", "cudaProfilerTypedefs.h")
_CURRENT = re.compile(r"^ *#define (cu\w+?)\s+(?:__CUDA_API_PT[DS][SZ]\()?\1(?:_v(\d+))?\)?$", re.MULTILINE)
_VERSION_OF_TYPE = re.compile(r"\b(CU\w+?)_v\d\b")


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a driver function; a function whose parameters have changed has several.

    Attributes
    ----------
    function : str
        Its name in CUDA's documentation, such as ``"cuMemAlloc"``.
    symbol : str
        The exported name, such as ``"cuMemAlloc_v2"``.
    version : int
        The release that brought it, as in ``3020`` for CUDA 3.2.
    parameters : tuple
        Type, without versions, and name of each parameter, as in ``("CUdeviceptr*", "dptr")``.
    per_thread : bool
        Whether stream 0 is the calling thread's default stream.
    """

    function: str
    symbol: str
    version: int
    parameters: tuple[tuple[str, str], ...]
    per_thread: bool


@cache
def forms() -> dict[str, tuple[Form, ...]]:
    """Every form of every driver function, by the function's name, the oldest first.

    Raises
    ------
    LibraryNotInstalledError
        If CUDA's headers are not there.
    """
    folder = next((Path(each) for each in cuda_include_dirs() if Path(each, "cudaTypedefs.h").exists()), None)
    if folder is None:
        raise LibraryNotInstalledError(
            "CUDA's header cudaTypedefs.h was not found: pip install nvidia-cuda-runtime, or set CUDA_HOME"
        )
    newest = {name: int(number or 1) for name, number in _CURRENT.findall(_text(folder / "cuda.h"))}
    variants: dict[str, list[tuple[int, str, str]]] = {}
    for header in _TYPEDEFS:
        for name, version, thread, parameters in _TYPEDEF.findall(_text(folder / header)):
            variants.setdefault(name, []).append((int(version), thread, parameters))
    return {name: _forms(name, versions, newest.get(name, 1)) for name, versions in variants.items()}


def chosen(name: str, version: int, *, per_thread: bool) -> Form | None:
    """The latest form of a function that ``version`` of CUDA had; None where there was none yet.

    Raises
    ------
    KeyError
        If no version has a function ``name``.
    """
    fitting = [form for form in forms()[name] if form.version <= version]
    candidates = [form for form in fitting if form.per_thread] if per_thread else []
    candidates = candidates or [form for form in fitting if not form.per_thread]
    return candidates[-1] if candidates else None


def exported() -> list[str]:
    """Names of all symbols that the library has, in a fixed order."""
    return sorted({form.symbol for several in forms().values() for form in several})


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _forms(name: str, versions: list[tuple[int, str, str]], newest: int) -> tuple[Form, ...]:
    result = []
    ordinary = sorted(version for version, thread, _ in versions if not thread)
    # A form for per-thread streams has the number of the ordinary one that it goes with: the last of its parameters.
    # Without a later name for the newest form, the plain name is the oldest one's.
    latest = newest if newest > 1 else len(ordinary)
    numbers = dict(zip(reversed(ordinary), range(latest, 0, -1), strict=False))
    of_parameters = {
        _plain(parameters): numbers.get(version)
        for version, thread, parameters in sorted(versions)
        if not thread
    }
    for version, thread, parameters in sorted(versions):
        plain = _plain(parameters)
        number = of_parameters.get(plain, newest) if thread else numbers.get(version)
        if number is not None:
            symbol = f"{name}_v{number}" if number > 1 else name
            result.append(Form(name, symbol + thread, version, plain, bool(thread)))
    return tuple(result)


def _plain(parameters: str) -> tuple[tuple[str, str], ...]:
    """Type and name of each parameter of a prototype."""
    result = []
    for parameter in parameters.split(","):
        text = " ".join(parameter.split())
        if text in ("", "void"):
            continue
        c_type, name = re.fullmatch(r"(.*?)\s*(\w+)", text).groups()  # type: ignore[union-attr]
        c_type = _VERSION_OF_TYPE.sub(r"\1", c_type).replace(" *", "*").replace("* ", "*")
        result.append(("unsigned int" if c_type == "unsigned" else c_type, name))
    return tuple(result)
