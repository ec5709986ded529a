"""``detect_anomaly``: find the operation whose derivative fails or gives NaN."""

from __future__ import annotations

import warnings
from typing import Self

from .recording import anomaly

__all__ = [
    "detect_anomaly",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "set_anomaly_enabled",
    "set_detect_anomaly",
]


class set_detect_anomaly:  # noqa: N801 - PyTorch's name
    """Turn anomaly detection on or off, in all threads; used with ``with``, until its end.

    Operations remember where they were called. When the derivative of one fails, a warning says where that
    was; when it gives NaN, an error does.

    Parameters
    ----------
    mode : bool
        Whether anomalies are looked for.
    check_nan : bool
        Whether gradients are looked through for NaN, for which the host waits.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = anomaly.mode.enabled, anomaly.mode.check_nan
        anomaly.mode.enabled, anomaly.mode.check_nan = bool(mode), bool(check_nan)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        anomaly.mode.enabled, anomaly.mode.check_nan = self._before


class detect_anomaly:  # noqa: N801 - PyTorch's name
    """Look for anomalies inside ``with``, as :class:`set_detect_anomaly` does; slow, for debugging only.

    Parameters
    ----------
    check_nan : bool
        Whether gradients are looked through for NaN, for which the host waits: a backward pass that computes one
        raises RuntimeError.

    Warns
    -----
    UserWarning
        That the mode is slow.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = bool(check_nan)
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> Self:
        self._before = anomaly.mode.enabled, anomaly.mode.check_nan
        anomaly.mode.enabled, anomaly.mode.check_nan = True, self.check_nan
        return self

    def __exit__(self, *exception: object) -> None:
        anomaly.mode.enabled, anomaly.mode.check_nan = self._before


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Turn anomaly detection on or off, as :class:`set_detect_anomaly` without ``with``.

    Parameters
    ----------
    enabled : bool
        Whether anomalies are looked for.
    check_nan : bool
        Whether gradients are looked through for NaN, for which the host waits.

    Raises
    ------
    TypeError
        If one of them is no bool.
    """
    for name, value in (("enabled", enabled), ("check_nan", check_nan)):
        if not isinstance(value, bool):
            raise TypeError(
                f"set_anomaly_enabled(): argument '{name}' must be bool, not {type(value).__name__}"
            )
    anomaly.mode.enabled, anomaly.mode.check_nan = enabled, check_nan


def is_anomaly_enabled() -> bool:
    """Whether anomalies are looked for: :class:`set_detect_anomaly` or :class:`detect_anomaly` is on."""
    return anomaly.mode.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether gradients are looked through for NaN while anomalies are looked for; True unless set."""
    return anomaly.mode.check_nan
