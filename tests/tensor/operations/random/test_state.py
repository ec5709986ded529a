"""States of generators as tensors."""

from __future__ import annotations

import pytest

import drv
import tensor
from tensor import cuda
from tensor.random import fork_rng


def test_the_cpus_state() -> None:
    tensor.manual_seed(3)
    tensor.rand(3)
    state = tensor.get_rng_state()
    assert state.dtype is tensor.uint8
    assert state.is_cpu
    following = [tensor.rand(3).tolist() for _ in range(2)]
    kept = state.tolist()
    tensor.set_rng_state(state)
    assert [tensor.rand(3).tolist() for _ in range(2)] == following
    assert state.tolist() == kept
    tensor.random.set_rng_state(tensor.tensor(kept, dtype=tensor.uint8))
    assert tensor.rand(3).tolist() == following[0]


def test_states_of_devices(two_devices: tuple[drv.Device, drv.Device]) -> None:
    cuda.manual_seed_all(4)
    states = cuda.get_rng_state_all()
    assert [len(state) for state in states] == [16, 16]
    first = tensor.rand(3, device="cuda:0").tolist()
    assert tensor.rand(3, device="cuda:1").tolist() == first
    later = cuda.get_rng_state("cuda:1")
    second = tensor.rand(3, device="cuda:1").tolist()
    cuda.set_rng_state(later, 0)
    assert tensor.rand(3, device="cuda:0").tolist() == second
    cuda.set_rng_state_all(states)
    assert [tensor.rand(3, device=f"cuda:{ordinal}").tolist() for ordinal in (0, 1)] == [first, first]
    with cuda.device(1):
        assert cuda.get_rng_state().tolist() == later.tolist()
        cuda.set_rng_state(states[0])
    assert cuda.get_rng_state("cuda:1").tolist() == states[0].tolist()
    # Devices of all kinds go on alike.
    tensor.set_rng_state(states[0])
    assert tensor.rand(3).tolist() == first
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        cuda.get_rng_state("cpu")
    with pytest.raises(RuntimeError):
        cuda.set_rng_state(later, 5)


def test_a_generators_state() -> None:
    one, other = tensor.Generator().manual_seed(5), tensor.Generator("cuda")
    tensor.rand(2, generator=one)
    assert other.set_state(one.get_state()) is other
    assert str(other.device) == "cuda"
    assert other.next_call() == (5, 1)
    state = one.get_state()
    assert one.next_call() == (5, 1)
    assert one.set_state(state[:8].clone().expand(2, 8).reshape(16)).initial_seed() == 5


def test_bad_states(device: drv.Device) -> None:
    state = tensor.get_rng_state()
    for argument in (state.tolist(), state.to(tensor.int8), state.cuda(), None):
        with pytest.raises(TypeError, match="uint8"):
            tensor.set_rng_state(argument)
    with pytest.raises(RuntimeError, match="size 16 but found the input RNG state size to be 3"):
        tensor.set_rng_state(state[:3])
    assert tensor.get_rng_state().tolist() == state.tolist()


@pytest.mark.parametrize("devices", [None, [0, 1], ["cuda:1"], []])
def test_fork(two_devices: tuple[drv.Device, drv.Device], devices: list[object] | None) -> None:
    tensor.manual_seed(6)

    def states() -> list[list[int]]:
        return [each.tolist() for each in (tensor.get_rng_state(), *cuda.get_rng_state_all())]

    before = states()
    with pytest.raises(KeyError), fork_rng(devices):
        tensor.manual_seed(7)
        tensor.rand(2)
        during = states()
        raise KeyError
    restored = {None: (0, 1), 2: (0, 1), 1: (1,), 0: ()}[None if devices is None else len(devices)]
    after = states()
    assert after[0] == before[0]
    for ordinal in (0, 1):
        assert after[1 + ordinal] == (before if ordinal in restored else during)[1 + ordinal]


def test_no_fork(device: drv.Device) -> None:
    tensor.manual_seed(6)
    with fork_rng(enabled=False):
        tensor.manual_seed(7)
    assert tensor.initial_seed() == 7
    with fork_rng(device_type="cpu"):
        tensor.manual_seed(8)
    assert tensor.initial_seed() == 7
    assert cuda.initial_seed() == 8
    with pytest.raises(RuntimeError, match="'xla'"), fork_rng(device_type="xla"):
        pass


def test_fork_decorates() -> None:
    @fork_rng(devices=())
    def draw() -> list[float]:
        tensor.manual_seed(1)
        return tensor.rand(2).tolist()

    tensor.manual_seed(2)
    assert draw() == draw()
    assert tensor.initial_seed() == 2
