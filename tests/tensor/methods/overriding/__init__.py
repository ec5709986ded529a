"""Subclasses and modes that take over operations."""
