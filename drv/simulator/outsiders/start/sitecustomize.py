"""What Python imports when it starts, in the processes of a command that runs on a simulated GPU.

It connects the libraries that stand in the place of CUDA's driver and of NVRTC, and loads the simulator only if one is
used.
"""

import ctypes
import os
import sys
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType


def _connect(path: Path, prefix: str, resolver: str) -> None:
    library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)

    def resolve(number: int) -> int:
        if not sys.meta_path:
            # Python is ending, and imports nothing more.
            return 0
        # Every Python process of the program runs this file; few of them use CUDA.
        from drv.simulator.outsiders import child

        address: int = getattr(child, resolver)(number)
        return address

    entry = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)(resolve)
    ctypes.c_size_t.in_dll(library, f"{prefix}_slots").value = ctypes.cast(entry, ctypes.c_void_p).value or 0
    # When Python has ended, the library's functions answer without it.
    ctypes.pythonapi.Py_AtExit(library[f"{prefix}_end"])
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(entry))


def _connect_all(folder: Path) -> None:
    _connect(folder / "libcuda.so.1", "graphroot", "resolve")
    real = os.environ.get("GRAPHROOT_NVRTC")
    if real:
        # First, so that the real one is not found.
        _connect(folder / Path(real).name, "graphroot_nvrtc", "resolve_nvrtc")
    sys.meta_path.insert(0, _LinkerFinder)


class _LinkerFinder:
    """Lets ``cuda.core`` link by the driver.

    nvJitLink makes cubins only, and the simulated driver links and runs PTX. ``cuda.core`` takes the driver where the
    library has no function for its version, as before CUDA 12.3; to others, the library is as it is.
    """

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "cuda.bindings._internal.nvjitlink":
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                inspect = module._inspect_function_pointer
                module._inspect_function_pointer = (  # type: ignore[attr-defined]
                    lambda function: 0 if function == "__nvJitLinkVersion" else inspect(function)
                )
                warnings.filterwarnings("ignore", r"libnvJitLink.* is too old", RuntimeWarning)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _run_the_hidden_one() -> None:
    """Run the ``sitecustomize`` that this one has hidden."""
    here = Path(__file__).resolve().parent
    spec = PathFinder.find_spec("sitecustomize", [each for each in sys.path if Path(each).resolve() != here])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


_root = str(Path(__file__).resolve().parents[4])
if _root not in sys.path:
    sys.path.append(_root)
if os.environ.get("GRAPHROOT_LIBCUDA"):
    _connect_all(Path(os.environ["GRAPHROOT_LIBCUDA"]))
_run_the_hidden_one()
