"""Data parallelism over threads and processes."""

from . import comm, ddp_comm_hooks
from .all_to_all import all_to_all, all_to_all_single
from .backend_names import Backend
from .buckets import GradBucket
from .collectives import (
    all_gather,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    barrier,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
)
from .data_parallel import DataParallel, data_parallel
from .distributed_data_parallel import DistributedDataParallel
from .distributed_sampler import DistributedSampler
from .errors import DistBackendError, DistError, DistNetworkError, DistStoreError
from .exchanged import supports_complex
from .file_store import FileStore
from .futures import Future, collect_all, wait_all
from .group_backends import (
    get_default_backend_for_device,
    is_backend_available,
    is_gloo_available,
    is_mpi_available,
    is_nccl_available,
)
from .group_setup import (
    abort_process_group,
    default_pg_timeout,
    destroy_process_group,
    init_process_group,
    new_group,
)
from .joining import Join, Joinable, JoinHook
from .monitored_barriers import monitored_barrier
from .object_collectives import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from .parallel_apply import parallel_apply
from .point_to_point import P2POp, batch_isend_irecv, irecv, isend, recv, send
from .process_groups import (
    GroupMember,
    ProcessGroup,
    get_backend,
    get_backend_config,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    is_available,
    is_initialized,
    is_torchelastic_launched,
)
from .reduce_op import ReduceOp
from .replication import replicate
from .spawning import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    spawn,
    start_processes,
)
from .stores import HashStore, PrefixStore, QueueEmptyError, Store
from .subgroups import new_subgroups, new_subgroups_by_enumeration
from .sync_batch_norm import SyncBatchNorm
from .tcp_store import TCPStore
from .works import Work

__all__ = [
    "Backend",
    "DataParallel",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "DistributedDataParallel",
    "DistributedSampler",
    "FileStore",
    "Future",
    "GradBucket",
    "GroupMember",
    "HashStore",
    "Join",
    "JoinHook",
    "Joinable",
    "P2POp",
    "PrefixStore",
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessGroup",
    "ProcessRaisedException",
    "QueueEmptyError",
    "ReduceOp",
    "Store",
    "SyncBatchNorm",
    "TCPStore",
    "Work",
    "abort_process_group",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "collect_all",
    "comm",
    "data_parallel",
    "ddp_comm_hooks",
    "default_pg_timeout",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_backend_config",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "isend",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "parallel_apply",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "replicate",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
    "spawn",
    "start_processes",
    "supports_complex",
    "wait_all",
]
