"""CUDA graphs, by the path that PyTorch has them under."""

from typing import TYPE_CHECKING, Any

from tensor.core.names.absent import lazily as _lazily

from .cuda_graph import CUDAGraph, graph, is_current_stream_capturing
from .memory_pools import graph_pool_handle

__all__ = [
    "CUDAGraph",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
]

# What stands in a higher layer, found when it is used, as layers import downward only.
_LAZY = {"make_graphed_callables": "nn.utils.graphed_callables:make_graphed_callables"}

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker

    def __getattr__(name: str) -> Any:
        return _lazily(__name__, name, _LAZY)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LAZY})
