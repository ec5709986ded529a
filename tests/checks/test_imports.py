"""Importing the packages needs no extra, and loads no driver, no compiler and little of what few programs use."""

from __future__ import annotations

import subprocess
import sys

import pytest

EXTRAS = ("sklearn", "matplotlib", "tqdm", "pytest", "hypothesis", "scipy")
LAZY = (
    "cuda.bindings.driver",
    "cuda.bindings.nvrtc",
    # Parts of the import's time that most programs do without.
    "concurrent.futures",
    "email",
    "importlib.metadata",
    "zipfile",
    "tensor.compilation",
    "tensor.serialization.saving",
    "tensor.func",
    "tensor.testing",
    "tensor.utils.data",
)
#: What some modules of ours need, imported where they need it.
LATE = (
    "hashlib",
    "importlib.abc",
    "importlib.resources",
    "json",
    "numpy.fft",
    "pkgutil",
    "string",
    "tempfile",
    "threadpoolctl",
    "drv.allocators",
    "nn.attention",
    "nn.optim",
    "tensor.operations.convolution.directions",
    "tensor.utils._pytree",
)
PACKAGES = ("drv", "nvrtc_kernels", "tensor", "nn", "parallel", "tools", "tools.bench")


@pytest.mark.parametrize("package", PACKAGES)
def test_import(package: str) -> None:
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({EXTRAS!r})); import {package}, drv; "
        f"assert not drv.is_initialized(); print(*[name for name in {LAZY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


def test_import_leaves_for_later_what_little_needs() -> None:
    # What the interpreter itself brings, such as hooks of other packages in its folder, is not ours.
    code = (
        "import sys; before = set(sys.modules); import tensor, nn, parallel; "
        f"print(*[name for name in {LATE!r} if name in sys.modules and name not in before])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_import_of_drv_loads_no_numpy() -> None:
    code = "import sys, drv; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
