"""Seeds, states and default generators."""

from __future__ import annotations

import copy
import pickle
import threading

import pytest

import drv
from tensor.operations.random import generator as generators
from tensor.operations.random.generator import Generator


def test_a_new_generator() -> None:
    assert Generator().initial_seed() == 67280421310721
    assert str(Generator("cuda:1").device) == "cuda:1"
    assert Generator().next_call() == (67280421310721, 0)


def test_calls_count_and_seeds_start_anew() -> None:
    one = Generator()
    assert one.manual_seed(5) is one
    assert [one.next_call() for _ in range(3)] == [(5, 0), (5, 1), (5, 2)]
    one.manual_seed(5)
    assert one.next_call() == (5, 0)
    assert one.seed() == one.initial_seed()
    assert one.seed() != one.seed()


@pytest.mark.parametrize(("seed", "expected"), [(-1, 2**64 - 1), (-(2**63), 2**63), (2**64 - 1, 2**64 - 1)])
def test_seeds_have_64_bits(seed: int, expected: int) -> None:
    assert Generator().manual_seed(seed).initial_seed() == expected


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_a_seed_that_is_too_large_changes_nothing(seed: int) -> None:
    one = Generator().manual_seed(3)
    one.next_call()
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        one.manual_seed(seed)
    assert one.next_call() == (3, 1)


def test_states() -> None:
    one = Generator().manual_seed(9)
    one.next_call()
    state = one.state_bytes()
    assert len(state) == 16
    following = [one.next_call() for _ in range(3)]
    for other in (one.clone_state(), pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
        assert other.next_call() == (9, 4)
        other.set_state_bytes(state)
        assert [other.next_call() for _ in range(3)] == following
    with pytest.raises(RuntimeError, match="size 16 but found the input RNG state size to be 3"):
        one.set_state_bytes(b"abc")
    assert one.next_call() == (9, 4)


def test_threads_get_calls_of_their_own() -> None:
    one, taken = Generator(), []
    threads = [
        threading.Thread(target=lambda: taken.extend([one.next_call()[1] for _ in range(2000)]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(8000))


def test_default_generators(two_devices: tuple[drv.Device, drv.Device]) -> None:
    assert generators.manual_seed(11) is generators.default_generator()
    assert generators.initial_seed() == 11
    for ordinal in (0, 1):
        assert generators.default_generator(ordinal).next_call() == (11, 0)
        assert generators.default_generator(ordinal).next_call() == (11, 1)
    generators.cuda_manual_seed(12)
    assert generators.default_generator(0).next_call() == (12, 0)
    assert generators.default_generator(1).next_call() == (11, 2)
    generators.cuda_manual_seed_all(13)
    assert (
        generators.default_generator(0).next_call() == generators.default_generator(1).next_call() == (13, 0)
    )
    assert generators.initial_seed() == 11
    assert generators.seed() == generators.initial_seed() == generators.default_generator(1).initial_seed()


@pytest.mark.simulator_only
def test_seeding_chooses_no_driver_and_holds_for_the_next() -> None:
    drv.reset()
    generators.manual_seed(21)
    assert not drv.is_initialized()
    drv.simulator.install()
    assert generators.default_generator(0).next_call() == (21, 0)


def test_a_device_that_is_not_there(device: drv.Device) -> None:
    with pytest.raises(drv.InvalidValueError, match="no device 99"):
        generators.default_generator(99)
