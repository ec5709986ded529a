"""The simulated driver behind the real ``cuda.bindings``, so that the NVIDIA side runs where there is no GPU.

``install()`` loads a library that is called ``libcuda.so.1`` (:mod:`drv.simulator.outsiders.libcuda`), which the
bindings find as they find NVIDIA's. As a plug-in of pytest, it puts the tests that run with ``--gpu`` on it::

    pytest -p tests.drv.fake_libcuda --gpu tests/drv

Only for a process of its own: the bindings never let go of the library.
"""

from __future__ import annotations

import atexit
import collections
import ctypes
import itertools
import os
import shutil
import tempfile
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from drv.simulator.outsiders import c_types, libcuda
from drv.simulator.outsiders.c_functions import CFunctions

if TYPE_CHECKING:
    from drv.simulator.outsiders.prototypes import Form

_ROOT = Path(__file__).parents[2]
SUCCESS, INVALID_VALUE = 0, 1
_IPC_HANDLE = bytes(range(64))
#: CU_EVENT_DISABLE_TIMING and CU_EVENT_INTERPROCESS
_SHARED_EVENT = 6
#: Newer than any architecture that NVRTC knows, so that kernels are compiled to PTX, as for such a GPU.
DEFAULT_CAPABILITY = "15.0"

LIBRARIES = ("cublas", "cublasLt", "cudnn", "cufft")


class FakeLibcuda:
    """The library of one simulated driver, and how often each function was called.

    Attributes
    ----------
    driver
        The simulated driver.
    calls : collections.Counter
        Calls that came through the bindings, by name.
    answers : dict
        What functions answer, by name, instead of doing anything.
    """

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self.folder = folder
        self.options = {"capability": DEFAULT_CAPABILITY, "cudnn": True} | options
        self.calls: collections.Counter[str] = collections.Counter()
        self.answers: dict[str, int] = {}
        self._library = libcuda.LibCuda(folder / libcuda.NAME, lambda: _Functions(self.driver, self._seen))

    def _seen(self, name: str) -> int | None:
        self.calls[name] += 1
        return self.answers.get(name)

    @cached_property
    def driver(self) -> Any:
        """The simulated driver, made when the bindings look for the first function."""
        from cuda import pathfinder

        import drv.bindings.libraries
        from drv import environment
        from drv.simulator.driver import SimulatedDriver
        from drv.simulator.options import parse_options

        result = SimulatedDriver(parse_options(environment.simulator_options(), **self.options))
        # NVIDIA's cuBLAS, cuDNN and cuFFT talk to the driver in ways of their own, so the simulated ones stand in.
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
            _Functions.cubins[bytes(cubin)] = bytes(ptx)
            return answer

        nvrtc.nvrtcGetCUBIN = get_both


class _Functions(CFunctions):
    """With the PTX of cubins, and what another process, or a thread of the driver's own, has to do with a call."""

    #: PTX to run instead of a cubin, by the cubin's bytes.
    cubins: ClassVar[dict[bytes, bytes]] = {}
    _tickets = itertools.count(1)
    _host_functions: ClassVar[dict[int, tuple[int, int]]] = {}

    def image(self, address: int) -> bytes | None:
        code = super().image(address)
        # The driver is told the address alone, and the section table need not be a cubin's end.
        return next((ptx for cubin, ptx in self.cubins.items() if code and cubin.startswith(code)), code)

    def _cuIpcGetEventHandle(self, call: Any, form: Form, handle: int, event: int) -> int:
        """The simulated driver shares nothing between processes: the handle is recognised and no more."""
        ctypes.memmove(handle, _IPC_HANDLE, len(_IPC_HANDLE))
        return SUCCESS

    def _cuIpcOpenEventHandle(self, call: Any, form: Form, event: int, handle: Any) -> int:
        if bytes(handle) != _IPC_HANDLE:
            return INVALID_VALUE
        status, result = self.driver.cuEventCreate(_SHARED_EVENT)
        if not status:
            c_types.write("CUevent*", event, result)
        return int(status)

    def _cuLaunchHostFunc(self, call: Any, form: Form, stream: int, function: int, data: int) -> int:
        ticket = next(self._tickets)
        self._host_functions[ticket] = function, data
        status = call(stream, ctypes.cast(_host_entry, ctypes.c_void_p).value, ticket)[0]
        if status:
            del self._host_functions[ticket]
        return int(status)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _host_entry(ticket: int) -> None:
    """Call a host function from a thread that Python did not start, as NVIDIA's driver does, and wait for it."""
    function, data = _Functions._host_functions.pop(ticket)
    libc, thread = ctypes.CDLL(None), ctypes.c_ulong()
    failed = libc.pthread_create(ctypes.byref(thread), None, ctypes.c_void_p(function), ctypes.c_void_p(data))
    assert not failed
    libc.pthread_join(thread, None)


def build(folder: Path) -> None:
    """Make the libraries in ``folder``."""
    from .fake_libraries import build_library

    libcuda.write(folder)
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
