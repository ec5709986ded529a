"""What is told: versions, the driver and its devices, libraries, settings, the cache, names that others have, too."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import drv
from drv import environment
from drv.bindings.libraries import PACKAGES as LIBRARIES
from drv.bindings.libraries import open_library
from drv.errors import CudaError
from drv.simulator.options import DEFAULTS
from graphroot import __version__
from graphroot.coexistence import neighbours
from tensor.torch_names.versions import FOLLOWED

if TYPE_CHECKING:
    from drv.device import Device

_PACKAGES = (
    "numpy",
    "ml-dtypes",
    "safetensors",
    "threadpoolctl",
    "cuda-bindings",
    "nvidia-cuda-nvrtc",
    "scipy",
    "mpi4py",
    "torch",
)
_VARIABLES = ("GRAPHROOT_", "CUDA_", "PYTORCH_CUDA_", "PYTORCH_NO_CUDA_", "OMP_NUM_THREADS", "CUBLAS_")
#: Nobody who reads a report should be able to join the job.
_SECRET = "GRAPHROOT_JOB_SECRET"


def facts() -> dict[str, Any]:
    """Everything that is told, as JSON takes it. Chooses a driver; makes no context on a device."""
    return {
        "graphroot": __version__,
        "follows": f"PyTorch {FOLLOWED}",
        "folder": str(Path(__file__).resolve().parents[2]),
        "python": {
            "version": platform.python_version(),
            "executable": sys.executable,
            "platform": platform.platform(),
            "processors": len(os.sched_getaffinity(0)),
        },
        "packages": {name: _version(name) for name in _PACKAGES},
        **_driver(),
        "simulator": _simulator(),
        "libraries": _libraries(),
        "cache": _cache(),
        "variables": {
            name: "(set)" if name == _SECRET else value
            for name, value in sorted(os.environ.items())
            if name.startswith(_VARIABLES)
        },
        "neighbours": neighbours(Path.cwd()),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _driver() -> dict[str, Any]:
    """The driver that a program would have, and its devices; or what keeps it from having one."""
    try:
        runtime = drv.runtime()
    except CudaError as error:
        return {"driver": {"name": None, "cuda": None, "reason": str(error)}, "devices": []}
    number = runtime.check(runtime.driver.cuDriverGetVersion(), "cuDriverGetVersion")
    return {
        "driver": {
            "name": runtime.name,
            "cuda": f"{number // 1000}.{number % 1000 // 10}",
            "reason": None,
        },
        "devices": [_device(device) for device in runtime.devices],
    }


def _device(device: Device) -> dict[str, Any]:
    properties = device.properties
    return {
        "name": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "memory": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
    }


def _simulator() -> dict[str, str]:
    """The options that ``--simulate`` would begin with: the defaults, and over them those of the environment."""
    pairs = (part.partition("=") for part in environment.simulator_options().split(",") if part.strip())
    asked = {name.strip(): value.strip() for name, _, value in pairs}
    # A model says the rest itself.
    of_model = ("memory", "capability", "multiprocessors") if asked.get("model", "none") != "none" else ()
    return {name: value for name, value in DEFAULTS.items() if name not in of_model} | asked


def _libraries() -> dict[str, dict[str, Any]]:
    """NVIDIA's libraries, and MPI: where they are, or what to install."""
    result: dict[str, dict[str, Any]] = {}
    for name, package in LIBRARIES.items():
        try:
            path = open_library(name)._name
        except CudaError:
            path = None
        result[name] = {"path": path, "version": _version(package), "install": "graphroot[gpu]"}
    spec = importlib.util.find_spec("mpi4py")
    result["mpi"] = {
        "path": None if spec is None else spec.origin,
        "version": _version("mpi4py"),
        "install": "graphroot[mpi]",
    }
    return result


def _cache() -> dict[str, Any]:
    """The cache of compiled kernels and of what the simulator made of them."""
    folder = environment.cache_directory()
    sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()] if folder.is_dir() else []
    return {"folder": str(folder), "files": len(sizes), "bytes": sum(sizes)}
