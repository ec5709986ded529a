"""Training on several devices: threads of one process, or a process for each device.

It has the names of ``torch.nn.parallel``, ``torch.distributed`` and ``torch.multiprocessing.spawn`` in one package:

- :class:`DataParallel` runs a module on all devices of this process; :mod:`parallel.comm` is what it is made of.
- :func:`init_process_group` and the collectives (:func:`all_reduce`, :func:`broadcast`, ...) connect processes.
- :class:`DistributedDataParallel` averages gradients over them, :class:`DistributedSampler` divides the data, and
  :class:`SyncBatchNorm` normalises over the batches of all.
- :func:`fully_shard` divides parameters, gradients and states among the ranks; :mod:`parallel.optim` states alone.
- :mod:`parallel.tensor.parallel` divides layers, and what they compute, by a plan.
- :mod:`parallel.pipelining` passes micro-batches from rank to rank, each of which has some of the layers.
- :mod:`parallel.checkpoint` saves and loads such states, on any number of ranks.
- :func:`init_device_mesh` arranges the ranks as an array with a process group for each dimension.
- ``graphroot launch`` starts a script as several processes, :func:`spawn` a function.

>>> # graphroot launch --nproc-per-node 2 script.py
>>> parallel.init_process_group()  # doctest: +SKIP
>>> model = parallel.DistributedDataParallel(nn.Linear(10, 10))  # doctest: +SKIP
>>> model(x).sum().backward()  # the gradients are means over both processes  # doctest: +SKIP
>>> parallel.destroy_process_group()  # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

from graphroot.coexistence import own as _own
from graphroot.coexistence import share as _share
from tensor.core.names.absent import missing as _missing

# Bound now: importing a module of the package `data_parallel` later would bind the name to that package.
from . import comm
from .data_parallel.data_parallel import DataParallel, data_parallel

if TYPE_CHECKING:
    from . import algorithms, checkpoint, ddp_comm_hooks, device_mesh, fsdp, optim, pipelining, tensor
    from .backends.selection import (
        Backend,
        get_default_backend_for_device,
        is_backend_available,
        is_gloo_available,
        is_mpi_available,
        is_nccl_available,
        is_ucc_available,
        is_xccl_available,
    )
    from .data_parallel.parallel_apply import parallel_apply
    from .data_parallel.replication import replicate
    from .ddp.buckets import GradBucket
    from .ddp.distributed_data_parallel import DistributedDataParallel
    from .ddp.distributed_sampler import DistributedSampler
    from .ddp.joining import Join, Joinable, JoinHook
    from .ddp.sync_batch_norm import SyncBatchNorm
    from .device_mesh import DeviceMesh, init_device_mesh
    from .groups.collectives.all_to_all import all_to_all, all_to_all_single
    from .groups.collectives.arguments import supports_complex
    from .groups.collectives.monitored_barriers import monitored_barrier
    from .groups.collectives.object_collectives import (
        all_gather_object,
        broadcast_object_list,
        gather_object,
        recv_object_list,
        scatter_object_list,
        send_object_list,
    )
    from .groups.collectives.point_to_point import P2POp, batch_isend_irecv, irecv, isend, recv, send
    from .groups.collectives.tensor_collectives import (
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
    from .groups.errors import DistBackendError, DistError, DistNetworkError, DistStoreError
    from .groups.futures import Future, collect_all, wait_all
    from .groups.process_groups import (
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
    from .groups.reduce_op import ReduceOp
    from .groups.setup import (
        abort_process_group,
        default_pg_timeout,
        destroy_process_group,
        init_process_group,
        new_group,
    )
    from .groups.stores.file_store import FileStore
    from .groups.stores.store import HashStore, PrefixStore, QueueEmptyError, Store
    from .groups.stores.tcp_store import TCPStore
    from .groups.subgroups import new_subgroups, new_subgroups_by_enumeration
    from .groups.works import Work
    from .launch.spawning import (
        ProcessContext,
        ProcessException,
        ProcessExitedException,
        ProcessRaisedException,
        spawn,
        start_processes,
    )
    from .sharding.fully_shard import fully_shard

__all__ = [
    "Backend",
    "DataParallel",
    "DeviceMesh",
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
    "algorithms",
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
    "checkpoint",
    "collect_all",
    "comm",
    "data_parallel",
    "ddp_comm_hooks",
    "default_pg_timeout",
    "destroy_process_group",
    "device_mesh",
    "fsdp",
    "fully_shard",
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
    "init_device_mesh",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "optim",
    "parallel_apply",
    "pipelining",
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
    "tensor",
    "wait_all",
]

# Modules and their public names, loaded when one is first used: process groups, backends and launchers would make up
# most of the time of the import, and many programs that import the package use none of them.
_LAZY = {
    "backends.selection": "Backend get_default_backend_for_device is_backend_available is_gloo_available is_mpi_available is_nccl_available is_ucc_available is_xccl_available",
    "data_parallel.parallel_apply": "parallel_apply",
    "data_parallel.replication": "replicate",
    "ddp.buckets": "GradBucket",
    "ddp.distributed_data_parallel": "DistributedDataParallel",
    "ddp.distributed_sampler": "DistributedSampler",
    "ddp.joining": "Join Joinable JoinHook",
    "ddp.sync_batch_norm": "SyncBatchNorm",
    "algorithms": "algorithms",
    "checkpoint": "checkpoint",
    "ddp_comm_hooks": "ddp_comm_hooks",
    "device_mesh": "DeviceMesh device_mesh init_device_mesh",
    "groups.collectives.all_to_all": "all_to_all all_to_all_single",
    "groups.collectives.arguments": "supports_complex",
    "groups.collectives.monitored_barriers": "monitored_barrier",
    "groups.collectives.object_collectives": "all_gather_object broadcast_object_list gather_object recv_object_list scatter_object_list send_object_list",
    "groups.collectives.point_to_point": "P2POp batch_isend_irecv irecv isend recv send",
    "groups.collectives.tensor_collectives": "all_gather all_gather_into_tensor all_gather_single all_reduce barrier broadcast gather reduce reduce_scatter reduce_scatter_single reduce_scatter_tensor scatter",
    "groups.errors": "DistBackendError DistError DistNetworkError DistStoreError",
    "groups.futures": "Future collect_all wait_all",
    "groups.process_groups": "GroupMember ProcessGroup get_backend get_backend_config get_global_rank get_group_rank get_node_local_rank get_pg_count get_process_group_ranks get_rank get_world_size group is_available is_initialized is_torchelastic_launched",
    "groups.reduce_op": "ReduceOp",
    "groups.setup": "abort_process_group default_pg_timeout destroy_process_group init_process_group new_group",
    "groups.stores.file_store": "FileStore",
    "groups.stores.store": "HashStore PrefixStore QueueEmptyError Store",
    "groups.stores.tcp_store": "TCPStore",
    "groups.subgroups": "new_subgroups new_subgroups_by_enumeration",
    "groups.works": "Work",
    "fsdp": "fsdp",
    "optim": "optim",
    "pipelining": "pipelining",
    "sharding.fully_shard": "fully_shard",
    "tensor": "tensor",
    "launch.spawning": "ProcessContext ProcessException ProcessExitedException ProcessRaisedException spawn start_processes",
}
_MODULE_OF = {name: module for module, names in _LAZY.items() for name in names.split()}

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker

    def __getattr__(name: str) -> Any:
        path = _MODULE_OF.get(name)
        if path is None:
            raise _missing(__name__, name)
        module = _own(f"{__name__}.{path}")
        value = globals()[name] = module if name == path else getattr(module, name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


_share(__name__)
