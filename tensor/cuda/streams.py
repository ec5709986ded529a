"""Streams and events, by the path that PyTorch has them under."""

from tensor.core.devices.event import Event
from tensor.core.devices.stream import ExternalStream, Stream

__all__ = ["Event", "ExternalStream", "Stream"]
