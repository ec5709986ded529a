"""Which products are kernels of our own with the operations behind them; what they compute is tested where they are used."""

from __future__ import annotations

import drv
from nvrtc_kernels.dtypes import bfloat16, dtype, float32
from nvrtc_kernels.fused_products import ProductKernel, takes


def test_large_products_are_left_to_cublas() -> None:
    with drv.simulator.installed(model="h200"):
        device = drv.Device(0)

        def takes_product(rows: int, n: int, depth: int, kind: dtype = bfloat16) -> bool:
            return takes(device, ProductKernel(kind, rows, n, depth, True, has_bias=True))

        assert takes_product(512, 1536, 384) and takes_product(64, 256, 128)
        # Much work, and few blocks with many steps each.
        assert not takes_product(8192, 4096, 1024) and not takes_product(512, 384, 4096)
        # Rows that are no whole packs, and another dtype.
        assert not takes_product(512, 1532, 384) and not takes_product(512, 1536, 380)
        assert not takes_product(512, 1536, 384, float32)
