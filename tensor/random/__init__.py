"""Random numbers: one counter-based generator for CPU and CUDA.

The names are those of ``torch.random``; tensors of random numbers are made by functions of :mod:`tensor`.
"""

from .generator import initial_seed, manual_seed, seed
from .state import fork_rng, get_rng_state, set_rng_state

__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]
