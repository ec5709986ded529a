"""A source with everything that decides what it compiles to."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from drv.disk_cache import sha256

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

#: Directory of this package's headers.
INCLUDE = str(Path(__file__).parent / "cuda")
_OURS = (INCLUDE,)

# Compiled, as any pattern of ``re``, at the first use.
_INCLUDE = r"^[ \t]*#[ \t]*include\b[ \t]*(.*)$"
_NAMED = r"""["<]([^">]+)[">]"""


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """CUDA C++ source and how to compile it.

    Attributes
    ----------
    source : str
        Text of the program.
    name : str
        File name, in messages and reports.
    options : tuple of str
        Options of NVRTC.
    include_dirs : tuple of str
        Directories of headers.
    headers : tuple of (name, text)
        Headers, as their text.
    name_expressions : tuple of str
        C++ names to look up the mangled names of.
    line_info : bool or None
        Whether code tells its source line; by default only for the simulated driver, whose reports
        quote it.
    one_architecture : bool
        Whether it uses what only the device's own architecture has, and no newer one.
    key : str
        Same for equal programs. Says nothing of the files in ``include_dirs``.
    """

    source: str
    name: str = "program.cu"
    options: tuple[str, ...] = ()
    include_dirs: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    name_expressions: tuple[str, ...] = ()
    line_info: bool | None = None
    one_architecture: bool = False
    key: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        fields = (
            self.source,
            self.name,
            self.options,
            self.include_dirs,
            self.headers,
            self.name_expressions,
            self.line_info,
            self.one_architecture,
        )
        object.__setattr__(self, "key", sha256(repr(fields).encode()).hexdigest())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def header_digest(self) -> str | None:
        """Digest of the files that the source includes from ``include_dirs``, directly or not.

        ``None`` when that cannot be known without the preprocessor (``#include MACRO``). CUDA's own
        headers go with the compiler's version and are left out.
        """
        option_dirs = [option for option in self.options if option.startswith(("-I", "--include-path="))]
        directories = [Path(directory) for directory in self.include_dirs]
        directories += [Path(re.sub("^(-I|--include-path=)", "", option)) for option in option_dirs]
        unknown = ("-include", "--pre-include")
        if any(o in ("-I", "--include-path") or o.startswith(unknown) for o in self.options):
            return None
        if self.include_dirs == _OURS and not option_dirs and not self.headers:
            return _digest_of_ours(tuple(_included(self.source)))
        texts = dict(self.headers)
        return _digest([_included(text) for text in (self.source, *texts.values())], texts, directories)


def _digest(
    included: Iterable[Iterable[str | None]], texts: Mapping[str, str], directories: Sequence[Path]
) -> str | None:
    """Digest of the files that names in ``included`` stand for in ``directories``, and of what these include.

    Names that ``texts`` has are no files. ``None`` where a name is.
    """
    queue: list[tuple[Iterable[str | None], Path | None]] = [(names, None) for names in included]
    digest = sha256()
    seen: set[str] = set()
    while queue:
        names, origin = queue.pop()
        for name in names:
            if name is None:
                return None
            if name in texts:
                continue
            here = [origin] if origin is not None else []
            path = next((d / name for d in (*here, *directories) if (d / name).is_file()), None)
            if path is None or str(path) in seen:
                continue
            seen.add(str(path))
            content = path.read_bytes()
            digest.update(f"{path}\0{len(content)}\0".encode() + content)
            queue.append((_included(content.decode(errors="replace")), path.parent))
    return digest.hexdigest()


@cache
def _digest_of_ours(names: tuple[str | None, ...]) -> str | None:
    """The same of this package's headers ``names``, which are read once in a process, as its modules are."""
    return _digest([names], {}, [Path(each) for each in _OURS])


def library_program(
    source: str,
    name: str,
    *options: str,
    name_expressions: tuple[str, ...] = (),
    one_architecture: bool = False,
) -> Program:
    """A program of this package: it sees the headers in ``cuda/``, and its functions are device code unless they say so.

    Nothing in it uses textures or CUDA's runtime, so the compiler is spared their declarations: a sixth of its time for
    a kernel of the usual size, and the same code.
    """
    return Program(
        source,
        name,
        ("-default-device", "-minimal", *options),
        (INCLUDE,),
        name_expressions=name_expressions,
        one_architecture=one_architecture,
    )


def _included(text: str) -> Iterator[str | None]:
    """Names that ``text`` includes; ``None`` for one that a macro gives."""
    for rest in re.findall(_INCLUDE, text, re.MULTILINE):
        named = re.match(_NAMED, rest.strip())
        yield named[1] if named else None
