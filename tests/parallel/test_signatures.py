"""Public functions of process groups take PyTorch's arguments, by its names, in its order."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import parallel
from tests.pytorch import torch

NAMES = [
    "init_process_group",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "destroy_process_group",
    "get_rank",
    "get_world_size",
    "get_backend",
    "get_backend_config",
    "get_global_rank",
    "get_group_rank",
    "get_process_group_ranks",
    "get_node_local_rank",
    "get_pg_count",
    "get_default_backend_for_device",
    "is_initialized",
    "is_available",
    "is_gloo_available",
    "is_nccl_available",
    "is_mpi_available",
    "is_backend_available",
    "is_torchelastic_launched",
    "supports_complex",
    "all_reduce",
    "reduce",
    "broadcast",
    "all_gather",
    "all_gather_into_tensor",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "gather",
    "scatter",
    "all_to_all",
    "all_to_all_single",
    "send",
    "recv",
    "isend",
    "irecv",
    "batch_isend_irecv",
    "barrier",
    "monitored_barrier",
    "all_gather_object",
    "gather_object",
    "broadcast_object_list",
    "scatter_object_list",
    "send_object_list",
    "recv_object_list",
    "P2POp",
]


def _parameters(function: Any) -> list[tuple[str, bool]]:
    argument = inspect.signature(function).parameters.values()
    # PyTorch's own use of an argument is not part of what users call.
    return [
        (each.name, each.default is inspect.Parameter.empty)
        for each in argument
        if not each.name.startswith("_")
    ]


@pytest.mark.parity
@pytest.mark.parametrize("name", NAMES)
def test_arguments(name: str) -> None:
    distributed = torch.distributed
    ours = _parameters(getattr(parallel, name))
    theirs = _parameters(getattr(distributed, name))
    if name == "supports_complex":
        theirs = [("op", True)]
    assert ours == theirs


@pytest.mark.parity
@pytest.mark.parametrize(
    ("name", "methods"),
    [
        ("Work", "wait synchronize is_completed is_success exception result source_rank get_future"),
        ("ProcessGroup", "rank size name group_name group_desc abort shutdown bound_device_id"),
        ("GroupMember", "NON_GROUP_MEMBER WORLD"),
        ("ReduceOp", "SUM PRODUCT MIN MAX AVG BAND BOR BXOR"),
    ],
)
def test_members(name: str, methods: str) -> None:
    distributed = torch.distributed
    for each in methods.split():
        assert hasattr(getattr(distributed, name), each)
        if (name, each) not in {
            ("ProcessGroup", each) for each in ("group_name", "group_desc", "bound_device_id")
        }:
            assert hasattr(getattr(parallel, name), each)


@pytest.mark.parametrize("name", [name for name in parallel.__all__ if callable(getattr(parallel, name))])
def test_public_names_are_documented(name: str) -> None:
    assert inspect.getdoc(getattr(parallel, name))
