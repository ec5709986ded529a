"""Where the tensors of a compiled function lie that only it sees."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given, strategies

import drv
import nn
import tensor
from drv.allocators import DriverMemory
from tensor.compilation.memory_plan import ALIGNMENT, Lifetime, arrange, plan

_STEPS = 40


@strategies.composite
def _lifetimes(draw: Any) -> list[Lifetime]:
    result = []
    for buffer in range(draw(strategies.integers(1, 24))):
        first = draw(strategies.integers(0, _STEPS - 1))
        last = draw(strategies.integers(first, _STEPS - 1))
        result.append(Lifetime(buffer, draw(strategies.integers(1, 4 * ALIGNMENT)), first, last))
    return result


def _overlaps(a: Lifetime, b: Lifetime, offsets: dict[int, int]) -> bool:
    """Whether two buffers are there at the same time, and have bytes in common."""
    if a.last < b.first or b.last < a.first:
        return False
    begin, other = offsets[a.buffer], offsets[b.buffer]
    return begin < other + b.nbytes and other < begin + a.nbytes


@given(_lifetimes())
def test_buffers_that_are_there_at_the_same_time_lie_apart(lifetimes: list[Lifetime]) -> None:
    """Each is aligned and inside of the piece, which is no larger than all of them and no smaller than those of one step."""
    nbytes, offsets = arrange(lifetimes)
    rounded = {each.buffer: -(-each.nbytes // ALIGNMENT) * ALIGNMENT for each in lifetimes}
    assert offsets.keys() == rounded.keys()
    for position, each in enumerate(lifetimes):
        assert offsets[each.buffer] % ALIGNMENT == 0
        assert offsets[each.buffer] + each.nbytes <= nbytes
        assert not any(_overlaps(each, other, offsets) for other in lifetimes[:position])
    least = max(
        sum(rounded[each.buffer] for each in lifetimes if each.first <= step <= each.last)
        for step in range(_STEPS)
    )
    assert least <= nbytes <= sum(rounded.values())


@given(_lifetimes(), _lifetimes())
def test_each_buffer_is_in_one_piece(lifetimes: list[Lifetime], others: list[Lifetime]) -> None:
    """A plan has all of them, and those of one piece lie apart in it."""
    pieces = plan(lifetimes, others, _STEPS)
    assert sorted(buffer for piece in pieces for buffer in piece.offsets) == [
        each.buffer for each in lifetimes
    ]
    for piece in pieces:
        members = [each for each in lifetimes if each.buffer in piece.offsets]
        for position, each in enumerate(members):
            assert piece.offsets[each.buffer] + each.nbytes <= piece.nbytes
            assert not any(_overlaps(each, other, piece.offsets) for other in members[:position])


def test_a_stretch_of_one_step_needs_no_more_than_its_buffers() -> None:
    """Tensors that follow one another share the same bytes."""
    chain = [Lifetime(number, ALIGNMENT, number, number + 1) for number in range(_STEPS - 1)]
    assert arrange(chain).nbytes == 2 * ALIGNMENT


def _network() -> nn.Module:
    layers = (each for _ in range(8) for each in (nn.Linear(32, 32), nn.GELU(), nn.LayerNorm(32)))
    return nn.Sequential(*layers).cuda()


def _allocations(function: Any, *arguments: Any) -> int:
    """How often a call asks the allocator for memory."""
    before = tensor.cuda.memory_stats()["allocation.all.allocated"]
    result = function(*arguments)
    after: int = tensor.cuda.memory_stats()["allocation.all.allocated"]
    del result
    return after - before


def _loss_and_gradients(function: Any, model: nn.Module, x: tensor.Tensor) -> list[tensor.Tensor]:
    model.zero_grad()
    loss = function(x).square().mean()
    loss.backward()
    return [loss, *(parameter.grad.clone() for parameter in model.parameters())]


def test_a_program_allocates_what_it_gives_and_some_pieces(schedule: None) -> None:
    """What eager execution allocates for each operation, and frees, is in pieces; results are the same."""
    model, x = _network(), tensor.randn(16, 32, device="cuda")
    compiled = tensor.compile(model.forward)
    expected = _loss_and_gradients(model.forward, model, x)
    for _ in range(3):
        for got, want in zip(_loss_and_gradients(compiled, model, x), expected, strict=True):
            tensor.testing.assert_close(got, want)
    with tensor.no_grad():
        compiled(x)
        alone, together = _allocations(model.forward, x), _allocations(compiled, x)
    assert alone >= 24
    # The result, and what the layers' operations give.
    assert together <= 6


def test_a_training_step_allocates_gradients_and_some_pieces(schedule: None) -> None:
    """A step of several hundred tensors asks for gradients and a few pieces of memory."""
    model, x = _network(), tensor.randn(16, 32, device="cuda")
    optimizer = nn.optim.SGD(model.parameters(), lr=0.01)

    def step(x: tensor.Tensor) -> tensor.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    compiled = tensor.compile(step)
    for _ in range(3):
        compiled(x)
    parameters = len(list(model.parameters()))
    assert _allocations(compiled, x) <= parameters + 24 < _allocations(step, x)


def test_memory_goes_back_after_a_call(schedule: None) -> None:
    """No piece outlives a call."""

    @tensor.compile
    def chain(x: tensor.Tensor) -> tensor.Tensor:
        for _ in range(12):
            x = (x @ x.T).softmax(-1).sin()
        return x.sum()

    x = tensor.randn(16, 16, device="cuda")
    expected = chain(x).item()
    before = tensor.cuda.memory_allocated()
    assert chain(x).item() == pytest.approx(expected)
    assert tensor.cuda.memory_allocated() == before


def test_nothing_is_held_after_a_failure(schedule: None) -> None:
    """Whichever launch fails: the memory of the call goes back, and the next one is right."""
    model, x = _network(), tensor.randn(16, 32, device="cuda")
    compiled = tensor.compile(model.forward)
    with tensor.no_grad():
        compiled(x)
        expected = compiled(x)
        before = tensor.cuda.memory_allocated()
        for number in range(1, 8, 3):
            drv.simulator.inject().fail_launch(number, sticky=False)
            with pytest.raises(drv.CudaError):
                compiled(x)
            assert tensor.cuda.memory_allocated() == before
        tensor.testing.assert_close(compiled(x), expected)


def test_threads_have_memory_of_their_own(schedule: None) -> None:
    """The same program, run by two threads at the same time on two streams."""
    model = _network()
    compiled = tensor.compile(model.forward)
    inputs = [tensor.randn(16, 32, device="cuda") for _ in range(2)]
    with tensor.no_grad():
        expected = [model(x) for x in inputs]
        compiled(inputs[0])
        tensor.cuda.synchronize()
        results: dict[int, list[tensor.Tensor]] = {0: [], 1: []}

        def work(number: int) -> None:
            with tensor.no_grad(), tensor.cuda.stream(tensor.cuda.Stream()):
                results[number] = [compiled(inputs[number]) for _ in range(4)]
                tensor.cuda.current_stream().synchronize()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    for number, want in enumerate(expected):
        assert len(results[number]) == 4
        for got in results[number]:
            tensor.testing.assert_close(got, want)


def test_without_a_cache_each_tensor_has_memory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that allocators which look for accesses outside of tensors see each of them."""
    monkeypatch.setenv("GRAPHROOT_NO_CUDA_MEMORY_CACHING", "1")
    with drv.simulator.installed(check="full"):
        model, x = _network(), tensor.randn(16, 32, device="cuda")
        compiled = tensor.compile(model.forward)
        with tensor.no_grad():
            compiled(x)
            assert isinstance(x._layout.device_state.allocator, DriverMemory)
            tensor.testing.assert_close(compiled(x), model(x))
            assert _allocations(compiled, x) >= 8
