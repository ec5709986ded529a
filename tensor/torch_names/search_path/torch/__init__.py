"""What processes of a program that runs as PyTorch's import as ``torch``: it puts graphroot in its own place."""

import sys
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parents[4])
if _ROOT not in sys.path:
    # Where graphroot is not installed, the program found it by a path that this process need not have.
    sys.path.append(_ROOT)
try:
    from graphroot.coexistence import own

    # What it needs is found, whatever the program has by the names of graphroot's packages.
    installation = own("tensor.torch_names.installation")
except ImportError as error:
    raise ImportError(
        f"this process was started by a program that runs with graphroot as torch (its PYTHONPATH has "
        f"{Path(__file__).resolve().parents[1]}), and its Python, {sys.executable}, cannot import graphroot: {error}"
    ) from error
installation.install()
