"""Elman networks, LSTMs and GRUs, and packed sequences."""
