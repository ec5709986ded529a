"""The simulated driver behind the real ``cuda.bindings``, so that the NVIDIA side runs where there is no GPU.

``install()`` loads a library that is called ``libcuda.so.1``. The bindings find it as they find NVIDIA's, convert
arguments as they do for NVIDIA's, and reach C functions made here, which turn the C arguments into a call of the
simulated driver and write its results through the pointers they were given. The prototypes are those that the
bindings were compiled with. As a plug-in of pytest, it puts the tests that run with ``--gpu`` on it::

    pytest -p tests.drv.fake_libcuda --gpu tests/drv

Only for a process of its own: the bindings never let go of the library.
"""

from __future__ import annotations

import atexit
import collections
import ctypes
import gc
import inspect
import itertools
import os
import re
import shutil
import subprocess
import tempfile
import threading
import traceback
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

_ROOT = Path(__file__).parents[2]
SUCCESS, INVALID_VALUE, NOT_INITIALIZED, NOT_FOUND, UNKNOWN = 0, 1, 3, 500, 999
_IPC_HANDLE = bytes(range(64))
#: CU_EVENT_DISABLE_TIMING and CU_EVENT_INTERPROCESS
_SHARED_EVENT = 6
#: Newer than any architecture that NVRTC knows, so that kernels are compiled to PTX, as for such a GPU.
DEFAULT_CAPABILITY = "15.0"

LIBRARIES = ("cublas", "cufft")
_NUMBERS = {
    "int": ctypes.c_int,
    "unsigned int": ctypes.c_uint,
    "unsigned char": ctypes.c_ubyte,
    "unsigned short": ctypes.c_ushort,
    "unsigned long long": ctypes.c_ulonglong,
    "cuuint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "float": ctypes.c_float,
    "CUdevice": ctypes.c_int,
}
_STRUCTURES = {
    "CUuuid": 16,
    "CUmemLocation": 8,
    "CUmemAccessDesc": 12,
    "CUipcMemHandle": 64,
    "CUipcEventHandle": 64,
}
_FOUR_BYTES = ("MEMORY_TYPE", "SYNC_MEMOPS", "IS_MANAGED", "DEVICE_ORDINAL", "MAPPED")
#: Names of parameters that Python's own names had to give way to.
_RENAMED = {"len": "length", "type": "typename"}
#: Calls whose arrays are not worth converting here: the product makes none of them.
_LEFT_OUT = {
    "cuCtxCreate", "cuKernelGetParamCount", "cuLibraryEnumerateKernels", "cuLibraryLoadData", "cuLibraryLoadFromFile",
    "cuMemGetAllocationPropertiesFromHandle", "cuModuleEnumerateFunctions", "cuModuleLoadData", "cuPointerGetAttributes",
    "cuPointerSetAttribute", "cuStreamAddCallback", "cuStreamBeginCaptureToGraph", "cuStreamGetCaptureInfo",
}  # fmt: skip


class _Handle(ctypes.Structure):
    """An inter-process handle, which C passes by value."""

    _fields_ = (("reserved", ctypes.c_char * 64),)


class FakeLibcuda:
    """The C functions of one simulated driver, and how often each was called.

    Attributes
    ----------
    driver
        The simulated driver.
    calls : collections.Counter
        Calls that came through the bindings, by name.
    cubins : dict
        PTX to run instead of a cubin, by the cubin's bytes.
    answers : dict
        What functions answer, by name, instead of doing anything.
    """

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self.folder = folder
        # A library of that name that is loaded already is the one that the bindings get.
        self.library = ctypes.CDLL(str(folder / "libcuda.so.1"))
        self.options = {"capability": DEFAULT_CAPABILITY} | options
        self.calls: collections.Counter[str] = collections.Counter()
        self.cubins: dict[bytes, bytes] = {}
        self.answers: dict[str, int] = {}
        self._process = os.getpid()
        self._functions: dict[str, Any] = {}
        self._versions: dict[str, int] = {}
        self._texts: dict[bytes, Any] = {}
        self._calling = 0
        self._collects = True
        self._tickets = itertools.count(1)
        self._host_functions: dict[int, tuple[int, int]] = {}
        self._host_entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._call_host_function)
        self._counting = threading.Lock()
        lookup = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p
        )
        self._lookup = lookup(self._find)
        self.library.fake_set_lookup(self._lookup)

    @cached_property
    def driver(self) -> Any:
        """The simulated driver, made when the bindings look for the first function."""
        from cuda import pathfinder

        import drv.bindings.libraries
        from drv import environment
        from drv.simulator.driver import SimulatedDriver
        from drv.simulator.options import parse_options

        result = SimulatedDriver(parse_options(environment.simulator_options(), **self.options))
        # NVIDIA's cuBLAS and cuFFT talk to the driver in ways of their own, so the simulated ones stand in.
        find = pathfinder.load_nvidia_dynamic_lib

        def find_simulated(name: str) -> Any:
            if name not in LIBRARIES:
                return find(name)
            from .fake_libraries import connect

            path = self.folder / f"lib{name}.so"
            connect(name, path, drv.bindings.libraries._simulated(result, name))
            return SimpleNamespace(abs_path=str(path))

        pathfinder.load_nvidia_dynamic_lib = find_simulated
        self._keep_ptx()
        return result

    def _keep_ptx(self) -> None:
        """Keep the PTX of each cubin that NVRTC makes: what the simulated driver runs for the cubin."""
        from cuda.bindings import nvrtc

        get_cubin = nvrtc.nvrtcGetCUBIN

        def get_both(program: Any, cubin: bytearray) -> Any:
            answer = get_cubin(program, cubin)
            ptx = bytearray(nvrtc.nvrtcGetPTXSize(program)[1])
            nvrtc.nvrtcGetPTX(program, ptx)
            self.cubins[bytes(cubin)] = bytes(ptx)
            return answer

        nvrtc.nvrtcGetCUBIN = get_both

    @cached_property
    def cuda(self) -> Any:
        """The bindings, which may not be imported before they are used."""
        from cuda.bindings import driver

        return driver

    @cached_property
    def prototypes(self) -> dict[str, list[tuple[str, str]]]:
        """For each driver function of the bindings the type and the name of its parameters."""
        package = find_spec("cuda.bindings")
        assert package is not None
        assert package.submodule_search_locations
        text = (Path(package.submodule_search_locations[0]) / "cydriver.pxd").read_text(encoding="utf-8")
        result: dict[str, list[tuple[str, str]]] = {}
        for name, parameters in re.findall(r"^cdef CUresult (cu\w+)\(([^)]*)\)", text, re.MULTILINE):
            words = [part.strip().rpartition(" ") for part in parameters.split(",") if part.strip()]
            result[name] = [(kind, parameter) for kind, _, parameter in words]
        return result

    def _find(self, symbol: bytes, place: int, version: int, flags: int, status: int | None) -> int:
        """``cuGetProcAddress``: a function that the simulated driver does not have is one of a newer driver."""
        name = symbol.decode()
        if version != self._versions.setdefault(name, version):
            # A later form of the function, with other parameters.
            return NOT_FOUND
        if name not in self._functions:
            result = self._make(name) if hasattr(type(self.driver), name) and name not in _LEFT_OUT else None
            self._functions[name] = result
        function = self._functions[name]
        address = ctypes.cast(function, ctypes.c_void_p).value if function else None
        ctypes.c_void_p.from_address(place).value = address
        return SUCCESS if address else NOT_FOUND

    def _make(self, name: str) -> Any:
        """The C function that ends in the simulated driver's method ``name``."""
        expected = inspect.signature(getattr(type(self.driver), name)).parameters
        parameters = self.prototypes[name]
        call = getattr(self.driver, name)
        special = getattr(self, f"_{name}", None)
        inputs, outputs = [], []
        for index, (kind, argument) in enumerate(parameters):
            parameter = argument if argument in expected else _RENAMED.get(argument)
            if parameter in expected:
                inputs.append((index, parameter, self._reader(kind)))
            else:
                outputs.append((index, kind))
        if not special and len(inputs) != len(expected) - 1:
            raise TypeError(f"{name}: {list(expected)} of the simulated driver are not {parameters}")

        def function(*arguments: Any) -> int:
            self.calls[name] += 1
            if os.getpid() != self._process:
                return NOT_INITIALIZED
            if name in self.answers:
                return self.answers[name]
            self._pause_collector(1)
            try:
                if special:
                    return int(special(call, *arguments))
                operand = {parameter: read(arguments[index]) for index, parameter, read in inputs}
                status, *results = call(**operand)
                if not status:
                    for (index, kind), value in zip(outputs, results, strict=True):
                        if arguments[index]:
                            self._write(kind, arguments[index], value)
                return int(status)
            except BaseException:
                # Nothing may pass through C. It is a mistake of the harness, or of the product's arguments.
                traceback.print_exc()
                return UNKNOWN
            finally:
                self._pause_collector(-1)

        return ctypes.CFUNCTYPE(ctypes.c_int, *(self._c_type(kind) for kind, _ in parameters))(function)

    def _pause_collector(self, change: int) -> None:
        """No finalizer runs inside a driver that is written in C."""
        with self._counting:
            if self._calling == 0:
                self._collects = gc.isenabled()
                gc.disable()
            self._calling += change
            if self._calling == 0 and self._collects:
                gc.enable()

    # Types

    def _c_type(self, kind: str) -> Any:
        if kind in _NUMBERS:
            return _NUMBERS[kind]
        if kind in ("CUipcMemHandle", "CUipcEventHandle"):
            return _Handle
        # Pointers and handles alike, as a number.
        return ctypes.c_int if self._is_enum(kind) else ctypes.c_size_t

    def _is_enum(self, kind: str) -> bool:
        return hasattr(getattr(self.cuda, kind, None), "__members__")

    def _reader(self, kind: str) -> Any:
        """What turns a C argument into the argument of the simulated driver."""
        if kind == "const char*":
            return lambda address: ctypes.string_at(address) if address else None
        structure = getattr(self.cuda, kind.removeprefix("const ").removesuffix("*"), None)
        if kind.endswith("*") and structure is not None:
            return lambda address: structure(_ptr=address) if address else None
        if kind in ("CUipcMemHandle", "CUipcEventHandle"):
            return lambda value: getattr(self.cuda, kind)(_ptr=ctypes.addressof(value))
        return lambda value: value

    def _write(self, kind: str, address: int, value: Any) -> None:
        """Write a result through a pointer of type ``kind``."""
        pointee = kind.removesuffix("*")
        if pointee == "const char*":
            kept = self._texts.setdefault(value, ctypes.create_string_buffer(value))
            ctypes.c_size_t.from_address(address).value = ctypes.addressof(kept)
        elif pointee == "char":
            ctypes.memmove(address, value, len(value))
        elif pointee in _STRUCTURES:
            ctypes.memmove(address, value.getPtr(), _STRUCTURES[pointee])
        elif pointee == "float":
            ctypes.c_float.from_address(address).value = value
        else:
            self._c_type(pointee).from_address(address).value = int(value)

    # Calls whose arguments say how long others are

    def _cuModuleLoadDataEx(
        self, call: Any, module: int, image: int, count: int, options: int, values: int
    ) -> int:
        kinds = [self.cuda.CUjit_option(number) for number in (ctypes.c_int * count).from_address(options)]
        argument = list((ctypes.c_size_t * count).from_address(values))
        status, loaded = call(self._image(image), count, kinds, argument)
        if not status:
            self._write("CUmodule*", module, loaded)
        return int(status)

    def _image(self, address: int) -> bytes:
        """PTX up to its zero byte; for a cubin, the PTX that was compiled with it."""
        if ctypes.string_at(address, 4) != b"\x7fELF":
            return ctypes.string_at(address)
        for cubin, ptx in self.cubins.items():
            if ctypes.string_at(address, len(cubin)) == cubin:
                return ptx
        return ctypes.string_at(address, 64)

    def _cuMemSetAccess(self, call: Any, address: int, size: int, descriptions: int, count: int) -> int:
        step = _STRUCTURES["CUmemAccessDesc"]
        argument = [self.cuda.CUmemAccessDesc(_ptr=descriptions + index * step) for index in range(count)]
        return int(call(address, size, argument, count)[0])

    def _cuPointerGetAttribute(self, call: Any, data: int, attribute: int, address: int) -> int:
        expected = self.cuda.CUpointer_attribute(attribute)
        status, value = call(expected, address)
        if not status:
            short = expected.name.removeprefix("CU_POINTER_ATTRIBUTE_") in _FOUR_BYTES
            self._write("int*" if short else "size_t*", data, value)
        return int(status)

    def _cuIpcGetEventHandle(self, call: Any, handle: int, event: int) -> int:
        """The simulated driver shares nothing between processes: the handle is recognised and no more."""
        ctypes.memmove(handle, _IPC_HANDLE, len(_IPC_HANDLE))
        return SUCCESS

    def _cuIpcOpenEventHandle(self, call: Any, event: int, handle: Any) -> int:
        if bytes(handle) != _IPC_HANDLE:
            return INVALID_VALUE
        status, result = self.driver.cuEventCreate(_SHARED_EVENT)
        if not status:
            self._write("CUevent*", event, result)
        return int(status)

    def _cuLaunchHostFunc(self, call: Any, stream: int, function: int, data: int) -> int:
        ticket = next(self._tickets)
        self._host_functions[ticket] = function, data
        status = call(stream, ctypes.cast(self._host_entry, ctypes.c_void_p).value, ticket)[0]
        if status:
            del self._host_functions[ticket]
        return int(status)

    def _call_host_function(self, ticket: int) -> None:
        """Call a host function from a thread that Python did not start, as NVIDIA's driver does."""
        function, data = self._host_functions.pop(ticket)
        self.library.fake_call_in_thread(ctypes.c_void_p(function), ctypes.c_void_p(data))


def build(folder: Path) -> None:
    """Compile the libraries into ``folder``."""
    from .fake_libraries import build_library

    target, source = folder / "libcuda.so.1", Path(__file__).with_suffix(".c")
    command = [
        "cc",
        "-shared",
        "-fPIC",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
        "-Wl,-soname,libcuda.so.1",
    ]
    subprocess.run([*command, "-o", str(target), str(source)], check=True)
    for name in LIBRARIES:
        build_library(name, folder)


def install(folder: Path, **options: Any) -> FakeLibcuda:
    """Put a simulated driver with ``options`` where the bindings look for NVIDIA's; ``folder`` has the libraries."""
    os.environ["GRAPHROOT_DRIVER"] = "nvidia"
    return FakeLibcuda(folder, options)


def install_in_children(folder: Path, **options: Any) -> None:
    """Have the Python programs that this process starts call :func:`install` when they start."""
    lines = [
        "import sys",
        f"sys.path.append({str(_ROOT)!r})",
        "from pathlib import Path",
        "from tests.drv import fake_libcuda",
        f"kept = fake_libcuda.install(Path({str(folder)!r}), **{options!r})",
    ]
    (folder / "sitecustomize.py").write_text("\n".join(lines), encoding="utf-8")
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def pytest_configure(config: Any) -> None:
    """As a plug-in: the tests' driver is the simulated one, behind the bindings."""
    text = os.environ.get("FAKE_LIBCUDA", "devices=2")
    options = dict(option.split("=") for option in text.split(",") if option)
    folder = Path(tempfile.mkdtemp(prefix="fake_libcuda_"))
    atexit.register(shutil.rmtree, folder)
    build(folder)
    config.fake_libcuda = install(folder, **options)
    install_in_children(folder, **options)


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    """Tell which functions the tests have called."""
    calls = config.fake_libcuda.calls
    terminalreporter.write_line("driver functions called: " + ", ".join(sorted(calls)))
