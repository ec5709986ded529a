"""What is public in PyTorch: its namespaces, and the names of each.

The names of a module are those of its ``__all__``; without one, the names without underscore that the module itself or
its C++ half defines, and its settings. Of the class ``Tensor`` they are the members without underscore. What pybind11
makes is not counted in ``torch``: ``torch.__all__`` has every class of the TorchScript compiler, none of them documented.
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from types import ModuleType
from typing import Any

VERSION = "2.13.0"

#: Namespaces that programs import names from, in the order of the page.
NAMESPACES = tuple(
    name
    for line in """
    torch torch.Tensor
    torch.nn torch.nn.attention torch.nn.attention.bias torch.nn.attention.flex_attention
    torch.nn.attention.varlen torch.nn.functional torch.nn.grad
    torch.nn.init torch.nn.modules torch.nn.modules.module torch.nn.modules.utils torch.nn.parallel
    torch.nn.parallel.comm torch.nn.parameter
    torch.nn.utils torch.nn.utils.clip_grad torch.nn.utils.convert_parameters torch.nn.utils.fusion
    torch.nn.utils.parametrizations torch.nn.utils.parametrize torch.nn.utils.prune torch.nn.utils.rnn
    torch.nn.utils.stateless
    torch.optim torch.optim.lr_scheduler torch.optim.optimizer torch.optim.swa_utils
    torch.accelerator torch.accelerator.memory torch.amp torch.amp.autocast_mode torch.amp.grad_scaler
    torch.autograd torch.autograd.anomaly_mode torch.autograd.forward_ad torch.autograd.function torch.autograd.functional
    torch.autograd.grad_mode torch.autograd.gradcheck torch.autograd.graph torch.autograd.profiler torch.autograd.profiler_util
    torch.autograd.variable
    torch.backends torch.backends.cpu torch.backends.cuda torch.backends.cudnn torch.backends.mkl torch.backends.mkldnn
    torch.backends.mps torch.backends.openmp torch.backends.opt_einsum
    torch.compiler torch.cpu
    torch.cuda torch.cuda.amp torch.cuda.comm torch.cuda.graphs torch.cuda.memory torch.cuda.nvtx torch.cuda.random
    torch.cuda.streams
    torch.distributed torch.distributed.checkpoint torch.distributed.device_mesh torch.distributed.elastic
    torch.distributed.fsdp torch.distributed.nn torch.distributed.optim torch.distributed.pipelining
    torch.distributed.rpc torch.distributed.tensor torch.distributed.tensor.parallel
    torch.distributions torch.distributions.constraints torch.distributions.kl torch.distributions.transforms
    torch.distributions.utils
    torch.export torch.fft torch.func torch.functional torch.futures torch.fx torch.hub torch.jit torch.library
    torch.linalg torch.masked torch.monitor torch.mps torch.mtia torch.multiprocessing torch.multiprocessing.pool
    torch.multiprocessing.reductions torch.nested torch.onnx
    torch.overrides torch.package torch.profiler torch.quantization torch.quasirandom torch.random torch.return_types
    torch.serialization torch.signal torch.signal.windows torch.sparse torch.special torch.storage torch.testing
    torch.types
    torch.utils torch.utils._pytree torch.utils.benchmark torch.utils.checkpoint torch.utils.collect_env torch.utils.cpp_extension
    torch.utils.data torch.utils.data.dataloader torch.utils.data.dataset torch.utils.data.distributed
    torch.utils.data.sampler torch.utils.deterministic torch.utils.dlpack torch.utils.flop_counter torch.utils.hooks
    torch.utils.model_zoo torch.utils.module_tracker torch.utils.tensorboard
    torch.version torch.xpu
    """.splitlines()
    for name in line.split()
)

#: Modules that PyTorch itself can import only where another package is installed: their names.
_OF_OTHER_PACKAGES = {"torch.utils.tensorboard": ("FileWriter", "RecordWriter", "SummaryWriter")}


class PyTorchNotInstalledError(Exception):
    """There is no PyTorch to compare with."""


def pytorch() -> Any:
    """The package ``torch``.

    Raises
    ------
    PyTorchNotInstalledError
        If it cannot be imported; the message says what to install.
    """
    try:
        import torch
    except ImportError as error:
        raise PyTorchNotInstalledError(
            f"PyTorch is needed to read its names, and cannot be imported ({error}). "
            f"Install it, the CPU build suffices: pip install torch=={VERSION} "
            "--index-url https://download.pytorch.org/whl/cpu"
        ) from error
    return torch


def public_names(namespace: str) -> list[str]:
    """The public names of one namespace of the installed PyTorch, sorted.

    Raises
    ------
    PyTorchNotInstalledError
        If there is no PyTorch.
    ImportError
        If PyTorch has no such module.
    """
    torch = pytorch()
    if namespace in _OF_OTHER_PACKAGES:
        return list(_OF_OTHER_PACKAGES[namespace])
    if namespace == "torch.Tensor":
        return [name for name in dir(torch.Tensor) if name[0] != "_"]
    with warnings.catch_warnings():
        # Modules, and names in them, that are deprecated say so when they are imported or looked at.
        warnings.simplefilter("ignore")
        module = importlib.import_module(namespace)
        names = getattr(module, "__all__", None)
        if names is None:
            names = [*_own(module), *_settings(module)]
        return sorted(
            name
            for name in set(names)
            if name[0] != "_" and not _is_foreign(module, name) and not _is_internal(namespace, module, name)
        )


def _own(module: ModuleType) -> list[str]:
    """What a module without ``__all__`` defines: functions, classes and submodules."""
    name = module.__name__
    # Functions of C++ name their half of the module: those of torch.linalg are of torch._C._linalg.
    origins = (name, f"torch._C._{name.rpartition('.')[2]}")
    return [
        key
        for key, value in vars(module).items()
        if (isinstance(value, ModuleType) and value.__name__ == f"{name}.{key}")
        or (
            not isinstance(value, ModuleType)
            and callable(value)
            and (
                (getattr(value, "__module__", None) or "").startswith(origins)
                # Its functions of C++ belong to torch._C, as far as they say.
                or (inspect.isbuiltin(value) and name == "torch.nn.functional")
            )
        )
    ]


def _settings(module: ModuleType) -> list[str]:
    """What stands as properties at the class of a module, as ``torch.backends.cudnn.benchmark``."""
    members = {} if type(module) is ModuleType else vars(type(module))
    return [
        name for name, value in members.items() if hasattr(value, "__get__") and not inspect.isroutine(value)
    ]


def _is_foreign(module: ModuleType, name: str) -> bool:
    """Whether a name is there by an import alone: ``torch.fft.__all__`` has ``Tensor``."""
    value = getattr(module, name, None)
    return name == "Tensor" and module.__name__ != "torch" and inspect.isclass(value)


def _is_internal(namespace: str, module: ModuleType, name: str) -> bool:
    """Whether pybind11 made it: TorchScript's compiler and the like, which nothing documents."""
    if namespace != "torch":
        return False
    value = getattr(module, name, None)
    if inspect.isclass(value):
        return type(value).__name__ == "pybind11_type"
    # Values of its enumerations, its submodules, and its functions.
    return (
        type(type(value)).__name__ == "pybind11_type"
        or name == "cpp"
        or type(getattr(value, "__self__", None)).__name__.startswith(("pybind11", "PyCapsule"))
    )
