"""CUDA devices: which one is current, streams and events, memory, kernels that users write.

Importing this loads no driver; the first use of a device does, see :mod:`drv`.
"""

from typing import TYPE_CHECKING, Any

from drv import CudaError
from tensor.core.devices.event import Event
from tensor.core.devices.stream import (
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_from_external,
    set_stream,
    stream,
)
from tensor.core.names.absent import lazily as _lazily

from . import amp, graphs, memory, nvtx, streams
from .cuda_graph import CUDAGraph, graph, is_current_stream_capturing
from .devices import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    disable_peer_access,
    enable_peer_access,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    is_tf32_supported,
    set_device,
    synchronize,
)
from .memory import (
    OutOfMemoryError,
    caching_allocator_alloc,
    caching_allocator_delete,
    empty_cache,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from .memory_pools import MemPool, graph_pool_handle, use_mem_pool
from .monitoring import (
    clock_rate,
    device_memory_used,
    get_allocator_backend,
    get_arch_list,
    get_sync_debug_mode,
    ipc_collect,
    memory_usage,
    power_draw,
    set_sync_debug_mode,
    temperature,
    utilization,
)
from .random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .raw_kernel import RawKernel
from .typed_tensors import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)

#: What PyTorch was built with: float16 is always there, MAGMA never.
has_half, has_magma = True, False

if TYPE_CHECKING:
    from .memory_history import memory_snapshot

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CUDAGraph",
    "CharTensor",
    "CudaError",
    "DoubleTensor",
    "Event",
    "ExternalStream",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "MemPool",
    "OutOfMemoryError",
    "RawKernel",
    "ShortTensor",
    "Stream",
    "StreamContext",
    "amp",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "can_device_access_peer",
    "clock_rate",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "disable_peer_access",
    "empty_cache",
    "enable_peer_access",
    "get_allocator_backend",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "get_sync_debug_mode",
    "graph",
    "graph_pool_handle",
    "graphs",
    "has_half",
    "has_magma",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "memory_usage",
    "nvtx",
    "power_draw",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "streams",
    "synchronize",
    "temperature",
    "use_mem_pool",
    "utilization",
]

# What stands in a higher layer, found when it is used, as layers import downward only, and what few programs use.
_LAZY = {
    "comm": "parallel.comm",
    "memory_snapshot": "tensor.cuda.memory_history:memory_snapshot",
    "make_graphed_callables": "nn.utils.graphed_callables:make_graphed_callables",
}

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker

    def __getattr__(name: str) -> Any:
        return _lazily(__name__, name, _LAZY)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LAZY})
