"""How arguments are divided among devices and results joined, by the path that PyTorch has it under."""

from typing import Any

from tensor.core.names.absent import lazily as _lazily

_LAZY = {
    name: f"parallel.data_parallel.scatter_gather:{name}"
    for name in ("gather", "is_namedtuple", "scatter", "scatter_kwargs")
}


def __getattr__(name: str) -> Any:
    return _lazily(__name__, name, _LAZY)
