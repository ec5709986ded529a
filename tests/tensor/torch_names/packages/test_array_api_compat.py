"""array_api_compat: the namespace of the array API for our tensors is its own for PyTorch's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .installed import needs, on_devices, run

if TYPE_CHECKING:
    from pathlib import Path


@needs("array_api_compat")
@on_devices
def test_namespace(tmp_path: Path, device: str) -> None:
    run(
        tmp_path,
        """
        import array_api_compat, torch

        x = torch.arange(6.0, device=device).reshape(2, 3)
        assert array_api_compat.is_torch_array(x) and array_api_compat.is_array_api_obj(x)
        xp = array_api_compat.array_namespace(x)
        assert xp.__name__ == "array_api_compat.torch"
        assert array_api_compat.device(x) == x.device and array_api_compat.size(x) == 6
        assert array_api_compat.to_device(x, "cpu").device.type == "cpu"
        assert xp.sum(x, axis=1).tolist() == [3, 12]
        assert xp.max(x, axis=(0, 1)) == 5
        assert torch.allclose(xp.std(x, axis=0), torch.full((3,), 1.5, device=device))
        assert torch.equal(xp.concat([x, x], axis=0)[2:], x)
        assert xp.permute_dims(x, (1, 0)).shape == (3, 2)
        assert xp.astype(x, xp.int64).dtype == torch.int64 and xp.isdtype(x.dtype, "real floating")
        assert xp.take(x, torch.tensor([2], device=device), axis=1).tolist() == [[2], [5]]
        assert xp.unique_values(torch.tensor([1, 1, 2], device=device)).tolist() == [1, 2]
        assert torch.allclose(xp.linalg.vector_norm(x, axis=1), torch.linalg.vector_norm(x, dim=1))
        assert "float32" in xp.__array_namespace_info__().dtypes()
        """,
        device,
    )
