"""Where the tensors of a test lie, and how precise products are: as in the tests of tensors."""

from __future__ import annotations

from tests.tensor.conftest import full_precision, place_name

__all__ = ["full_precision", "place_name"]
