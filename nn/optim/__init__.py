"""Optimizers, with PyTorch's names, options and state dicts."""

from typing import TYPE_CHECKING, Any

from tensor.core.names.absent import missing as _missing

from . import lr_scheduler, swa_utils
from . import spans as _spans  # noqa: F401 - lets profiles watch steps
from .adadelta import Adadelta
from .adagrad import Adagrad
from .adam import Adam, AdamW
from .adamax import Adamax
from .asgd import ASGD
from .lbfgs import LBFGS
from .matrices import Adafactor, Muon
from .nadam import NAdam
from .optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from .radam import RAdam
from .rmsprop import RMSprop
from .rprop import Rprop
from .sgd import SGD
from .sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "swa_utils",
]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker

    def __getattr__(name: str) -> Any:
        raise _missing(__name__, name)
