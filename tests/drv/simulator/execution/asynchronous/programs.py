"""Programs in a right and in wrong versions, run under every schedule with all checks."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import drv
from drv.compiler import compile_program, cuda_include_dirs

SCHEDULES = [("eager", 0), ("lazy", 0), ("random", 0), ("random", 1), ("random", 2)]
#: Whether NVRTC finds libcu++ (``<cuda/barrier>`` and the like).
HAS_LIBCUDACXX = any("cccl" in directory for directory in cuda_include_dirs())


@functools.cache
def compiled(source: str, architecture: str = "compute_90a", options: tuple[str, ...] = ()) -> str:
    """PTX with line information."""
    return compile_program(
        source, architecture, name="program.cu", options=options, line_info=True
    ).image.decode()


def run(
    source: str,
    kernel: str,
    grid: Any,
    block: Any,
    arguments: list[Any],
    *,
    architecture: str = "compute_90a",
    options: tuple[str, ...] = (),
    **others: Any,
) -> tuple[Any, ...]:
    """Run a kernel of a CUDA C++ source; what the checkers find."""
    ptx = source if source.lstrip().startswith(".version") else compiled(source, architecture, options)
    return drv.simulator.run(ptx, kernel, grid, block, arguments, collect=True, **others)


def line_of(source: str, text: str) -> int:
    """Number of the one line of a source that has a text."""
    (number,) = [number for number, line in enumerate(source.splitlines(), 1) if text in line]
    return number


def raced_lines(findings: tuple[Any, ...]) -> set[tuple[int, int]]:
    """Source lines of both sides of every race, ascending."""
    pairs = set()
    for finding in findings:
        if finding.first is not None:
            first, second = (side.site.source[1] for side in (finding.first, finding.second))
            pairs.add((min(first, second), max(first, second)))
    return pairs


def counted(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """1, 2, 3, ..."""
    return (1 + np.arange(int(np.prod(shape)))).astype(dtype).reshape(shape)
