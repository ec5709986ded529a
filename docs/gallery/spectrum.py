"""What ``examples/denoise.py`` draws: a photograph with stripes, its spectrum with what is taken away, and the result."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "denoise.py"


def write(path: Path) -> None:
    """Run the example on the CPU with the whole photograph."""
    subprocess.run([sys.executable, str(_EXAMPLE), "--output", str(path)], check=True)
