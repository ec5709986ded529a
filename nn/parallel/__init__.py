"""Modules on several devices, by the path that PyTorch has them under: the names of :mod:`parallel.modules`.

They are found when they are used, as they stand in a layer above this one.
"""

from typing import Any

from tensor.core.names.absent import lazily as _lazily

_NAMES = (
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
)
_LAZY = {
    **{name: f"parallel.modules:{name}" for name in _NAMES},
    "comm": "parallel.comm",
    "distributed": "nn.parallel.distributed",
    "scatter_gather": "nn.parallel.scatter_gather",
}
# A star import brings what PyTorch's does.
__all__ = [*_NAMES]


def __getattr__(name: str) -> Any:
    return _lazily(__name__, name, _LAZY)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
