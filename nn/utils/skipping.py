"""Construction of modules without initialization."""

from __future__ import annotations

import contextlib
import inspect
from typing import TYPE_CHECKING, Any

from nn.init import skipping
from nn.module import Module

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["skip_init"]


@contextlib.contextmanager
def without_initialization() -> Iterator[None]:
    """A block in which the functions of :mod:`nn.init` leave tensors as they are."""
    before, skipping.active = skipping.active, True
    try:
        yield
    finally:
        skipping.active = before


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Construct a module without initialization: its parameters hold whatever their memory does.

    That saves time where values are loaded or set otherwise, and draws no random numbers.

    Parameters
    ----------
    module_cls : type
        A Module class that takes a ``device``.
    *args, **kwargs
        Arguments of the class.

    Raises
    ------
    RuntimeError
        If ``module_cls`` is not a Module class, or takes no ``device``.

    Examples
    --------
    >>> layer = nn.utils.skip_init(nn.Linear, 512, 256)
    >>> layer.weight.shape
    tensor.Size([256, 512])
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    kwargs.setdefault("device", "cpu")
    with without_initialization():
        return module_cls(*args, **kwargs)
