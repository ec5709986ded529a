"""Device functions as loops on the CPU: what a kernel computes for an element, compiled for the processor of the host.

A pointwise operation is one expression in CUDA C++. NVRTC, which needs no GPU, makes PTX of it; here that becomes a
function of LLVM's, and a loop over elements around it, which LLVM makes vector instructions of. The optional package llvmlite
is needed for it.
"""

from .planning import FEW, flat, mode, plan, plan_packs, set_mode, worth
from .signature import ELEMENT, RELOCATABLE, WORDS, Signature

__all__ = [
    "ELEMENT",
    "FEW",
    "RELOCATABLE",
    "WORDS",
    "Signature",
    "flat",
    "mode",
    "plan",
    "plan_packs",
    "set_mode",
    "worth",
]
