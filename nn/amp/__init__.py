"""Mixed precision: gradients of losses that were scaled, so that half precision holds them."""

from .grad_scaler import GradScaler

__all__ = ["GradScaler"]
