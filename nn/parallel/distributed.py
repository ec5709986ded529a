"""``DistributedDataParallel`` by the path that PyTorch has it under; see :mod:`parallel.modules`."""

from typing import Any

from tensor.core.names.absent import lazily as _lazily

_LAZY = {"DistributedDataParallel": "parallel.modules:DistributedDataParallel"}


def __getattr__(name: str) -> Any:
    return _lazily(__name__, name, _LAZY)
