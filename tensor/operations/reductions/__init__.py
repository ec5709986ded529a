"""Reductions, scans, and statistics."""
