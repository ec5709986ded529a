"""``safetensors.torch`` writes and reads our tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .installed import DEVICES, needs, run

if TYPE_CHECKING:
    from pathlib import Path


@needs("safetensors")
@pytest.mark.parametrize("device", DEVICES)
def test_bytes(tmp_path: Path, device: str) -> None:
    run(
        tmp_path,
        """
        import torch
        from safetensors.torch import load, save, save_file

        tensors = {
            "a": torch.rand(2, 3, device=device),
            "b": torch.ones(2, dtype=torch.bfloat16, device=device),
            "c": torch.tensor([True, False], device=device),
        }
        read = load(save(tensors))
        assert all(torch.equal(read[name], value.cpu()) for name, value in tensors.items())
        save_file(tensors, "file.safetensors")
        read = torch.load("file.safetensors")
        assert all(torch.equal(read[name], value.cpu()) for name, value in tensors.items())
        """,
        device,
    )
