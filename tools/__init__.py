"""Programs run with ``python -m tools.NAME``."""
