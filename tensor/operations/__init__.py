"""What all operations of a kind have in common: planning, launching, recording."""

from .pointwise import Pointwise

__all__ = ["Pointwise"]
