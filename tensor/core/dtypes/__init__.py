"""Promotion of dtypes, limits of their values, and Python numbers as elements."""
