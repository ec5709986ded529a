"""``copy_``, ``clone`` and ``contiguous``: between all dtypes, any layouts and all devices, against PyTorch and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import drv
import tensor
from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import Category
from tensor import cuda
from tests.tensor.comparison import (
    array_of,
    assert_same,
    assert_same_elements,
    assert_same_outcome,
    outcome,
    torch_dtype,
)

QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]

# Between dtypes

_FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 3.999, -3.999, 100.7, -100.7, 255.0, 1e-3, 6e-8, -6e-8,
    1e-40, 1e-45, 65504.0, 65519.9, 65520.0, 1e5, -1e5, 2049.0, 2051.0, 16777217.0, 1 + 2**-8, 1 + 3 * 2**-8,
    1 + 2**-11, 1 + 2**-24 + 2**-50, 2.0**31, -(2.0**31), 1e10, -1e10, 3.4e38, 3.5e38, 1e39, -1e300,
    float("inf"), -float("inf"), float("nan"),
]  # fmt: skip
_INTEGERS = [
    0, 1, -1, 2, -2, 77, 127, 128, -128, -129, 200, 255, 256, -255, 2049, 2051, 32767, 32768, -32769, 65503, 65520,
    65535, 65536, 2**24 + 1, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, -(2**63),
]  # fmt: skip


def _samples(kind: dtypes.dtype) -> Any:
    """Elements of a type that are hard to convert."""
    if kind is dtypes.bool_:
        return np.array([False, True, True])
    with np.errstate(all="ignore"):
        if kind.category is Category.INTEGER:
            return np.array(_INTEGERS, np.int64).astype(kind.numpy)
        if kind.is_complex:
            values = np.array(_FLOATS)
            result = np.empty(2 * len(values), kind.numpy)
            result.real = np.concatenate([values, values])
            result.imag = np.concatenate([np.zeros_like(values), values[::-1]])
            return result
        return np.array(_FLOATS).astype(kind.numpy)


def _is_defined(array: Any, to: dtypes.dtype) -> Any:
    """Where PyTorch's conversions from floating point are not undefined: what fits into so many bits of an integer."""
    real = array.real.astype(np.float64) if array.dtype.kind not in "biu" else None
    if real is None or to.category is not Category.INTEGER:
        return np.ones(array.shape, bool)
    # Narrow integers are reached through wider ones, in which what does not fit wraps.
    bits = 63 if to.name in {"int64", "uint8"} else 31
    return np.isfinite(real) & (np.abs(np.trunc(real)) < 2.0**bits)


@pytest.mark.parity
@pytest.mark.parametrize("origin", dtypes.EVERY, ids=str)
@pytest.mark.parametrize("to", dtypes.EVERY, ids=str)
@pytest.mark.filterwarnings("ignore:Casting complex values to real", "error::RuntimeWarning")
@pytest.mark.sampled(3)
def test_between_dtypes(device_name: str, to: dtypes.dtype, origin: dtypes.dtype) -> None:
    torch = pytest.importorskip("torch")
    array = _samples(origin)
    array = array[_is_defined(array, to)]
    source = tensor.from_numpy(array)
    other = torch.from_numpy(np.ascontiguousarray(array).view(np.uint8)).view(torch_dtype(origin))
    expected = torch.empty(len(array), dtype=torch_dtype(to)).copy_(other)
    result = tensor.empty(len(array), dtype=to, device=device_name)
    assert result.copy_(source.to(device_name)) is result
    assert_same(result, expected)
    # From and to the host the type changes on the way.
    assert_same(tensor.empty(len(array), dtype=to, device=device_name).copy_(source), expected)
    assert_same(tensor.empty(len(array), dtype=to).copy_(source.to(device_name)), expected)


# Between layouts

KINDS = ["bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64"]
SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, 4]), max_size=4).map(tuple)


@st.composite
def _placed(draw: Any, shape: tuple[int, ...], *, may_stretch: bool) -> tuple[Any, ...]:
    """Steps, gaps and order of dimensions in memory, and which are stretched."""
    order = draw(st.permutations(range(len(shape))))
    gaps = tuple(draw(st.sampled_from([0, 0, 0, 1, 2])) for _ in shape)
    steps = tuple(draw(st.sampled_from([1, 1, 1, 2, 3])) for _ in shape)
    stretched = tuple(may_stretch and draw(st.integers(0, 5)) == 0 for _ in shape)
    return order, gaps, steps, stretched, draw(st.sampled_from([0, 0, 1, 3]))


def _strided(shape: tuple[int, ...], placed: tuple[Any, ...]) -> tuple[int, tuple[int, ...], int]:
    """Elements of memory, strides and offset."""
    order, gaps, steps, stretched, offset = placed
    strides, span = [0] * len(shape), 1
    for dim in order:
        if not stretched[dim]:
            strides[dim] = span * steps[dim]
            span = strides[dim] * max(shape[dim], 1) + gaps[dim]
    return span + offset, tuple(strides), offset


@pytest.mark.parity
@settings(max_examples=100, suppress_health_check=QUIET)
@given(
    shape=SHAPES,
    to=st.sampled_from(KINDS),
    origin=st.sampled_from(KINDS),
    way=st.sampled_from(["here", "there and here", "here and there"]),
    data=st.data(),
)
@pytest.mark.filterwarnings("ignore:Casting complex values to real", "error::RuntimeWarning")
def test_between_layouts(
    device_name: str, shape: tuple[int, ...], to: str, origin: str, way: str, data: st.DataObject
) -> None:
    torch = pytest.importorskip("torch")
    # A dimension of size 1 of the source, or one that it has not, is stretched by copy_ itself.
    inner = tuple(data.draw(st.sampled_from([size, size, 1])) for size in shape)
    inner = inner[data.draw(st.sampled_from([0, 0, 0, 1])) if inner[:1] in {(1,), ()} else 0 :]
    mine: list[Any] = []
    theirs: list[Any] = []
    for name, sizes in (to, shape), (origin, inner):
        count, strides, offset = _strided(
            sizes, data.draw(_placed(sizes, may_stretch=bool(mine)), label="strides")
        )
        on_host = bool(mine) == (way == "there and here") and way != "here"
        memory = tensor.arange(count).to(getattr(tensor, name)).to("cpu" if on_host else device_name)
        mine.append(memory.as_strided(sizes, strides, offset))
        theirs.append(torch.arange(count).to(getattr(torch, name)).as_strided(sizes, strides, offset))
    result, expected = outcome(mine[0].copy_, mine[1]), outcome(theirs[0].copy_, theirs[1])
    assert_same_outcome(result, expected, lambda *_: None)
    whole = [
        each.as_strided((each.untyped_storage().nbytes() // each.element_size(),), (1,), 0)
        for each in (mine[0], theirs[0])
    ]
    assert_same_elements(array_of(whole[0]), array_of(whole[1]))
    assert mine[0]._version == 1


@pytest.mark.parity
@settings(max_examples=60, suppress_health_check=QUIET)
@given(shape=SHAPES, kind=st.sampled_from(KINDS), data=st.data())
def test_copies_that_keep_the_strides(
    device_name: str, shape: tuple[int, ...], kind: str, data: st.DataObject
) -> None:
    torch = pytest.importorskip("torch")
    count, strides, offset = _strided(shape, data.draw(_placed(shape, may_stretch=True)))
    mine = (
        tensor.arange(count, device=device_name).to(getattr(tensor, kind)).as_strided(shape, strides, offset)
    )
    theirs = torch.arange(count).to(getattr(torch, kind)).as_strided(shape, strides, offset)
    for name, options in [
        ("clone", {}),
        ("clone", {"memory_format": "contiguous_format"}),
        ("clone", {"memory_format": "preserve_format"}),
        ("clone", {"memory_format": "channels_last"}),
        ("contiguous", {}),
        ("contiguous", {"memory_format": "channels_last"}),
        ("to", {"dtype": "float64"}),
        ("to", {"memory_format": "contiguous_format"}),
    ]:
        both = [{key: getattr(module, value) for key, value in options.items()} for module in (tensor, torch)]
        result, expected = outcome(getattr(mine, name), **both[0]), outcome(getattr(theirs, name), **both[1])
        if assert_same_outcome(result, expected):
            assert (result is mine) == (expected is theirs)
            assert (result.untyped_storage() is mine.untyped_storage()) == (result is mine)
    for form in ("contiguous_format", "channels_last", "channels_last_3d"):
        expected = theirs.is_contiguous(memory_format=getattr(torch, form))
        assert mine.is_contiguous(memory_format=getattr(tensor, form)) == expected


# What overlaps


@pytest.mark.parity
@pytest.mark.parametrize(
    ("target", "source"),
    [
        (lambda x: x.expand(3, 2), lambda x: x.new_zeros(3, 2)),
        (lambda x: x[:1].expand(2), lambda x: x),
        (lambda x: x[1:], lambda x: x[:-1]),
        (lambda x: x[:-1], lambda x: x[1:]),
    ],
)
def test_writes_whose_result_depends_on_the_order_are_refused(
    device_name: str, target: Any, source: Any
) -> None:
    torch = pytest.importorskip("torch")
    mine, theirs = tensor.arange(2, device=device_name), torch.arange(2)
    result = outcome(lambda: target(mine).copy_(source(mine)))
    assert_same_outcome(result, outcome(lambda: target(theirs).copy_(source(theirs))), lambda *_: None)
    if not isinstance(result, Exception):
        # Two single elements do not overlap.
        assert len(target(mine).shape) == 1
        return
    assert "unsupported operation" in str(result)
    assert "clone()" in str(result)
    assert (mine.tolist(), mine._version) == ([0, 1], 0)


def test_onto_itself(device_name: str) -> None:
    x = tensor.arange(6, device=device_name).view(2, 3)
    x.copy_(x)
    x.t().copy_(x.t())
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    square = tensor.arange(4, device=device_name).view(2, 2)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        square.copy_(square.t())
    square.fill_(square[1, 0])
    assert square.tolist() == [[2, 2], [2, 2]]


@pytest.mark.parity
@pytest.mark.parametrize(
    ("source", "message"),
    [
        (lambda m: m.zeros(3), r"output with shape \[2\] doesn't match the broadcast shape|must match"),
        (lambda m: m.zeros(2, 2), r"output with shape \[2\] doesn't match .* \[2, 2\]"),
        (lambda m: m.zeros(0), "must match|broadcast"),
        (lambda _: "1", "must be Tensor, not str"),
        (lambda _: None, "must be Tensor, not NoneType"),
        (lambda _: np.zeros(2), "must be Tensor, not"),
        (lambda _: [1, 2], "must be Tensor, not list"),
    ],
)
def test_errors(device_name: str, source: Any, message: str) -> None:
    torch = pytest.importorskip("torch")
    x = tensor.ones(2, device=device_name)
    result = outcome(lambda: x.copy_(source(tensor)))
    assert_same_outcome(result, outcome(lambda: torch.ones(2).copy_(source(torch))), lambda *_: None)
    with pytest.raises(type(result), match=message):
        raise result
    assert (x.tolist(), x._version) == ([1, 1], 0)


@pytest.mark.parity
def test_numbers(device_name: str) -> None:
    torch = pytest.importorskip("torch")
    for number in (3, 2.7, True, 300, 1 + 0j):
        for dtype in ("uint8", "float32", "complex64", "bool"):
            mine = tensor.zeros(2, dtype=getattr(tensor, dtype), device=device_name).copy_(number)
            assert_same(mine, torch.zeros(2, dtype=getattr(torch, dtype)).copy_(number))


# Between devices

SCHEDULES = [
    {"schedule": "eager"},
    {"schedule": "lazy"},
    *({"schedule": "random", "seed": seed} for seed in range(3)),
]


@pytest.fixture(params=SCHEDULES, ids=str)
def schedule(request: pytest.FixtureRequest) -> dict[str, Any]:
    """When the simulated driver does what was queued; races are found in any case."""
    return {"devices": 2, "check": "race", **request.param}


@pytest.mark.simulator_only
@pytest.mark.parametrize("peers", ["all", "none"])
@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.sampled(4)
def test_between_two_devices(schedule: dict[str, Any], peers: str, kind: str) -> None:
    """With and without peer access, with another dtype or layout on either side, and on streams of either device."""
    drv.simulator.install(peers=peers, **schedule)
    expected = np.arange(12).reshape(3, 4)
    for turn, (to_stream, from_stream) in enumerate([(None, None), (0, 1), (None, 1), (0, None)]):
        first = None if from_stream is None else cuda.Stream(0)
        second = None if to_stream is None else cuda.Stream(1)
        with cuda.stream(first), cuda.stream(second), cuda.device(turn % 2):
            source = tensor.arange(12, dtype=tensor.float32, device="cuda:0").add(turn)
            values = expected + turn
            for view, there in [
                (lambda x: x, lambda: tensor.empty(3, 4, device="cuda:1")),
                (lambda x: x.T, lambda: tensor.empty(4, 3, device="cuda:1")),
                (lambda x: x[:, ::2], lambda: tensor.empty(2, 3, device="cuda:1").t()),
                (lambda x: x[1], lambda: tensor.empty(3, 4, device="cuda:1")),
                (lambda x: x, lambda: tensor.empty(3, 9, device="cuda:1")[:, 1::2]),
            ]:
                target = there().to(getattr(tensor, kind))
                target.copy_(view(source.view(3, 4)), non_blocking=bool(turn % 2))
                # What the source is afterwards does not matter to the copy.
                source.add_(100).sub_(100)
                assert target.device == tensor.device("cuda:1")
                assert (array_of(target) == view(values)).all()
            back = target.to("cuda:0")
            source.zero_()
            assert (array_of(back) == expected + turn).all()


@pytest.mark.simulator_only
@pytest.mark.parametrize("pinned", [False, True])
def test_to_a_device_and_back(schedule: dict[str, Any], pinned: bool) -> None:
    """Copies that block let the host use its memory at once, whatever kind of memory it is."""
    drv.simulator.install(**schedule)
    with cuda.stream(cuda.Stream()):
        for number in range(3):
            host = tensor.empty(4, 6, pin_memory=pinned)
            for part in (host, host.t(), host[:, 1], host[::2, ::3], host.to(tensor.int16)):
                part.fill_(number)
                there = tensor.empty(part.shape, device="cuda").copy_(part)
                part.fill_(-1)
                part.copy_(there.mul_(2))
                assert (part.numpy() == 2 * number).all()


@pytest.mark.simulator_only
def test_without_blocking_from_pageable_memory(schedule: dict[str, Any]) -> None:
    drv.simulator.install(**schedule)
    host = tensor.ones(5)
    there = host.to("cuda", non_blocking=True)
    host.zero_()
    back = there.to("cpu", non_blocking=True)
    assert back.is_pinned()
    cuda.synchronize()
    assert back.tolist() == [1] * 5


@pytest.mark.simulator_only
def test_without_blocking_from_pinned_memory(schedule: dict[str, Any]) -> None:
    """Events, streams and devices that were waited for make the host's access safe."""
    drv.simulator.install(**schedule)
    host, result = tensor.ones(5).pin_memory(), tensor.empty(5).pin_memory()
    side = cuda.Stream()
    with cuda.stream(side):
        there = tensor.empty(5, device="cuda").copy_(host, non_blocking=True)
    copied = side.record_event()
    cuda.current_stream().wait_stream(side)
    result.copy_(there.add(1), non_blocking=True)
    copied.synchronize()
    host.zero_()
    cuda.current_stream().synchronize()
    assert result.tolist() == [2] * 5
    # Memory that is freed early is not handed out again before the copy is done.
    for _ in range(4):
        result.copy_(tensor.full((5,), 3.0).pin_memory().to("cuda", non_blocking=True), non_blocking=True)
        other = tensor.empty(5).pin_memory()
        other.fill_(-1)
    cuda.synchronize()
    assert result.tolist() == [3] * 5


@pytest.mark.simulator_only
@pytest.mark.parametrize("access", ["read", "write", "source"])
def test_the_host_that_does_not_wait_is_found(access: str) -> None:
    drv.simulator.install(schedule="lazy", check="race")
    host = tensor.ones(5).pin_memory()
    there = tensor.zeros(5, device="cuda")
    cuda.synchronize()
    with pytest.raises(drv.DataRaceError):
        if access == "source":
            there.copy_(host, non_blocking=True)
            host.zero_()
        else:
            host.copy_(there, non_blocking=True)
            host.tolist() if access == "read" else host.zero_()
        cuda.synchronize()


@pytest.mark.simulator_only
@pytest.mark.parametrize("devices", [(0, 0), (0, 1)], ids=str)
def test_a_missing_wait_between_streams_is_found(devices: tuple[int, int]) -> None:
    drv.simulator.install(devices=2, schedule="lazy", check="race")
    source = tensor.zeros(5, device=devices[0])
    target = tensor.zeros(5, device=devices[1])
    cuda.synchronize(0)
    cuda.synchronize(1)
    with cuda.stream(cuda.Stream(devices[0])):
        source.fill_(1)
    with pytest.raises(drv.DataRaceError):
        target.copy_(source)
        cuda.synchronize(0)
        cuda.synchronize(1)


@pytest.mark.simulator_only
def test_no_copy_is_done_where_nothing_changes() -> None:
    drv.simulator.install(devices=2)
    x = tensor.ones(2, 3, device="cuda:1")
    before = cuda.memory_allocated(1)
    for same in (
        x.cuda(1),
        x.to("cuda:1"),
        x.to(x),
        x.to(1),
        x.float(),
        x.contiguous(),
        x.to(tensor.float32),
        x.type_as(x),
    ):
        assert same is x
    with cuda.device(1):
        assert x.cuda() is x
        assert x.to("cuda") is x
    host = x.cpu()
    assert host.cpu() is host
    assert host.to("cpu") is host
    assert x.cuda().device == tensor.device("cuda:0")
    assert cuda.memory_allocated(1) == before
    assert x.to("cuda:1", copy=True) is not x


@pytest.mark.simulator_only
def test_a_missing_device_changes_nothing() -> None:
    drv.simulator.install(devices=2)
    x = tensor.ones(3)
    for move in (
        lambda: x.cuda(2),
        lambda: x.to("cuda:2"),
        lambda: x.cuda("cpu"),
        lambda: x.to("gpu"),
        lambda: x.cuda(-1),
    ):
        with pytest.raises(RuntimeError):
            move()
    assert cuda.memory_allocated() == 0
    assert x.tolist() == [1] * 3
