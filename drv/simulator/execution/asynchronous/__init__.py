"""What goes on while threads do: asynchronous copies, barriers that count them, and matrix products of warpgroups."""

from .copies import CopyAccess
from .mbarriers import MbarrierAccess, Mbarriers
from .operations import Operations

__all__ = ["CopyAccess", "MbarrierAccess", "Mbarriers", "Operations"]
