"""Training with unevenly many inputs, by the path that PyTorch has it under."""

from parallel.ddp.joining import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
