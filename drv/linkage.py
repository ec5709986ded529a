"""Which kernels of a CUDA C++ source are found by their plain name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def has_c_linkage(code: str, name: str) -> bool:
    """Whether ``code`` declares the kernel ``name`` as ``extern "C"``, by itself or in a block of such declarations.

    Such a kernel is found by its name alone. NVRTC must not be asked for the name as an expression: that of a
    function which CUDA has too, such as ``all`` or ``clock``, is ambiguous.
    """
    declaration = rf"[^;{{}}]*?\b{re.escape(name)}\s*\("
    if re.search(rf'\bextern\s*"C"\s{declaration}', code):
        return True
    return any(re.search(rf"\b__global__\b{declaration}", block) for block in _blocks_of_c_linkage(code))


def _blocks_of_c_linkage(code: str) -> Iterator[str]:
    """What stands between the braces of ``extern "C" { }``, as far as braces in comments and texts are balanced."""
    for begin in re.finditer(r'\bextern\s*"C"\s*\{', code):
        depth = 1
        for brace in re.finditer(r"[{}]", code[begin.end() :]):
            depth += 1 if brace.group() == "{" else -1
            if not depth:
                yield code[begin.end() : begin.end() + brace.start()]
                break
