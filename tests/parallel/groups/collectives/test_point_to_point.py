"""Messages between two ranks, and objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import parallel
import tensor
from parallel import GroupMember, P2POp
from tests.parallel.jobs import joined, use
from tests.parallel.processes import run
from tests.parallel.threads import together

if TYPE_CHECKING:
    from pathlib import Path

#: Larger than what is sent before anybody waits for it.
LARGE = 50_000


def _messages(rank: int, size: int, path: str, place: str) -> None:
    device = use(place)
    with joined(rank, size, path):
        after, before = (rank + 1) % size, (rank - 1) % size
        # Around in a ring, strided, without waiting for each other.
        for count in (3, LARGE):
            argument = tensor.full((count, 2), float(rank), device=device)[:, 0]
            taken = tensor.full((count, 2), -1.0, device=device)
            works = [parallel.isend(argument, after), parallel.irecv(taken[:, 1], before)]
            for each in works:
                assert each is not None
                each.wait()
            assert (taken + 0)[-1].tolist() == [-1.0, float(before)]
        # Tags may be taken in another order than they were sent in.
        works = [
            parallel.isend(tensor.full((LARGE,), float(tag), device=device), after, tag=tag) for tag in (5, 6)
        ]
        for tag in (6, 5):
            taken = tensor.empty(LARGE, device=device)
            assert parallel.recv(taken, before, tag=tag) == before
            assert taken[-1].item() == tag
        for each in works:
            assert each is not None
            each.wait()
        _from_any(rank, size, device)
        _batches(rank, size, device)
        # Next to a collective that is under way.
        x = tensor.ones(3, device=device)
        work = parallel.all_reduce(x, async_op=True)
        assert work is not None
        if rank == 0:
            parallel.send(tensor.ones(2, device=device), 1)
        elif rank == 1:
            parallel.recv(tensor.empty(2, device=device), 0)
        work.wait()
        assert x.tolist() == [float(size)] * 3
        _refusals(rank, device)
        parallel.barrier()


def _from_any(rank: int, size: int, device: str) -> None:
    if rank:
        parallel.send(tensor.full((2,), float(rank), device=device), 0, tag=9)
        return
    senders = set()
    for _ in range(size - 1):
        taken = tensor.empty(2, device=device)
        sender = parallel.recv(taken, tag=9)
        assert taken.tolist() == [float(sender)] * 2
        senders.add(sender)
    assert senders == set(range(1, size))


def _batches(rank: int, size: int, device: str) -> None:
    after, before = (rank + 1) % size, (rank - 1) % size
    argument = tensor.arange(LARGE, dtype=tensor.float32, device=device) + rank
    taken = tensor.empty(LARGE, device=device)
    works = parallel.batch_isend_irecv(
        [P2POp(parallel.isend, argument, after), P2POp(parallel.irecv, taken, group_peer=before)]
    )
    assert len(works) == 2
    for each in works:
        each.wait()
    assert taken[-1].item() == LARGE - 1 + before


def _refusals(rank: int, device: str) -> None:
    x = tensor.ones(2, device=device)
    for call, match in (
        (lambda: parallel.send(x, rank), "is this process itself"),
        (lambda: parallel.recv(x, group_src=rank), "is this process itself"),
        (lambda: parallel.send(x, 17), "not part of group"),
        (lambda: parallel.send(x), "Must specify group_dst or dst"),
        (lambda: parallel.send(x, 1 - min(rank, 1), tag=-1), "tag is not negative"),
        (lambda: P2POp(parallel.send, x, 0), "Invalid ``op``"),
        (lambda: parallel.batch_isend_irecv([]), "is empty"),
    ):
        with pytest.raises(ValueError, match=match):
            call()
    with pytest.raises(TypeError, match="list of P2POp"):
        parallel.batch_isend_irecv([x])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="`tensor` of isend"):
        parallel.isend([1.0], 0)  # type: ignore[arg-type]
    group = GroupMember.NON_GROUP_MEMBER
    with pytest.warns(UserWarning, match="does not belong"):
        assert parallel.isend(x, 0, group=group) is None
    with pytest.warns(UserWarning, match="does not belong"):
        assert parallel.recv(x, 0, group=group) == -1


@pytest.mark.parametrize("place", ["cpu", "eager", "lazy", "random"])
def test_messages(tmp_path: Path, place: str) -> None:
    run(_messages, 3, str(tmp_path / "store"), place)


def _threads(rank: int, size: int, path: str) -> None:
    """Each thread has a tag of its own."""
    with joined(rank, size, path):

        def exchange(tag: int) -> None:
            for count in range(20):
                argument = tensor.full((100,), float(count + 10 * tag))
                taken = tensor.empty(100)
                work = parallel.isend(argument, 1 - rank, tag=tag)
                parallel.recv(taken, 1 - rank, tag=tag)
                assert work is not None
                work.wait()
                assert tensor.equal(argument, taken)

        together(exchange, 4)


def test_from_several_threads(tmp_path: Path) -> None:
    run(_threads, 2, str(tmp_path / "store"))


class _Point:
    def __init__(self, x: int) -> None:
        self.x = x


def _objects(rank: int, size: int, path: str, place: str) -> None:
    device = use(place)
    with joined(rank, size, path):
        argument = {
            "rank": rank,
            "tensor": tensor.full((rank + 1,), float(rank), device=device),
            "point": _Point(rank),
        }
        result: list[Any] = [None] * size
        parallel.all_gather_object(result, argument)
        for each in range(size):
            assert result[each]["rank"] == result[each]["point"].x == each
            assert result[each]["tensor"].tolist() == [float(each)] * (each + 1)
            assert result[each]["tensor"].device.type == device
        result = [None] * size
        parallel.gather_object(("x" * 1000 * rank), result if rank == 1 else None, dst=1)
        assert result == (["x" * 1000 * each for each in range(size)] if rank == 1 else [None] * size)
        pair: list[Any] = [{"a": 1}, None] if rank == 2 else [0, 0]
        parallel.broadcast_object_list(pair, src=2, device=device)
        assert pair == [{"a": 1}, None]
        nothing: list[Any] = []
        parallel.broadcast_object_list(nothing)
        assert nothing == []
        one: list[Any] = [None]
        parallel.scatter_object_list(one, [[each] * each for each in range(size)] if rank == 0 else None)
        assert one == [[rank] * rank]
        if rank == 0:
            parallel.send_object_list([_Point(5), "text"], 2, device=device)
        elif rank == 2:
            pair = [None, None]
            assert parallel.recv_object_list(pair, device=device) == 0
            assert (pair[0].x, pair[1]) == (5, "text")
        group = parallel.new_group([1, 2])
        if rank:
            result = [None] * 2
            parallel.all_gather_object(result, rank, group=group)
            assert result == [1, 2]
        with pytest.raises(ValueError, match="has 1 places, and the group 3 ranks"):
            parallel.all_gather_object([None], 1)
        with pytest.raises(ValueError, match="size at least 1"):
            parallel.scatter_object_list([], None)
        # What cannot be pickled is an error before anything is sent.
        with pytest.raises(Exception, match=r"pickle|local"):
            parallel.all_gather_object([None] * size, lambda: None)
        parallel.barrier()


@pytest.mark.parametrize("place", ["cpu", "lazy"])
def test_objects(tmp_path: Path, place: str) -> None:
    run(_objects, 3, str(tmp_path / "store"), place)
