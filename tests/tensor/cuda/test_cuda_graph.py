"""What becomes of operations that are captured: replays, streams that join, captures that fail, threads beside them."""

from __future__ import annotations

import contextlib
import gc
import threading
from typing import TYPE_CHECKING, Any

import pytest

import drv
import tensor
from tensor import cuda
from tests.tensor.driver_calls import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

pytestmark = pytest.mark.simulator_only
SCHEDULES = [
    ("eager", 0),
    ("lazy", 0),
    ("random", 0),
    *[pytest.param(("random", seed), marks=pytest.mark.nightly) for seed in range(1, 6)],
]


@pytest.fixture(params=SCHEDULES, ids=str)
def schedules(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every schedule, with all checks; at the end nothing may have been found."""
    schedule, seed = request.param
    drv.simulator.install(schedule=schedule, seed=seed, check="full")
    yield
    cuda.synchronize()


@pytest.fixture
def lazy() -> None:
    drv.simulator.install(schedule="lazy", check="race", devices=2)


def works() -> bool:
    """Whether everything still does, captures too."""
    x = tensor.arange(4.0, device="cuda")
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = x * 2
    g.replay()
    return y.tolist() == [0, 2, 4, 6] and x.sum().item() == 6


def test_a_replay_works_on_the_memory_of_the_capture(schedules: None) -> None:
    x = tensor.zeros(3, device="cuda")
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = (x + 1) @ tensor.ones(3, 2, device="cuda")
        x += y.sum()
    assert not cuda.is_current_stream_capturing()
    for number in range(3):
        x.fill_(number)
        g.replay()
        assert y.tolist() == [3.0 * (number + 1)] * 2
        assert x.tolist() == [number + 6.0 * (number + 1)] * 3
    assert repr(g).startswith("<CUDAGraph, ")


def test_nothing_is_done_while_it_is_captured(schedules: None) -> None:
    x = tensor.zeros(3, device="cuda")
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        assert cuda.is_current_stream_capturing()
        x.fill_(7)
    assert x.tolist() == [0, 0, 0]
    g.replay()
    assert x.tolist() == [7, 7, 7]


def test_a_replay_is_one_call_of_the_driver(lazy: None) -> None:
    x = tensor.zeros(1000, device="cuda")
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        for _ in range(20):
            x = tensor.nn.functional.dropout(x * 2 + 1, 0.5, True)
    g.replay()
    with counted() as calls:
        g.replay()
        g.replay()
    assert {name: n for name, n in calls.items() if name[2].isupper()} == {"cuGraphLaunch": 2}


def test_capture_begin_and_end_without_the_context_manager(schedules: None) -> None:
    x, side = tensor.zeros(3, device="cuda"), cuda.Stream()
    side.wait_stream(cuda.current_stream())
    g = cuda.CUDAGraph()
    with cuda.stream(side):
        g.capture_begin(capture_error_mode="thread_local")
        y = x + 1
        g.capture_end()
    g.replay()
    assert y.tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="already owns a captured graph"), cuda.stream(side):
        g.capture_begin()
    g.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        g.replay()


def test_captures_that_cannot_begin_or_end(lazy: None) -> None:
    g = cuda.CUDAGraph()
    with pytest.raises(drv.CaptureError, match="non-default stream"):
        g.capture_begin()
    with pytest.raises(RuntimeError, match="without a capture_begin"):
        g.capture_end()
    side = cuda.Stream()
    with cuda.stream(side):
        with pytest.raises(ValueError, match="capture_error_mode must be one of"):
            g.capture_begin(capture_error_mode="loose")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="pool must be"):
            g.capture_begin(pool=3)  # type: ignore[arg-type]
        g.capture_begin()
        with pytest.raises(RuntimeError, match="during the capture"):
            g.reset()
        with pytest.raises(RuntimeError, match="already owns"):
            g.capture_begin()
        with cuda.stream(cuda.Stream()), pytest.raises(RuntimeError, match="same stream"):
            g.capture_end()
        with pytest.warns(UserWarning, match="is empty"):
            g.capture_end()
    g.replay()
    assert works()


def test_streams_that_fork_and_join(schedules: None) -> None:
    x = tensor.arange(4.0, device="cuda")
    side = cuda.Stream()
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        a = x * 2
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            b = a + 1
            assert cuda.is_current_stream_capturing()
        c = a * 10
        cuda.current_stream().wait_stream(side)
        b.record_stream(cuda.current_stream())
        y = b + c
    for number in range(2):
        x.fill_(number)
        g.replay()
        assert y.tolist() == [22.0 * number + 1] * 4


def test_a_stream_that_does_not_join_is_named(lazy: None) -> None:
    x, side = tensor.ones(4, device="cuda"), cuda.Stream()
    g = cuda.CUDAGraph()
    with pytest.raises(drv.CaptureError, match="UNJOINED") as caught, cuda.graph(g):
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            x + 1
    assert f"{side.cuda_stream:#x}" in str(caught.value)
    assert works()


def waits() -> None:
    cuda.synchronize()


def reads() -> None:
    tensor.ones(3, device="cuda").sum().item()


def copies_to_the_host() -> None:
    tensor.ones(3, device="cuda").cpu()


def copies_to_pageable_memory_without_waiting() -> None:
    tensor.empty(3).copy_(tensor.ones(3, device="cuda"), non_blocking=True)


def copies_from_pageable_memory() -> None:
    tensor.ones(3).cuda()


def makes_from_a_list() -> None:
    tensor.tensor([1.0, 2.0], device="cuda")


def has_a_shape_that_depends_on_data() -> None:
    tensor.ones(3, device="cuda").nonzero()


def selects_by_a_mask() -> None:
    x = tensor.ones(3, device="cuda")
    x[x > 0]


def decides() -> None:
    if tensor.ones(3, device="cuda").sum() > 2:
        pass


def works_on_the_default_stream() -> None:
    with cuda.stream(cuda.default_stream()):
        tensor.ones(3, device="cuda") + 1


def writes_on_the_default_stream() -> None:
    # Nothing is allocated, and the driver would do it now.
    with cuda.stream(cuda.default_stream()):
        pass


def makes_the_default_stream_current() -> None:
    cuda.set_stream(cuda.default_stream())


def works_on_a_stream_that_has_not_joined() -> None:
    with cuda.stream(cuda.Stream()):
        tensor.ones(3, device="cuda") + 1


def waits_for_the_default_stream() -> None:
    cuda.current_stream().wait_stream(cuda.default_stream())


def asks_an_event() -> None:
    cuda.current_stream().record_event().query()


def waits_for_an_event() -> None:
    cuda.current_stream().record_event().synchronize()


def draws_numbers_of_the_host() -> None:
    tensor.randperm(5, device="cuda")


def draws_categories() -> None:
    tensor.multinomial(tensor.ones(3, device="cuda"), 2)


@pytest.mark.parametrize(
    "call",
    [
        waits,
        reads,
        copies_to_the_host,
        copies_to_pageable_memory_without_waiting,
        copies_from_pageable_memory,
        makes_from_a_list,
        has_a_shape_that_depends_on_data,
        selects_by_a_mask,
        decides,
        works_on_the_default_stream,
        writes_on_the_default_stream,
        makes_the_default_stream_current,
        works_on_a_stream_that_has_not_joined,
        waits_for_the_default_stream,
        asks_an_event,
        waits_for_an_event,
        draws_numbers_of_the_host,
        draws_categories,
    ],
    ids=lambda call: call.__name__,
)
def test_what_cannot_be_captured_is_an_error_with_its_place(lazy: None, call: Callable[[], None]) -> None:
    assert works()
    gc.collect()
    cuda.empty_cache()
    reserved = cuda.memory_reserved()
    g = cuda.CUDAGraph()
    with pytest.raises(drv.CaptureError) as caught, cuda.graph(g):
        tensor.ones(5 << 20, device="cuda")
        call()
    lines = range(call.__code__.co_firstlineno + 1, call.__code__.co_firstlineno + 4)
    assert any(f'File "{__file__}", line {line}' in str(caught.value) for line in lines)
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        g.replay()
    del caught
    # What it had taken is there for others again, and nothing else is disturbed.
    gc.collect()
    cuda.empty_cache()
    assert cuda.memory_reserved() == reserved
    assert works()
    # The same graph object can be captured.
    x = tensor.zeros(2, device="cuda")
    with cuda.graph(g):
        y = x + 3
    g.replay()
    assert y.tolist() == [3, 3]


def test_an_error_of_the_block_is_raised_as_it_is(lazy: None) -> None:
    g = cuda.CUDAGraph()
    before = cuda.current_stream()
    with pytest.raises(ZeroDivisionError), cuda.graph(g):
        tensor.ones(3, device="cuda")
        _ = 1 // 0
    assert cuda.current_stream() == before
    assert works()


def test_a_capture_that_was_made_void_says_so_at_its_end(lazy: None) -> None:
    g = cuda.CUDAGraph()
    void = pytest.raises(drv.CaptureError, match="It is void since this call failed")
    with void as caught, cuda.graph(g), contextlib.suppress(drv.CaptureError):
        reads()
    assert "test_cuda_graph.py" in str(caught.value)
    assert works()


def beside(work: Callable[[], Any]) -> list[Any]:
    """What another thread gets, result or error."""
    results: list[Any] = []

    def run() -> None:
        try:
            with cuda.stream(cuda.Stream()):
                results.append(work())
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results


@pytest.mark.parametrize("mode", ["thread_local", "relaxed"])
def test_other_threads_go_on_beside_a_capture_of_this_thread_only(lazy: None, mode: Any) -> None:
    x = tensor.ones(4, device="cuda")
    cuda.synchronize()
    g = cuda.CUDAGraph()
    with cuda.graph(g, capture_error_mode=mode):
        y = x + 1
        assert beside(lambda: (tensor.ones(1000, 1000, device="cuda") * 2).sum().item()) == [2e6]
    g.replay()
    assert y.tolist() == [2] * 4


def test_a_global_capture_forbids_other_threads_to_wait_and_nothing_else(lazy: None) -> None:
    x = tensor.ones(4, device="cuda")
    cuda.synchronize()
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = x + 1
        # New memory, new kernels: nothing that the capture would notice.
        assert beside(lambda: (tensor.ones(3000, 1000, device="cuda") ** 3).shape) == [(3000, 1000)]
    g.replay()
    assert y.tolist() == [2] * 4
    with pytest.raises(drv.CaptureError, match="It is void since"), cuda.graph(cuda.CUDAGraph()):
        x + 1
        (error,) = beside(lambda: tensor.ones(2, device="cuda").sum().item())
        assert isinstance(error, drv.CaptureError)
    assert works()
    assert beside(lambda: tensor.ones(2, device="cuda").sum().item()) == [2]


def test_two_threads_capture_at_once(lazy: None) -> None:
    x = tensor.ones(4, device="cuda")
    cuda.synchronize()
    barrier = threading.Barrier(2)
    results: dict[int, Any] = {}

    def run(number: int) -> None:
        side, g = cuda.Stream(), cuda.CUDAGraph()
        with cuda.stream(side):
            barrier.wait()
            g.capture_begin(capture_error_mode="thread_local")
            y = x
            for _ in range(20):
                y = y + number
            barrier.wait()
            g.capture_end()
        results[number] = g, y

    threads = [threading.Thread(target=run, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, (g, y) in results.items():
        g.replay()
        assert y.tolist() == [1 + 20 * number] * 4


def test_pinned_memory_that_a_graph_copies_stays_as_long_as_it(lazy: None) -> None:
    device, out = tensor.zeros(1000, device="cuda"), tensor.empty(1000, pin_memory=True)
    source = tensor.full((1000,), 4.0).pin_memory()
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        device.copy_(source, non_blocking=True)
        out.copy_(device, non_blocking=True)
    address = source.data_ptr()
    del source
    gc.collect()
    assert tensor.empty(1000, pin_memory=True).data_ptr() != address
    g.replay()
    cuda.synchronize()
    assert out.tolist() == [4.0] * 1000


def test_writing_a_static_input_without_waiting_for_the_last_replay_is_a_race() -> None:
    for waits_for_it in (True, False):
        drv.simulator.install(schedule="lazy", check="race")
        x, side, batch = tensor.zeros(64, device="cuda"), cuda.Stream(), tensor.ones(64).pin_memory()
        g = cuda.CUDAGraph()
        with cuda.graph(g):
            y = x * 2
        g.replay()
        if waits_for_it:
            side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            x.copy_(batch, non_blocking=True)
        if waits_for_it:
            cuda.current_stream().wait_stream(side)
            g.replay()
            assert y.tolist() == [2.0] * 64
        else:
            with pytest.raises(drv.DataRaceError, match="after the launch of graph"):
                cuda.synchronize()
        drv.reset()


def test_a_graph_over_two_devices(lazy: None) -> None:
    x = tensor.arange(4.0, device="cuda:0")
    other = cuda.Stream("cuda:1")
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        doubled = x * 2
        other.wait_stream(cuda.current_stream())
        with cuda.stream(other):
            there = doubled.to("cuda:1", non_blocking=True) + 1
        cuda.current_stream("cuda:0").wait_stream(other)
    cuda.synchronize("cuda:1")
    for number in range(2):
        x.fill_(number)
        g.replay()
        cuda.synchronize("cuda:0")
        with cuda.stream(other):
            assert there.tolist() == [2 * number + 1] * 4


def test_dumps_and_handles(lazy: None, tmp_path: Any) -> None:
    x = tensor.ones(3, device="cuda")
    g = cuda.CUDAGraph(keep_graph=True)
    with pytest.raises(RuntimeError, match="capture one first"):
        g.debug_dump(tmp_path / "graph.dot")
    with pytest.raises(RuntimeError, match="capture one first"):
        g.raw_cuda_graph()
    g.enable_debug_mode()
    with cuda.graph(g):
        x + 1
    assert g.raw_cuda_graph()
    with pytest.raises(RuntimeError, match="call instantiate"):
        g.raw_cuda_graph_exec()
    g.instantiate()
    assert g.raw_cuda_graph_exec()
    g.debug_dump(tmp_path / "graph.dot")
    assert (tmp_path / "graph.dot").read_text().startswith("digraph")
    g.replay()
    plain = cuda.CUDAGraph()
    with cuda.graph(plain):
        x + 1
    with pytest.raises(RuntimeError, match="keep_graph=True"):
        plain.instantiate()


def test_transforms_and_products_of_a_graph_have_memory_of_their_own(schedules: None) -> None:
    x = tensor.randn(8, 8, device="cuda")
    cache = tensor.backends.cuda.cufft_plan_cache
    expected = tensor.fft.fft(x @ x).abs().sum(), (x + 1) @ (x + 1)
    g = cuda.CUDAGraph()
    side = cuda.Stream()
    with cuda.graph(g, stream=side):
        y = tensor.fft.fft(x @ x).abs().sum()
    # The plan stays while the graph does.
    created = tensor.fft.plan_cache.plan_cache(x._layout.device_state)
    cache.clear()
    tensor.fft.fft(x)
    cuda.synchronize()
    tensor.fft.fft(x)
    assert created.destroyed == 0
    side.wait_stream(cuda.current_stream())
    for _ in range(2):
        g.replay()
        # The stream that was captured works on other products meanwhile.
        with cuda.stream(side):
            product = (x + 1) @ (x + 1)
    cuda.synchronize()
    assert y.item() == expected[0].item()
    assert tensor.equal(product, expected[1])
    g.reset()
    cache.clear()
    assert created.destroyed >= 1


def captured_at_once(mode: Any, streams: Sequence[Any]) -> list[Any]:
    """What two threads get by whole captures of their own, on ``streams``, of which one begins, and ends, in the other one."""
    inside, done = threading.Event(), threading.Event()
    results: list[Any] = [None, None]

    def run(number: int) -> None:
        x, g = tensor.full((4,), float(number), device="cuda"), cuda.CUDAGraph()
        if number:
            inside.wait(60)
        try:
            with cuda.graph(g, stream=streams[number], capture_error_mode=mode):
                y = x + 1
                if not number:
                    inside.set()
                    done.wait(60)
                y *= 3
            g.replay()
            results[number] = y.tolist()
        except Exception as error:
            results[number] = error
        finally:
            done.set()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("schedule", ["lazy", "random"])
@pytest.mark.parametrize("mode", ["thread_local", "relaxed"])
def test_threads_enter_graphs_at_once_in_modes_that_concern_themselves(schedule: str, mode: Any) -> None:
    with drv.simulator.installed(check="full", schedule=schedule):
        assert captured_at_once(mode, [cuda.Stream(), cuda.Stream()]) == [[3.0] * 4, [6.0] * 4]
        assert not list(drv.simulator.findings())


def test_threads_that_enter_graphs_at_once_forbid_it_to_each_other_under_global(lazy: None) -> None:
    """The second one waits for the device, as each does that enters: that is an error in every thread while the first one captures."""
    cuda.init()
    first, second = captured_at_once("global", [cuda.Stream(), cuda.Stream()])
    assert isinstance(second, drv.CaptureError)
    assert "cuCtxSynchronize" in str(second), second
    assert isinstance(first, drv.CaptureError)
    assert "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" in str(first), first
    assert works()


@pytest.mark.parametrize("mode", ["thread_local", "relaxed", "global"])
def test_threads_that_capture_at_once_need_streams_of_their_own(lazy: None, mode: Any) -> None:
    """The default stream of captures is one for all threads."""
    first, second = captured_at_once(mode, [None, None])
    assert isinstance(second, drv.CaptureError)
    if mode == "global":
        assert isinstance(first, drv.CaptureError)
    else:
        assert first == [3.0] * 4
        assert "is captured already, since" in str(second), second
        assert "stream=cuda.Stream()" in str(second), second
    assert works()
