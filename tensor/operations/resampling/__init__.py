"""Interpolation, sampling on grids, and padding."""
