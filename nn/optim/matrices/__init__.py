"""Optimizers whose update of an element depends on the matrix that it is in."""

from .adafactor import Adafactor

__all__ = ["Adafactor"]
