"""Checks of what runs: happens-before, races, and reads of memory that was never written."""
