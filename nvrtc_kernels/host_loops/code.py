"""Compiled loops: in memory, on disk, or compiled when they are first asked for."""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import drv
from drv.compiler import compile_program, compiler_version
from drv.disk_cache import DiskCache, sha256
from drv.environment import cache_directory
from drv.errors import CudaError
from drv.host import machine_code

from .signature import ELEMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nvrtc_kernels.program import Program

    from .signature import Signature

#: What PTX is made for: the instructions that this package reads do not differ from one to the next.
_ARCHITECTURE = "compute_90"
_NVRTC = "nvidia-cuda-nvrtc"
_CTYPES: dict[str, Any] = {
    "d": ctypes.c_double,
    "f": ctypes.c_float,
    "i": ctypes.c_int32,
    "q": ctypes.c_int64,
    "Q": ctypes.c_uint64,
    "?": ctypes.c_bool,
}
#: What is on disk for a device function that has no loop.
_REFUSED = b"refused"

_functions: dict[tuple[str, Signature, int, tuple[str, ...], bool], Callable[..., None] | None] = {}
#: Held while a loop is compiled; a child after a fork has its own.
_lock = threading.Lock()
#: Loaded code stays as long as the process, under names of its own.
_loaded: list[machine_code.LoadedCode] = []
_names = itertools.count()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def function(
    program: Program, signature: Signature, rank: int, accesses: tuple[str, ...], interleaved: bool = True
) -> Callable[..., None] | None:
    """The loop of :func:`.loop.text` over the device function ``element`` of ``program``; ``None`` if there can be none."""
    key = program.key, signature, rank, accesses, interleaved
    if key not in _functions:
        with _lock:
            if key not in _functions:
                _functions[key] = _function(program, signature, rank, accesses, interleaved)
    return _functions[key]


def _function(
    program: Program, signature: Signature, rank: int, accesses: tuple[str, ...], interleaved: bool
) -> Callable[..., None] | None:
    if not machine_code.available():
        return None
    try:
        key = _key(program, signature, rank, accesses, interleaved)
    except CudaError:
        # NVRTC is not installed.
        return None
    types = [ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * (1 + signature.operands)]
    types += [_CTYPES[code] for code in signature.scalars]
    return _loaded_function(key, lambda: _compiled(program, signature, rank, accesses, interleaved), types)


def assembled(
    description: tuple[Any, ...], assembler: Callable[[], str], types: Sequence[Any]
) -> Callable[..., None] | None:
    """The function ``loop`` of a text in LLVM's assembler that follows from ``description``; ``None`` without llvmlite.

    ``types`` are those of its parameters in :mod:`ctypes`.
    """
    if not machine_code.available():
        return None
    key = _digest((description, machine_code.identity(), _version()))
    return _loaded_function(key, lambda: machine_code.compiled(assembler()), types)


def _loaded_function(
    key: str | None, compiled: Callable[[], bytes], types: Sequence[Any]
) -> Callable[..., None] | None:
    """What is on disk under ``key``, or is compiled and stored there."""
    disk = DiskCache.of(cache_directory() / "host")
    image = None if key is None else disk.load(key)
    if image is None:
        image = compiled()
        if key is not None:
            disk.store(key, image)
    if image == _REFUSED:
        return None
    code = machine_code.LoadedCode(image, f"loop {next(_names)}", ["loop"])
    _loaded.append(code)
    # Other threads run while it does.
    result: Callable[..., None] = ctypes.CFUNCTYPE(None, *types)(code.addresses["loop"])
    return result


def _digest(value: object) -> str:
    return sha256(repr(value).encode()).hexdigest()


def _key(
    program: Program, signature: Signature, rank: int, accesses: tuple[str, ...], interleaved: bool
) -> str | None:
    headers = program.header_digest()
    if headers is None:
        return None
    described = (
        [(byte, each.name) for byte, each in signature.results],
        [each.name for each in signature.inputs],
        signature.scalars,
        signature.counted,
        signature.pack,
        signature.draws,
    )
    key = (
        program.key,
        headers,
        _compiler(),
        described,
        rank,
        accesses,
        interleaved,
        machine_code.identity(),
        _version(),
    )
    return _digest(key)


@functools.cache
def _compiler() -> str:
    """Which NVRTC makes PTX here. Where it is a package, what that says: loading it takes longer than a loop that is on disk."""
    try:
        from importlib import metadata  # of no use before something is compiled

        return metadata.version(_NVRTC)
    except metadata.PackageNotFoundError:
        return str(compiler_version())


@functools.cache
def _version() -> str:
    """Digest of the source files that decide what a device function becomes."""
    simulator = Path(drv.__file__).parent / "simulator"
    folders = (
        Path(__file__).parent,
        simulator / "ptx",
        simulator / "arithmetic",
        simulator / "execution" / "native" / "forms",
    )
    digest = sha256()
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _compiled(
    program: Program, signature: Signature, rank: int, accesses: Sequence[str], interleaved: bool
) -> bytes:
    # The parser and the arithmetic of the simulator take as long to import as a loop to compile, and most loops are on disk.
    from .loop import text

    compiled = compile_program(
        program.source,
        _ARCHITECTURE,
        name=program.name,
        options=program.options,
        include_dirs=program.include_dirs,
    )
    assembler = text(compiled.image.decode().rstrip("\0"), ELEMENT, signature, rank, accesses, interleaved)
    return _REFUSED if assembler is None else machine_code.compiled(assembler)
