"""Checkpoints of all ranks: on other numbers of ranks, whole or not at all, and while training goes on."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

import nn
import parallel
import tensor
from parallel import checkpoint
from parallel.checkpoint import (
    CheckpointException,
    DefaultLoadPlanner,
    FileSystemReader,
    FileSystemWriter,
    saving,
)
from parallel.checkpoint.ranks import Ranks
from parallel.checkpoint.saving import _Piece, assigned
from parallel.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from tensor.serialization import writing
from tests.parallel.thread_ranks import run_threads

pytestmark = pytest.mark.simulator_only


def _values() -> dict[str, tensor.Tensor]:
    """A tensor of each storage: with rows that do not divide evenly, none, one and no dimensions."""
    x = (tensor.arange(5 * 3 * 2).reshape(5, 3, 2) - 7) / 3
    return {
        "rows": x,
        "half": x.to(tensor.bfloat16),
        "complex": tensor.complex(x, x + 1).to(tensor.complex128),
        "empty": tensor.zeros(0, 4),
        "bools": x[:, 0] > 0,
        "few": x[:2].to(tensor.int64),
    }


def _divided(size: int, *, zeros: bool) -> dict[str, Any]:
    mesh = parallel.init_device_mesh("cpu", (size,))
    each = {name: value * 0 if zeros else value for name, value in _values().items()}
    return {name: distribute_tensor(value, mesh, [Shard(0)]) for name, value in each.items()}


def _save(rank: int, size: int, folder: Path) -> None:
    state = {
        "divided": _divided(size, zeros=False),
        "whole": _values(),
        "scalar": tensor.tensor(2.5),
        "views": [tensor.arange(12.0).reshape(3, 4).t(), {"lr": 0.1, "betas": (0.9, 0.99)}],
        "of_rank": {str(rank): rank + 1},
        "nothing": None,
    }
    metadata = checkpoint.save(state, checkpoint_id=folder)
    divided: Any = metadata.state_dict_metadata["divided.rows"]
    assert divided.size == (5, 3, 2)
    assert len(divided.chunks) == (3 if size == 4 else 1)
    assert metadata == FileSystemReader(folder).read_metadata()


def _template(divided: Any) -> dict[str, Any]:
    zeros = {name: value * 0 for name, value in _values().items()}
    zeros["rows"] = zeros["rows"].to(tensor.float64)
    return {
        "divided": divided,
        "whole": zeros,
        "scalar": tensor.tensor(0.0),
        "views": [tensor.zeros(4, 3), {"lr": 0.0, "betas": None}],
        "of_rank": {"0": 0},
        "nothing": 1,
    }


def _check_loaded(state: dict[str, Any]) -> None:
    for name, value in _values().items():
        for results in (state["divided"], state["whole"]):
            each = results[name]
            each = each.full_tensor() if isinstance(each, DTensor) else each
            assert each.to(value.dtype).equal(value), name
    assert state["scalar"].item() == 2.5
    assert state["views"][0].equal(tensor.arange(12.0).reshape(3, 4).t())
    assert state["views"][1] == {"lr": 0.1, "betas": (0.9, 0.99)}
    assert state["of_rank"] == {"0": 1} and state["nothing"] is None


def _load(rank: int, size: int, folder: Path) -> None:
    state = _template(_divided(size, zeros=True))
    inner = state["views"][1]
    checkpoint.load(state, storage_reader=FileSystemReader(folder))
    _check_loaded(state)
    assert state["views"][1] is inner


@pytest.mark.parametrize("size", [4, 1])
def test_state_is_read_on_other_numbers_of_ranks(size: int, tmp_path: Path) -> None:
    run_threads(_save, size, tmp_path)
    for other in (2, 6):
        run_threads(_load, other, tmp_path)
    state = _template({name: value * 0 for name, value in _values().items()})
    checkpoint.load(state, checkpoint_id=tmp_path)
    _check_loaded(state)


def test_work_is_divided_and_disagreement_is_an_error() -> None:
    pieces = [_Piece(name, "float32", (4,), (0,), (4,)) for name in "abcd"]
    result = assigned([pieces, pieces, [_Piece("own")]])
    assert [len(each) for each in result] == [2, 2, 1]
    assert {each for pieces_of in result[:2] for each in pieces_of} == set(pieces)
    with pytest.raises(
        ValueError, match="'a' is float32 of shape \\[4\\] on rank 0, and no tensor on rank 1"
    ):
        assigned([pieces, [_Piece("a")]])
    with pytest.raises(ValueError, match="the parts of 'a' have 2 elements together"):
        assigned([[_Piece("a", "float32", (4,), (0,), (2,))]])


# States of models and optimizers


def _model(wrapped: str, size: int) -> tuple[Any, Any]:
    model: Any = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, 3))
    with tensor.no_grad():
        for number, each in enumerate(model.parameters()):
            each.copy_((tensor.arange(each.numel()).reshape(each.shape) + number).sin())
    model[2].bias.requires_grad_(False)
    if wrapped == "fully_shard":
        mesh = parallel.init_device_mesh("cpu", (size,))
        parallel.fully_shard(model[0], mesh=mesh)
        parallel.fully_shard(model, mesh=mesh)
    elif wrapped == "fsdp":
        model[0] = parallel.fsdp.FullyShardedDataParallel(model[0])
        model = parallel.fsdp.FullyShardedDataParallel(model)
    elif wrapped == "ddp":
        model = parallel.DistributedDataParallel(model)
    groups = [
        {"params": [each for each in model.parameters() if each.dim() > 1]},
        {"params": [each for each in model.parameters() if each.dim() < 2], "lr": 0.05},
    ]
    return model, nn.optim.AdamW(groups, lr=0.1)


def _train(model: Any, optimizer: Any) -> None:
    for turn in range(2):
        optimizer.zero_grad()
        x = (tensor.arange(20.0).reshape(4, 5) + turn).cos()
        model(x).square().mean().backward()
        optimizer.step()
    optimizer.zero_grad()


_WHOLE = checkpoint.StateDictOptions(full_state_dict=True)


def _trained(rank: int, size: int, wrapped: str, folder: Path) -> Any:
    model, optimizer = _model(wrapped, size)
    _train(model, optimizer)
    weights, states = checkpoint.get_state_dict(model, optimizer)
    checkpoint.save({"model": weights, "optimizer": states}, checkpoint_id=folder)
    return checkpoint.get_state_dict(model, optimizer, options=_WHOLE)


def _restored(rank: int, size: int, wrapped: str, folder: Path) -> Any:
    model, optimizer = _model(wrapped, size)
    weights, states = checkpoint.get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": states}
    checkpoint.load(state, checkpoint_id=folder)
    checkpoint.set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )
    return checkpoint.get_state_dict(model, optimizer, options=_WHOLE)


def _check_same(results: Any, expected: Any) -> None:
    (weights, states), (other_weights, other_states) = results, expected
    assert list(weights) == list(other_weights)
    for name, value in weights.items():
        assert value.equal(other_weights[name]), name
    assert states["state"].keys() == other_states["state"].keys()
    for name, each in states["state"].items():
        for key, value in each.items():
            assert value.equal(other_states["state"][name][key]), (name, key)
    assert states["param_groups"] == other_states["param_groups"]


def test_models_are_restored_however_they_are_wrapped(tmp_path: Path) -> None:
    model, _ = _model("", 1)
    names = list(model.state_dict())
    for wrapped, size, others in [
        ("fully_shard", 3, [("fsdp", 2), ("ddp", 2), ("", 1)]),
        ("", 1, [("fully_shard", 2)]),
    ]:
        folder = tmp_path / (wrapped or "plain")
        expected = run_threads(_trained, size, wrapped, folder)[0]
        assert list(expected[0]) == names
        for other, ranks in others:
            for results in run_threads(_restored, ranks, other, folder):
                _check_same(results, expected)


def _with_options(rank: int, size: int) -> None:
    model, optimizer = _model("fully_shard", size)
    _train(model, optimizer)
    weights, states = checkpoint.get_state_dict(model, optimizer)
    assert isinstance(weights["0.weight"], DTensor)
    assert isinstance(states["state"]["0.weight"]["exp_avg"], DTensor)
    expected = checkpoint.get_state_dict(model, optimizer, options=_WHOLE)
    options = checkpoint.StateDictOptions(full_state_dict=True, cpu_offload=True)
    on_first = checkpoint.get_state_dict(model, optimizer, options=options)
    assert bool(on_first[0]) is bool(on_first[1]) is (rank == 0)
    # Names of one depth, which another division into groups takes.
    flat = checkpoint.get_optimizer_state_dict(
        model, optimizer, options=checkpoint.StateDictOptions(flatten_optimizer_state_dict=True)
    )
    assert flat["param_groups.1.bias.lr"] == 0.05 and "state.0.weight.exp_avg" in flat
    other, _ = _model("fully_shard", size)
    steps = nn.optim.AdamW(other.parameters(), lr=1.0)
    checkpoint.set_optimizer_state_dict(other, steps, flat)
    assert checkpoint.get_optimizer_state_dict(other, steps)["param_groups"][0]["lr"] == 0.1
    # Of rank 0 alone.
    options = checkpoint.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    other, steps = _model("fully_shard", size)
    checkpoint.set_model_state_dict(other, expected[0] if rank == 0 else {}, options=options)
    checkpoint.set_optimizer_state_dict(other, steps, expected[1] if rank == 0 else {}, options=options)
    _check_same(checkpoint.get_state_dict(other, steps, options=_WHOLE), expected)
    options = checkpoint.StateDictOptions(ignore_frozen_params=True)
    assert "2.bias" in weights and "2.bias" not in checkpoint.get_model_state_dict(model, options=options)
    options = checkpoint.StateDictOptions(keep_submodule_prefixes=False)
    below = checkpoint.get_model_state_dict(model, submodules={model[0]}, options=options)
    assert list(below) == ["weight", "bias"]
    below = checkpoint.get_optimizer_state_dict(model, optimizer, submodules={model[0]})
    assert list(below["state"]) == ["0.weight", "0.bias"]
    keys = checkpoint.set_model_state_dict(
        model, {"0.bias": weights["0.bias"]}, options=checkpoint.StateDictOptions(strict=False)
    )
    assert "0.weight" in keys.missing_keys
    with pytest.raises(RuntimeError, match="Missing key"):
        checkpoint.set_model_state_dict(model, {"0.bias": weights["0.bias"]})
    with pytest.raises(ValueError, match="full_state_dict must be True"):
        checkpoint.get_model_state_dict(model, options=checkpoint.StateDictOptions(broadcast_from_rank0=True))
    with pytest.raises(ValueError, match="that the model does not have"):
        checkpoint.get_optimizer_state_dict(model, steps)


def test_options_of_states() -> None:
    run_threads(_with_options, 2)


# Whole or not at all


class _Failing(FileSystemWriter):
    """A disk that is full on one rank."""

    def __init__(self, path: Path, fails: bool) -> None:
        super().__init__(path)
        self._fails = fails

    def write(self, file: str, arrays: Any) -> Any:
        result = super().write(file, arrays)
        if self._fails:
            raise OSError(28, "No space left on device")
        return result


def _fails(rank: int, size: int, folder: Path) -> None:
    state = {"x": _divided(size, zeros=False)["rows"], "step": 1}
    checkpoint.save(state, checkpoint_id=folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    parallel.barrier()
    for way in ("save", "async_save"):
        state["step"] = 2
        with pytest.raises(CheckpointException, match="No space left") as caught:
            if way == "save":
                checkpoint.save(state, storage_writer=_Failing(folder, rank == 1))
            else:
                checkpoint.async_save(state, storage_writer=_Failing(folder, rank == 1)).result()
        assert list(caught.value.failures) == [1]
        parallel.barrier()
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        parallel.barrier()
    with pytest.raises(
        CheckpointException, match=r"cannot save checkpoint\['step'\]: it is a builtins.object"
    ):
        checkpoint.save({**state, "step": object() if rank else 1}, checkpoint_id=folder)
    with pytest.raises(CheckpointException, match="already exists and overwrite=False"):
        checkpoint.save(state, storage_writer=FileSystemWriter(folder, overwrite=False))
    checkpoint.load(state, checkpoint_id=folder)
    assert state["step"] == 1
    parallel.barrier()
    checkpoint.save({**state, "step": 3}, checkpoint_id=folder)
    assert len(list(folder.iterdir())) == size + 1
    target = {"x": _divided(size, zeros=True)["rows"], "y": 0}
    wrong: Any
    for wrong, message in [
        ({"y": 0}, "Missing key in checkpoint state_dict: y. .* has step, x"),
        ({"x": tensor.zeros(5, 3)}, "Size mismatch between saved .*5, 3, 2.* for x"),
        ({"x": 0}, "'x' is a tensor of shape"),
        ({"step": tensor.zeros(2)}, "'step' is no tensor"),
    ]:
        # On the last rank alone.
        with pytest.raises(CheckpointException, match=message) as caught:
            checkpoint.load(wrong if rank else {"x": target["x"]}, checkpoint_id=folder)
        assert list(caught.value.failures) == [1]
        assert not target["x"].to_local().any()
    checkpoint.load(target, checkpoint_id=folder, planner=DefaultLoadPlanner(allow_partial_load=True))
    assert target["x"].full_tensor().equal(_values()["rows"]) and target["y"] == 0
    parallel.barrier()
    described: Any = FileSystemReader(folder).read_metadata().state_dict_metadata["x"]
    file = folder / described.chunks[1].file
    content = file.read_bytes()
    parallel.barrier()
    for damaged, message in [
        (content[:-4], "cut off"),
        (content[:-1] + bytes([content[-1] ^ 1]), "not those that were written"),
        (None, "is incomplete: its file"),
    ]:
        if rank == 0:
            file.write_bytes(damaged) if damaged is not None else file.unlink()
        parallel.barrier()
        with pytest.raises(CheckpointException, match=message) as caught:
            checkpoint.load({"x": target["x"]}, checkpoint_id=folder)
        assert list(caught.value.failures) == [1]
        parallel.barrier()
    if rank == 0:
        file.write_bytes(content)
        path = folder / ".metadata"
        document = json.loads(path.read_text())
        path.write_text(
            json.dumps({**document, "content": document["content"].replace("float32", "float64")})
        )
    parallel.barrier()
    with pytest.raises(CheckpointException, match="content is not what was written"):
        checkpoint.load({"x": target["x"]}, checkpoint_id=folder)
    parallel.barrier()
    if rank == 0:
        (folder / ".metadata").unlink()
    parallel.barrier()
    with pytest.raises(CheckpointException, match="no complete checkpoint") as caught:
        checkpoint.load({"x": target["x"]}, checkpoint_id=folder)
    assert list(caught.value.failures) == [0, 1]


def test_a_save_that_fails_on_a_rank_leaves_what_was_there(tmp_path: Path) -> None:
    run_threads(_fails, 2, tmp_path)


def _cannot_stage(rank: int, size: int, folder: Path, later: bool) -> None:
    checkpoint.save({"x": tensor.ones(3)}, checkpoint_id=folder)
    # Parts that are written by both ranks; memory of the second one is short.
    mesh = parallel.init_device_mesh("cpu", (size,))
    state = {"x": distribute_tensor(tensor.zeros(4), mesh, [Shard(0)])}
    with pytest.raises(CheckpointException, match="no memory for a copy") as caught:
        if later:
            checkpoint.async_save(state, checkpoint_id=folder).result(timeout=20)
        else:
            checkpoint.save(state, checkpoint_id=folder)
    assert list(caught.value.failures) == [1]
    loaded = {"x": tensor.zeros(3)}
    checkpoint.load(loaded, checkpoint_id=folder)
    assert loaded["x"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("later", [False, True])
def test_ranks_hear_of_one_that_cannot_copy_its_state(
    later: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = saving.local_part

    def short(value: Any) -> Any:
        if isinstance(value, DTensor) and value.device_mesh.get_local_rank() == 1:
            raise MemoryError("no memory for a copy")
        return original(value)

    monkeypatch.setattr(saving, "local_part", short)
    run_threads(_cannot_stage, 2, tmp_path, later)


def _terms(rank: int, size: int, folder: Path) -> None:
    mesh = parallel.init_device_mesh("cpu", (size,))
    terms = DTensor.from_local(tensor.full((3,), rank + 1.0), mesh, [Partial()])
    with pytest.raises(CheckpointException, match="ranks have terms of its elements"):
        checkpoint.save({"x": terms}, checkpoint_id=folder)
    checkpoint.save({"x": terms.redistribute(placements=[Replicate()])}, checkpoint_id=folder)
    with pytest.raises(CheckpointException, match="ranks have terms of its elements"):
        checkpoint.load({"x": terms}, checkpoint_id=folder)
    assert terms.to_local().tolist() == [rank + 1.0] * 3
    loaded = {"x": tensor.zeros(3)}
    checkpoint.load(loaded, checkpoint_id=folder)
    assert loaded["x"].tolist() == [3, 3, 3]


def test_sums_that_are_not_yet_computed_are_refused(tmp_path: Path) -> None:
    run_threads(_terms, 2, tmp_path)


def _fails_late(rank: int, size: int, folder: Path) -> None:
    mesh = parallel.init_device_mesh("cpu", (size,))

    def state(value: float) -> dict[str, Any]:
        return {"x": distribute_tensor(tensor.full((4,), value), mesh, [Shard(0)])}

    with pytest.raises(CheckpointException, match="the disk is gone") as caught:
        checkpoint.save(state(2), checkpoint_id=folder)
    assert list(caught.value.failures) == [0]
    parallel.barrier()
    loaded = state(0)
    checkpoint.load(loaded, checkpoint_id=folder)
    assert loaded["x"].full_tensor().tolist() == [2] * 4


def test_an_error_behind_the_last_step_of_a_save_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder names the new files when its entries cannot be written to the disk: none of them may be removed."""
    checkpoint.save({"x": tensor.ones(4)}, checkpoint_id=tmp_path)

    def flush(path: Path) -> None:
        if path == tmp_path:
            raise OSError("the disk is gone")

    monkeypatch.setattr(writing, "flush", flush)
    run_threads(_fails_late, 2, tmp_path)
    monkeypatch.undo()
    checkpoint.save({"x": tensor.zeros(4)}, checkpoint_id=tmp_path)
    assert len(_saved(tmp_path)) == 1


class _Interrupted(FileSystemWriter):
    """Another save goes on, from beginning to end, before this one has written its file, or has it count."""

    def __init__(self, path: Path, step: str) -> None:
        super().__init__(path)
        self._step = step

    def _meanwhile(self, step: str) -> None:
        if step == self._step:
            checkpoint.save({"x": tensor.ones(3)}, checkpoint_id=self.path)

    def write(self, file: str, arrays: Any) -> Any:
        self._meanwhile("write")
        return super().write(file, arrays)

    def finish(self, metadata: Any) -> None:
        self._meanwhile("finish")
        super().finish(metadata)


@pytest.mark.parametrize("step", ["write", "finish"])
def test_saves_that_overlap_leave_the_last_one_whole(step: str, tmp_path: Path) -> None:
    checkpoint.save({"x": tensor.full((3,), 2.0)}, storage_writer=_Interrupted(tmp_path, step))
    loaded = {"x": tensor.zeros(3)}
    checkpoint.load(loaded, checkpoint_id=tmp_path)
    assert loaded["x"].tolist() == [2, 2, 2]
    assert len(_saved(tmp_path)) == 1


def test_a_file_that_was_removed_meanwhile_is_an_error(tmp_path: Path) -> None:
    """As where another job's locks are not seen."""
    checkpoint.save({"x": tensor.ones(3)}, checkpoint_id=tmp_path)
    before = _saved(tmp_path)

    class Removed(FileSystemWriter):
        def finish(self, metadata: Any) -> None:
            for name in metadata.files():
                self.discard(name)
            super().finish(metadata)

    with pytest.raises(CheckpointException, match="is gone, which this save has written"):
        checkpoint.save({"x": tensor.zeros(3)}, storage_writer=Removed(tmp_path))
    assert _saved(tmp_path) == before
    loaded = {"x": tensor.zeros(3)}
    checkpoint.load(loaded, checkpoint_id=tmp_path)
    assert loaded["x"].tolist() == [1, 1, 1]


def test_arguments_are_checked(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="`checkpoint_id` must be specified"):
        checkpoint.save({})
    with pytest.raises(RuntimeError, match="`checkpoint_id` must be specified"):
        checkpoint.load({})
    with pytest.raises(TypeError, match="storage_writer is a FileSystemWriter, not PosixPath"):
        checkpoint.save({}, storage_writer=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="pass its path, not a int"):
        checkpoint.save({}, checkpoint_id=3)  # type: ignore[arg-type]
    with pytest.raises(CheckpointException, match="duplicated flatten key a.b"):
        checkpoint.save({"a": {"b": 1}, "a.b": 2}, checkpoint_id=tmp_path)


# While training goes on


class _Slow(FileSystemWriter):
    """A disk that waits."""

    def __init__(self, path: Path, event: threading.Event) -> None:
        super().__init__(path)
        self._event = event

    def write(self, file: str, arrays: Any) -> Any:
        assert self._event.wait(20)
        return super().write(file, arrays)


def _meanwhile(rank: int, size: int, device: str, folder: Path, event: threading.Event) -> None:
    mesh = parallel.init_device_mesh(device, (size,))
    x = distribute_tensor(tensor.arange(6.0, device=device), mesh, [Shard(0)])
    replicated = tensor.ones(3, device=device)
    state = {"x": x, "replicated": replicated}
    first = checkpoint.async_save(state, storage_writer=_Slow(folder, event))
    x.mul_(2)
    replicated.zero_()
    # Operations of the default group come in between.
    parallel.all_reduce(replicated)
    assert not first.done() and not (folder / ".metadata").exists()
    event.set()
    first.result(timeout=20)
    checkpoint.load(state, checkpoint_id=folder)
    assert x.full_tensor().tolist() == [0, 1, 2, 3, 4, 5] and replicated.tolist() == [1, 1, 1]
    x.add_(1)
    checkpoint.async_save(state, checkpoint_id=folder)
    x.add_(1)
    last = checkpoint.async_save(state, checkpoint_id=folder)
    x.zero_()
    last.result(timeout=20)
    checkpoint.load(state, checkpoint_id=folder)
    assert x.full_tensor().tolist() == [2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(("device", "options"), [("cpu", {}), ("cuda", {"schedule": "random", "seed": 3})])
def test_state_may_change_while_it_is_written(device: str, options: dict[str, Any], tmp_path: Path) -> None:
    event = threading.Event()
    run_threads(_meanwhile, 2, device, tmp_path, event, **({"device": device, **options}))


def _saves_last(rank: int, size: int, folder: Path, event: threading.Event) -> None:
    mesh = parallel.init_device_mesh("cpu", (size,))
    x = distribute_tensor(tensor.arange(6.0), mesh, [Shard(0)])
    future = checkpoint.async_save({"x": x}, storage_writer=_Slow(folder, event))
    parallel.barrier()
    assert not future.done()
    threading.Timer(0.1, event.set).start()


def test_groups_are_destroyed_when_a_checkpoint_is_saved(tmp_path: Path) -> None:
    """Jobs end with that."""
    run_threads(_saves_last, 2, tmp_path, threading.Event())
    loaded = {"x": tensor.zeros(6)}
    checkpoint.load(loaded, checkpoint_id=tmp_path)
    assert loaded["x"].tolist() == [0, 1, 2, 3, 4, 5]


def test_ranks_that_do_not_hear_of_the_end_leave_the_checkpoint_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first rank has said what the checkpoint consists of, and the answer of another one is lost with a rank that dies."""
    folder = tmp_path / "checkpoint"
    checkpoint.save({"x": tensor.zeros(3)}, checkpoint_id=folder)
    original = Ranks._scatter

    def lost(self: Ranks, answers: list[Any] | None) -> Any:
        result = original(self, answers)
        if not before & _saved(folder):
            raise RuntimeError("rank 3 has died")
        return result

    before = _saved(folder)
    monkeypatch.setattr(Ranks, "_scatter", lost)
    with pytest.raises(RuntimeError, match="rank 3 has died"):
        checkpoint.save({"x": tensor.ones(3)}, checkpoint_id=folder)
    monkeypatch.undo()
    loaded = {"x": tensor.zeros(3)}
    checkpoint.load(loaded, checkpoint_id=folder)
    assert loaded["x"].tolist() == [1, 1, 1]


def _saved(folder: Path) -> set[str]:
    return {file.name for file in folder.glob("__*")}
