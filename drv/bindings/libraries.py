"""cuBLAS, cuBLASLt, cuDNN, cuFFT, NCCL and CUPTI: NVIDIA's, found where pip installed them, or the simulated ones."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from drv.errors import InvalidValueError, LibraryNotInstalledError, NotSupportedError

if TYPE_CHECKING:
    from drv.runtime import Runtime

#: What has each library on the package index.
PACKAGES = {
    "cublas": "nvidia-cublas",
    "cublasLt": "nvidia-cublas",
    "cudnn": "nvidia-cudnn-cu13",
    "cufft": "nvidia-cufft",
    "nccl": "nvidia-nccl-cu13",
    "cupti": "nvidia-cuda-cupti",
}
#: What to install for a library that the extra ``gpu`` has not.
_EXTRAS = {"cudnn": "cudnn", "cupti": "profile"}


def load(runtime: Runtime, name: str) -> Any:
    """Functions of the library ``name`` for the driver of ``runtime``.

    Parameters
    ----------
    runtime : Runtime
        Its driver decides: the simulated one has its own cuBLAS, cuBLASLt and cuFFT, cuDNN with its option ``cudnn=on``, and no NCCL.
    name : str
        ``"cublas"`` (a :class:`drv.bindings.cublas.Cublas`), ``"cublasLt"`` (a :class:`drv.bindings.cublaslt.CublasLt`),
        ``"cudnn"`` (a :class:`drv.bindings.cudnn.Cudnn`), ``"cufft"`` (a :class:`drv.bindings.cufft.Cufft`), ``"nccl"`` (a
        :class:`drv.bindings.nccl.Nccl`) or ``"cupti"`` (a :class:`drv.bindings.cupti.Cupti`).

    Raises
    ------
    LibraryNotInstalledError
        If NVIDIA's library is missing; the message names the extra to install. If it is cuDNN and simulated devices have none; the
        message names the option.
    NotSupportedError
        If it is NCCL or CUPTI, for simulated devices.
    InvalidValueError
        If there is no library of that name.
    """
    _require_known(name)
    if runtime.simulated:
        return _simulated(runtime.driver, name)
    return bind(name)


def bind(name: str) -> Any:
    """Bind NVIDIA's library ``name``, as :func:`load` names them. Needs no GPU; most of its functions do."""
    _require_known(name)
    # Most programs use one or two of them, or none.
    if name == "cublas":
        from . import cublas

        return cublas.bind(open_library(name))
    if name == "cublasLt":
        from . import cublaslt

        return cublaslt.bind(open_library(name))
    if name == "cudnn":
        from . import cudnn

        return cudnn.bind(open_library(name))
    if name == "nccl":
        from . import nccl

        return nccl.bind(open_library(name))
    if name == "cupti":
        from . import cupti

        return cupti.bind(open_library(name))
    from . import cufft

    return cufft.bind(open_library(name))


def open_library(name: str) -> ctypes.CDLL:
    """The shared library ``name``, found by ``cuda.pathfinder`` in pip packages, conda, or the system.

    Raises
    ------
    LibraryNotInstalledError
        If it is not found or cannot be loaded.
    """
    _require_known(name)
    from cuda import pathfinder

    try:
        loaded = pathfinder.load_nvidia_dynamic_lib(name)
        return ctypes.CDLL(loaded.abs_path)
    except (pathfinder.DynamicLibNotFoundError, OSError) as error:
        raise LibraryNotInstalledError(
            f"the library {name} ({PACKAGES[name]}) cannot be loaded: install it with "
            f"pip install 'graphroot[{_EXTRAS.get(name, 'gpu')}]'"
        ) from error


def _simulated(driver: Any, name: str) -> Any:
    # A program on NVIDIA's driver loads nothing of the simulated one.
    if name == "cublas":
        from drv.simulator.libraries.cublas import SimulatedCublas

        return SimulatedCublas(driver)
    if name == "cublasLt":
        from drv.simulator.libraries.cublaslt import SimulatedCublasLt

        return SimulatedCublasLt(driver)
    if name == "cudnn":
        if not driver.options.cudnn:
            raise LibraryNotInstalledError(
                "the simulated devices have no cuDNN, unless the simulator's option cudnn is on: GRAPHROOT_SIMULATOR=cudnn=on, or "
                "drv.simulator.install(cudnn=True)"
            )
        from drv.simulator.libraries.cudnn import SimulatedCudnn

        return SimulatedCudnn(driver)
    if name == "cupti":
        raise NotSupportedError(
            "CUPTI watches real GPUs, and the devices here are simulated: drv.simulator.timed() has their times"
        )
    if name == "nccl":
        raise NotSupportedError(
            "NCCL moves data between real GPUs, and the devices here are simulated: use the backend 'gloo' (or "
            "'mpi'), which carries tensors of simulated devices too"
        )
    from drv.simulator.libraries.cufft import SimulatedCufft

    return SimulatedCufft(driver)


def _require_known(name: str) -> None:
    if name not in PACKAGES:
        raise InvalidValueError(f"no library {name!r}: expected one of {', '.join(PACKAGES)}")
