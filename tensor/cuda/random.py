"""Seeds and states of the CUDA devices' default generators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import drv
from tensor.core.names.absent import hints as _hints
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
    """Seed the current device's default generator from the operating system.

    Before a driver is in use, those of all devices are seeded, and no driver is chosen.
    """
    manual_seed(random_seed())


def seed_all() -> None:
    """Seed the default generators of all CUDA devices from the operating system, all with the same seed.

    Creates no context and chooses no driver: generators that do not exist yet take the seed when they are created.
    """
    manual_seed_all(random_seed())


def initial_seed() -> int:
    """Seed of the current device's default generator, in ``[0, 2**64)``.

    Raises
    ------
    RuntimeError
        If there is no driver or no device.
    """
    return default_generator(drv.current_device().ordinal).initial_seed()


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
