"""Where the tensors of a test lie, and how precise products are: as in the tests of tensors."""

from __future__ import annotations

from tests.tensor.conftest import device_name, full_precision

__all__ = ["device_name", "full_precision"]
