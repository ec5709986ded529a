"""From source to loaded kernels: compiled once per architecture, loaded once per device.

Compiled code is kept on disk under a key of program, included headers, compiler version and architecture.
What is loaded hangs on the runtime, and goes with it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from drv import CompiledProgram, Module, compile_program
from drv.compiler import architecture_of, compiler_version
from drv.disk_cache import DiskCache, sha256
from drv.environment import cache_directory

if TYPE_CHECKING:
    from drv import Device, Function, Runtime

    from .program import Program


class KernelCache:
    """Compiled and loaded programs of one runtime. Use :meth:`of`.

    Parameters
    ----------
    disk : DiskCache, optional
        Where compiled programs are kept from one process to the next; the user's cache directory if not given.

    Attributes
    ----------
    sources : dict
        Texts of the programs by their file names, for reports; ``None`` where several texts have one name.
    """

    def __init__(self, disk: DiskCache | None = None) -> None:
        self.disk = DiskCache.of(cache_directory() / "kernels") if disk is None else disk
        self.sources: dict[str, str | None] = {}
        self._functions: dict[tuple[str, str, int], Function] = {}
        self._modules: dict[tuple[str, int], Module] = {}
        self._compiled: dict[tuple[str, str], CompiledProgram] = {}
        self._lock = threading.Lock()
        self._busy: dict[tuple[str, str], threading.Lock] = {}

    @classmethod
    def of(cls, runtime: Runtime) -> KernelCache:
        """The cache of ``runtime``, which is made at the first call.

        It holds loaded modules, so it lives and is dropped with the runtime; compiled code on disk outlives both.
        """
        return runtime.cache("kernel cache", cls)

    def function(self, program: Program, name: str, device: Device) -> Function:
        """Kernel ``name`` of ``program`` on ``device``, compiled and loaded where it is not yet.

        ``name`` is a name expression of the program, ``extern "C"``, or mangled.

        Raises
        ------
        CompileError
            If the source does not compile.
        ModuleLoadError
            If the driver does not accept the code.
        NotFoundError
            If the program has no such kernel.
        """
        key = program.key, name, device.ordinal
        function = self._functions.get(key)
        if function is None:
            module = self.module(program, device)
            mangled = self.compile(program, device).names.get(name, name)
            function = self._functions[key] = module.function(mangled)
        return function

    def module(self, program: Program, device: Device) -> Module:
        """``program``, loaded in the context of ``device``: one module for all callers.

        Raises as :meth:`function` does.
        """
        key = program.key, device.ordinal
        module = self._modules.get(key)
        if module is None:
            compiled = self.compile(program, device)
            if self.sources.setdefault(program.name, program.source) != program.source:
                self.sources[program.name] = None
            module = self._modules.setdefault(key, Module(compiled.image, device))
        return module

    def compile(self, program: Program, device: Device) -> CompiledProgram:
        """``program`` compiled for ``device``: from memory, from disk, or by the compiler.

        Threads that want the same program wait for the first of them; others go on. Raises as :meth:`function` does.
        """
        architecture = architecture_of(device, only=program.one_architecture)
        line_info = device.runtime.simulated if program.line_info is None else program.line_info
        key = program.key, f"{architecture}{' -lineinfo' if line_info else ''}"
        with self._lock:
            turn = self._busy.setdefault(key, threading.Lock())
        # Threads that want the same program wait for the first; others go on.
        with turn:
            compiled = self._compiled.get(key)
            if compiled is None:
                compiled = self._compiled[key] = self._compile(program, architecture, line_info)
        return compiled

    def _compile(self, program: Program, architecture: str, line_info: bool) -> CompiledProgram:
        key = _disk_key(program, architecture, line_info)
        stored = self.disk.load(key) if key is not None else None
        if stored is not None:
            return _unpack(stored)
        compiled = compile_program(
            program.source,
            architecture,
            name=program.name,
            options=program.options,
            include_dirs=program.include_dirs,
            headers=dict(program.headers),
            name_expressions=program.name_expressions,
            line_info=line_info,
        )
        if key is not None:
            self.disk.store(key, _pack(compiled))
        return compiled


def _disk_key(program: Program, architecture: str, line_info: bool) -> str | None:
    """Key of everything that the compiled code depends on; ``None`` where that cannot be told."""
    headers = program.header_digest()
    if headers is None:
        return None
    key = (program.key, headers, compiler_version(), architecture, line_info)
    return sha256(repr(key).encode()).hexdigest()


def _pack(compiled: CompiledProgram) -> bytes:
    import json  # of use only to what compiles

    facts = {"architecture": compiled.architecture, "names": compiled.names, "log": compiled.log}
    return json.dumps(facts).encode() + b"\n" + compiled.image


def _unpack(payload: bytes) -> CompiledProgram:
    import json  # as above

    facts, _, image = payload.partition(b"\n")
    return CompiledProgram(image=image, **json.loads(facts))
