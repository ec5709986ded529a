"""cuFFT's plans: which are kept, on which device, when they are destroyed, and that nobody shares a work area."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drv
import tensor
from tensor.fft.plan_cache import plan_cache
from tensor.places import cuda_place

if TYPE_CHECKING:
    from collections.abc import Iterator


def _start_over(**options: Any) -> None:
    drv.reset()
    drv.simulator.install(**options)


cache = tensor.backends.cuda.cufft_plan_cache


@pytest.fixture(autouse=True)
def _devices() -> Iterator[None]:
    drv.simulator.install(devices=2, check="race")
    yield
    drv.reset()


def _transform(size: int, device: int = 0) -> Any:
    return tensor.fft.fft(tensor.arange(float(size), device=device))


def test_as_documented() -> None:
    assert cache.max_size == 4096
    assert cache.size == 0
    _transform(8)
    _transform(8)
    assert cache.size == 1
    tensor.fft.ifft(tensor.ones(8, device="cuda"))
    assert cache.size == 1, "the direction is not part of the key"
    _transform(9)
    tensor.fft.rfft(tensor.ones(8, device="cuda"))
    assert cache.size == 3
    cache.max_size = 1
    assert cache.size == 1
    cache.clear()
    assert cache.size == 0
    cache.max_size = 0
    assert _transform(8).abs().sum().item() > 0
    assert cache.size == 0


def test_devices_have_caches_of_their_own() -> None:
    _transform(8, 1)
    assert (cache[0].size, cache[1].size, cache.size) == (0, 1, 0)
    with tensor.cuda.device(1):
        assert cache.size == 1
    cache[tensor.device("cuda:1")].max_size = 7
    assert (cache[1].max_size, cache[0].max_size) == (7, 4096)
    cache["cuda:1"].clear()
    assert cache[1].size == 0


@pytest.mark.parametrize("device", [2, -1, "cuda:5"])
def test_devices_that_do_not_exist(device: Any) -> None:
    with pytest.raises(RuntimeError, match="device index|expected 0 <= device index < 2"):
        _ = cache[device].size


def test_wrong_settings() -> None:
    with pytest.raises(RuntimeError, match="expected a CUDA device"):
        _ = cache["cpu"]
    with pytest.raises(RuntimeError, match="non-negative number of plans as max_size, but got -1"):
        cache.max_size = -1
    with pytest.raises(TypeError, match="must be an integer"):
        cache.max_size = "many"
    with pytest.raises(RuntimeError, match="read-only"):
        cache.size = 3
    with pytest.raises(AttributeError, match="no attribute 'limit'"):
        cache.limit = 3
    assert cache.max_size == 4096


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("run"), st.integers(1, 6)),
            st.tuples(st.just("limit"), st.integers(0, 4)),
            st.tuples(st.just("clear"), st.just(0)),
        ),
        max_size=30,
    )
)
def test_it_is_a_least_recently_used_cache(steps: list[tuple[str, int]]) -> None:
    _start_over()
    found = plan_cache(cuda_place(0))
    model: OrderedDict[int, None] = OrderedDict()
    limit, made = 4096, 0
    for what, number in steps:
        if what == "run":
            result = _transform(number)
            np.testing.assert_allclose(result.cpu().numpy(), np.fft.fft(np.arange(number)), atol=1e-5)
            if number in model:
                model.move_to_end(number)
            else:
                made += 1
                model[number] = None
        elif what == "limit":
            cache.max_size = limit = number
        else:
            cache.clear()
            model.clear()
        while len(model) > limit:
            model.popitem(last=False)
        assert [key.sizes[0] for key in found._plans] == list(model)
        assert found.created == made
        assert found.created - found.destroyed - len(found._retired) == len(model)
    tensor.cuda.synchronize()
    cache.clear()
    assert found.destroyed == found.created


def test_a_plan_that_runs_is_destroyed_later() -> None:
    _start_over(schedule="lazy")
    found = plan_cache(cuda_place(0))
    result = _transform(16)
    cache.clear()
    # The transform waits in the queue, so its plan must live.
    assert (cache.size, found.created, found.destroyed) == (0, 1, 0)
    np.testing.assert_allclose(result.cpu().numpy(), np.fft.fft(np.arange(16)), atol=1e-5)
    tensor.cuda.synchronize()
    cache.clear()
    assert found.destroyed == 1


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_threads_and_streams_share_it(schedule: str) -> None:
    _start_over(schedule=schedule, check="race", seed=3)
    cache.max_size = 3
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            rng = np.random.default_rng(seed)
            stream = tensor.cuda.Stream()
            with tensor.cuda.stream(stream):
                for step in range(12):
                    size = int(rng.integers(2, 8)) * 16
                    array = rng.standard_normal((3, size))
                    x = tensor.from_numpy(array).cuda()
                    found = tensor.fft.ifft(tensor.fft.fft(x)).real
                    np.testing.assert_allclose(found.cpu().numpy(), array, atol=1e-12)
                    if step % 5 == seed % 5:
                        cache.clear()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert not any(thread.is_alive() for thread in threads)
    assert cache.size <= 3
    assert not drv.simulator.findings()


def test_work_areas_are_counted_and_given_back() -> None:
    _transform(64)
    allocated = tensor.cuda.memory_allocated()
    x = tensor.ones(64, device="cuda", dtype=tensor.complex64)
    before = tensor.cuda.memory_allocated()
    tensor.cuda.reset_peak_memory_stats()
    result = tensor.fft.fft(x)
    assert tensor.cuda.memory_allocated() == before + 512
    del x, result
    assert tensor.cuda.memory_allocated() <= allocated
    tensor.cuda.empty_cache()
    assert tensor.cuda.memory_reserved() == 0 or tensor.cuda.memory_allocated() > 0


def test_reset_drops_plans() -> None:
    _transform(8)
    _start_over()
    assert cache.size == 0
    assert _transform(8).shape == (8,)


def test_strides_that_cufft_can_walk_need_no_copy() -> None:
    x = tensor.ones(6, 5, device="cuda", dtype=tensor.complex64)
    tensor.fft.fft(x.t(), dim=0)
    tensor.cuda.reset_peak_memory_stats()
    before = tensor.cuda.memory_allocated()
    result = tensor.fft.fft(x, dim=0)
    assert tensor.cuda.max_memory_allocated() - before <= 1024
    np.testing.assert_allclose(result.cpu().numpy(), np.fft.fft(np.ones((6, 5)), axis=0), atol=1e-6)
