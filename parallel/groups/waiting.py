"""How long the system waits at a time, whatever a deadline says."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

LONGEST_WAIT = 2e6
"""Seconds, about 23 days: ``epoll`` and ``poll`` count milliseconds in 32 bits, and refuse more than 24.8 days."""


def seconds_until(deadline: float, least: float = 0.0) -> float:
    """Seconds until ``deadline`` (``time.monotonic``) that a socket or selector waits now: ``least`` to 23 days."""
    return min(max(least, deadline - time.monotonic()), LONGEST_WAIT)


def time_until(deadline: float) -> timedelta:
    """The time until ``deadline``, as an argument of a store's."""
    return timedelta(seconds=lock_timeout(max(0.0, deadline - time.monotonic())))


def lock_timeout(seconds: float) -> float:
    """``seconds``, or as many of them as a lock can wait: 292 years, where a timedelta reaches farther."""
    return min(seconds, threading.TIMEOUT_MAX)


def acquired_by(lock: threading.Lock, deadline: float) -> bool:
    """Whether ``lock`` was acquired before ``deadline``."""
    return lock.acquire(timeout=lock_timeout(max(0.0, deadline - time.monotonic())))
