"""Hooks of communication and uneven inputs, by the paths that PyTorch has them under: ``distributed.algorithms``."""

import sys

from parallel import ddp_comm_hooks
from parallel.ddp_comm_hooks import default_hooks, powerSGD_hook

from . import join

__all__ = ["ddp_comm_hooks", "join"]

# An import of a module by this path finds the one there is, and makes no second one.
for _name, _module in {
    "ddp_comm_hooks": ddp_comm_hooks,
    "ddp_comm_hooks.default_hooks": default_hooks,
    "ddp_comm_hooks.powerSGD_hook": powerSGD_hook,
}.items():
    sys.modules[f"{__name__}.{_name}"] = _module
