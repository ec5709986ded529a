"""What packages ask ``torch._dynamo.utils``."""

from __future__ import annotations

from typing import Any


def is_compile_supported(device_type: Any) -> bool:
    """False: ``compile`` leaves functions as they are, on every ``device_type``."""
    return False
