"""``safetensors.torch`` writes and reads our tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .installed import needs, on_devices, run

if TYPE_CHECKING:
    from pathlib import Path


@needs("safetensors")
@on_devices
def test_bytes(tmp_path: Path, device: str) -> None:
    run(
        tmp_path,
        """
        import torch
        from safetensors import safe_open
        from safetensors.torch import load, load_file, load_model, save, save_file, save_model

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
        read = load_file("file.safetensors", device=device)
        assert all(torch.equal(read[name], value) for name, value in tensors.items())
        assert all(value.device.type == device for value in read.values())
        with safe_open("file.safetensors", "pt") as file:
            assert torch.equal(file.get_tensor("a"), tensors["a"].cpu())
            assert torch.equal(file.get_slice("a")[1:, :2], tensors["a"][1:, :2].cpu())
        read["a"].add_(1)
        assert torch.equal(load_file("file.safetensors")["a"], tensors["a"].cpu())

        model, other = (torch.nn.Linear(3, 2).to(device) for _ in range(2))
        save_model(model, "model.safetensors")
        load_model(other, "model.safetensors")
        assert torch.equal(other.weight, model.weight)
        """,
        device,
    )
