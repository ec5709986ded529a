"""Allocators that find writes outside their blocks and uses of freed memory."""
