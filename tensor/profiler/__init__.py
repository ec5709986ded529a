"""What a program does with its time, on the host and on devices, with PyTorch's names.

Three sources of time: the host's clock; on the simulated driver a model of the GPU that it stands for; on a GPU what the
hardware says. ``docs/profiling.md`` is the guide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor.core.names.absent import hints as _hints

from .events import DeviceType
from .profile import (
    ProfilerActivity,
    kineto_available,
    profile,
    record_function,
    supported_activities,
    tensorboard_trace_handler,
)
from .schedules import ProfilerAction, schedule

__all__ = [
    "DeviceType",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
