"""opt_einsum, which finds the library by the name of the tensors' module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .installed import needs, on_devices, run

if TYPE_CHECKING:
    from pathlib import Path


@needs("opt_einsum")
@on_devices
def test_contractions(tmp_path: Path, device: str) -> None:
    run(
        tmp_path,
        """
        import opt_einsum, torch

        # The order of the products differs, and so would the rounding of TF32.
        torch.set_float32_matmul_precision("highest")
        a = torch.rand(3, 4, device=device, requires_grad=True)
        b, c = torch.rand(4, 5, device=device), torch.rand(5, 2, device=device)
        y = opt_einsum.contract("ij,jk,kl->il", a, b, c)
        assert torch.allclose(y, a @ b @ c) and y.device == a.device
        y.sum().backward()
        assert torch.allclose(a.grad, (b @ c).sum(1).expand(3, 4))
        product = opt_einsum.contract_expression("ij,jk->ik", (3, 4), (4, 5))
        assert torch.allclose(product(a, b), a @ b)
        """,
        device,
    )
