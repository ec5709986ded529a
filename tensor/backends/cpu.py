"""The CPU that this runs on."""

from __future__ import annotations

import numpy as np

__all__ = ["get_cpu_capability"]

#: PyTorch's names of vector instructions, best first, and how NumPy calls what they need.
_LEVELS = (
    ("AVX512", ("X86_V4", "AVX512_SKX", "AVX512F")),
    ("AVX2", ("X86_V3", "AVX2")),
    ("SVE256", ("SVE",)),
    ("VSX", ("VSX3", "VSX2", "VSX")),
)


def get_cpu_capability() -> str:
    """The best vector instructions that NumPy found: ``"AVX512"``, ``"AVX2"``, ``"SVE256"``, ``"VSX"`` or ``"DEFAULT"``."""
    instructions = np.show_config(mode="dicts")["SIMD Extensions"]
    available = {*instructions.get("baseline", ()), *instructions.get("found", ())}
    return next((name for name, needed in _LEVELS if available & set(needed)), "DEFAULT")
