"""Modules whose parameters are left as their memory was."""

from __future__ import annotations

import inspect
from typing import Any

from nn.init import skipping
from nn.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Make a module without initial values: the functions of :mod:`nn.init` leave its parameters alone.

    That saves time where values are loaded, or set otherwise, and takes no random numbers.

    Parameters
    ----------
    module_cls
        Class of the module, which takes a ``device``.
    *args, **kwargs
        For the class.

    Raises
    ------
    RuntimeError
        For another class.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    kwargs.setdefault("device", "cpu")
    before, skipping.active = skipping.active, True
    try:
        return module_cls(*args, **kwargs)
    finally:
        skipping.active = before
