"""Devices, their current one, streams and events, and the state that a device has in each thread."""
