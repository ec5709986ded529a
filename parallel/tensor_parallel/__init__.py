"""Modules whose layers are divided among ranks by a plan."""
