"""Meshes of ranks: shapes, names, the groups of each dimension, meshes of some dimensions, and what is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import parallel
import tensor
from parallel.device_mesh import DeviceMesh, init_device_mesh
from tests.parallel.thread_ranks import run_threads
from tests.pytorch import torch


def _refusals(mesh: DeviceMesh) -> None:
    for error, words, call in [
        (KeyError, "Invalid mesh_dim_names \\('zz',\\)", lambda: mesh["zz"]),
        (KeyError, "ascending order", lambda: mesh["tp", "dp"]),
        (RuntimeError, "overlapping dim_names", lambda: mesh["tp", "tp"]),
        (RuntimeError, "Found the DeviceMesh have 2 dimensions", mesh.get_group),
        (RuntimeError, "`mesh_dim` needs to be specified", mesh.get_local_rank),
        (KeyError, "Mesh dimension 'q' does not exist", lambda: mesh.get_local_rank("q")),
        (IndexError, "Mesh dimension 7 does not exist", lambda: mesh.get_group(7)),
        (RuntimeError, "default world size 4, but found 16", lambda: init_device_mesh("cpu", (4, 4))),
        (ValueError, "positive integers, got \\(2, -1\\)", lambda: init_device_mesh("cpu", (2, -1))),
        (TypeError, "tuple of integers", lambda: init_device_mesh("cpu", (2.0, 2))),  # type: ignore[arg-type]
        (RuntimeError, "same length", lambda: init_device_mesh("cpu", (2, 2), mesh_dim_names=("a",))),
        (RuntimeError, "must be unique", lambda: init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "a"))),
        (RuntimeError, "index is not supported but got cuda:1", lambda: init_device_mesh("cuda:1", (4,))),
        (RuntimeError, "'cpu' or 'cuda', got 'tpu'", lambda: init_device_mesh("tpu", (4,))),
        (
            KeyError,
            "names the dimension 'q'",
            lambda: init_device_mesh("cpu", (4,), backend_override={"q": "gloo"}),
        ),
        (KeyError, "dimension 1", lambda: init_device_mesh("cpu", (4,), backend_override={1: "gloo"})),
        (RuntimeError, "without mesh_dim_names", lambda: init_device_mesh("cpu", (4,))["x"]),
        (ValueError, "duplicate entries", lambda: DeviceMesh("cpu", [0, 1, 1])),
        (ValueError, "Rank 9 is out of range", lambda: DeviceMesh("cpu", [0, 9])),
        (TypeError, "numbers of ranks", lambda: DeviceMesh("cpu", [0.5])),
        (ValueError, "at least one", lambda: DeviceMesh("cpu", [])),
        (RuntimeError, "1 entries", lambda: DeviceMesh("cpu", [[0, 1]], backend_override=((None, None),))),
        (ValueError, "is a dimension of", lambda: mesh._flatten("tp")),
        (TypeError, "cannot be copied", lambda: copy.deepcopy(mesh)),
    ]:
        with pytest.raises(error, match=words):
            call()


def _sum(group: parallel.ProcessGroup) -> float:
    x = tensor.tensor([float(parallel.get_rank())])
    parallel.all_reduce(x, group=group)
    return x.item()


def _mesh(rank: int, size: int) -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    assert repr(mesh) == "DeviceMesh((dp=2, tp=2), 'cpu', stride=(2, 1))"
    assert mesh.mesh.tolist() == [[0, 1], [2, 3]] and mesh.mesh.dtype is tensor.int32
    assert (mesh.shape, mesh.ndim, mesh.size(), mesh.size(1)) == ((2, 2), 2, 4, 2)
    assert mesh.get_coordinate() == (rank // 2, rank % 2) and mesh.get_rank() == rank
    assert mesh.get_local_rank("dp") == rank // 2 and mesh.get_local_rank(-1) == rank % 2
    # Groups of rows and columns.
    assert _sum(mesh.get_group("tp")) == (1 if rank < 2 else 5)
    assert _sum(mesh.get_group("dp")) == (2 if rank % 2 == 0 else 4)
    assert mesh.get_all_groups() == [mesh.get_group(0), mesh.get_group(1)]
    row = mesh["tp"]
    assert row is mesh["tp"] and row.get_group() is mesh.get_group("tp") and row["tp"] is row
    assert row.mesh.tolist() == [rank // 2 * 2, rank // 2 * 2 + 1] and row.get_local_rank() == rank % 2
    assert repr(mesh["dp"]) == "DeviceMesh((dp=2), 'cpu', stride=(2,))" and mesh["dp", "tp"] is mesh
    with pytest.raises(KeyError, match=r"Valid mesh_dim_names are \['tp'\]"):
        row["dp"]
    flat = mesh._flatten()
    assert (
        mesh["dp_tp"] is flat
        and flat.mesh.tolist() == [0, 1, 2, 3]
        and flat.get_group() is parallel.group.WORLD
    )
    assert mesh == DeviceMesh("cpu", [[0, 1], [2, 3]], mesh_dim_names=("dp", "tp"))
    assert mesh != row and mesh != DeviceMesh("cpu", [[0, 1], [2, 3]]) and len({mesh, mesh}) == 1
    _refusals(mesh)
    # Not all ranks, in another order.
    some = DeviceMesh("cpu", tensor.tensor([3, 1]), mesh_dim_names=("x",), backend_override=(("gloo", None),))
    assert some.get_coordinate() == {3: (0,), 1: (1,)}.get(rank)
    if rank in (1, 3):
        assert _sum(some.get_group()) == 4 and some.get_group().rank() == (rank == 1)
        again = DeviceMesh.from_group(some.get_group(), "cpu", mesh_dim_names=("x",))
        assert again == some and again.get_group() is some.get_group()
    else:
        assert some.get_all_groups() == []
        with pytest.raises(RuntimeError, match=f"rank {rank} is not in DeviceMesh"):
            some.get_group()
    whole = DeviceMesh.from_group(mesh.get_all_groups(), "cpu", mesh.mesh, mesh_dim_names=("dp", "tp"))
    assert whole == mesh
    for error, words, arguments in [
        (ValueError, "Must pass mesh", (mesh.get_all_groups(), "cpu")),
        (ValueError, "ndim equal", (mesh.get_all_groups(), "cpu", [0, 1])),
        (ValueError, "at least one ProcessGroup", ([], "cpu")),
        (ValueError, "the group there has", (parallel.group.WORLD, "cpu", [3, 2, 1, 0])),
    ]:
        with pytest.raises(error, match=words):
            DeviceMesh.from_group(*arguments)
    assert parallel.device_mesh.init_device_mesh is parallel.init_device_mesh is init_device_mesh


def test_meshes() -> None:
    run_threads(_mesh, 4)


def test_a_mesh_joins_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    try:
        assert init_device_mesh("cpu", (1,)).get_group() is parallel.group.WORLD
    finally:
        parallel.destroy_process_group()


def _described(mesh: Any) -> list[Any]:
    parts = [mesh, mesh["dp"], mesh["pp", "tp"], mesh["dp", "tp"]._flatten("both")]
    return [
        (str(each), tuple(each.shape), each.get_coordinate(), each.mesh.tolist(), each.size())
        for each in parts
    ]


def _members(mesh: Any) -> set[str]:
    return {name for name in dir(mesh) if not name.startswith("_")}


def _ours(rank: int, size: int) -> tuple[list[Any], set[str]]:
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
    return _described(mesh), _members(mesh)


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
def test_as_pytorch() -> None:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=5, world_size=8)
    try:
        theirs = torch.distributed.device_mesh.init_device_mesh(
            "cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp")
        )
        described, members = run_threads(_ours, 8)[5]
        assert described == _described(theirs)
        assert _members(theirs) <= members
    finally:
        torch.distributed.destroy_process_group()
