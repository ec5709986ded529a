"""When reductions begin, in which order, and what becomes of the gradients; ranks are threads here."""

from __future__ import annotations

import gc
import sys
import threading
import warnings
import weakref
from typing import TYPE_CHECKING, Any

import pytest

import nn
import tensor
from parallel.ddp.reducer import Reducer

if TYPE_CHECKING:
    from collections.abc import Callable

    from parallel.ddp.buckets import GradBucket


class Threads:
    """Operations between ranks that are threads of one process: the n-th of one goes with the n-th of the others."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.lock = threading.Condition()
        self.given: dict[int, dict[int, tensor.Tensor]] = {}
        self.done: set[tuple[int, int]] = set()


class Collectives:
    def __init__(self, threads: Threads, rank: int) -> None:
        self.threads, self.rank, self.size = threads, rank, threads.size
        #: What was begun, by number of elements.
        self.begun: list[Any] = []

    def all_reduce(self, x: tensor.Tensor) -> Any:
        self.begun.append(x.numel())
        return Work(self, len(self.begun) - 1, x, sum)

    def broadcast(self, x: tensor.Tensor) -> Any:
        self.begun.append("order")
        return Work(self, len(self.begun) - 1, x, lambda values: values[0])


class Work:
    def __init__(self, mine: Collectives, number: int, x: tensor.Tensor, combine: Any) -> None:
        self.mine, self.number, self.x, self.combine = mine, number, x, combine
        shared = mine.threads
        with shared.lock:
            shared.given.setdefault(number, {})[mine.rank] = x.detach().clone()
            shared.lock.notify_all()

    def wait(self) -> None:
        shared = self.mine.threads
        with shared.lock:
            arrived = shared.lock.wait_for(lambda: len(shared.given[self.number]) == shared.size, 20)
            assert arrived, f"operation {self.number} was not begun by all ranks"
            values = [shared.given[self.number][rank] for rank in range(shared.size)]
        assert len({each.numel() for each in values}) == 1
        self.x.copy_(self.combine(values))


def on_ranks(function: Callable[[Collectives], Any], size: int = 2) -> list[Any]:
    """What ``function`` returns on each rank."""
    threads = Threads(size)
    results: list[Any] = [None] * size

    def work(rank: int) -> None:
        try:
            results[rank] = function(Collectives(threads, rank))
        except BaseException as error:
            results[rank] = error

    workers = [threading.Thread(target=work, args=(rank,)) for rank in range(size)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


class Chain(nn.Module):
    """Layers one after another; ``left_out`` says which are not run."""

    def __init__(self, count: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2, 2, bias=False) for _ in range(count))
        for number, layer in enumerate(self.layers):
            nn.init.constant_(layer.weight, 1 + number)
        self.left_out: tuple[int, ...] = ()

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        for number, layer in enumerate(self.layers):
            if number not in self.left_out:
                x = layer(x)
        return x


def reducer_of(model: nn.Module, collectives: Any, limits: Any = (1,), **options: Any) -> Reducer:
    names, parameters = zip(*model.named_parameters(), strict=True)
    return Reducer(parameters, names, collectives, limits, **options)


def gradients(model: nn.Module) -> list[Any]:
    return [None if each.grad is None else each.grad.tolist() for each in model.parameters()]


def step(model: nn.Module, reducer: Reducer, x: tensor.Tensor) -> None:
    reducer.check_finished()
    reducer.rebuild()
    out = model(x)
    reducer.prepare(out)
    out.sum().backward()


def batch(rank: int) -> tensor.Tensor:
    return tensor.tensor([[1.0, 2.0], [3.0, rank]])


def expected(size: int, **options: Any) -> list[Any]:
    """Gradients of the mean of all ranks' losses."""
    model = Chain(**options)
    (sum(model(batch(rank)).sum() for rank in range(size)) / size).backward()
    return gradients(model)


@pytest.mark.parametrize("as_view", [False, True])
@pytest.mark.parametrize("limits", [(1,), (1000,), (16, 32)])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_gradients_are_averaged(as_view: bool, limits: tuple[int, ...], size: int) -> None:
    def rank(collectives: Collectives) -> list[Any]:
        model = Chain()
        reducer = reducer_of(model, collectives, limits, gradient_as_bucket_view=as_view)
        actual = []
        for _ in range(3):
            model.zero_grad()
            step(model, reducer, batch(collectives.rank))
            actual.append(gradients(model))
        assert reducer.rebuilt
        return actual

    needed = expected(size)
    for result in on_ranks(rank, size):
        assert result == [needed] * 3


@pytest.mark.parametrize("as_view", [False, True])
def test_gradients_that_are_kept_are_added_to(as_view: bool) -> None:
    def rank(collectives: Collectives) -> list[Any]:
        model = Chain()
        reducer = reducer_of(model, collectives, gradient_as_bucket_view=as_view)
        step(model, reducer, batch(collectives.rank))
        for parameter in model.parameters():
            parameter.grad.zero_()
        step(model, reducer, batch(collectives.rank))
        first = gradients(model)
        # Without zeroing: the gradients of all ranks are the same, so that their mean changes nothing.
        step(model, reducer, batch(collectives.rank))
        return [first, gradients(model)]

    needed = expected(2)
    doubled = [[[2 * x for x in row] for row in each] for each in needed]
    for result in on_ranks(rank):
        assert result == [needed, doubled]


def test_reductions_begin_while_the_pass_runs_and_in_the_same_order() -> None:
    """Each as soon as its gradients are there, but none before its turn."""

    def rank(collectives: Collectives) -> list[Any]:
        model = Chain()
        reducer = reducer_of(model, collectives)
        events: list[Any] = collectives.begun
        for number, layer in enumerate(model.layers):
            layer.register_full_backward_hook(lambda *_, number=number: events.append(f"after {number}"))
        step(model, reducer, batch(collectives.rank).requires_grad_())
        return list(events)

    for events in on_ranks(rank):
        # Weight gradients are there when the layer's backward hook runs.
        positions = [index for index, each in enumerate(events) if each == 4]
        assert len(positions) == 3
        assert positions[0] < events.index("after 1")
        assert positions[1] < events.index("after 0")


def test_a_bucket_waits_for_its_turn() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Parameter(tensor.ones(1))
            self.b = nn.Parameter(tensor.ones(2))

    def rank(collectives: Collectives) -> list[Any]:
        model = Two()
        reducer = reducer_of(model, collectives)
        seen = []
        # Bucket 0 is that of b; the ranks find gradients in different orders.
        first, second = (model.a, model.b) if collectives.rank else (model.b, model.a)
        for each in (first, second):
            each.register_post_accumulate_grad_hook(lambda _: seen.append(list(collectives.begun)))
        # The gradient of what is used last is ready first.
        out = (first * 1).sum() + (second * 1).sum()
        reducer.prepare(out)
        out.backward()
        return seen

    assert on_ranks(rank) == [[[], [2, 1]], [[2], [2, 1]]]


def test_buckets_are_rebuilt_in_the_order_of_rank_0() -> None:
    class Crossed(nn.Module):
        """Layers are not used in the order in which they were made."""

        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(2, 2, bias=False) for _ in range(4))

        def forward(self, x: tensor.Tensor) -> tensor.Tensor:
            for number in (2, 0, 3, 1):
                x = self.layers[number](x)
            return x

    def rank(collectives: Collectives) -> Any:
        model = Crossed()
        reducer = reducer_of(model, collectives)
        assert [bucket.numbers for bucket in reducer.buckets] == [[3], [2], [1], [0]]
        step(model, reducer, batch(0))
        assert not reducer.rebuilt
        step(model, reducer, batch(0))
        return [bucket.numbers for bucket in reducer.buckets], collectives.begun

    for numbers, begun in on_ranks(rank):
        assert numbers == [[1], [3], [0], [2]]
        assert begun == [4] * 4 + ["order"] + [4] * 4


def test_a_parameter_without_gradient_is_an_error_at_the_next_forward() -> None:
    def rank(collectives: Collectives) -> str:
        model = Chain()
        model.left_out = (1,)
        reducer = reducer_of(model, collectives)
        step(model, reducer, batch(0))
        # It waits for nobody: the reduction of the last layer has begun, no other has.
        assert collectives.begun == [4]
        with pytest.raises(RuntimeError, match="Expected to have finished reduction in the prior") as caught:
            step(model, reducer, batch(0))
        return str(caught.value)

    for number, text in enumerate(on_ranks(rank)):
        assert "find_unused_parameters=True" in text
        assert text.endswith(f"for rank {number}: layers.1.weight (number 1)")


@pytest.mark.parametrize("as_view", [False, True])
def test_unused_parameters_are_found(as_view: bool) -> None:
    """Zeros count for a rank that does not use a parameter; where no rank does, its gradient stays."""

    def rank(collectives: Collectives) -> list[Any]:
        model = Chain(4)
        model.left_out = (0, 2) if collectives.rank else (2,)
        reducer = reducer_of(model, collectives, find_unused_parameters=True, gradient_as_bucket_view=as_view)
        step(model, reducer, batch(1))
        first = gradients(model)
        model.layers[2].weight.grad = tensor.full((2, 2), 7.0 + collectives.rank)
        for number in (0, 1, 3):
            model.layers[number].weight.grad = None
        step(model, reducer, batch(1))
        return [first, gradients(model), collectives.begun]

    one, other = Chain(4), Chain(4)
    one.left_out, other.left_out = (2,), (0, 2)
    ((one(batch(1)).sum() + 0) / 2).backward()
    (other(batch(1)).sum() / 2).backward()
    expected = [
        None if a is None and b is None else [[x + y for x, y in zip(r, s, strict=True)] for r, s in zip(
            a or [[0, 0], [0, 0]], b or [[0, 0], [0, 0]], strict=True)]
        for a, b in zip(gradients(one), gradients(other), strict=True)
    ]  # fmt: skip
    for number, (first, second, begun) in enumerate(on_ranks(rank)):
        assert first == expected
        assert first[2] is None
        wanted_later = list(expected)
        wanted_later[2] = [[7.0 + number] * 2] * 2
        assert second == wanted_later
        # Four buckets, and which parameters are used.
        assert begun == [4, 4, 4, 4, 4] * 2


def test_a_function_that_gives_no_gradient() -> None:
    class Nothing(tensor.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: tensor.Tensor, weight: tensor.Tensor) -> tensor.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: tensor.Tensor) -> Any:
            return gradient * 2, None

    def rank(collectives: Collectives) -> list[Any]:
        model = Chain()
        reducer = reducer_of(model, collectives)
        for _ in range(2):
            model.zero_grad()
            reducer.rebuild()
            out = model.layers[2](Nothing.apply(model.layers[0](batch(0)), model.layers[1].weight))
            reducer.prepare(out)
            out.sum().backward()
        return gradients(model)

    for result in on_ranks(rank):
        assert result[1] == [[0, 0], [0, 0]]
        assert result[2] != [[0, 0], [0, 0]]


def test_passes_without_reduction_add_up() -> None:
    def rank(collectives: Collectives) -> list[Any]:
        model = Chain()
        reducer = reducer_of(model, collectives)
        reducer.skip()
        model(batch(collectives.rank)).sum().backward()
        assert collectives.begun == []
        local = gradients(model)
        step(model, reducer, batch(collectives.rank))
        return [local, gradients(model)]

    results = on_ranks(rank)
    doubled = [[[2 * x for x in row] for row in each] for each in expected(2)]
    assert results[0][0] != results[1][0]
    assert [result for _, result in results] == [doubled, doubled]


def test_several_forward_passes_and_one_backward() -> None:
    def rank(collectives: Collectives) -> list[Any]:
        model = Chain()
        reducer = reducer_of(model, collectives)
        outs = []
        for _ in range(2):
            outs.append(model(batch(collectives.rank)))
            reducer.prepare(outs[-1])
        (outs[0] + outs[1]).sum().backward()
        return gradients(model)

    doubled = [[[2 * x for x in row] for row in each] for each in expected(2)]
    assert on_ranks(rank) == [doubled, doubled]


def test_a_forward_pass_without_reduction_takes_none_from_another() -> None:
    """As in PyTorch: what one forward pass has promised is kept by the next backward."""

    def rank(collectives: Collectives) -> list[Any]:
        model = Chain()
        reducer = reducer_of(model, collectives)
        one = model(batch(collectives.rank))
        reducer.prepare(one)
        other = model(batch(collectives.rank))
        reducer.skip()
        (one + other).sum().backward()
        return gradients(model)

    doubled = [[[2 * x for x in row] for row in each] for each in expected(2)]
    assert on_ranks(rank) == [doubled, doubled]


def test_a_second_backward_is_not_reduced_and_says_so() -> None:
    def rank(collectives: Collectives) -> int:
        model = Chain()
        reducer = reducer_of(model, collectives)
        out = model(batch(collectives.rank)).sum()
        reducer.prepare(out)
        out.backward(retain_graph=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            out.backward()
        assert collectives.begun == [4, 4, 4]
        # It points at the call above.
        assert {each.filename for each in caught if "not averaged" in str(each.message)} == {__file__}
        return sum("not averaged between the ranks" in str(each.message) for each in caught)

    # Threads share what catches warnings.
    assert on_ranks(rank, 1) == [1]


def test_a_parameter_that_is_ready_twice() -> None:
    def rank(collectives: Collectives) -> None:
        model = Chain()
        reducer = reducer_of(model, collectives)
        out = tensor.utils.checkpoint.checkpoint(
            model, tensor.utils.checkpoint.checkpoint(model, batch(0).requires_grad_(), use_reentrant=True), use_reentrant=True
        )  # fmt: skip
        reducer.prepare(out)
        with pytest.raises(RuntimeError, match="mark a variable ready only once") as caught:
            out.sum().backward()
        assert "with name layers.2.weight has been marked as ready twice" in str(caught.value)

    on_ranks(rank, 1)


@pytest.mark.parametrize("as_view", [False, True])
def test_a_static_graph(as_view: bool) -> None:
    """Parameters that get several gradients in inner passes, and parameters that get none."""

    def rank(collectives: Collectives) -> list[Any]:
        model = Chain(4)
        model.left_out = (2,)
        reducer = reducer_of(model, collectives, static_graph=True, gradient_as_bucket_view=as_view)
        actual = []
        for _ in range(3):
            model.zero_grad()
            reducer.check_finished()
            reducer.rebuild()
            x = batch(collectives.rank).requires_grad_()
            for _ in range(2):
                x = tensor.utils.checkpoint.checkpoint(model, x, use_reentrant=True)
            reducer.prepare(x)
            x.sum().backward()
            actual.append(gradients(model))
        assert reducer.rebuilt
        assert [bucket.numbers for bucket in reducer.buckets] == [[2], [3], [1], [0]]
        return [actual, collectives.begun]

    model = Chain(4)
    model.left_out = (2,)
    (sum(model(model(batch(rank))).sum() for rank in range(2)) / 2).backward()
    expected = gradients(model)
    for result, begun in on_ranks(rank):
        assert result == [expected] * 3
        assert result[0][2] is None
        # Which parameters are used is asked once.
        assert begun == [4] * 4 + [4] + ["order"] + [4] * 8


class Done:
    def __init__(self, value: Any) -> None:
        self.value = value

    def wait(self) -> Any:
        return self.value


def test_a_communication_hook_takes_over() -> None:
    def rank(collectives: Collectives) -> Any:
        model = Chain()
        reducer = reducer_of(model, collectives, (20,))
        calls = []

        def hook(state: Any, bucket: GradBucket) -> Any:
            calls.append(
                (state, bucket.index(), bucket.is_last(), [each.tolist() for each in bucket.gradients()])
            )
            return Done([bucket.buffer() * 3]) if bucket.index() else Done(bucket.buffer().mul_(3))

        reducer.hook = ("state", hook)
        step(model, reducer, batch(0))
        return calls, gradients(model)

    needed = expected(1)
    ((calls, result),) = on_ranks(rank, 1)
    assert [call[:3] for call in calls] == [("state", 0, False), ("state", 1, True)]
    assert calls[0][3] == [needed[2], needed[1]]
    assert result == [[[3 * x for x in row] for row in each] for each in needed]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "returned NoneType: expected a Future"),
        (Done(3), "gave int"),
        (Done(tensor.zeros(3)), r"shape \[3\]"),
    ],
)
def test_results_of_hooks_are_checked(result: Any, message: str) -> None:
    def rank(collectives: Collectives) -> None:
        model = Chain()
        reducer = reducer_of(model, collectives)
        reducer.hook = (None, lambda state, bucket: result)
        with pytest.raises(TypeError, match=message):
            step(model, reducer, batch(0))

    on_ranks(rank, 1)


def test_a_rank_without_inputs_takes_part() -> None:
    def rank(collectives: Collectives) -> list[Any]:
        model = Chain()
        reducer = reducer_of(model, collectives)
        for turn in range(2):
            model.zero_grad()
            if collectives.rank and turn:
                reducer.rebuild()
                reducer.shadow()
            else:
                step(model, reducer, batch(0))
        return gradients(model)

    half = [[[x / 2 for x in row] for row in each] for each in expected(1)]
    assert on_ranks(rank)[0] == half


def test_a_reducer_goes_with_its_owner() -> None:
    model = Chain()
    reducer = reducer_of(model, Collectives(Threads(1), 0))
    gone = weakref.ref(reducer)
    gc.disable()
    try:
        del reducer
        assert gone() is None
    finally:
        gc.enable()
    assert all(not each._autograd.post_hooks for each in model.parameters())


def test_a_hook_costs_little() -> None:
    """Of each parameter but a bucket's last: three calls of Python functions."""
    parameters = [tensor.ones(1, requires_grad=True) for _ in range(50)]
    reducer = Reducer(parameters, [str(n) for n in range(50)], Collectives(Threads(1), 0), (1 << 30,))
    reducer.prepare(None)
    reducer.running = True
    hooks = [next(iter(each._autograd.post_hooks.values())) for each in parameters]
    calls: list[str] = []

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        for hook, parameter in zip(hooks[:-1], parameters, strict=False):
            hook(parameter)
    finally:
        sys.setprofile(None)
    assert len(calls) == 3 * 49
    # No pass runs that could end it.
    reducer.running = False
