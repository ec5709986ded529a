"""Random numbers: one counter-based generator for CPU and CUDA.

The names are those of ``torch.random``; tensors of random numbers are made by functions of :mod:`tensor`.
"""

from typing import TYPE_CHECKING

from tensor.core.names.absent import hints as _hints
from tensor.operations.random.generator import initial_seed, manual_seed, seed
from tensor.operations.random.state import fork_rng, get_rng_state, set_rng_state

__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
