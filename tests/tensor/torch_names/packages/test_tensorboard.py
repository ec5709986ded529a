"""tensorboardX writes our tensors, by its own class and by ``torch.utils.tensorboard``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .installed import needs, on_devices, run

if TYPE_CHECKING:
    from pathlib import Path


@needs("tensorboardX")
@on_devices
@pytest.mark.parametrize("module", ["tensorboardX", "torch.utils.tensorboard"])
def test_writer(tmp_path: Path, device: str, module: str) -> None:
    run(
        tmp_path,
        f"""
        import torch
        from {module} import SummaryWriter

        x = torch.rand(2, 3, 4, 4, device=device)
        with SummaryWriter("runs") as writer:
            writer.add_scalar("loss", x.mean().requires_grad_(), 1)
            writer.add_scalars("losses", {{"a": x.mean()}}, 1)
            writer.add_histogram("values", x, 1)
            writer.add_image("image", x[0], 1)
            writer.add_images("images", x, 1)
        from pathlib import Path

        written = b"".join(path.read_bytes() for path in Path("runs").rglob("events*"))
        assert all(tag in written for tag in (b"loss", b"values", b"image", b"images"))
        """,
        device,
    )
