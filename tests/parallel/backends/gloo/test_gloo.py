"""Collectives over sockets: what they compute, for every type and size."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from parallel.backends.gloo.connections import PeerConnections
from parallel.backends.gloo.transport import GlooTransport
from parallel.groups.reduce_op import ReduceOp
from parallel.groups.stores.file_store import FileStore
from tests.parallel.processes import run

if TYPE_CHECKING:
    from collections.abc import Iterator

# Nothing, one, few, more than fits one message, several chunks with a remainder.
SIZES = (0, 1, 3, 1000, 100_001, 700_001)
HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
FLOATS = (*HALVES, np.dtype(np.float32), np.dtype(np.float64))
COMPLEX = (np.dtype(np.complex64), np.dtype(np.complex128))
INTEGERS = tuple(map(np.dtype, (np.bool_, np.uint8, np.int8, np.int16, np.int32, np.int64)))


class _Group:
    """The world's group in a process, and its end."""

    def __init__(self, rank: int, size: int, path: str, share_memory: bool = True) -> None:
        self.store = FileStore(path, size)
        self.connections = PeerConnections(self.store, rank, size, 20, share_memory)
        self.transport = GlooTransport(self.connections, "world", range(size))

    def __enter__(self) -> GlooTransport:
        return self.transport

    def __exit__(self, *_: object) -> None:
        self.transport.close()
        self.connections.close()
        self.store.close()


def soon(seconds: float = 20) -> float:
    return time.monotonic() + seconds


def _values(dtype: np.dtype[Any], count: int, rank: int) -> Any:
    generator = np.random.default_rng(rank)
    if dtype.kind == "c":
        return (generator.standard_normal(count) + 1j * generator.standard_normal(count)).astype(dtype)
    if dtype in FLOATS:
        return generator.standard_normal(count).astype(dtype)
    return generator.integers(0, 2 if dtype.kind == "b" else 100, count).astype(dtype)


def _cases() -> Iterator[tuple[ReduceOp, np.dtype[Any]]]:
    for dtype in (*INTEGERS, *FLOATS, *COMPLEX):
        yield ReduceOp.SUM, dtype
        yield ReduceOp.PRODUCT, dtype
        if dtype not in COMPLEX:
            yield ReduceOp.MIN, dtype
            yield ReduceOp.MAX, dtype
        if dtype in INTEGERS:
            yield ReduceOp.BAND, dtype
            yield ReduceOp.BOR, dtype
            yield ReduceOp.BXOR, dtype
        else:
            yield ReduceOp.AVG, dtype


def _expected(op: ReduceOp, dtype: np.dtype[Any], parts: list[Any]) -> Any:
    function = {
        ReduceOp.SUM: np.add,
        ReduceOp.AVG: np.add,
        ReduceOp.PRODUCT: np.multiply,
        ReduceOp.MIN: np.minimum,
        ReduceOp.MAX: np.maximum,
        ReduceOp.BAND: np.bitwise_and,
        ReduceOp.BOR: np.bitwise_or,
        ReduceOp.BXOR: np.bitwise_xor,
    }[op]
    wide = [part.astype(np.float32) if dtype in HALVES else part for part in parts]
    total = wide[0].copy()
    for part in wide[1:]:
        total = function(total, part)
    return (total / len(parts) if op is ReduceOp.AVG else total).astype(dtype)


def _check(actual: Any, expected: Any, size: int, case: str) -> None:
    assert actual.dtype == expected.dtype
    # A complex product is rounded in one of two ways, by the place of the element in the array; and many ranks combine
    # small arrays in pairs.
    if actual.dtype in COMPLEX or (actual.dtype in FLOATS and size > 4):
        tolerance = 16 * float(ml_dtypes.finfo(actual.dtype).eps)
        wide = np.complex128 if actual.dtype in COMPLEX else np.float64
        np.testing.assert_allclose(
            actual.astype(wide), expected.astype(wide), rtol=tolerance, atol=tolerance, err_msg=case
        )
    else:
        np.testing.assert_array_equal(actual, expected, err_msg=case, strict=True)


def _reduces(rank: int, size: int, path: str, counts: tuple[int, ...]) -> list[bytes]:
    bits = []
    with _Group(rank, size, path, share_memory=size != 2) as group:
        for count in counts:
            for op, dtype in _cases():
                # Chunks are the same for all types.
                if count == 200_001 and dtype not in (HALVES[1], np.dtype(np.float32), np.dtype(np.int64)):
                    continue
                parts = [_values(dtype, count, other) for other in range(size)]
                expected = _expected(op, dtype, parts)
                array = parts[rank].copy()
                group.all_reduce(array, op, soon())
                _check(array, expected, size, f"{op} {dtype} {count}")
                bits.append(array.tobytes()[:4096])
                array = parts[rank].copy()
                group.reduce(array, size - 1, op, soon())
                _check(array, expected if rank == size - 1 else parts[rank], size, f"{op} {dtype} {count}")
                share = count // size
                output = np.empty(share, dtype)
                group.reduce_scatter(output, parts[rank][: size * share], op, soon())
                _check(output, expected[rank * share : (rank + 1) * share], size, f"{op} {dtype} {count}")
    return bits


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_reductions(size: int, tmp_path: Path) -> None:
    counts = (0, 5, 20_000, 200_001) if size <= 3 else (0, 1, 1000)
    bits = run(_reduces, size, str(tmp_path / "store"), counts)
    assert all(one == bits[0] for one in bits)


def _open_files() -> set[str]:
    return {f"{file.name} {file.readlink()}" for file in Path("/proc/self/fd").iterdir() if file.is_symlink()}


def _moves(rank: int, size: int, path: str, share_memory: bool) -> list[str]:
    before = {file for file in _open_files() if "/proc/" not in file}
    _move(rank, size, path, share_memory)
    after = {file for file in _open_files() if "/proc/" not in file}
    return [*(thread.name for thread in threading.enumerate()), *(after - before)]


def _move(rank: int, size: int, path: str, share_memory: bool) -> None:
    with _Group(rank, size, path, share_memory) as group:
        for count in SIZES:
            for root in range(size):
                array = np.full(count, rank, np.int64)
                group.broadcast(array, root, soon())
                assert (array == root).all()
                every = np.repeat(np.arange(size), count)
                slots = np.empty(size * count, np.int64) if rank == root else None
                group.gather(slots, np.full(count, rank), root, soon())
                assert slots is None or np.array_equal(slots, every)
                group.scatter(array, every if rank == root else None, root, soon())
                assert (array == rank).all()
            slots = np.empty(size * count, np.int64)
            group.all_gather(slots, np.full(count, rank), soon())
            assert np.array_equal(slots, every)
            counts = [(rank + 1) * (other + 1) * count // 12 for other in range(size)]
            output = np.empty(sum(counts), np.int64)
            own = np.concatenate([np.full(n, 10 * rank + other) for other, n in enumerate(counts)])
            group.all_to_all(output, own, counts, counts, soon())
            expected = np.concatenate([np.full(n, 10 * other + rank) for other, n in enumerate(counts)])
            assert np.array_equal(output, expected)
            group.barrier(soon())


@pytest.mark.parametrize(("size", "share_memory"), [(1, True), (2, False), (3, True), (4, False)])
def test_moves_leave_nothing_behind(size: int, share_memory: bool, tmp_path: Path) -> None:
    assert run(_moves, size, str(tmp_path / "store"), share_memory) == [["MainThread"]] * size
    assert not list(tmp_path.iterdir())


def _messages(rank: int, size: int, path: str) -> None:
    with _Group(rank, size, path) as group:
        for tag, count in enumerate(SIZES, 7):
            array = np.empty(count, np.float32)
            if rank == 0:
                sources = sorted(group.recv(array, None, tag, soon()) for _ in range(size - 1))
                assert sources == list(range(1, size))
                # Tags choose: what came first stays.
                for other in range(1, size):
                    assert group.recv(array, other, 2, soon()) == other
                    assert (array == 2).all()
                    group.recv(array, other, 1, soon())
                    assert (array == 1).all()
            else:
                group.send(np.full(count, rank, np.float32), 0, tag, soon())
                senders = [
                    threading.Thread(
                        target=group.send, args=(np.full(count, other, np.float32), 0, other, soon())
                    )
                    for other in (1, 2)
                ]
                for sender in senders:
                    sender.start()
                for sender in senders:
                    sender.join()


def test_messages_with_tags_and_from_anybody(tmp_path: Path) -> None:
    run(_messages, 3, str(tmp_path / "store"))


def _at_once(rank: int, size: int, path: str) -> None:
    """Threads with a group each, and messages meanwhile, in orders that differ between the ranks."""
    with _Group(rank, size, path) as world:
        mesh_groups = _subgroups(world, rank, size)
        failures: list[BaseException] = []

        def collectives(seed: int, group: GlooTransport, members: list[int]) -> None:
            # The same sequence on all members of a group.
            generator = np.random.default_rng(seed)
            for _ in range(20):
                count = int(generator.choice([0, 7, 5000, 60_000, 300_000]))
                kind = int(generator.integers(4))
                root = int(generator.integers(len(members)))
                array = np.full(count, float(rank))
                if kind == 0:
                    group.all_reduce(array, ReduceOp.SUM, soon(60))
                    assert (array == sum(members)).all()
                elif kind == 1:
                    group.broadcast(array, root, soon(60))
                    assert (array == members[root]).all()
                elif kind == 2:
                    output = np.empty(count * len(members))
                    group.all_gather(output, array, soon(60))
                    assert np.array_equal(output, np.repeat(np.array(members, float), count))
                else:
                    group.barrier(soon(60))

        def messages(peer: int) -> None:
            generator = np.random.default_rng(rank + peer)
            for index in range(24):
                count = int(generator.choice([1, 1000, 100_000]))
                array = np.full(count, index, np.int32)
                if (rank < peer) == (index % 2 == 0):
                    world.send(array, peer, 9, soon(60))
                else:
                    array[:] = -1
                    world.recv(array, peer, 9, soon(60))
                    assert (array == index).all()

        def guarded(body: Any, *arguments: Any) -> None:
            try:
                body(*arguments)
            except BaseException as error:
                failures.append(error)

        threads = [
            threading.Thread(
                target=guarded, args=(collectives, 10 * len(members) + members[0], group, members)
            )
            for group, members in mesh_groups
        ]
        threads += [
            threading.Thread(target=guarded, args=(messages, peer)) for peer in range(size) if peer != rank
        ]
        if rank:
            threads.reverse()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        world.barrier(soon())


def _subgroups(world: GlooTransport, rank: int, size: int) -> list[tuple[GlooTransport, list[int]]]:
    connections = world._calls.channel._connections
    everybody = list(range(size))
    # Ranks of a group are in the order that was given.
    names = {
        "reversed": everybody[::-1],
        "all": everybody,
        "without the first": everybody[1:],
        "ends": [size - 1, 0],
    }
    return [
        (GlooTransport(connections, name, members), members)
        for name, members in names.items()
        if rank in members
    ]


def test_groups_and_messages_do_not_disturb_each_other(tmp_path: Path) -> None:
    run(_at_once, 3, str(tmp_path / "store"))
