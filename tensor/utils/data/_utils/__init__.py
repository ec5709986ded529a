"""Where programs import ``default_collate`` from by PyTorch's private path: ``utils.data._utils.collate``."""

from . import collate as collate
