"""Mixed precision: see :mod:`tensor.amp`, whose names these are."""

from tensor.amp import GradScaler, autocast, custom_bwd, custom_fwd, is_autocast_available

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
