"""Turning the import hook on, in this process and in those that it starts."""

from __future__ import annotations

import os
import sys
from importlib.util import module_from_spec

from nvrtc_kernels import printed_names
from nvrtc_kernels.dtypes import dtype
from tensor.core.devices.device import device
from tensor.methods.tensor import Tensor

from .children import SEARCH_PATH, search_path
from .finder import AbsentFinder, TorchFinder
from .stand_ins import Torch


def install() -> None:
    """Let ``import torch`` give our modules from now on; again does nothing.

    Raises
    ------
    ImportError
        If PyTorch itself has been imported in this process. Nothing has changed then.
    """
    present = sys.modules.get("torch")
    if isinstance(present, Torch):
        return
    file = getattr(present, "__file__", None)
    if present is not None and not str(file).startswith(str(SEARCH_PATH)):
        raise ImportError(
            f"PyTorch itself is imported already, from {file}: two libraries cannot both be torch. Put `import "
            "tensor.as_torch` before every import of torch, or start the program with `graphroot run`"
        )
    finder = TorchFinder()
    sys.meta_path.insert(0, finder)
    sys.meta_path.append(AbsentFinder())
    printed_names.library = "torch"
    for cls in (Tensor, dtype, device):
        # By it other packages tell whose tensors they are given.
        cls.__module__ = "torch"
    os.environ["PYTHONPATH"] = search_path(os.environ)
    folder = str(SEARCH_PATH)
    if folder not in sys.path:
        # Processes that multiprocessing starts get this list. The first entry is the script's folder.
        sys.path.insert(1, folder)
    spec = finder.find_spec("torch")
    assert spec is not None
    sys.modules["torch"] = module_from_spec(spec)
