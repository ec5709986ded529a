"""DataLoader in one process: PyTorch's arguments, errors, order and batches."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import drv
import tensor
from tensor.utils import data
from tests.tensor.comparison import assert_same_outcome, outcome


class Counting:
    """Samples one after another; made an iterable dataset of either library."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Any:
        return iter(range(self.count))


def iterable(d: Any, count: int) -> Any:
    return type("Iterable", (Counting, d.IterableDataset), {})(count)


def plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value.tolist() if hasattr(value, "tolist") else value


def equal(found: Any, expected: Any) -> None:
    assert plain(found) == plain(expected)


def theirs() -> Any:
    pytest.importorskip("torch")
    from torch.utils import data as module

    return module


PAIRS = [(number, float(number), "text") for number in range(5)]

CASES = {
    "one by one": lambda d: list(d.DataLoader(range(3))),
    "batches": lambda d: list(d.DataLoader(PAIRS, 2)),
    "full batches": lambda d: list(d.DataLoader(PAIRS, 2, drop_last=True)),
    "unbatched": lambda d: list(d.DataLoader(PAIRS, None)),
    "sampler": lambda d: list(d.DataLoader(PAIRS, 2, sampler=[4, 0, 1])),
    "batch sampler": lambda d: list(d.DataLoader(PAIRS, batch_sampler=[[4, 0], [1]])),
    "sampler unbatched": lambda d: list(d.DataLoader(PAIRS, None, sampler=[4, 0])),
    "collate": lambda d: list(d.DataLoader(PAIRS, 2, collate_fn=len)),
    "together": lambda d: list(d.DataLoader(d.Subset(range(5), [4, 3, 2]), 2)),
    "iterable": lambda d: list(d.DataLoader(iterable(d, 5), 2)),
    "iterable full": lambda d: list(d.DataLoader(iterable(d, 5), 2, drop_last=True)),
    "iterable exact": lambda d: list(d.DataLoader(iterable(d, 4), 2)),
    "iterable unbatched": lambda d: list(d.DataLoader(iterable(d, 3), None)),
    "lengths": lambda d: [
        len(d.DataLoader(PAIRS if result else iterable(d, 5), size, drop_last=bool(drop)))
        for result in (0, 1)
        for size, drop in ((1, 0), (2, 0), (2, 1), (None, 0))
    ],
    "attributes": lambda d: [
        (loader.batch_size, loader.drop_last, loader.num_workers, loader.timeout, loader.prefetch_factor)
        for loader in (d.DataLoader(PAIRS), d.DataLoader(PAIRS, batch_sampler=[]), d.DataLoader(PAIRS, None))
    ],
    "outside": lambda d: list(d.DataLoader(PAIRS, sampler=[9])),
    "negative workers": lambda d: d.DataLoader(PAIRS, num_workers=-1),
    "negative timeout": lambda d: d.DataLoader(PAIRS, timeout=-1),
    "prefetch": lambda d: d.DataLoader(PAIRS, prefetch_factor=2),
    "negative prefetch": lambda d: d.DataLoader(PAIRS, num_workers=1, prefetch_factor=-1),
    "persistent": lambda d: d.DataLoader(PAIRS, persistent_workers=True),
    "shuffle and sampler": lambda d: d.DataLoader(PAIRS, shuffle=True, sampler=[0]),
    "batch sampler and size": lambda d: d.DataLoader(PAIRS, 2, batch_sampler=[[0]]),
    "batch sampler and shuffle": lambda d: d.DataLoader(PAIRS, shuffle=True, batch_sampler=[[0]]),
    "batch sampler and drop": lambda d: d.DataLoader(PAIRS, drop_last=True, batch_sampler=[[0]]),
    "unbatched and drop": lambda d: d.DataLoader(PAIRS, None, drop_last=True),
    "batch size": lambda d: d.DataLoader(PAIRS, 0),
    "iterable shuffle": lambda d: d.DataLoader(iterable(d, 3), shuffle=True),
    "iterable unshuffled": lambda d: len(d.DataLoader(iterable(d, 3), shuffle=False)),
    "iterable sampler": lambda d: d.DataLoader(iterable(d, 3), sampler=[0]),
    "iterable batch sampler": lambda d: d.DataLoader(iterable(d, 3), batch_sampler=[[0]]),
    "shuffle nothing": lambda d: d.DataLoader([], shuffle=True),
    "nothing": lambda d: list(d.DataLoader([])),
    "context": lambda d: d.DataLoader(PAIRS, multiprocessing_context="spawn"),
    "wrong context": lambda d: d.DataLoader(PAIRS, num_workers=1, multiprocessing_context="thread"),
    "no context": lambda d: d.DataLoader(PAIRS, num_workers=1, multiprocessing_context=3),
    "set later": lambda d: setattr(d.DataLoader(PAIRS), "batch_size", 3),
    "dataset later": lambda d: setattr(d.DataLoader(PAIRS), "dataset", []),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", CASES)
def test_like_pytorch(name: str) -> None:
    case = CASES[name]
    assert_same_outcome(outcome(case, data), outcome(case, theirs()), equal)


def test_shuffling() -> None:
    def order(loader: Any) -> list[int]:
        return [int(number) for batch in loader for number in batch]

    def loader(seed: int) -> Any:
        return data.DataLoader(range(30), 4, shuffle=True, generator=tensor.Generator().manual_seed(seed))

    one, same = loader(1), loader(1)
    orders = [order(one), order(one)]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(30))
    assert orders[0] != orders[1]
    assert orders == [order(same), order(same)]
    assert orders[0] != order(loader(2))


def test_more_than_the_length_warns() -> None:
    dataset = iterable(data, 3)
    loader = data.DataLoader(dataset, 1)
    assert len(loader) == 3
    dataset.count = 5
    dataset.__class__.__len__ = lambda self: 3
    with pytest.warns(UserWarning, match="reported to be 3"):
        assert len(list(loader)) == 5


def test_samples_are_read_when_asked_for() -> None:
    read: list[int] = []

    class Noting(data.Dataset[int]):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> int:
            read.append(index)
            return index

    batches = iter(data.DataLoader(Noting(), 2))
    assert read == []
    next(batches)
    assert read == [0, 1]


def test_pinning_without_a_device_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor.cuda, "is_available", lambda: False)
    with pytest.warns(UserWarning, match="no accelerator"):
        (batch,) = data.DataLoader(range(2), 2, pin_memory=True)
    assert not batch.is_pinned()


class Failing(data.Dataset[Any]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        if index == 2:
            raise KeyError("no sample 2")
        return tensor.full((2,), index), threading.current_thread() is threading.main_thread()


def test_pinned_batches(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--gpu"):
        drv.simulator.install(check="race")
    # An iterator that another test has not finished may still have its thread.
    before = set(threading.enumerate())
    batches = list(data.DataLoader(Failing(), 1, sampler=[0, 1, 3, 0], pin_memory=True))
    assert [x[0, 0].item() for x, _ in batches] == [0, 1, 3, 0]
    assert all(x.is_pinned() and bool(in_main.all()) for x, in_main in batches)
    moved = batches[2][0].to("cuda", non_blocking=True)
    assert moved.tolist() == [[3, 3]]
    assert not [each for each in set(threading.enumerate()) - before if each.name.startswith("pin_memory")]


def test_an_error_comes_in_its_turn_with_pinning(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--gpu"):
        drv.simulator.install(check="race")
    batches = iter(data.DataLoader(Failing(), 1, pin_memory=True))
    assert [next(batches)[0][0, 0].item() for _ in range(2)] == [0, 1]
    with pytest.raises(KeyError, match="no sample 2"):
        next(batches)
    assert next(batches)[0][0, 0].item() == 3
    with pytest.raises(StopIteration):
        next(batches)
