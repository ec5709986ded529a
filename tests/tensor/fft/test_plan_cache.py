"""cuFFT's plans: which are kept, on which device, when they are destroyed, and that nobody shares a work area."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drv
import tensor
from tensor.core.devices.state import cuda_state
from tensor.fft.plan_cache import plan_cache

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
    actual = plan_cache(cuda_state(0))
    model: OrderedDict[int, None] = OrderedDict()
    limit, output = 4096, 0
    for what, number in steps:
        if what == "run":
            result = _transform(number)
            np.testing.assert_allclose(result.cpu().numpy(), np.fft.fft(np.arange(number)), atol=1e-5)
            if number in model:
                model.move_to_end(number)
            else:
                output += 1
                model[number] = None
        elif what == "limit":
            cache.max_size = limit = number
        else:
            cache.clear()
            model.clear()
        while len(model) > limit:
            model.popitem(last=False)
        assert [key.sizes[0] for key in actual._plans] == list(model)
        assert actual.created == output
        assert actual.created - actual.destroyed - len(actual._retired) == len(model)
    tensor.cuda.synchronize()
    cache.clear()
    assert actual.destroyed == actual.created


class _Workers:
    """Threads with streams of their own, each of which does one step at a time when it is told to."""

    def __init__(self, count: int) -> None:
        self.pools = [ThreadPoolExecutor(1) for _ in range(count)]
        self.streams = [
            pool.submit(lambda: [tensor.cuda.Stream(each) for each in range(2)]).result()
            for pool in self.pools
        ]

    def do(self, thread: int, device: int, work: Any) -> Any:
        def step() -> Any:
            with tensor.cuda.stream(self.streams[thread][device]):
                return work()

        return self.pools[thread].submit(step)

    def close(self) -> None:
        for pool in self.pools:
            pool.shutdown()


_STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 1),
        st.one_of(
            st.tuples(st.just("run"), st.integers(1, 5)),
            st.tuples(st.just("limit"), st.integers(0, 3)),
            st.tuples(st.just("clear"), st.just(0)),
        ),
    ),
    max_size=25,
)


@settings(max_examples=12, deadline=None)
@given(_STEPS, st.sampled_from(["eager", "lazy", "random"]))
def test_several_threads_see_one_cache_for_each_device(steps: Any, schedule: str) -> None:
    """Threads take turns, so that the model knows what must be there after each step."""
    _start_over(devices=2, check="race", schedule=schedule, seed=1)
    workers = _Workers(3)
    caches = [plan_cache(cuda_state(each)) for each in range(2)]
    models: list[OrderedDict[int, None]] = [OrderedDict(), OrderedDict()]
    limits, output = [4096, 4096], [0, 0]
    try:
        for thread, device, (what, number) in steps:
            model = models[device]
            if what == "run":
                result = workers.do(
                    thread, device, lambda n=number, d=device: _transform(n, d).cpu()
                ).result()
                np.testing.assert_allclose(result.numpy(), np.fft.fft(np.arange(number)), atol=1e-5)
                output[device] += number not in model
                model[number] = None
                model.move_to_end(number)
            elif what == "limit":
                limits[device] = number
                workers.do(
                    thread, device, lambda n=number, d=device: setattr(cache[d], "max_size", n)
                ).result()
            else:
                workers.do(thread, device, lambda d=device: cache[d].clear()).result()
                model.clear()
            while len(model) > limits[device]:
                model.popitem(last=False)
            for actual, expected, count in zip(caches, models, output, strict=True):
                assert [key.sizes[0] for key in actual._plans] == list(expected)
                assert actual.created == count
                assert actual.created - actual.destroyed - len(actual._retired) == len(expected)
        for device in range(2):
            tensor.cuda.synchronize(device)
            cache[device].clear()
            assert caches[device].destroyed == caches[device].created
    finally:
        workers.close()


@settings(max_examples=6, deadline=None)
@given(_STEPS, st.sampled_from(["eager", "lazy", "random"]), st.integers(0, 3))
def test_several_threads_at_once(steps: Any, schedule: str, limit: int) -> None:
    """Nothing is known of the order: what must hold in any, and every transform is right."""
    _start_over(devices=2, check="race", schedule=schedule, seed=2)
    workers = _Workers(3)
    caches = [plan_cache(cuda_state(each)) for each in range(2)]
    for actual in caches:
        actual.limit = limit
    try:
        waiting, runs = [], [0, 0]
        for thread, device, (what, number) in steps:
            if what == "run":
                runs[device] += 1
                waiting.append(
                    (number, workers.do(thread, device, lambda n=number, d=device: _transform(n, d).cpu()))
                )
            elif what == "clear":
                waiting.append((None, workers.do(thread, device, lambda d=device: cache[d].clear())))
        for number, future in waiting:
            result = future.result(60)
            if number is not None:
                np.testing.assert_allclose(result.numpy(), np.fft.fft(np.arange(number)), atol=1e-5)
        for device, actual in enumerate(caches):
            assert len(actual) <= limit
            assert actual.created <= runs[device]
            assert actual.created - actual.destroyed == len(actual) + len(actual._retired)
            assert not any(plan.users for plan in actual._plans.values())
            tensor.cuda.synchronize(device)
            cache[device].clear()
            assert actual.destroyed == actual.created
        assert not drv.simulator.findings()
    finally:
        workers.close()


def test_a_plan_that_runs_is_destroyed_later() -> None:
    _start_over(schedule="lazy")
    actual = plan_cache(cuda_state(0))
    result = _transform(16)
    cache.clear()
    # The transform waits in the queue, so its plan must live.
    assert (cache.size, actual.created, actual.destroyed) == (0, 1, 0)
    np.testing.assert_allclose(result.cpu().numpy(), np.fft.fft(np.arange(16)), atol=1e-5)
    tensor.cuda.synchronize()
    cache.clear()
    assert actual.destroyed == 1


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
                    result = tensor.fft.ifft(tensor.fft.fft(x)).real
                    np.testing.assert_allclose(result.cpu().numpy(), array, atol=1e-12)
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
    x = tensor.ones(64, device="cuda", dtype=tensor.complex128)
    result = tensor.fft.fft(x)
    (plan,) = plan_cache(cuda_state(0))._plans.values()
    assert plan.work_bytes == 1024
    before = tensor.cuda.memory_allocated()
    tensor.cuda.reset_peak_memory_stats()
    again = tensor.fft.fft(x)
    assert tensor.cuda.memory_allocated() == before + again.nbytes
    assert tensor.cuda.max_memory_allocated() == before + again.nbytes + plan.work_bytes
    # The plan stays, and keeps nothing.
    del x, result, again
    tensor.cuda.synchronize()
    assert tensor.cuda.memory_allocated() == 0
    tensor.cuda.empty_cache()
    assert tensor.cuda.memory_reserved() == 0
    assert cache.size == 1
    _transform(64)


def test_a_shared_work_area_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the rule is for: two streams that get one work area."""
    x = tensor.ones(64, device="cuda", dtype=tensor.complex64)
    tensor.fft.fft(x)
    device = cuda_state(0)
    (plan,) = plan_cache(device)._plans.values()
    block = device.allocate(plan.work_bytes, 0)
    side = tensor.cuda.Stream()
    tensor.cuda.synchronize()

    def transforms() -> Any:
        with drv.simulator.findings().collecting() as findings:
            tensor.fft.fft(x)
            with tensor.cuda.stream(side):
                tensor.fft.fft(x)
            tensor.cuda.synchronize()
        return findings

    assert not transforms()
    output = device.allocate
    with monkeypatch.context() as patch:
        patch.setattr(
            device,
            "allocate",
            lambda size, stream: block if size == plan.work_bytes else output(size, stream),
        )
        patch.setattr(device, "free", lambda _: None)
        result = transforms()
    assert any("C2C 64" in str(finding) for finding in result)


def test_reset_drops_plans() -> None:
    _transform(8)
    _start_over()
    assert cache.size == 0
    assert _transform(8).shape == (8,)


#: Inputs, the transform, and what the plan is made for: kind, sizes, embedding, step and distance of both sides.
LAYOUTS: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "rows": (lambda x: x, lambda x: tensor.fft.fft(x), ("c2c", (5,), ((5,), 1, 5), ((5,), 1, 5))),
    "every other row": (
        lambda x: x[::2],
        lambda x: tensor.fft.fft(x),
        ("c2c", (5,), ((5,), 1, 10), ((5,), 1, 5)),
    ),
    "every other element": (
        lambda x: x[:, ::2],
        lambda x: tensor.fft.fft(x),
        ("c2c", (3,), ((3,), 2, 5), ((3,), 1, 3)),
    ),
    "columns": (lambda x: x, lambda x: tensor.fft.fft(x, dim=0), ("c2c", (6,), ((6,), 5, 1), ((6,), 1, 6))),
    "part of a matrix": (
        lambda x: x[1:5, 1:4],
        lambda x: tensor.fft.fft2(x),
        ("c2c", (4, 3), ((4, 5), 1, 1), ((4, 3), 1, 1)),
    ),
    "part of real matrices": (
        lambda x: tensor.cat((x.real, x.real)).reshape(2, 6, 5)[:, 1:5, :4],
        lambda x: tensor.fft.rfft2(x),
        ("r2c", (4, 4), ((4, 5), 1, 30), ((4, 3), 1, 12)),
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_strides_that_cufft_can_walk_need_no_copy(name: str) -> None:
    prepare, transform, expected = LAYOUTS[name]
    array = np.random.default_rng(0).standard_normal((6, 5, 2)).view(np.complex128)[..., 0]
    x = prepare(tensor.from_numpy(array).cuda())
    transform(x)
    (key,) = plan_cache(cuda_state(0))._plans
    assert (key.transform_type, key.sizes, tuple(key.input), tuple(key.output)) == expected
    (plan,) = plan_cache(cuda_state(0))._plans.values()
    tensor.cuda.reset_peak_memory_stats()
    before = tensor.cuda.memory_allocated()
    result = transform(x)
    room = -(-result.nbytes // 512) * 512 + -(-plan.work_bytes // 512) * 512
    assert tensor.cuda.max_memory_allocated() - before <= room
    np.testing.assert_allclose(result.cpu().numpy(), transform(x.cpu()).numpy(), atol=1e-12)


@pytest.mark.parametrize(
    ("transform", "kinds"),
    [
        (lambda x: tensor.fft.fftn(x, dim=(1, 2, 3)), ["c2c 456"]),
        (lambda x: tensor.fft.fftn(x), ["c2c 456", "c2c 3"]),
        (lambda x: tensor.fft.rfft2(x.real), ["r2c 56"]),
        (lambda x: tensor.fft.rfftn(x.real), ["r2c 456", "c2c 3"]),
        (lambda x: tensor.fft.irfft2(x, s=(5, 10)), ["c2r 510"]),
        (lambda x: tensor.fft.irfftn(x), ["c2c 3", "c2r 4510"]),
    ],
)
def test_up_to_three_dimensions_are_one_plan(transform: Any, kinds: list[str]) -> None:
    array = np.random.default_rng(0).standard_normal((3, 4, 5, 6, 2)).view(np.complex128)[..., 0]
    x = tensor.from_numpy(array)
    result = transform(x.cuda())
    keys = plan_cache(cuda_state(0))._plans
    assert [f"{key.transform_type} {''.join(map(str, key.sizes))}" for key in keys] == kinds
    np.testing.assert_allclose(result.cpu().numpy(), transform(x).numpy(), atol=1e-12)


def test_the_input_of_a_transform_to_real_stays(place: str = "cuda") -> None:
    x = tensor.ones(2, 4, 5, device=place, dtype=tensor.complex64)
    for transform in (tensor.fft.irfft, tensor.fft.irfft2, tensor.fft.irfftn, tensor.fft.hfft2):
        transform(x)
        assert tensor.equal(x, tensor.ones_like(x))
