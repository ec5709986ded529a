"""Mixed precision under the names of old scripts, for CUDA devices: see :mod:`tensor.amp`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import float16
from tensor import amp
from tensor.core.names.absent import hints as _hints

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvrtc_kernels.dtypes import dtype

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(amp.autocast):  # noqa: N801 - PyTorch's name
    """:class:`tensor.amp.autocast` for ``"cuda"``.

    Parameters
    ----------
    enabled, dtype, cache_enabled
        See that class, as for the errors.
    """

    def __init__(self, enabled: bool = True, dtype: dtype = float16, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """:class:`tensor.amp.GradScaler` for ``"cuda"``.

    Parameters
    ----------
    init_scale, growth_factor, backoff_factor, growth_interval, enabled
        See that class, as for the errors.
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, cast_inputs: dtype | None = None
) -> Callable[..., Any]:
    """:func:`tensor.amp.custom_fwd` for ``"cuda"``.

    Parameters
    ----------
    fwd : callable, optional
        The ``forward``; without it the result is a decorator.
    cast_inputs : dtype, optional
        What tensors of floating point among the arguments are cast to inside of an autocast block.
    """
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


custom_bwd = functools.partial(amp.custom_bwd, device_type="cuda")

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
