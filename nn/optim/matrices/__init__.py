"""Optimizers whose update of an element depends on the matrix that it is in."""

from .adafactor import Adafactor
from .muon import Muon

__all__ = ["Adafactor", "Muon"]
