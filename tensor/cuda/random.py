"""Seeds and states of the CUDA devices' default generators."""

from __future__ import annotations

import drv
from tensor.operations.random.generator import cuda_manual_seed as manual_seed
from tensor.operations.random.generator import cuda_manual_seed_all as manual_seed_all
from tensor.operations.random.generator import default_generator, random_seed
from tensor.operations.random.state import cuda_get_rng_state as get_rng_state
from tensor.operations.random.state import cuda_get_rng_state_all as get_rng_state_all
from tensor.operations.random.state import cuda_set_rng_state as set_rng_state
from tensor.operations.random.state import cuda_set_rng_state_all as set_rng_state_all

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def seed() -> None:
    """Seed the current device's generator from the operating system; before a driver is in use, all."""
    manual_seed(random_seed())


def seed_all() -> None:
    """Seed the generators of all devices from the operating system, all with the same seed."""
    manual_seed_all(random_seed())


def initial_seed() -> int:
    """Seed of the current device's generator."""
    return default_generator(drv.current_device().ordinal).initial_seed()
