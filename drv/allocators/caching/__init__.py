"""Allocators that keep freed memory for reuse: of devices, and of pinned host memory."""
