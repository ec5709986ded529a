"""einops, which tells tensors by the name of their module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .installed import needs, on_devices, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs("einops")


@on_devices
def test_functions(tmp_path: Path, device: str) -> None:
    run(
        tmp_path,
        """
        import torch
        from einops import einsum, pack, parse_shape, rearrange, reduce, repeat, unpack

        x = torch.arange(24.0, device=device).reshape(2, 3, 4)
        assert torch.equal(rearrange(x, "b c d -> b (d c)"), x.permute(0, 2, 1).reshape(2, 12))
        assert torch.equal(rearrange(x, "b c (h w) -> (b h) c w", h=2)[1], x[0, :, 2:])
        assert torch.equal(rearrange([x, x], "n b c d -> b n c d"), torch.stack([x, x], 1))
        assert torch.equal(reduce(x, "b c d -> b d", "mean"), x.mean(1))
        assert torch.equal(reduce(x, "b c d -> b d", "max"), x.amax(1))
        assert torch.equal(reduce(x > 5, "b c d -> b", "any"), torch.tensor([True, True], device=device))
        assert torch.equal(repeat(x, "b c d -> b n c d", n=5), x[:, None].expand(2, 5, 3, 4))
        assert torch.allclose(einsum(x, x, "b c d, b e d -> b c e"), x @ x.mT)
        packed, shapes = pack([x, x[:, 0]], "b * d")
        assert packed.shape == (2, 4, 4)
        assert torch.equal(unpack(packed, shapes, "b * d")[1], x[:, 0])
        assert parse_shape(x, "b _ d") == {"b": 2, "d": 4}
        """,
        device,
    )


@on_devices
def test_layers(tmp_path: Path, device: str) -> None:
    run(
        tmp_path,
        """
        import torch
        from einops.layers.torch import EinMix, Rearrange, Reduce

        x = torch.rand(2, 3, 4, device=device, requires_grad=True)
        net = torch.nn.Sequential(
            EinMix("b c d -> b c e", weight_shape="d e", bias_shape="e", d=4, e=2),
            Rearrange("b c e -> b (c e)"),
            torch.nn.Linear(6, 2),
            Reduce("b f -> f", "sum"),
        ).to(device)
        assert all(isinstance(each, torch.nn.Module) for each in net)
        net(x).sum().backward()
        assert x.grad.abs().sum() > 0 and net[0].weight.grad.shape == (4, 2)
        """,
        device,
    )
