"""Names of ``torch.onnx.symbolic_helper``: decorators of functions that would write ONNX, which are never called."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NoReturn

from tensor.core.names.absent import hints as _hints

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["parse_args", "quantized_args"]


def parse_args(*arg_descriptors: str) -> Callable[[Callable[..., Any]], Callable[..., NoReturn]]:
    """A decorator of a ``symbolic`` of an ``autograd.Function``, whose arguments ``arg_descriptors`` would describe.

    So classes that can be exported elsewhere can be defined and used here. The decorated function raises RuntimeError
    if it is called: nothing is exported to ONNX.
    """
    return _refusing


def quantized_args(
    *arg_q_descriptors: bool,
    scale: float | None = None,
    zero_point: int | None = None,
    quantize_output: bool = True,
) -> Callable[[Callable[..., Any]], Callable[..., NoReturn]]:
    """As :func:`parse_args`, for quantized arguments, which ``arg_q_descriptors`` would tell.

    ``scale``, ``zero_point`` and ``quantize_output`` are accepted and not used.
    """
    return _refusing


def _refusing(symbolic: Callable[..., Any]) -> Callable[..., NoReturn]:
    @functools.wraps(symbolic)
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"{symbolic.__name__}(): models cannot be exported to ONNX here")

    return refuse


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
