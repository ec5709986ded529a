"""Where PyTorch itself is installed, or loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.pytorch import torch

from .programs import run, start, write

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.parity


def test_pytorch_that_is_imported_already_is_an_error(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        """
        import sys, torch
        import tensor
        finders = [*sys.meta_path]
        try:
            import tensor.as_torch
        except ImportError as error:
            print(error)
        assert sys.meta_path == finders and sys.modules["torch"] is torch
        print(tensor.float32)
        """,
    )
    first, second = out.splitlines()
    assert first.startswith(
        f"PyTorch itself is imported already, from {torch.version.__file__[: -len('version.py')]}"
    )
    assert "before every import of torch" in first
    assert second == "tensor.float32"


def test_pytorch_is_not_loaded_where_it_is_installed(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        """
        import sys, torch
        import torch.nn.functional, torch.utils.data, torch.cuda.amp
        print([name for name, module in sys.modules.items() if "site-packages/torch/" in str(getattr(module, "__file__", ""))])
        """,
    )
    assert "'torch.nn.functional'" in start(program, folder=tmp_path).stdout
    assert torch.nn.functional.__file__
    assert run(tmp_path, "import tensor.as_torch\n" + program.read_text()) == "[]\n"
