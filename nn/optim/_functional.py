"""Steps of the optimizers as functions on lists of tensors, with states that the caller keeps: ``torch.optim._functional``."""

from .adadelta import adadelta
from .adagrad import adagrad
from .adam import adam, adamw
from .adamax import adamax
from .asgd import asgd
from .nadam import nadam
from .radam import radam
from .rmsprop import rmsprop
from .rprop import rprop
from .sgd import sgd
from .sparse_adam import sparse_adam

__all__ = [
    "adadelta",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "asgd",
    "nadam",
    "radam",
    "rmsprop",
    "rprop",
    "sgd",
    "sparse_adam",
]
