"""Streams and events, by the path that PyTorch has them under."""

from typing import TYPE_CHECKING

from tensor.core.devices.event import Event
from tensor.core.devices.stream import ExternalStream, Stream
from tensor.core.names.absent import hints as _hints

__all__ = ["Event", "ExternalStream", "Stream"]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
