"""Different numbers of batches on the ranks."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
import nn
import parallel
import tensor
from parallel import DistributedDataParallel, Join, Joinable, JoinHook
from tests.parallel.jobs import joined
from tests.parallel.processes import run

if TYPE_CHECKING:
    from pathlib import Path


class Net(nn.Module):
    """Two layers, and a buffer that counts."""

    def __init__(self) -> None:
        super().__init__()
        tensor.manual_seed(0)
        self.first, self.unused, self.last = nn.Linear(3, 4), nn.Linear(2, 2), nn.Linear(4, 2)
        self.register_buffer("seen", tensor.zeros(1))
        self.with_unused = False

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        self.seen += 1
        x = self.last(tensor.tanh(self.first(x)))
        return self.unused(x) if self.with_unused else x


def batches(rank: int, count: int) -> list[tensor.Tensor]:
    numbers = np.random.default_rng(rank)
    return [tensor.tensor(numbers.standard_normal((4, 3), dtype=np.float32)) for _ in range(count)]


COUNTS = (2, 5, 3)


def _train(
    rank: int, size: int, store: str, by_all: bool, device: str, options: dict[str, Any], accumulates: bool
) -> Any:
    if device == "cuda":
        drv.simulator.install(check="race", schedule="random")
    with joined(rank, size, store):
        module = Net().to(device)
        module.with_unused = not options.get("find_unused_parameters") and not options.get("static_graph")
        model = DistributedDataParallel(module, **options)
        optimizer = nn.optim.SGD(model.parameters(), lr=0.1)
        with model.join(divide_by_initial_world_size=by_all):
            for number, x in enumerate(batches(rank, COUNTS[rank])):
                if accumulates and number == 0:
                    with model.no_sync():
                        model(x.to(device)).sum().backward()
                    continue
                model(x.to(device)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        result = [each.detach().cpu().numpy() for each in module.parameters()]
        # Afterwards everything is as it was.
        model(batches(9, 1)[0].to(device)).sum().backward()
        after = [each.grad.cpu().numpy() for each in module.parameters() if each.grad is not None]
    findings = [str(each) for each in drv.simulator.findings()] if device == "cuda" else []
    return result, float(module.seen), after, findings


def expected(by_all: bool, with_unused: bool, accumulates: bool, size: int) -> list[Any]:
    model = Net()
    model.with_unused = with_unused
    optimizer = nn.optim.SGD(model.parameters(), lr=0.1)
    argument = [batches(rank, COUNTS[rank]) for rank in range(size)]
    for turn in range(max(COUNTS[:size])):
        active = [each[turn] for each in argument if turn < len(each)]
        (sum(model(x).sum() for x in active) / (size if by_all else len(active))).backward()
        if not (accumulates and turn == 0):
            optimizer.step()
            optimizer.zero_grad()
    return [each.detach().numpy() for each in model.parameters()]


@pytest.mark.simulator_only
@pytest.mark.parametrize(
    ("size", "by_all", "device", "options", "accumulates"),
    [
        (3, True, "cpu", {"bucket_cap_mb": 1e-5}, False),
        (3, False, "cpu", {"gradient_as_bucket_view": True}, True),
        (3, False, "cpu", {"find_unused_parameters": True, "bucket_cap_mb": 1e-5}, False),
        (2, True, "cpu", {"static_graph": True}, False),
        (2, False, "cuda", {}, False),
    ],
)
def test_training_with_uneven_inputs(
    size: int, by_all: bool, device: str, options: dict[str, Any], accumulates: bool, tmp_path: Path
) -> None:
    results = run(_train, size, str(tmp_path / "store"), by_all, device, options, accumulates)
    with_unused = not options.get("find_unused_parameters") and not options.get("static_graph")
    needed = expected(by_all, with_unused, accumulates, size)
    tolerance = 1e-5 if device == "cpu" else 2e-2
    for result, seen, after, findings in results:
        assert findings == []
        # The buffers of the last rank that had inputs.
        assert seen == COUNTS[1] + 1
        for one, other in zip(result, results[0][0], strict=True):
            np.testing.assert_array_equal(one, other)
        for one, other in zip(result, needed, strict=True):
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
        for one, other in zip(after, results[0][2], strict=True):
            np.testing.assert_array_equal(one, other)


class Counter(Joinable):
    """Sums ones over ranks in each iteration."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0.0
        self.ended: bool | None = None

    def count(self) -> None:
        Join.notify_join_context(self)
        one = tensor.ones(1)
        parallel.all_reduce(one)
        self.total += one.item()

    def join_hook(self, **kwargs: Any) -> JoinHook:
        return CounterHook(self, **kwargs)

    @property
    def join_device(self) -> tensor.device:
        return tensor.device("cpu")

    @property
    def join_process_group(self) -> Any:
        return GROUP[0]


GROUP: list[Any] = []


class CounterHook(JoinHook):
    def __init__(self, counter: Counter, zero: float = 0.0) -> None:
        self.counter, self.zero = counter, zero

    def main_hook(self) -> None:
        parallel.all_reduce(tensor.full((1,), self.zero))

    def post_hook(self, is_last_joiner: bool) -> None:
        self.counter.ended = is_last_joiner


def _own_joinables(rank: int, size: int, store: str) -> Any:
    with joined(rank, size, store):
        from parallel.groups.process_groups import checked_group

        GROUP[:] = [checked_group(None)]
        counters = [Counter(), Counter()]
        with Join(counters, zero=100.0):
            for _ in range(1 + rank):
                for each in counters:
                    each.count()
        result = [(each.total, each.ended) for each in counters]

        # Not enabled.
        counter = Counter()
        with Join([counter], enable=False):
            counter.count()
        assert (counter.total, counter.ended) == (size, None)

        # Errors inside go out at once.
        with pytest.raises(ZeroDivisionError), Join([Counter()]):
            raise ZeroDivisionError

        # All ranks raise when one is done.
        texts = []
        with pytest.raises(RuntimeError) as caught, Join([counter], throw_on_early_termination=True):
            for _ in range(1 + rank):
                counter.count()
        texts.append(str(caught.value))
        with pytest.raises(ValueError, match="at least one joinable"):
            Join([])

        class Elsewhere(Counter):
            @property
            def join_device(self) -> tensor.device:
                return tensor.device("cuda", 0)

        with pytest.raises(ValueError, match="multiple devices"):
            Join([Counter(), Elsewhere()])

        class NotSetUp(Counter):
            def __init__(self) -> None:
                self.total = 0

        with pytest.raises(AssertionError, match="calls the ``Joinable`` constructor"):
            NotSetUp().count()
    return result, texts


def test_joinables_of_ones_own(tmp_path: Path) -> None:
    one, other = run(_own_joinables, 2, str(tmp_path / "store"))
    assert one[0] == [(2.0, False)] * 2
    assert other[0] == [(103.0, True)] * 2
    assert one[1] == ["Rank 0 exhausted all inputs."]
    assert other[1] == ["Detected at least one rank that exhausted inputs. Throwing across all ranks."]


def _skewed(rank: int, size: int, store: str) -> list[str]:
    with joined(rank, size, store):
        from parallel.ddp import joining
        from parallel.groups.process_groups import checked_group

        GROUP[:] = [checked_group(None)]
        joining._MANY_ITERATIONS = 2
        counter = Counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with Join([counter]):
                for _ in range(1 + 2 * rank):
                    counter.count()
    return [str(each.message) for each in caught]


def test_much_fewer_inputs_are_worth_a_warning(tmp_path: Path) -> None:
    one, other = run(_skewed, 2, str(tmp_path / "store"))
    assert "uneven input skew of greater than 2. This means that rank 0" in one[0]
    assert other == []
