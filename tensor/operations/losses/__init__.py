"""Losses and similarities."""
