"""What packages for PyTorch tell its C++ half of their use: the only name of ``torch._C`` that they cannot do without."""

from __future__ import annotations

__all__ = ["_log_api_usage_once"]


def _log_api_usage_once(event: str) -> None:
    """Do nothing: uses are not recorded. ``event`` names one, as "torchmetrics.metric.Accuracy"."""
