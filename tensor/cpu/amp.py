"""Mixed precision under the names of old scripts, for the CPU: see :mod:`tensor.amp`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvrtc_kernels.dtypes import bfloat16
from tensor import amp

if TYPE_CHECKING:
    from nvrtc_kernels.dtypes import dtype

__all__ = ["GradScaler", "autocast"]


class autocast(amp.autocast):  # noqa: N801 - PyTorch's name
    """:class:`tensor.amp.autocast` for ``"cpu"``.

    Parameters
    ----------
    enabled, dtype, cache_enabled
        See that class, as for the errors.
    """

    def __init__(self, enabled: bool = True, dtype: dtype = bfloat16, cache_enabled: bool = True) -> None:
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """:class:`tensor.amp.GradScaler` for ``"cpu"``.

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
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
