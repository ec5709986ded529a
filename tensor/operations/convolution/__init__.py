"""Convolutions and transposed convolutions, ``unfold`` and ``fold``."""
