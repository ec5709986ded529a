"""Collectives over NVIDIA's NCCL, queued on streams."""
